"""Graphs of nearest neighbours for scikit-learn and for what takes its precomputed graphs."""

# mypy: disable-error-code="misc"
from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kinbin.collection import Collection
from kinbin.database import Database
from kinbin.errors import InvalidInput
from kinbin.features.estimator import FeatureMap, seed_of, size_of, takes_negative, where_nonzero
from kinbin.features.kernel_matrix import pairwise
from kinbin.limits import limit
from kinbin.parameters import is_number, one_of
from kinbin.spaces.registry import space_of

__all__ = ["KinbinTransformer"]

_MODES = ("distance", "connectivity")
_DISTANCES = ("difference", "root")
_COLLECTION = "neighbours"
_BATCH = 4_096
"""Queries at a time: some 40 MB at k = 1,000."""


class KinbinTransformer(FeatureMap):
    """The graph of nearest neighbours under any kernel of the registry, in the place of scikit-learn's KNeighborsTransformer.

    Training rows go into a Kinbin collection, which is searched for the nearest of each row. The graph feeds whatever takes
    `metric="precomputed"`: DBSCAN, t-SNE, Isomap, UMAP; spectral clustering with `affinity="precomputed_nearest_neighbors"`.

    Parameters:
        kernel: a name in `kinbin.KERNELS`. parameters: its parameters, as {"gamma": 2.0}.
        n_neighbors: besides the row itself where mode is "distance", with it where it is "connectivity", as scikit-learn counts; up to 999.
        mode: "distance", or "connectivity" for ones.
        distance: what is made of a score s: "difference", t - s with t the score of a row with itself (1 for nearly all kernels), or
            "root", √(2 (t - s)), the distance of two rows in the kernel's feature space, a metric. Both fall as s rises, so neighbours are
            the same. Scores are right to 1e-6, roots of them to 0.0015 where they are near 0.
        target_recall: 1 scans, and misses nothing; below, what is fastest is taken that finds so many of the neighbours in the mean.
        path: a directory for the database, which is kept; None: a temporary one, which goes with the estimator.
        random_state: the seed of the collection's hashes, a whole number or a RandomState: with a target below 1 the same rows are found
            again.

    Attributes:
        n_samples_fit_: rows of the graph's columns.

    Each row of the graph is sorted by distance. `fit_transform` has each row first in its own line, at distance 0, as `transform` has
    where no other row is the same. A row of zeros is at distance 0 from other rows of zeros, and from all others as far as a score of
    0 is. Pickled without a path it takes its rows along, and stores them again when it is first asked; with a path it
    opens the directory, which must be there. One estimator at a time may use a path.

    Cost: fit some 20 µs a row; a scan 25 to 60 ns a pair of sparse rows of 44 nonzeros (less where codes prune), on the
    threads of `kinbin.set_threads`.
    """

    def __init__(
        self,
        kernel: str = "ngmm",
        *,
        n_neighbors: int = 5,
        mode: str = "distance",
        distance: str = "difference",
        target_recall: float = 1.0,
        path: Any = None,
        parameters: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.distance = distance
        self.target_recall = target_recall
        self.path = path
        self.parameters = parameters
        self.random_state = random_state

    def _signed(self) -> bool:
        return takes_negative(self.kernel)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: Any, y: Any = None) -> KinbinTransformer:  # noqa: ARG002
        """Store the rows of X (n, d)."""
        X = self._checked(X, reset=True)
        space_of(self.kernel, self.parameters)
        one_of("mode", self.mode, _MODES)
        one_of("distance", self.distance, _DISTANCES)
        if not is_number(self.target_recall) or not 0.0 < self.target_recall <= 1.0:
            raise InvalidInput.of("bad_parameter", "target_recall is a number above 0 and up to 1", field="target_recall")
        size_of("n_neighbors", self.n_neighbors, int(limit("k")) - 1)
        self.n_samples_fit_ = self._n_features_out = X.shape[0]
        self._zeros = np.setdiff1d(np.arange(X.shape[0]), where_nonzero(X))
        seed = None if self.random_state is None else seed_of(self.random_state)
        made = {"kernel": self.kernel, "dim": _dimension(X), "seed": seed} | ({"parameters": self.parameters} if self.parameters else {})
        self._stored = Stored(X, made, self.path)
        self._stored.collection(anew=True)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Store the rows of X (n, d), and return their graph, (n, n) CSR: each row's nearest, itself first."""
        return self.fit(X, y)._graph(self._checked(X, reset=False), own=True)

    def transform(self, X: Any) -> Any:
        """X (m, d) dense or sparse → (m, n_samples_fit_) CSR of float64: distances to the nearest training rows, or ones."""
        check_is_fitted(self)
        return self._graph(self._checked(X, reset=False), own=False)

    def _graph(self, X: Any, *, own: bool) -> Any:
        count = int(self.n_neighbors) + (self.mode == "distance")
        if count > self.n_samples_fit_:
            text = f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {count}, n_samples_fit = {self.n_samples_fit_}"
            raise InvalidInput.of("bad_parameter", text, field="n_neighbors")
        places, distances = self._nearest(X, count)
        if own:
            _put_first(places, distances)
        weights = distances if self.mode == "distance" else np.ones_like(distances)
        starts = np.arange(0, places.size + 1, count)
        return sp.csr_array((weights.reshape(-1), places.reshape(-1), starts), shape=(X.shape[0], self.n_samples_fit_))

    def _nearest(self, X: Any, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(m, count) training rows and their distances, nearest first."""
        # What a row scores with itself, and what a row of zeros scores with all.
        most, nothing = (pairwise([[x]], kernel=self.kernel, parameters=self.parameters)[0, 0] for x in (1.0, 0.0))
        kept = where_nonzero(X)
        places, distances = self._found(X, kept, count, most)
        zero = np.ones(X.shape[0], bool)
        zero[kept] = False
        if len(self._zeros):
            places, distances = self._with_zeros(places, distances, np.where(zero, 0.0, most - nothing))
        for row in np.flatnonzero((places < 0).any(axis=1)):
            missing = places[row] < 0
            places[row, missing] = np.setdiff1d(np.arange(self.n_samples_fit_), places[row])[: missing.sum()]
            distances[row, missing] = most - nothing
        return places, np.sqrt(2.0 * distances) if self.distance == "root" else distances

    def _found(self, X: Any, kept: NDArray[np.intp], count: int, most: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """What the collection answers to the rows that are kept, (m, count); the rest is -1, and infinitely far."""
        places, distances = np.full((X.shape[0], count), -1, np.int64), np.full((X.shape[0], count), np.inf)
        k = min(count, self.n_samples_fit_ - len(self._zeros))
        mode = "exact" if self.target_recall == 1.0 else "auto"
        for first in range(0, len(kept) if k else 0, _BATCH):
            some = kept[first : first + _BATCH]
            answer = self._stored.collection().query_batch(X[some], k, self.target_recall, mode=mode)
            there = answer.ids != np.array(None)
            numbers = np.full(answer.ids.shape, -1, np.int64)
            numbers[there] = answer.ids[there].astype(np.int64)
            places[some, :k] = numbers
            distances[some, :k] = np.where(there, np.maximum(most - answer.scores, 0.0), np.inf)
        return places, distances

    def _with_zeros(
        self, places: NDArray[np.int64], distances: NDArray[np.float64], far: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nearest of these and of the training rows of zeros, which are so far (m,) from the rows that ask."""
        count = places.shape[1]
        zeros = np.tile(self._zeros[:count], (len(places), 1))
        places = np.concatenate([places, zeros], axis=1)
        distances = np.concatenate([distances, np.broadcast_to(far[:, None], zeros.shape)], axis=1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(places, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _dimension(X: Any) -> int | None:
    width = int(X.shape[1])
    return width if width <= limit("dimension") else None


def _put_first(places: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
    """Put row i first in line i, at distance 0; of many that are the same, it may not have been found: then in place of the last."""
    own = np.arange(len(places))[:, None]
    at = np.where((places == own).any(axis=1), (places == own).argmax(axis=1), places.shape[1] - 1)
    for row in np.flatnonzero(at):
        places[row, 1 : at[row] + 1] = places[row, : at[row]].copy()
        distances[row, 1 : at[row] + 1] = distances[row, : at[row]].copy()
    places[:, :1], distances[:, 0] = own, 0.0


class Stored:
    """Rows in a collection of their own, which is made when it is needed."""

    def __init__(self, X: Any, made: dict[str, Any], path: Any) -> None:
        self._X = X
        self._made = made
        self._path = None if path is None else Path(path).absolute()
        self._prepare()

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._open: Collection | None = None

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_lock", "_open"} | ({"_X"} if self._path is not None else set())
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def collection(self, *, anew: bool = False) -> Collection:
        """The collection, opened, and filled if it is not there. anew: in the place of what is there."""
        with self._lock:
            if self._open is None:
                self._open = self._opened(anew)
            return self._open

    def _opened(self, anew: bool) -> Collection:
        folder, place = None, self._path
        if place is None:
            folder = tempfile.TemporaryDirectory(prefix="kinbin-")
            place = Path(folder.name)
        database = Database(place)
        weakref.finalize(self, _end, database, folder)
        if folder is None and not anew:
            return database.collection(_COLLECTION)
        if _COLLECTION in database.collections():
            database.drop_collection(_COLLECTION)
        collection = database.create_collection(_COLLECTION, **self._made)
        rows = where_nonzero(self._X)
        if len(rows):
            collection.add([str(row) for row in rows], self._X[rows])
        return collection


def _end(database: Database, folder: tempfile.TemporaryDirectory[str] | None) -> None:
    database.close()
    if folder is not None:
        folder.cleanup()
