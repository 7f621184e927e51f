"""What bands make of a pair: how many they share, and how likely it is that they share one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinbin.explaining.told import Curve, SharedBands
from kinbin.hashing import Sampler, band_keys
from kinbin.query.search import fresh_keys
from kinbin.query.view import View
from kinbin.rows.rows import Rows
from kinbin.segments.descriptors import FRESH_BANDS
from kinbin.spaces.space import Space

__all__ = ["curve_of", "layout_of", "no_bands", "shared_bands"]

_POINTS = 101
"""Of a curve."""


def no_bands(space: Space) -> str:
    """Why rows of a space have none."""
    if space.objects is not None:
        return f"{space.called} has no bands, since no hash tells how near two items are"
    return f"{space.name} has no bands: nothing is known that ties its score to a collision of hashes"


def layout_of(view: View, run: int) -> tuple[int, int]:
    """Hashes a band and bands of a run; run: its place, as `View.find` tells it."""
    return (1, FRESH_BANDS) if run == len(view.runs) else (view.runs[run].header.r, view.runs[run].header.bands)


def shared_bands(
    space: Space, sampler: Sampler, pair: tuple[Rows, Rows], layout: tuple[int, int], collision: float, curve: Curve | None, *, fresh: bool
) -> SharedBands:
    """Hash both rows and compare. collision: of a hash of theirs. Cost: what hashing two rows takes."""
    rows, bands = layout
    if fresh:
        keys: Any = [fresh_keys(space, sampler, one) for one in pair]
    else:
        keys = [band_keys(sampler.codes(one, rows, bands), rows, bands) for one in pair]
    shared = int(np.count_nonzero(keys[0] == keys[1]))
    return SharedBands(rows, bands, shared, collision, found_by(collision, rows, bands), curve)


def found_by(collision: float, rows: int, bands: int) -> float:
    """1 − (1 − p^r)^L, without the loss of small ones."""
    same = min(max(collision, 0.0), 1.0) ** rows
    return 1.0 if same >= 1.0 else -math.expm1(bands * math.log1p(-same))


def curve_of(space: Space, layout: tuple[int, int]) -> Curve:
    """The S-curve over all that the kernel prints. Where it prints less than some score could, the curve begins at 0."""
    least, most = space.printed_range
    points = np.linspace(least, most, _POINTS).tolist()
    return tuple((printed, found_by(space.least_similarity(space.score_of(printed)), *layout)) for printed in points)
