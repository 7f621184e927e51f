"""Strings as counts of their q-grams."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from kinbin.errors import InvalidInput
from kinbin.items.kind import Form
from kinbin.items.strings import STRINGS
from kinbin.parameters import arrived, whole

__all__ = ["QGramFeatures"]

_MOST_Q = 16
_MOST_FEATURES = 2**31 - 1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


class QGramFeatures(TransformerMixin, BaseEstimator):
    """Counts of all pieces of q characters, hashed into columns: min-max kernels of them follow edit distances.

    With end marks a string of n characters has n + q − 1 q-grams, of which one edit changes q at most. So strings that are d edits apart
    have a min-max similarity of (n − q d) / (n + q d) at least, n the number of q-grams of the longer one (Ukkonen 1992, "Approximate
    string-matching with q-grams and maximal matches"). Columns that two q-grams share only make strings more similar.

    Parameters:
        q: characters a piece, 1 to 16; or several numbers, whose pieces are counted side by side.
        ends: whether q − 1 marks are put before and behind each string, which no character is. Without, strings shorter than q have
            no pieces.
        position: None: pieces count wherever they are. A number p: place // p is part of a piece, so that equal pieces that are far from
            each other do not match, nor do some that are near.
        n_features: columns. dtype: of the counts.

    Nothing is learned in `fit`. Characters are code points, as they came. Cost: 0.1 µs a character and q.
    """

    def __init__(
        self,
        q: int | Sequence[int] = 3,
        *,
        ends: bool = True,
        position: int | None = None,
        n_features: int = 2**20,
        dtype: Any = np.float32,
    ) -> None:
        self.q = q
        self.ends = ends
        self.position = position
        self.n_features = n_features
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> QGramFeatures:  # noqa: ARG002
        """Check the parameters."""
        self._sizes()
        return self

    def _sizes(self) -> list[int]:
        sizes = [whole("q", one) for one in (self.q if isinstance(self.q, Sequence | np.ndarray) else [self.q])]
        if not sizes or max(sizes) > _MOST_Q or len(set(sizes)) < len(sizes):
            raise InvalidInput.of("bad_parameter", f"q is a number from 1 to {_MOST_Q}, or several different ones", field="q")
        if self.position is not None:
            whole("position", self.position)
        if whole("n_features", self.n_features) > _MOST_FEATURES:
            raise InvalidInput.of("bad_parameter", f"n_features is at most {_MOST_FEATURES}", field="n_features")
        if not isinstance(self.ends, bool):
            raise InvalidInput.of("bad_parameter", f"ends is true or false, not {arrived(self.ends)}", field="ends")
        return sizes

    def transform(self, X: Any) -> sp.csr_array:
        """(n strings) → CSR (n, n_features) of counts, columns ascending.

        Raises:
            InvalidInput: an object is no string that a collection of strings would take.
        """
        sizes = self._sizes()
        strings = STRINGS.rows(X, Form())
        lengths, n = np.diff(strings.indptr), len(strings)
        codes = strings.values.astype(np.uint64)
        owners, columns = [], []
        for q in sizes:
            owner, place, hashed = _pieces(codes, lengths, q, q - 1 if self.ends else 0)
            if self.position is not None:
                hashed = _mixed(hashed, (place // self.position).astype(np.uint64))
            owners.append(owner)
            columns.append((_mixed(hashed, np.uint64(q)) % np.uint64(self.n_features)).astype(np.int64))
        owner, column = np.concatenate(owners), np.concatenate(columns)
        counts = sp.coo_array((np.ones(len(owner), self.dtype), (owner, column)), shape=(n, self.n_features)).tocsr()
        counts.sum_duplicates()
        return counts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags


def _mixed(hashed: NDArray[np.uint64], more: Any) -> NDArray[np.uint64]:
    mixed: NDArray[np.uint64] = (hashed ^ more) * _MIX
    return mixed ^ (mixed >> _SHIFT)


def _pieces(
    codes: NDArray[np.uint64], lengths: NDArray[np.int64], q: int, marks: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
    """Of every piece of q characters: whose it is, where it begins in its string (from 0, marks counted), and its hash.

    codes: of all strings end to end, none 0, which is the mark. marks: before and behind each string.
    """
    padded = lengths + 2 * marks
    starts = np.cumsum(padded) - padded
    text = np.zeros(int(padded.sum()), np.uint64)
    own = np.repeat(starts + marks - (np.cumsum(lengths) - lengths), lengths)
    text[own + np.arange(len(codes))] = codes
    counts = np.maximum(padded - q + 1, 0)
    owner = np.repeat(np.arange(len(lengths)), counts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = starts[owner] + place
    hashed = np.zeros(len(owner), np.uint64)
    for x in range(q):
        hashed = _mixed(hashed, text[begin + x] + np.uint64(1))
    return owner, place, hashed
