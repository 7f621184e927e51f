"""Answers in groups over all shards: which groups by a first question, who else belongs to them by a second.

A group whose nearest item is among the first of all is among the first of that item's shard. So the first question finds the groups;
what other shards have of them lies deeper there, and the second question names the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kinbin
from kinbin_cluster.gateway.asking import Query, ages_of, incomplete
from kinbin_cluster.gateway.merging import first_groups, merged_groups
from kinbin_cluster.gateway.reading import Part, Reading, not_in_cluster
from kinbin_service.replies import encode

__all__ = ["grouped"]

_VALUES = 100
"""Values that one question names."""


async def grouped(reading: Reading, content: dict[str, Any]) -> dict[str, Any]:
    """The answer of a body that has `group_by`."""
    asked = Query.of(content)
    if asked.many:
        raise not_in_cluster("in a cluster group_by is of one query alone", "#/group_by")
    if content.get("offset"):
        # The nodes say what is wrong with it.
        await reading.ask_all("/query", encode(content))
        raise not_in_cluster("in a cluster group_by has no offset", "#/offset")
    await asked.resolve(reading)
    made = [asked.bodies(shard) for shard in reading.shards]
    bodies, pointers = [body for body, _ in made], {shard: asked.pointers(counts) for shard, (_, counts) in enumerate(made)}
    parts = await reading.ask_all("/query", lambda shard: bodies[shard], pointers=pointers)
    given = content["group_by"]
    # The nodes have judged it.
    by = {"field": given["field"], "groups": given.get("groups", 10), "size": given.get("size", 1)}
    values = first_groups([part.content for part in parts], by["groups"], await _ages(reading, parts))
    more = [one for part in parts for one in _more(bodies[part.shard], by, values, part)]
    if more:
        parts = parts + await reading.ask(more)
    answer = merged_groups([part.content for part in parts], values, by["size"], await _ages(reading, parts))
    return incomplete(answer) if reading.missing else answer


async def _ages(reading: Reading, parts: Sequence[Part]) -> dict[str, int]:
    """The row numbers of items that tie with another one, wherever that is."""
    return await ages_of(reading, parts, [[part.content] for part in parts])


def _more(body: dict[str, Any], by: Mapping[str, Any], values: Sequence[Any], part: Part) -> list[tuple[int, str, dict[str, Any]]]:
    """What else a shard is asked, to tell its part of all these groups."""
    groups = part.content["groups"]
    had = {(isinstance(one["value"], bool), one["value"]) for one in groups}
    lacking = [value for value in values if (isinstance(value, bool), value) not in had]
    # One that told fewer than it was asked for has told all.
    if len(groups) < by["groups"]:
        return []
    named = (lacking[begin : begin + _VALUES] for begin in range(0, len(lacking), _VALUES))
    return [(part.shard, "/query", one) for some in named for one in _narrowed(body, by, some)]


def _narrowed(body: dict[str, Any], by: Mapping[str, Any], values: Sequence[Any]) -> list[dict[str, Any]]:
    """The same question about the groups of these values alone; as several where a filter has no room for all of them."""
    # Beside what the filter has, and no level above it: it may be as deep as it can be.
    before = body.get("filter") or {}
    narrowed = {**before, "$and": [*before.get("$and", ()), {by["field"]: {"$in": list(values)}}]}
    try:
        kinbin.Schema.check_filter(narrowed)
    except kinbin.InvalidInput:
        if len(values) == 1:
            raise not_in_cluster(
                "in a cluster a filter beside group_by needs room for one condition and one value more", "#/filter"
            ) from None
        half = len(values) // 2
        return _narrowed(body, by, values[:half]) + _narrowed(body, by, values[half:])
    return [{**body, "filter": narrowed, "group_by": {**by, "groups": len(values)}}]
