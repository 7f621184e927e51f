"""Codes of real rows agree as often as the kernel says, and scatter no more than independent hashes do.

Hashes share the rows but not their random numbers: over (x, j) they are independent and alike. So every
test makes one number per hash (or per seed), averaged over all pairs, and asks how many standard errors
these numbers' mean is from what it should be. Nothing is assumed about the pairs, which share rows and
features. Seeds are fixed; the limit of 4.5 standard errors would be passed by chance once in 150,000 tests.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hashing_pairs import PAIRS, Loader, Pairs, load_rows, mean_and_error, minmax_of, scatter, spread_pairs
from hashing_rows import rows_of_csr
from kinbin.hashing import MAX_BANDS, MAX_ROWS, band_keys, certificate, make_sampler
from kinbin.rows.rows import Rows

pytestmark = pytest.mark.slow

LIMIT = 4.5

BUNDLED_SETS = ["photographs", "photograph words", "photograph contrasts", "digits", "digits signed"]
SCATTERED = [*BUNDLED_SETS, "mnist", "news20_counts"]
"""Of every kind of rows one: that hashes are independent is no matter of the data."""
DATA_SETS = [*BUNDLED_SETS, "cifar10_rgbhist512", "mnist", "news20_counts", "phoneme256", "letter signed", "vowel"]


def pairs_of(rows: Rows, normalise: bool = True) -> Pairs:
    """200 pairs whose kernel values are spread over all that occur."""
    return spread_pairs(rows, minmax_of(rows, normalise))


def codes_of(name: str, rows: Rows, seed: int, normalise: bool = True) -> NDArray[np.uint32]:
    """All codes that a sampler has for the rows."""
    return make_sampler(name, seed=seed, normalise=normalise, dim=None).codes(rows, MAX_ROWS, MAX_BANDS)


@pytest.mark.parametrize("name", DATA_SETS)
def test_dart_codes_agree_exactly_as_often_as_the_kernel_says(name: str, data_set: Loader) -> None:
    """The share of agreeing dart codes is the kernel: over all pairs, and over the nearest and the farthest."""
    pairs = pairs_of(load_rows(data_set, name))
    excess = pairs.agreement(codes_of("dart", pairs.rows, 11)) - pairs.similarity[:, None]
    for part in (slice(None), slice(0, PAIRS // 2), slice(PAIRS // 2, None)):
        mean, error = mean_and_error(excess[part].mean(axis=0))
        assert error < 0.01
        assert abs(mean) < LIMIT * error


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("name", DATA_SETS)
def test_gcws_codes_agree_as_often_as_the_kernel_says_and_a_little_more(name: str, normalise: bool, data_set: Loader) -> None:
    """The share of agreeing 0-bit codes is never below the kernel, and above it by less than 0.45 / nonzeros (1 / nonzeros if uneven)."""
    # Sums of contrasts differ by a factor of ten, and some cells make up most of a row: of its nonzeros only half count.
    most = 1.0 if (name, normalise) == ("photograph contrasts", False) else 0.45
    pairs = pairs_of(load_rows(data_set, name), normalise)
    excess = pairs.agreement(codes_of("gcws", pairs.rows, 12, normalise)) - pairs.similarity[:, None]
    for part in (slice(None), slice(0, PAIRS // 2), slice(PAIRS // 2, None)):
        mean, error = mean_and_error(excess[part].mean(axis=0))
        assert error < 0.01
        assert -LIMIT * error < mean < (most / pairs.nonzeros[part]).mean() + LIMIT * error


@pytest.mark.parametrize("sampler", ["gcws", "dart"])
@pytest.mark.parametrize("name", SCATTERED)
def test_estimates_scatter_like_independent_hashes(name: str, sampler: str, data_set: Loader) -> None:
    """Estimates from k = 64 hashes have variance J(1-J)/k, whether the 64 lie along j, along x, or far apart (8 seeds)."""
    pairs = pairs_of(load_rows(data_set, name))
    agree = np.stack([pairs.agreement(codes_of(sampler, pairs.rows, seed)) for seed in range(20, 28)], axis=1)
    for grouping, (mean, error) in scatter(agree).items():
        assert error < 0.05, grouping
        assert abs(mean - 1) < LIMIT * error, grouping


@pytest.mark.parametrize("name", ["digits", "mnist"])
@pytest.mark.parametrize(("sampler", "slack"), [("dart", 0.0), ("gcws", 0.02)])
def test_shared_bands_keep_the_certificate(sampler: str, slack: float, name: str, data_set: Loader) -> None:
    """Over 60 seeds, the share of pairs with at least c of L = 64 equal keys is the certificate (0-bit: or more)."""
    pairs = pairs_of(load_rows(data_set, name))
    r, bands, seeds = 2, 64, 60
    counts = np.empty((seeds, PAIRS))
    for seed in range(seeds):
        codes = make_sampler(sampler, seed=1_000 + seed, normalise=True, dim=None).codes(pairs.rows, r, bands)
        keys = band_keys(codes, r, bands)
        counts[seed] = np.count_nonzero(keys[pairs.left] == keys[pairs.right], axis=1)
    for c in (1, 2, 4, 8, 16):
        promised = np.array([certificate(similarity, r, bands, c) for similarity in pairs.similarity])
        mean, error = mean_and_error(((counts >= c) - promised).mean(axis=1))
        assert error < 0.01
        assert -LIMIT * error < mean < slack + LIMIT * error


@pytest.mark.parametrize("name", ["photograph words", "news20_counts"])
@pytest.mark.parametrize("sampler", ["gcws", "dart"])
def test_different_codes_share_short_keys_by_chance_only(sampler: str, name: str, data_set: Loader) -> None:
    """Of the different codes of a band, as many pairs share the top 16 bits of their keys as chance gives: 2**-16."""
    arrays = data_set(name)
    rows = rows_of_csr(arrays["train_data"], arrays["train_indices"], arrays["train_indptr"], range(0, 11_000, 8))
    codes = make_sampler(sampler, seed=14, normalise=True, dim=None).codes(rows, 1, MAX_BANDS)
    top = band_keys(codes, 1, MAX_BANDS) >> np.uint32(16)
    shared = expected = 0.0
    for j in range(MAX_BANDS):
        _, first = np.unique(codes[:, 0, j], return_index=True)
        same_top = np.unique(top[first, j], return_counts=True)[1]
        shared += float((same_top * (same_top - 1) / 2).sum())
        expected += first.size * (first.size - 1) / 2 / 2**16
    assert expected > 50
    assert abs(shared - expected) < LIMIT * np.sqrt(expected)
