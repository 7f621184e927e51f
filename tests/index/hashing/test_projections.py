"""Projections: HASHING.md, its plain twin and the library are one and the same; the random numbers have their distributions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import naive_hashing as naive
from hashing_rows import AWKWARD, lists_of, random_rows, rows_of
from kinbin.hashing import MAX_BANDS, MAX_ROWS, band_keys, gaussian, make_sampler
from kinbin.hashing.gaussian import fill_cauchy, fill_gaussians
from kinbin.hashing.golden import golden_rows
from kinbin.hashing.projections import _read
from kinbin.native.jit import strict

PAGE = (Path(__file__).resolve().parents[3] / "index" / "HASHING.md").read_text(encoding="utf-8")
VECTORS: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
SEED = 0x123456789ABCDEF
LEAST, MOST = naive.float32(1e-30), naive.float32(1e15)

FAMILIES = ["argmax", "sign", "cauchy"]
COMBINED = {"gcws_sign": lambda row, seed, x, j: naive.gcws_code(row, True, seed, x, j), "dart_sign": naive.dart_code}


@strict
def gaussian_of(h):  # type: ignore[no-untyped-def]
    """Inlined into kernels: only kernels can call it."""
    return gaussian._gaussian(h)


@strict
def neglog_of(x):  # type: ignore[no-untyped-def]
    """As in kernels."""
    return gaussian._neglog(x)


def twin_code(name: str, row: naive.Row, seed: int, x: int, j: int) -> int:
    """The plain code of any sampler that is tested here."""
    if name in COMBINED:
        return naive.combined_code(COMBINED[name](row, seed, x, j), row, seed, x, j)
    return naive.projection_code(name, row, seed, x, j)


TWINS: dict[str, Callable[[Any], str]] = {
    "gaussian": lambda of: naive.gaussian(int(of, 16)).hex(),
    "neglog": lambda of: naive.neglog(float.fromhex(of)).hex(),
    "random_number": lambda of: naive.random_number(of[0], int(of[1], 16), int(of[2], 16), of[3], of[4]).hex(),
}
LIBRARY: dict[str, Callable[[Any], str]] = {
    "gaussian": lambda of: float(gaussian_of(np.uint64(int(of, 16)))).hex(),
    "neglog": lambda of: float(neglog_of(float.fromhex(of))).hex(),
}


@pytest.mark.parametrize("vector", VECTORS["functions"], ids=lambda v: f"{v['function']}({v['of']})")
def test_functions_have_the_values_of_the_page(vector: dict[str, Any]) -> None:
    """Every function of section 10 gives the page's bits, in the twin and in the library."""
    assert TWINS[vector["function"]](vector["of"]) == vector["is"]
    if vector["function"] in LIBRARY:
        assert LIBRARY[vector["function"]](vector["of"]) == vector["is"]


@pytest.mark.parametrize("name", [*FAMILIES, *COMBINED])
def test_codes_are_those_of_the_page(name: str) -> None:
    """The twin and the library give the page's codes of every row."""
    rows = golden_rows()
    codes = make_sampler(name, seed=SEED, normalise=True).codes(rows, MAX_ROWS, MAX_BANDS)
    for row, made, vector in zip(lists_of(rows), codes, VECTORS["rows"], strict=True):
        page = [code if isinstance(code, int) else int(code, 16) for code in vector[name]]
        assert [twin_code(name, row, SEED, x, j) for x, j in VECTORS["places"]] == page
        assert [int(made[x, j]) for x, j in VECTORS["places"]] == page


@pytest.mark.parametrize("family", FAMILIES)
def test_random_numbers_are_those_of_the_twin(family: str, rng: np.random.Generator) -> None:
    """2,000 numbers of a feature have the twin's bits: codes alone would seldom tell of a wrong last bit."""
    for feature in (0, 2**63 - 1, int(rng.integers(2**62))):
        key = naive.mix64(naive.domain_key(SEED, naive.PROJECTIONS[family][0], 5) ^ (feature * naive.GAMMA % 2**64))
        numbers = np.empty(2_000, np.float32)
        (fill_cauchy if family == "cauchy" else fill_gaussians)(np.uint64(key), numbers)
        assert numbers.tolist() == [naive.random_number(family, SEED, feature, 5, n) for n in range(2_000)]


def assert_like_the_twin(name: str, rows: list[naive.Row], seed: int, places: list[tuple[int, int]]) -> None:
    """Compare the library's codes of all rows at some (x, j) with the twin's."""
    codes = make_sampler(name, seed=seed, normalise=True).codes(rows_of(rows), MAX_ROWS, MAX_BANDS)
    for row, made in zip(rows, codes, strict=True):
        assert [int(made[x, j]) for x, j in places] == [twin_code(name, row, seed, x, j) for x, j in places]


@pytest.mark.parametrize("name", [*FAMILIES, *COMBINED])
def test_awkward_and_random_rows_hash_like_the_twin(name: str, rng: np.random.Generator) -> None:
    """One nonzero, huge beside tiny, ids near 2**63, unroll edges and rows over six orders of magnitude give the twin's bits."""
    assert_like_the_twin(name, AWKWARD, 2**64 - 1, [(0, 0), (1, 15), (1, 16), (7, 255)])
    assert_like_the_twin(name, lists_of(random_rows(rng, 10, 60)), int(rng.integers(2**63)), [(0, 3), (5, 200)])


@given(
    st.dictionaries(
        st.integers(0, 2**63 - 1),
        st.floats(LEAST, MOST, width=32) | st.floats(-MOST, -LEAST, width=32),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 2**64 - 1),
    st.sampled_from(FAMILIES),
)
def test_any_row_hashes_like_the_twin(weights: dict[int, float], seed: int, name: str) -> None:
    """Whatever the row and the seed, codes are the twin's."""
    row = sorted(weights.items())
    codes = make_sampler(name, seed=seed, normalise=False).codes(rows_of([row]), 3, 20)
    for x, j in ((0, 0), (2, 19)):
        assert int(codes[0, x, j]) == naive.projection_code(name, row, seed, x, j)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_longer_than_a_chunk_hashes_like_the_twin(name: str, rng: np.random.Generator) -> None:
    """A row that spans chunks and evictions, beside short ones, gives the twin's bits."""
    weights = rng.normal(size=20_000).astype(np.float32)
    row = [(7 * feature, float(weight)) for feature, weight in enumerate(weights) if weight]
    rows = rows_of([row[:3], row, row[:5]])
    codes = make_sampler(name, seed=5, normalise=True, table_bytes=2**20).codes(rows, 2, 3)
    for i, each in enumerate((row[:3], row, row[:5])):
        assert int(codes[i, 1, 2]) == naive.projection_code(name, each, 5, 1, 2)


def test_gaussians_are_quantiles(rng: np.random.Generator) -> None:
    """The quantile function agrees with SciPy's to 1e-8 of itself, from end to end, and is odd."""
    ends = np.arange(300)
    integers = np.concatenate([ends, 2**31 + ends - 150, rng.integers(0, 2**32, 20_000), 2**32 - 1 - ends])
    found = np.array([gaussian_of(np.uint64(h)) for h in integers])
    # below the middle, where the probability has all its bits
    lower = np.minimum(integers, 2**32 - 1 - integers)
    np.testing.assert_allclose(-np.abs(found), stats.norm.ppf((lower + 0.5) / 2**32), rtol=1e-8)
    np.testing.assert_array_equal(found < 0, integers < 2**31)


def test_random_numbers_have_their_distributions() -> None:
    """A million Gaussians and Cauchy numbers pass Kolmogorov's test, next ones and those of other keys are independent."""
    for fill, distribution in ((fill_gaussians, stats.norm), (fill_cauchy, stats.cauchy)):
        numbers = np.empty((1_000, 1_000), np.float32)
        for key in range(1_000):
            fill(np.uint64(naive.mix64(key + 1)), numbers[key])
        uniform = distribution.cdf(numbers.astype(np.float64))
        assert stats.kstest(uniform.ravel(), "uniform").pvalue > 1e-4
        for first, second in ((uniform[:, 1:], uniform[:, :-1]), (uniform[1:], uniform[:-1])):
            assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 4.5e-3


@strict
def read_off(sums, codes):  # type: ignore[no-untyped-def]
    """Read codes off sums."""
    _read(sums, codes)


def test_ties_and_zeros_have_a_result() -> None:
    """Of equal magnitudes the first component wins; zeros of either sign are positive."""
    sums = np.zeros(16 * 4)
    sums[16 + 3], sums[16 + 9] = -2.0, 2.0
    sums[32 + 15] = 1e-300
    sums[48:] = -0.0
    codes = np.full(4, 99, np.uint32)
    read_off(sums, codes)
    assert codes.tolist() == [0, 2 * 3 + 1, 2 * 15, 0]
    signs = np.full(4, 99, np.uint32)
    read_off(np.array([0.0, -0.0, -5e-324, 5e-324]), signs)
    assert signs.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_and_its_negative_differ_in_the_sign_alone(name: str, rng: np.random.Generator) -> None:
    """The codes of -v are those of v with the last bit turned: a cosine of -1 never collides."""
    rows = random_rows(rng, 20, 40)
    one = make_sampler(name, seed=3, normalise=False)
    turned = one.codes(replace(rows, values=-rows.values), MAX_ROWS, MAX_BANDS)
    np.testing.assert_array_equal(turned, one.codes(rows, MAX_ROWS, MAX_BANDS) ^ np.uint32(1))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_code_is_as_frequent(name: str) -> None:
    """Codes of 4,000 non-negative rows of one feature are spread evenly (chi-square, 1 in 10,000), and families differ."""
    rows = rows_of([[(feature, 1.0)] for feature in range(4_000)])
    codes = make_sampler(name, seed=3, normalise=False).codes(rows, 2, 8)
    counts = np.bincount(codes.ravel(), minlength=32 if name == "argmax" else 2)
    assert stats.chisquare(counts).pvalue > 1e-4
    if name != "argmax":
        other: NDArray[np.uint32] = make_sampler({"sign": "cauchy", "cauchy": "sign"}[name], seed=3, normalise=False).codes(rows, 2, 8)
        assert abs(np.mean(codes == other) - 0.5) < 4.5 * 0.5 / np.sqrt(codes.size)


def test_keys_of_small_codes_are_apart() -> None:
    """Keys of bands tell one-bit codes from each other: as many keys a band as there are codes, also in fresh bands of one hash."""
    rows = rows_of([[(feature, 1.0)] for feature in range(2_000)])
    codes = make_sampler("sign", seed=3, normalise=False).codes(rows, 8, 128)
    for r in (1, 3, 8):
        keys = band_keys(codes, r, 128)
        assert np.unique(keys[:, 0]).size == 2**r or r == 8
        together = (codes[:, :r, 5] * (1 << np.arange(r)[None])).sum(axis=1)
        assert np.unique(keys[:, 5]).size == np.unique(together).size
        assert np.unique(keys).size == sum(np.unique(keys[:, j]).size for j in range(128))
