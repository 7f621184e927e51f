"""What is known of a pool index: its embedding with its settings, where its rows lie, and what calibration measured.

One JSON record behind its checksum, `pools/current`, is replaced whole by a rename: a crash leaves the old one or the new one. Whoever
finds it damaged, or of another version, does as if there were none.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kinbin.errors import CorruptData
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.format import decode_json, encode_json

__all__ = ["CALIBRATED_K", "POOLS", "Calibration", "Index"]

VERSION = 1
CALIBRATED_K = (1, 10, 100)
POOLS = (20, 50, 100, 200, 300, 500, 1000)
_CURRENT = "current"
_FASTER = 1.2
"""A pool is worth its risk where it is so many times as fast as a scan."""
_MARGIN = 0.02
"""A pool serves a target that its calibrated recall exceeds by so much, or by half of what the target leaves out."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What pools of rising size found of the true neighbours of stored objects, each without itself."""

    rows: int
    """Objects there were."""
    queries: int
    pools: list[int]
    recall: dict[str, list[float]]
    """By k: of each pool the mean recall."""
    far: dict[str, float]
    """By k: the least score of a k-th neighbour."""
    ns: list[float]
    """Of each pool: what a query for the most neighbours took, in the mean."""
    scan_ns: float
    """What such a scan took for each object."""
    fewer: dict[str, list[float]] = field(default_factory=dict)
    """By smaller k: what a scan took for each object, and a query of each pool. Answers for few neighbours are good sooner, so that more
    is cut short: of scans that pass over most rows far more than of pools. Empty: it was not measured."""

    def pool(self, k: int, target: float, share: float, *, forced: bool, live: int) -> tuple[int, float] | None:
        """(the smallest pool that serves, the least score of a k-th neighbour that is as calibrated); None: scan.

        share: of the rows that a filter lets through. forced: take the best there is, though it serves less, or is no faster.
        """
        known = next((str(one) for one in CALIBRATED_K if one >= k), None)
        # No pool promises everything; and a filter that lets nothing through needs none.
        if known is None or known not in self.recall or (target >= 1.0 and not forced) or share <= 0.0:
            return None
        aim = target + min(_MARGIN, 0.5 * (1.0 - target))
        scan_ns, *took = self.fewer.get(known, [self.scan_ns, *self.ns])
        for pool, recall, ns in zip(self.pools, self.recall[known], took, strict=True):
            if pool >= k / share and recall >= aim and pool * share >= self._least(known, aim):
                worth = ns * _FASTER <= scan_ns * live * max(share, 0.1)
                return (pool, self.far[known]) if worth or forced else None
        return (self.pools[-1], self.far[known]) if forced and self.pools else None

    def _least(self, known: str, aim: float) -> float:
        """The smallest pool that serves where nothing is filtered."""
        return next((pool for pool, recall in zip(self.pools, self.recall[known], strict=True) if recall >= aim), float("inf"))


@dataclass(frozen=True, slots=True)
class Index:
    """The index that is current."""

    generation: int
    """The name of its directory beside the record; none is used twice."""
    embedding: str
    settings: dict[str, Any]
    tried: dict[str, float]
    """By embedding, its recall on the sample that one was chosen by."""
    rows: int
    """Objects there were when it was built."""
    calibration: Calibration

    @staticmethod
    def stamp(folder: Path) -> tuple[int, int] | None:
        """What changes whenever the record is replaced; None: there is none."""
        try:
            stat = (folder / _CURRENT).stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    @classmethod
    def load(cls, folder: Path) -> Index | None:
        """The current one; None if there is none, or it cannot be used."""
        try:
            data = decode_json((folder / _CURRENT).read_bytes(), "the pool index")
            if data.pop("version") != VERSION:
                return None
            return cls(**{**data, "calibration": Calibration(**data["calibration"])})
        except (OSError, CorruptData, KeyError, TypeError, AttributeError):
            return None

    def save(self, folder: Path) -> None:
        """Make this one current."""
        draft = folder / f".{_CURRENT}"
        with translated():
            with draft.open("wb") as file:
                file.write(encode_json({"version": VERSION, **asdict(self)}))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(folder / _CURRENT)
            sync_directory(folder)
