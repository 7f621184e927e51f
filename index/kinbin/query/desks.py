"""What one search needs at a time: work space, and room for a single query and its answers, of which kernels know the places."""

from __future__ import annotations

import numpy as np

from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.query.found import FoundAlone
from kinbin.rows.asked import QUERIES, queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.segments.descriptors import FRESH_BANDS

__all__ = ["Desk", "Keys"]

_MOST_ALONE = 128
"""Answers of a single query that a desk has room for."""


class Keys:
    """Room for the keys of m queries, of which kernels know the places."""

    def __init__(self, m: int, columns: int) -> None:
        self.keys, self.fresh = np.zeros((m, columns), np.uint32), np.zeros((m, FRESH_BANDS), np.uint16)
        self.places = address_of(self.keys), address_of(self.fresh)


class Desk:
    """Of one search at a time. `Searcher.borrow` lends it."""

    def __init__(self, wide: bool, nonzeros: int) -> None:
        self.scratch = Scratch(wide, nonzeros)
        self._indptr, self._norms = np.zeros(2, np.int64), np.empty(1)
        self._features, self._values = np.empty(0, np.uint64), np.empty(0, np.float32)
        self._asked = queries_record(Rows(self._indptr, self._features, self._values, self._norms))
        self._found: dict[int, FoundAlone] = {}
        self._keys = Keys(1, 1)
        self.told = False
        """Whether the record of a single query asks for more than the nearest."""

    def asked(self, query: Rows) -> Record:
        """The record of a single query: its numbers are copied to their place."""
        count = len(query.values)
        if count > len(self._values):
            self._features, self._values = np.empty(2 * count, np.uint64), np.empty(2 * count, np.float32)
            QUERIES.fill(self._asked, features=self._features, values=self._values)
        self._indptr[1] = count
        self._features[:count] = query.features
        self._values[:count] = query.values
        self._norms[:] = query.norms
        if self.told:
            self._asked["least"] = self._asked["more"] = 0
            self.told = False
        return self._asked

    def keys(self, m: int, columns: int) -> Keys:
        """Room for the keys of queries; that of a single one is used again."""
        if m > 1:
            return Keys(m, columns)
        if self._keys.keys.shape[1] < columns:
            self._keys = Keys(1, columns)
        return self._keys

    def found(self, k: int) -> FoundAlone:
        """Room for its answers, to be read before the next."""
        found = self._found.get(k)
        if found is None:
            found = FoundAlone.alone(k)
            if k <= _MOST_ALONE:
                self._found[k] = found
        else:
            found.forget()
        return found
