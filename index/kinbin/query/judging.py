"""What a filter lets through of a payload index: whatever the index cannot tell is read from the payloads of what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.indexes.index import Index
from kinbin.indexes.segment import Segment
from kinbin.query.filters import All, Any_, Condition, Field, Filter, Node, Not
from kinbin.storage.transactions import Reader

__all__ = ["Judged", "TooManyUnknown", "judged"]

_MOST_READ = 0.4
"""Share of all items above which reading every payload in order is faster than looking up those that the index cannot tell of."""
_RANGES = ("$gt", "$gte", "$lt", "$lte")
_Mask = NDArray[np.bool_]
_Bounds = tuple[_Mask, _Mask]
"""What surely passes, and what may; the same array where the index knows."""


class TooManyUnknown(Exception):
    """Of so many items the index cannot tell whether they pass that it is no help."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The items that pass."""

    items: int
    rows: NDArray[np.uint64]
    """Their rows, ascending, each once."""
    slots: list[_Mask]
    """Of each part of the index, which slots pass."""
    last: set[bytes]
    """Of the items that are in no part, those that pass."""


def judged(index: Index, reader: Reader, filter: Filter | None, key: bytes, kinds: Mapping[str, str]) -> Judged:
    """What passes a filter (None: everything) at the commit of an index, whose snapshot the reader has open.

    key: of the filter. kinds: the indexes that are declared.

    Cost: 0.5 ns an item and condition, 5 ns an item that passes; only what commits touched is judged again.

    Raises:
        TooManyUnknown. CorruptData: the index names items that are not there.
    """
    names = {tuple(name.split(".")): name for name in kinds}
    rows: list[NDArray[np.uint64]] = []
    passing: list[_Mask] = []
    items = 0
    for segment, kept in index.parts:
        mask = kept
        if filter is not None:
            known = segment.remembered.get(key, index.sequence)
            if known is None:
                known = _resolved(segment, kept, reader, filter, names)
                segment.remembered.put(key, index.sequence, known)
            mask = known & kept
        found = segment.rows[np.flatnonzero(mask)]
        rows.append(found)
        items += len(found)
        passing.append(mask)
    last = {one for one, (_, payload) in index.last.items() if filter is None or filter.node(payload)}
    rows.append(np.array([index.last[one][0] for one in last], np.uint64))
    joined = rows[0] if len(rows) == 2 and not len(rows[1]) else np.concatenate(rows)
    if len(rows) > 2 or len(rows[-1]):
        joined = np.sort(joined)
    first = np.ones(len(joined), np.bool_)
    first[1:] = joined[1:] != joined[:-1]
    return Judged(items + len(last), joined[first], passing, last)


def _resolved(segment: Segment, kept: _Mask, reader: Reader, filter: Filter, names: Mapping[tuple[str, ...], str]) -> _Mask:
    """The slots that pass, of those that are kept."""
    sure, may = _bounds(filter.node, segment, names)
    if sure is may:
        return sure
    unknown = np.flatnonzero(may & ~sure & kept)
    if len(unknown) > _MOST_READ * len(segment):
        raise TooManyUnknown
    keys = [segment.ids[slot] for slot in unknown.tolist()]
    mask = sure.copy()
    for slot, item in zip(unknown.tolist(), reader.items(keys), strict=True):
        if item is None:
            raise CorruptData("a payload index names an item that is not there")
        mask[slot] = filter(item[1])
    return mask


def _bounds(node: Node, segment: Segment, names: Mapping[tuple[str, ...], str]) -> _Bounds:
    """What surely passes, and what may."""
    if isinstance(node, Not):
        return _opposite(_bounds(node.part, segment, names))
    if isinstance(node, Field):
        return _all(_field(node, segment, names.get(node.path)))
    parts = [_bounds(part, segment, names) for part in node.parts]
    if isinstance(node, All):
        return _all(parts)
    assert isinstance(node, Any_)
    # None passes all that is not: the same by De Morgan.
    return _opposite(_all([_opposite(part) for part in parts]))


def _opposite(bounds: _Bounds) -> _Bounds:
    sure, may = bounds
    if sure is may:
        mask = ~sure
        return mask, mask
    return ~may, ~sure


def _all(parts: list[_Bounds]) -> _Bounds:
    """What passes all of them."""
    sure, may = parts[0]
    for other_sure, other_may in parts[1:]:
        exact = sure is may and other_sure is other_may
        sure = sure & other_sure
        may = sure if exact else may & other_may
    return sure, may


def _field(node: Field, segment: Segment, name: str | None) -> list[_Bounds]:
    """The operators on one field, of which all have to let a value through."""
    ranged = [one for one in node.conditions if one.operator in _RANGES and not one.negated]
    column = None if name is None else segment.columns.get(name)
    mask = column.between([(one.operator, one.wanted) for one in ranged]) if column is not None and len(ranged) > 1 else None
    if mask is None:
        return [_condition(one, segment, name) for one in node.conditions]
    return [(mask, mask), *(_condition(one, segment, name) for one in node.conditions if one not in ranged)]


def _condition(condition: Condition, segment: Segment, name: str | None) -> _Bounds:
    """One operator on a field, which may be indexed."""
    count = len(segment)
    column = None if name is None else segment.columns.get(name)
    if column is None:
        return np.zeros(count, np.bool_), np.ones(count, np.bool_)
    if condition.operator == "$exists":
        mask = column.present if condition.wanted else ~column.present
        return mask, mask
    found = column.matching(condition.operator, condition.wanted, condition.test)
    bounds = (np.zeros(count, np.bool_), column.present) if found is None else (found, found)
    return _opposite(bounds) if condition.negated else bounds
