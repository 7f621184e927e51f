"""Kernel matrices of images, and counts of q-grams: both as their definitions say, and as scikit-learn calls them."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import kinbin
import naive
from bundled import grids, pictures
from kinbin.features import GCWSFeatures, NestedHistogramKernel, QGramFeatures
from naive_strings import levenshtein


@pytest.mark.parametrize("form", ["images", "array", "dense", "sparse"])
def test_kernel_matrices_are_the_twins(form: str) -> None:
    """Images, arrays of them and histograms of their cells give the same matrix, that of the definition, to 1e-6."""
    images = pictures()[:12]
    X = grids(images, 4)
    given: dict[str, Any] = {
        "images": list(images), "array": images, "dense": X.reshape(12, -1), "sparse": sp.csr_array(X.reshape(12, -1)),
    }  # fmt: skip
    kernel = NestedHistogramKernel(3, base="h1", width=2.0, epsilon=[0.25, 0.75])
    expected = np.array([naive.nested_scores(q, X, 3, "h1", 2.0, [0.25, 0.75]) for q in X])
    np.testing.assert_allclose(kernel.pairwise(given[form]), expected, atol=naive.SCORE_ERROR)
    np.testing.assert_allclose(kernel.pairwise(given[form][:5], given[form][5:]), expected[:5, 5:], atol=naive.SCORE_ERROR)
    fitted = clone(kernel).fit(given[form][:4])
    np.testing.assert_allclose(pickle.loads(pickle.dumps(fitted)).transform(given[form]), expected[:, :4], atol=naive.SCORE_ERROR)
    np.testing.assert_allclose(clone(kernel).fit_transform(given[form]), expected, atol=naive.SCORE_ERROR)


def test_kernel_matrices_and_rows_in_pipelines() -> None:
    """A support vector machine learns from the matrix, and hashes of the rows are shared as often as the rows' similarity says."""
    images = pictures()[:60]
    bright = images.mean(axis=(1, 2, 3)) > np.median(images.mean(axis=(1, 2, 3)))
    machine = make_pipeline(NestedHistogramKernel(2), SVC(kernel="precomputed", C=100))
    assert machine.fit(images[:40], bright[:40]).score(images[40:], bright[40:]) > 0.7
    rows = NestedHistogramKernel(3, output="rows").fit_transform(images)
    mapped = make_pipeline(NestedHistogramKernel(3, output="rows"), GCWSFeatures(n_samples=4096, random_state=1)).fit_transform(images)
    dense = rows.toarray().astype(np.float64)
    similarity = np.array([naive.dense_scores("ngmm", q, dense) for q in dense])
    assert np.abs((mapped @ mapped.T).toarray() - similarity).max() < 0.05


def test_what_a_kernel_of_images_refuses() -> None:
    """Parameters, images and matrices that cannot be taken are refused with the library's words."""
    for made, X, text in (
        (NestedHistogramKernel(5), pictures()[:2], "levels is a whole number from 1 to 4"),
        (NestedHistogramKernel(base="l2"), pictures()[:2], "base is one of"),
        (NestedHistogramKernel(output="codes"), pictures()[:2], "output is one of kernel, rows"),
        (NestedHistogramKernel(2), np.ones((2, 512)), "dimension 2048"),
        (NestedHistogramKernel(2), [b"no image"], "no PNG, JPEG or WebP"),
    ):
        with pytest.raises(kinbin.InvalidInput, match=text):
            made.fit(X)


def counted(text: str, q: int, ends: bool, position: int | None) -> Counter[Any]:
    """The q-grams of a string, by the definition."""
    marked = "\0" * (q - 1) * ends + text + "\0" * (q - 1) * ends
    return Counter((q, marked[i : i + q], position and i // position) for i in range(len(marked) - q + 1))


STRINGS = ["a", "banana", "bananas", "日本語日本", "ab" * 40, "x\U0001f600y", "abcabcabd"]


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("position", [None, 1, 4])
@pytest.mark.parametrize("q", [1, 3, (1, 2, 3)])
def test_counts_are_those_of_the_definition(q: Any, position: int | None, ends: bool) -> None:
    """Every string has its q-grams as often as it holds them, and two strings share those that both hold."""
    counts = QGramFeatures(q, ends=ends, position=position).fit_transform(STRINGS)
    sizes = q if isinstance(q, tuple) else (q,)
    expected = [sum((counted(text, one, ends, position) for one in sizes), Counter()) for text in STRINGS]
    assert counts.shape == (len(STRINGS), 2**20)
    assert counts.has_sorted_indices
    for i, own in enumerate(expected):
        assert sorted(counts[[i]].data.tolist()) == sorted(own.values())
        for j, other in enumerate(expected):
            shared = np.minimum(counts[[i]].toarray(), counts[[j]].toarray()).sum()
            assert shared == (own & other).total()


def test_similar_strings_have_similar_counts(rng: np.random.Generator) -> None:
    """The q-gram lemma: d edits leave a min-max similarity of (n - q d) / (n + q d), n the q-grams of the longer string."""
    for _ in range(60):
        one = "".join(rng.choice(list("abcd"), rng.integers(5, 40)))
        other = list(one)
        for _ in range(rng.integers(1, 4)):
            place = rng.integers(0, len(other))
            other[place : place + rng.integers(0, 2)] = rng.choice(["", "x", "a"])
        distance = levenshtein(one, "".join(other))
        counts = QGramFeatures(3, n_features=4096).transform([one, "".join(other)]).toarray()
        n = max(len(one), len("".join(other))) + 2
        assert np.minimum(*counts).sum() / np.maximum(*counts).sum() >= (n - 3 * distance) / (n + 3 * distance) - 1e-6


@pytest.mark.parametrize(
    ("made", "X", "text"),
    [
        (QGramFeatures(0), ["a"], "q"), (QGramFeatures(17), ["a"], "q is a number from 1 to 16"),
        (QGramFeatures((2, 2)), ["a"], "different"),
        (QGramFeatures(position=0), ["a"], "position"), (QGramFeatures(n_features=2**31), ["a"], "at most 2147483647"),
        (QGramFeatures(ends=cast("bool", 1)), ["a"], "ends is true or false"), (QGramFeatures(), [""], "at least one character"),
        (QGramFeatures(), [3], "a string is expected"), (QGramFeatures(), "abc", "put a single string into a list"),
    ],
)  # fmt: skip
def test_what_is_no_string_is_refused(made: QGramFeatures, X: Any, text: str) -> None:
    """Parameters out of their ranges, and objects that are no strings, are refused with the library's words."""
    with pytest.raises(kinbin.InvalidInput, match=text):
        made.fit(X).transform(X)
