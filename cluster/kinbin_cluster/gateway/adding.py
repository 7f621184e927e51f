"""Adds through a gateway: a body as one node takes it, checked against the collection's schema, cut by shard, written."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import kinbin
from kinbin_cluster.errors import LogUnavailable
from kinbin_cluster.gateway.creating import created_default
from kinbin_cluster.gateway.cutting import Part, add_parts, derived_ids
from kinbin_cluster.gateway.publishing import Written, written
from kinbin_cluster.gateway.schemas import collection_named
from kinbin_cluster.measures import Worked
from kinbin_cluster.numbers import Numbers
from kinbin_cluster.picture import Collection
from kinbin_service.objects import KEYS, VECTOR, Carried
from kinbin_service.problems import Entry, Place, Refusal
from kinbin_service.routes.adding import Batch, told_skipped
from kinbin_service.routes.received import DEFAULT

__all__ = ["Added", "added"]

_TOLD = 100


@dataclass(frozen=True, slots=True)
class Added:
    """What an add did."""

    content: dict[str, Any]
    """Of the answer."""
    replayed: bool
    result: kinbin.AddResult
    bad: dict[str, Any]
    """What was left out."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A batch that was checked."""

    parts: list[Part]
    ids: list[str] | None
    """That were made for it."""
    problems: tuple[kinbin.Problem, ...]


async def added(service: Any, name: str, batch: Batch, size: int, key: str | None) -> Added:
    """Add a batch. service: the gateway. size: bytes of the body. key: by which it may come again.

    Raises:
        kinbin.KinbinError; Refusal.
    """
    collection, batch = await _collection(service, name, batch, size)
    schema = service.schemas.of(collection)
    terms = batch.terms(key)
    del terms["atomic"]
    _check_key(schema, batch)
    _check_versions(schema, batch)
    place = Place("items", batch.ids or (), batch.lines)
    with service.writing.enter():
        until = time.monotonic() + service.cluster_settings.publish_seconds
        # The numbers are on their way while the batch is checked and packed.
        numbering = asyncio.create_task(service.numbers.take(_count(batch), until))
        numbering.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            cut = await service.parsed(size, lambda: _cut(schema, collection.shards, batch, terms))
            parts = await _numbered(service.fanout.work, collection.uid, cut.parts, numbering)
            done = await written(service.log, (service.picture, service.fanout), collection, parts, place, until - time.monotonic())
        finally:
            numbering.cancel()
        await _in_order(service.numbers, done, time.monotonic() + service.cluster_settings.publish_seconds)
    return _told(done, cut, batch)


def _count(batch: Batch) -> int:
    return len(next(iter(batch.vectors.values()))) if isinstance(batch.vectors, dict) else len(batch.vectors)


async def _numbered(work: Worked, uid: str, parts: list[Part], numbering: asyncio.Task[int]) -> list[Part]:
    """The parts of an add, with the numbers of their rows. Without numbers none of the shards is written to, which `work` hears of."""
    if not parts:
        return parts
    started = time.monotonic()
    try:
        first = await numbering
    except LogUnavailable as error:
        for part in parts:
            work.note((uid, part.shard), "write", time.monotonic() - started, good=False)
        text = f"the log does not tell which place the items have among others: {error}; nothing was written"
        raise Refusal("storage_busy", text) from error
    return [part.numbered(first) for part in parts]


async def _in_order(numbers: Numbers, done: Written, until: float) -> None:
    """See that what is added from now on, anywhere, comes behind these rows."""
    try:
        await numbers.pass_by(max((int(one.get("next_row", 0)) for one in done.done.values()), default=0), until)
    except LogUnavailable as error:
        text = f"all of it is written, but its place among items of the same score is not certain: {error}"
        raise Refusal("outcome_unknown", text) from error


async def _collection(service: Any, name: str, batch: Batch, size: int) -> tuple[Collection, Batch]:
    """The collection of an add, and of the batch what it takes; the first add of vectors makes `default`."""
    try:
        found = collection_named(service.picture, name)
    except kinbin.CollectionNotFound:
        if name != DEFAULT:
            raise
        batch = await service.parsed(size, partial(batch.fitted, (VECTOR,)))
        if batch.carries != (VECTOR,) or not len(batch.vectors):
            raise
        return await created_default(service, batch), batch
    return found, await service.parsed(size, partial(batch.fitted, _carried(service.schemas.of(found))))


def _carried(schema: kinbin.Schema) -> Carried:
    """What items of a collection carry."""
    if schema.has_fields:
        return "vectors", *sorted(schema.config)
    items = schema.config[""].items
    return (next((key for key, kind in KEYS.items() if kind == items), VECTOR),)


def _check_key(schema: kinbin.Schema, batch: Batch) -> None:
    """Refuse what items of this collection do not carry; see `kinbin_service.routes.adding.check_key`."""
    wanted = _carried(schema)[0]
    given = "vectors" if isinstance(batch.vectors, dict) else batch.key
    if schema.has_fields and given == VECTOR:
        return
    if given == "vectors" and not schema.has_fields:
        raise kinbin.InvalidInput.of("bad_parameter", "the collection has no fields: each of its items has one vector", field="name")
    if given != wanted and batch.ids != []:
        text = f'items of this collection carry "{wanted}", not "{given}"'
        raise Refusal("invalid_field", text, [Entry(f"#/items/0/{given}", text)])


def _check_versions(schema: kinbin.Schema, batch: Batch) -> None:
    if schema.has_fields and batch.versions is not None:
        text = "items of several vectors have other versions on each replica: if_version is not of them in a cluster"
        raise Refusal("not_in_cluster", text)


def _cut(schema: kinbin.Schema, shards: int, batch: Batch, terms: dict[str, Any]) -> _Cut:
    """Check a batch, and cut it by shard. Runs in a thread where it is large.

    Raises:
        kinbin.InvalidInput.
    """
    if not len(batch.vectors):
        return _Cut([], None, ())
    count = _count(batch)
    ids: Sequence[str] = batch.ids if batch.ids is not None else [str(number) for number in range(count)]
    checked = schema.check(ids, batch.vectors, batch.payloads, **terms)
    made = None
    if batch.ids is None:
        made = _made(terms.get("idempotency_key"), checked, count)
        checked = replace(checked, ids=[made[at].encode() for at in checked.positions])
    return _Cut(add_parts(checked, shards, terms), made, checked.problems)


def _made(key: str | None, checked: kinbin.Checked, count: int) -> list[str]:
    """Ids for a batch that came without: sorted by time and row, or those that its key gives it."""
    if key is not None:
        return derived_ids(key, checked.rows, count)
    beginning = f"{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(10)}"
    return [f"{beginning}-{row:06d}" for row in range(count)]


def _told(done: Written, cut: _Cut, batch: Batch) -> Added:
    problems = list(cut.problems)
    for one in done.done.values():
        problems += [kinbin.Problem(**problem) for problem in one.get("problems", ())]
    problems.sort(key=lambda one: one.position or 0)
    skipped = len(cut.problems) + done.sum("skipped")
    sums = {name: done.sum(name) for name in ("indexed", "updated", "unchanged")}
    result = kinbin.AddResult(sums["indexed"], sums["updated"], sums["unchanged"], done.count or 0, skipped, tuple(problems[:_TOLD]))
    content: dict[str, Any] = {**sums, **done.told()}
    if cut.ids is not None:
        content["ids"] = cut.ids
    bad = told_skipped(result, batch)
    if batch.on_error == "skip":
        content |= bad
    return Added(content, done.replayed, result, bad)
