"""Power failures of a node: whatever its disk holds then, the log brings the replica to where every other one is.

The story that `torture.crashes.power_campaign` tells and judges: a replica that applies a log of its own, in groups, with seals and merges
in between. A judge opens what is left, applies the rest of the log in other groups, and holds contents, versions and verdicts against those
of a replica that nothing happened to.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson

import kinbin
import kinbin.upkeep.sealing
from kinbin_cluster import applying
from kinbin_cluster.applying import applied_of
from kinbin_cluster.gateway.cutting import add_parts
from kinbin_cluster.message import Edit, decoded, encoded
from kinbin_cluster.verdicts import NOTES, Verdicts
from linked import still
from torture.disk import Shim
from torture.story import NESTED

__all__ = ["ENTRIES", "judge_disks", "log", "tell"]

ENTRIES = 90
DIM = 6
_SEED = 11
_NAME = "c0123456789ab-0"
_SCHEMA = kinbin.Schema(dim=DIM, bands=6, rows=2, seed=7)


@cache
def log() -> list[list[bytes]]:
    """The messages of each entry of the log, the same in every process."""
    rng = random.Random(_SEED)
    return [_entry(rng, number) for number in range(ENTRIES)]


def _entry(rng: random.Random, number: int) -> list[bytes]:
    ids = [f"i{one}" for one in rng.sample(range(40), rng.randint(1, 9))]
    kind = rng.randrange(8)
    now = 1_700_000_000.0 + number
    if kind == 0:
        return encoded(Edit("delete", [one.encode() for one in ids], now=now))
    if kind == 1:
        return encoded(Edit("delete_by_filter", filter={"n": rng.randrange(6)}, now=now))
    if kind == 2:
        keys, payloads = kinbin.Schema.check_payloads(ids[:2], [{"p": rng.randrange(9)}] * len(ids[:2]))
        return encoded(Edit(rng.choice(["set_payload", "patch_payload"]), keys, payloads, now=now))
    vectors = [[rng.randrange(1, 50) / 4 for _ in range(DIM)] for _ in ids]
    terms: dict[str, Any] = {"mode": rng.choice(["upsert", "upsert", "insert", "update"])}
    if rng.random() < 0.3:
        terms["idempotency_key"] = f"key-{rng.randrange(5)}"
    checked = _SCHEMA.check(ids, vectors, [{"n": rng.randrange(6)} for _ in ids])
    (part,) = add_parts(checked, 1, terms)
    # One time for all who read it.
    return encoded(_at(decoded(part.messages), now))


def _at(edit: Edit, now: float) -> Edit:
    return replace(edit, now=now)


def _replica(database: kinbin.Database) -> Any:
    return database.create_collection(_NAME, **_SCHEMA.options, exist_ok=True)


def _apply(collection: Any, verdicts: Verdicts, first: int, count: int) -> int:
    """Apply some entries behind the first so many. Returns how many are applied then."""
    taken: list[Any] = [(first + i + 1, decoded(parts)) for i, parts in enumerate(log()[first : first + count])]
    applying.apply(collection, taken, verdicts)
    return first + len(taken)


def tell(connection: Connection, folder: str, record: str, flags: dict[str, Any], sync_folders: bool) -> None:
    """Apply the log below a folder, noting each sequence when it is applied. sync_folders: not used here."""
    from power_loss import opened_with

    del sync_folders
    rng = random.Random(_SEED + 1)
    shim = Shim()
    log()
    shim.watch(folder, record)
    with still(), opened_with(flags), kinbin.open(Path(folder) / NESTED) as database:
        collection = _replica(database)
        shim.note(1)
        verdicts, done = Verdicts({}), 0
        while done < ENTRIES:
            done = _apply(collection, verdicts, done, rng.randint(1, 5))
            # One more than the sequence: 0 is a disk before the collection was made.
            shim.note(done + 1)
            if rng.random() < 0.2:
                _sealed(collection)
            if rng.random() < 0.1:
                collection.compact()
    connection.send(ENTRIES)


def _sealed(collection: Any) -> None:
    """What is fresh becomes a run."""
    kept = kinbin.upkeep.sealing.SEAL_ROWS
    kinbin.upkeep.sealing.SEAL_ROWS = 1
    try:
        collection._upkeep.step()
    finally:
        kinbin.upkeep.sealing.SEAL_ROWS = kept


def _told(collection: Any) -> tuple[dict[str, Any], dict[int, Any], int]:
    """Contents with versions, verdicts, and the last sequence."""
    page = collection.scroll(limit=1_000, include=("payload", "vector", "version"))
    items = {one.id: (one.payload, tuple(one.vector.tolist()), one.version) for one in page.items}
    verdicts = {sequence: verdict for note in collection.notes(NOTES).values() for sequence, verdict in orjson.loads(note)}
    return items, verdicts, applied_of(collection)


@cache
def _expected() -> tuple[dict[str, Any], dict[int, Any], int]:
    """What a replica has that applied every entry in a transaction of its own, and that nothing happened to."""
    with tempfile.TemporaryDirectory() as folder, still(), kinbin.open(folder) as database:
        collection = _replica(database)
        verdicts = Verdicts({})
        for number in range(ENTRIES):
            _apply(collection, verdicts, number, 1)
        return _told(collection)


def _found_wrong(path: Path, noted: int) -> str:
    """What is wrong with a replica, before and after the log is applied to it, if anything."""
    rng = random.Random(noted)
    with still(), kinbin.open(path) as database:
        collection = _replica(database)
        done = applied_of(collection)
        if done < noted - 1:
            return f"lost: {done} entries are applied, and {noted - 1} were"
        if problems := collection.check().problems:
            return f"damaged: {problems[:3]}"
        verdicts = Verdicts(collection.notes(NOTES))
        while done < ENTRIES:
            done = _apply(collection, verdicts, done, rng.randint(1, 7))
        for what, found, wanted in zip(("items", "verdicts", "sequence"), _told(collection), _expected(), strict=True):
            if found != wanted:
                return f"{what} differ from those of a replica that nothing happened to: {str(found)[:200]} {str(wanted)[:200]}"
    return ""


def judge_disks(connection: Connection) -> None:
    """Answer (folder, what was noted) with what is wrong with the replica below it, if anything."""
    while True:
        try:
            folder, noted = connection.recv()
        except EOFError:
            return
        try:
            verdict = _found_wrong(Path(folder) / NESTED, noted)
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            verdict = f"{type(error).__name__}: {error}"
        connection.send(verdict)
