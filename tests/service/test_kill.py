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
from pathlib import Path

import numpy as np
import pytest

from http_writers import DIM, Writer, acknowledged, check_all
from nursery import until
from service_process import QuickServer

KILLS = 20
WRITERS = 3
SEEDED = 8_000
"""Items that are there from the start: with them the writes pass the 8,192 fresh rows at which a run is sealed, under the kills."""


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
            check_all(server, writers, touched_only=True, others=SEEDED)
        check_all(server, writers, touched_only=False, others=SEEDED)
        stats = server.client.get("/v1/collections/default").json()["stats"]
        assert stats["runs"], "no run was sealed: the kills never met the background work"
        assert acknowledged(writers) > 3 * KILLS, "too little was written for the kills to mean anything"
        assert sum(writer.interrupted for writer in writers) > KILLS, "too few kills hit a batch under way"
        assert server.stop(signal.SIGTERM) == 0
