"""The terms of a score: they add up to what a query answers, for every kernel of the registry, and the greatest come first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
import naive_objects
import naive_strings
from background import no_background
from bundled import grids, pictures
from kinbin.items.kinds import KINDS
from kinbin.spaces import registry
from kinbin.spaces.registry import object_space_of, space_of

SUM = 1e-9
"""What parts may be off their sum, and a score what is made of it."""
DIM = 24
PRODUCTS = ("gmm*acos", "minmax*rbf", "chi2*js*tv", "frbf*hellinger", "acos*rbf")
PARAMETERS: Mapping[str, Mapping[str, Any]] = {"exp_chi2": {"gamma": 3.0}, "rbf": {"gamma": 0.5}, "frbf": {"gamma": 4.0}}


def rows(rng: np.random.Generator, *, signed: bool) -> NDArray[np.float32]:
    """Rows of awkward pairs: the same, multiples, one feature more, nothing in common, nearly the same, far larger."""
    X = rng.gamma(0.4, size=(12, DIM)) * (rng.random((12, DIM)) < 0.6)
    X[:, 0] += 0.01
    X[1], X[2], X[3] = X[0], 3.7 * X[0], X[0]
    X[3, 5] += 1e-3
    X[4], X[5] = 0.0, 0.0
    X[4, :12], X[5, 12:] = rng.random(12) + 0.1, rng.random(12) + 0.1
    X[6] = X[0] + 1e-4 * rng.random(DIM)
    X[7] *= 1e7
    if signed:
        X[8:] *= rng.choice([-1.0, 1.0], (4, DIM))
    return X.astype(np.float32)


def outcome(factor: kinbin.Factor) -> float:
    """What the factor's formula makes of its sum."""
    if factor.outer is None:
        return factor.sum
    names = {"exp": math.exp, "sqrt": math.sqrt, "pi": math.pi, "acos": lambda x: math.acos(max(-1.0, min(1.0, x)))}
    return float(eval(factor.outer, {"__builtins__": {}}, {**names, **factor.parameters, "x": factor.sum}))


def assert_adds_up(told: kinbin.Explanation, answered: float) -> None:
    """Parts add up to sums, sums make values, values the score, which is the query's; the greatest parts come first."""
    assert told.score == pytest.approx(answered, abs=1e-12, rel=1e-12)
    for factor in told.factors:
        assert math.fsum([*(term.part for term in factor.terms), factor.rest.part, *(part for _, part in factor.constants)]) == (
            pytest.approx(factor.sum, abs=SUM, rel=SUM)
        )
        assert factor.added == pytest.approx(factor.sum, abs=SUM, rel=SUM)
        assert outcome(factor) == pytest.approx(factor.value, abs=SUM, rel=SUM)
        sizes = [abs(term.part) for term in factor.terms]
        assert sizes == sorted(sizes, reverse=True)
    assert math.prod(factor.value for factor in told.factors) == pytest.approx(told.score, abs=SUM, rel=SUM)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background."""
    with no_background():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("dim", [DIM, None], ids=["narrow", "wide"])
@pytest.mark.parametrize("kernel", [*kinbin.KERNELS, *PRODUCTS])
def test_terms_of_vectors_add_up(kernel: str, dim: int | None, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Every kernel of vectors and products of them: the terms of every pair make the score that a query answers, to 1e-9."""
    collection = db.create_collection("c", kernel=kernel, dim=dim, seed=1, parameters=PARAMETERS.get(kernel))
    X = rows(rng, signed=space_of(kernel).signed)
    given: Any = X if dim else [{int(f): float(x[f]) for f in np.flatnonzero(x)} for x in X]
    collection.add([str(i) for i in range(len(X))], given)
    snapped = 0
    for i in (0, 1, 4, 8):
        answer = collection.query(given[i], k=len(X), mode="exact")
        for identifier, score in zip(answer.ids, answer.scores.tolist(), strict=True):
            told = collection.explain(given[i], id=identifier)
            assert_adds_up(told, score)
            for factor in told.factors:
                # Rounding is told only where rows are the same but for it.
                snapped += bool(factor.constants)
                assert all(abs(part) < 1e-6 for _, part in factor.constants)
                assert not factor.constants or factor.value == pytest.approx(space_of(factor.kernel, factor.parameters).printed(1.0))
    assert snapped < 40


def _unit(u: naive.Row) -> dict[int, float]:
    length = math.sqrt(math.fsum(w * w for w in u.values()))
    return {feature: w / length for feature, w in u.items()}


def _shared(u: naive.Row, v: naive.Row, feature: int) -> float:
    a, b = naive.split({feature: u.get(feature, 0.0)}), naive.split({feature: v.get(feature, 0.0)})
    return sum(min(weight, b.get(key, 0.0)) for key, weight in a.items())


def _ratio(u: naive.Row, v: naive.Row, feature: int) -> float:
    most = math.fsum(abs(w) for w in (*u.values(), *v.values())) - math.fsum(_shared(u, v, one) for one in u)
    return _shared(u, v, feature) / most


def _both(u: naive.Row, v: naive.Row, feature: int, of: Any) -> float:
    a, b = u.get(feature, 0.0), v.get(feature, 0.0)
    return float(of(a, b)) if a and b else 0.0


def _chi2(u: naive.Row, v: naive.Row, feature: int) -> float:
    return _both(naive.normalised(u), naive.normalised(v), feature, lambda a, b: 2 * a * b / (a + b))


def _js(u: naive.Row, v: naive.Row, feature: int) -> float:
    def term(a: float, b: float) -> float:
        return 0.5 * (a * math.log2((a + b) / a) + b * math.log2((a + b) / b))

    return _both(naive.normalised(u), naive.normalised(v), feature, term)


def _cosine(u: naive.Row, v: naive.Row, feature: int) -> float:
    return _both(_unit(u), _unit(v), feature, lambda a, b: a * b)


TWINS: Mapping[str, Callable[[naive.Row, naive.Row, int], float]] = {
    **dict.fromkeys(("minmax", "gmm"), _ratio),
    "ngmm": lambda u, v, f: _ratio(naive.normalised(u), naive.normalised(v), f),
    **dict.fromkeys(("gint", "tv"), lambda u, v, f: _shared(naive.normalised(u), naive.normalised(v), f)),
    **dict.fromkeys(("chi2", "exp_chi2", "acos_chi2"), _chi2),
    "js": _js,
    "hellinger": lambda u, v, f: _both(naive.normalised(u), naive.normalised(v), f, lambda a, b: math.sqrt(a * b)),
    **dict.fromkeys(("cosine", "acos", "frbf"), _cosine),
    "rbf": lambda u, v, f: (_unit(u).get(f, 0.0) - _unit(v).get(f, 0.0)) ** 2,
}
"""By kernel, what a feature adds to the sum, by the definition."""


@pytest.mark.parametrize("kernel", [*kinbin.KERNELS, *PRODUCTS])
def test_terms_are_those_of_the_definition(kernel: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Every feature's part is the twin's, to 1e-6; so is the order; the features beyond the limit are added up."""
    X = rows(rng, signed=space_of(kernel).signed)
    collection = db.create_collection("c", kernel=kernel, dim=DIM, seed=1)
    collection.add(["a"], X[9:10])
    u, v = naive.row(X[10]), naive.row(X[9])
    told, short = collection.explain(X[10], id="a"), collection.explain(X[10], id="a", limit=3)
    for factor, first in zip(told.factors, short.factors, strict=True):
        twin = {feature: TWINS[factor.kernel](u, v, feature) for feature in u.keys() | v.keys()}
        found = {term.feature: term.part for term in factor.terms if term.feature is not None}
        assert found == pytest.approx(twin, abs=1e-6)
        assert factor.rest == kinbin.Rest(0, 0.0, factor.rest.min, factor.rest.max)
        sizes = [abs(twin[feature]) for feature in found]
        assert all(a >= b - 1e-6 for a, b in pairwise(sizes))
        assert first.terms == factor.terms[:3]
        assert first.rest.features == len(twin) - 3
        assert first.rest.part == pytest.approx(math.fsum(term.part for term in factor.terms[3:]), abs=SUM)
        for term in factor.terms:
            assert term.feature is not None
            assert (bool(term.query), bool(term.item)) == (term.feature in u, term.feature in v)


@pytest.mark.parametrize("kernel", ["minmax", "gmm", "ngmm", "gint", "tv"])
def test_minima_and_maxima(kernel: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Of the min-max family each term has its minimum and maximum; all of them, with the rest's, make the similarity to 1e-9."""
    X = rows(rng, signed=space_of(kernel).signed)
    collection = db.create_collection("c", kernel=kernel, dim=DIM, seed=1)
    collection.add(["a"], X[9:10])
    told = collection.explain(X[10], id="a", limit=5)
    (factor,) = told.factors
    assert factor.rest.min is not None
    assert factor.rest.max is not None
    least = math.fsum([*(term.min for term in factor.terms if term.min is not None), factor.rest.min])
    most = math.fsum([*(term.max for term in factor.terms if term.max is not None), factor.rest.max])
    printed = kinbin.KERNELS[kernel].printed(least / most)
    assert printed == pytest.approx(told.score, abs=SUM)
    for term in factor.terms:
        split = [max(term.query, 0.0), max(-term.query, 0.0)], [max(term.item, 0.0), max(-term.item, 0.0)]
        assert term.min == pytest.approx(sum(min(a, b) for a, b in zip(*split, strict=True)), rel=1e-6)
        assert term.max == pytest.approx(sum(max(a, b) for a, b in zip(*split, strict=True)), rel=1e-6)


def objects(kind: str, kernel: str, rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    """Some objects of a kind, and what a collection of them is made with."""
    if kind == "strings":
        words = ["kitten", "sitting", "a cat", "an act", "an abct", "x", "kitten", "日本語", "MARTHA", "MARHTA", "DIXON", "DICKSONX"]
        return words + naive_strings.some_strings(rng, 12), {}
    if kind == "series":
        length = {"parameters": {"length": 9}} if kernel == "euclidean" else {}
        sizes = [9] * 8 if length else rng.integers(1, 30, 8).tolist()
        return [rng.normal(size=(size, 2)) for size in sizes], {"dim": 2, **length}
    return [rng.normal(size=(int(size), 3)) for size in rng.integers(1, 30, 8)], {"dim": 3}


OF_OBJECTS = [(kind, kernel) for kind in KINDS for kernel in KINDS[kind].kernels if kernel in kinbin.OBJECT_KERNELS]


def test_every_distance_is_told() -> None:
    """Each kernel of objects is one of some kind, and says what it is made of."""
    assert {kernel for _, kernel in OF_OBJECTS} == set(kinbin.OBJECT_KERNELS)
    assert all(object_space_of(KINDS[kind], kernel).aligned is not None for kind, kernel in OF_OBJECTS)


@pytest.mark.parametrize(("kind", "kernel"), OF_OBJECTS)
def test_alignments_add_up(kind: str, kernel: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Every kernel of objects: what stands against what makes the distance that a query answers, to 1e-9."""
    some, options = objects(kind, kernel, rng)
    collection = db.create_collection("c", items=kind, kernel=kernel, **options)
    collection.add([str(i) for i in range(len(some))], some)
    for i in range(6):
        answer = collection.query(some[i], k=len(some), mode="exact")
        for identifier, distance in zip(answer.ids, answer.scores.tolist(), strict=True):
            told = collection.explain(some[i], id=identifier, limit=1_000)
            assert_adds_up(told, distance)
            assert told.ascending
            assert told.bands is None
            assert told.no_bound


def edited(query: str, item: str, terms: tuple[kinbin.Term, ...]) -> str:
    """The string that the changes make of the query."""
    gone = {term.query_at for term in terms if term.what == "delete"}
    new = {term.item_at: term.item for term in terms if term.what == "insert"}
    changed = {term.query_at: term.item for term in terms if term.what == "replace"}
    kept = iter([changed.get(at, one) for at, one in enumerate(query) if at not in gone])
    return "".join(new[at] if at in new else next(kept) for at in range(len(item)))


@pytest.mark.parametrize("kernel", ["levenshtein", "indel"])
def test_scripts_edit(kernel: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """The changes that are told make the item of the query, and are as many as the twin's distance."""
    words = naive_strings.some_strings(rng, 40)
    collection = db.create_collection("c", items="strings", kernel=kernel)
    collection.add([str(i) for i in range(len(words))], words)
    twin = {"levenshtein": naive_strings.levenshtein, "indel": naive_strings.indel}[kernel]
    for i in range(0, 40, 2):
        (factor,) = collection.explain(words[i], id=str(i + 1), limit=1_000).factors
        assert len(factor.terms) == twin(words[i], words[i + 1])
        assert edited(words[i], words[i + 1], factor.terms) == words[i + 1]


def test_swaps(db: kinbin.Database) -> None:
    """Neighbours that change places are one term of two places, and what stands between them is inserted or deleted."""
    collection = db.create_collection("c", items="strings", kernel="damerau")
    collection.add(["a", "b", "c"], ["acb", "abc", "bcxa"])
    (factor,) = collection.explain("abc", id="a").factors
    assert [(term.what, term.query_at, term.item_at, term.query, term.item) for term in factor.terms] == [("swap", 1, 1, "b", "c")]
    assert collection.explain("abc", id="b").factors[0].terms == ()
    assert collection.explain("ab", id="c").score == naive_strings.damerau("ab", "bcxa")


def test_paths_warp(db: kinbin.Database, rng: np.random.Generator) -> None:
    """A path begins with both first steps, ends with both last ones, advances by one at most, and stays in the window."""
    series = [rng.normal(size=(size, 2)) for size in (30, 27)]
    collection = db.create_collection("c", items="series", kernel="dtw", dim=2, parameters={"window": 0.2})
    collection.add(["a", "b"], series)
    (factor,) = collection.explain(series[0], id="b", limit=1_000).factors
    path = sorted((term.query_at, term.item_at) for term in factor.terms if term.query_at is not None and term.item_at is not None)
    assert path[0] == (0, 0)
    assert path[-1] == (29, 26)
    assert {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(path)} <= {(0, 1), (1, 0), (1, 1)}
    assert max(abs(i - j) for i, j in path) <= naive_objects.band(30, 27, 0.2)
    for term in factor.terms:
        apart = series[0].astype(np.float32)[term.query_at] - series[1].astype(np.float32)[term.item_at].astype(np.float64)
        assert term.part == pytest.approx(float(apart @ apart))


def test_objects_that_are_too_large(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of objects too large to be aligned the distance is told as it is, and why."""
    for module in ("scripts", "paths"):
        for name in ("MOST_CELLS", "MOST_SLOW_CELLS"):
            monkeypatch.setattr(f"kinbin.distances.{module}.{name}", 10, raising=False)
    for kernel in KINDS["strings"].kernels:
        collection = db.create_collection(kernel, items="strings", kernel=kernel)
        collection.add(["a"], ["sitting"])
        (factor,) = collection.explain("kitten", id="a").factors
        assert not factor.terms
        assert factor.constants == (("not aligned: 42 pairs of elements, at most 10", factor.value),)


def test_a_space_that_says_nothing_of_sums(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without sums is told as what it prints; one without hashes says why it has no bands."""
    monkeypatch.setitem(registry._HOMES, "bare", "lacking:BARE")
    collection = db.create_collection("c", kernel="bare", dim=2)
    collection.add(["a"], [[1, 3]])
    told = collection.explain([3, 1], id="a")
    assert told.factors[0].constants == (("what the kernel prints", told.score),)
    assert (told.bands, told.no_bound) == (None, "bare has no bands: nothing is known that ties its score to a collision of hashes")


@pytest.mark.parametrize(("home", "outer"), [("FINISHED", None), ("FINISHED_AND_TOLD", "(x * 2.0 / 2.0 + x * 4.0 / 4.0) / 2")])
def test_a_space_that_makes_something_of_its_sum(
    home: str, outer: str | None, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms are of the sum where the space says what it makes of it and of both rows' sums; otherwise the score is told without them."""
    monkeypatch.setitem(registry._HOMES, "bare", f"lacking:{home}")
    collection = db.create_collection("c", kernel="bare", dim=2)
    collection.add(["a"], [[1, 3]])
    told = collection.explain([1, 1], id="a")
    assert_adds_up(told, next(iter(collection.query([1, 1], mode="exact"))).score)
    (factor,) = told.factors
    assert (len(factor.terms), factor.outer) == (0 if outer is None else 2, outer)
    assert len(factor.constants) == (outer is None)


def test_a_function_of_the_users(db: kinbin.Database) -> None:
    """A distance that is a Python function has no terms, and is told as one constant."""
    collection = db.create_collection("c", items="strings", distance=lambda a, b: abs(len(a) - len(b)) * 0.5)
    collection.add(["a"], ["four"])
    (factor,) = collection.explain("seventh", id="a").factors
    assert factor.constants == (("what the function returned", 1.5),)
    assert factor.added == 1.5


@pytest.mark.parametrize("base", naive.PSI)
@pytest.mark.parametrize("levels", [1, 3])
def test_cells_of_nested_histograms(base: str, levels: int, db: kinbin.Database) -> None:
    """Every cell's K follows from its own ψ and its parts' K, and the whole image's is the score."""
    X = grids(pictures()[:6], 2 ** (levels - 1)).reshape(6, -1)
    parameters = {"levels": levels, "base": base, "lambda": 0.7, "epsilon": [0.3, 0.6][: levels - 1] or 0.5}
    collection = db.create_collection("c", kernel="nested", parameters=parameters)
    collection.add([str(i) for i in range(6)], X)
    answer = collection.query(X[0], k=6, mode="exact")
    for identifier, score in zip(answer.ids, answer.scores.tolist(), strict=True):
        told = collection.explain(X[0], id=identifier)
        assert_adds_up(told, score)
        cells = {(cell.level, cell.y, cell.x): cell for cell in told.factors[0].cells}
        assert len(cells) == (4**levels - 1) // 3
        for (level, y, x), cell in cells.items():
            assert cell.kernel == pytest.approx(math.exp(-cell.apart / 0.7))
            below = [cells[level + 1, 2 * y + dy, 2 * x + dx].value for dy in (0, 1) for dx in (0, 1)] if level + 1 < levels else [0.0]
            assert cell.value == pytest.approx((1 - cell.share) * cell.kernel + cell.share * math.prod(below))
