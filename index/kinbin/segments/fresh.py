"""Rows that are in the journal only, mirrored in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.native.memory import address_of
from kinbin.segments.descriptors import FRESH_BANDS
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import Commit

__all__ = ["Fresh", "gone_in"]

_COLUMNS = ("keys", "addresses", "rooms", "row_numbers", "hashes", "zeros")
"""The arrays of a mirror."""


def gone_in(commits: Sequence[Commit]) -> NDArray[np.uint64]:
    """The numbers of the rows that died in some commits."""
    dead = [commit.dead for commit in commits if len(commit.dead)]
    return np.concatenate(dead) if dead else np.empty(0, np.uint64)


class Fresh:
    """A mirror of the rows that are in the journal only.

    Arrays grow in place beyond `rows`, so that older views, which know fewer rows, stay right.
    """

    def __init__(self, sealed: int = 0) -> None:
        """sealed: the last commit whose rows are in runs."""
        self.sealed = sealed
        self.commits = 0
        """Commits since that one."""
        self.rows = 0
        self.keys = np.zeros((64, FRESH_BANDS), np.uint16)
        self.addresses = np.zeros(64, np.uint64)
        self.rooms = np.zeros(64, np.uint64)
        self.row_numbers = np.zeros(64, np.uint64)
        self.hashes = np.zeros(64, np.uint64)
        self.zeros = np.zeros(64, np.uint32)
        self.dead = DeadRows.of(0)
        self._ends: list[int] = []
        """Of each commit, the rows up to its end; shared like the arrays."""
        self._records: list[NDArray[np.uint8]] = []
        """Of each commit, what the addresses lead to; shared, too."""

    def extended(self, commits: list[Commit]) -> Fresh:
        """A mirror with the rows and deaths of more commits; shares its arrays with this one."""
        out = Fresh.__new__(Fresh)
        out.__dict__.update(self.__dict__)
        # An attempt that failed may have left something here.
        del out._ends[out.commits :], out._records[out.commits :]
        for commit in commits:
            out._append(commit)
            out._ends.append(out.rows)
            out._records.append(commit.records)
        out.commits += len(commits)
        out.dead = self.dead.grown(out.rows)
        gone = gone_in(commits)
        if len(gone):
            out.dead = out.dead.with_dead(out.locals(gone))
        return out

    def without(self, sealed: int) -> Fresh:
        """A mirror without the rows of the commits up to this one, which are in a run now. It has arrays of its own.

        Cost: 300 bytes a row that stays are copied.
        """
        before = sealed - self.sealed
        first = self._ends[before - 1] if before else 0
        out = Fresh(sealed)
        out.commits, out.rows = self.commits - before, self.rows - first
        out._ends = [end - first for end in self._ends[before : self.commits]]
        out._records = self._records[before : self.commits]
        if out.rows > len(out.hashes):
            out._grow(2 * out.rows)
        for name in _COLUMNS:
            getattr(out, name)[: out.rows] = getattr(self, name)[first : self.rows]
        dead = self.dead.gone()
        out.dead = DeadRows.of(out.rows).with_dead(dead[dead >= first] - first)
        return out

    @property
    def live(self) -> int:
        """Rows that are not dead."""
        return self.dead.live

    def _append(self, commit: Commit) -> None:
        more = len(commit)
        if not more:
            return
        if len(commit.records) != commit.offsets[-1]:
            raise CorruptData("a journal entry's rows have not the size it gives")
        first_row = commit.first_row if commit.numbers is None else commit.numbers.item(0)
        if self.rows and first_row <= self.row_numbers.item(self.rows - 1):
            raise CorruptData("the rows of a journal entry do not follow those of the one before")
        stop = self.rows + more
        if stop > len(self.hashes):
            self._grow(max(stop, 2 * len(self.hashes)))
        records = commit.records
        here = slice(self.rows, stop)
        self.keys[here] = commit.keys
        self.hashes[here] = commit.hashes
        first = address_of(records)
        if more == 1:
            # Adds of one row come in thousands: numbers instead of arrays.
            begin, end = commit.offsets.tolist()
            self.addresses[self.rows], self.rooms[self.rows] = first + begin, end - begin
            self.row_numbers[self.rows] = first_row
        else:
            self.addresses[here] = np.uint64(first) + commit.offsets[:-1].astype(np.uint64)
            self.rooms[here] = np.diff(commit.offsets)
            self.row_numbers[here] = commit.row_numbers()
        self.rows = stop

    def _grow(self, capacity: int) -> None:
        capacity = -(-capacity // 64) * 64
        for name in _COLUMNS:
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def locals(self, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Places of those of the given row numbers that are fresh."""
        known = self.row_numbers[: self.rows]
        place = np.searchsorted(known, rows)
        inside = place < self.rows
        inside[inside] = known[place[inside]] == rows[inside]
        found: NDArray[np.int64] = place[inside]
        return found
