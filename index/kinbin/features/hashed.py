"""Feature maps of hashes: one-hot b-bit codes of consistent weighted sampling, of signs of projections, and of both together."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kinbin.features.estimator import (
    FeatureMap,
    hashed_space,
    one_hot,
    projected,
    rows_with_values,
    seed_of,
    size_of,
    takes_negative,
    where_nonzero,
)
from kinbin.hashing import MAX_BANDS, MAX_ROWS, MINMAX_SAMPLERS, Sampler, default_sampler, make_sampler
from kinbin.parameters import one_of
from kinbin.query.threads import parts, run_together
from kinbin.rows.rows import Rows

__all__ = ["GCWSFeatures", "ProductFeatures", "SignFeatures"]

_MOST_SAMPLES = 1 << 16
_MOST_BITS = 24
_OF_A_SEED = MAX_ROWS * MAX_BANDS
FAMILIES = ("gaussian", "cauchy")


class _Samples:
    """Codes of any number of hashes: 2,048 of each seed, in the order (sketch, band)."""

    def __init__(self, name: str, seed: int, normalise: bool, dim: int, count: int) -> None:
        self._count = count
        self._samplers: list[Sampler] = [
            make_sampler(name, seed=(seed + number) % 2**64, normalise=normalise, dim=dim) for number in range(-(-count // _OF_A_SEED))
        ]

    def codes(self, rows: Rows) -> NDArray[np.uint32]:
        """(n, count) codes of 32 bits. A long batch is hashed by several threads."""
        out = np.empty((len(rows), self._count), np.uint32)

        def hash_part(part: slice) -> None:
            some = rows.slice(part.start, part.stop)
            for number, sampler in enumerate(self._samplers):
                first = number * _OF_A_SEED
                count = min(_OF_A_SEED, self._count - first)
                codes = sampler.codes(some, -(-count // MAX_BANDS), min(count, MAX_BANDS))
                out[part, first : first + count] = codes.reshape(len(some), codes.shape[1] * codes.shape[2])[:, :count]

        run_together([partial(hash_part, part) for part in parts(len(rows))])
        return out


class _Hashed(FeatureMap):
    """A map to one-hot codes. Subclasses have `sparse_output`, and, fitted, `_n_features_out`."""

    def _coded(self, X: Any, symbols: NDArray[Any], rows: NDArray[np.intp]) -> Any:
        cells = self._n_features_out // symbols.shape[1]
        features = one_hot(symbols, cells, rows, X.shape[0], X.dtype)
        return features if self.sparse_output else features.toarray()


class _Sampled(_Hashed):
    """A map to codes of weighted sampling: `kernel`, `n_samples`, `bits`, `sampler`, `random_state`."""

    def _fit_samples(self, X: Any) -> None:
        space = hashed_space(self.kernel)
        if self.sampler is not None:
            one_of("sampler", self.sampler, MINMAX_SAMPLERS)
        size_of("n_samples", self.n_samples, _MOST_SAMPLES)
        size_of("bits", self.bits, _MOST_BITS)
        self.seed_ = seed_of(self.random_state)
        name = default_sampler(space.normalised, X.shape[1]) if self.sampler is None else self.sampler
        self._made = {"name": name, "seed": self.seed_, "normalise": space.normalised, "dim": X.shape[1], "count": int(self.n_samples)}
        self._samples = _Samples(**self._made)

    def _signed(self) -> bool:
        return takes_negative(self.kernel)

    def _low_bits(self, rows: Rows) -> NDArray[np.uint32]:
        """(n, n_samples) the last b bits of the codes, which are mixed to 32 bits before (HASHING.md, sections 3 and 4)."""
        codes = self._samples.codes(rows)
        codes &= np.uint32(2**self.bits - 1)
        return codes

    # The samplers' tables are functions of the seed: they are made anew instead of being written.
    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_samples"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_made" in state:
            self._samples = _Samples(**self._made)


class GCWSFeatures(_Sampled):
    """Min-max kernels as inner products: one-hot b-bit codes of 0-bit generalized consistent weighted sampling.

    (Generalized intersection kernel, Algorithm 1; the Nyström paper, section 1.1.) Sample j of a row is the code of a hash that two rows
    share with the probability of their min-max similarity J. Its last b bits choose one of 2**b columns, which holds 1 / √k, k =
    n_samples. So the inner product of two rows is the share of samples whose columns agree:

    | | |
    |---|---|
    | mean | J' + (1 − J') / 2**b, J' the share of equal codes |
    | J' | J with the sampler "dart"; J and a little more with "gcws": on pictures of digits (33 nonzeros each) 0.006 in the mean and
    0.013 at most, on colour histograms 0.015 in the mean, and 0.16 for rows of which one value is nearly all. Rows of few nonzeros, below
    20 or so, agree far more often than J: with J = 1/3 and 10 features by 0.04, 3 by 0.13, and always if both have the same one alone.
    That is of even rows; of uneven ones, and without division by sums ("gmm"), it is several times more: of 6 features that are gamma
    distributed 0.05 in the mean and 0.1 at most for "ngmm", 0.08 and 0.2 to 0.3 for "gmm" |
    | variance | p (1 − p) / k, p the mean |

    Parameters:
        kernel: of the min-max family. gint and what else is printed as a rising function of J is mapped as J.
        n_samples: k, up to 65,536. bits: b, up to 24.
        sampler: "gcws"; "dart", for kernels that divide rows by their sums; None: what a collection of as many features takes, "dart" if
            it can beyond 1,165. "dart" is faster on many features and has no parameters to keep; "gcws" keeps 12 bytes a feature and
            sample, up to 256 MB for each 2,048 samples.
        sparse_output: CSR, or a dense array.
        random_state: a whole number is the seed: the first 2,048 codes are those of a collection with this seed.

    Attributes:
        seed_: what all samples are functions of.

    A row of zeros has no features. Kernels without negative values refuse them (ValueError). Cost: 0.25 ns a nonzero and sample once
    features were met; long batches on several threads (`kinbin.set_threads`). The same codes on every machine.
    """

    def __init__(
        self,
        kernel: str = "ngmm",
        *,
        n_samples: int = 256,
        bits: int = 8,
        sampler: str | None = None,
        sparse_output: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_samples = n_samples
        self.bits = bits
        self.sampler = sampler
        self.sparse_output = sparse_output
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> GCWSFeatures:  # noqa: ARG002
        """Choose the hashes. X (n, d): only its width counts."""
        self._fit_samples(self._checked(X, reset=True))
        self._n_features_out = int(self.n_samples) << int(self.bits)
        return self

    def transform(self, X: Any) -> Any:
        """X (n, d) dense or sparse → (n, n_samples * 2**bits), n_samples ones a row, each over √n_samples; of X's dtype."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        rows, kept = rows_with_values(X, self._signed())
        return self._coded(X, self._low_bits(rows), kept)


def directions_of(family: str, dim: int, count: int, seed: int) -> NDArray[np.float64]:
    """(dim, count) independent numbers of a family: standard normal, or Cauchy."""
    random = np.random.default_rng(seed)
    return random.standard_normal((dim, count)) if family == "gaussian" else random.standard_cauchy((dim, count))


class SignFeatures(_Hashed):
    """Angles as inner products: one-hot signs of random projections.

    (Comparison study of nonlinear kernels, sections 1.1 and 1.2.) Sample j of a row is the sign of its projection onto a random
    direction: column 2j for a negative one, 2j + 1 for others, which holds 1 / √k, k = n_samples. The inner product of two rows is the
    share of equal signs:

    | family | mean | variance |
    |---|---|---|
    | "gaussian" | 1 − acos(ρ) / π exactly, ρ the cosine | p (1 − p) / k |
    | "cauchy" | 1 − acos(χ²) / π approximately: rows without negative values, χ² of rows that sum to 1 | p (1 − p) / k |

    Parameters:
        family: of directions, "gaussian" or "cauchy". n_samples: k, up to 65,536. sparse_output: CSR, or a dense array.
        random_state: a whole number is the seed.

    Attributes:
        seed_: what the directions are made from. directions_: (d, k) float64, 8 d k bytes.

    A row of zeros has no features. Cost: a matrix product.
    """

    def __init__(self, family: str = "gaussian", *, n_samples: int = 256, sparse_output: bool = True, random_state: Any = None) -> None:
        self.family = family
        self.n_samples = n_samples
        self.sparse_output = sparse_output
        self.random_state = random_state

    def _signed(self) -> bool:
        return bool(self.family != "cauchy")

    def fit(self, X: Any, y: Any = None) -> SignFeatures:  # noqa: ARG002
        """Choose the directions. X (n, d): only its width counts."""
        X = self._checked(X, reset=True)
        one_of("family", self.family, FAMILIES)
        size_of("n_samples", self.n_samples, _MOST_SAMPLES)
        self.seed_ = seed_of(self.random_state)
        self.directions_ = directions_of(self.family, X.shape[1], self.n_samples, self.seed_)
        self._n_features_out = 2 * int(self.n_samples)
        return self

    def transform(self, X: Any) -> Any:
        """X (n, d) dense or sparse → (n, 2 n_samples), n_samples ones a row, each over √n_samples; of X's dtype."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        kept = where_nonzero(X)
        return self._coded(X, projected(X, self.directions_, kept), kept)


class ProductFeatures(_Sampled):
    """Products of a min-max kernel and an angle as inner products: codes of weighted sampling, each with the sign of a projection.

    (Comparison study of nonlinear kernels, section 4: MM-acos and MM-acos-χ².) Sample j of a row is a code of `GCWSFeatures` followed by
    a sign of `SignFeatures`, both independent: one of 2**(bits + 1) columns, which holds 1 / √k. The inner product of two rows is the
    share of samples that agree in both, with mean p = (J' + (1 − J') / 2**b) · A and variance p (1 − p) / k, J' and A the means given
    there.

    Parameters:
        kernel, n_samples, bits, sampler, sparse_output, random_state: as in `GCWSFeatures`; family: as in `SignFeatures`. With family
        "cauchy" negative values are refused whatever the kernel.

    Attributes:
        seed_: what all samples are functions of. directions_: (d, k) float64.

    A row of zeros has no features. Cost: that of both.
    """

    def __init__(
        self,
        kernel: str = "ngmm",
        family: str = "gaussian",
        *,
        n_samples: int = 256,
        bits: int = 8,
        sampler: str | None = None,
        sparse_output: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.family = family
        self.n_samples = n_samples
        self.bits = bits
        self.sampler = sampler
        self.sparse_output = sparse_output
        self.random_state = random_state

    def _signed(self) -> bool:
        return bool(self.family != "cauchy" and super()._signed())

    def fit(self, X: Any, y: Any = None) -> ProductFeatures:  # noqa: ARG002
        """Choose the hashes and the directions. X (n, d): only its width counts."""
        X = self._checked(X, reset=True)
        one_of("family", self.family, FAMILIES)
        self._fit_samples(X)
        self.directions_ = directions_of(self.family, X.shape[1], self.n_samples, self.seed_)
        self._n_features_out = int(self.n_samples) << int(self.bits) + 1
        return self

    def transform(self, X: Any) -> Any:
        """X (n, d) dense or sparse → (n, n_samples * 2**(bits + 1)), n_samples ones a row, each over √n_samples; of X's dtype."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        rows, kept = rows_with_values(X, self._signed())
        symbols = self._low_bits(rows) * np.uint32(2)
        symbols += projected(X, self.directions_, kept)
        return self._coded(X, symbols, kept)
