"""Choosing projections of unit rows: which directions, how many, and what a step stands for.

Directions are the leading principal ones of a sample, which no other choice of so many keeps more of. How many of them is chosen as
for folded codes: by how many true neighbours are among the nearest codes, and by the time that walks take. They are turned by a random
rotation that depends on the collection's seed, so that coordinates are alike in size, and nobody else knows what they stand for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.coder import ENOUGH, WIDTHS, Coder, Projection, node_cost, packed_unit_coder, recall_of, rounded, walk_cost
from kinbin.codes.folded import CODER, LANES, SLOTS
from kinbin.codes.units import project_units
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows

__all__ = ["choose_unit_coder", "drifted", "projected_coder", "residual"]

_SAMPLE_ROWS = 8_192
_SAMPLE_CELLS = 1 << 23
"""Rows times slots of the sample."""
_TURNS = 2
"""Times that a random subspace is turned towards the principal one, where there are more slots than directions."""
_CLIPS = 4
_GOOD_AS = 0.001
"""Steps whose recall differs by less are told apart by what rounding changes."""
_SHORTER = 1.0 - 2.0**-17
"""What directions are multiplied by, so that rounding them to float32 makes none longer than 1: a thousand of them, as a whole, are off
by less than 2e-6."""
_DRIFT, _DRIFT_LEAST = 2.0, 0.05
"""Rows have drifted if they lose more than so many times the share of their squares that the sample lost, and so much more."""


def choose_unit_coder(rows: Rows, dim: int | None, neighbourhoods: tuple[Rows, int], nodes: int, *, roots: bool, seed: int) -> Coder:
    """Codes of unit rows: as `projected_coder`, or packed entries where walks by them are cheaper.

    Cost: that of `projected_coder`.
    """
    near, size = neighbourhoods
    packed = packed_unit_coder(near, size, roots=roots)
    projected = projected_coder(rows, dim, neighbourhoods, nodes, roots=roots, seed=seed)
    return packed if node_cost(packed, near) < node_cost(projected, near) else projected


def projected_coder(rows: Rows, dim: int | None, neighbourhoods: tuple[Rows, int], nodes: int, *, roots: bool, seed: int) -> Coder:
    """Codes for so many unit rows like these (a sample of what is to be encoded; some thousands are enough).

    neighbourhoods: as `coder.choose_coder` takes them. roots: rows are square roots of shapes. The same sample and seed give the same
    codes on the same machine. Cost: 1 s for 784 features, 5 s for 4,096.
    """
    near, size = neighbourhoods
    known = _known(rows) if dim is None or dim > SLOTS else np.empty(0, np.uint64)
    slots = len(known) or int(dim or 1)
    sample = _dense(rows, known, slots, roots)
    directions = _principal(sample, np.random.default_rng(seed))
    # Every width is judged by coordinates on the principal directions, turned.
    basis = Projection(np.concatenate([np.zeros((1, directions.shape[1])), directions]).astype("<f4"), known, roots, 0.0)
    plain = Coder(directions.shape[1], bool(len(known)), np.empty(0, np.uint16), 1.0, 128.0, 1.0, basis)
    spread, groups = sample @ basis.matrix[1:], _coordinates(plain, near)
    best: Coder | None = None
    for width in (*(width for width in WIDTHS if width < slots), -(-slots // LANES) * LANES):
        if width > WIDTHS[-1]:
            break
        rotation = _rotation(width, seed)[: directions.shape[1]].astype(np.float32)
        shift = spread[:, :width].mean(axis=0) @ rotation
        step, recall = _step(spread[:, :width] @ rotation - shift, groups[:, :width] @ rotation - shift, size)
        coder = replace(plain, width=width, step=step, recall=recall)
        if best is None or walk_cost(coder, nodes) < walk_cost(best, nodes):
            best = coder
        if recall >= ENOUGH or directions.shape[1] <= width:
            break
    assert best is not None
    kept = directions[:, : best.width]
    lost = 1.0 - float(np.square(spread[:, : best.width], dtype=np.float64).sum(axis=1).mean())
    turned = _SHORTER * (kept @ _rotation(best.width, seed)[: kept.shape[1]])
    matrix = np.concatenate([-(sample.mean(axis=0, dtype=np.float64) @ turned)[None], turned]).astype("<f4")
    return replace(best, projection=Projection(matrix, known, roots, round(max(0.0, lost), 6)))


def residual(coder: Coder, rows: Rows) -> float:
    """The share of the squares of unit rows that lies in none of the directions, in the mean."""
    assert coder.projection is not None
    coordinates = _coordinates(coder, rows) - coder.projection.matrix[0]
    return max(0.0, 1.0 - float(np.square(coordinates, dtype=np.float64).sum(axis=1).mean()))


def drifted(coder: Coder, rows: Rows) -> bool:
    """Whether rows lie so far outside of the directions of a coder that it should be chosen anew."""
    if coder.projection is None or not coder.width or not len(rows):
        return False
    return residual(coder, rows) > _DRIFT * coder.projection.residual + _DRIFT_LEAST


def _known(rows: Rows) -> NDArray[np.uint64]:
    """The features that get slots: those in which most of the sample's squares lie. Ascending."""
    features, place = np.unique(rows.features, return_inverse=True)
    lengths = np.repeat(np.sqrt(np.add.reduceat(rows.values.astype(np.float64) ** 2, rows.indptr[:-1])), np.diff(rows.indptr))
    squares = np.bincount(place, (rows.values / lengths) ** 2, len(features))
    return np.sort(features[np.argsort(-squares, kind="stable")[:SLOTS]])


def _dense(rows: Rows, known: NDArray[np.uint64], slots: int, roots: bool) -> NDArray[np.float32]:
    """(n, slots) the unit rows, without the features that have no slot; of too many rows every other, or third, and so on."""
    every = -(-len(rows) // min(_SAMPLE_ROWS, _SAMPLE_CELLS // slots))
    weights = np.sqrt(np.abs(rows.values.astype(np.float64))) if roots else rows.values.astype(np.float64)
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    weights /= np.sqrt(np.bincount(owner, weights * weights, len(rows)))[owner]
    place = np.searchsorted(known, rows.features) if len(known) else rows.features.astype(np.int64)
    has = known[np.minimum(place, len(known) - 1)] == rows.features if len(known) else np.ones(len(place), np.bool_)
    has &= owner % every == 0
    out = np.zeros((-(-len(rows) // every), slots), np.float32)
    out[owner[has] // every, place[has]] = weights[has]
    return out


def _principal(sample: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float64]:
    """(slots, m) orthonormal directions, those first in which most of the sample's squares lie; m: slots, but 1,024 at most.

    Of more slots they are found as Halko, Martinsson and Tropp do (2011, algorithm 4.4): nearly the best ones, and no more than rows.
    """
    slots = sample.shape[1]
    if slots <= WIDTHS[-1]:
        _, directions = np.linalg.eigh((sample.T @ sample).astype(np.float64))
        return np.asarray(directions[:, ::-1])
    found = rng.standard_normal((slots, min(WIDTHS[-1], len(sample))), dtype=np.float32)
    for _ in range(_TURNS):
        found = np.linalg.qr(sample.T @ (sample @ found))[0]
    found = np.linalg.qr(found.astype(np.float64))[0]
    spread = sample @ found.astype(np.float32)
    _, mixtures = np.linalg.eigh((spread.T @ spread).astype(np.float64))
    return np.asarray(found @ mixtures[:, ::-1])


def _rotation(width: int, seed: int) -> NDArray[np.float64]:
    """(width, width) a random rotation."""
    return np.linalg.qr(np.random.default_rng([seed, width]).standard_normal((width, width)))[0]


def _step(coordinates: NDArray[np.float32], near: NDArray[np.float32], size: int) -> tuple[float, float]:
    """The step of the best recall, and that; of steps that are as good, the one that changes rows least."""
    most = float(np.abs(coordinates).max()) or 1.0
    groups, some = near.reshape(-1, size, near.shape[1]), coordinates[:1_024]
    tried = []
    for i in range(_CLIPS):
        step = most / 127 * 0.5 ** (i / 2)
        codes = rounded(groups, step, 128.0)
        recall = recall_of(np.square(codes[:, 1:] - codes[:, :1]).sum(axis=2))
        off = np.sqrt(np.square(some - np.float32(step) * (rounded(some, step, 128.0) - 128)).sum(axis=1)).mean()
        tried.append((float(off), step, recall))
    least = max(recall for *_, recall in tried) - _GOOD_AS
    _, step, recall = min(one for one in tried if one[2] >= least)
    return step, recall


def _coordinates(coder: Coder, rows: Rows) -> NDArray[np.float32]:
    """(n, width) of unit rows, less the shift."""
    out = np.empty((len(rows), coder.width), np.float32)
    project_units(CODER.record(**coder.fields()), queries_record(rows), out)
    return out
