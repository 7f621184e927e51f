"""Drawing a sample, scoring all its pairs by the engine's own code, and laying it out."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData, InvalidInput, SearchCancelled
from kinbin.layouts.methods import METHODS, laid_out
from kinbin.layouts.told import Map, MapPoint
from kinbin.options import check_cancel
from kinbin.parameters import at_most, field_name, is_number, one_of, whole
from kinbin.query.contents import payload_reader
from kinbin.query.matching import Filters
from kinbin.query.ranking import AllRows
from kinbin.query.search import Masks
from kinbin.query.view import View
from kinbin.storage.transactions import Reader

__all__ = ["SAMPLE", "Asked", "Mapped", "asked_of", "map_of"]

SAMPLE = 1_000
"""Points, unless another number is asked for."""
_AT_ONCE = 64
"""Rows that are scored with all behind them between two looks at whether the map is still wanted."""
_MOST_SEED = 2**32


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a map, checked."""

    sample: int
    method: str
    wanted: tuple[str, ...]
    """What is read of payloads, as `include` names it."""
    seed: int
    cancel: threading.Event | None


def asked_of(sample: Any, method: Any, fields: Any, seed: Any, cancel: Any) -> Asked:
    """The parameters, checked.

    Raises:
        InvalidInput.
    """
    at_most("map_sample", whole("sample", sample), "sample")
    one_of("method", method, METHODS)
    if isinstance(fields, str | Mapping) or not isinstance(fields, Iterable):
        raise InvalidInput.of("bad_parameter", "fields is a list of names of fields of payloads", field="fields")
    names = tuple(f"payload.{field_name(name, 'fields')}" for name in fields)
    at_most("include", len(names), "fields")
    if not is_number(seed) or not hasattr(seed, "__index__") or not 0 <= seed < _MOST_SEED:
        raise InvalidInput.of("bad_parameter", f"seed is a whole number from 0 to {_MOST_SEED - 1}", field="seed")
    check_cancel(cancel)
    return Asked(int(sample), method, tuple(sorted(set(names))), int(seed), cancel)


class Mapped:
    """The part of a `Collection` that lays items out."""

    _filters: Filters

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def map(
        self, sample: int = SAMPLE, *, method: str = "kernel_pca", fields: Iterable[str] = (), seed: int = 0, filter: Any = None,
        cancel: threading.Event | None = None,
    ) -> Map:  # fmt: skip
        """A sample of the items in the plane, near where the kernel says near: for people to look at.

        sample: different vectors that are drawn, at most (limit `map_sample`). method: "kernel_pca" or "spectral". fields: of payloads,
        that come with the points, as for colours. seed: of the draw; the same state and seed give the same map, but for last digits.
        filter: of the items that are drawn from. cancel: once it is set, the map is given up. Needs scikit-learn: `kinbin[features]`.

        Cost: sample² / 2 exact scores, as a scan takes them, and the layout: 0.1 s for 1,000 colour histograms, up to 1 s for 2,000 rows,
        5 s for 1,000 series of 128 steps. sample² · 40 bytes, and 24 bytes a stored row.

        Raises:
            InvalidInput: something is malformed, or scikit-learn is not there. CorruptData: a row is damaged. SearchCancelled.
        """
        asked = asked_of(sample, method, fields, seed, cancel)
        with self._reading() as (reader, view):
            matching, passing = (None, None) if filter is None else self._filters.matching(reader, view, filter)
            masks = None if matching is None else matching.masks
            return map_of(self, (reader, view), masks, passing, asked)


def map_of(parts: Any, at: tuple[Reader, View], masks: Masks, allowed: Any, asked: Asked) -> Map:
    """The map in a snapshot. parts: a collection; at: what names items, and the view of the rows; masks: rows that are left out."""
    rows = AllRows(parts._searcher, at, masks, asked.cancel)
    total = len(rows.numbers)
    drawn = np.sort(np.random.default_rng(asked.seed).choice(total, min(asked.sample, total), replace=False))
    # Of rows by their numbers, which stay when runs are merged.
    some = rows.part(np.argsort(rows.numbers, kind="stable")[drawn])
    ids = [min(names) for names in some.named(np.arange(len(drawn)), allowed)]
    space = parts._space
    if ids:
        scores = _kernel(parts, at[1], some, asked.cancel)
        points, explained = laid_out(asked.method, scores, space.ascending, asked.seed)
    else:
        points, explained = np.zeros((0, 2)), None
    payloads = _payloads(at[0], ids, asked.wanted)
    order = sorted(range(len(ids)), key=lambda i: ids[i].encode())
    told = [MapPoint(ids[i], float(points[i, 0]), float(points[i, 1]), payloads[i]) for i in order]
    return Map(asked.method, space.name, len(told), total, told, explained)


def _kernel(parts: Any, view: View, some: AllRows, cancel: threading.Event | None) -> NDArray[np.float64]:
    """(n, n) what is printed of all pairs, symmetric: those above the diagonal are scored, in stripes."""
    rows = parts._contents.rows(view, some.numbers.tolist())
    n = len(rows)
    scores = np.zeros((n, n))
    for first in range(0, n, _AT_ONCE):
        if cancel is not None and cancel.is_set():
            raise SearchCancelled("the map was cancelled")
        last = min(first + _AT_ONCE, n)
        try:
            stripe = some.scores(rows.slice(first, last), np.arange(first, n))
        except CorruptData:
            parts._space.raise_failure()
            raise
        scores[first:last, first:] = stripe
    # Of a block on the diagonal both halves were scored: the upper one counts.
    upper = np.triu(scores, 1)
    printed: NDArray[np.float64] = parts._space.printed(upper + upper.T + np.diag(np.diag(scores)))
    return printed


def _payloads(reader: Reader, ids: list[str], wanted: tuple[str, ...]) -> list[dict[str, Any] | None]:
    if not wanted:
        return [None] * len(ids)
    read = payload_reader(wanted)
    return [read(known[1]) if known is not None else None for known in reader.items([one.encode() for one in ids])]
