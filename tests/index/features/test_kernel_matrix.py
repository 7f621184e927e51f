"""Exact kernel matrices against the definition."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin
import naive
from kinbin import set_threads
from kinbin.features import pairwise
from kinbin.features.kernel_matrix import Work
from kinbin.features.rows import Matrix
from kinbin.query.threads import threads_set
from kinbin.spaces.pairwise import CHI_SQUARED, COSINE, JENSEN_SHANNON, ROOTS, SHARED, SHARED_SHAPES, Pairwise, Sum, product_of
from kinbin.spaces.space import Space

KERNELS = sorted(kinbin.KERNELS)
SUMS = {"shared": SHARED, "shapes": SHARED_SHAPES, "chi2": CHI_SQUARED, "js": JENSEN_SHANNON, "hellinger": ROOTS, "cosine": COSINE}
SIGNED = {"shared", "shapes", "cosine"}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Matrices are filled by two threads."""
    before = threads_set()
    set_threads(2)
    yield
    set_threads(before)


def rows(rng: np.random.Generator, count: int, width: int, *, signed: bool) -> NDArray[np.float64]:
    """Rows half of whose values are 0, one of them all; the second and the third are the same."""
    X = rng.lognormal(sigma=2.0, size=(count, width)) * (rng.random((count, width)) < 0.5)
    if signed:
        X *= rng.choice([-1.0, 1.0], X.shape)
    if count > 3:
        X[0], X[2] = 0.0, X[1]
    return X.astype(np.float32).astype(np.float64)


def error(kernel: str) -> float:
    """By how much a matrix may differ from the twin: arc cosines amplify the last digits of scores near 1, of both."""
    return 1e-7 if "acos" in kernel else 1e-13


def twin(kernel: str, X: NDArray[Any], Y: NDArray[Any]) -> NDArray[np.float64]:
    """The kernel of all pairs through the definition; rows of zeros score as rows that share nothing."""
    out = np.full((len(X), len(Y)), naive.dense_scores(kernel, np.array([1.0, 0.0]), np.array([[0.0, 1.0]]))[0])
    some, others = (np.flatnonzero(Z.any(axis=1)) for Z in (X, Y))
    for i in some:
        out[i, others] = naive.dense_scores(kernel, X[i], Y[others])
    return out


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("count", "others", "width"), [(1, 1, 1), (5, 3, 2), (257, 66, 7), (64, 300, 259), (20, 65, 513)])
def test_dense_matrices_are_the_definition(kernel: str, count: int, others: int, width: int, rng: np.random.Generator) -> None:
    """Whatever the shape, each pair scores what the definition says."""
    signed = kinbin.KERNELS[kernel].signed
    X, Y = rows(rng, count, width, signed=signed), rows(rng, others, width, signed=signed)
    assert np.abs(pairwise(X, Y, kernel=kernel) - twin(kernel, X, Y)).max() < error(kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_matrices_are_the_definition(kernel: str, kind: Callable[..., Any], rng: np.random.Generator) -> None:
    """Sparse matrices of any format, and a sparse beside a dense one, score as dense ones."""
    signed = kinbin.KERNELS[kernel].signed
    X, Y = rows(rng, 260, 40, signed=signed), rows(rng, 70, 40, signed=signed)
    wanted = twin(kernel, X, Y)
    for left, right in ((kind(X), kind(Y)), (kind(X), Y), (X, kind(Y))):
        assert np.abs(pairwise(left, right, kernel=kernel) - wanted).max() < error(kernel)


def test_sparse_rows_of_very_many_features(rng: np.random.Generator) -> None:
    """Features beyond what a row is laid out over are numbered anew, and those that only the left rows have count for their sums."""
    width = 1 << 40
    small = rows(rng, 30, 50, signed=True)
    places = np.sort(rng.choice(width, 50, replace=False))
    X = sp.csr_array(small)
    wide = sp.csr_array((X.data, places[X.indices], X.indptr), shape=(30, width))
    assert np.array_equal(pairwise(wide[:20], wide[20:], kernel="gmm"), pairwise(X[:20], X[20:], kernel="gmm"))
    some = sp.csr_array(([2.0, 1.0], np.array([3, width - 1]), np.array([0, 2])), shape=(1, width))
    other = sp.csr_array(([1.0], np.array([3]), np.array([0, 1])), shape=(1, width))
    assert pairwise(some, other, kernel="minmax") == 1 / 3
    assert pairwise(some, sp.csr_array((1, width)), kernel="minmax") == 0.0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matrix_with_itself_is_symmetric(kernel: str, sparse: bool, rng: np.random.Generator) -> None:
    """Without Y every pair is computed once: symmetric to the bit, 1 (or what is printed of it) on the diagonal, and as with Y."""
    X: Any = rows(rng, 300, 30, signed=kinbin.KERNELS[kernel].signed)
    filled = X.any(axis=1)
    X = sp.csr_array(X) if sparse else X
    K = pairwise(X, kernel=kernel)
    assert np.array_equal(K, K.T)
    itself = naive.dense_scores(kernel, np.ones(1), np.ones((1, 1)))[0]
    assert np.abs(np.diag(K)[filled] - itself).max() < error(kernel)
    assert np.diag(K).max() <= itself
    assert len(np.unique(K[~filled])) == 1
    assert np.abs(K - pairwise(X, X, kernel=kernel)).max() < error(kernel)


def test_threads_do_not_change_a_bit(rng: np.random.Generator) -> None:
    """One thread and four fill the same matrix."""
    X = rows(rng, 700, 20, signed=True)
    found = []
    for threads in (1, 4):
        set_threads(threads)
        found.append(pairwise(X, kernel="gmm"))
    assert np.array_equal(found[0], found[1])


def test_types_of_matrices(rng: np.random.Generator) -> None:
    """float32 is the float64 result rounded; whole numbers, float32 and lists are taken."""
    X = np.floor(rows(rng, 40, 9, signed=True))
    K = pairwise(X, kernel="gmm")
    assert K.dtype == np.float64
    assert np.array_equal(pairwise(X, kernel="gmm", dtype=np.float32), K.astype(np.float32))
    for given in (X.astype(np.int64), X.astype(np.float32), np.asfortranarray(X), X.tolist()):
        assert np.array_equal(pairwise(given, kernel="gmm"), K)


def test_memory_is_bounded(rng: np.random.Generator) -> None:
    """Besides the result, a matrix of 64 MB takes less than 8 MB with two threads, dense and sparse."""
    X = rng.random((4000, 32)).astype(np.float32)
    for given in (X, sp.csr_array(X)):
        pairwise(given[:300], kernel="gmm")
        tracemalloc.start()
        K = pairwise(given, kernel="gmm", dtype=np.float32)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak - K.nbytes < 8 << 20


def exactly(one: Sum, u: NDArray[Any], v: NDArray[Any]) -> float:
    """A sum over the features of two rows, from its definition."""

    def scaled(row: NDArray[Any]) -> list[float]:
        values = [float(x) for x in row]
        by = {"none": 1.0, "sum": math.fsum(map(abs, values)), "length": math.sqrt(math.fsum(x * x for x in values))}[one.scale]
        values = [x / by if by else 0.0 for x in values]
        return [math.sqrt(x) for x in values] if one.roots else values

    def term(a: float, b: float) -> float:
        if one.kind == "dot":
            return a * b
        if one.kind == "shared":
            return min(abs(a), abs(b)) if a * b > 0 else 0.0
        if not (a and b):
            return 0.0
        r = a / (a + b)
        entropy = -r * math.log2(r) - (1 - r) * math.log2(1 - r) if 0 < r < 1 else 0.0
        return 2 * a * b / (a + b) if one.kind == "harmonic" else entropy * (a + b) / 2

    return math.fsum(term(a, b) for a, b in zip(scaled(u), scaled(v), strict=True))


@pytest.mark.parametrize("name", sorted(SUMS))
@pytest.mark.parametrize("sparse", [False, True])
def test_sums_are_their_definitions(name: str, sparse: bool, rng: np.random.Generator) -> None:
    """Each sum that a space may name is what it is said to be, for dense and for sparse rows."""
    one = SUMS[name]
    X, Y = rows(rng, 9, 300, signed=name in SIGNED), rows(rng, 67, 300, signed=name in SIGNED)
    left, right = (Matrix.of(sp.csr_array(Z) if sparse else Z) for Z in (X, Y))
    found = Work().sums(one, (left, slice(0, 9)), (right, slice(0, 67)))
    wanted = np.array([[exactly(one, u, v) for v in Y] for u in X])
    assert found.shape == wanted.shape
    scale = np.abs(X).sum(axis=1).max() if one.scale == "none" else 1.0
    assert np.abs(found - wanted).max() < 1e-13 * scale


@pytest.mark.parametrize("name", sorted(SUMS))
@pytest.mark.parametrize("sparse", [False, True])
def test_sums_of_extreme_values(name: str, sparse: bool, rng: np.random.Generator) -> None:
    """Values from the least to the greatest that are taken neither overflow nor lose what counts."""
    one = SUMS[name]
    X = 10.0 ** rng.uniform(-29.0, 14.9, (12, 40)) * (rng.random((12, 40)) < 0.7)
    left = Matrix.of(sp.csr_array(X) if sparse else X)
    found = Work().sums(one, (left, slice(0, 12)), (left, slice(0, 12)))
    wanted = np.array([[exactly(one, u, v) for v in X] for u in X])
    sums = X.sum(axis=1)
    scale = np.maximum(sums[:, None], sums) if one.scale == "none" else 1.0
    assert np.isfinite(found).all()
    assert (np.abs(found - wanted) / scale).max() < 1e-13


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-6, 1e-3, 1.0, 3.0])
def test_angles_near_nothing(angle: float, sparse: bool) -> None:
    """The angle of two rows is right to 1e-6 of π where its cosine is nearly 1 too."""
    width = 500
    other = np.concatenate([np.ones(width // 2), -np.ones(width // 2)])
    X, Y = np.ones((1, width)), (np.cos(angle) + np.sin(angle) * other)[None]
    left, right = (Matrix.of(sp.csr_array(Z) if sparse else Z) for Z in (X, Y))
    cosine = float(Work().sums(COSINE, (left, slice(0, 1)), (right, slice(0, 1)))[0, 0])
    assert abs(math.acos(min(1.0, cosine)) - angle) / math.pi < 1e-7


def test_chi_squared_of_fractions() -> None:
    """A small pair, in exact arithmetic."""
    u, v = [1, 2, 0, 5], [3, 1, 4, 0]
    a, b = ([Fraction(x, sum(row)) for x in row] for row in (u, v))
    wanted = sum(2 * x * y / (x + y) for x, y in zip(a, b, strict=True) if x + y)
    assert pairwise([u], [v], kernel="chi2")[0, 0] == pytest.approx(float(wanted), abs=1e-15)


def test_products_of_spaces(rng: np.random.Generator) -> None:
    """The product of two spaces multiplies what they print, though they share a sum."""
    parts = [kinbin.KERNELS[name] for name in ("ngmm", "gint", "gmm")]
    rule = product_of(*parts)
    X = rows(rng, 30, 12, signed=True)
    matrix = Matrix.of(X)
    work = Work()
    sums = [work.sums(one, (matrix, slice(0, 30)), (matrix, slice(0, 30))) for one in rule.sums]
    found = rule.finish(sums, matrix.sums[:, None], matrix.sums[None])
    assert np.abs(found - np.prod([twin(part.name, X, X) for part in parts], axis=0)).max() < 1e-13


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("rbf", {"gamma": 3.0}),
        ("frbf", {"gamma": 0.2}),
        ("exp_chi2", {"gamma": 40.0}),
        ("gmm*acos", {}),
        ("exp_chi2*gmm*js", {"exp_chi2.gamma": 2.5}),
    ],
)
def test_parameters_and_products(kernel: str, parameters: dict[str, Any], rng: np.random.Generator) -> None:
    """Parameters of kernels, given by name or as a mapping, and products of kernels count as in the definition."""
    X, Y = rows(rng, 40, 30, signed=False)[3:], rows(rng, 30, 30, signed=False)[3:]
    wanted = np.array([naive.dense_scores(kernel, x, Y, **parameters) for x in X])
    assert np.abs(pairwise(X, Y, kernel=kernel, **parameters) - wanted).max() < error(kernel)
    assert np.abs(pairwise(sp.csr_array(X), Y, kernel=kernel, parameters=parameters) - wanted).max() < error(kernel)


def test_what_a_space_prints_is_computed(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """A space with its own print, parameters of it and another sum has matrices without code of its own."""
    rule = Pairwise((COSINE,))
    space = Space("angles", "angles", "", shapes=False, signed=True, printed=lambda s: 1.0 - np.arccos(s) / np.pi, pairwise=rule)
    monkeypatch.setattr("kinbin.features.kernel_matrix.space_of", lambda name, parameters, **_: space)
    X = rows(rng, 300, 12, signed=True)
    lengths = np.linalg.norm(X, axis=1)
    cosines = X @ X.T / np.where(np.outer(lengths, lengths) > 0.0, np.outer(lengths, lengths), 1.0)
    wanted = 1.0 - np.arccos(np.clip(cosines, -1.0, 1.0)) / np.pi
    assert np.abs(pairwise(X, kernel="angles") - wanted).max() < 1e-7
    assert np.abs(pairwise(sp.csr_array(X), kernel="angles") - wanted).max() < 1e-7


def test_real_histograms(data_set: Callable[[str], dict[str, NDArray[Any]]]) -> None:
    """Colour histograms of photographs score as the definition says, under every kernel."""
    X = data_set("photographs")["X_train"][:80].astype(np.float64)
    for kernel in KERNELS:
        assert np.abs(pairwise(X, X[:20], kernel=kernel) - twin(kernel, X, X[:20])).max() < 10 * error(kernel)


@pytest.mark.parametrize(
    ("given", "more", "text"),
    [
        (([[1.0]], [[1.0]]), {"kernel": "nothing"}, "mm_acos_chi2, or a product of two or three of them, such as gmm.acos, not 'nothing'"),
        (([[1.0]], [[1.0]]), {"kernel": "nested"}, "it is of images, and NestedHistogramKernel has them"),
        (([[1.0]], [[1.0]]), {"gamma": 2.0}, "ngmm has no parameter"),
        (([[1.0]], [[1.0]]), {"parameters": {"gamma": 2.0}}, "ngmm has no parameter"),
        (([[1.0]], [[1.0]]), {"kernel": "rbf", "gamma": 2.0, "parameters": {"gamma": 3.0}}, "gamma came twice: in parameters, and as"),
        (([[1.0]], [[1.0]]), {"dtype": np.int32}, "float64 or float32, not int32"),
        (([[1.0, 2.0]], [[1.0]]), {}, "X has 2 features and Y has 1"),
        (([1.0], None), {}, "Expected 2D array"),
        (([[math.nan]], None), {}, "contains NaN"),
        (([[math.inf]], None), {}, "infinity"),
        (([[1e16]], None), {}, r"values are at most 1e\+15"),
        (([[1.0, -2.0]], None), {"kernel": "chi2"}, "Negative values in data: the kernel chi2 takes values of 0 and more"),
        (([[1.0]], [[-2.0]]), {"kernel": "minmax"}, "Negative values in data: the kernel minmax"),
        ((sp.csr_array([[1.0, -2.0]]), None), {"kernel": "chi2"}, "Negative values in data"),
        ((np.empty((0, 3)), None), {}, "0 sample"),
    ],
)
def test_what_has_no_matrix_is_refused(given: tuple[Any, Any], more: dict[str, Any], text: str) -> None:
    """The error is a ValueError, and says what is wrong."""
    with pytest.raises(ValueError, match=text):
        pairwise(*given, **more)
