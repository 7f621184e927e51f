"""The obvious slow twin of the library: kernels, rankings, filters and a collection in plain Python. Imports nothing of kinbin.

A row is a mapping of feature to value, as the library keeps it: float32 values that are not zero.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[int, float]
Kernel = Callable[..., float]
"""Of two rows, and the kernel's parameters by name."""

SCORE_ERROR = 1e-6
"""Scores of the library may differ from those computed here by so much, absolutely."""


# ------------------------------------------------------------------------------------------------ rows


def float32(x: float) -> float:
    """Round to the nearest float32."""
    rounded: float = struct.unpack("<f", struct.pack("<f", x))[0]
    return rounded


def row(vector: Mapping[int, float] | Iterable[float]) -> dict[int, float]:
    """What is stored of a vector: float32 values, without those below 1e-30."""
    pairs = vector.items() if isinstance(vector, Mapping) else enumerate(vector)
    return {int(feature): float32(float(value)) for feature, value in pairs if abs(value) >= 1e-30}


def split(u: Row) -> dict[tuple[int, bool], float]:
    """The sign split: every value becomes a weight of (feature, whether it was negative)."""
    return {(feature, value < 0): abs(value) for feature, value in u.items()}


# --------------------------------------------------------------------------------------------- kernels


def gmm(u: Row, v: Row) -> float:
    """Sum of minima over sum of maxima of the split rows."""
    a, b = split(u), split(v)
    features = a.keys() | b.keys()
    least = math.fsum(min(a.get(feature, 0.0), b.get(feature, 0.0)) for feature in features)
    most = math.fsum(max(a.get(feature, 0.0), b.get(feature, 0.0)) for feature in features)
    return least / most


def minmax(u: Row, v: Row) -> float:
    """The same for rows without negative values, which need no split."""
    features = u.keys() | v.keys()
    least = math.fsum(min(u.get(feature, 0.0), v.get(feature, 0.0)) for feature in features)
    most = math.fsum(max(u.get(feature, 0.0), v.get(feature, 0.0)) for feature in features)
    return least / most


def normalised(u: Row) -> dict[int, float]:
    """The row divided by its sum of absolute values."""
    total = math.fsum(abs(value) for value in u.values())
    return {feature: value / total for feature, value in u.items()}


def ngmm(u: Row, v: Row) -> float:
    """gmm of the normalised rows."""
    return gmm(normalised(u), normalised(v))


def gint(u: Row, v: Row) -> float:
    """Sum of minima of the split, normalised rows."""
    a, b = split(normalised(u)), split(normalised(v))
    return math.fsum(min(weight, b[feature]) for feature, weight in a.items() if feature in b)


def common(u: Row, v: Row) -> Iterator[tuple[float, float]]:
    """The weights of the normalised rows at the features that both have."""
    a, b = normalised(u), normalised(v)
    return ((weight, b[feature]) for feature, weight in a.items() if feature in b)


def chi2(u: Row, v: Row) -> float:
    """Sum of 2 u v / (u + v) of the normalised rows."""
    return math.fsum(2.0 * a * b / (a + b) for a, b in common(u, v))


def acos(score: float) -> float:
    """1 less the angle whose cosine this is, as a share of a half turn."""
    return 1.0 - math.acos(max(-1.0, min(1.0, score))) / math.pi


def acos_chi2(u: Row, v: Row) -> float:
    """The same of chi2."""
    return acos(chi2(u, v))


def exp_chi2(u: Row, v: Row, gamma: float = 1.0) -> float:
    """exp(-gamma (1 - chi2))."""
    return math.exp(-gamma * (1.0 - chi2(u, v)))


def js(u: Row, v: Row) -> float:
    """1 less the Jensen-Shannon divergence in bits: the mean divergence of the normalised rows from their mean."""
    a, b = normalised(u), normalised(v)
    mean = {feature: 0.5 * (a.get(feature, 0.0) + b.get(feature, 0.0)) for feature in a.keys() | b.keys()}
    return 1.0 - 0.5 * math.fsum(w * math.log2(w / mean[feature]) for one in (a, b) for feature, w in one.items())


def hellinger(u: Row, v: Row) -> float:
    """Sum of the roots of the products of the normalised rows."""
    return math.fsum(math.sqrt(a * b) for a, b in common(u, v))


def cosine(u: Row, v: Row) -> float:
    """Inner product of the rows divided by their lengths."""
    length = math.sqrt(math.fsum(w * w for w in u.values())) * math.sqrt(math.fsum(w * w for w in v.values()))
    return math.fsum(weight * v[feature] for feature, weight in u.items() if feature in v) / length


def acos_of_cosine(u: Row, v: Row) -> float:
    """1 less the angle between the rows, as a share of a half turn."""
    return acos(cosine(u, v))


def rbf(u: Row, v: Row, gamma: float = 1.0) -> float:
    """exp(-gamma d / 2), d the squared Euclidean distance of the rows of length 1."""
    return math.exp(-gamma * (1.0 - cosine(u, v)))


def frbf(u: Row, v: Row, gamma: float = 1.0) -> float:
    """The mean of that and of the same with the second row turned round."""
    rho = cosine(u, v)
    return 0.5 * math.exp(-gamma * (1.0 - rho)) + 0.5 * math.exp(-gamma * (1.0 + rho))


def mm_acos(u: Row, v: Row) -> float:
    """ngmm times acos."""
    return ngmm(u, v) * acos_of_cosine(u, v)


def mm_acos_chi2(u: Row, v: Row) -> float:
    """ngmm times acos_chi2."""
    return ngmm(u, v) * acos_chi2(u, v)


def _xlogx(x: NDArray[Any]) -> NDArray[Any]:
    return x * np.log(np.where(x > 0.0, x, 1.0))


PSI: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "tv": lambda u, v: np.abs(u - v),
    "chi2": lambda u, v: (u - v) ** 2 / np.where(u + v > 0.0, u + v, 1.0),
    "jd": lambda u, v: 0.5 * (_xlogx(u) + _xlogx(v)) - _xlogx(0.5 * (u + v)),
    "h2": lambda u, v: (np.sqrt(u) - np.sqrt(v)) ** 2,
    "h1": lambda u, v: np.abs(np.sqrt(u) - np.sqrt(v)),
}
"""What two entries of histograms add to their divergence."""


def nested_scores(
    q: NDArray[Any], X: NDArray[Any], levels: int = 3, base: str = "tv", width: float = 1.0, epsilon: float | Sequence[float] = 0.5
) -> NDArray[np.float64]:  # fmt: skip
    """(n,) kernel of nested histograms of a picture (side, side, 512) and of n others, side = 2^(levels-1); width: lambda."""
    shares = list(epsilon) if isinstance(epsilon, Sequence) else [epsilon] * (levels - 1)
    used = q.any(axis=(0, 1)) | X.any(axis=(0, 1, 2))  # a colour that none has adds nothing
    a, b = q[..., used] / q.sum(dtype=np.float64), X[..., used] / X.sum(axis=(1, 2, 3), keepdims=True, dtype=np.float64)

    def node(level: int, y: int, x: int, side: int) -> NDArray[np.float64]:
        own, other = a[y : y + side, x : x + side].sum(axis=(0, 1)), b[:, y : y + side, x : x + side].sum(axis=(1, 2))
        alone: NDArray[np.float64] = np.exp(-PSI[base](own, other).sum(axis=1) / width)
        if side == 1:
            return alone
        half = side // 2
        parts = np.prod([node(level + 1, y + dy, x + dx, half) for dy in (0, half) for dx in (0, half)], axis=0)
        return np.asarray((1.0 - shares[level]) * alone + shares[level] * parts)

    return node(0, 0, 0, 2 ** (levels - 1))


KERNELS: dict[str, Kernel] = {
    "minmax": minmax, "gmm": gmm, "ngmm": ngmm, "gint": gint, "tv": gint,
    "chi2": chi2, "exp_chi2": exp_chi2, "acos_chi2": acos_chi2, "js": js, "hellinger": hellinger,
    "cosine": cosine, "acos": acos_of_cosine, "rbf": rbf, "frbf": frbf, "mm_acos": mm_acos, "mm_acos_chi2": mm_acos_chi2,
}  # fmt: skip
PRODUCTS = {"mm_acos": "ngmm*acos", "mm_acos_chi2": "ngmm*acos_chi2"}
UNNORMALISED = ("minmax", "gmm")
TERMS: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "chi2": lambda a, b: 2.0 * a * b / (a + b),
    "js": lambda a, b: -0.5 * (a * np.log2(a / (a + b)) + b * np.log2(b / (a + b))),
    "hellinger": lambda a, b: np.sqrt(a * b),
}
"""What positive weights of two normalised rows add to a score; all others add their minimum."""
PRINTS: dict[str, tuple[str, Callable[..., NDArray[Any]]]] = {
    "tv": ("gint", lambda score: score),
    "exp_chi2": ("chi2", lambda score, gamma=1.0: np.exp(-gamma * (1.0 - score))),
    "acos_chi2": ("chi2", lambda score: 1.0 - np.arccos(np.clip(score, -1.0, 1.0)) / np.pi),
    "acos": ("cosine", lambda score: 1.0 - np.arccos(np.clip(score, -1.0, 1.0)) / np.pi),
    "rbf": ("cosine", lambda score, gamma=1.0: np.exp(-gamma * (1.0 - score))),
    "frbf": ("cosine", lambda score, gamma=1.0: 0.5 * np.exp(-gamma * (1.0 - score)) + 0.5 * np.exp(-gamma * (1.0 + score))),
}
"""Kernels that are functions of another one."""


def dense_scores(kernel: str, q: NDArray[Any], X: NDArray[Any], **parameters: float) -> NDArray[np.float64]:
    """(n,) kernel values of a query and the rows of a dense matrix, through the definition."""
    parts = PRODUCTS.get(kernel, kernel).split("*")
    if len(parts) > 1:
        own = [{key.partition(".")[2]: value for key, value in parameters.items() if key.startswith(f"{part}.")} for part in parts]
        return np.asarray(np.prod([dense_scores(part, q, X, **more) for part, more in zip(parts, own, strict=True)], axis=0))
    if kernel == "cosine":
        q, X = q.astype(np.float64), X.astype(np.float64)
        return np.asarray(X @ q / np.sqrt((X * X).sum(axis=1) * (q @ q)))
    if kernel in PRINTS:
        base, function = PRINTS[kernel]
        return function(dense_scores(base, q, X), **parameters)
    q, X = (np.concatenate([np.maximum(Y, 0), np.maximum(-Y, 0)], axis=-1) for Y in (q.astype(np.float64), X.astype(np.float64)))
    if kernel not in UNNORMALISED:
        q, X = q / q.sum(), X / X.sum(axis=1, keepdims=True)
    if kernel in TERMS:
        there = q > 0.0
        q, X = q[there], X[:, there]
        both = X > 0.0
        found: NDArray[np.float64] = np.where(both, TERMS[kernel](q, np.where(both, X, 1.0)), 0.0).sum(axis=1)
        return found
    least = np.minimum(q, X).sum(axis=1)
    scores: NDArray[np.float64] = least if kernel == "gint" else least / np.maximum(q, X).sum(axis=1)
    return scores


def sparse_scores(kernel: str, q: Row, rows: Sequence[Row], **parameters: float) -> NDArray[np.float64]:
    """(n,) kernel values of a query and rows, one by one."""
    return np.array([KERNELS[kernel](q, v, **parameters) for v in rows])


class Table:
    """Many rows in compressed form, scored feature by feature: for real data, where the definition takes too long.

    Sum of minima and sum of maxima of two rows add up to the sums of the rows.
    """

    def __init__(self, kernel: str, indptr: NDArray[Any], features: NDArray[Any], values: NDArray[Any]) -> None:
        self.kernel, self.base = kernel, PRINTS[kernel][0] if kernel in PRINTS else kernel
        names = PRODUCTS.get(kernel, kernel).split("*")
        self.parts = [Table(part, indptr, features, values) for part in names] if len(names) > 1 else []
        self.size = len(indptr) - 1
        owner = np.repeat(np.arange(self.size), np.diff(indptr))
        weights = self._weights(owner, self.size, values)
        self.sums = np.bincount(owner, weights, self.size)
        split = 2 * features.astype(np.int64) + (values < 0)
        order = np.argsort(split, kind="stable")
        there, starts = np.unique(split[order], return_index=True)
        pieces = zip(np.split(owner[order], starts[1:]), np.split(weights[order], starts[1:]), strict=True)
        self.postings = dict(zip(there.tolist(), pieces, strict=True))

    @classmethod
    def of_dense(cls, kernel: str, X: NDArray[Any]) -> Table:
        """Rows of a matrix."""
        _, features = np.nonzero(X)
        return cls(kernel, np.concatenate([[0], np.cumsum(np.count_nonzero(X, axis=1))]), features, X[X != 0])

    def _weights(self, owner: NDArray[Any], size: int, values: NDArray[Any]) -> NDArray[np.float64]:
        weights = np.abs(values.astype(np.float32).astype(np.float64))
        if self.base == "cosine":
            return np.asarray(weights / np.sqrt(np.bincount(owner, weights * weights, size))[owner])
        return weights if self.base in UNNORMALISED else weights / np.bincount(owner, weights, size)[owner]

    def scores(self, features: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
        """(n,) kernel values of a query and all rows."""
        if self.parts:
            return np.asarray(np.prod([part.scores(features, values) for part in self.parts], axis=0))
        weights = self._weights(np.zeros(len(values), np.int64), 1, values)
        term, shared = np.multiply if self.base == "cosine" else TERMS.get(self.base, np.minimum), np.zeros(self.size)
        for split, weight in zip((2 * features.astype(np.int64) + (values < 0)).tolist(), weights.tolist(), strict=True):
            if split in self.postings:
                rows, theirs = self.postings[split]
                shared[rows] += term(np.array(weight), theirs)
            if self.base == "cosine" and split ^ 1 in self.postings:
                rows, theirs = self.postings[split ^ 1]
                shared[rows] -= weight * theirs
        if self.base in UNNORMALISED or self.base == "ngmm":
            shared = shared / (weights.sum() + self.sums - shared)
        return PRINTS[self.kernel][1](shared) if self.kernel in PRINTS else shared

    def scores_of_dense(self, q: NDArray[Any]) -> NDArray[np.float64]:
        """The same for a query that is an array."""
        (features,) = np.nonzero(q)
        return self.scores(features, q[features])


# -------------------------------------------------------------------------------------------- rankings


def assert_answers(found: Sequence[str], scores: Sequence[float] | NDArray[Any], truth: Mapping[str, float], k: int) -> None:
    """Fail unless `found` are k best ids of `truth` (all, if it has fewer), best first, with their true scores.

    Where scores lie within SCORE_ERROR of each other, any order of the ids is right.
    """
    best = sorted(truth.values(), reverse=True)[:k]
    assert len(found) == len(scores) == len(best), f"{len(found)} answers of {len(best)}"
    assert len(set(found)) == len(found), "an id was answered twice"
    assert set(found) <= truth.keys(), "an id was answered that may not be"
    assert all(a >= b for a, b in pairwise(scores)), "answers are not in order"
    for identifier, score, wanted in zip(found, scores, best, strict=True):
        assert abs(score - truth[identifier]) <= SCORE_ERROR, f"the score of {identifier!r} is {truth[identifier]}, not {score}"
        assert abs(score - wanted) <= SCORE_ERROR, f"a neighbour of score {wanted} is missing, there is one of {score}"


def recall(scores: Sequence[float] | NDArray[Any], truth: NDArray[np.float64], k: int) -> float:
    """Share of the k places whose score reaches that of the true k-th neighbour: ties count for whoever was found."""
    kth = np.partition(truth, -k)[-k]
    return min(k, sum(1 for score in scores if score >= kth - SCORE_ERROR)) / k


def recalls(scores: NDArray[np.float64], truth: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(m,) the same of the answers (m, k) to queries whose scores with all rows are (m, n)."""
    kth = np.partition(truth, -k, axis=1)[:, -k]
    return np.asarray(np.minimum(k, (scores >= kth[:, None] - SCORE_ERROR).sum(axis=1)) / k)


# --------------------------------------------------------------------------------------------- filters


def matches(condition: Mapping[str, Any], payload: Mapping[str, Any] | None) -> bool:
    """Whether a filter lets a payload through, by the rules of the documentation, one after the other."""
    return all(_member_holds(key, value, payload or {}) for key, value in condition.items())


def _member_holds(key: str, value: Any, payload: Mapping[str, Any]) -> bool:
    if key == "$and":
        return all(matches(one, payload) for one in value)
    if key == "$or":
        return any(matches(one, payload) for one in value)
    if key == "$not":
        return not matches(value, payload)
    here: list[Any] = [payload]
    for name in key.split("."):
        here = [here[0][name]] if here and isinstance(here[0], Mapping) and name in here[0] else []
    operators = value if isinstance(value, Mapping) and "$date" not in value else {"$eq": value}
    return all(_operator_holds(operator, wanted, here) for operator, wanted in operators.items())


def _operator_holds(operator: str, wanted: Any, here: list[Any]) -> bool:
    """`here`: nothing, or the one value of the field."""
    if operator == "$exists":
        return bool(here) is wanted
    if operator == "$ne":
        return not _operator_holds("$eq", wanted, here)
    if operator == "$nin":
        return not _operator_holds("$in", wanted, here)
    values = here[0] if here and isinstance(here[0], list) else here
    if operator == "$in":
        return any(_operator_holds("$eq", one, here) for one in wanted)
    if operator == "$eq" and not isinstance(wanted, Mapping):
        return any(_same(value, wanted) for value in values)
    return _is_beside(operator, wanted, values)


def _is_beside(operator: str, wanted: Any, values: list[Any]) -> bool:
    """Of the operators that order, and those on strings and places."""
    if operator == "$prefix":
        return any(isinstance(value, str) and value[: len(wanted)] == wanted for value in values)
    if operator in ("$geo_radius", "$geo_box"):
        return any(_within(operator, wanted, value) for value in values)
    if isinstance(wanted, Mapping):
        values, wanted = [moment(value) for value in values if moment(value) is not None], moment(wanted["$date"])
        assert wanted is not None
    comparable = [value for value in values if _sort(value) == _sort(wanted) in ("number", "string")]
    if operator == "$eq":
        return wanted in comparable
    return any({"$gt": v > wanted, "$gte": v >= wanted, "$lt": v < wanted, "$lte": v <= wanted}[operator] for v in comparable)


def moment(text: Any) -> float | None:
    """Seconds since 1970 of a date of RFC 3339."""
    if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))?", text):
        return None
    whole = text.replace("Z", "+00:00") if "T" in text else text + "T00:00:00+00:00"
    try:
        return datetime.datetime.fromisoformat(whole).timestamp()
    except ValueError:
        return None


def _within(operator: str, area: Mapping[str, float], value: Any) -> bool:
    """Whether a value is a place of an area, by the angle of two directions in space."""
    numbers: list[Any] = [value.get("lat"), value.get("lon")] if isinstance(value, Mapping) else [None]
    if not all(_sort(one) == "number" for one in numbers) or abs(numbers[0]) > 90 or abs(numbers[1]) > 180:
        return False
    lat, lon = numbers
    if operator == "$geo_box":
        crosses = area["west"] > area["east"]
        beside = lon >= area["west"] or lon <= area["east"] if crosses else area["west"] <= lon <= area["east"]
        return bool(area["south"] <= lat <= area["north"] and beside)
    one, other = (
        np.array([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)])
        for a, b in (np.radians([lat, lon]), np.radians([area["lat"], area["lon"]]))
    )
    return bool(np.arctan2(np.linalg.norm(np.cross(one, other)), one @ other) * 6_371_008.8 <= area["meters"])


def _sort(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    return "number" if isinstance(value, int | float) else "string" if isinstance(value, str) else "other"


def _same(value: Any, wanted: Any) -> bool:
    return _sort(value) == _sort(wanted) and bool(value == wanted)


# ------------------------------------------------------------------------------------------ collection


@dataclass(frozen=True)
class Stored:
    """An item of the model."""

    row: dict[int, float]
    payload: dict[str, Any] | None


class Items:
    """A collection as a dict: what the library must be indistinguishable from."""

    def __init__(self, kernel: str) -> None:
        self.kernel = KERNELS[kernel]
        self.items: dict[str, Stored] = {}

    def add(
        self, ids: Sequence[str], rows: Sequence[dict[int, float]], payloads: Sequence[dict[str, Any] | None]
    ) -> tuple[int, int, int, int]:
        """Upsert. Returns (indexed, updated, unchanged, count)."""
        indexed = updated = unchanged = 0
        for identifier, u, payload in zip(ids, rows, payloads, strict=True):
            new = Stored(u, payload)
            old = self.items.get(identifier)
            indexed += old is None
            updated += old is not None and old != new
            unchanged += old == new
            self.items[identifier] = new
        return indexed, updated, unchanged, len(self.items)

    def delete(self, ids: Iterable[str]) -> tuple[int, int]:
        """Returns (deleted, count)."""
        gone = {identifier for identifier in ids if self.items.pop(identifier, None) is not None}
        return len(gone), len(self.items)

    def matching(self, condition: Mapping[str, Any] | None) -> Iterator[str]:
        """Ids that a filter lets through, by the order of their UTF-8."""
        for identifier in sorted(self.items, key=str.encode):
            if condition is None or matches(condition, self.items[identifier].payload):
                yield identifier

    def truth(self, query: Row, condition: Mapping[str, Any] | None = None, min_score: float | None = None) -> dict[str, float]:
        """The score of every item that may be answered."""
        scores = {identifier: self.kernel(query, self.items[identifier].row) for identifier in self.matching(condition)}
        return {identifier: score for identifier, score in scores.items() if min_score is None or score >= min_score}

    def distinct_rows(self) -> int:
        """How many different vectors the items have."""
        return len({tuple(sorted(item.row.items())) for item in self.items.values()})
