"""Codes of the cosine's samplers agree on real rows as often as their laws say, and scatter like independent hashes.

The method is that of test_statistics: one number per hash or seed, averaged over all pairs, and standard errors over them.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hashing_pairs import PAIRS, Loader, Pairs, chi2_of, cosine_of, load_rows, mean_and_error, minmax_of, scatter, spread_pairs
from hashing_rows import rows_of
from kinbin.hashing import MAX_BANDS, MAX_ROWS, band_keys, cauchy_estimate, certificate, make_sampler
from naive_laws import argmax_laws, sign_law

LIMIT = 4.5

BUNDLED_SETS = ["photographs", "photograph contrasts", "digits", "digits signed"]
DATA_SETS = [*BUNDLED_SETS, "mnist", "cifar10_rgbhist512", "news20_counts", "letter signed"]
HISTOGRAMS = ["photographs", "photograph words", "digits", "mnist", "cifar10_rgbhist512", "news20_counts"]


def law_of(sampler: str, rhos: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exact probability that codes of a sampler agree, by cosine."""
    return argmax_laws(rhos) if sampler == "argmax" else np.array([sign_law(float(rho)) for rho in rhos])


def agreement(sampler: str, pairs: Pairs, seed: int) -> NDArray[np.bool_]:
    """Which of all codes of a sampler agree: (pairs, hashes)."""
    return pairs.agreement(make_sampler(sampler, seed=seed, normalise=True).codes(pairs.rows, MAX_ROWS, MAX_BANDS))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["argmax", "sign"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_codes_agree_as_often_as_the_law_says(name: str, sampler: str, data_set: Loader) -> None:
    """The share of agreeing codes is the law of the cosine: over all pairs, and over the nearest and the farthest."""
    rows = load_rows(data_set, name)
    pairs = spread_pairs(rows, cosine_of(rows))
    excess = agreement(sampler, pairs, 31) - law_of(sampler, pairs.similarity)[:, None]
    for part in (slice(None), slice(0, PAIRS // 2), slice(PAIRS // 2, None)):
        mean, error = mean_and_error(excess[part].mean(axis=0))
        assert error < 0.015
        assert abs(mean) < LIMIT * error


@pytest.mark.parametrize("sampler", ["argmax", "sign"])
@pytest.mark.parametrize("cosine", [0.0, 0.8, 0.98])
def test_rows_of_two_features_keep_the_law(sampler: str, cosine: float) -> None:
    """In a plane, where no sum hides the shape of a single random number, 400,000 codes agree as often as the law says."""
    angle = np.float64(np.arccos(cosine))
    turns = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    both = np.stack([turns, turns + angle], axis=1).reshape(-1)
    values = np.stack([np.cos(both), np.sin(both)], axis=1).astype(np.float32)
    rows = rows_of([[(0, float(x)), (1, float(y))] for x, y in values])
    pairs = Pairs(rows, np.arange(0, 80, 2), np.arange(1, 80, 2), np.full(40, cosine), np.full(40, 2))
    agree = np.concatenate([agreement(sampler, pairs, seed) for seed in range(5)], axis=1)
    mean, error = mean_and_error((agree - law_of(sampler, pairs.similarity)[:, None]).mean(axis=0))
    assert error < 0.004
    # signs at a right angle agree in half of the 20 directions whatever is drawn: no error at all
    assert abs(mean) <= LIMIT * error + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["argmax", "sign", "cauchy", "gcws_sign", "dart_sign"])
@pytest.mark.parametrize("name", ["photographs", "digits signed", "mnist", "letter signed"])
def test_estimates_scatter_like_independent_hashes(name: str, sampler: str, data_set: Loader) -> None:
    """Estimates from k = 64 hashes have variance p(1-p)/k, whether the 64 lie along j, along x, or far apart (8 seeds)."""
    rows = load_rows(data_set, name)
    pairs = spread_pairs(rows, cosine_of(rows))
    agree = np.stack([agreement(sampler, pairs, seed) for seed in range(40, 48)], axis=1)
    for grouping, (mean, error) in scatter(agree).items():
        assert error < 0.05, grouping
        assert abs(mean - 1) < LIMIT * error, grouping


@pytest.mark.parametrize(("sampler", "r"), [("argmax", 2), ("argmax", 3), ("sign", 8)])
@pytest.mark.parametrize("name", ["digits", "letter signed"])
def test_shared_bands_keep_the_certificate(name: str, sampler: str, r: int, data_set: Loader) -> None:
    """Over 60 seeds, the share of pairs with at least c of L = 64 equal keys is that of Binomial(L, law**r)."""
    rows = load_rows(data_set, name)
    pairs = spread_pairs(rows, cosine_of(rows))
    law = law_of(sampler, pairs.similarity)
    bands, seeds = 64, 60
    counts = np.empty((seeds, PAIRS))
    for seed in range(seeds):
        keys = band_keys(make_sampler(sampler, seed=2_000 + seed, normalise=False).codes(rows, r, bands), r, bands)
        counts[seed] = np.count_nonzero(keys[pairs.left] == keys[pairs.right], axis=1)
    for c in (1, 2, 4, 8, 16):
        promised = np.array([certificate(p, r, bands, c) for p in law])
        mean, error = mean_and_error(((counts >= c) - promised).mean(axis=1))
        assert error < 0.02
        assert abs(mean) < LIMIT * error


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gcws_sign", "dart_sign"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_combined_codes_agree_as_often_as_the_product(name: str, sampler: str, data_set: Loader) -> None:
    """The share of agreeing codes is J × (1 - acos(rho) / pi); with 0-bit GCWS a little more: at most 1 / nonzeros."""
    rows = load_rows(data_set, name)
    cosine = cosine_of(rows)
    pairs = spread_pairs(rows, minmax_of(rows, True))
    signs = np.array([sign_law(float(rho)) for rho in cosine[pairs.left, pairs.right]])
    most = 1.0 / pairs.nonzeros if sampler == "gcws_sign" else np.zeros(PAIRS)
    excess = agreement(sampler, pairs, 51) - (pairs.similarity * signs)[:, None]
    for part in (slice(None), slice(0, PAIRS // 2), slice(PAIRS // 2, None)):
        mean, error = mean_and_error(excess[part].mean(axis=0))
        assert error < 0.015
        assert -LIMIT * error < mean < most[part].mean() + LIMIT * error


@pytest.mark.slow
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_cauchy_signs_agree_about_as_often_as_chi2_says(name: str, data_set: Loader) -> None:
    """The share of agreeing codes of histograms follows 1 - acos(chi2) / pi to 0.05, and orders pairs as chi2 does."""
    rows = load_rows(data_set, name)
    pairs = spread_pairs(rows, chi2_of(rows))
    share = np.mean([agreement("cauchy", pairs, seed).mean(axis=1) for seed in range(4)], axis=0)
    estimate = np.array([cauchy_estimate(value) for value in pairs.similarity])
    assert np.abs(share - estimate).max() < 0.05
    assert np.corrcoef(share, estimate)[0, 1] > 0.95
