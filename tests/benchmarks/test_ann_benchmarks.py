from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "ann_benchmarks" / "kinbin"
PACKAGE = "ann_benchmarks.algorithms"
K = 10
Sets = list[NDArray[np.int64]]
Make = Callable[..., Any]


class BaseANN:
    """Stands in for the base class that the adapter finds where it is copied to."""


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make the adapter as ann-benchmarks does; what was made is ended after the test."""
    for name in ("ann_benchmarks", PACKAGE, f"{PACKAGE}.base", f"{PACKAGE}.kinbin"):
        package = ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
    base = ModuleType(f"{PACKAGE}.base.module")
    base.BaseANN = BaseANN  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, base.__name__, base)
    spec = importlib.util.spec_from_file_location(f"{PACKAGE}.kinbin.module", FOLDER / "module.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: list[Any] = []

    def making(constructor: str, *arguments: Any) -> Any:
        made.append(getattr(module, constructor)(*arguments))
        return made[-1]

    yield making
    for one in made:
        one.done()


def groups_of_sets(rng: np.random.Generator, count: int, universe: int = 3_000) -> Sets:
    """Sets that are alike within groups of 20: each leaves out some of its group's ids."""
    centres = [rng.choice(universe, 60, replace=False) for _ in range(-(-count // 20))]
    return [np.sort(rng.choice(centres[i % len(centres)], rng.integers(25, 55), replace=False)) for i in range(count)]


def jaccard(query: NDArray[np.int64], rows: Sets) -> NDArray[np.float64]:
    """Shared ids over all ids, set by set."""
    wanted = set(query.tolist())
    return np.array([len(wanted & set(row.tolist())) / max(1, len(wanted | set(row.tolist()))) for row in rows])


def recall(queries: Sets, rows: Sets, answers: list[list[int]]) -> float:
    """Mean share of answers that are as alike as the K-th true neighbour."""
    shares = []
    for query, answer in zip(queries, answers, strict=True):
        scores = jaccard(query, rows)
        assert len(answer) == len(set(answer)) == K
        shares.append(np.mean(scores[answer] >= np.sort(scores)[-K] - 1e-6))
    return float(np.mean(shares))


@pytest.mark.slow
@pytest.mark.recall
@pytest.mark.parametrize(
    ("mode", "target", "least"), [("exact", 1.0, 1.0), ("bands", 0.95, 0.9), ("auto", 0.95, 0.9), ("links", 0.95, 0.9)]
)
def test_answers_are_the_nearest_sets(make: Make, rng: np.random.Generator, mode: str, target: float, least: float) -> None:
    """One by one and in a batch, each mode finds what it promises of the sets that brute force finds."""
    rows, queries = groups_of_sets(rng, 1_500), groups_of_sets(rng, 1_530)[1_500:]
    queries = [np.union1d(rows[7 * i], query[:5]) for i, query in enumerate(queries)]
    adapter = make("Kinbin", "jaccard", mode == "links")
    adapter.fit(rows)
    adapter.set_query_arguments(target, mode)
    single = [adapter.query(query, K) for query in queries]
    adapter.batch_query(queries, K)
    assert recall(queries, rows, single) >= least
    assert recall(queries, rows, adapter.get_batch_results()) >= least
    assert adapter.get_additional()["dist_comps"] >= 2 * K * len(queries)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_matrix_of_bits_is_sets(make: Make, rng: np.random.Generator, dtype: type[np.generic]) -> None:
    """A matrix of zeros and ones is searched like the sets that it stands for."""
    sets = groups_of_sets(rng, 120, universe=200)
    matrix = np.zeros((len(sets), 200), dtype)
    for bits, ids in zip(matrix, sets, strict=True):
        bits[ids] = 1
    adapter = make("Kinbin", "jaccard", False)
    adapter.fit(matrix[:100])
    adapter.set_query_arguments(1.0, "exact")
    adapter.batch_query(matrix[100:], K)
    assert recall(sets[100:], sets[:100], adapter.get_batch_results()) == 1.0
    assert adapter.query(matrix[100], K) == adapter.get_batch_results()[0]


@pytest.mark.parametrize("first", [0, 70_000], ids=["narrow", "wide"])
def test_ids_that_no_stored_set_has_count_as_missed(make: Make, rng: np.random.Generator, first: int) -> None:
    """Large ids of a query make it less alike to every set, each by as much as it should."""
    rows = [ids + first for ids in groups_of_sets(rng, 200)]
    queries = [np.concatenate([rows[i], 65_530 + first + np.arange(3 * i + 1)]) for i in range(20)]
    adapter = make("Kinbin", "jaccard", False)
    adapter.fit(rows)
    adapter.set_query_arguments(1.0, "exact")
    assert recall(queries, rows, [adapter.query(query, K) for query in queries]) == 1.0


def test_empty_sets_neither_answer_nor_are_answered(make: Make) -> None:
    """An empty set has no neighbours, and the numbers of the others stay what they were."""
    adapter = make("Kinbin", "jaccard", False)
    adapter.fit([[], [1, 2, 3], [], [7, 8]])
    adapter.set_query_arguments(0.9, "auto")
    adapter.batch_query([[8, 7], []], 1)
    assert adapter.get_batch_results() == [[3], []]
    assert adapter.query([], 1) == []
    assert adapter.query([2, 1, 2], 1) == [1]


def test_configuration_fits_the_adapter(make: Make) -> None:
    """Everything that config.yml names can be made and set, and its text says what it is."""
    (entry,) = yaml.safe_load((FOLDER / "config.yml").read_text(encoding="utf-8"))["bit"]["jaccard"]
    assert entry["module"] == f"{PACKAGE}.{FOLDER.name}"
    for group in entry["run_groups"].values():
        ((linked,),), (targets, modes) = group["args"], group["query_args"]
        adapter = make(entry["constructor"], "jaccard", linked)
        for mode in modes:
            for target in targets:
                adapter.set_query_arguments(target, mode)
                assert str(adapter) == f"Kinbin(linked={linked}, mode={mode}, target_recall={target})"


def test_other_metrics_are_refused(make: Make) -> None:
    """The adapter is for sets."""
    with pytest.raises(NotImplementedError, match="not by euclidean"):
        make("Kinbin", "euclidean")
