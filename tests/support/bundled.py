"""Data sets made of what scikit-learn brings: its two photographs, cut into patches, and its digits.

So the statements about real rows are tested in every clone. Every value is a whole number, the same on every machine. scikit-learn takes a
second to load, and is loaded where it is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

PATCH, STRIDE = 32, 5
ASKED = 500
"""Patches that are queries; the others are rows."""


@functools.cache
def _patches() -> NDArray[np.uint8]:
    """(n, 32, 32, 3) overlapping patches of both photographs in a fixed random order, no two of the same colours."""
    from sklearn.datasets import load_sample_images

    cut = [
        sliding_window_view(image, (PATCH, PATCH), axis=(0, 1))[::STRIDE, ::STRIDE].reshape(-1, 3, PATCH, PATCH)
        for image in load_sample_images().images
    ]
    patches = np.concatenate(cut).transpose(0, 2, 3, 1)
    _, first = np.unique(_histograms(patches), axis=0, return_index=True)
    chosen: NDArray[np.uint8] = patches[np.random.default_rng(1).permutation(first)]
    return chosen


def _colours(patches: NDArray[np.uint8], levels: int) -> NDArray[np.int32]:
    """Each pixel's colour as one number, with so many levels of red, green and blue."""
    red, green, blue = np.moveaxis(patches // np.uint8(256 // levels), -1, 0)
    numbers: NDArray[np.int32] = (red * np.int32(levels) + green) * np.int32(levels) + blue
    return numbers


def _counts(numbers: NDArray[np.int64], size: int) -> sp.csr_array:
    """(n, size) how often each row holds each number."""
    rows = np.repeat(np.arange(len(numbers)), numbers[0].size)
    ones = np.ones(numbers.size, np.float32)
    return sp.coo_array((ones, (rows, numbers.ravel())), shape=(len(numbers), size)).tocsr()


@functools.cache
def _patch_histograms() -> NDArray[np.float32]:
    return _histograms(_patches())


def _histograms(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    colours = _colours(patches, 8) + np.int32(512) * np.arange(len(patches), dtype=np.int32)[:, None, None]
    return np.bincount(colours.ravel(), minlength=512 * len(patches)).reshape(-1, 512).astype(np.float32)


def pictures() -> NDArray[np.uint8]:
    """(n, 32, 32, 3) the patches themselves."""
    return _patches()


def grids(images: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """(n, side, side, 512) colour histograms of the cells of a grid, of images whose sides it divides."""
    n, height, width = images.shape[:3]
    colour = _colours(images, 8)
    cell = (np.arange(height) * side // height)[:, None] * side + np.arange(width) * side // width
    histograms: NDArray[np.float32] = _counts((cell * 512 + colour).reshape(n, -1), side * side * 512).toarray()
    return histograms.reshape(n, side, side, 512)


def photographs() -> Arrays:
    """(n, 512) and (500, 512) colour histograms of patches, 8 levels a colour; rows sum to 1,024."""
    histograms = _patch_histograms()
    return {"X_train": histograms[:-ASKED], "X_test": histograms[-ASKED:]}


def photograph_words() -> Arrays:
    """The same patches as sparse counts of 65,536 "words", 32 levels a colour and one of two halves; arrays of CSR matrices."""
    half = np.arange(PATCH)[:, None] // (PATCH // 2) * 32**3
    counts = _counts(_colours(_patches(), 32) + half, 2 * 32**3)
    arrays: Arrays = {}
    for part, matrix in (("train", counts[:-ASKED]), ("test", counts[-ASKED:])):
        arrays |= {f"{part}_data": matrix.data, f"{part}_indices": matrix.indices, f"{part}_indptr": matrix.indptr}
        arrays[f"{part}_shape"] = np.array(matrix.shape)
    return arrays


def photograph_contrasts() -> Arrays:
    """(n, 48) and (500, 48) signed values: the colours of 8 × 8 cells of a patch, less those of the whole patch."""
    cells = _patches().reshape(-1, 4, 8, 4, 8, 3).sum(axis=(2, 4), dtype=np.int64)
    contrasts = (16 * cells - cells.sum(axis=(1, 2), keepdims=True)).reshape(len(cells), -1).astype(np.float32)
    return {"X_train": contrasts[:-ASKED], "X_test": contrasts[-ASKED:]}


def digits() -> Arrays:
    """(1,500, 64) and (297, 64) images of handwritten digits, 8 × 8, with values from 0 to 16."""
    from sklearn.datasets import load_digits

    data = load_digits().data.astype(np.float32)
    return {"X_train": data[:1_500], "X_test": data[1_500:]}


BUNDLED: dict[str, Callable[[], Arrays]] = {
    "photographs": photographs,
    "photograph words": photograph_words,
    "photograph contrasts": photograph_contrasts,
    "digits": digits,
}
