"""What a disk may hold after the power fails, made from a record of what a process wrote and synced.

The model: what was written before a sync that came back is on disk, and so is a write to a file open with
O_DSYNC that came back. Of everything else each 4 KiB page is there or not, whatever the order; a page that
is on its way may be torn between sectors of 512 bytes.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import kinbin
from shim import Shim
from workload import DIM, Workload, findings, stored_items

PAGE = 4096
SECTOR = 512
_HEAD = struct.Struct("<BBQQ")


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a record: 'w' with its bytes, 's', or 'n' with a number in `offset`."""

    kind: str
    direct: bool
    offset: int
    data: bytes


def read_record(path: Path) -> list[Event]:
    """The events of a record, in order."""
    data = path.read_bytes()
    events, place = [], 0
    while place < len(data):
        kind, direct, offset, size = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        events.append(Event(chr(kind), bool(direct), offset, data[place : place + size]))
        place += size
    return events


@dataclass(frozen=True, slots=True)
class Disk:
    """A possible content of data.mdb, and what had been acknowledged and begun when the power failed."""

    content: bytes
    acknowledged: int
    begun: int


def possible_disks(events: list[Event], rng: random.Random, count: int) -> Iterator[Disk]:
    """Contents at random moments after the first note, half of them right after an acknowledgement."""
    notes = [i for i, event in enumerate(events) if event.kind == "n"]
    moments = sorted(rng.choice(notes) if rng.random() < 0.5 else rng.randrange(notes[0], len(events)) for _ in range(count))
    base = bytearray()
    pending: list[Event] = []
    acknowledged = 0
    position = 0
    for moment in moments:
        while position <= moment:
            event = events[position]
            position += 1
            if event.kind == "w":
                pending.append(event)
            elif event.kind == "s":
                for write in pending:
                    _apply(base, write.offset, write.data)
                pending.clear()
            else:
                acknowledged = event.offset
        content = bytearray(base)
        in_flight = [events[position]] if position < len(events) and events[position].kind == "w" else []
        chance = rng.choice((0.0, 0.5, 0.9, 1.0, rng.random()))
        for write in pending:
            if write.direct:
                _apply(content, write.offset, write.data)
            else:
                _apply_some(content, write, rng, chance)
        for write in in_flight:
            _apply_some(content, write, rng, rng.choice((0.0, 0.5, 1.0)))
        yield Disk(bytes(content), acknowledged, acknowledged + 1)


def _apply(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _apply_some(content: bytearray, write: Event, rng: random.Random, chance: float) -> None:
    """A write of which each page came through or not; one page in eight is torn."""
    for start in range(0, len(write.data), PAGE):
        page = write.data[start : start + PAGE]
        if rng.random() < 0.125 * (0.0 < chance < 1.0):
            for sector in range(0, len(page), SECTOR):
                if rng.random() < 0.5:
                    _apply(content, write.offset + start + sector, page[sector : sector + SECTOR])
        elif rng.random() < chance:
            _apply(content, write.offset + start, page)


# -- in children


@contextmanager
def opened_with(flags: dict[str, Any]) -> Iterator[None]:
    """Open environments with other flags than the store asks for."""
    import kinbin.storage.opening

    opening: Any = kinbin.storage.opening
    original = opening.lmdb.open
    opening.lmdb.open = lambda *arguments, **options: original(*arguments, **options | flags)
    try:
        yield
    finally:
        opening.lmdb.open = original


def record_history(connection: Connection, path: str, record: str, seed: int, steps: int, flags: dict[str, Any]) -> None:
    """Do steps of a workload with sealing and merging in between, noting each one that is acknowledged."""
    import kinbin.upkeep.sealing

    kinbin.upkeep.sealing.SEAL_ROWS = 48
    shim = Shim()
    shim.record(record)
    workload = Workload(seed, "p")
    with opened_with(flags), kinbin.open(path) as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2, seed=7)
        # Upkeep is done between the steps, so that one seed gives one record.
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        shim.note(0)
        for number in range(steps):
            workload.step(number).perform(collection)
            shim.note(number + 1)
            while collection._upkeep.step():
                pass
        runs = len(collection.stats()["runs"])
    connection.send(runs)


def judge(connection: Connection, seed: int) -> None:
    """Answer (path, acknowledged, begun) with what is wrong with the database there, if anything."""
    workload = Workload(seed, "p")
    while True:
        try:
            path, acknowledged, begun = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_verdict(path, acknowledged, begun, workload))
        except kinbin.KinbinError as error:
            connection.send(f"refused: {error}")


def _verdict(path: str, acknowledged: int, begun: int, workload: Workload) -> str:
    """What is wrong, or nothing."""
    with kinbin.open(path) as database:
        collection = database.collection("c")
        stored = stored_items(collection)
        for number in range(acknowledged, begun + 1):
            if stored.keys() == workload.after(number).keys() and not (problems := findings(collection, workload.after(number))):
                return ""
        problems = findings(collection, stored)
        if problems:
            return f"damaged: {problems[:3]}"
        return f"lost: it holds neither step {acknowledged} nor {begun}"
