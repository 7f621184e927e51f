"""A service whose workers, and whose parent, are killed while clients write and ask; and what is left then."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx

import kinbin
from http_writers import DIM, Writer, acknowledged, check_all
from nursery import until
from service_process import QuickServer, is_worker, worker_pids
from torture.crashes import Verdicts

__all__ = ["served_campaign"]

_WRITERS, _WORKERS = 3, 2
_OF_ONE = 40
"""Kills of one database; then another one is made, for looking at it takes longer and longer."""
_LOOKED_AT = 10
"""Kills between looks at everything: all batches over HTTP, then, with the service ended, all checksums."""
_WRITTEN = 4
"""Batches acknowledged before a kill, however slow the machine is."""
_SMALL = {"seal_rows": 300, "quiet_seal_rows": 100, "link_rows": 200, "quiet_seconds": 0.2}
"""So that every state is gone through between two kills: seals, merges, links."""


class _Reader:
    """Asks until it is told to stop. `wrong`: an answer that is none, or no answer within a minute."""

    def __init__(self, server: QuickServer, stop: threading.Event) -> None:
        self._server, self._stop, self.wrong = server, stop, ""

    def ask(self) -> None:
        """Until it is told to stop, or something is wrong."""
        while not self._stop.is_set() and not self.wrong:
            with self._server.pinned() as client, suppress(httpx.TransportError):
                while not self._stop.is_set() and not self.wrong:
                    try:
                        response = client.post("/query", json={"queries": [[1.0] * DIM], "k": 5})
                    except httpx.TimeoutException:
                        self.wrong = "a query waits for ever"
                        break
                    if response.status_code != 200:
                        self.wrong = f"a query was answered {response.status_code}: {response.text[:200]}"
                    else:
                        scores = [hit["score"] for hit in response.json()["answers"][0]["results"]]
                        self.wrong = "" if scores == sorted(scores, reverse=True) else f"scores out of order: {scores}"
            time.sleep(0.01)


def served_campaign(work: Path, seed: int, kills: int, *, hasty: bool = False, seconds: float = 1e9) -> Verdicts:
    """Kill a worker, or every third time the parent, so many times, under load; after each what was acknowledged has to be there.

    The first that is wrong ends it.

    seed: of the moments. hasty: a planted bug, see `http_writers.Writer`.
    """
    rng, out, began = random.Random(seed), Verdicts(), time.monotonic()
    for first in range(0, kills, _OF_ONE):
        data, writers = work / f"served-{first}", [Writer(number, hasty=hasty) for number in range(_WRITERS)]
        with QuickServer(data, access_log="false", workers=_WORKERS, **_SMALL) as server:
            _start(server)
            server.client.put("/v1/collections/default", json={"dim": DIM}).raise_for_status()
            last = min(kills, first + _OF_ONE)
            for kill in range(first, last):
                what = "parent" if kill % 3 == 2 else "worker"
                whole = kill % _LOOKED_AT == _LOOKED_AT - 1 or kill == last - 1
                try:
                    wrong = _killed(server, writers, what, rng) or _looked_at(server, writers, whole=whole)
                except (AssertionError, TimeoutError, httpx.HTTPError) as error:
                    wrong = f"{type(error).__name__}: {error}"[:600]
                out.add(f"seed {seed}, kill {kill}, {what}, {acknowledged(writers)} batches", wrong, what)
                if wrong or time.monotonic() - began > seconds:
                    return out
    return out


def _start(server: QuickServer) -> None:
    """Start the service, and wait until all of its workers are ready."""
    server.launch()
    server.starts += _WORKERS
    server.wait_until_ready(server.starts)


def _killed(server: QuickServer, writers: list[Writer], what: str, rng: random.Random) -> str:
    """Kill a worker or the parent under load, and have everything run again. Returns what is wrong."""
    stop, before = threading.Event(), acknowledged(writers)
    reader, failures = _Reader(server, stop), list[str]()

    def write(writer: Writer) -> None:
        try:
            writer.write_until(server, stop)
        except (AssertionError, TimeoutError) as error:
            failures.append(f"a write: {error}"[:300])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    threads.append(threading.Thread(target=reader.ask))
    for thread in threads:
        thread.start()
    until(lambda: failures or acknowledged(writers) >= before + _WRITTEN)
    time.sleep(rng.uniform(0.0, 0.3))
    workers = worker_pids(server.process.pid)
    if what == "parent":
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(60)
        stop.set()
        until(lambda: not any(is_worker(pid) for pid in workers))
    else:
        os.kill(rng.choice(sorted(workers)), signal.SIGKILL)
        server.starts += 1
        server.wait_until_ready(server.starts)
        after = acknowledged(writers)
        until(lambda: failures or acknowledged(writers) >= after + _WRITTEN)
        stop.set()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            failures.append("a client never ended")
    if what == "parent":
        server.client.close()
        server.client = server.pinned()
        _start(server)
    return (failures or [reader.wrong])[0]


def _looked_at(server: QuickServer, writers: list[Writer], *, whole: bool) -> str:
    """What is wrong with what the service answers; whole: of everything, and with its files, once it has ended."""
    check_all(server, writers, touched_only=not whole, linked=True)
    if not whole:
        return ""
    if (status := server.stop(signal.SIGTERM)) != 0:
        return f"the service ended with {status}"
    with kinbin.open(server.data) as database:
        collection = database.collection("default")
        wrong = [*collection.check().problems]
        collection.compact()
        collection.link()
        wrong += [*collection.check().problems]
        if (left := collection.stats()["links"]) is None or left["unlinked_rows"]:
            wrong.append(f"linking did not complete: {left}")
    _start(server)
    check_all(server, writers, touched_only=False, linked=True)
    return "; ".join(wrong[:3])
