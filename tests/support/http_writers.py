"""Clients that write batches over HTTP while servers are killed, and what has to be there afterwards."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import httpx
import pytest

from service_process import ServerProcess

__all__ = ["BATCH", "DIM", "Writer", "acknowledged", "check_all"]

BATCH = 12
DIM = 24
_AGAIN_SECONDS = 0.01
"""Before a client whose connection broke connects again."""
_AT_ONCE = 60
"""Batches that are looked at by one request: a thousand queries are its limit."""
_PAUSE_SECONDS = 0.1
"""Between two writes of a client that writes until it is told to stop: a worker takes seconds to start."""


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
    hasty: bool = False
    """A planted bug: it takes for acknowledged what was sent."""

    def ids(self, batch: int) -> list[str]:
        """The ids of one batch."""
        return [f"w{self.number}-{batch}-{row}" for row in range(BATCH)]

    def items(self, batch: int, version: int) -> list[dict[str, Any]]:
        """The items of one batch in one version."""
        return [
            {"id": name, "vector": vector_of(self.number, batch, row, version), "payload": {"version": version}}
            for row, name in enumerate(self.ids(batch))
        ]

    def write_until_the_server_dies(self, server: ServerProcess) -> None:
        """Retry what is unacknowledged, then add, until the connection breaks."""
        choose = random.Random(self.number + self.next_batch)
        with server.pinned() as client:
            while self._write(client, choose):
                pass

    def write_until(self, server: ServerProcess, stop: Event) -> None:
        """The same until an event is set, by a new connection wherever one broke.

        Raises:
            TimeoutError: a write was neither acknowledged nor refused within a minute.
        """
        choose = random.Random(self.number + self.next_batch)
        while not stop.is_set():
            with server.pinned() as client:
                while not stop.is_set() and self._write(client, choose):
                    stop.wait(_PAUSE_SECONDS)
            time.sleep(_AGAIN_SECONDS)

    def _write(self, client: httpx.Client, choose: random.Random) -> bool:
        """Send a batch, and note what becomes of it. Returns whether the connection held."""
        if self.pending is None:
            if self.acknowledged and choose.random() < 0.3:
                batch = choose.choice(list(self.acknowledged))
                self.pending = batch, self.acknowledged[batch] + 1
            else:
                self.pending = self.next_batch, 0
                self.next_batch += 1
        batch, version = self.pending
        self.touched.add(batch)
        if self.hasty:
            self.acknowledged[batch], self.pending = version, None
        try:
            response = client.post("/index", json={"items": self.items(batch, version)})
        except httpx.TimeoutException as error:
            raise TimeoutError(f"batch {batch} of writer {self.number} waits for ever") from error
        except httpx.TransportError:
            self.interrupted += 1
            return False
        assert response.status_code == 200, response.text
        self.acknowledged[batch] = version
        self.pending = None
        return True

    def check(self, server: ServerProcess, batches: set[int]) -> None:
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

    def stored(self, server: ServerProcess) -> int:
        """How many items of this writer there are."""
        batches = len(self.acknowledged)
        if self.pending and self.pending[0] not in self.acknowledged:
            batches += not server.post("/v1/collections/default/get", {"ids": self.ids(self.pending[0])})["missing"]
        return batches * BATCH


def acknowledged(writers: list[Writer]) -> int:
    """How many batches the server has acknowledged."""
    return sum(len(writer.acknowledged) for writer in writers)


def check_queries(server: ServerProcess, writer: Writer, batches: set[int], *, linked: bool = False) -> None:
    """The items of these batches are found by a query for their own vector, as usual and by a scan.

    linked: rows are walked to, so that a usual query may miss one in ten.
    """
    names = [name for batch in sorted(batches) for name in writer.ids(batch)]
    stored = server.post("/v1/collections/default/get", {"ids": names})["items"]
    for mode in ("auto", "exact"):
        answers = server.post("/query", {"queries": [item["vector"] for item in stored], "k": 1, "mode": mode})["answers"]
        missed = []
        for item, answer in zip(stored, answers, strict=True):
            if [hit["id"] for hit in answer["results"]] != [item["id"]]:
                missed.append(item["id"])
            else:
                assert answer["results"][0]["score"] == pytest.approx(1.0, abs=1e-6)
        assert len(missed) <= (len(stored) // 10 if linked and mode == "auto" else 0), f"not found by a query ({mode}): {missed[:5]}"


def check_all(server: ServerProcess, writers: list[Writer], *, touched_only: bool, others: int = 0, linked: bool = False) -> None:
    """That nothing acknowledged is lost and nothing half there, of the batches touched since the last look or of all.

    others: items that none of the writers wrote. linked: see `check_queries`.
    """
    for writer in writers:
        batches = sorted(writer.touched) if touched_only else list(range(writer.next_batch))
        for first in range(0, len(batches), _AT_ONCE):
            some = set(batches[first : first + _AT_ONCE])
            writer.check(server, some)
            check_queries(server, writer, some, linked=linked)
        writer.touched = {writer.pending[0]} if writer.pending else set()
    assert server.post("/v1/collections/default/count", {}) == {"count": others + sum(writer.stored(server) for writer in writers)}
