"""What is asked of a search, and what it finds: rows, not yet ids."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BANDS", "EXACT", "LINKS", "PATHS", "Found", "Wanted", "cut_below", "empty", "joined", "new_rows"]

BANDS, EXACT, LINKS = 0, 1, 2
PATHS = ("bands", "exact", "links")


@dataclass(slots=True, eq=False)
class Found:
    """Raw answers to m queries: rows, not yet ids."""

    similarity: NDArray[np.float64]
    """(m, k), best first, -1 where there is none."""
    run: NDArray[np.int64]
    """(m, k) place of the run in the view, -1 where there is none."""
    row: NDArray[np.int64]
    """(m, k) local row."""
    candidates: NDArray[np.int64]
    verified: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    certificate: NDArray[np.float64]
    """(m,) at the similarity reached; nan where it was not asked for; meaningless where truncated."""
    path: NDArray[np.int8]
    """(m,) BANDS, EXACT (complete) or LINKS."""
    far: NDArray[np.bool_]
    """(m,) whether a walk found the query unlike those that links were calibrated on (`Width.trusted`), or its norm is."""

    def rows(self, which: NDArray[np.int64]) -> Found:
        """A copy of some of the answers."""
        return Found(*(getattr(self, name)[which] for name in self.__slots__))

    def put(self, which: NDArray[np.int64], part: Found) -> None:
        """Replace some of the answers."""
        for name in self.__slots__:
            getattr(self, name)[which] = getattr(part, name)


@dataclass(slots=True, eq=False)
class Wanted:
    """What is asked of a search."""

    k: int
    least: float
    """Answers below this similarity are not wanted."""
    target: float
    mode: str
    """"bands": bands only. "exact": a scan. "links": walks, and bands for rows that are not linked. "auto": what is expected to
    be fastest for the target, and a scan for each query that bands cannot certify at it; a walk that finds its query far is
    completed by bands or a scan."""
    certify: bool = False
    """Whether a walk's answers need the bands' certificate as well."""
    share: float = 1.0
    """Share of the rows that a filter lets through."""
    cancel: threading.Event | None = None
    """Once set, the search ends with SearchCancelled."""


def joined(answers: list[Found]) -> Found:
    """The answers of the parts of a batch, in order."""
    return Found(*(np.concatenate([getattr(one, name) for one in answers]) for name in Found.__slots__))


def empty(m: int, k: int) -> Found:
    """Room for m answers; similarity, run and row are what the first kernel writes."""
    return Found(
        np.empty((m, k)), np.empty((m, k), np.int64), np.empty((m, k), np.int64), np.zeros(m, np.int64),
        np.zeros(m, np.int64), np.zeros(m, np.bool_), np.empty(m), np.zeros(m, np.int8), np.zeros(m, np.bool_),
    )  # fmt: skip


def new_rows(before: tuple[NDArray[np.int64], NDArray[np.int64]], found: Found) -> NDArray[np.int64]:
    """(m,) how many of the answers were not there before. before: runs and rows (m, k)."""
    known = (found.run[:, :, None] == before[0][:, None, :]) & (found.row[:, :, None] == before[1][:, None, :])
    new: NDArray[np.int64] = (~known.any(axis=2)).sum(axis=1)
    return new


def cut_below(found: Found, least: float) -> None:
    """Take out answers below a similarity."""
    below = found.similarity < least
    found.similarity[below] = -1.0
    found.run[below] = found.row[below] = -1
