"""Parameters of kernels: chosen at creation, judged, stored, told, and part of what a collection is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbin
import naive
from kinbin.spaces.registry import space_of

DECLARED = [(name, parameter) for name, kernel in kinbin.KERNELS.items() for parameter in kernel.declared]


@pytest.mark.parametrize(("name", "parameter"), DECLARED)
@pytest.mark.parametrize("value", [0.25, 2, np.float32(8.0)])
def test_scores_are_those_of_the_parameter(
    name: str, parameter: str, value: float, db: kinbin.Database, rng: np.random.Generator
) -> None:  # fmt: skip
    """A collection prints what its kernel is with the value that was chosen, and min_score cuts there."""
    X = rng.random((40, 6)) + 0.01
    collection = db.create_collection("c", kernel=name, dim=6, parameters={parameter: value})
    collection.add([str(i) for i in range(40)], X)
    truth = naive.dense_scores(name, X[0], X.astype(np.float32), **{parameter: float(value)})
    answer = collection.query(X[0], k=40)
    np.testing.assert_allclose(answer.scores, truth[[int(i) for i in answer.ids]], atol=naive.SCORE_ERROR)
    for rank in (0, 7, 39):
        assert len(collection.query(X[0], k=40, min_score=float(answer.scores[rank])).ids) == rank + 1


@pytest.mark.parametrize(("name", "parameter"), DECLARED)
def test_parameters_are_stored_and_told(name: str, parameter: str, tmp_path: Path) -> None:
    """All values are stored, defaults too; config and stats tell them after a reopening, and the kernel is the same."""
    for value in (None, 3.5):
        with kinbin.open(tmp_path / "db") as database:
            given = None if value is None else {parameter: value}
            database.create_collection("own" if value else "default", kernel=name, dim=2, parameters=given)
        with kinbin.open(tmp_path / "db") as database:
            collection = database.collection("own" if value else "default")
            expected = {parameter: kinbin.KERNELS[name].declared[parameter].default if value is None else value}
            assert collection.config.parameters == collection.stats()["parameters"] == expected
            assert collection._space.parameters == expected


def test_kernels_without_parameters_store_none(db: kinbin.Database) -> None:
    """A configuration without parameters is what it was before there were any: nothing is added to what is stored."""
    collection = db.create_collection("c", kernel="ngmm", dim=2, parameters={})
    assert collection.config.parameters == {}
    with collection._store.read() as reader:
        assert "parameters" not in reader.configuration().encode()


def test_exist_ok_compares_parameters(db: kinbin.Database) -> None:
    """A collection is found again with the same parameters, told in whatever way, and refused with others."""
    made = db.create_collection("c", kernel="exp_chi2", dim=2)
    assert db.create_collection("c", kernel="exp_chi2", dim=2, exist_ok=True) is made
    assert db.create_collection("c", kernel="exp_chi2", dim=2, parameters={"gamma": 1}, exist_ok=True) is made
    with pytest.raises(kinbin.CollectionExists, match="parameters gamma=1, not gamma=2"):
        db.create_collection("c", kernel="exp_chi2", dim=2, parameters={"gamma": 2.0}, exist_ok=True)
    with pytest.raises(kinbin.CollectionExists, match="kernel exp_chi2, not chi2"):
        db.create_collection("c", kernel="chi2", dim=2, exist_ok=True)


BAD = {
    "no mapping": (3.0, "parameters are an object of names and numbers"),
    "a list": ([("gamma", 1.0)], "parameters are an object"),
    "an unknown name": ({"gama": 1.0}, "has no parameter 'gama'; did you mean 'gamma'"),
    "no string": ({1: 1.0}, "has no parameter int"),
    "zero": ({"gamma": 0.0}, "gamma is a number from 0.001 to 1000"),
    "negative": ({"gamma": -1.0}, "gamma is a number"),
    "too large": ({"gamma": 1001}, "gamma is a number"),
    "NaN": ({"gamma": float("nan")}, "gamma is a number from 0.001 to 1000, not nan"),
    "infinite": ({"gamma": float("inf")}, "gamma is a number"),
    "a string": ({"gamma": "1"}, "gamma is a number"),
    "true": ({"gamma": True}, "gamma is a number"),
    "null": ({"gamma": None}, "gamma is a number"),
    "a huge whole number": ({"gamma": 10**400}, "gamma is a number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_refused(case: str, db: kinbin.Database) -> None:
    """What is no parameter of the kernel, or no number of its range, is refused by name, and nothing is created."""
    given, text = BAD[case]
    with pytest.raises(kinbin.InvalidInput, match=text) as refused:
        db.create_collection("c", kernel="exp_chi2", dim=2, parameters=given)  # type: ignore[arg-type]
    assert (refused.value.code, refused.value.problems[0].field) == ("bad_parameter", "parameters")
    assert db.collections() == []


def test_a_kernel_without_parameters_takes_none(db: kinbin.Database) -> None:
    """A parameter for a kernel that has none is an error that says so."""
    with pytest.raises(kinbin.InvalidInput, match="kernel ngmm has no parameter 'gamma': it takes none"):
        db.create_collection("c", kernel="ngmm", parameters={"gamma": 1.0})


def test_stored_parameters_that_are_not_known_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of a kernel with a parameter that this version does not know is refused as such, not as damage."""
    with kinbin.open(tmp_path / "db") as database:
        database.create_collection("c", kernel="exp_chi2", dim=3)
    monkeypatch.delitem(space_of("exp_chi2").declared, "gamma")
    with kinbin.open(tmp_path / "db") as database, pytest.raises(kinbin.FormatMismatch, match=r"exp_chi2.*no parameter 'gamma'"):
        database.collection("c")
