"""Patches of photographs, 16×16 pixels, and millions of real colour histograms of them: 8×8×8 RGB bins.

Neighbouring patches overlap, as in an index of image regions. Queries are patches of images whose patches are not indexed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from common import data_set

__all__ = ["DIMENSION", "histograms", "open_matrix", "query_histograms", "random_patches"]

DIMENSION = 512
SIDE = 16
"""Pixels of a patch's edge; images have 32."""
_PLACES = 32 - SIDE + 1
_IMAGES_AT_ONCE = 50
_EACH = 200
"""Patches of an image in one light."""
_SPREAD = 0.25
"""Of contrasts, and of logarithms of gains."""
_PARTS = ("data", "indices", "indptr")


def histograms(count: int, cache: Path) -> Path:
    """The folder that holds `count` histograms of training images as CSR arrays; made if it is not there.

    Every image gives equally many patches, at the same distinct places, chosen at random from all 289. Beyond 200 of each image
    there are the same places once more in other light, as often as it takes: each photograph with a brightness, a contrast and a white
    balance of its own each time.
    """
    folder = cache / f"rgb-patches-{SIDE}-{count}"
    if not (folder / "indptr.npy").exists():
        images = data_set("cifar10_rgb_small")["X_train"]
        lights = -(-count // (len(images) * _EACH))
        places = np.random.default_rng(0).permutation(_PLACES**2)[: -(-count // (len(images) * lights))]
        rng = np.random.default_rng(3)
        matrix = scipy.sparse.vstack([_of_images(images if turn == 0 else _in_light(images, rng), places) for turn in range(lights)], "csr")
        # In a random order, so that the first rows are a sample of all.
        matrix = matrix[np.random.default_rng(1).permutation(matrix.shape[0])[:count]]
        folder.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:  # indptr last: it says that all are there
            np.save(folder / f"{part}.npy", getattr(matrix, part))
    return folder


def _of_images(images: NDArray[Any], places: NDArray[np.int64]) -> Any:
    """The histograms of the same places of all images, as CSR."""
    bins = _bins(images)
    return scipy.sparse.vstack([_counted(bins[i : i + _IMAGES_AT_ONCE], places) for i in range(0, len(bins), _IMAGES_AT_ONCE)], "csr")


def _in_light(images: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Images (n, 3072), each in a light of its own: values v of 0 to 1 become gain · v^contrast, with a gain a channel, cut off at 1."""
    contrast = np.exp(rng.normal(0.0, _SPREAD, (len(images), 1, 1)))
    gain = np.exp(rng.normal(0.0, _SPREAD, (len(images), 1, 1)) + rng.normal(0.0, _SPREAD / 2, (len(images), 3, 1)))
    looked_up = np.minimum(255.0 * gain * np.linspace(0.0, 1.0, 256) ** contrast, 255.0).astype(np.uint8)
    channels = np.moveaxis(images.reshape(len(images), -1, 3), -1, 1)
    lit = np.take_along_axis(looked_up, channels.astype(np.intp), axis=2)
    return np.ascontiguousarray(np.moveaxis(lit, 1, -1)).reshape(len(images), -1)


def open_matrix(folder: Path, count: int | None = None) -> Any:
    """The first `count` histograms (or all) as CSR, mapped from the files."""
    data, indices, indptr = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in _PARTS)
    rows = len(indptr) - 1 if count is None else count
    return scipy.sparse.csr_matrix((data[: indptr[rows]], indices[: indptr[rows]], indptr[: rows + 1]), shape=(rows, DIMENSION), copy=False)


def query_histograms(count: int, *, lit: bool = False) -> Any:
    """Histograms of one random patch of each of the first test images, as CSR. lit: each image in a light of its own."""
    images = data_set("cifar10_rgb_small")["X_test"][:count]
    bins = _bins(_in_light(images, np.random.default_rng(4)) if lit else images)
    places = np.random.default_rng(2).integers(0, _PLACES**2, len(bins))
    return scipy.sparse.vstack([_counted(bins[i : i + 1], places[i : i + 1]) for i in range(len(bins))], "csr")


def random_patches(images: NDArray[np.uint8], count: int, seed: int, side: int = SIDE) -> NDArray[np.uint8]:
    """(count, side, side, 3) RGB patches of images (n, 3072), in a random order; each image gives equally many, at distinct places."""
    each, edge = -(-count // len(images)), 32 - side + 1
    rng = np.random.default_rng(seed)
    places = rng.random((len(images), edge**2)).argsort(axis=1)[:, :each]
    windows = np.lib.stride_tricks.sliding_window_view(images.reshape(-1, 32, 32, 3), (side, side), axis=(1, 2))
    patches = windows[np.arange(len(images))[:, None], places // edge, places % edge].reshape(-1, 3, side, side)
    return np.moveaxis(patches[rng.permutation(len(patches))[:count]], 1, 3)


def _bins(images: NDArray[Any]) -> NDArray[np.int64]:
    """(n, 32, 32) the bin of every pixel of images (n, 3072), which are RGB bytes row by row."""
    red, green, blue = np.moveaxis(images.reshape(-1, 32, 32, 3).astype(np.int64) >> 5, -1, 0)
    bins: NDArray[np.int64] = (red << 6) | (green << 3) | blue
    return bins


def _counted(bins: NDArray[np.int64], places: NDArray[np.int64]) -> Any:
    """Histograms of the patches at `places` of each image, as CSR."""
    windows = np.lib.stride_tricks.sliding_window_view(bins, (SIDE, SIDE), axis=(1, 2))
    patches = windows[:, places // _PLACES, places % _PLACES].reshape(-1, SIDE * SIDE)
    keys = np.arange(len(patches))[:, None] * DIMENSION + patches
    counts = np.bincount(keys.ravel(), minlength=len(patches) * DIMENSION).reshape(-1, DIMENSION)
    return scipy.sparse.csr_matrix(counts.astype(np.uint16))
