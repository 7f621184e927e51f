"""Answers of shards made into one. Pure functions over what JSON holds.

1. Order: by exact score, the best first. Ties: the lower shard first, and in one shard as that shard has them (older rows first), so that
   pages of one state neither repeat nor leave out.
2. The bound is the least of the shards': each true neighbour is one of its own shard's.
3. Work is added up; what cut one short cut all short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["MISSING", "first_groups", "joined_pages", "merged", "merged_batch", "merged_facets", "merged_groups"]

Answer = dict[str, Any]

MISSING = "shards are missing: see shards_missing"
"""Why a partial answer has no bound."""
_MODES = ("links", "pool", "bands", "exact")
"""Ways of searching: an answer names the first of these that any shard took."""


def merged(parts: Sequence[Answer], k: int, offset: int = 0) -> Answer:
    """The answer to one query. parts: those of the shards, by shard, each with its k + offset nearest and nothing left out."""
    return _told(parts, _nearest(parts)[offset : offset + k])


def merged_batch(parts: Sequence[Sequence[Answer]], shapes: Sequence[tuple[int, int]]) -> list[Answer]:
    """The answers to many queries. parts: of each shard all of them; shapes: k and offset of each query."""
    return [merged(of_one, k, offset) for of_one, (k, offset) in zip(zip(*parts, strict=True), shapes, strict=True)]


def joined_pages(pages: Sequence[Answer]) -> Answer:
    """One answer of its pages, which came one after the other from one snapshot of one shard."""
    return pages[0] if len(pages) == 1 else _told(pages, [hit for page in pages for hit in page["results"]])


def merged_groups(parts: Sequence[Answer], values: Sequence[Any], size: int) -> Answer:
    """The groups of these values, in this order, whatever groups there are. parts: of any shards, also several of one."""
    hits = {one["id"]: one for part in parts for one in part["results"]}
    groups: list[dict[str, Any]] = []
    for value in values:
        held = [part_hits for part in parts if (part_hits := _members(part, value, hits))]
        best = _sorted(one for part_hits in held for one in part_hits)
        distinct = list({one["id"]: one for one in best}.values())[:size]
        groups.append({"value": value, "ids": [one["id"] for one in distinct]})
    answer = _told(parts, [hits[identifier] for group in groups for identifier in group["ids"]])
    return {**answer, "groups": groups}


def first_groups(parts: Sequence[Answer], most: int) -> list[Any]:
    """The values of the groups whose nearest items are nearest. A shard's groups hold every one of these whose nearest item it has."""
    best: dict[tuple[bool, Any], tuple[Any, Any]] = {}
    hits = {one["id"]: one for part in parts for one in part["results"]}
    for part in parts:
        for group in part["groups"]:
            key, first = _key(group["value"]), hits[group["ids"][0]]
            if key not in best or _rank(first) < _rank(best[key][1]):
                best[key] = group["value"], first
    return [value for value, _ in sorted(best.values(), key=lambda one: _rank(one[1]))[:most]]


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


def _nearest(parts: Iterable[Answer]) -> list[dict[str, Any]]:
    return _sorted(one for part in parts for one in part["results"])


def _sorted(hits: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    # Stable: what came first stays first.
    return sorted(hits, key=_rank)


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
