"""Kernel matrices and linearisations of the papers, by `kinbin.features`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinbin.features import FourierFeatures, GCWSFeatures, NystroemFeatures, ProductFeatures, SignFeatures, pairwise
from papers.sets import Matrix, Part, doubled

__all__ = ["LINEARISATIONS", "Linearisation", "gram", "linearise", "takes_negative", "unit_length"]

_ONLY_NONNEGATIVE: Final = ("chi2", "cauchy", "frbf")
_STEP = 1000
"""Between the seeds of two repetitions: a map of many samples takes the next few seeds, too."""


@dataclass(frozen=True)
class Linearisation:
    """A feature map of the papers."""

    title: str
    make: Callable[[int, int, float, int], Any]
    """(k, b, gamma, seed) → an estimator of `kinbin.features`; it ignores what it has no use for."""
    nonnegative: bool = False
    """Whether negative values have to be split into two features first."""
    tuned: bool = False
    """Whether it has a gamma."""


def _gcws(kernel: str) -> Callable[[int, int, float, int], Any]:
    return lambda k, bits, _gamma, seed: GCWSFeatures(kernel, n_samples=k, bits=bits, sampler="gcws", random_state=seed)


def _fourier(folded: bool) -> Callable[[int, int, float, int], Any]:
    return lambda k, _bits, gamma, seed: FourierFeatures(gamma, n_components=k, folded=folded, random_state=seed)


def _signs(family: str) -> Callable[[int, int, float, int], Any]:
    return lambda k, _bits, _gamma, seed: SignFeatures(family, n_samples=k, random_state=seed)


def _product(family: str) -> Callable[[int, int, float, int], Any]:
    return lambda k, bits, _gamma, seed: ProductFeatures("gmm", family, n_samples=k, bits=bits, sampler="gcws", random_state=seed)


def _nystroem(kernel: str, tuned: bool) -> Callable[[int, int, float, int], Any]:
    def make(k: int, _bits: int, gamma: float, seed: int) -> Any:
        return NystroemFeatures(kernel, n_components=k, parameters={"gamma": gamma} if tuned else None, random_state=seed)

    return make


LINEARISATIONS: Final = {
    "gcws-ngmm": Linearisation("0-bit GCWS, NGMM", _gcws("ngmm")),
    "gcws-gmm": Linearisation("0-bit GCWS, GMM", _gcws("gmm")),
    "rff": Linearisation("RBF-RFF", _fourier(folded=False), tuned=True),
    "folded-rff": Linearisation("fRBF-RFF", _fourier(folded=True), tuned=True),
    "signs-gaussian": Linearisation("sign Gaussian, acos", _signs("gaussian")),
    "signs-cauchy": Linearisation("sign Cauchy, acos-χ²", _signs("cauchy"), nonnegative=True),
    "gcws-acos": Linearisation("GCWS × sign Gaussian, MM-acos", _product("gaussian")),
    "gcws-acos_chi2": Linearisation("GCWS × sign Cauchy, MM-acos-χ²", _product("cauchy"), nonnegative=True),
    "nys-gmm": Linearisation("GMM-NYS", _nystroem("gmm", tuned=False)),
    "nys-rbf": Linearisation("RBF-NYS", _nystroem("rbf", tuned=True), tuned=True),
}


def linearise(name: str, part: Part, sizes: tuple[int, int], gamma: float, repetition: int) -> tuple[Any, Any]:
    """Features of the training rows and of the test rows, k and b being `sizes`."""
    how = LINEARISATIONS[name]
    rows = doubled(part) if how.nonnegative else part
    estimator = how.make(*sizes, gamma, _STEP * (repetition + 1))
    return estimator.fit_transform(rows.X), estimator.transform(rows.X_test)


def gram(kernel: str, gamma: float | None) -> Callable[[Matrix, Matrix], Matrix]:
    """What makes the kernel matrix (a, b) of rows (a, d) and others (b, d)."""
    parameters = {} if gamma is None else {"gamma": gamma}
    return lambda X, Y: pairwise(X, None if X is Y else Y, kernel=kernel, parameters=parameters)


def takes_negative(kernel: str) -> bool:
    """Whether a kernel takes rows with negative values as they are."""
    return not kernel.endswith(_ONLY_NONNEGATIVE)


def unit_length(X: Matrix) -> Matrix:
    """Rows divided by their Euclidean length; rows of zeros stay."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1.0))
