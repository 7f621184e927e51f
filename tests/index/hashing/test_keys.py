"""Keys of bands and the content hash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_hashing as naive
from hashing_rows import AWKWARD, lists_of, random_rows, rows_of
from kinbin.hashing import MAX_BANDS, MAX_ROWS, band_keys, content_hash


def random_codes(rng: np.random.Generator, count: int) -> NDArray[np.uint32]:
    """Codes (count, MAX_ROWS, MAX_BANDS) of uniform bits."""
    return rng.integers(0, 2**32, (count, MAX_ROWS, MAX_BANDS), np.uint32)


@pytest.mark.parametrize(("r", "bands"), [(1, 1), (1, 128), (4, 200), (8, 256)])
def test_keys_are_those_of_the_twin(r: int, bands: int, rng: np.random.Generator) -> None:
    """Keys of any r and L are the twin's, bit for bit, and are a prefix of those of more bands."""
    codes = random_codes(rng, 3)
    codes[0, :, :2] = 0
    codes[1, :, :2] = 2**32 - 1
    keys = band_keys(codes, r, bands)
    assert keys.shape == (3, bands)
    assert keys.dtype == np.uint32
    assert keys.flags.c_contiguous
    for i in range(3):
        assert keys[i].tolist() == [naive.band_key(codes[i, :r, j].tolist(), j) for j in range(bands)]
    np.testing.assert_array_equal(keys, band_keys(codes, r, MAX_BANDS)[:, :bands])


def test_keys_take_codes_as_they_come(rng: np.random.Generator) -> None:
    """Read-only, sliced and exactly fitting codes give the same keys; none give none."""
    codes = random_codes(rng, 5)
    keys = band_keys(codes, 3, 100)
    frozen = codes.copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(band_keys(frozen, 3, 100), keys)
    np.testing.assert_array_equal(band_keys(codes[:, :3, :100], 3, 100), keys)
    np.testing.assert_array_equal(band_keys(codes[::2], 3, 100), keys[::2])
    assert band_keys(codes[:0], 3, 100).shape == (0, 100)


def test_keys_depend_on_every_code_its_place_and_the_band(rng: np.random.Generator) -> None:
    """Changing one code, swapping two, or moving them to another band changes the key; other bands stay."""
    codes = random_codes(rng, 1)
    keys = band_keys(codes, 4, MAX_BANDS)
    for x in range(4):
        for bit in range(32):
            other = codes.copy()
            other[0, x, 9] ^= np.uint32(1 << bit)
            changed = band_keys(other, 4, MAX_BANDS)
            assert np.flatnonzero(changed != keys).tolist() == [9]
    swapped = codes.copy()
    swapped[0, [1, 2]] = codes[0, [2, 1]]
    assert not np.any(band_keys(swapped, 4, MAX_BANDS) == keys)
    beyond = codes.copy()
    beyond[0, 4] += np.uint32(1)
    np.testing.assert_array_equal(band_keys(beyond, 4, MAX_BANDS), keys)
    same = np.full((1, MAX_ROWS, MAX_BANDS), 12345, np.uint32)
    assert np.unique(band_keys(same, 4, MAX_BANDS)).size == MAX_BANDS


@pytest.mark.parametrize("r", [1, 2, MAX_ROWS])
@pytest.mark.parametrize("shift", [16, 0])
def test_both_halves_of_a_key_are_spread_evenly(r: int, shift: int) -> None:
    """Over 400,000 counted codes the top (and the low) 16 bits fill 65,536 cells as chance would (chi-square, |z| < 5)."""
    count, cells = 400_000, 65_536
    codes = np.zeros((count, r, 1), np.uint32)
    codes[:, :, 0] = np.arange(count, dtype=np.uint32)[:, None] // np.arange(1, r + 1, dtype=np.uint32)
    halves = (band_keys(codes, r, 1)[:, 0] >> np.uint32(shift)) & np.uint32(0xFFFF)
    seen = np.bincount(halves, minlength=cells)
    chi_square = np.sum((seen - count / cells) ** 2) / (count / cells)
    assert abs(chi_square - (cells - 1)) / np.sqrt(2 * (cells - 1)) < 5


def test_wrong_codes_are_refused(rng: np.random.Generator) -> None:
    """Codes that are too few, flat, or of another type, and sizes out of range, are refused in words."""
    codes = random_codes(rng, 2)
    for bad in (codes[:, :3], codes[:, :, :99], codes[0], codes.astype(np.uint64)):
        with pytest.raises(ValueError, match="codes must be uint32 of shape"):
            band_keys(bad, 4, 100)  # type: ignore[arg-type]
    for r, bands in ((0, 1), (9, 1), (1, 0), (1, 257)):
        with pytest.raises(ValueError, match="must be 1 to"):
            band_keys(codes, r, bands)


def test_content_hashes_are_those_of_the_twin(rng: np.random.Generator) -> None:
    """Content hashes of awkward and random rows are the twin's, in any batch."""
    for rows in (rows_of(AWKWARD), random_rows(rng, 50, 40)):
        hashes = content_hash(rows)
        assert hashes.dtype == np.uint64
        assert hashes.tolist() == [naive.content_hash(row) for row in lists_of(rows)]
        assert content_hash(rows.slice(3, 4))[0] == hashes[3]


def test_only_equal_content_shares_a_hash(rng: np.random.Generator) -> None:
    """Any change of a sign, a last bit, a feature or a scale gives another hash; an equal row gives the same."""
    row = [(0, 1.0), (1, 2.0), (2, -2.0), (9, 0.5)]
    variants = [
        [(0, -1.0), *row[1:]],
        [(0, float(np.nextafter(np.float32(1), np.float32(2)))), *row[1:]],
        [*row[:3], (10, 0.5)],
        row[:3],
        [*row, (2**63 - 1, 1.0)],
        [(feature, 2 * value) for feature, value in row],
        [(0, 2.0), (1, 1.0), *row[2:]],
        [(feature + 1, value) for feature, value in row],
    ]
    hashes = content_hash(rows_of([row, row, *variants]))
    assert hashes[0] == hashes[1]
    assert np.unique(hashes).size == 1 + len(variants)
    rows = random_rows(rng, 2_000, 3, features=3)
    contents = {tuple(each) for each in lists_of(rows)}
    assert np.unique(content_hash(rows)).size == len(contents)


def test_the_content_hash_ignores_the_norm() -> None:
    """The hash is of the raw content: norms take no part."""
    rows = rows_of(AWKWARD)
    np.testing.assert_array_equal(content_hash(rows), content_hash(replace(rows, norms=rows.norms * 3)))
