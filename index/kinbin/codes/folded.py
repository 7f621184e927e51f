"""Rows as 8-bit codes, and how far apart two codes are.

A row's features are folded into a few hundred buckets (their signed values are added up) and each bucket
is rounded to 8 bits. Adding values up never makes two rows farther apart in L1, so the distance of two
codes, less what rounding changed, is a lower bound of the true distance: codes rank candidates for the
walk, and prove in an exact scan which rows need not be looked at.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.native.jit import inline, owning, reassoc, strict
from kinbin.native.memory import absolute_differences_64, absolute_differences_128, u16_array
from kinbin.native.records import Layout
from kinbin.rows.asked import asked_of
from kinbin.spaces.shared import most_similar

__all__ = [
    "CODER",
    "LANES",
    "SLOTS",
    "Coding",
    "code_distance",
    "coding_by",
    "encode",
    "encode_row",
    "fold_rows",
    "merge_buckets",
    "rank_of",
    "slot_of",
]

U64 = np.uint64
LANES = 64
"""Codes are whole multiples of so many bytes: one instruction compares them."""
SLOTS = 4096
"""Features beyond so many are hashed into this many slots before they are folded."""
_MIX = U64(0x9E3779B97F4A7C15)
RANK_ONE = np.float32(1 << 30)
_SHAPES = 0.125
"""What the distance of shapes weighs in a rank, beside the similarity that norms and shapes allow."""


CODER = Layout(
    "CODER",
    width=("count", "bytes a code; 0: codes are packed"),
    step=("number", "what one unit of a byte or a weight stands for, of a row that sums to 1"),
    offset=("number", "the byte that stands for nothing"),
    hashed=("count", "whether features are hashed into slots"),
    buckets=("u16[]", "the bucket of each slot"),
    slots=("count", ""),
    units=("count", "whether packed codes are of unit rows, and compared in L2"),
    # Of unit rows: see `codes.packed` and `codes.units`.
    roots=("count", "whether the unit rows are square roots of shapes"),
    matrix=("f32[]", "(slots + 1, width) the shift, then the direction of each slot"),
    known=("u64[]", "the feature of each slot, ascending; none: a feature is its slot"),
    known_count=("count", ""),
)


class Coding(NamedTuple):
    """How rows are folded, as compiled code sees it."""

    step: Any
    offset: Any
    hashed: Any
    buckets: Any


@inline
def coding_by(coder):
    """What a record (of a coder, or of a graph) says of folding."""
    return Coding(coder.step, coder.offset, coder.hashed != 0, u16_array(coder.buckets, coder.slots))


@inline
def slot_of(feature, hashed):
    """The slot of a feature: itself, or 12 bits of a hash."""
    return (feature * _MIX) >> U64(52) if hashed else feature


@strict
def fold_rows(rows, hashed, buckets, out):
    """Add the values of n rows, each divided by its norm, up by bucket: out (n, buckets) float32, zero. Cost: 5 ns a nonzero."""
    indptr, features, values, norms = asked_of(rows[0])
    for i in range(len(norms)):
        scale = 1.0 / norms[i]
        for x in range(indptr[i], indptr[i + 1]):
            out[i, buckets[slot_of(features[x], hashed)]] += np.float32(values[x] * scale)


@inline
def encode_row(coding, features, values, norm, sums, code):
    """Write the code (B,) uint8 of one row, divided by its norm; sums (B or more,) float64 is scratch. Returns its error."""
    step, offset, hashed, buckets = coding
    for b in range(len(code)):
        sums[b] = 0.0
    scale = 1.0 / norm
    for x in range(len(features)):
        sums[buckets[slot_of(features[x], hashed)]] += values[x] * scale
    error = 0.0
    for b in range(len(code)):
        rounded = min(max(np.rint(sums[b] / step) + offset, 0.0), 255.0)
        code[b] = np.uint8(rounded)
        error += abs(sums[b] - step * (rounded - offset))
    return np.float32(error * 1.000001 + 1e-9)


@owning
def encode(coder, rows, codes, errors):
    """Codes (n, B) uint8 and errors (n,) float32 of n rows, each divided by its norm.

    A code is round(value / step) + offset, cut to 0 … 255. errors: at least Σ |bucket − step (code − offset)|.
    Cost: 1 ns a nonzero and byte.
    """
    coding = coding_by(coder[0])
    indptr, features, values, norms = asked_of(rows[0])
    sums = np.empty(codes.shape[1], np.float64)
    for i in range(len(norms)):
        a, b = indptr[i], indptr[i + 1]
        errors[i] = encode_row(coding, features[a:b], values[a:b], norms[i], sums, codes[i])


@inline
def code_distance(left, right, width):
    """Σ |a − b| of the codes at two addresses."""
    total = np.uint32(0)
    pairs = width // (2 * LANES)
    # Two at a time: adding up the lanes of a sum costs more than the sum itself.
    for c in range(pairs):
        total += absolute_differences_128(left + U64(2 * LANES * c), right + U64(2 * LANES * c))
    if width % (2 * LANES) != 0:
        total += absolute_differences_64(left + U64(2 * LANES * pairs), right + U64(2 * LANES * pairs))
    return total


@inline
def rank_of(distance, step, shapes, left_norm, right_norm):
    """An integer that orders rows from near to far: the codes' distance, or (where not only shapes count) their dissimilarity.

    The similarity that norms and shapes allow at most is the same for many rows where the norms differ (all that could be a part of
    the greater one): among these the distance of the shapes decides, which has a small share in every rank.
    """
    if shapes:
        return U64(distance)
    # Of damaged codes the distance may be anything.
    apart = min(distance * step, 4.0)
    dissimilarity = 1.0 - most_similar(apart, left_norm, right_norm)
    return U64((dissimilarity + _SHAPES * 0.5 * apart) / (1.0 + _SHAPES) * RANK_ONE)


@reassoc
def _sum_loss(left, right):
    """Σ |a + b|: what is left of the differences of two buckets when they are one."""
    total = np.float32(0.0)
    for p in range(len(left)):
        total += abs(left[p] + right[p])
    return total


@inline
def _best_mate(differences, mass, alive, a, best, mate, stale):
    """Find the bucket whose union with bucket a loses least, and offer a to all others."""
    best[a] = np.inf
    mate[a] = -1
    for b in range(len(alive)):
        if alive[b] and b != a:
            loss = mass[a] + mass[b] - _sum_loss(differences[a], differences[b])
            if loss < best[a]:
                best[a] = loss
                mate[a] = b
            if loss < best[b]:
                best[b] = loss
                mate[b] = a
                stale[b] = False


@owning
def merge_buckets(differences, wanted, bucket):
    """Fold slots into fewer and fewer buckets, always the two whose sum loses least distance.

    differences (D, P) float32: by slot, the differences of P pairs of rows; destroyed. wanted: descending numbers of
    buckets. bucket (len(wanted), D) uint16: for each of them the bucket of every slot. Cost: about 3 P D² additions.
    """
    count, pairs = differences.shape
    parent = np.arange(count)
    alive = np.ones(count, np.bool_)
    mass = np.zeros(count, np.float32)
    for a in range(count):
        for p in range(pairs):
            mass[a] += abs(differences[a, p])
    best = np.full(count, np.float32(np.inf))
    mate = np.zeros(count, np.int64)
    stale = np.zeros(count, np.bool_)
    for a in range(count):
        _best_mate(differences, mass, alive, a, best, mate, stale)
    # What a merge changes is looked at again only where it comes to the front: the mates of many are often the same.
    left = count
    for w in range(len(wanted)):
        while left > wanted[w]:
            a = -1
            for x in range(count):
                if alive[x] and (a < 0 or best[x] < best[a]):
                    a = x
            if stale[a]:
                _best_mate(differences, mass, alive, a, best, mate, stale)
                stale[a] = False
                continue
            b = mate[a]
            mass[a] = np.float32(0.0)
            for p in range(pairs):
                differences[a, p] += differences[b, p]
                mass[a] += abs(differences[a, p])
            alive[b] = False
            parent[b] = a
            left -= 1
            for x in range(count):
                stale[x] = stale[x] or x == a or mate[x] == a or mate[x] == b
        _name_buckets(parent, alive, bucket[w])


@owning
def _name_buckets(parent, alive, out):
    """Number the living slots from 0, and give every slot the number of the one it was folded into."""
    names = np.zeros(len(parent), np.int64)
    name = 0
    for x in range(len(parent)):
        if alive[x]:
            names[x] = name
            name += 1
    for x in range(len(parent)):
        y = x
        while parent[y] != y:
            y = parent[y]
        out[x] = names[y]
