"""Parts of a write into the logs of their shards, and what came of each.

    publish all parts (each until a quorum has it on disk)  ──▶  ask a replica of each shard what it made of its part

Each part is atomic; a write of several is not: one of them may be refused, or its outcome may be unknown, while the others are done.
The error says so then, and how many were written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import kinbin
from kinbin.errors import KinbinError
from kinbin_cluster.errors import LogClosed, LogRefused, LogUnavailable
from kinbin_cluster.gateway.cutting import Part
from kinbin_cluster.gateway.fanout import Fanout
from kinbin_cluster.gateway.tokens import Token
from kinbin_cluster.gateway.verdicts import Verdict, counts_of, error_of, verdict_of
from kinbin_cluster.log import Log, Published
from kinbin_cluster.picture import Collection, Picture
from kinbin_service.problems import Entry, Place, Refusal, from_library

__all__ = ["VERDICT_SECONDS", "Outcome", "Written", "published", "written"]

VERDICT_SECONDS = 10.0
"""Longest wait for a replica to tell what came of what the log holds."""
COUNT_SECONDS = 2.0
_NOTHING = "; nothing was written"
_ANOTHER = "another collection took this one's name, or is about to, while it was written to: "


@dataclass(slots=True)
class Outcome:
    """What came of the parts of a write, by shard."""

    where: dict[int, Published] = field(default_factory=dict)
    """Acknowledged by a quorum."""
    refused_by_log: dict[int, str] = field(default_factory=dict)
    """Not written, for good."""
    closed: set[int] = field(default_factory=set)
    """Not written: the shard takes no edits any more."""
    unknown: set[int] = field(default_factory=set)
    """Not acknowledged in time: written or not."""
    seconds: dict[int, float] = field(default_factory=dict)
    """From its first sending until it was acknowledged, refused or given up."""
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    """Of those that are acknowledged; one that lacks is not known yet."""
    forgotten: set[int] = field(default_factory=set)
    """Of those that are acknowledged: no replica knows any more."""

    def is_of_before(self, shard: int) -> bool:
        """Whether what is known of a part is of an earlier sending, and another one may be told more.

        Replicas keep what came of keys for longer than of messages; and a key whose add was refused is free.
        """
        verdict = self.verdicts.get(shard)
        return shard in self.forgotten or (verdict is not None and verdict.refused is not None and self.where[shard].duplicate)

    def take(self, second: Outcome) -> None:
        """Of shards that were written to once more the second outcome counts."""
        again = second.where.keys() | second.closed | second.unknown | second.refused_by_log.keys()
        for shard in again:
            self.where.pop(shard, None)
            self.verdicts.pop(shard, None)
        self.where |= second.where
        self.verdicts |= second.verdicts
        self.refused_by_log |= second.refused_by_log
        self.closed |= second.closed
        self.unknown |= second.unknown


@dataclass(frozen=True, slots=True)
class Written:
    """A write all of whose parts were done."""

    done: dict[int, dict[str, Any]]
    """By shard, what the library answered."""
    count: int | None
    """Items of the collection; None: a shard that was not written to does not tell."""
    token: str
    replayed: bool
    """Whether all of it was done before, under the same idempotency key."""

    @property
    def atomic(self) -> bool:
        """Whether it went to one shard alone."""
        return len(self.done) <= 1

    def sum(self, name: str) -> int:
        """Of a number that shards told, the sum."""
        return sum(int(one.get(name, 0)) for one in self.done.values())

    def told(self) -> dict[str, Any]:
        """What every answer to a write ends with."""
        return {"count": self.count, "atomic": self.atomic, "token": self.token}


async def published(log: Log, picture: Picture, uid: str, parts: Sequence[Part], deadline: float) -> Outcome:
    """Publish all parts at once, and wait for each to be acknowledged, or not. deadline: by `time.monotonic`.

    picture: of the registry, which knows whether the collection is closed, or dropped.
    """
    outcome = Outcome()

    def closed() -> bool:
        held = picture.collection_of(uid)
        return held is None or bool(held.closed)

    async def one(part: Part) -> None:
        started = time.monotonic()
        try:
            outcome.where[part.shard] = await log.publish(uid, part.shard, part.messages, part.message_id, deadline, closed)
        except LogClosed:
            outcome.closed.add(part.shard)
        except LogRefused as error:
            outcome.refused_by_log[part.shard] = str(error)
        except LogUnavailable:
            outcome.unknown.add(part.shard)
        outcome.seconds[part.shard] = time.monotonic() - started

    await asyncio.gather(*(one(part) for part in parts))
    return outcome


async def written(
    log: Log, nodes: tuple[Picture, Fanout], collection: Collection, parts: Sequence[Part], place: Place, seconds: float
) -> Written:
    """Publish the parts of a write, and wait for what comes of them.

    seconds: to be acknowledged in. Raises Refusal: the library's, or `outcome_unknown`, `storage_full`.
    """
    _refuse_closed(collection)
    uid = collection.uid
    others = [shard for shard in range(collection.shards) if shard not in {part.shard for part in parts}]
    counting = asyncio.create_task(counts_of(nodes, uid, others, COUNT_SECONDS))
    try:
        outcome = await published(log, nodes[0], uid, parts, time.monotonic() + seconds)
        for shard, took in outcome.seconds.items():
            nodes[1].work.note((uid, shard), "write", took, good=shard in outcome.where)
        await _judged(nodes, uid, outcome, time.monotonic() + VERDICT_SECONDS)
        if anew := [part for part in parts if part.keyed and outcome.is_of_before(part.shard)]:
            second = await published(log, nodes[0], uid, [part.again() for part in anew], time.monotonic() + seconds)
            await _judged(nodes, uid, second, time.monotonic() + VERDICT_SECONDS)
            outcome.take(second)
        if len(outcome.verdicts) < len(parts) and nodes[0].collection_of(uid) is None:
            _refuse_gone(nodes[0], collection, outcome)
        _refuse(outcome, len(parts), place)
        counts = await counting
    finally:
        counting.cancel()
    done = {shard: verdict.done or {} for shard, verdict in sorted(outcome.verdicts.items())}
    # Edits that change no items do not tell how many there are.
    counts += await counts_of(nodes, uid, [shard for shard, one in done.items() if "count" not in one], COUNT_SECONDS)
    known = [count for count in (*counts, *(one.get("count") for one in done.values())) if count is not None]
    token = Token(uid, {shard: one.sequence for shard, one in outcome.where.items()}).text()
    again = [done[shard].get("replayed", False) or outcome.where[shard].duplicate for shard in done]
    return Written(done, sum(known) if len(known) == collection.shards else None, token, bool(again) and all(again))


def _refuse_closed(collection: Collection) -> None:
    """Refuse writes to a collection whose items are being taken over by others, or were."""
    if collection.closed == "pause":
        text = "the collection is cut into other shards, and writes pause while its last edits are taken over: send it again"
        raise Refusal("storage_busy", text + _NOTHING)
    if collection.closed:
        raise Refusal("not_in_cluster", "the collection is kept as it was before it was cut into other shards: it takes no writes")


def _refuse_gone(picture: Picture, collection: Collection, outcome: Outcome) -> None:
    """Refuse a write whose collection went away meanwhile, unless nothing of it was written."""
    if picture.resolved(collection.name) is None:
        raise kinbin.CollectionNotFound(f"{collection.name!r} was dropped while it was written to")
    if outcome.where:
        text = "it is durable if the collection was cut into other shards, and gone if it was dropped: look for it before you send it again"
        raise Refusal("outcome_unknown", _ANOTHER + text)


async def _judged(nodes: tuple[Picture, Fanout], uid: str, outcome: Outcome, deadline: float) -> None:
    """Ask what came of the parts that are acknowledged."""
    shards = list(outcome.where)
    found = await asyncio.gather(*(verdict_of(nodes, uid, shard, outcome.where[shard].sequence, deadline) for shard in shards))
    known = {shard: verdict for shard, verdict in zip(shards, found, strict=True) if verdict is not None}
    outcome.verdicts = {shard: verdict for shard, verdict in known.items() if not verdict.forgotten}
    outcome.forgotten = known.keys() - outcome.verdicts.keys()


def _refuse(outcome: Outcome, parts: int, place: Place) -> None:
    """Raise what keeps a write from being done as a whole.

    Raises:
        Refusal.
    """
    refused = {shard: verdict.refused for shard, verdict in sorted(outcome.verdicts.items()) if verdict.refused is not None}
    done = len(outcome.verdicts) - len(refused)
    if outcome.unknown:
        text = (
            f"{_of(len(outcome.unknown), parts)} not acknowledged in time, and may be written or not: send it again with the "
            "Idempotency-Key that it had; without one, an upsert or a delete may be sent again as well, and all else needs a look first"
        )
        raise Refusal("outcome_unknown", text)
    if outcome.closed:
        if not outcome.where:
            raise Refusal("storage_busy", _ANOTHER + "send it again" + _NOTHING)
        raise Refusal("outcome_unknown", f"{_ANOTHER}{_of(len(outcome.closed), parts)} not written, the others may be there")
    if outcome.refused_by_log:
        text = f"{_of(len(outcome.refused_by_log), parts)} refused by the log: {next(iter(outcome.refused_by_log.values()))}"
        raise Refusal("storage_full", text + ("" if outcome.where else _NOTHING))
    if refused:
        raise _of_library(refused, done, parts, place)
    if len(outcome.verdicts) < len(outcome.where):
        late = len(outcome.where) - len(outcome.verdicts)
        text = f"all of it is durable, and will be applied; no replica has told yet what came of {_of(late, parts, verb='')}"
        raise Refusal("outcome_unknown", text)


def _of(some: int, parts: int, verb: str = "was") -> str:
    """Some of the parts, for people."""
    if parts == 1:
        return f"the write {verb}".strip()
    return f"{some} of the write's {parts} parts (one a shard) {verb and 'were'}".strip()


def _of_library(refused: Mapping[int, Mapping[str, Any]], done: int, parts: int, place: Place) -> Refusal:
    """The library's refusal of one part or more, as one."""
    errors: list[KinbinError] = [error_of(one) for one in refused.values()]
    first = errors[0]
    same = [one for one in errors if one.code == first.code]
    if isinstance(first, kinbin.ItemConflict):
        ids = [identifier for one in same if isinstance(one, kinbin.ItemConflict) for identifier in one.ids]
        first = type(first)(str(first), tuple(ids[:8]))
    elif isinstance(first, kinbin.InvalidInput):
        # What is wrong with the whole is wrong in each shard.
        problems = dict.fromkeys(problem for one in same if isinstance(one, kinbin.InvalidInput) for problem in one.problems)
        first = kinbin.InvalidInput(sorted(problems, key=lambda one: -1 if one.position is None else one.position)[:8])
    found = from_library(first, place)
    if not done:
        return found
    text = f"{done} of the write's {parts} parts (one a shard) were written, this one was not: {found.detail.replace(_NOTHING, '')}"
    errors_told: Sequence[Entry] = found.errors
    return Refusal(found.code, text, errors_told, found.limit)
