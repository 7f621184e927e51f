"""Random Fourier features of rows of length 1."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from kinbin.errors import InvalidInput
from kinbin.features.estimator import FeatureMap, seed_of, size_of
from kinbin.features.rows import Matrix
from kinbin.limits import limit
from kinbin.parameters import is_number

__all__ = ["FourierFeatures"]

_MOST_COMPONENTS = 1 << 16


class FourierFeatures(FeatureMap):
    """The RBF kernel of the cosine, or the folded one, as inner products.

    (Comparison study of nonlinear kernels, section 1.4 and Lemma 1.) Rows are divided by their lengths. With directions r of independent
    standard normal numbers, x = <u, r>, and phases w uniform in 0 … 2π, feature j of k = n_components is

    | folded | feature | mean of the inner product of two rows of cosine ρ | variance |
    |---|---|---|---|
    | no | √(2 / k) cos(√γ x + w) | K = exp(−γ (1 − ρ)) exactly | (½ + ½ (1 − K²)²) / k |
    | yes | √(1 / k) cos(√γ x) | ½ exp(−γ (1 − ρ)) + ½ exp(−γ (1 + ρ)) exactly | 1 / k at most |

    Parameters:
        gamma: γ, above 0. n_components: k, up to 65,536. folded: see above.
        normalised: divide each row of features by its length. Similar rows then vary much less (that of a row with itself is 1, not 1
            in the mean), for a bias of the order 1 / k; the folded kernel is changed to its cosine, K(u, v) / √(K(u, u) K(v, v)).
        random_state: a whole number is the seed.

    Attributes:
        directions_: (d, k) float64, times √γ. phases_: (k,), 0 where folded.

    A row of zeros has features of 0. Cost: a matrix product, and 10 ns a feature.
    """

    def __init__(
        self, gamma: float = 1.0, *, n_components: int = 256, folded: bool = False, normalised: bool = False, random_state: Any = None
    ) -> None:
        self.gamma = gamma
        self.n_components = n_components
        self.folded = folded
        self.normalised = normalised
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> FourierFeatures:  # noqa: ARG002
        """Choose directions and phases. X (n, d): only its width counts."""
        X = self._checked(X, reset=True)
        if not is_number(self.gamma) or not 0.0 < self.gamma < np.inf:
            raise InvalidInput.of("bad_parameter", f"gamma is a number above 0, not {self.gamma!r}", field="gamma")
        size_of("n_components", self.n_components, _MOST_COMPONENTS)
        random = np.random.default_rng(seed_of(self.random_state))
        self.directions_ = np.sqrt(float(self.gamma)) * random.standard_normal((X.shape[1], self.n_components))
        self.phases_ = random.uniform(0.0, 2.0 * np.pi, self.n_components)
        if self.folded:
            self.phases_[:] = 0.0
        self._n_features_out = int(self.n_components)
        return self

    def transform(self, X: Any) -> Any:
        """X (n, d) dense or sparse → (n, n_components) array of X's dtype."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        lengths = Matrix(X).lengths
        some = lengths > limit("value_min")
        # Products are scaled, not rows: what is small in float32 loses nothing.
        features = np.asarray(X @ self.directions_) * np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=some)[:, None]
        features += self.phases_
        np.cos(features, out=features)
        features *= np.sqrt((1.0 if self.folded else 2.0) / self.n_components)
        features[~some] = 0.0
        return (normalize(features) if self.normalised else features).astype(X.dtype, copy=False)
