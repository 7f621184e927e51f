"""Packed codes: the same graphs and walks as codes of bytes, lower bounds of true distances, and work space that is left clear."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive
from coded import SPARSE_ROWS, WIDTH, canonical, codes_of, shape_distance, unit, unit_distance
from kinbin.codes.coder import Coder, Projection, packed_coder, packed_unit_coder
from kinbin.codes.nodes import GRAPH, clear_probe, distance_to, fill_probe, length_of, near_eight, probe_node, release_probe
from kinbin.codes.packed import QUAD, UNIT_STEP, packed_slot
from kinbin.codes.table import Codes
from kinbin.links.graph import Graph
from kinbin.links.walk import EMPTY
from kinbin.native.jit import strict
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import TABLE_WORDS, Scratch
from walking import space_for, walk_from_node

STEPS = st.floats(2**-31, 0.3)
NO_BUCKETS = np.empty(0, np.uint16)


def packed(step: float) -> Coder:
    """A coder of packed entries."""
    return Coder(0, True, NO_BUCKETS, step, 0.0, 1.0)


def packed_units(*, roots: bool, step: float = UNIT_STEP) -> Coder:
    """A coder of packed unit rows."""
    return Coder(0, True, NO_BUCKETS, step, 0.0, 1.0, Projection(np.empty((0, 0), np.float32), np.empty(0, np.uint64), roots, 0.0))


def as_entries(codes: NDArray[np.uint8]) -> Codes:
    """The same codes, with an entry for each byte that is not zero: all distances are those of the bytes."""
    parts = []
    for code in codes:
        (slots,) = np.nonzero(code)
        entries = (code[slots].astype(np.uint32) << 16) | (slots * 97).astype(np.uint32)
        words = np.zeros(-(-(2 + len(entries)) // QUAD) * QUAD, np.uint32)
        words[0], words[1], words[2 : 2 + len(entries)] = len(words) // QUAD, code.sum(dtype=np.uint32), entries
        parts.append(Codes(0, words.reshape(-1, QUAD), np.array([0, len(words) // QUAD])))
    return Codes.joined(0, len(codes), parts)


def some_codes(n: int, seed: int = 0) -> NDArray[np.uint8]:
    """Codes in clusters, many of whose bytes are zero."""
    return codes_of(n, seed) * (np.random.default_rng(seed).random((n, WIDTH)) < 0.4).astype(np.uint8)


@strict
def slot(feature, negative):  # type: ignore[no-untyped-def]
    """`packed_slot`, callable."""
    return packed_slot(feature, negative)


@strict
def distances(graph, one, table, out):  # type: ignore[no-untyped-def]
    """Distances of all nodes from one of them."""
    probe = probe_node(graph[0], one, table)
    for node in range(len(out)):
        out[node] = distance_to(graph[0], node, probe)
    release_probe(graph[0], one, table)


@strict
def distances_of_row(graph, features, values, norm, scratch, table, out):  # type: ignore[no-untyped-def]
    """Distances of all nodes from a row; returns the row's error."""
    probe, error = fill_probe(graph[0], features, values, norm, scratch[0], table)
    for node in range(len(out)):
        out[node] = distance_to(graph[0], node, probe)
    clear_probe(features, values, table)
    return error


@strict
def lengths(graph, probed, distances, out):  # type: ignore[no-untyped-def]
    """`length_of` each distance."""
    for node in range(len(out)):
        out[node] = length_of(graph[0], distances[node], probed)


@strict
def nearness(graph, one, reach, table):  # type: ignore[no-untyped-def]
    """`near_eight` of the first eight nodes from one of them."""
    probe = probe_node(graph[0], one, table)
    near = near_eight(graph[0], 0, probe, reach)
    release_probe(graph[0], one, table)
    return near


def graph_of(codes: Codes, *, shapes: bool = True) -> Graph:
    """A graph without links."""
    norms = np.random.default_rng(0).lognormal(0, 0.3, len(codes)).astype(np.float32)
    return Graph.empty(codes, norms, 0.001, shapes)


# ------------------------------------------------------------------------------------------- two layouts


def test_distances_of_entries_are_those_of_bytes() -> None:
    """A code has the same distance from another in either layout: by all pairs, codes of zeros and of one entry among them."""
    codes = some_codes(60)
    codes[0], codes[1, 1:], codes[2] = 0, 0, 255
    graph = graph_of(as_entries(codes))
    keep: list[object] = []
    table = np.zeros(TABLE_WORDS, np.uint16)
    for one in range(60):
        out = np.empty(60, np.int64)
        distances(graph.record(keep), one, table, out)
        np.testing.assert_array_equal(out, np.abs(codes.astype(int) - codes[one].astype(int)).sum(axis=1))
        assert not table[:-2].any(), "the table was not left clear"


@pytest.mark.parametrize("shapes", [True, False])
def test_graphs_over_entries_are_those_over_bytes(shapes: bool) -> None:
    """Built, thinned, extended and walked, a graph is the same to the last link in either layout."""
    codes, more = some_codes(1_500), some_codes(200, seed=4)
    kept = np.random.default_rng(1).random(1_500) < 0.7
    renamed = np.where(kept, np.cumsum(kept) - 1, -1)
    stay = np.flatnonzero(kept)
    total = len(stay) + 200
    made = []
    for form in (Codes.of_bytes, as_entries):
        graph = graph_of(form(codes), shapes=shapes)
        assert graph.insert(np.arange(1_500), lambda done: True)
        width = graph.codes.width
        codes_now = Codes.joined(width, total, [graph.codes.take(stay), form(more)])
        thinned = graph.thinned(codes_now, np.concatenate([graph.norms[stay], np.ones(200, np.float32)]), renamed)
        assert thinned.insert(np.arange(len(stay), total), lambda done: True)
        space = space_for(total, 40)
        pools = [walk_from_node(thinned, node, 40, space) for node in range(0, total, 50)]
        assert all(EMPTY not in pool for pool in pools)
        made.append((graph.links, thinned.links, np.array(pools)))
    for bytes_made, entries_made in zip(*made, strict=True):
        np.testing.assert_array_equal(bytes_made, entries_made)


# ------------------------------------------------------------------------------------------------ rows


def sharing_slots(count: int) -> list[int]:
    """Features of one slot."""
    wanted = int(slot(np.uint64(1), False))
    return [feature for feature in range(1, 2_000_000) if ((2 * feature * 0x9E3779B97F4A7C15) & (2**64 - 1)) >> 48 == wanted][:count]


COLLIDING = sharing_slots(8)
COLLIDING_ROWS = st.dictionaries(
    st.sampled_from([*COLLIDING, 2, 3]), st.floats(-9, 9, width=32).filter(lambda value: abs(value) > 1e-3), min_size=1, max_size=8
)


def test_colliding_features_are_there() -> None:
    """The features that the next tests rely on have one slot, and a feature of either sign has two."""
    assert len(COLLIDING) == 8
    assert len({int(slot(np.uint64(feature), False)) for feature in COLLIDING}) == 1
    assert slot(np.uint64(7), False) != slot(np.uint64(7), True)
    spread = {int(slot(np.uint64(feature), False)) for feature in range(10_000)}
    assert 0 <= min(spread) <= max(spread) < 2**16
    assert len(spread) > 9_000


@given(rows=st.lists(SPARSE_ROWS | COLLIDING_ROWS, min_size=2, max_size=4), step=STEPS)
def test_distances_are_lower_bounds(rows: list[dict[int, float]], step: float) -> None:
    """However coarse the step, and where features share a slot: step · distance − both errors is not above the true L1 distance."""
    coder, made = packed(step), canonical(rows)
    codes, errors = coder.encode(made)
    keep: list[object] = []
    graph = graph_of(codes).record(keep)
    GRAPH.fill(graph, step=step)
    scratch = Scratch(wide=False)
    table = np.zeros(TABLE_WORDS, np.uint16)
    for i, left in enumerate(rows):
        out = np.empty(len(rows), np.int64)
        a, b = made.indptr[i], made.indptr[i + 1]
        error = distances_of_row(graph, made.features[a:b], made.values[a:b], made.norms[i], scratch.record, table, out)
        assert error == errors[i], "a row has the same error as a probe and as a code"
        assert not table[:-2].any()
        by_node = np.empty(len(rows), np.int64)
        distances(graph, i, table, by_node)
        np.testing.assert_array_equal(out, by_node)
        for j, right in enumerate(rows):
            assert step * out[j] - float(errors[i]) - float(errors[j]) <= shape_distance(left, right) + 1e-9


@given(row=SPARSE_ROWS, step=st.floats(1e-6, 0.3))
def test_codes_are_the_rows_rounded(row: dict[int, float], step: float) -> None:
    """Of a row without collisions: one entry for each weight that does not round to nothing, the nearest there is, and its error."""
    weights = {feature: value / sum(map(abs, row.values())) for feature, value in row.items()}
    made = canonical([row])
    codes, errors = packed(step).encode(made)
    quads = codes.data
    entries = {int(word) & 0xFFFF: int(word) >> 16 for word in quads.reshape(-1)[2:] if word}
    expected: dict[int, int] = {}
    off = 0.0
    for feature, value in weights.items():
        own = min(round(abs(value) / step), 65_535)
        where = int(slot(np.uint64(feature), value < 0))
        assume(where not in expected)
        expected[where] = own
        off += abs(abs(value) - step * own)
    # A weight in the middle between two steps may go either way.
    assert entries.keys() <= expected.keys()
    assert all(abs(entries.get(where, 0) - own) <= 1 for where, own in expected.items())
    assert quads[0, 0] == len(quads)
    assert quads[0, 1] == sum(entries.values())
    assert off - 2 * step <= errors[0] <= off * (1 + 1e-5) + 2 * step + 1e-8


def test_weights_are_cut_off_where_sixteen_bits_end() -> None:
    """A weight that is more than 65,535 steps, alone or with others of its slot, is that many, and the rest counts as error."""
    made = canonical([{COLLIDING[0]: 3.0, COLLIDING[1]: 2.0, 2: 1.0}, {5: 1.0}])
    codes, errors = packed(1e-5).encode(made)
    first, second = codes.data[: codes.starts[1]].reshape(-1), codes.data[codes.starts[1] :].reshape(-1)
    assert sorted(int(word) >> 16 for word in first[2:] if word) == [16_667, 65_535]
    assert first[1] == 16_667 + 65_535
    assert int(second[2]) >> 16 == second[1] == 65_535
    np.testing.assert_allclose(errors, [5 / 6 - 0.65535, 1 - 0.65535], atol=1e-4)


def test_the_step_is_that_of_the_largest_weight() -> None:
    """The chosen step makes of the largest weight 65,535 and keeps the nearest rows nearest; sums fit 32 bits for any rows."""
    rng = np.random.default_rng(0)
    rows = canonical([{int(feature): float(value) for feature, value in zip(rng.permutation(400)[:30], rng.random(30) + 0.1, strict=True)}
                      for _ in range(40)])  # fmt: skip
    coder = packed_coder(rows, rows, 20)
    codes, errors = coder.encode(rows)
    assert coder.width == 0
    assert int((codes.data.reshape(-1) >> 16).max()) == 65_535
    assert errors.max() < 1e-4
    tiny = Rows(np.array([0, 50_000]), np.arange(50_000, dtype=np.uint64), np.full(50_000, 1e-12, np.float32), np.array([1.0]))
    assert packed_coder(tiny, tiny, 1).step == 2.0**-31


# ------------------------------------------------------------------------------------------- unit rows


def unsigned(row: dict[int, float]) -> dict[int, float]:
    """The same without signs."""
    return {feature: abs(value) for feature, value in row.items()}


def assert_units_bound(rows: list[dict[int, float]], coder: Coder) -> None:
    """Of every pair, as nodes and with a row as the probe: the codes' distance in L2 less both errors is not above the rows'."""
    assert coder.projection is not None
    made, roots = canonical(rows), coder.projection.roots
    codes, errors = coder.encode(made)
    keep: list[object] = []
    graph = Graph.empty(codes, np.ones(len(rows), np.float32), coder.step, True, units=True).record(keep)
    GRAPH.fill(graph, **coder.fields())
    scratch, table = Scratch(wide=False), np.zeros(TABLE_WORDS, np.uint16)
    for i, left in enumerate(rows):
        a, b = made.indptr[i], made.indptr[i + 1]
        out, by_node, apart = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), np.empty(len(rows))
        error = distances_of_row(graph, made.features[a:b], made.values[a:b], made.norms[i], scratch.record, table, out)
        assert error == errors[i], "a row has the same error as a probe and as a code"
        assert not table[:-2].any()
        distances(graph, i, table, by_node)
        np.testing.assert_array_equal(out, by_node)
        assert out[i] == 0
        lengths(graph, table, out, apart)
        np.testing.assert_allclose(apart, coder.step * np.sqrt(out), rtol=1e-12)
        for j, right in enumerate(rows):
            assert apart[j] - float(errors[i]) - float(errors[j]) <= unit_distance(left, right, roots=roots) + 1e-9


@given(rows=st.lists(SPARSE_ROWS | COLLIDING_ROWS, min_size=2, max_size=4), step=st.floats(UNIT_STEP, 0.3), roots=st.booleans())
def test_distances_of_unit_rows_are_lower_bounds(rows: list[dict[int, float]], step: float, roots: bool) -> None:
    """However coarse the step, where features share a slot, and of signs that differ (where there are some: roots have none)."""
    assert_units_bound([unsigned(row) for row in rows] if roots else rows, packed_units(roots=roots, step=step))


@pytest.mark.parametrize("roots", [False, True])
def test_many_small_weights_of_one_slot_are_accounted_for(roots: bool) -> None:
    """Weights that are far below a step, alone or many in one slot, first and after a large one."""
    small, many = 1e-7, sharing_slots(8)
    tiny = {feature: small * (1 + feature % 3) for feature in many}
    rows = [
        {**tiny, 3: 1.0}, {many[0]: 1.0, **dict.fromkeys(many[1:], small)}, {**dict.fromkeys(many[:-1], small), many[-1]: 1.0},
        dict.fromkeys(many, 1.0), {many[0]: 1.0, many[1]: -1.0}, {3: 1.0},
    ]  # fmt: skip
    rows = [unsigned(row) for row in rows] if roots else rows
    for step in (UNIT_STEP, 1e-3, 0.2):
        assert_units_bound(rows, packed_units(roots=roots, step=step))


@pytest.mark.parametrize("roots", [False, True])
def test_unit_codes_are_close(roots: bool, rng: np.random.Generator) -> None:
    """At the step that is used, codes of text are as far apart as their rows, but for 1e-3; errors are as small."""
    rows = [{int(f): float(v) for f, v in zip(rng.permutation(3_000)[:100], rng.gamma(1, size=100) + 0.01, strict=True)} for _ in range(30)]
    coder = packed_unit_coder(canonical(rows), 30, roots=roots)
    assert (coder.step, coder.geometry) == (UNIT_STEP, "L2 of unit roots" if roots else "L2 of unit rows")
    codes, errors = coder.encode(canonical(rows))
    assert errors.max() < 5e-4
    keep: list[object] = []
    graph = Graph.empty(codes, np.ones(30, np.float32), coder.step, True, units=True).record(keep)
    table, out = np.zeros(TABLE_WORDS, np.uint16), np.empty(30, np.int64)
    apart = []
    for i, left in enumerate(rows):
        distances(graph, i, table, out)
        # Of features that share a slot codes may come nearer by more; of 100 of 3,000 hardly any do.
        apart += [unit_distance(left, right, roots=roots) - UNIT_STEP * out[j] ** 0.5 for j, right in enumerate(rows)]
    assert min(apart) > -1e-3
    assert np.quantile(apart, 0.9) < 1e-3


def test_unit_rows_come_out_of_their_codes() -> None:
    """Read by hand, as FORMAT.md says: entries are the lengths of what is in a slot, in steps; the sum is that of their squares."""
    for roots in (False, True):
        row = {COLLIDING[0]: 3.0, COLLIDING[1]: 4.0, 3: 12.0 if roots else -12.0}
        codes, _ = packed_units(roots=roots).encode(canonical([row]))
        words = codes.data.reshape(-1)
        weights = {int(word) & 0xFFFF: int(word) >> 16 for word in words[2:] if word}
        own = unit(row, roots=roots)
        expected = {
            int(slot(np.uint64(3), not roots)): abs(own[3]),
            int(slot(np.uint64(COLLIDING[0]), False)): math.hypot(own[COLLIDING[0]], own[COLLIDING[1]]),
        }
        assert {where: weight * UNIT_STEP for where, weight in weights.items()} == pytest.approx(expected, abs=2 * UNIT_STEP)
        assert words[1] == sum(weight**2 for weight in weights.values())


def test_sums_of_the_longest_rows_fit() -> None:
    """A row of 60,000 equal weights, which are far below a step each, next to one of a single weight: squares do not wrap around."""
    long = {7 * n: 1.0 for n in range(60_000)}
    assert_units_bound([long, {1: 1.0}, {7: 1.0}], packed_units(roots=False))


def test_near_nodes_of_unit_rows_are_told_by_length() -> None:
    """`near_eight` compares lengths, as everything else does, and not their squares."""
    rows = [{1: 1.0, 2: 0.2 * n} for n in range(8)]
    coder = packed_units(roots=False)
    codes, errors = coder.encode(canonical(rows))
    keep: list[object] = []
    graph = Graph.empty(codes, np.ones(8, np.float32), coder.step, True, units=True).record(keep)
    GRAPH.fill(graph, errors=errors)
    for reach in (0.05, 0.3, 0.6, 2.0):
        near = int(nearness(graph, 0, reach, np.zeros(TABLE_WORDS, np.uint16)))
        assert [bool(near >> n & 1) for n in range(8)] == [unit_distance(rows[0], row, roots=False) < reach for row in rows]


# ----------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("form", [Codes.of_bytes, as_entries])
def test_codes_taken_apart_and_put_together(form: Any, rng: np.random.Generator) -> None:
    """Codes that are taken, joined, scattered, or stored in blocks and read back, are the codes."""
    codes = some_codes(300)
    table = form(codes)
    assert len(table) == 300
    assert table.equals(form(codes))
    assert not table.equals(form(codes[:299]))
    assert not table.equals(form(some_codes(300, seed=1)))
    order = rng.permutation(300)
    assert table.take(order).equals(form(codes[order]))
    halves = [table.take(np.arange(0, 120)), table.take(np.arange(120, 120)), table.take(np.arange(120, 300))]
    assert Codes.joined(table.width, 300, iter(halves)).equals(table)
    parts = [(order[:100], form(codes[order[:100]])), (order[100:], form(codes[order[100:]]))]
    assert Codes.scattered(table.width, 300, lambda: parts).equals(table)
    assert Codes.joined(table.width, 300, (part for _, part in table.pieces())).equals(table)
    for size in (1, 1_000, 4_096, 10**9):
        shift, blocks, offsets = table.stored(size)
        assert len(blocks) == -(-300 >> shift)
        assert Codes.of_blocks(table.width, shift, blocks, offsets).equals(table)


def test_blocks_that_are_not_codes_are_refused() -> None:
    """Packed codes whose places do not follow each other are not read."""
    shift, blocks, offsets = as_entries(some_codes(100)).stored(4_096)
    for wrong in (offsets + 1, offsets[::-1].copy(), np.zeros_like(offsets)):
        with pytest.raises(ValueError, match="end to end"):
            Codes.of_blocks(0, shift, blocks, wrong)
    with pytest.raises(ValueError, match="end to end"):
        Codes.of_blocks(0, shift, [block * 0 for block in blocks], offsets)


def test_rows_come_out_of_their_codes() -> None:
    """Read by hand, as FORMAT.md says: entries are a row's weights, in steps, under the slots of its features."""
    row = {3: 2.0, 10**12: -1.0, 2**62: 5.0}
    step = 1 / 65_535
    codes, _ = packed(step).encode(canonical([row]))
    words = codes.data.reshape(-1)
    weights = {int(word) & 0xFFFF: (int(word) >> 16) * step for word in words[2:] if word}
    expected = {
        ((2 * feature + (value < 0)) * 0x9E3779B97F4A7C15 % 2**64) >> 48: abs(value) / 8 for feature, value in naive.row(row).items()
    }
    assert weights == pytest.approx(expected, abs=step)
