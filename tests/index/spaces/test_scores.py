"""Exact kernel values of stored rows against the slow twin, in both layouts of a row."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinbin
import naive
from awkward import DIM, NARROW, WIDE, narrow_rows, wide_rows
from kinbin.rows.lookup import NARROW_DIMENSION

pytestmark = pytest.mark.slow

LAYOUTS = {"narrow": DIM, "last narrow": NARROW_DIMENSION, "first wide": NARROW_DIMENSION + 1, "wide": None}
"""Dimensions of collections whose rows are stored with 16-bit ids, and with 64-bit ids."""

Row = dict[int, float]
TWIN_ERROR = {"js": 1e-14, "cosine": 1e-14, "acos": 1e-7}
"""Absolute errors of twins that subtract, and of what an arc cosine near -1 makes of them."""
AMPLIFIED = ("acos_chi2", "acos", "mm_acos", "mm_acos_chi2")
"""Kernels whose print amplifies the last digits of a score near 1: an arc cosine makes 1e-7 of 1e-14."""


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], kinbin.Collection]]:
    """A collection for each kernel and layout."""
    with kinbin.open(tmp_path_factory.mktemp("scores")) as db:
        yield {
            (kernel, layout): db.create_collection(f"{kernel}-{i}", kernel=kernel, dim=dim, seed=1)
            for kernel in kinbin.KERNELS
            for i, (layout, dim) in enumerate(LAYOUTS.items())
        }


def allowed(kernel: str, rows: Sequence[Row]) -> list[Row]:
    """The rows as they are, or without their signs for a kernel that has none."""
    return list(rows) if kinbin.KERNELS[kernel].signed else [{f: abs(v) for f, v in u.items()} for u in rows]


def all_scores(collection: kinbin.Collection, rows: Sequence[Row]) -> NDArray[np.float64]:
    """(n, n) scores of all rows (as queries) and all rows (as items)."""
    collection.delete(filter={"$not": {"none": 1}})
    collection.add([str(i) for i in range(len(rows))], rows)
    answers = collection.query_batch(rows, k=len(rows), mode="exact")
    scores = np.full((len(rows), len(rows)), np.nan)
    for i, answer in enumerate(answers):
        for identifier, score in zip(answer.ids, answer.scores, strict=True):
            scores[i, int(identifier)] = score
    assert not np.isnan(scores).any(), "a row was not answered"
    return scores


def twin_scores(kernel: str, rows: Sequence[Row]) -> NDArray[np.float64]:
    """The same by the twin."""
    stored = [naive.row(u) for u in rows]
    return np.array([naive.sparse_scores(kernel, q, stored) for q in stored])


@functools.cache
def awkward_scores(kernel: str, wide: bool) -> NDArray[np.float64]:
    """Those of the named rows, which several layouts store."""
    return twin_scores(kernel, allowed(kernel, list((WIDE if wide else NARROW).values())))


def assert_right(collection: kinbin.Collection, rows: Sequence[Row], twin: NDArray[np.float64] | None = None) -> None:
    """Scores are the twin's, lie in the kernel's range, do not depend on which is the query, and are the greatest for a row and itself."""
    kernel = collection.config.kernel
    rows = allowed(kernel, rows)
    found = all_scores(collection, rows)
    np.testing.assert_allclose(found, twin_scores(kernel, rows) if twin is None else twin, rtol=1e-6, atol=TWIN_ERROR.get(kernel, 1e-30))
    least, most = kinbin.KERNELS[kernel].printed_range
    assert found.min() >= least
    assert found.max() <= most
    np.testing.assert_allclose(found, found.T, rtol=2e-7 if kernel in AMPLIFIED else 1e-14, atol=TWIN_ERROR.get(kernel, 0.0))
    np.testing.assert_array_equal(np.diag(found), kinbin.KERNELS[kernel].printed(1.0))


OWN = [kernel for kernel in kinbin.KERNELS if kernel not in naive.PRINTS]
"""Kernels whose score is not another's, printed by a formula: of those the awkward rows, and what is printed, say enough."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", kinbin.KERNELS)
def test_scores_of_awkward_rows(kernel: str, layout: str, collections: dict[tuple[str, str], kinbin.Collection]) -> None:
    """Every pair of the named rows has the twin's score, to 1e-6 of its size, symmetric, and 1 for itself."""
    rows = WIDE if layout == "wide" else NARROW
    assert_right(collections[kernel, layout], list(rows.values()), awkward_scores(kernel, layout == "wide"))


HALF = settings(max_examples=settings().max_examples // 2)
"""For each kernel and layout: what all of them share, as canonical rows, records and look-ups, is met twenty times as often."""


@pytest.mark.parametrize("kernel", OWN)
@HALF
@given(data=st.data())
def test_scores_of_narrow_rows(kernel: str, data: st.DataObject, collections: dict[tuple[str, str], kinbin.Collection]) -> None:
    """Rows with 16-bit ids have the twin's scores, whatever their values."""
    assert_right(collections[kernel, "narrow"], data.draw(st.lists(narrow_rows, min_size=1, max_size=5)))


@pytest.mark.parametrize("kernel", OWN)
@HALF
@given(data=st.data())
def test_scores_of_wide_rows(kernel: str, data: st.DataObject, collections: dict[tuple[str, str], kinbin.Collection]) -> None:
    """Rows with 64-bit ids have the twin's scores, whatever their ids and values."""
    assert_right(collections[kernel, "wide"], data.draw(st.lists(wide_rows, min_size=1, max_size=5)))


@pytest.mark.parametrize("kernel", kinbin.KERNELS)
def test_one_dimension(kernel: str, db: kinbin.Database) -> None:
    """In one dimension, unnormalised scores are the twin's, the others the greatest, or the least where signs differ."""
    collection = db.create_collection("c", kernel=kernel, dim=1)
    rows = [{0: 1.0}, {0: 4.0}, {0: 1e-30}, {0: 1e15}, {0: -1.0}, {0: -4.0}]
    assert_right(collection, rows)
    found = all_scores(collection, allowed(kernel, rows))
    space = kinbin.KERNELS[kernel]
    assert found[0, 1] == (space.printed(1.0) if space.normalised else pytest.approx(naive.KERNELS[kernel]({0: 1.0}, {0: 4.0}), abs=1e-6))
    assert found[0, 4] == space.printed(0.0 if space.signed else 1.0)


@pytest.mark.parametrize(("layout", "last"), [("last narrow", 65_535), ("first wide", 65_536)])
def test_the_last_feature_of_a_layout(layout: str, last: int, collections: dict[tuple[str, str], kinbin.Collection]) -> None:
    """The largest feature that a dimension allows is scored like any other, and is not mistaken for the first."""
    for kernel in kinbin.KERNELS:
        rows = [{0: 1.0}, {last: 1.0}, {0: 2.0, last: 1.0}, {last - 1: 1.0, last: 3.0}, dict.fromkeys(range(last - 40, last + 1), 0.5)]
        assert_right(collections[kernel, layout], rows)


@pytest.mark.parametrize("kernel", OWN)
def test_long_rows(kernel: str, collections: dict[tuple[str, str], kinbin.Collection], rng: np.random.Generator) -> None:
    """Long rows, of which all, some or none are shared, have the twin's scores; the longest queries need second cells of a look-up."""
    rows, known = [], rng.integers(2**62, size=1_200)
    for count in (1, 127, 300, 900, 1_000):
        features = rng.choice(known, count, replace=False)
        rows.append(dict(zip(features.tolist(), rng.uniform(0.1, 2.0, count).astype(np.float32).tolist(), strict=True)))
    rows.append(dict.fromkeys(range(300), 1.0))
    assert_right(collections[kernel, "wide"], rows)


@pytest.mark.parametrize("kernel", [name for name, one in kinbin.KERNELS.items() if one.normalised and one.printed_range[1] == 1.0])
@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_multiples_of_a_row_are_identical(kernel: str, layout: str, collections: dict[tuple[str, str], kinbin.Collection]) -> None:
    """A normalised kernel gives a row and any multiple of it the score 1, so that min_score=1 finds it."""
    collection = collections[kernel, layout]
    rng = np.random.default_rng(5)
    rows = [{int(f): float(v) for f, v in enumerate(rng.random(DIM) + 0.01)} for _ in range(40)]
    scaled = [{f: 3.7 * v for f, v in u.items()} for u in rows]
    collection.delete(filter={"$not": {"none": 1}})
    collection.add([str(i) for i in range(len(rows))], rows)
    for mode in ("exact", "bands"):
        for i, answer in enumerate(collection.query_batch(scaled, k=3, mode=mode, min_score=1.0)):
            assert answer.ids == [str(i)]
            assert answer.scores[0] == 1.0


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_gint_and_ngmm_order_alike(layout: str, collections: dict[tuple[str, str], kinbin.Collection], rng: np.random.Generator) -> None:
    """The two normalised kernels rank all rows identically, and their scores are one function of each other."""
    X = rng.normal(size=(300, DIM)) * (rng.random((300, DIM)) < 0.2)
    X[:, 0] = 1.0
    answers = {}
    for kernel in ("ngmm", "gint"):
        collection = collections[kernel, layout]
        collection.delete(filter={"$not": {"none": 1}})
        rows = X if layout == "narrow" else [dict(enumerate(map(float, x))) for x in X]
        collection.add([f"{i:03}" for i in range(300)], rows)
        answers[kernel] = collection.query_batch(rows[:20], k=300, mode="exact")
    np.testing.assert_array_equal(answers["ngmm"].ids, answers["gint"].ids)
    gint = answers["gint"].scores
    np.testing.assert_allclose(answers["ngmm"].scores, gint / (2 - gint), rtol=1e-12)


def test_the_table_of_kernels() -> None:
    """Names, titles and properties of the kernels are those that the documentation gives."""
    assert {name: (k.name, k.title, k.signed, k.normalised) for name, k in kinbin.KERNELS.items()} == {
        "minmax": ("minmax", "min-max", False, False),
        "gmm": ("gmm", "generalized min-max", True, False),
        "ngmm": ("ngmm", "normalized generalized min-max", True, True),
        "gint": ("gint", "generalized intersection", True, True),
        "tv": ("tv", "total variation", True, True),
        "chi2": ("chi2", "chi-squared", False, True),
        "exp_chi2": ("exp_chi2", "exponential chi-squared", False, True),
        "acos_chi2": ("acos_chi2", "arc-cosine chi-squared", False, True),
        "js": ("js", "Jensen-Shannon", False, True),
        "hellinger": ("hellinger", "Hellinger", False, True),
        "cosine": ("cosine", "cosine", True, True),
        "acos": ("acos", "arc-cosine", True, True),
        "rbf": ("rbf", "Gaussian", True, True),
        "frbf": ("frbf", "folded Gaussian", False, True),
        "mm_acos": ("mm_acos", "min-max times arc-cosine", True, True),
        "mm_acos_chi2": ("mm_acos_chi2", "min-max times arc-cosine chi-squared", False, True),
    }


@pytest.mark.parametrize("kernel", kinbin.KERNELS.values(), ids=lambda kernel: kernel.name)
def test_what_is_printed_can_be_turned_back(kernel: kinbin.Kernel) -> None:
    """What a kernel prints rises with the score that the index works with, and the score can be had of it, never a larger one."""
    scores = np.linspace(0, 1, 101)
    prints = np.array([kernel.printed(score) for score in scores])
    np.testing.assert_array_equal(kernel.printed(scores), prints)
    assert prints[-1] == kernel.printed_range[1]
    assert (np.diff(prints) > 0).all()
    turned = np.array([kernel.score_of(one) for one in prints])
    assert (turned <= scores).all()
    np.testing.assert_allclose(turned[1:], scores[1:], atol=1e-11)
