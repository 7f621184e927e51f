"""Frozen records that predictions and measurements are told in: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "BandsForecast", "CurrentSetting", "ModeRecall", "Rebuilt", "RecallReport", "SimilarityHistogram", "Suggestion", "Tuning",
    "WalkForecast",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SimilarityHistogram:
    """How near the rows are to each other, as bands see it: by the probability that one hash of a pair agrees."""

    edges: tuple[float, ...]
    """The borders of the B bins: B + 1 numbers from 0 to 1."""
    pairs: tuple[float, ...]
    """Share of all pairs in each bin."""
    neighbours: tuple[float, ...]
    """Share of the k nearest neighbours in each bin."""


@dataclass(frozen=True, slots=True)
class BandsForecast:
    """What a search by bands is expected to do if all rows lie in one run of `bands` bands of `rows` hashes."""

    rows: int
    bands: int
    recall: float
    """Share of the k nearest that mode `bands` finds at the target."""
    recall_error: float
    """Standard error of `recall`, as an estimate for all stored rows: 0 where all were drawn. It halves with four times the sample."""
    uncertified: float
    """Share of the queries that these bands cannot certify at the target: mode `auto` scans for them."""
    postings: float
    """Read by a query."""
    verified: float
    """Rows scored for a query."""
    bytes_per_row: float
    """Of the band tables alone."""
    microseconds: float
    """A query in one thread, one of many that are asked together."""


@dataclass(frozen=True, slots=True)
class WalkForecast:
    """What walks of one width are expected to find: as calibration of the links measured it."""

    width: int
    recall: float
    microseconds: float


@dataclass(frozen=True, slots=True)
class CurrentSetting:
    """The bands that a collection has now, all runs and the fresh rows together: predicted, and measured with the sampled rows."""

    rows: int
    """Of the largest run; 1 if there is none."""
    bands: int
    runs: int
    recall: float
    measured_recall: float
    microseconds: float
    measured_microseconds: float


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A setting for `rebuild`."""

    rows: int
    bands: int
    why: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `tune` says."""

    sample: int
    """Rows that were drawn, each as a query."""
    k: int
    target_recall: float
    similarity_histogram: SimilarityHistogram
    bands: tuple[BandsForecast, ...]
    walks: tuple[WalkForecast, ...]
    """Empty where no links were built."""
    current: CurrentSetting
    suggested: Suggestion


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild made."""

    rows: int | None
    """Hashes a band of the largest run; None: there are no rows."""
    bands: int | None
    count: int
    """Different rows that lie so."""
    seconds: float


@dataclass(frozen=True, slots=True)
class ModeRecall:
    """What one mode found."""

    mode: str
    recall: float | None
    """Share of the k nearest that were found, the mean of all queries that have any; None if none has: there is nothing to measure."""
    lowest: float | None
    """That of the query that fared worst."""
    certificate: float | None
    """Mean of the recall bounds that answers carried; None if none did."""
    certified: float
    """Share of the answers that carried one."""
    milliseconds: float
    """Median of a query that is asked alone."""


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Recall of each mode, measured against an exact scan of the same snapshot."""

    queries: int
    k: int
    target_recall: float
    sampled: bool
    """Whether the queries are stored items, each without itself in all answers; otherwise they were given."""
    modes: tuple[ModeRecall, ...] = field(default_factory=tuple)
