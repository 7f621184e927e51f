"""Answers of shards made into one. Pure functions over what JSON holds.

1. Order: by exact score, the best first. Ties: older rows first, as one server has them. A shard answers its own so; over shards the
   numbers of rows tell (`ages`, of the items that `ties` names), then the number of the shard: one order for all pages of a state.
2. The bound is the least of the shards': each true neighbour is one of its own shard's.
3. Work is added up; what cut one short cut all short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import Any

__all__ = ["MISSING", "Ages", "first_groups", "joined_pages", "merged", "merged_batch", "merged_facets", "merged_groups", "ties"]

Answer = dict[str, Any]
Ages = Mapping[str, int]
"""Numbers of rows, by id: the least is the oldest."""
_YOUNG = 1 << 63
"""Later than any: of items that are gone by now."""

MISSING = "shards are missing: see shards_missing"
"""Why a partial answer has no bound."""
_MODES = ("links", "pool", "bands", "exact")
"""Ways of searching: an answer names the first of these that any shard took."""


def ties(parts: Sequence[Answer], most: int | None = None) -> list[list[str]]:
    """The items whose order among others their scores alone do not tell, by part; of the `most` nearest of all, and those beside them.

    parts: of the shards, to one query. Cost: 3 µs where no scores are the same.
    """
    found: list[list[str]] = [[] for _ in parts]
    ranks = [[_rank(one) for one in part["results"]] for part in parts]
    held = [set(one) for one in ranks]
    if sum(map(len, held)) == len(set[float]().union(*held)):
        # No score is in two parts.
        return found
    every = sorted(rank for one in ranks for rank in one)
    last = every[min(len(every), most or len(every)) - 1]
    counts = Counter(rank for one in held for rank in one)
    for ids, of_part, part in zip(found, ranks, parts, strict=True):
        ids += [one["id"] for rank, one in zip(of_part, part["results"], strict=True) if rank <= last and counts[rank] > 1]
    return found


def merged(parts: Sequence[Answer], k: int, offset: int = 0, ages: Ages | None = None) -> Answer:
    """The answer to one query. parts: those of the shards, by shard, each with its k + offset nearest and nothing left out."""
    return _told(parts, _nearest(parts, ages)[offset : offset + k])


def merged_batch(parts: Sequence[Sequence[Answer]], shapes: Sequence[tuple[int, int]], ages: Ages | None = None) -> list[Answer]:
    """The answers to many queries. parts: of each shard all of them; shapes: k and offset of each query."""
    return [merged(of_one, k, offset, ages) for of_one, (k, offset) in zip(zip(*parts, strict=True), shapes, strict=True)]


def joined_pages(pages: Sequence[Answer]) -> Answer:
    """One answer of its pages, which came one after the other from one snapshot of one shard."""
    return pages[0] if len(pages) == 1 else _told(pages, [hit for page in pages for hit in page["results"]])


def merged_groups(parts: Sequence[Answer], values: Sequence[Any], size: int, ages: Ages | None = None) -> Answer:
    """The groups of these values, in this order, whatever groups there are. parts: of any shards, also several of one."""
    hits = {one["id"]: one for part in parts for one in part["results"]}
    groups: list[dict[str, Any]] = []
    for value in values:
        held = [part_hits for part in parts if (part_hits := _members(part, value, hits))]
        best = _sorted(held, ages)
        distinct = list({one["id"]: one for one in best}.values())[:size]
        groups.append({"value": value, "ids": [one["id"] for one in distinct]})
    answer = _told(parts, [hits[identifier] for group in groups for identifier in group["ids"]])
    return {**answer, "groups": groups}


def first_groups(parts: Sequence[Answer], most: int, ages: Ages | None = None) -> list[Any]:
    """The values of the groups whose nearest items are nearest. A shard's groups hold every one of these whose nearest item it has."""
    hits = {one["id"]: one for part in parts for one in part["results"]}
    values = {group["ids"][0]: group["value"] for part in parts for group in part["groups"]}
    found: dict[tuple[bool, Any], Any] = {}
    for first in _sorted([[hits[group["ids"][0]] for group in part["groups"]] for part in parts], ages):
        value = values[first["id"]]
        found.setdefault(_key(value), value)
    return list(found.values())[:most]


def merged_facets(parts: Sequence[Answer], limit: int) -> Answer | None:
    """The values of a field and their counts. None: some shard has more values than it told, so that nothing is certain."""
    counts: dict[tuple[int, Any], tuple[Any, int]] = {}
    for part in parts:
        if len(part["values"]) < part["distinct"]:
            return None
        for one in part["values"]:
            key = _facet_rank(one["value"])
            counts[key] = one["value"], one["count"] + (counts[key][1] if key in counts else 0)
    first = sorted(counts.items(), key=lambda one: (-one[1][1], one[0]))[:limit]
    values = [{"value": value, "count": count} for _, (value, count) in first]
    return {"field": parts[0]["field"], "values": values, "distinct": len(counts), "items": sum(part["items"] for part in parts)}


def _nearest(parts: Iterable[Answer], ages: Ages | None) -> list[dict[str, Any]]:
    return _sorted([part["results"] for part in parts], ages)


def _sorted(parts: Iterable[list[dict[str, Any]]], ages: Ages | None) -> list[dict[str, Any]]:
    """The hits of all parts. Each keeps its order, whatever ages say: pages of other depths begin alike."""
    if not ages:
        # Stable: what came first stays first.
        return sorted(chain.from_iterable(parts), key=_rank)
    return list(merge(*parts, key=lambda hit: _place(hit, ages)))


def _place(hit: Mapping[str, Any], ages: Ages | None) -> tuple[float, int]:
    """What hits are ordered by: rank, then age. Where no age is needed all are alike."""
    return _rank(hit), (ages or {}).get(hit["id"], _YOUNG)


def _rank(hit: Mapping[str, Any]) -> float:
    """What hits are ordered by, the least first."""
    distance = hit.get("distance")
    return float(-hit["score"] if distance is None else distance)


def _members(part: Answer, value: Any, hits: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The hits of a group in an answer."""
    return [hits[identifier] for group in part["groups"] if _key(group["value"]) == _key(value) for identifier in group["ids"]]


def _key(value: Any) -> tuple[bool, Any]:
    # True equals 1, and is another value.
    return isinstance(value, bool), value


def _facet_rank(value: Any) -> tuple[int, Any]:
    """What values are told apart and ordered by, as in the library: numbers, then strings, then false and true, then null."""
    if value is None:
        return 3, 0
    if isinstance(value, bool):
        return 2, value
    return (1 if isinstance(value, str) else 0), value


def _told(parts: Sequence[Answer], hits: list[dict[str, Any]]) -> Answer:
    """An answer of these hits, with what all parts tell of their work."""
    bounds = [part["recall_lower_bound"] for part in parts]
    answer: Answer = {"results": hits, "recall_lower_bound": None if None in bounds else min(bounds)}
    if None in bounds:
        answer["no_bound"] = parts[bounds.index(None)].get("no_bound")
    modes = {part["mode"] for part in parts}
    answer["mode"] = next(mode for mode in _MODES if mode in modes)
    answer["candidates"] = sum(part["candidates"] for part in parts)
    answer["verified"] = sum(part["verified"] for part in parts)
    answer["truncated"] = _union(part["truncated"] for part in parts)
    answer["steps"] = _union(part["steps"] for part in parts)
    if any(part.get("out_of_distribution") for part in parts):
        answer["out_of_distribution"] = True
    if all("debug" in part for part in parts):
        answer["debug"] = _debug([part["debug"] for part in parts])
    return answer


def _debug(parts: Sequence[Answer]) -> Answer:
    """What was done, with what each step took at the slowest shard."""
    slowest: dict[str, float] = {}
    for part in parts:
        for one in part["steps"]:
            slowest[one["step"]] = max(one["ms"], slowest.get(one["step"], 0.0))
    return {
        "candidates": sum(part["candidates"] for part in parts), "verified": sum(part["verified"] for part in parts),
        "truncated": _union(part["truncated"] for part in parts), "steps": [{"step": step, "ms": ms} for step, ms in slowest.items()],
    }  # fmt: skip


def _union(lists: Iterable[Iterable[str]]) -> list[str]:
    """All that is in any of them, each once, in the order in which they come."""
    return list(dict.fromkeys(one for part in lists for one in part))
