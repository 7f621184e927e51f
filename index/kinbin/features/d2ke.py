"""Features of strings, series and point sets from any of their distances: how far they are from random objects."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kinbin.errors import InvalidInput
from kinbin.features.estimator import seed_of, size_of
from kinbin.items.kind import Form, Kind
from kinbin.items.kinds import KINDS
from kinbin.parameters import is_number, one_of, whole
from kinbin.pools.measured import Measured
from kinbin.query.threads import run_together, threads_set
from kinbin.rows.rows import Rows
from kinbin.spaces.registry import object_space_of
from kinbin.spaces.space import Space

__all__ = ["D2KEFeatures"]

_MOST_FEATURES = 1 << 16
_BATCH = 64
"""Objects whose distances are taken in one call."""
_COMPARED = 100
"""Training objects whose distances from the random ones say a γ that was not given."""
_RADIUS = 0.9
"""The share of training points within the sphere on which random sets lie."""


class D2KEFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A kernel made of any distance, as inner products: φ_j(x) = exp(−γ d(x, ω_j)) / √R of R random objects ω.

    (D2KE: from distance to kernel and embedding, equation 4 and algorithm 1.) The inner product of two rows is the mean over j of
    exp(−γ (d(x, ω_j) + d(y, ω_j))): it is positive definite whatever the distance is, and tends to the kernel of the paper as R grows.

    | objects | distances | a random object |
    |---|---|---|
    | strings | `levenshtein`, `damerau`, `indel`, `jaro_winkler` | characters of the training strings, uniformly |
    | series, arrays (n,) or (n, dims) | `dtw`, `euclidean` | normal steps, mean and `scale` times the deviation of the training values |
    | point sets, arrays (n, dims) | `hausdorff`, `modified_hausdorff` | points uniform on a sphere |

    The sphere is about the mean of the training points; its radius is `scale` times that which holds nine tenths of them.
    The size of a random object is uniform in 1 … `max_length`; under `euclidean` it is the parameter `length`, as that of all series.
    With `sampler="data"` ω are training objects instead (the representative-set method, RSM; equation 8).

    Parameters:
        distance: a name of the table. parameters: of the distance, as {"window": 0.1}; those left out have their defaults.
        n_features: R, up to 65,536; with `sampler="data"` at most as many as there are training objects.
        gamma: γ > 0; None: 1 / the median distance of training objects from the random ones.
        max_length: of random objects: characters, steps or points. scale: see above.
        random_state: a whole number is the seed.

    Attributes:
        objects_: the R random objects. gamma_: γ.

    X is a sequence of objects, and not the matrix that other estimators take. Cost: n · R distances, on as many threads as
    `kinbin.set_threads` says.
    """

    def __init__(
        self, distance: str = "levenshtein", *, n_features: int = 512, gamma: float | None = None, max_length: int = 25,
        scale: float = 1.0, sampler: str = "random", parameters: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.distance = distance
        self.n_features = n_features
        self.gamma = gamma
        self.max_length = max_length
        self.scale = scale
        self.sampler = sampler
        self.parameters = parameters
        self.random_state = random_state

    def fit(self, X: Sequence[Any], y: Any = None) -> D2KEFeatures:  # noqa: ARG002
        """Draw the random objects. X: n training objects.

        Raises:
            InvalidInput: a parameter is none of those above, or an object is refused as a collection would refuse it.
        """
        count = self._judged()
        kind = _kind_of(self.distance)
        self.dim_ = _dim_of(kind, X)
        form = self._form(kind)
        given = kind.rows(X, form)
        random = np.random.default_rng(seed_of(self.random_state))
        if self.sampler == "data":
            chosen = np.sort(random.choice(len(given), min(count, len(given)), replace=False))
            self.objects_ = [kind.item(given, int(i), form) for i in chosen]
        else:
            # Of a distance that compares series of one length alone, they have that one.
            length = int(form.parameters.get("length", 0))  # type: ignore[arg-type]
            sizes = np.full(count, length) if length else random.integers(1, self.max_length + 1, count)
            self.objects_ = _DRAWN[kind.name](given, self.dim_ or 1, sizes, float(self.scale), random)
        self._n_features_out = len(self.objects_)
        self.gamma_ = self.gamma
        if self.gamma is None:
            some = [X[int(i)] for i in random.permutation(len(X))[:_COMPARED]]
            self.gamma_ = 1.0 / (float(np.median(self.distances(some))) or 1.0)
        return self

    def transform(self, X: Sequence[Any]) -> NDArray[np.float64]:
        """n objects → (n, R) float64, from 0 to 1 / √R."""
        check_is_fitted(self)
        out = self.distances(X)
        out *= -float(self.gamma_ or 0.0)
        np.exp(out, out=out)
        out /= np.sqrt(self._n_features_out)
        return out

    def distances(self, X: Sequence[Any]) -> NDArray[np.float64]:
        """n objects → (n, R) their distances from the random objects: what a search for γ computes once."""
        check_is_fitted(self)
        kind = _kind_of(self.distance)
        form = self._form(kind)
        asked, fixed = kind.rows(X, form), kind.rows(self.objects_, form)
        measured = Measured(self._space(kind), kind.wide(form))
        out = np.empty((len(asked), len(fixed)))
        # The random objects are packed by the first call.
        starts = range(0, len(asked), _BATCH)

        def work_on(thread: int, threads: int) -> None:
            for start in starts[thread::threads]:
                stop = min(start + _BATCH, len(asked))
                out[start:stop] = measured.distances(asked.slice(start, stop), fixed)

        threads = max(1, min(threads_set(), len(starts)))
        run_together([lambda thread=thread: work_on(thread, threads) for thread in range(threads)])
        return out

    def _judged(self) -> int:
        """The parameters, checked. Returns `n_features`."""
        count = size_of("n_features", self.n_features, _MOST_FEATURES)
        one_of("sampler", self.sampler, ("random", "data"))
        whole("max_length", self.max_length)
        for name, value in (("gamma", 1.0 if self.gamma is None else self.gamma), ("scale", self.scale)):
            if not is_number(value) or not 0.0 < value < np.inf:
                raise InvalidInput.of("bad_parameter", f"{name} is a number above 0, not {value!r}", field=name)
        return count

    def _space(self, kind: Kind) -> Space:
        return object_space_of(kind, self.distance, self.parameters, self.dim_, "distance")

    def _form(self, kind: Kind) -> Form:
        return Form(self.dim_, True, self._space(kind).parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags


def _kind_of(distance: object) -> Kind:
    """The kind of objects that a distance compares.

    Raises:
        InvalidInput: there is no such distance.
    """
    kinds = {name: kind for kind in KINDS.values() if kind.name in _DRAWN for name in kind.kernels}
    one_of("distance", distance, kinds)
    return kinds[str(distance)]


def _dim_of(kind: Kind, X: Sequence[Any]) -> int | None:
    """The dimensions of the first object."""
    if not len(X):
        raise InvalidInput.of("bad_object", "there is no training object", field=kind.one)
    if kind.name == "strings":
        return None
    shape = np.shape(X[0])
    return int(shape[1]) if len(shape) == 2 else 1


def _random_strings(given: Rows, _dims: int, sizes: NDArray[np.int64], _scale: float, random: np.random.Generator) -> list[Any]:
    alphabet = [chr(int(value) - 1) for value in np.unique(given.values)]
    return ["".join(alphabet[i] for i in random.integers(0, len(alphabet), size)) for size in sizes]


def _random_series(given: Rows, dims: int, sizes: NDArray[np.int64], scale: float, random: np.random.Generator) -> list[Any]:
    values = given.values.reshape(-1, dims).astype(np.float64)
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    return [(mean + scale * deviation * random.standard_normal((size, dims))).astype(np.float32) for size in sizes]


def _random_sets(given: Rows, dims: int, sizes: NDArray[np.int64], scale: float, random: np.random.Generator) -> list[Any]:
    values = given.values.reshape(-1, dims).astype(np.float64)
    centre = values.mean(axis=0)
    radius = scale * float(np.quantile(np.linalg.norm(values - centre, axis=1), _RADIUS))
    drawn = []
    for size in sizes:
        directions = random.standard_normal((size, dims))
        drawn.append((centre + radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32))
    return drawn


_DRAWN: dict[str, Callable[[Rows, int, NDArray[np.int64], float, np.random.Generator], list[Any]]] = {
    "strings": _random_strings,
    "series": _random_series,
    "points": _random_sets,
}
"""By kind: (training rows, dims, sizes, scale, …) → random objects."""
