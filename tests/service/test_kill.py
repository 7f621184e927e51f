"""kill -9 of the server in the middle of batches of writes.

What must hold after each kill, on the same data directory:

1. every acknowledged item is found by get, with its newest acknowledged content or a newer one that was under way;
2. every batch is there as a whole or not at all, and the count is the number of items that get finds;
3. every item that get finds is found by a query for its own vector, with score 1: nothing is half indexed;
4. sending an unacknowledged batch again does no harm.

kill -9 says nothing about power loss: the page cache survives it. What it shows is that no state
outside the transaction (views, bands, background merges) is needed to answer.
"""

from __future__ import annotations

import io
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nursery import until
from service_process import QuickServer

KILLS = 20
BATCH = 12
DIM = 24
WRITERS = 3
SEEDED = 8_000
"""Items that are there from the start: with them the writes pass the 8,192 fresh rows at which a run is sealed, under the kills."""


def vector_of(writer: int, batch: int, row: int, version: int) -> list[float]:
    """A vector that no other item has."""
    chosen = random.Random(f"{writer}/{batch}/{row}/{version}")
    return [float(chosen.randint(1, 1_000)) for _ in range(DIM)]


@dataclass
class Writer:
    """One client that adds batch after batch, sometimes the same ids again with new content."""

    number: int
    acknowledged: dict[int, int] = field(default_factory=dict)
    """batch → version that the server acknowledged"""
    pending: tuple[int, int] | None = None
    """(batch, version) that was sent and not acknowledged"""
    next_batch: int = 0
    touched: set[int] = field(default_factory=set)
    """batches that were sent since the last check"""
    interrupted: int = 0
    """how often a batch was under way when the server died"""

    def ids(self, batch: int) -> list[str]:
        """The ids of one batch."""
        return [f"w{self.number}-{batch}-{row}" for row in range(BATCH)]

    def items(self, batch: int, version: int) -> list[dict[str, Any]]:
        """The items of one batch in one version."""
        return [
            {"id": name, "vector": vector_of(self.number, batch, row, version), "payload": {"version": version}}
            for row, name in enumerate(self.ids(batch))
        ]

    def write_until_the_server_dies(self, server: QuickServer) -> None:
        """Retry what is unacknowledged, then add, until the connection breaks."""
        choose = random.Random(self.number + self.next_batch)
        with server.pinned() as client:
            while True:
                if self.pending is None:
                    if self.acknowledged and choose.random() < 0.3:
                        batch = choose.choice(list(self.acknowledged))
                        self.pending = batch, self.acknowledged[batch] + 1
                    else:
                        self.pending = self.next_batch, 0
                        self.next_batch += 1
                batch, version = self.pending
                self.touched.add(batch)
                try:
                    response = client.post("/index", json={"items": self.items(batch, version)})
                except httpx.TransportError:
                    self.interrupted += 1
                    return
                assert response.status_code == 200, response.text
                self.acknowledged[batch] = version
                self.pending = None

    def check(self, server: QuickServer, batches: set[int]) -> None:
        """These batches are whole, in their acknowledged version or in the one that was under way."""
        names = [name for batch in sorted(batches) for name in self.ids(batch)]
        found = server.post("/v1/collections/default/get", {"ids": names})
        stored = {item["id"]: item for item in found["items"]}
        for batch in batches:
            where = f"batch {batch} of writer {self.number}"
            allowed = {self.acknowledged.get(batch)} | ({self.pending[1]} if self.pending and self.pending[0] == batch else set())
            versions = {stored[name]["payload"]["version"] if name in stored else None for name in self.ids(batch)}
            assert len(versions) == 1, f"{where} is torn: {versions}"
            assert versions <= allowed, f"{where} is {versions}, and should be one of {allowed} (None: not there)"
            version = versions.pop()
            if version is not None:
                vectors = [stored[name]["vector"] for name in self.ids(batch)]
                assert vectors == [vector_of(self.number, batch, row, version) for row in range(BATCH)], f"{where} has other vectors"

    def stored(self, server: QuickServer) -> int:
        """How many items of this writer there are."""
        batches = len(self.acknowledged)
        if self.pending and self.pending[0] not in self.acknowledged:
            batches += not server.post("/v1/collections/default/get", {"ids": self.ids(self.pending[0])})["missing"]
        return batches * BATCH


def acknowledged(writers: list[Writer]) -> int:
    """How many batches the server has acknowledged."""
    return sum(len(writer.acknowledged) for writer in writers)


def check_queries(server: QuickServer, writer: Writer, batches: set[int]) -> None:
    """The items of these batches are found by a query for their own vector, as usual and by a scan."""
    names = [name for batch in sorted(batches) for name in writer.ids(batch)]
    stored = server.post("/v1/collections/default/get", {"ids": names})["items"]
    for mode in ("auto", "exact"):
        answers = server.post("/query", {"queries": [item["vector"] for item in stored], "k": 1, "mode": mode})["answers"]
        for item, answer in zip(stored, answers, strict=True):
            assert [hit["id"] for hit in answer["results"]] == [item["id"]], f"{item['id']} is not found by a query ({mode})"
            assert answer["results"][0]["score"] == pytest.approx(1.0, abs=1e-6)


def check_all(server: QuickServer, writers: list[Writer], *, touched_only: bool) -> None:
    """What the head of this file promises, of the batches touched since the last kill or of all."""
    for writer in writers:
        batches = writer.touched if touched_only else set(range(writer.next_batch))
        writer.check(server, batches)
        check_queries(server, writer, batches)
        writer.touched = {writer.pending[0]} if writer.pending else set()
    assert server.post("/v1/collections/default/count", {}) == {"count": SEEDED + sum(writer.stored(server) for writer in writers)}


def seed(server: QuickServer) -> None:
    """Fill `default` with items that are not touched again."""
    stream = io.BytesIO()
    np.save(stream, np.random.default_rng(0).integers(1, 1_000, (SEEDED, DIM)).astype(np.float32))
    response = server.client.post("/index", content=stream.getvalue(), headers={"content-type": "application/x-npy"})
    assert response.status_code == 200, response.text


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.durability
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_and_nothing_is_half_indexed(tmp_path: Path) -> None:
    """Twenty kills at random moments of concurrent writes: see the head of this file for what holds after each."""
    chance = random.Random(20_261_121)
    writers = [Writer(number) for number in range(WRITERS)]
    with QuickServer(tmp_path / "data", access_log="false") as server:
        server.start()
        seed(server)
        for _ in range(KILLS):
            before = acknowledged(writers)
            threads = [threading.Thread(target=writer.write_until_the_server_dies, args=(server,)) for writer in writers]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.0, 0.15))
            # On a busy machine as much is written between two kills as on another.
            until(lambda before=before: acknowledged(writers) >= before + 4)
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            for thread in threads:
                thread.join(30)
            server.start()
            check_all(server, writers, touched_only=True)
        check_all(server, writers, touched_only=False)
        stats = server.client.get("/v1/collections/default").json()["stats"]
        assert stats["runs"], "no run was sealed: the kills never met the background work"
        assert acknowledged(writers) > 3 * KILLS, "too little was written for the kills to mean anything"
        assert sum(writer.interrupted for writer in writers) > KILLS, "too few kills hit a batch under way"
        assert server.stop(signal.SIGTERM) == 0
