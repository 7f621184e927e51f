"""Inner products of feature maps against the kernels they stand for: mean and variance over many seeds, on real rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import naive
from kinbin import InvalidInput
from kinbin.features import FourierFeatures, GCWSFeatures, NystroemFeatures, ProductFeatures, SignFeatures, pairwise
from kinbin.hashing import make_sampler
from kinbin.rows.canonical import canonical_rows

Loader = Callable[[str], dict[str, NDArray[Any]]]
SEEDS = 120
SIZE = 64
"""Samples or components of each map."""
FAR = 5.0
"""Standard errors that no mean may be off: one in two million is, of each pair."""


@pytest.fixture(scope="module")
def digits(data_set: Loader) -> NDArray[np.float64]:
    """Sixteen pictures of digits, 64 pixels each."""
    return data_set("digits")["X_train"][:16].astype(np.float64)


@pytest.fixture(scope="module")
def signed(data_set: Loader) -> NDArray[np.float64]:
    """Sixteen pictures less their mean: half of the values are negative."""
    X = data_set("digits")["X_train"].astype(np.float64)
    centred: NDArray[np.float64] = X - X.mean(axis=0)
    return centred[:16]


def inner_products(make: Callable[[int], Any], X: NDArray[np.float64]) -> NDArray[np.float64]:
    """(seeds, pairs) inner products of all pairs of rows, one map for each seed."""
    upper = np.triu_indices(len(X), 1)
    found = []
    for seed in range(SEEDS):
        features = make(seed).fit_transform(X)
        if sp.issparse(features):
            # Products of sparse matrices take time and memory for every column; few of millions are met.
            columns, places = np.unique(features.indices, return_inverse=True)
            features = sp.csr_array((features.data, places, features.indptr), shape=(len(X), len(columns))).toarray()
        found.append((features @ features.T)[upper])
    return np.array(found, np.float64)


def upper_of(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """The pairs of a kernel matrix."""
    return K[np.triu_indices(len(K), 1)]


def assert_mean_and_variance(found: NDArray[np.float64], mean: NDArray[np.float64], variance: NDArray[np.float64], bias: Any = 0.0) -> None:
    """Means over seeds are at most `bias` above what they should be, but for chance; variances are in the mean what they should be."""
    errors = (found.mean(axis=0) - mean) / np.sqrt(variance / len(found))
    allowed = bias / np.sqrt(variance / len(found))
    assert errors.min() > -FAR
    assert (errors - allowed).max() < FAR
    assert found.var(axis=0, ddof=1).mean() == pytest.approx(variance.mean(), rel=0.1)


def shares(p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of the share of `SIZE` samples that agree, each with probability p."""
    return p, p * (1.0 - p) / SIZE


def similarities(kernel: str, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The kernel of all pairs, from its definition."""
    return upper_of(np.array([naive.dense_scores(kernel, u, X) for u in X]))


def cosines(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of all pairs."""
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    return upper_of(np.clip(units @ units.T, -1.0, 1.0))


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize(("kernel", "sampler"), [("ngmm", "dart"), ("ngmm", "gcws"), ("gmm", "gcws"), ("minmax", "gcws")])
def test_weighted_samples_agree_as_often_as_said(kernel: str, sampler: str, bits: int, digits: NDArray[np.float64]) -> None:
    """The share of equal codes is J' + (1 - J') / 2**bits, J' the similarity or, with gcws, 0.45 / nonzeros more at most."""
    J = similarities(kernel, digits)
    p, variance = shares(J + (1.0 - J) / 2**bits)
    found = inner_products(lambda seed: GCWSFeatures(kernel, n_samples=SIZE, bits=bits, sampler=sampler, random_state=seed), digits)
    bias = 0.45 / np.count_nonzero(digits, axis=1).min() if sampler == "gcws" else 0.0
    assert_mean_and_variance(found, p, variance, bias)


def test_weighted_samples_of_signed_rows(signed: NDArray[np.float64]) -> None:
    """Signs are split: rows of both signs agree as often as their generalized similarity says."""
    J = similarities("ngmm", signed)
    p, variance = shares(J + (1.0 - J) / 2**8)
    found = inner_products(lambda seed: GCWSFeatures(n_samples=SIZE, sampler="dart", random_state=seed), signed)
    assert_mean_and_variance(found, p, variance)


def test_codes_are_those_of_the_index(digits: NDArray[np.float64]) -> None:
    """A map with a collection's seed has that collection's codes, cut to the last bits."""
    features = GCWSFeatures(n_samples=600, bits=6, random_state=7).fit_transform(digits)
    codes = make_sampler("gcws", seed=7, normalise=True, dim=64).codes(canonical_rows(digits, dim=64, signed=True), 3, 256)
    wanted = codes.reshape(len(digits), -1)[:, :600] & 63
    assert np.array_equal(features.indices.reshape(len(digits), 600) - 64 * np.arange(600), wanted)
    assert np.array_equal(features.data, np.full(features.nnz, 1.0 / math.sqrt(600)))


@pytest.mark.parametrize(("kernel", "width", "sampler"), [("ngmm", 1165, "gcws"), ("ngmm", 1166, "dart"), ("gmm", 1166, "gcws")])
def test_the_sampler_is_that_of_a_collection(kernel: str, width: int, sampler: str, rng: np.random.Generator) -> None:
    """Without a word from the user, rows are hashed as a collection of their dimension hashes them."""
    X = sp.random_array((5, width), density=0.02, rng=rng, format="csr")
    maps = [GCWSFeatures(kernel, n_samples=50, sampler=name, random_state=2).fit_transform(X) for name in (None, sampler)]
    assert np.array_equal(maps[0].indices, maps[1].indices)


def test_many_samples_are_independent(digits: NDArray[np.float64]) -> None:
    """Samples past the first 2,048, which have seeds of their own, agree as often, and are no copies of those before."""
    codes = GCWSFeatures("ngmm", n_samples=5000, bits=16, sampler="dart", random_state=3).fit(digits)
    symbols = codes.transform(digits).indices.reshape(len(digits), -1) - 65536 * np.arange(5000)
    assert all((symbols[:, :900] != symbols[:, start : start + 900]).mean() > 0.99 for start in (2048, 4096))
    p = similarities("ngmm", digits)
    found = upper_of((symbols[:, None, 2048:] == symbols[None, :, 2048:]).mean(axis=2))
    assert np.abs(found - p).max() < FAR * 0.5 / math.sqrt(5000 - 2048)


def test_signs_agree_with_the_angle(signed: NDArray[np.float64]) -> None:
    """Signs of Gaussian projections agree with probability 1 - acos(ρ) / π."""
    p, variance = shares(1.0 - np.arccos(cosines(signed)) / np.pi)
    found = inner_products(lambda seed: SignFeatures(n_samples=SIZE, random_state=seed), signed)
    assert_mean_and_variance(found, p, variance)


def test_signs_of_cauchy_projections_come_near(digits: NDArray[np.float64]) -> None:
    """Signs of Cauchy projections agree with probability 1 - acos(χ²) / π, to 0.05 on pictures; their variance is that of shares."""
    found = inner_products(lambda seed: SignFeatures("cauchy", n_samples=SIZE, random_state=seed), digits)
    p = 1.0 - np.arccos(np.minimum(similarities("chi2", digits), 1.0)) / np.pi
    assert np.abs(found.mean(axis=0) - p).max() < 0.05
    _, variance = shares(found.mean(axis=0))
    assert found.var(axis=0, ddof=1).mean() == pytest.approx(variance.mean(), rel=0.1)


@pytest.mark.parametrize("bits", [2, 8])
def test_codes_with_signs_agree_with_the_product(bits: int, digits: NDArray[np.float64]) -> None:
    """A code and a Gaussian sign agree together with the product of their probabilities."""
    J = similarities("ngmm", digits)
    p, variance = shares((J + (1.0 - J) / 2**bits) * (1.0 - np.arccos(cosines(digits)) / np.pi))
    found = inner_products(lambda seed: ProductFeatures("ngmm", n_samples=SIZE, bits=bits, sampler="dart", random_state=seed), digits)
    assert_mean_and_variance(found, p, variance)


def test_codes_with_cauchy_signs_come_near(digits: NDArray[np.float64]) -> None:
    """A code and a Cauchy sign agree together as J (1 - acos(χ²) / π), to 0.05 on pictures."""
    J = similarities("ngmm", digits)
    p = J * (1.0 - np.arccos(np.minimum(similarities("chi2", digits), 1.0)) / np.pi)
    found = inner_products(
        lambda seed: ProductFeatures("ngmm", "cauchy", n_samples=SIZE, bits=16, sampler="dart", random_state=seed), digits
    )
    assert np.abs(found.mean(axis=0) - p).max() < 0.05


def one_hot(symbols: NDArray[Any], cells: int) -> NDArray[np.float64]:
    """Symbols (n, k) as blocks of `cells` columns with a single one in each, over √k."""
    features = np.zeros((*symbols.shape, cells))
    np.put_along_axis(features, symbols[:, :, None].astype(np.int64), 1.0 / math.sqrt(symbols.shape[1]), axis=2)
    return features.reshape(len(symbols), -1)


def test_signs_are_their_definition(signed: NDArray[np.float64]) -> None:
    """Columns are those of the signs of projections onto the directions that the map tells; these are of their family."""
    for family in ("gaussian", "cauchy"):
        X = signed if family == "gaussian" else np.abs(signed)
        fitted = SignFeatures(family, n_samples=3000, random_state=4).fit(X)
        signs = np.array(
            [[sum(x * r for x, r in zip(row, column, strict=True)) >= 0.0 for column in fitted.directions_.T[:9]] for row in X]
        )
        assert np.abs(fitted.transform(X).toarray().reshape(16, 3000, 2)[:, :9, 1] * math.sqrt(3000) - signs).max() < 1e-12
        size = np.abs(fitted.directions_)
        # Of both families half of the numbers are nearer to 0 than the upper quartile: 0.6745 and 1.
        assert (size < (0.6745 if family == "gaussian" else 1.0)).mean() == pytest.approx(0.5, abs=0.01)
        assert (size > 10.0).mean() == pytest.approx(0.0 if family == "gaussian" else 2.0 / np.pi * np.arctan(0.1), abs=0.003)


def test_codes_with_signs_are_their_definition(digits: NDArray[np.float64]) -> None:
    """Columns are those of twice the code of `GCWSFeatures`, and the sign, of the same seed."""
    fitted = ProductFeatures("gmm", "cauchy", n_samples=70, bits=3, random_state=4).fit(digits)
    codes = GCWSFeatures("gmm", n_samples=70, bits=3, random_state=4).fit_transform(digits).indices.reshape(16, 70) - 8 * np.arange(70)
    wanted = one_hot(2 * codes + (digits @ fitted.directions_ >= 0.0), 16)
    assert np.abs(fitted.transform(digits).toarray() - wanted).max() < 1e-12


def test_fourier_features_are_their_definition(signed: NDArray[np.float64]) -> None:
    """Features are the cosines that the docstring names, of what the map tells of itself; directions are normal, times √γ."""
    units = signed / np.linalg.norm(signed, axis=1, keepdims=True)
    for folded in (False, True):
        fitted = FourierFeatures(4.0, n_components=2000, folded=folded, random_state=4).fit(signed)
        wanted = np.sqrt((1.0 if folded else 2.0) / 2000) * np.cos(units @ fitted.directions_ + fitted.phases_)
        assert np.abs(fitted.transform(signed) - wanted).max() < 1e-12
        assert fitted.directions_.std() == pytest.approx(2.0, rel=0.02)
        assert fitted.phases_.max() == (0.0 if folded else pytest.approx(2.0 * np.pi, rel=0.01))
        normalised = FourierFeatures(4.0, n_components=2000, folded=folded, normalised=True, random_state=4).fit_transform(signed)
        assert np.abs(normalised - wanted / np.linalg.norm(wanted, axis=1, keepdims=True)).max() < 1e-12


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_fourier_features_have_the_kernel_in_the_mean(gamma: float, signed: NDArray[np.float64]) -> None:
    """Their inner products have the mean and the variance of the table in their docstring."""
    rho = cosines(signed)
    near, far = np.exp(-gamma * (1.0 - rho)), np.exp(-gamma * (1.0 + rho))
    found = inner_products(lambda seed: FourierFeatures(gamma, n_components=SIZE, random_state=seed), signed)
    assert_mean_and_variance(found, near, (0.5 + 0.5 * (1.0 - near**2) ** 2) / SIZE)
    found = inner_products(lambda seed: FourierFeatures(gamma, n_components=SIZE, folded=True, random_state=seed), signed)
    spread = found.var(axis=0, ddof=1)
    assert (np.abs(found.mean(axis=0) - 0.5 * (near + far)) < FAR * np.sqrt(spread / SEEDS)).all()
    assert spread.max() < 1.0 / SIZE


def test_normalised_fourier_features_vary_less(digits: NDArray[np.float64]) -> None:
    """Divided by their lengths, rows have inner products that are off by 1 / k at most in the mean, and vary less for similar rows."""
    near = np.exp(-(1.0 - cosines(digits)))
    plain = inner_products(lambda seed: FourierFeatures(n_components=SIZE, random_state=seed), digits)
    divided = inner_products(lambda seed: FourierFeatures(n_components=SIZE, normalised=True, random_state=seed), digits)
    error = FAR * np.sqrt(divided.var(axis=0, ddof=1) / SEEDS)
    assert (np.abs(divided.mean(axis=0) - near) < 1.0 / SIZE + error).all()
    similar = near > 0.7
    assert similar.sum() > 20
    assert divided.var(axis=0)[similar].mean() < 0.5 * plain.var(axis=0)[similar].mean()


def test_nystroem_features_are_their_definition(data_set: Loader) -> None:
    """Inner products are K(u, S) K⁺ K(S, v) with the rows that were drawn: exact among those, and never longer than a row."""
    X = data_set("digits")["X_train"][:200].astype(np.float64)
    for kernel in ("gmm", "chi2", "rbf"):
        nystroem = NystroemFeatures(kernel, n_components=40, random_state=0).fit(X)
        features = nystroem.transform(X)
        K, S = pairwise(X, kernel=kernel), nystroem.component_indices_
        assert len(set(S.tolist())) == 40
        assert np.array_equal(nystroem.components_, X[S])
        wanted = K[:, S] @ np.linalg.pinv(K[np.ix_(S, S)], hermitian=True) @ K[S]
        assert np.abs(features @ features.T - wanted).max() < 1e-10
        assert np.abs((features @ features.T)[np.ix_(S, S)] - K[np.ix_(S, S)]).max() < 1e-10
        assert (np.square(features).sum(axis=1) < np.diag(K) + 1e-10).all()


def test_all_rows_as_components_are_the_kernel(digits: NDArray[np.float64]) -> None:
    """With every training row drawn, inner products of training rows are the kernel."""
    features = NystroemFeatures("gmm", n_components=1000).fit_transform(digits)
    assert features.shape == (16, 16)
    assert np.abs(features @ features.T - pairwise(digits, kernel="gmm")).max() < 1e-10


@pytest.mark.parametrize(("kernel", "score"), [("rbf", math.exp(-1)), ("exp_chi2", math.exp(-1)), ("acos", 0.5), ("chi2", 0.0)])
def test_a_row_of_zeros_scores_what_the_kernel_prints_of_0(kernel: str, score: float, digits: NDArray[np.float64]) -> None:
    """With every row, in matrices and by the features of the Nyström map, which are none only where that is 0."""
    zero = np.zeros((1, digits.shape[1]))
    assert pairwise(zero, digits, kernel=kernel) == pytest.approx(score)
    nystroem = NystroemFeatures(kernel, n_components=1000).fit(digits)
    features = nystroem.transform(zero)
    assert features @ nystroem.transform(digits).T == pytest.approx(score, abs=1e-6)
    assert features.any() == (score > 0.0)


@pytest.mark.parametrize("kernel", ["ngmm", "chi2"])
def test_dependent_rows_do_no_harm(kernel: str, digits: NDArray[np.float64]) -> None:
    """Rows that occur many times, multiples and rows of zeros leave out what they do not add; all else is as without them."""
    X = np.concatenate([digits, digits, 2.0 * digits, np.zeros((3, 64)), digits + 1e-9])
    nystroem = NystroemFeatures(kernel, n_components=1000).fit(X)
    features = nystroem.transform(X)
    assert np.abs(features).max() < 1.1
    assert np.abs(features @ features.T - pairwise(X, kernel=kernel)).max() < 1e-6
    assert not NystroemFeatures(kernel, n_components=3).fit(np.zeros((5, 4))).transform(np.ones((2, 4))).any()


@pytest.mark.parametrize(
    ("estimator", "text"),
    [
        (GCWSFeatures("chi2"), "the kernel chi2 has no weighted sampling"),
        (GCWSFeatures("ngm"), "kernel is one of minmax, gmm, ngmm, gint, tv, not 'ngm'; did you mean 'ngmm'?"),
        (GCWSFeatures("nested"), "nested has no weighted sampling"),
        (GCWSFeatures(bits=0), "bits is a whole number from 1 on"),
        (GCWSFeatures(bits=25), "bits is at most 24, not 25"),
        (GCWSFeatures(n_samples=0), "n_samples is a whole number"),
        (GCWSFeatures(n_samples=65_537), "n_samples is at most 65536"),
        (GCWSFeatures("gmm", sampler="dart"), "dart sampling needs weights that sum to 1"),
        (GCWSFeatures(sampler="none"), "sampler is one of gcws, dart"),
        (GCWSFeatures(random_state="x"), "random_state is a whole number"),
        (GCWSFeatures(random_state=-1), r"random_state is from 0 to 2\*\*64 - 1"),
        (SignFeatures("normal"), "family is one of gaussian, cauchy"),
        (ProductFeatures(family="normal"), "family is one of gaussian, cauchy"),
        (FourierFeatures(0.0), "gamma is a number above 0"),
        (FourierFeatures(math.nan), "gamma is a number above 0"),
        (FourierFeatures(n_components=0), "n_components is a whole number"),
        (NystroemFeatures("nothing"), "kernel is one of"),
        (NystroemFeatures(parameters={"gamma": 1.0}), "ngmm has no parameter"),
        (NystroemFeatures(n_components=1 << 16), "n_components is at most"),
    ],
)
def test_parameters_that_make_no_map_are_refused(estimator: Any, text: str) -> None:
    """fit raises InvalidInput, a ValueError, that names the parameter."""
    with pytest.raises((InvalidInput, ValueError), match=text):
        estimator.fit(np.ones((4, 3)))


@pytest.mark.parametrize(
    "estimator",
    [GCWSFeatures("minmax"), SignFeatures("cauchy"), ProductFeatures(family="cauchy"), ProductFeatures("minmax"), NystroemFeatures("chi2")],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_negative_values_are_refused_where_they_mean_nothing(estimator: Any, sparse: bool) -> None:
    """fit and transform raise a ValueError that says what takes no negative values."""
    X = np.eye(4)
    bad: Any = sp.csr_array(X - 0.5) if sparse else X - 0.5
    with pytest.raises(ValueError, match="Negative values in data"):
        estimator.fit(bad)
    with pytest.raises(ValueError, match="Negative values in data"):
        estimator.fit(X).transform(bad)
