"""Sketches of point sets: scans pass over most sets by them, and over none that is near enough."""

from __future__ import annotations

from itertools import pairwise

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import kinbin
import naive_objects as naive
from background import no_background
from kinbin.native.memory import address_of
from kinbin.spaces.ordered import distance_score
from kinbin.spaces.points import _frame, _sketch, _sketch_reach

Set = np.ndarray


def _framed(dims: int, sets: list[Set]) -> np.ndarray:
    """The frame of some sets."""
    return _frame(dims, np.concatenate([one.ravel() for one in sets]), np.cumsum([0, *(one.size for one in sets)]))


def _sketched(frame: np.ndarray, one: Set) -> np.ndarray:
    out, values = np.full(64, 7, np.uint8), np.ascontiguousarray(one, np.float32)
    _sketch(np.uint64(address_of(values)), values.size, np.uint64(address_of(frame)), np.uint64(address_of(out)))
    return out.astype(np.int64)


def _reach(frame: np.ndarray, distance: float) -> float:
    """The most that sketches of sets that are so far apart may differ."""
    return float(_sketch_reach(np.uint64(address_of(frame)), distance_score.py_func(distance)))


def _some_sets(rng: np.random.Generator, dims: int, scale: float) -> list[Set]:
    """Of many sizes: random ones, copies that are moved a little, lines, single points, one that lies far away, one of large numbers."""
    made = [scale * rng.normal(size=(rng.integers(1, 20), dims)) for _ in range(12)]
    made += [made[0] + 1e-3 * scale * rng.normal(size=made[0].shape), made[1][::-1], made[2][:1], np.repeat(made[3], 2, axis=0)]
    made += [np.linspace(made[4][0], made[5][0], 9), 50 * scale + made[6], np.full((1, dims), 1e30), np.zeros((3, dims))]
    return [one.astype(np.float32) for one in made]


@hypothesis.given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 5, 64]), st.sampled_from([1e-25, 1e-3, 1.0, 1e4, 1e25]))
def test_sketches_are_bounded_by_the_distance(seed: int, dims: int, scale: float) -> None:
    """Of any two sets, by a frame of others, of both, or of one that is damaged."""
    rng = np.random.default_rng(seed)
    sets = _some_sets(rng, dims, scale)
    damaged = np.array([[np.nan] * dims, [np.inf] * dims], np.float32)
    for frame in (_framed(dims, sets), _framed(dims, sets[:1]), _framed(dims, [damaged]), _framed(dims, [*sets, damaged])):
        sketches = [_sketched(frame, one) for one in sets]
        for (i, left), (j, right) in pairwise([*enumerate(sets), (0, sets[0])]):
            far = naive.hausdorff(left, right)
            assert np.abs(sketches[i] - sketches[j]).max() <= _reach(frame, far)
        assert (_sketched(frame, sets[0][::-1]) == sketches[0]).all()


def test_a_sketch_counts_units_to_each_anchor() -> None:
    """Bytes are whole units to the nearest point: anchors are points of the sample, and few sets are more than 255 units away."""
    sets = [np.array([[x, y]], np.float32) for x in range(8) for y in range(8)]
    frame = _framed(2, sets)
    anchors = frame[2:].view(np.float32).reshape(2, 64).T
    assert {tuple(one) for one in anchors} == {(x, y) for x in range(8) for y in range(8)}
    query = np.array([[0.5, 0.25], [5.0, 2.0]], np.float32)
    nearest = np.sqrt(np.square(query[:, None].astype(np.float64) - anchors).sum(axis=-1)).min(axis=0)
    assert _sketched(frame, query).tolist() == np.minimum(np.floor(nearest * frame[0]), 255).tolist()
    assert frame[0] * np.hypot(7, 7) == pytest.approx(255, rel=0.2)


@pytest.mark.parametrize("dims", [1, 2, 3, 7])
def test_few_sets_are_scored_and_none_is_missed(dims: int, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Sealed, in two runs of different scale and with fresh rows: ranges and nearest ones are complete, and a tenth is scored."""
    centres = 10 * rng.normal(size=(1_000, dims))
    sets = [(centre + 0.3 * rng.normal(size=(rng.integers(1, 12), dims))).astype(np.float32) for centre in centres]
    sets[900:990] = [(40 + 30 * one).astype(np.float32) for one in sets[900:990]]
    with no_background(seal_rows=300):
        collection = db.create_collection("c", items="points", distance="hausdorff", dim=dims)
        for first, past in ((0, 600), (600, 990), (990, 1_000)):
            collection.add([str(i) for i in range(first, past)], sets[first:past], [{"even": i % 2 == 0} for i in range(first, past)])
            if past < 1_000:
                assert collection._upkeep.step()
        assert len(collection.stats()["runs"]) == 2
        _check_searches(collection, sets)


def _check_searches(collection: kinbin.Collection, sets: list[Set]) -> None:
    """Ranges and the nearest, of stored sets and of others."""
    for query in (sets[3], sets[700], sets[950], sets[995], sets[12] + 0.5):
        true = np.array([naive.hausdorff(query, one) for one in sets])
        for limit in np.sort(true)[[0, 3, 30]]:
            found = collection.query(query, k=1_000, max_distance=float(limit))
            np.testing.assert_allclose(found.scores, np.sort(true[true <= limit]), rtol=1e-9, atol=1e-12)
            assert found.recall_lower_bound == 1.0
        nearest = collection.query(query, k=3, mode="exact", filter={"even": True})
        np.testing.assert_allclose(nearest.scores, np.sort(true[::2])[:3], rtol=1e-9, atol=1e-12)
    few = [collection.query(one, k=1_000, max_distance=0.5).verified for one in sets[:100]]
    assert np.mean(few) < 100


def test_a_collection_of_one_point_has_sketches(db: kinbin.Database, quiet: None) -> None:
    """All sets are one and the same point: there is no unit, and all are answered."""
    collection = db.create_collection("c", items="points", distance="hausdorff", dim=2)
    collection.add([str(i) for i in range(100)], np.full((100, 1, 2), 3.0))
    collection.compact()
    assert collection.query([[3.0, 3.0]], k=100, max_distance=0.0).distances.tolist() == [0.0] * 100  # type: ignore[union-attr]
    assert len(collection.query([[3.0, 4.0]], k=100, max_distance=0.999)) == 0
    assert len(collection.query([[3.0, 4.0]], k=100, max_distance=1.0)) == 100


@pytest.mark.parametrize("dims", [200, 257, 1_000])
def test_sets_of_many_dimensions_have_sketches(dims: int, db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """A set of one point has more numbers than are looked at of others; whatever the scale, few are scored, and none is missed."""
    centres = 3 * rng.normal(size=(300, 1, dims))
    for scale in (1.0, 1e-3):
        sets = (scale * (centres + 0.1 * rng.normal(size=(300, 2, dims)))).astype(np.float32)
        collection = db.create_collection(f"c{scale < 1:d}", items="points", distance="hausdorff", dim=dims)
        collection.add([str(i) for i in range(300)], sets)
        collection.compact()
        true = np.array([naive.hausdorff(sets[3], one) for one in sets])
        answer = collection.query(sets[3], k=9, mode="exact")
        np.testing.assert_allclose(answer.scores, np.sort(true)[:9], rtol=1e-9)
        assert collection.query(sets[3], k=9, max_distance=scale).verified < 30
