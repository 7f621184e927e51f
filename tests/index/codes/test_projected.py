"""Codes of projected unit rows: their distances in L2 are lower bounds of true ones, and a slow twin makes the same codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from coded import SPARSE_ROWS, VALUES, canonical, unit, unit_distance
from kinbin.codes.coder import WIDTHS, Coder, Projection
from kinbin.codes.nodes import GRAPH, clear_probe, distance_to, fill_probe, length_of, probe_node, release_probe
from kinbin.codes.projected import drifted, projected_coder, residual
from kinbin.codes.table import Codes
from kinbin.codes.units import square_distance
from kinbin.links.graph import Graph
from kinbin.links.walk import EMPTY
from kinbin.native.jit import strict
from kinbin.native.memory import address_of, squared_differences_64, squared_differences_128
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import UNITS, Scratch
from linked import KINDS
from walking import walk_from_node

SLOTS = 100
NARROW_ROWS = st.dictionaries(st.integers(0, SLOTS - 1), VALUES, min_size=1, max_size=30)


@strict
def squares_of_64(left, right):  # type: ignore[no-untyped-def]
    """The intrinsic, callable."""
    return squared_differences_64(left, right)


@strict
def squares_of_128(left, right):  # type: ignore[no-untyped-def]
    """The intrinsic for twice as many, callable."""
    return squared_differences_128(left, right)


@strict
def squares_at(left, right, width):  # type: ignore[no-untyped-def]
    """`square_distance`, callable."""
    return square_distance(left, right, width)


@strict
def distances(graph, one, table, out):  # type: ignore[no-untyped-def]
    """Distances of all nodes from one of them."""
    probe = probe_node(graph[0], one, table)
    for node in range(len(out)):
        out[node] = distance_to(graph[0], node, probe)
    release_probe(graph[0], one, table)


@strict
def lengths_from_row(graph, features, values, norm, scratch, table, out):  # type: ignore[no-untyped-def]
    """How far the codes of all nodes are from that of a row, in L2; returns the row's error."""
    probe, error = fill_probe(graph[0], features, values, norm, scratch[0], table)
    for node in range(len(out)):
        out[node] = length_of(graph[0], distance_to(graph[0], node, probe), table)
    clear_probe(features, values, table)
    return error


# ---------------------------------------------------------------------------------------------- the twin


def coordinates(row: dict[int, float], projection: Projection) -> NDArray[np.float64]:
    """(width,) of a row, in float64."""
    matrix = projection.matrix.astype(np.float64)
    names = {int(name): slot for slot, name in enumerate(projection.known)} or {slot: slot for slot in range(len(matrix) - 1)}
    out: NDArray[np.float64] = matrix[0].copy()
    for feature, weight in unit(row, roots=projection.roots).items():
        if feature in names:
            out += weight * matrix[1 + names[feature]]
    return out


def projection_on(known: list[int], width: int, seed: int, *, roots: bool, slots: int = SLOTS) -> Projection:
    """Random directions that are orthogonal to each other, and a shift."""
    rng = np.random.default_rng(seed)
    slots = len(known) or slots
    directions = np.zeros((slots, width))
    directions[:, : min(slots, width)] = np.linalg.qr(rng.standard_normal((slots, min(slots, width))))[0]
    matrix = np.concatenate([0.1 * rng.standard_normal((1, width)) / width**0.5, directions * (1.0 - 2.0**-17)]).astype("<f4")
    return Projection(matrix, np.array(sorted(known), np.uint64), roots, 0.0)


def coder_by(projection: Projection, step: float) -> Coder:
    """The coder of a projection."""
    return Coder(projection.matrix.shape[1], bool(len(projection.known)), np.empty(0, np.uint16), step, 128.0, 1.0, projection)


def graph_of(coder: Coder, codes: Codes) -> Graph:
    """A graph without links."""
    return Graph.empty(codes, np.ones(len(codes), np.float32), coder.step, True, units=True)


# --------------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize("shift", [0, 1, 31, 63])
def test_squared_differences(shift: int, rng: np.random.Generator) -> None:
    """The sum of squared differences of 64 and of 128 bytes is numpy's, at any alignment, extremes among them."""
    data = rng.integers(0, 256, (200, 2, 192)).astype(np.uint8)
    data[0], data[1, 0], data[1, 1], data[2, 0], data[2, 1] = 255, 0, 255, 255, 0
    for left, right in data:
        for size, function in ((64, squares_of_64), (128, squares_of_128)):
            a, b = left[shift : shift + size], right[2 * shift // 3 : 2 * shift // 3 + size]
            assert function(np.uint64(address_of(a)), np.uint64(address_of(b))) == np.square(a.astype(int) - b.astype(int)).sum()


@pytest.mark.parametrize("width", WIDTHS)
def test_square_distance_of_codes(width: int, rng: np.random.Generator) -> None:
    """The distance of two codes is the sum over all their bytes and over none beyond, for every width there is."""
    data = rng.integers(0, 256, (50, 2, width + 64)).astype(np.uint8)
    data[0, 0], data[0, 1] = 0, 255
    for left, right in data:
        expected = np.square(left[:width].astype(int) - right[:width].astype(int)).sum()
        assert squares_at(np.uint64(address_of(left)), np.uint64(address_of(right)), width) == expected


def assert_lower_bound(rows: list[dict[int, float]], coder: Coder) -> None:
    """Of every pair, as nodes and with a row as the probe; a row has one code and one error, whoever makes them."""
    assert coder.projection is not None
    made = canonical(rows)
    codes, errors = coder.encode(made)
    graph = graph_of(coder, codes)
    keep: list[object] = []
    record, scratch = graph.record(keep), Scratch(wide=False)
    GRAPH.fill(record, **coder.fields())
    table = scratch.walk(len(rows), 10, UNITS)
    for i, left in enumerate(rows):
        a, b = made.indptr[i], made.indptr[i + 1]
        lengths, by_node = np.empty(len(rows)), np.empty(len(rows), np.int64)
        error = lengths_from_row(record, made.features[a:b], made.values[a:b], made.norms[i], scratch.record, table, lengths)
        distances(record, i, table, by_node)
        assert error == errors[i]
        np.testing.assert_allclose(lengths, coder.step * np.sqrt(by_node), rtol=1e-12)
        for j, right in enumerate(rows):
            true = unit_distance(left, right, roots=coder.projection.roots)
            assert lengths[j] - float(errors[i]) - float(errors[j]) <= true + 1e-9


@given(
    rows=st.lists(NARROW_ROWS, min_size=2, max_size=4),
    width=st.sampled_from(WIDTHS[:2]),
    step=st.floats(1e-4, 0.05),
    seed=st.integers(0, 9),
    roots=st.booleans(),
)
def test_distances_are_lower_bounds(rows: list[dict[int, float]], width: int, step: float, seed: int, roots: bool) -> None:
    """However coarse the step, and where codes are cut off: the codes' length less both errors is not above the true L2 distance."""
    rows = [{feature: abs(value) if roots else value for feature, value in row.items()} for row in rows]
    assert_lower_bound(rows, coder_by(projection_on([], width, seed, roots=roots), step))


@given(rows=st.lists(SPARSE_ROWS, min_size=2, max_size=4), step=st.floats(1e-4, 0.05), seed=st.integers(0, 9), known=st.booleans())
def test_distances_are_lower_bounds_where_features_are_not_known(
    rows: list[dict[int, float]], step: float, seed: int, known: bool
) -> None:  # fmt: skip
    """The same where the sample showed some of the features only, or none of them."""
    there = sorted({feature for row in rows for feature in row})[::2] if known else [7, 2**62 + 1]
    assert_lower_bound(rows, coder_by(projection_on(there, 64, seed, roots=False), step))


def test_distances_are_lower_bounds_of_rows_made_to_break_them() -> None:
    """Rows along single directions, across all of them, opposite ones, near doubles, and of the largest and the least values."""
    projection = projection_on([], 64, 3, roots=False)
    along = projection.matrix[1:, 0].astype(float)
    across = np.linalg.qr(np.concatenate([projection.matrix[1:], np.eye(SLOTS)], axis=1).astype(np.float64))[0][:, 64]
    dense = [along, -along, across, along + across, along + 1e-4 * across, 1e15 * along, 1e-20 * across + 1e-25 * along, np.ones(SLOTS)]
    rows = [{feature: float(np.float32(value)) for feature, value in enumerate(row) if abs(value) > 1e-29} for row in dense]
    rows += [{0: 1.0}, {0: -1.0}, {99: 1e15}, {0: 1e-20, 99: 1e10}]
    for step in (1e-3, 0.005, 0.02, 0.5):
        assert_lower_bound(rows, coder_by(projection, step))


@given(row=NARROW_ROWS, step=st.floats(1e-4, 0.05), roots=st.booleans())
def test_codes_are_those_of_the_twin(row: dict[int, float], step: float, roots: bool) -> None:
    """A code is the twin's coordinates in steps, rounded and cut off, and the row's error is what that changed, and hardly more."""
    row = {feature: abs(value) if roots else value for feature, value in row.items()}
    coder = coder_by(projection_on([], 64, 5, roots=roots), step)
    assert coder.projection is not None
    codes, errors = coder.encode(canonical([row]))
    code, error = codes.data[0], errors[0]
    exact = coordinates(row, coder.projection)
    expected = np.clip(np.rint(exact / step) + 128, 0, 255)
    # What lies in the middle between two steps may go either way.
    middle = np.abs(np.abs(exact / step - np.floor(exact / step)) - 0.5) * step < 1e-4
    np.testing.assert_array_equal(code[~middle], expected[~middle])
    assert (np.abs(code - expected) <= 1).all()
    off = np.sqrt(np.square(exact - step * (code - 128.0)).sum())
    assert off <= error <= off * 1.00001 + 2e-4


# ---------------------------------------------------------------------------------------------- choosing


def clustered(n: int, dim: int, seed: int = 0) -> NDArray[np.float32]:
    """Rows around 20 centres, signed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(20, dim)) * np.linspace(2.0, 0.05, dim)
    return np.asarray(centres[rng.integers(0, 20, n)] + 0.5 * np.linspace(2.0, 0.05, dim) * rng.normal(size=(n, dim)), np.float32)


def rows_of(X: NDArray[Any]) -> Rows:
    """As the library keeps them."""
    return canonical_rows(X, dim=X.shape[1], signed=True)


def units_of(X: NDArray[Any]) -> NDArray[np.float64]:
    """Divided by their lengths."""
    return np.asarray(X / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True))


def neighbourhoods(X: NDArray[Any], picks: int = 30, size: int = 60) -> tuple[Rows, int]:
    """Some of the rows with their nearest, by the slow way."""
    order = np.argsort(-(units_of(X)[:picks] @ units_of(X).T), axis=1, kind="stable")[:, :size]
    return rows_of(X[order.ravel()]), size


def chosen(X: NDArray[Any], seed: int = 4, nodes: int = 2_000) -> Coder:
    """The coder for rows of a dimension."""
    return projected_coder(rows_of(X), X.shape[1], neighbourhoods(X), nodes, roots=False, seed=seed)


def test_chosen_codes_keep_near_rows_near() -> None:
    """Of the widths that are tried the chosen one keeps the order of the nearest; it is wider where much lies in many directions."""
    low, high = clustered(2_000, 300), np.random.default_rng(2).normal(size=(2_000, 300)).astype(np.float32)
    coder = chosen(low)
    assert coder.recall > 0.95
    assert coder.width < chosen(high).width
    assert residual(coder, rows_of(low)) < 0.05
    codes, errors = coder.encode(rows_of(low))
    made = codes.data.astype(np.int64)
    units = units_of(low)
    for i in range(10):
        nearest = np.argsort(((made - made[i]) ** 2).sum(axis=1), kind="stable")[:60]
        truth = np.argsort(-(units @ units[i]), kind="stable")[:50]
        assert len(set(nearest.tolist()) & set(truth.tolist())) >= 45
    assert errors.max() < 0.05


def test_few_features_are_turned_without_loss() -> None:
    """Rows of fewer features than a code has coordinates lose nothing but what rounding takes."""
    for dim in (1, 3, 40, 64):
        X = np.random.default_rng(dim).normal(size=(300, dim)).astype(np.float32)
        coder = projected_coder(rows_of(X), dim, neighbourhoods(X, size=20), 300, roots=False, seed=1)
        assert coder.width == 64
        assert residual(coder, rows_of(X)) < 1e-4
        assert coder.recall > 0.9


def test_directions_are_orthonormal_and_secret() -> None:
    """No direction is longer than 1, and no row becomes longer; another seed has other directions of the same subspace."""
    X = clustered(1_000, 200)
    one, same, other = chosen(X), chosen(X), chosen(X, seed=5)
    assert one.projection is not None
    assert same.projection is not None
    assert other.projection is not None
    directions = one.projection.matrix[1:].astype(np.float64)
    assert np.linalg.svd(directions, compute_uv=False)[0] <= 1.0
    np.testing.assert_allclose(directions.T @ directions, np.eye(one.width), atol=1e-4)
    np.testing.assert_array_equal(one.projection.matrix, same.projection.matrix)
    assert one.encode(rows_of(X))[0].equals(same.encode(rows_of(X))[0])
    assert np.abs(one.projection.matrix - other.projection.matrix).max() > 0.05
    if other.width == one.width:
        kept = other.projection.matrix[1:].astype(np.float64)
        np.testing.assert_allclose(directions @ directions.T, kept @ kept.T, atol=1e-3)


def test_coordinates_are_alike_in_size() -> None:
    """After the random rotation no coordinate is much larger than another, though nearly all lies in a few directions."""
    X = clustered(2_000, 200) * np.float32(1.0)
    coder = chosen(X)
    spread = coder.encode(rows_of(X))[0].data.astype(float).std(axis=0)
    assert spread.max() < 6 * spread.min()


def test_sparse_rows_are_projected_by_the_features_they_have() -> None:
    """Rows without a dimension: the features of the sample have slots, others are projected on to nothing, and the bound holds."""
    X = KINDS["few words"].rows(600, seed=1)
    rows = canonical_rows(X, dim=None, signed=True)
    near = canonical_rows(X[np.arange(600).reshape(20, 30).ravel()], dim=None, signed=True)
    coder = projected_coder(rows, None, (near, 30), 600, roots=False, seed=1)
    assert coder.projection is not None
    assert coder.hashed
    known = coder.projection.known
    assert set(known.tolist()) <= set(X.indices.tolist())
    assert (np.diff(known.astype(np.int64)) > 0).all()
    some = [dict(zip(X[[i]].indices.tolist(), map(float, X[[i]].data), strict=True)) for i in range(12)]
    assert_lower_bound([*some, {10**9: 1.0}, {10**9: 1.0, int(known[0]): 2.0}], coder)


def test_more_features_than_slots() -> None:
    """Where rows have more features than a matrix may have slots, the rest is projected on to nothing, which keeps the bound."""
    rng = np.random.default_rng(0)
    rows = [{int(f): float(v) for f, v in zip(rng.integers(0, 40_000, 30), rng.normal(size=30) + 3.0, strict=True)} for _ in range(400)]
    made = canonical(rows)
    coder = projected_coder(made, None, (canonical(rows[:40]), 20), 400, roots=False, seed=1)
    assert coder.projection is not None
    assert len(coder.projection.known) == 4_096
    assert residual(coder, made) > 0.05
    assert_lower_bound(rows[:10], coder)


def test_drifted_rows_are_told() -> None:
    """Rows like the sample have not drifted; rows in directions that it had nothing of have."""
    X = clustered(1_500, 300)
    X[:, 250:] = 0.0
    coder = chosen(X)
    assert not drifted(coder, rows_of(clustered(500, 300, seed=9) * (np.arange(300) < 250)))
    strange = np.zeros((500, 300), np.float32)
    strange[:, 250:] = np.random.default_rng(1).normal(size=(500, 50))
    assert drifted(coder, rows_of(strange))
    assert residual(coder, rows_of(strange)) > 0.9
    both = np.concatenate([X[:20], strange[:20]])
    assert_lower_bound([dict(enumerate(map(float, row))) for row in both[15:25]], coder)


def test_directions_are_those_of_old_and_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more rows than are looked at, the last ones count as much as the first."""
    monkeypatch.setattr("kinbin.codes.projected._SAMPLE_ROWS", 200)
    X = clustered(1_000, 300)
    X[:500, :250] = 0.0
    X[500:, 250:] = 0.0
    coder = chosen(X)
    # Of rows that were not looked at nearly all is lost: they have no feature in common with the others.
    assert residual(coder, rows_of(X[:500])) < 0.3
    assert residual(coder, rows_of(X[500:])) < 0.3


# ----------------------------------------------------------------------------------------------- graphs


def test_a_walk_over_projections_finds_the_nearest_codes() -> None:
    """A graph that is built and walked by squares of distances leads to the nodes whose codes are nearest."""
    X = clustered(2_000, 200)
    coder = chosen(X)
    codes, _ = coder.encode(rows_of(X))
    graph = graph_of(coder, codes)
    assert graph.layout == UNITS
    assert graph.insert(np.arange(2_000), lambda done: True)
    graph.join_strays()
    scratch = Scratch(wide=False)
    scratch.walk(2_000, 40, UNITS)
    made, found = codes.data.astype(np.int64), []
    for node in range(0, 2_000, 40):
        pool = walk_from_node(graph, node, 40, scratch)
        assert EMPTY not in pool
        ranks = ((made - made[node]) ** 2).sum(axis=1)
        assert [int(key >> np.uint64(32)) for key in pool] == sorted(int(ranks[(int(key) & 0xFFFFFFFF) >> 1]) for key in pool)
        kth = np.partition(ranks, 9)[9]
        found.append(np.mean([int(key >> np.uint64(32)) <= kth for key in pool[:10]]))
    assert np.mean(found) > 0.97
