"""Nyström features: any kernel of the registry, by its values at sampled rows."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kinbin.features.estimator import FeatureMap, seed_of, size_of, takes_negative
from kinbin.features.kernel_matrix import pairwise, space_for

__all__ = ["NystroemFeatures"]

_MOST_COMPONENTS = 1 << 15
_BATCH = 1 << 13
"""Rows that are mapped at a time."""


class NystroemFeatures(FeatureMap):
    """Any kernel as inner products, by its values at k rows that are drawn from the training rows.

    (Nyström method for the GMM kernel, section 2: GMM-NYS, RBF-NYS.) With K the kernel of the drawn rows S and K⁺ its pseudoinverse, the
    inner product of two rows is K(u, S) K⁺ K(S, v): exact for drawn rows, and what is lost of others, K(u, u) less the square of their
    length, is never negative. Eigenvalues of K below k ε times the largest (ε = 2.2e-16) are rounding and left out; so rows
    that occur twice, or that depend on each other, do no harm.

    Parameters:
        kernel: a name in `kinbin.KERNELS`. parameters: the kernel's, by name, as {"gamma": 2.0}.
        n_components: k, up to 32,768; at most as many as there are training rows.
        random_state: a whole number is the seed.

    Attributes:
        components_: (k, d) the drawn rows. component_indices_: (k,) where they stood. normalization_: (k, k) K^-½. rank_: the
        eigenvalues that were kept.

    A row of zeros has features where the kernel prints more than 0 of rows that share nothing, as e^−γ of "rbf" and 0.5 of "acos".
    Kernels without negative values refuse them (ValueError). Cost: fit k² d and an eigendecomposition, 25 k³ ns at most;
    transform a row of `pairwise` and k².
    """

    def __init__(
        self, kernel: str = "ngmm", *, n_components: int = 100, parameters: Mapping[str, Any] | None = None, random_state: Any = None
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.parameters = parameters
        self.random_state = random_state

    def _signed(self) -> bool:
        return takes_negative(self.kernel)

    def fit(self, X: Any, y: Any = None) -> NystroemFeatures:  # noqa: ARG002
        """Draw rows of X (n, d), and decompose their kernel."""
        X = self._checked(X, reset=True)
        space_for(self.kernel, self.parameters or {})
        count = min(size_of("n_components", self.n_components, _MOST_COMPONENTS), X.shape[0])
        random = np.random.default_rng(seed_of(self.random_state))
        self.component_indices_ = np.sort(random.choice(X.shape[0], count, replace=False))
        self.components_ = X[self.component_indices_]
        values, vectors = np.linalg.eigh(self._kernel(self.components_))
        kept = values > max(values[-1], 0.0) * count * np.finfo(np.float64).eps
        self.rank_ = int(kept.sum())
        roots = vectors[:, kept] / np.sqrt(values[kept])
        self.normalization_ = roots @ vectors[:, kept].T
        self._n_features_out = count
        return self

    def _kernel(self, X: Any) -> NDArray[np.float64]:
        return pairwise(X, None if X is self.components_ else self.components_, kernel=self.kernel, parameters=self.parameters)

    def transform(self, X: Any) -> Any:
        """X (n, d) dense or sparse → (n, n_components) array of X's dtype."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        out = np.empty((X.shape[0], self._n_features_out), X.dtype)
        for first in range(0, X.shape[0], _BATCH):
            some = X[first : first + _BATCH]
            out[first : first + _BATCH] = (
                pairwise(some, self.components_, kernel=self.kernel, parameters=self.parameters) @ self.normalization_
            )
        return out
