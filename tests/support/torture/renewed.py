"""One collection that is dropped, made anew, shrunk and compacted by several processes, while they read and write.

No file is touched by hand. Whoever holds the collection of before is told that it was removed; it never reads from the next one, nor
writes to it. Every generation has items of its own names.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import kinbin
from kinbin.storage.store import Store
from nursery import Nursery
from torture.crashes import Verdicts

__all__ = ["PLANT", "renewed_campaign", "work"]

PLANT = "takes a removal for damage"
"""A bug: nobody asks whether the collection was dropped whose files have lost their name."""
_PROCESSES, _THREADS = 3, 2
_DIM = 4
_IDS = 300
_PATIENCE = 60.0
_SLOW = 9.0
"""Seconds that no use takes: whoever waits so long waits for itself."""
_EXPECTED = (kinbin.CollectionNotFound, kinbin.CollectionExists)


def _make(database: kinbin.Database, number: int, fields: bool) -> None:
    """A collection whose one item says which generation it is."""
    if fields:
        made = database.create_collection("c", fields={"a": {"dim": _DIM}, "b": {"dim": _DIM}})
        made.add([f"of {number}"], {"a": np.ones((1, _DIM)), "b": np.ones((1, _DIM))})
    else:
        database.create_collection("c", dim=_DIM).add([f"of {number}"], np.ones((1, _DIM)))


class _Worker:
    """One thread that uses the collection, or makes it anew."""

    def __init__(self, database: kinbin.Database, number: int, seed: int, fields: bool) -> None:
        self._database, self._number, self._fields = database, number, fields
        self._rng, self._name = random.Random(seed), str(seed)
        self._held: kinbin.Collection | None = None
        self._generation: str | None = None
        self._made = 0
        self._acknowledged: set[str] = set()
        """Of the collection that is held, by this thread."""
        self.wrong: list[str] = []
        self.done = 0

    def run(self, end: float) -> None:
        """Until `end`, or until something is wrong."""
        step = self._renew if self._number == 0 else self._use
        while time.monotonic() < end and not self.wrong:
            began = time.monotonic()
            try:
                step(self._rng.random())
                self.done += 1
            except _EXPECTED:
                self._held = None
                time.sleep(0.002)
            except BaseException:  # noqa: BLE001 - whatever it is, it is told
                self.wrong.append(traceback.format_exc()[-1_500:])
            if time.monotonic() - began > _SLOW:
                self.wrong.append(f"a use took {time.monotonic() - began:.1f} s")
        if self._held is not None and not self.wrong:
            with suppress(*_EXPECTED):
                ids = sorted(self._acknowledged)
                lost = [one for one, item in zip(ids, self._held.get(ids), strict=True) if item is None]
                self.wrong += [f"{len(lost)} of {len(ids)} acknowledged items are lost"] if lost else []

    def _renew(self, x: float) -> None:
        if x < 0.3:
            self._database.drop_collection("c")
        elif x < 0.7:
            self._made += 1
            _make(self._database, self._made, self._fields)
        elif x < 0.85:
            self._database.collection("c").compact(shrink=True)
        else:
            time.sleep(self._rng.random() * 0.1)

    def _use(self, x: float) -> None:
        if self._held is None:
            self._held = self._database.collection("c")
            self._generation = None
            self._acknowledged = set()
        held, vector = self._held, np.random.default_rng(self._rng.randrange(1 << 30)).random(_DIM)
        mine = f"{self._name}/{self._rng.randrange(_IDS)}"
        vectors = {"a": vector[None], "b": vector[None]} if self._fields else vector[None]
        if x < 0.4:
            held.add([mine], vectors)
            self._acknowledged.add(mine)
        elif x < 0.6:
            found = held.query({"a": vector, "b": vector} if self._fields else vector, k=5)
            self._look(found.ids)
        elif x < 0.75:
            self._look([str(one.id) for one in held.scroll(limit=20).items])
        elif x < 0.85:
            # A delete that fails may be done.
            self._acknowledged.discard(mine)
            held.delete([mine])
        elif x < 0.95:
            held.compact()
        else:
            self._held = None

    def _look(self, ids: Sequence[str | int]) -> None:
        """See that what is held is of the generation that it was: one held collection is never two."""
        for one in map(str, ids):
            if one.startswith("of "):
                if self._generation not in (None, one):
                    self.wrong.append(f"a collection that was {self._generation!r} is {one!r}")
                self._generation = one


def work(connection: Connection, folder: str, number: int, seed: int, asked: tuple[float, bool, str]) -> None:
    """Use the collection for so many seconds; send how often, and what was wrong. asked: seconds, whether it has fields, the plant."""
    seconds, fields, plant = asked
    if plant == PLANT:
        Store._was_dropped = lambda store: False  # type: ignore[method-assign, assignment]
    with kinbin.open(folder) as database:
        # One process makes it anew, with one thread.
        count = 1 if number == 0 else _THREADS
        workers = [_Worker(database, number, seed * 100 + number * 10 + i, fields) for i in range(count)]
        threads = [threading.Thread(target=one.run, args=(time.monotonic() + seconds,)) for one in workers]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    connection.send((sum(one.done for one in workers), [text for one in workers for text in one.wrong]))


def renewed_campaign(nursery: Nursery, work: Path, seed: int, rounds: int, *, plant: str = "", seconds: float = 3.0) -> Verdicts:
    """So many rounds of some seconds, every second one with fields; a verdict each. A planted bug that is told ends them."""
    out = Verdicts()
    for number in range(rounds):
        folder, fields = work / "renewed", number % 2 == 1
        with kinbin.open(folder) as database:
            _make(database, 0, fields)
        asked = seconds, fields, plant
        workers = [nursery.start("torture.renewed:work", str(folder), i, seed + number, asked) for i in range(_PROCESSES)]
        told = [one.receive(seconds + _PATIENCE) for one in workers]
        wrong = [text for _, texts in told for text in texts]
        with kinbin.open(folder) as database:
            wrong += [f"check of {name}: {report.problems[:2]}" for name, report in database.check().items() if not report.ok]
        if not wrong and min(done for done, _ in told) < 3:
            wrong = ["nothing was done"]
        out.add(f"seed {seed + number}, {'fields' if fields else 'one vector'}", "; ".join(wrong[:2]), "fields" if fields else "one vector")
        nursery.end_children()
        shutil.rmtree(folder)
        if plant and out.wrong:
            break
    return out
