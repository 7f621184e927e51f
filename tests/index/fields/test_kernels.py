"""Every kernel may be that of a field: parts and sums are those of the definition, and bounds are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from fielded import ids
from kinbin.spaces.registry import space_of
from linked import still

N, ASKED, DIM, K = 90, 5, 12, 9
KERNELS: tuple[tuple[str, dict[str, float]], ...] = (
    *((name, {}) for name in kinbin.KERNELS),
    ("rbf", {"gamma": 2.0}),
    ("frbf", {"gamma": 3.0}),
    ("exp_chi2", {"gamma": 0.5}),
    ("gmm*acos", {}),
    ("acos*hellinger", {}),
    ("ngmm*chi2*rbf", {"rbf.gamma": 0.5}),
)
HALF = (len(KERNELS) + 1) // 2
SIGNED = [space_of(name).signed for name, _ in KERNELS]


def _vectors(rng: np.random.Generator, signed: bool) -> NDArray[np.float32]:
    """Rows with zeros, in groups of three near ones. The second group is the first turned round, or has none of its features."""
    X = np.repeat(rng.random((N // 3, DIM)) + 0.01, 3, axis=0) * rng.lognormal(0, 0.2, (N, DIM))
    X[:, 2:] *= rng.random((N, DIM - 2)) < 0.7
    X[:3, DIM // 2 :] = 0.0
    if signed:
        X *= np.repeat(rng.choice([-1.0, 1.0], (N // 3, DIM)), 3, axis=0)
        X[3:6] = -X[:3]
    else:
        X[3:6] = np.roll(X[:3], DIM // 2, axis=1)
    return X.astype(np.float32)


def _asked_of(half: slice, X: Mapping[bool, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """By field, what its kernel takes."""
    return {f"f{i}": X[SIGNED[i]] for i in range(*half.indices(len(KERNELS)))}


def _form(x: NDArray[Any], dim: int | None) -> Any:
    """Rows as arrays, or of ids far apart."""
    return x if dim else [{f * 10**12 + 3: float(v) for f, v in enumerate(row) if v} for row in x]


@pytest.mark.slow
@pytest.mark.parametrize("half", [slice(0, HALF), slice(HALF, None)], ids=["first", "second"])
@pytest.mark.parametrize("dim", [DIM, None], ids=["narrow", "wide"])
def test_parts_and_sums_are_those_of_the_definition(
    db: kinbin.Database, quiet: None, rng: np.random.Generator, dim: int | None, half: slice
) -> None:
    """Fresh, sealed and linked: each field tells what its kernel prints, on every path; sums are of these, and exact is complete."""
    X = {signed: _vectors(rng, signed) for signed in (False, True)}
    vectors = _asked_of(half, X)
    kernels = dict(zip(vectors, KERNELS[half], strict=True))
    config = {field: {"kernel": kernel, "parameters": given, "dim": dim} for field, (kernel, given) in kernels.items()}
    db.create_collection("c", fields=config, seed=3)
    c = db.fields_collection("c")
    c.add(ids(N), {field: _form(x, dim) for field, x in vectors.items()})
    weights = {field: 0.25 * (1 + i % 4) for i, field in enumerate(vectors)}
    picks = np.arange(0, N, N // ASKED)[:ASKED]
    queries = {field: _form(x[picks], dim) for field, x in vectors.items()}
    truth = {
        field: np.array([naive.dense_scores(kernel, vectors[field][i], vectors[field], **given) for i in picks])
        for field, (kernel, given) in kernels.items()
    }
    total = np.asarray(sum(weights[field] * scores for field, scores in truth.items()))
    error = naive.SCORE_ERROR * sum(weights.values())
    for stage in (None, c.compact, c.link):
        if stage is not None:
            with still():
                stage()
        for mode, k in (("exact", N), ("auto", K), ("bands", K), ("links", K)):
            for i, answer in enumerate(c.query_batch(queries, weights, k=k, mode=mode)):
                places = [int(one[1:]) for one in answer.ids]
                assert answer.parts is not None
                for field, scores in answer.parts.items():
                    np.testing.assert_allclose(scores, truth[field][i, places], atol=naive.SCORE_ERROR, err_msg=str(kernels[field]))
                np.testing.assert_allclose(answer.scores, total[i, places], atol=error)
                if mode in ("exact", "auto"):
                    np.testing.assert_allclose(answer.scores, np.sort(total[i])[::-1][:k], atol=error)
    assert c.check().ok


SUMS: tuple[Mapping[str, tuple[str, dict[str, float]]], ...] = (
    {"a": ("cosine", {}), "b": ("acos", {})},
    {"a": ("frbf", {"gamma": 2.0}), "b": ("hellinger", {}), "c": ("minmax", {})},
    {"a": ("gmm*acos", {}), "b": ("rbf", {"gamma": 2.0})},
)


@pytest.mark.recall
@pytest.mark.parametrize("kernels", SUMS, ids=["negative", "folded", "products"])
def test_the_mean_bound_is_at_most_the_mean_recall(
    db: kinbin.Database, quiet: None, rng: np.random.Generator, kernels: Mapping[str, tuple[str, dict[str, float]]]
) -> None:
    """Over 20 seeds answers by a few bands find at least as much as they say, in the mean; certified ones of auto keep the target."""
    X = {field: _vectors(rng, space_of(name).signed) for field, (name, _) in kernels.items()}
    queries = {field: x[:: N // 30] for field, x in X.items()}
    scores = [[naive.dense_scores(name, q, X[field], **given) for q in queries[field]] for field, (name, given) in kernels.items()]
    truth = np.mean(scores, axis=0)
    config = {field: {"kernel": name, "parameters": given, "dim": DIM, "bands": 2, "rows": 1} for field, (name, given) in kernels.items()}
    recalls: list[float] = []
    bounds: list[float] = []
    for seed in range(20):
        db.create_collection("c", fields=config, seed=1_000 * seed)
        c = db.fields_collection("c")
        c.add(ids(N), X)
        c.compact()
        for answer, row in zip(c.query_batch(queries, k=2, mode="bands", target_recall=0.5), truth, strict=True):
            if answer.recall_lower_bound is not None:
                recalls.append(naive.recall(answer.scores, row, 2))
                bounds.append(answer.recall_lower_bound)
        assert min(answer.recall_lower_bound or 0.0 for answer in c.query_batch(queries, k=2, certify=True)) >= 0.9
        db.drop_collection("c")
    assert len(bounds) > 100
    assert 0.01 < np.mean(bounds) <= np.mean(recalls), (np.mean(bounds), np.mean(recalls))
    assert min(bounds) < 1.0, "some of them are proved by bands"
    assert min(recalls) < 1.0, "some neighbours are missed"


def test_a_field_that_prints_negative_numbers_is_summed_only(db: kinbin.Database, quiet: None) -> None:
    """Cosines below zero count in sums, by which answers may be asked for; a product refuses them, alone as well as beside others."""
    db.create_collection("c", fields={"a": {"kernel": "cosine", "dim": 2}, "b": {"kernel": "frbf", "dim": 2}})
    c = db.fields_collection("c")
    angles = np.linspace(0.0, np.pi, 9)
    c.add(ids(9), {"a": np.column_stack([np.cos(angles), np.sin(angles)]), "b": np.ones((9, 2))})
    itself = 0.5 + 0.5 * np.exp(-2.0)
    for mode in ("exact", "auto"):
        answer = c.query({"a": [1.0, 0.0], "b": [3.0, 3.0]}, {"a": 2.0, "b": 1.0}, k=9, mode=mode)
        assert answer.ids == ids(9)
        np.testing.assert_allclose(answer.scores, 2.0 * np.cos(angles) + itself, atol=1e-6)
        assert answer.parts is not None
        np.testing.assert_allclose(answer.parts["b"], itself, atol=1e-9)
        assert c.query({"a": [1.0, 0.0]}, k=9, mode=mode, min_score=-0.4).ids == ids(int(np.sum(np.cos(angles) >= -0.4)))
    for asked in ({"a": [1.0, 0.0]}, {"a": [1.0, 0.0], "b": [1.0, 1.0]}):
        with pytest.raises(kinbin.InvalidInput, match="field 'a': cosine scores below 0"):
            c.query(asked, combine="product")


def test_parameters_belong_to_their_field(db: kinbin.Database) -> None:
    """They are stored and told with all that were left out, compared by exist_ok, and refused with the name of the field."""
    fields: dict[str, dict[str, Any]] = {
        "a": {"kernel": "rbf", "parameters": {"gamma": 2.0}, "dim": 8},
        "b": {"kernel": "rbf*exp_chi2", "parameters": {"rbf.gamma": 3.0}},
        "c": {"kernel": "hellinger", "sampler": "sign"},
    }
    made = db.create_collection("c", fields=fields)
    config = db.fields_collection("c").config.fields
    assert {name: (one.kernel, one.parameters) for name, one in config.items()} == {
        "a": ("rbf", {"gamma": 2.0}), "b": ("exp_chi2*rbf", {"exp_chi2.gamma": 1.0, "rbf.gamma": 3.0}), "c": ("hellinger", {}),
    }  # fmt: skip
    assert config["c"].sampler == "sign"
    turned = fields["b"] | {"kernel": "exp_chi2*rbf", "parameters": {"rbf.gamma": 3, "exp_chi2.gamma": 1.0}}
    assert db.create_collection("c", fields=fields | {"b": turned}, exist_ok=True) is made
    with pytest.raises(kinbin.CollectionExists, match="parameters gamma=2, not gamma=1, in field a"):
        db.create_collection("c", fields=fields | {"a": {"kernel": "rbf", "dim": 8}}, exist_ok=True)
    for bad, says in (
        ({"kernel": "rbf", "parameters": {"gama": 2.0}}, "field 'a': kernel rbf has no parameter"),
        ({"kernel": "rbf", "parameters": {"gamma": 0}}, "field 'a': the parameter gamma is a number"),
        ({"parameters": {"gamma": 2.0}}, "field 'a': kernel ngmm has no parameter"),
        ({"kernel": "gmm*cosine"}, "field 'a': kernel cosine prints negative numbers"),
        ({"kernel": "cosine", "sampler": "gcws"}, "field 'a': kernel cosine is hashed by"),
    ):
        with pytest.raises(kinbin.InvalidInput, match=says):
            db.create_collection("d", fields={"a": bad})
    with pytest.raises(kinbin.InvalidInput, match="parameters came beside fields"):
        db.create_collection("d", fields={"a": {}}, parameters={})
    assert db.collections() == ["c"]
