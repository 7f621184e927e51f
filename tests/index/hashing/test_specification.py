"""HASHING.md, its plain twin and the library are one and the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_hashing as naive
from hashing_rows import AWKWARD, lists_of, random_rows, rows_of
from kinbin.hashing import (
    EXPECTED_DIGESTS,
    HASH_VERSION,
    MAX_BANDS,
    MAX_ROWS,
    SAMPLERS,
    arithmetic,
    band_keys,
    content_hash,
    make_sampler,
    sampler_digest,
)
from kinbin.hashing.golden import golden_rows
from kinbin.native.jit import strict

PAGE = (Path(__file__).resolve().parents[3] / "index" / "HASHING.md").read_text(encoding="utf-8")


def vectors() -> dict[str, Any]:
    """The test vectors of HASHING.md, section 7; those of section 13: test_projections.py."""
    block, _ = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, Any] = json.loads(block)
    return found


VECTORS = vectors()
SEED = int(VECTORS["seed"], 16)
LEAST, MOST = naive.float32(1e-30), naive.float32(1e15)


def integers(values: list[str]) -> list[int]:
    """Hexadecimal strings as integers."""
    return [int(value, 16) for value in values]


def vector_row(vector: dict[str, Any]) -> naive.Row:
    """The row of a vector."""
    return [(int(feature, 16), float.fromhex(value)) for feature, value in vector["row"]]


NAIVE_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mix64": lambda of: hex(naive.mix64(int(of, 16))),
    "domain_key": lambda of: hex(naive.domain_key(int(of[0], 16), of[1], of[2])),
    "unit": lambda of: naive.unit(int(of, 16)).hex(),
    "ordered_log": lambda of: naive.ordered_log(float.fromhex(of)).hex(),
    "neglog32": lambda of: naive.neglog32(int(of, 16)).hex(),
    "gcws_parameters": lambda of: [p.hex() for p in naive.gcws_parameters(int(of[0], 16), int(of[1], 16), of[2], of[3])],
}


@strict
def mix64(z):  # type: ignore[no-untyped-def]
    """These five are inlined into kernels: only kernels can call them."""
    return arithmetic.mix64(z)


@strict
def domain_key(seed, domain, number):  # type: ignore[no-untyped-def]
    """As in kernels."""
    return arithmetic.domain_key(seed, domain, number)


@strict
def unit(h):  # type: ignore[no-untyped-def]
    """As in kernels."""
    return arithmetic.unit(h)


@strict
def ordered_log(x):  # type: ignore[no-untyped-def]
    """As in kernels."""
    return arithmetic.ordered_log(x)


@strict
def neglog32(h):  # type: ignore[no-untyped-def]
    """As in kernels."""
    return arithmetic.neglog32(h)


LIBRARY_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mix64": lambda of: hex(mix64(np.uint64(int(of, 16)))),
    "domain_key": lambda of: hex(domain_key(np.uint64(int(of[0], 16)), np.uint64(of[1]), np.uint64(of[2]))),
    "unit": lambda of: float(unit(np.uint64(int(of, 16)))).hex(),
    "ordered_log": lambda of: float(ordered_log(float.fromhex(of))).hex(),
    "neglog32": lambda of: float(neglog32(np.uint64(int(of, 16)))).hex(),
}


@pytest.mark.parametrize("vector", VECTORS["functions"], ids=lambda v: f"{v['function']}({v['of']})")
def test_functions_have_the_values_of_the_page(vector: dict[str, Any]) -> None:
    """Every function of section 1 and the GCWS parameters give the page's bits, in the twin and in the library."""
    assert NAIVE_FUNCTIONS[vector["function"]](vector["of"]) == vector["is"]
    if vector["function"] in LIBRARY_FUNCTIONS:
        assert LIBRARY_FUNCTIONS[vector["function"]](vector["of"]) == vector["is"]


@pytest.mark.parametrize("vector", VECTORS["rows"], ids=lambda v: f"{len(v['row'])} nonzeros")
def test_the_twin_has_the_codes_of_the_page(vector: dict[str, Any]) -> None:
    """The plain twin gives the page's norm, codes, key and content hash of every row."""
    row, places = vector_row(vector), vector["places"]
    assert naive.norm(row).hex() == vector["norm"]
    assert [naive.gcws_code(row, True, SEED, x, j) for x, j in places] == integers(vector["gcws_normalised"])
    assert [naive.gcws_code(row, False, SEED, x, j) for x, j in places] == integers(vector["gcws"])
    assert [naive.dart_code(row, SEED, x, j) for x, j in places] == integers(vector["dart"])
    codes = [naive.gcws_code(row, True, SEED, x, 200) for x in range(4)]
    assert hex(naive.band_key(codes, 200)) == vector["key_r4_band200"]
    assert hex(naive.content_hash(row)) == vector["content"]


@pytest.mark.parametrize("vector", VECTORS["rows"], ids=lambda v: f"{len(v['row'])} nonzeros")
def test_the_library_has_the_codes_of_the_page(vector: dict[str, Any]) -> None:
    """The library gives the page's codes, key and content hash of every row."""
    rows, places = rows_of([vector_row(vector)]), vector["places"]
    x, j = np.array(places).T
    for key, name, normalise in (("gcws_normalised", "gcws", True), ("gcws", "gcws", False), ("dart", "dart", True)):
        codes = make_sampler(name, seed=SEED, normalise=normalise, dim=None).codes(rows, MAX_ROWS, MAX_BANDS)
        assert codes[0, x, j].tolist() == integers(vector[key])
        if key == "gcws_normalised":
            assert hex(band_keys(codes, 4, MAX_BANDS)[0, 200]) == vector["key_r4_band200"]
    assert hex(content_hash(rows)[0]) == vector["content"]


def test_the_digest_guards_the_rows_of_the_page() -> None:
    """Digests are computed from the page's rows, are the committed ones and those that the page prints, one a sampler."""
    assert lists_of(golden_rows()) == [vector_row(vector) for vector in VECTORS["rows"]]
    for name in SAMPLERS:
        assert sampler_digest(name) == EXPECTED_DIGESTS[name]
        assert f"| `{name}` | `{EXPECTED_DIGESTS[name].hex()}` |" in PAGE
    assert f"digests of version {HASH_VERSION}" in PAGE


def assert_like_the_twin(rows: list[naive.Row], seed: int, places: list[tuple[int, int]]) -> None:
    """Compare the library's codes of all rows at some (x, j) with the twin's."""
    canonical = rows_of(rows)
    for normalise in (True, False):
        codes = make_sampler("gcws", seed=seed, normalise=normalise, dim=None).codes(canonical, MAX_ROWS, MAX_BANDS)
        for i, row in enumerate(rows):
            assert [int(codes[i, x, j]) for x, j in places] == [naive.gcws_code(row, normalise, seed, x, j) for x, j in places]
    codes = make_sampler("dart", seed=seed, normalise=True, dim=None).codes(canonical, MAX_ROWS, MAX_BANDS)
    for i, row in enumerate(rows):
        for x, block in sorted({(x, j // 128) for x, j in places}):
            assert codes[i, x, 128 * block : 128 * (block + 1)].tolist() == naive.dart_sketch(row, seed, x, block)


def test_awkward_rows_hash_like_the_twin() -> None:
    """One nonzero, huge beside tiny, ids near 2**63, ties and unroll edges give the twin's bits."""
    assert_like_the_twin(AWKWARD, 2**64 - 1, [(0, 0), (0, 255), (1, 128), (7, 17)])


def test_random_rows_hash_like_the_twin(rng: np.random.Generator) -> None:
    """Signed rows of up to 60 nonzeros over six orders of magnitude give the twin's bits."""
    rows = lists_of(random_rows(rng, 20, 60))
    assert_like_the_twin(rows, int(rng.integers(2**63)), [(0, 3), (2, 64), (5, 200)])


@given(
    st.dictionaries(
        st.integers(0, 2**63 - 1),
        st.floats(LEAST, MOST, width=32) | st.floats(-MOST, -LEAST, width=32),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 2**64 - 1),
)
def test_any_row_hashes_like_the_twin(weights: dict[int, float], seed: int) -> None:
    """Whatever the row and the seed, codes and content hash are the twin's."""
    row = sorted(weights.items())
    assert_like_the_twin([row], seed, [(0, 0), (6, 131)])
    assert int(content_hash(rows_of([row]))[0]) == naive.content_hash(row)


@pytest.mark.slow
def test_a_row_of_100000_nonzeros_hashes_like_the_twin(rng: np.random.Generator) -> None:
    """A row that spans many chunks and more features than a small table holds gives the twin's bits."""
    weights = rng.exponential(size=100_000).astype(np.float32)
    row = [(7 * feature, float(weight)) for feature, weight in enumerate(weights) if weight > 0]
    rows = rows_of([row])
    gcws = make_sampler("gcws", seed=5, normalise=True, dim=None, table_bytes=2**20).codes(rows, 1, 3)
    assert int(gcws[0, 0, 2]) == naive.gcws_code(row, True, 5, 0, 2)
    dart = make_sampler("dart", seed=5, normalise=True, dim=None).codes(rows, 1, 128)
    assert dart[0, 0].tolist() == naive.dart_sketch(row, 5, 0, 0)


def test_logarithms_are_accurate(rng: np.random.Generator) -> None:
    """Both logarithms agree with the C library's to 1e-12, over their whole range."""
    for x in [*(10.0 ** rng.uniform(-100, 20, 500)), 1.0, 2.0**-106, 1.0 - 2.0**-53]:
        assert float(ordered_log(x)) == pytest.approx(np.log(x), rel=1e-13, abs=1e-15)
    for h in [0, 1, 2**32 - 1, *rng.integers(0, 2**32, 500).tolist()]:
        assert float(neglog32(np.uint64(h))) == pytest.approx(-np.log1p((h + 0.5 - 2.0**32) / 2.0**32), rel=1e-11)
