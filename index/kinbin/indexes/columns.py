"""The values of one field over some slots: what is of the declared kind in order, all else as it is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.indexes.values import ABSENT, SCALARS, Box, Instant, Radius, instant_of, point_of

__all__ = ["ORDERED", "Collector", "Column", "Ordered", "Points", "Texts"]

ORDERED = {"number": ("number",), "keyword": ("text",), "datetime": ("text", "moment"), "geo": ()}
"""By the kind of a field, which of its values are held in order."""
_PAST = b"\xff"
"""Sorts behind every UTF-8 text that continues a prefix."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts(Sequence[bytes]):
    """Many strings as one: ascending, as UTF-8."""

    ends: NDArray[np.int64]
    blob: bytes

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> Texts:
        """Of strings, in their order."""
        listed = list(texts)
        return cls(np.cumsum(np.fromiter((len(one) for one in listed), np.int64, len(listed)), dtype=np.int64), b"".join(listed))

    def equals(self, other: Texts) -> bool:
        """Whether they are the same strings."""
        return self.blob == other.blob and np.array_equal(self.ends, other.ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: Any) -> Any:
        start = int(self.ends[place - 1]) if place > 0 else 0
        return self.blob[start : int(self.ends[place])]


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """Different values, ascending, each with the slots that have it, ascending."""

    values: NDArray[Any] | Texts
    """float64; int64 microseconds; or strings."""
    offsets: NDArray[np.int64]
    """(t + 1,) of each value's slots."""
    slots: NDArray[np.uint32]
    single: bool = field(init=False)
    """Whether no slot has several of these values. Cost: 2 ns a slot, when the values are put together."""

    def __post_init__(self) -> None:
        seen = np.zeros(int(self.slots.max(initial=0)) + 1, np.bool_)
        seen[self.slots] = True
        object.__setattr__(self, "single", int(seen.sum()) == len(self.slots))

    @classmethod
    def of_numbers(cls, values: NDArray[Any], slots: NDArray[np.uint32]) -> Ordered:
        """Of values and their slots, in any order."""
        terms, codes = np.unique(values, return_inverse=True)
        return cls(terms, *_postings(codes.ravel(), slots, len(terms)))

    @classmethod
    def of_texts(cls, terms: list[bytes], codes: NDArray[np.int64], slots: NDArray[np.uint32]) -> Ordered:
        """Of different strings in any order, and of each value the number of its string."""
        order = sorted(range(len(terms)), key=terms.__getitem__)
        place = np.empty(len(terms), np.int64)
        place[order] = np.arange(len(terms))
        return cls(Texts.of(terms[i] for i in order), *_postings(place[codes], slots, len(terms)))

    def span(self, operator: str, wanted: Any) -> tuple[int, int]:
        """The first and past the last of the values that an operator lets through. Cost: 20 comparisons."""
        if operator == "$prefix":
            return self._cut(wanted, after=False), self._cut(wanted + _PAST, after=False)
        low, high = self._cut(wanted, after=False), self._cut(wanted, after=True)
        if operator in ("$gt", "$gte"):
            return (high if operator == "$gt" else low), len(self.values)
        return (low, high) if operator == "$eq" else (0, low if operator == "$lt" else high)

    def _cut(self, wanted: Any, *, after: bool) -> int:
        """How many values are less than one, or (after) not greater."""
        if isinstance(self.values, Texts):
            return (bisect_right if after else bisect_left)(self.values, wanted)
        if self.values.dtype == np.float64 and isinstance(wanted, int):
            # NumPy would round it.
            rounded = float(wanted)
            after = rounded < wanted if rounded != wanted else after
            wanted = rounded
        return int(np.searchsorted(self.values, wanted, "right" if after else "left"))

    def of_span(self, first: int, past: int) -> NDArray[np.uint32]:
        """The slots of some values; one that has several of them comes several times."""
        return self.slots[self.offsets[first] : self.offsets[past]]

    def equals(self, other: Ordered) -> bool:
        """Whether they hold the same."""
        if isinstance(self.values, Texts):
            same = isinstance(other.values, Texts) and self.values.equals(other.values)
        else:
            same = np.array_equal(self.values, other.values)
        return same and np.array_equal(self.offsets, other.offsets) and np.array_equal(self.slots, other.slots)

    def counted(self, mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(places of values that any of these slots has, how many of them have each). Cost: 3 ns a slot."""
        if not len(self.values):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        counts = np.add.reduceat(mask[self.slots].astype(np.int64), self.offsets[:-1])
        places = np.flatnonzero(counts)
        return places, counts[places]

    def pairs(self, kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """(place of the value, slot) of the slots that are kept."""
        codes = np.repeat(np.arange(len(self.values)), np.diff(self.offsets))
        here = kept[self.slots]
        return codes[here], self.slots[here]


def _postings(codes: NDArray[np.int64], slots: NDArray[np.uint32], count: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Offsets and slots by value; a slot that has a value twice is listed once."""
    order = np.lexsort((slots, codes))
    codes, slots = codes[order], slots[order]
    first = np.ones(len(codes), np.bool_)
    first[1:] = (codes[1:] != codes[:-1]) | (slots[1:] != slots[:-1])
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(codes[first], minlength=count), out=offsets[1:])
    return offsets, np.ascontiguousarray(slots[first])


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Places by latitude."""

    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    slots: NDArray[np.uint32]

    @classmethod
    def of(cls, lat: NDArray[np.float64], lon: NDArray[np.float64], slots: NDArray[np.uint32]) -> Points:
        """Of places in any order."""
        order = np.argsort(lat, kind="stable")
        return cls(lat[order], lon[order], slots[order])

    def keys(self) -> tuple[NDArray[Any], ...]:
        """Its arrays."""
        return self.lat, self.lon, self.slots

    def within(self, area: Radius | Box) -> NDArray[np.uint32]:
        """The slots with a place in an area."""
        low, high = area.band()
        first, past = np.searchsorted(self.lat, low, "left"), np.searchsorted(self.lat, high, "right")
        return self.slots[first:past][area.contain(self.lat[first:past], self.lon[first:past])]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of n slots."""

    kind: str
    present: NDArray[np.bool_]
    """(n,) whether the payload has the field."""
    ordered: dict[str, Ordered]
    points: Points | None
    others: dict[int, list[Any]]
    """By slot, the values that are of no kind that is held in order."""

    def equals(self, other: Column) -> bool:
        """Whether both hold the same."""
        same = self.kind == other.kind and self.others == other.others and np.array_equal(self.present, other.present)
        if self.points is not None and other.points is not None:
            same = same and all(
                np.array_equal(np.sort(one), np.sort(two)) for one, two in zip(self.points.keys(), other.points.keys(), strict=True)
            )
        return same and all(ordered.equals(other.ordered[held]) for held, ordered in self.ordered.items())

    def matching(self, operator: str, wanted: Any, test: Callable[[Any], bool]) -> NDArray[np.bool_] | None:
        """(n,) the slots of which a value passes an operator other than "$exists"; None: this index cannot tell.

        test: the operator on one value.
        """
        mask = np.zeros(len(self.present), np.bool_)
        if isinstance(wanted, Radius | Box):
            if self.points is None:
                return None
            mask[self.points.within(wanted)] = True
            return mask
        for one in wanted if operator == "$in" else [wanted]:
            held = _held_as(one)
            if held == "moment" and held not in self.ordered and "text" in self.ordered:
                return None
            if held in self.ordered:
                ordered = self.ordered[held]
                mask[ordered.of_span(*ordered.span("$eq" if operator == "$in" else operator, _as_held(one)))] = True
        for slot, values in self.others.items():
            if any(test(value) for value in values):
                mask[slot] = True
        return mask

    def between(self, bounds: Sequence[tuple[str, Any]]) -> NDArray[np.bool_] | None:
        """(n,) the slots whose value passes several of "$gt", "$gte", "$lt" and "$lte"; None: ask them one by one.

        Each of them alone may let most slots through, and costs 1 ns for each; here the slots of the values between all are met, once.
        Where a slot has several values one of them may pass the first operator and another one the second, so it takes single ones.
        """
        held = {_held_as(wanted) for _, wanted in bounds}
        ordered = self.ordered.get(str(held.pop())) if len(held) == 1 else None
        if ordered is None or self.others or not ordered.single:
            return None
        spans = [ordered.span(operator, _as_held(wanted)) for operator, wanted in bounds]
        first, past = max(low for low, _ in spans), min(high for _, high in spans)
        mask = np.zeros(len(self.present), np.bool_)
        if first < past:
            mask[ordered.of_span(first, past)] = True
        return mask


def _as_held(wanted: Any) -> Any:
    """A value as it lies among those that are held in order."""
    return wanted.encode() if isinstance(wanted, str) else wanted.microseconds if isinstance(wanted, Instant) else wanted


def _held_as(wanted: Any) -> str | None:
    """Among which values one is looked for."""
    if isinstance(wanted, Instant):
        return "moment"
    if isinstance(wanted, str):
        return "text"
    return "number" if isinstance(wanted, int | float) and not isinstance(wanted, bool) else None


@dataclass(slots=True)
class Collector:
    """Takes the values of one field, slot by slot."""

    kind: str
    path: tuple[str, ...]
    present: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    number_slots: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    code_slots: list[int] = field(default_factory=list)
    terms: dict[str, int] = field(default_factory=dict)
    points: list[tuple[float, float]] = field(default_factory=list)
    point_slots: list[int] = field(default_factory=list)
    others: dict[int, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, kind: str) -> Collector:
        """Of a field by its dotted name."""
        return cls(kind, tuple(name.split(".")))

    def take(self, slot: int, payload: Any) -> None:
        """The values of one payload. Cost: 0.5 µs."""
        value = payload
        for name in self.path:
            value = value.get(name, ABSENT) if isinstance(value, dict) else ABSENT
        if value is ABSENT:
            return
        self.present.append(slot)
        for one in value if isinstance(value, list) else (value,):
            self._take_one(slot, one)

    def _take_one(self, slot: int, value: Any) -> None:
        kind = self.kind
        if isinstance(value, str) and kind in ("keyword", "datetime"):
            self.codes.append(self.terms.setdefault(value, len(self.terms)))
            self.code_slots.append(slot)
        elif kind == "number" and isinstance(value, int | float) and not isinstance(value, bool) and float(value) == value:
            self.numbers.append(value)
            self.number_slots.append(slot)
        elif kind == "geo" and isinstance(value, dict):
            point = point_of(value)
            if point is not None:
                self.points.append(point)
                self.point_slots.append(slot)
        elif isinstance(value, SCALARS):
            self.others.setdefault(slot, []).append(value)

    def column(self, place: NDArray[np.uint32]) -> Column:
        """The column. place (n,): where each slot comes to lie."""
        present = np.zeros(len(place), np.bool_)
        present[place[_array(self.present, np.int64)]] = True
        others = {int(place[slot]): values for slot, values in self.others.items()}
        ordered: dict[str, Ordered] = {}
        points = None
        if self.kind == "number":
            ordered["number"] = Ordered.of_numbers(_array(self.numbers, np.float64), place[_array(self.number_slots, np.int64)])
        elif self.kind == "geo":
            pairs = _array(self.points, np.float64).reshape(-1, 2)
            points = Points.of(pairs[:, 0].copy(), pairs[:, 1].copy(), place[_array(self.point_slots, np.int64)])
        else:
            terms = [term.encode() for term in self.terms]
            codes, slots = _array(self.codes, np.int64), place[_array(self.code_slots, np.int64)]
            ordered["text"] = Ordered.of_texts(terms, codes, slots)
            if self.kind == "datetime":
                ordered["moment"] = moments_of(terms, codes, slots)
        return Column(self.kind, present, ordered, points, others)


def _array(values: list[Any], dtype: Any) -> NDArray[Any]:
    return np.array(values, dtype)


def moments_of(terms: Sequence[bytes], codes: NDArray[np.int64], slots: NDArray[np.uint32]) -> Ordered:
    """The moments of those strings that are dates."""
    moments = [instant_of(term.decode()) for term in terms]
    known = np.array([one is not None for one in moments], np.bool_)[codes]
    values = np.array([one or 0 for one in moments], np.int64)[codes]
    return Ordered.of_numbers(values[known], slots[known])


def joined(columns: Sequence[tuple[Column, NDArray[np.uint32], NDArray[np.bool_]]], count: int) -> Column:
    """One column of several of one kind. Of each: where its slots come to lie, and which of them are kept; `count` are in all."""
    kind = columns[0][0].kind
    present = np.zeros(count, np.bool_)
    others: dict[int, list[Any]] = {}
    for column, place, kept in columns:
        present[place[kept]] = column.present[kept]
        others.update((int(place[slot]), values) for slot, values in column.others.items() if kept[slot])
    ordered = {name: _joined_order(name, list(_parts(columns, name))) for name in ORDERED[kind]}
    points = None
    if kind == "geo":
        told = [(column.points, place, kept) for column, place, kept in columns if column.points is not None]
        here = [kept[one.slots] for one, _, kept in told]
        points = Points.of(
            np.concatenate([one.lat[some] for (one, _, _), some in zip(told, here, strict=True)]),
            np.concatenate([one.lon[some] for (one, _, _), some in zip(told, here, strict=True)]),
            np.concatenate([place[one.slots[some]] for (one, place, _), some in zip(told, here, strict=True)]),
        )
    return Column(kind, present, ordered, points, others)


_Part = tuple[Any, NDArray[np.int64], NDArray[np.uint32]]


def _parts(columns: Iterable[tuple[Column, NDArray[np.uint32], NDArray[np.bool_]]], name: str) -> Iterator[_Part]:
    """Of each column its values, and of what is kept (place of the value, new slot)."""
    for column, place, kept in columns:
        codes, slots = column.ordered[name].pairs(kept)
        yield column.ordered[name].values, codes, place[slots]


def _joined_order(name: str, parts: list[_Part]) -> Ordered:
    slots = np.concatenate([slots for _, _, slots in parts])
    if name != "text":
        return Ordered.of_numbers(np.concatenate([values[codes] for values, codes, _ in parts]), slots)
    terms: dict[bytes, int] = {}
    numbered = []
    for texts, codes, _ in parts:
        used = np.unique(codes)
        number = np.zeros(len(texts), np.int64)
        number[used] = [terms.setdefault(texts[int(i)], len(terms)) for i in used]
        numbered.append(number[codes])
    return Ordered.of_texts(list(terms), np.concatenate(numbered), slots)
