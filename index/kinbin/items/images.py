"""Images: how often each of 512 colours occurs in each cell of a grid. The counts are kept, and every score is computed from them.

A colour has 3 bits of red, of green and of blue, the highest of each: (r // 32) · 64 + (g // 32) · 8 + b // 32. The grid is of side × side
cells, side = √(dim / 512). Cell i of a side of n pixels begins with pixel ⌊i n / side⌋: whole pixels, in cells that differ by one pixel
at most, and a cell of a coarser grid is exactly the four of the finer one. A vector has the count of colour c in cell (y, x) at
(y · side + x) · 512 + c.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput, Problem
from kinbin.items.kind import Form, Kind, alone, batch_of, each
from kinbin.items.pictures import pixels_of
from kinbin.items.vectors import VECTORS
from kinbin.native.jit import strict
from kinbin.rows.matrices import Fault
from kinbin.rows.rows import Rows

__all__ = ["COLOURS", "IMAGES", "image_pixels"]

COLOURS = 512


@strict
def _count(pixels, side, counts, features, values):
    """The nonzero counts of one image as features and values, ascending; returns how many there are.

    pixels: (height, width, 3). counts: (side², 512), zeros, left so. Cost: 1 ns a pixel, 0.3 ns a cell and colour.
    """
    height, width = pixels.shape[0], pixels.shape[1]
    for cell in range(side * side):
        row, column = cell // side, cell % side
        for y in range(row * height // side, (row + 1) * height // side):
            for x in range(column * width // side, (column + 1) * width // side):
                colour = (np.int64(pixels[y, x, 0]) >> 5) * 64 + (np.int64(pixels[y, x, 1]) >> 5) * 8 + (np.int64(pixels[y, x, 2]) >> 5)
                counts[cell, colour] += 1
    at = 0
    for cell in range(side * side):
        for place in range(COLOURS):
            if counts[cell, place] != 0:
                features[at] = np.uint64(cell * COLOURS + place)
                values[at] = np.float32(counts[cell, place])
                counts[cell, place] = 0
                at += 1
    return at


_Counted = tuple[NDArray[np.uint64], NDArray[np.float32]]


class _Counter:
    """Counts images one after the other: no more than one is in memory in full."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._counts = np.zeros((side * side, COLOURS), np.int64)
        self._features = np.empty(side * side * COLOURS, np.uint64)
        self._values = np.empty(side * side * COLOURS, np.float32)

    def __call__(self, given: Any) -> _Counted:
        """Features and values of one image. Raises Fault where it is none that can be taken."""
        found = _count(pixels_of(given), self._side, self._counts, self._features, self._values)
        return self._features[:found].copy(), self._values[:found].copy()


def image_pixels(image: Any) -> NDArray[np.uint8]:
    """(height, width, 3) red, green and blue, as the histograms of a collection of images count them.

    image: a path, bytes of a PNG, JPEG or WebP file, an image of Pillow, or such an array itself.

    Raises:
        InvalidInput: codes "bad_object", "over_limit" (limits `image_bytes`, `image_pixels`; told before anything is decoded).
    """
    try:
        return pixels_of(image)
    except Fault as fault:
        raise InvalidInput([Problem(fault.code, fault.detail, None, "image", fault.over)]) from None


def _side(form: Form) -> int:
    assert form.dim is not None, "histograms have a length"
    return math.isqrt(form.dim // COLOURS)


def _rows(objects: Any, form: Form) -> Rows:
    """(n images) → their histograms. Cost: decoding, and 1 ns a pixel."""
    counted = each(batch_of("images", "image", objects), "image", _Counter(_side(form)))
    indptr = np.zeros(len(counted) + 1, np.int64)
    np.cumsum([len(values) for _, values in counted], out=indptr[1:])
    features = np.concatenate([np.empty(0, np.uint64), *(one for one, _ in counted)])
    values = np.concatenate([np.empty(0, np.float32), *(one for _, one in counted)])
    norms = np.array([values.sum(dtype=np.float64) for _, values in counted], np.float64)
    return Rows(indptr, features, values, norms)


def _row(given: Any, form: Form) -> Rows:
    return alone(IMAGES, given, form)


def _dimension(dim: int | None) -> int:
    """Of images without a grid; with one it follows from the kernel's levels."""
    if dim is not None:
        raise InvalidInput.of("bad_parameter", "dim of images follows from the kernel: leave it out", field="dim")
    return COLOURS


IMAGES = Kind(
    "images", "image", ("nested", "chi2", "acos_chi2", "exp_chi2", "js", "hellinger", "ngmm", "gint", "tv", "cosine"),
    _dimension, _rows, _row, VECTORS.item, vectors=True,
)  # fmt: skip
"""PNG, JPEG and WebP, by path or as bytes; images of Pillow; (height, width, 3) arrays of uint8."""
