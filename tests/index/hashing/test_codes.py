"""A code is a function of (seed, x, j) and the row: nothing else of how it was asked for shows."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin.hashing
from hashing_rows import AWKWARD, random_rows, rows_of
from kinbin.hashing import (
    MAX_BANDS,
    MAX_ROWS,
    SAMPLERS,
    Sampler,
    _gcws_table,
    _parameters,
    default_sampler,
    gcws,
    make_sampler,
    projections,
)
from kinbin.hashing.gcws import _race
from kinbin.native.jit import strict
from kinbin.rows.rows import Rows

pytestmark = pytest.mark.slow

WIDE_CODES = ["gcws", "dart", "gcws_sign", "dart_sign"]
"""Samplers whose codes have 32 bits."""

SLOT_BYTES = {"gcws": 12, "argmax": 16 * 4, "sign": 4, "cauchy": 4, "gcws_sign": 12 + 4}
"""Of the samplers with parameters: the bytes that a (split) feature has for one code."""

TINY_TABLE = 1
"""Bytes that hold nothing: the table keeps its least size, 16 slots."""


def sampler(name: str, seed: int = 7, table_bytes: int = 2**28) -> Sampler:
    """A sampler of normalised rows over unbounded features."""
    return make_sampler(name, seed=seed, normalise=True, dim=None, table_bytes=table_bytes)


def poison_tables(patch: pytest.MonkeyPatch) -> None:
    """New tables hold a value that spoils every code, where memory might by chance hold an old table's parameters."""
    allocate = _parameters._aligned

    def poisoned(*shape: int) -> NDArray[np.float32]:
        table = allocate(*shape)
        table.fill(-1.0)
        return table

    patch.setattr(_parameters, "_aligned", poisoned)


@pytest.fixture(autouse=True)
def _poisoned_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    poison_tables(monkeypatch)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """150 signed rows of 1-80 nonzeros over 500 features."""
    return random_rows(np.random.default_rng(3), 150, 80, features=500)


@pytest.fixture(scope="module")
def expected(rows: Rows) -> dict[str, NDArray[np.uint32]]:
    """All codes of the rows by sampler name, hashed in one batch."""
    return {name: sampler(name).codes(rows, MAX_ROWS, MAX_BANDS) for name in SAMPLERS}


@pytest.fixture(scope="module")
def used(rows: Rows, expected: dict[str, NDArray[np.uint32]]) -> dict[str, Sampler]:
    """Samplers that have made all codes of the rows."""
    made = {name: sampler(name) for name in expected}
    with pytest.MonkeyPatch.context() as patch:
        poison_tables(patch)
        for one in made.values():
            one.codes(rows, MAX_ROWS, MAX_BANDS)
    return made


@pytest.mark.parametrize("name", SAMPLERS)
def test_codes_are_contiguous_and_of_the_promised_shape(name: str, rows: Rows) -> None:
    """Codes are uint32 (n, r, bands), C-contiguous, also of no rows."""
    for count in (0, 1, 5):
        codes = sampler(name).codes(rows.slice(0, count), 3, 70)
        assert codes.shape == (count, 3, 70)
        assert codes.dtype == np.uint32
        assert codes.flags.c_contiguous


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("r", "bands"), [(1, 1), (1, 128), (2, 127), (4, 129), (6, 200), (8, 255), (1, 256)])
def test_fewer_rows_and_bands_give_a_prefix(
    name: str, r: int, bands: int, rows: Rows, expected: dict[str, NDArray[np.uint32]], used: dict[str, Sampler]
) -> None:
    """Asking for fewer r or bands gives the same codes, from a fresh sampler and from one that made more."""
    for each in (sampler(name), used[name]):
        np.testing.assert_array_equal(each.codes(rows, r, bands), expected[name][:, :r, :bands])


@pytest.mark.parametrize("name", ["gcws", "argmax"])
@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 128), (2, 100), (4, 128), (1, 256), (6, 200), (8, 256), (1, 1)],
        [(8, 16), (3, 256), (8, 256), (5, 100)],
        [(2, 256), (1, 256), (8, 1), (1, 128), (8, 256)],
    ],
)
def test_shapes_may_be_asked_for_in_any_order(
    name: str, shapes: list[tuple[int, int]], rows: Rows, expected: dict[str, NDArray[np.uint32]]
) -> None:
    """A table that grows in r, in bands, in both or not at all, and features met at a small r first, never show."""
    one = sampler(name)
    for r, bands in shapes:
        half = one.codes(rows.slice(0, 75), r, bands)
        np.testing.assert_array_equal(half, expected[name][:75, :r, :bands])
    for r, bands in reversed(shapes):
        np.testing.assert_array_equal(one.codes(rows, r, bands), expected[name][:, :r, :bands])
    np.testing.assert_array_equal(one.codes(rows, MAX_ROWS, MAX_BANDS), expected[name])


@pytest.mark.parametrize("name", SAMPLERS)
def test_single_rows_and_batches_agree(name: str, rows: Rows, expected: dict[str, NDArray[np.uint32]]) -> None:
    """Rows hashed one by one, or in odd batches, have the codes of the whole batch."""
    one = sampler(name)
    for i in range(0, len(rows), 5):
        np.testing.assert_array_equal(one.codes(rows.slice(i, i + 1), MAX_ROWS, MAX_BANDS)[0], expected[name][i])
    for start, stop in pairwise((0, 1, 8, 8, 50, 109, 150)):
        np.testing.assert_array_equal(one.codes(rows.slice(start, stop), MAX_ROWS, MAX_BANDS), expected[name][start:stop])


@pytest.mark.parametrize("table_bytes", [TINY_TABLE, 2**19, 2**22])
@pytest.mark.parametrize("name", SLOT_BYTES)
def test_an_evicted_table_changes_nothing(name: str, table_bytes: int, rows: Rows, expected: dict[str, NDArray[np.uint32]]) -> None:
    """A table too small for one row, for ten rows or for the batch gives the same codes and keeps to its limit."""
    small = sampler(name, table_bytes=table_bytes)
    least = bytes_of_slots(name, 16)
    # two tables, each of which may have its least size where the other has its share
    most = table_bytes + least if name == "gcws_sign" else max(table_bytes, least)
    some = rows.slice(0, 120)
    assert len(np.unique(some.features)) > 450, "nearly all features are in these rows"
    for _ in range(2):
        np.testing.assert_array_equal(small.codes(some, MAX_ROWS, MAX_BANDS), expected[name][: len(some)])
        assert small.nbytes <= 1.01 * most
    assert sampler(name).nbytes < 2**17


def bytes_of_slots(name: str, slots: int) -> int:
    """What full slots of MAX_ROWS x MAX_BANDS weigh by the documented layout, with their look-up."""
    return slots * (MAX_ROWS * MAX_BANDS * SLOT_BYTES[name] + 80)


@pytest.mark.parametrize("name", ["gcws", "argmax", "sign", "cauchy"])
def test_parameters_are_kept_once_generated(name: str, rows: Rows) -> None:
    """Memory grows with the features seen, not with the calls, and stays within a bounded space's features."""
    one = sampler(name)
    one.codes(rows, 2, 64)
    memory = one.nbytes
    one.codes(rows, 2, 64)
    assert one.nbytes == memory
    few = make_sampler(name, seed=1, normalise=True, dim=10)
    few.codes(rows_of([[(feature, 1.0) for feature in range(10)]]), MAX_ROWS, MAX_BANDS)
    assert few.nbytes <= bytes_of_slots(name, 20 if name == "gcws" else 10)


def test_the_lock_is_never_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many nonzeros and new features a batch brings, one hold looks up and generates a bounded number."""
    held: list[int] = []
    generated: list[int] = []
    look_up = _gcws_table.resolve

    def counting(features: NDArray[np.uint64], values: NDArray[np.float32], r: int, table: tuple[NDArray[Any], ...], *others: Any) -> int:
        levels = table[2]
        before = int(levels.sum())
        done: int = look_up(features, values, r, table, *others)
        held.append(len(features))
        generated.append(int(levels.sum()) - before)
        return done

    monkeypatch.setattr(gcws, "resolve", counting)
    wide = rows_of([[(feature, 1.0) for feature in range(start, start + 5_000)] for start in (0, 3_000, 0, 2_000)])
    made = sampler("gcws").codes(wide, 3, 4)
    np.testing.assert_array_equal(made[0], made[2])
    assert max(held) <= _parameters.CHUNK < sum(held)
    assert sum(generated) == 3 * 8_000
    assert max(generated) <= gcws._BUDGET


def test_the_lock_of_projections_is_never_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many nonzeros and new features a batch brings, one hold generates a bounded number of random numbers."""
    generated: list[int] = []
    look_up = projections._resolve

    def counting(features: NDArray[np.uint64], r: int, table: tuple[NDArray[Any], ...], *others: Any) -> int:
        parameters, _, levels, *_ = table
        before = int(levels.sum())
        done: int = look_up(features, r, table, *others)
        generated.append((int(levels.sum()) - before) * parameters.shape[3])
        return done

    monkeypatch.setattr(projections, "_resolve", counting)
    wide = rows_of([[(feature, 1.0) for feature in range(start, start + 500)] for start in (0, 300, 0, 200)])
    made = sampler("argmax").codes(wide, 3, 64)
    np.testing.assert_array_equal(made[0], made[2])
    assert sum(generated) == 3 * 800 * 64 * 16
    assert max(generated) <= projections._BUDGET < sum(generated)


@pytest.mark.parametrize("name", SLOT_BYTES)
def test_features_beyond_the_stated_dim_are_hashed_all_the_same(name: str, rows: Rows, expected: dict[str, NDArray[np.uint32]]) -> None:
    """`dim` sizes the table, it is no part of the hash."""
    narrow = make_sampler(name, seed=7, normalise=True, dim=3)
    np.testing.assert_array_equal(narrow.codes(rows, MAX_ROWS, MAX_BANDS), expected[name])


@pytest.mark.parametrize("table_bytes", [TINY_TABLE, 2**21, 2**28])
@pytest.mark.parametrize("name", SAMPLERS)
def test_concurrent_callers_get_the_same_codes(name: str, table_bytes: int, rows: Rows, expected: dict[str, NDArray[np.uint32]]) -> None:
    """Eight threads on one cold sampler, with shapes that differ and tables that overflow, all get the right codes."""
    shared = sampler(name, table_bytes=table_bytes)
    rows = rows.slice(0, 20 if name == "argmax" else 60)
    shapes = [(8, 256), (1, 128), (4, 200), (2, 256)] * (2 if name == "argmax" else 3)

    def hash_all(shape: tuple[int, int]) -> bool:
        r, bands = shape
        return bool(np.array_equal(shared.codes(rows, r, bands), expected[name][: len(rows), :r, :bands]))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(hash_all, shapes))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("name", SAMPLERS)
def test_read_only_and_strided_rows_hash_alike_and_compile_nothing(name: str, rows: Rows, expected: dict[str, NDArray[np.uint32]]) -> None:
    """Arrays that are read-only (as from a memory map) or strided are taken, without another compiled kernel."""
    one = sampler(name)
    one.codes(rows, 1, 16)
    compiled = compiled_signatures()
    frozen = Rows(rows.indptr.copy(), rows.features.copy(), rows.values.copy(), rows.norms.copy())
    for array in (frozen.indptr, frozen.features, frozen.values, frozen.norms):
        array.setflags(write=False)
    strided = replace(frozen, features=np.repeat(rows.features, 2)[::2], values=np.repeat(rows.values, 2)[::2])
    for each in (frozen, strided):
        np.testing.assert_array_equal(one.codes(each, MAX_ROWS, MAX_BANDS), expected[name])
    assert compiled_signatures() == compiled


def kernels() -> dict[str, object]:
    """Every compiled function of the hashing layer by its full name."""
    found = {}
    for module_name, module in sys.modules.items():
        if module_name.startswith(kinbin.hashing.__name__ + "."):
            for value in vars(module).values():
                if hasattr(value, "targetoptions"):
                    found[f"{value.__module__}.{value.__name__}"] = value
    return found


def compiled_signatures() -> dict[str, int]:
    """How often each kernel was compiled."""
    return {name: len(kernel.signatures) for name, kernel in kernels().items()}  # type: ignore[attr-defined]


def test_every_kernel_is_strict_serial_and_releases_the_interpreter() -> None:
    """No kernel whose bits are stored may reorder arithmetic, run parallel loops or hold the interpreter."""
    assert len(kernels()) >= 15
    for name, kernel in kernels().items():
        options = kernel.targetoptions  # type: ignore[attr-defined]
        assert options.get("nogil") is True, name
        assert not options.get("fastmath"), name
        assert not options.get("parallel"), name


@strict
def raced(slots, logs, last, parameters, best, winners):  # type: ignore[no-untyped-def]
    """Let nonzeros race."""
    _race(slots, logs, last, parameters, 0, best, winners)


@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_the_first_nonzero_wins_a_tie(count: int) -> None:
    """Nonzeros of equal height keep the order of the row, inside a group of four and after it."""
    parameters = np.full((count, 1, 3, 16), 0.5, np.float32)
    best, winners = np.full(5, np.inf, np.float32), np.zeros(5, np.int32)
    logs = np.full(count, -1.0, np.float32)
    logs[0] = -2.0
    raced(np.arange(count, dtype=np.int32), logs, 3, parameters, best, winners)
    assert np.all(winners == 4)
    raced(np.arange(count, dtype=np.int32), logs, 100, parameters, best, winners)
    assert np.all(winners == 4)


@pytest.mark.parametrize("name", WIDE_CODES)
def test_seeds_and_signs_matter(name: str) -> None:
    """Another seed, or the other sign of a lone feature, gives codes that agree nowhere."""
    plus, minus = rows_of([[(5, 1.0)]]), rows_of([[(5, -1.0)]])
    codes = sampler(name, seed=1).codes(plus, MAX_ROWS, MAX_BANDS)
    assert not np.any(codes == sampler(name, seed=2).codes(plus, MAX_ROWS, MAX_BANDS))
    assert not np.any(codes == sampler(name, seed=1).codes(minus, MAX_ROWS, MAX_BANDS))


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_scaled_row_has_the_same_codes_when_normalised(name: str) -> None:
    """Normalised kernels do not see a row's scale (powers of two are exact in every step)."""
    rows = rows_of(AWKWARD[5:])
    scaled = replace(rows, values=rows.values * np.float32(0.125), norms=rows.norms * 0.125)
    one = sampler(name)
    np.testing.assert_array_equal(one.codes(rows, 4, 200), one.codes(scaled, 4, 200))


def test_gcws_without_normalising_sees_the_scale() -> None:
    """Kernels that do not normalise tell a row from its multiple."""
    one = make_sampler("gcws", seed=1, normalise=False, dim=None)
    rows = rows_of([[(0, 1.0), (1, 2.0)], [(0, 16.0), (1, 1.0)]])
    scaled = replace(rows, values=rows.values * np.float32(64), norms=rows.norms * 64)
    assert np.any(one.codes(rows, 8, 256)[1] != one.codes(rows, 8, 256)[0])
    np.testing.assert_array_equal(one.codes(rows, 1, 256), make_sampler("gcws", seed=1, normalise=False, dim=2).codes(rows, 1, 256))
    assert np.any(one.codes(rows, 8, 256) != one.codes(scaled, 8, 256))


@pytest.mark.parametrize("name", WIDE_CODES)
def test_every_bit_of_a_code_is_used(name: str) -> None:
    """Codes of 2,000 non-negative one-feature rows differ, and each of their 32 bits is set half the time (z < 5)."""
    rows = rows_of([[(feature, 1.0)] for feature in range(2_000)])
    codes = sampler(name).codes(rows, 2, 32)
    count = codes.size
    set_bits = np.array([np.count_nonzero(codes & np.uint32(1 << bit)) for bit in range(32)])
    assert np.max(np.abs(set_bits - count / 2) / np.sqrt(count / 4)) < 5
    assert all(np.unique(codes[:, x, j]).size >= 1_998 for x in range(2) for j in range(32))


def test_wrong_sizes_are_refused(rows: Rows) -> None:
    """r and bands outside their limits are refused in words."""
    for name in SAMPLERS:
        for r, bands in ((0, 1), (9, 1), (-1, 1), (1, 0), (1, 257)):
            with pytest.raises(ValueError, match="must be 1 to"):
                sampler(name).codes(rows, r, bands)


def test_dart_refuses_a_norm_that_is_not_the_sum(rows: Rows) -> None:
    """A row whose buckets can never be filled is refused by its number instead of looping for ever."""
    norms = rows.norms.copy()
    norms[4] *= 1e9
    with pytest.raises(ValueError, match="row 4: its norm is not the sum"):
        sampler("dart").codes(replace(rows, norms=norms), 1, 1)


def test_samplers_are_made_by_name() -> None:
    """make_sampler refuses unknown names, seeds out of range, and dart without normalising."""
    for name in SAMPLERS:
        made = make_sampler(name, seed=2**64 - 1, normalise=True, dim=4)
        assert (made.name, made.seed, made.normalise) == (name, 2**64 - 1, True)
    with pytest.raises(ValueError, match="no sampler is called 'minhash'"):
        make_sampler("minhash", seed=0, normalise=True, dim=None)
    for name in ("dart", "dart_sign"):
        with pytest.raises(ValueError, match="weights that sum to 1"):
            make_sampler(name, seed=0, normalise=False, dim=None)
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match="seed must be"):
            make_sampler("gcws", seed=seed, normalise=True, dim=None)


def test_the_default_sampler_is_gcws_while_its_parameters_are_small() -> None:
    """Kernels that do not normalise get gcws always; others get dart past 32 MiB of parameters and without a dim."""
    assert default_sampler(False, None) == default_sampler(False, 10**6) == "gcws"
    assert default_sampler(True, 784) == default_sampler(True, 1_165) == "gcws"
    assert default_sampler(True, 1_166) == default_sampler(True, None) == "dart"


def test_the_default_sampler_fits_the_law() -> None:
    """Every law has a default whose law it is; mm_acos takes that of its min-max part."""
    for law in set(SAMPLERS.values()):
        for normalised in (True, False):
            assert SAMPLERS[default_sampler(normalised, 100, law)] == law
    assert default_sampler(True, None, "mm_acos") == "dart_sign"
    assert default_sampler(True, 784, "mm_acos") == default_sampler(False, None, "mm_acos") == "gcws_sign"
