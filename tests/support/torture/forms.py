"""Collections of several forms, all used as if each item were one vector, so that one campaign and one model fit all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from workload import _ngmm

__all__ = ["FORMS", "Form", "files_of"]

Vectors = NDArray[np.float32]
_SETTINGS: dict[str, Any] = {"bands": 80, "rows": 2}
_LETTERS = 6


def files_of(folder: Path) -> list[str]:
    """The files of a collection, within its directory: what is left out may be missing."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name in ("data.mdb", "current"))


class Form:
    """A collection of one vector an item. Others change what is asked and what is answered."""

    examples = True
    """Whether queries by examples are as good as the mean of the kernel."""

    modes: tuple[str, ...] = ("exact", "bands", "links", "auto")

    def __init__(self, collection: Any) -> None:
        self.collection = collection

    def __getattr__(self, name: str) -> Any:
        """What all collections do alike."""
        return getattr(self.collection, name)

    @classmethod
    def create(cls, database: kinbin.Database, dim: int, seed: int) -> Form:
        """An empty collection "c"."""
        return cls(database.create_collection("c", dim=dim, seed=seed, **_SETTINGS))

    @staticmethod
    def kernel(vectors: Vectors) -> NDArray[np.float64]:
        """(n, n) scores, the greatest of the nearest."""
        return _ngmm(vectors)

    @property
    def parts(self) -> list[Any]:
        """What has runs and links."""
        return [self.collection]

    def asked(self, vectors: Vectors) -> Any:
        """What the collection takes in the place of a vector, or of some."""
        return vectors

    def holds(self, item: kinbin.Item, vector: Vectors) -> bool:
        """Whether an item is that of this vector."""
        return np.array_equal(np.asarray(item.vector), vector)

    def answered(self, answer: Any) -> Any:
        """An answer, or a batch of them, with the scores of `kernel`."""
        return answer

    def add(self, ids: list[str], vectors: Vectors, payloads: list[Any]) -> Any:
        """See `Collection`, as of the others."""
        return self.collection.add(ids, self.asked(vectors), payloads)

    def query(self, vector: Vectors, **options: Any) -> Any:
        """By one."""
        return self.answered(self.collection.query(self.asked(vector), **options))

    def query_batch(self, vectors: Vectors, **options: Any) -> Any:
        """By some."""
        return self.answered(self.collection.query_batch(self.asked(vectors), **options))


class _Fields(Form):
    """Two fields: what an item has in one stands turned round in the other. The mean of both kernels is that of one vector."""

    examples = False

    @classmethod
    def create(cls, database: kinbin.Database, dim: int, seed: int) -> Form:
        fields = {name: {"dim": dim, **_SETTINGS} for name in ("plain", "turned")}
        return cls(database.create_collection("c", fields=fields, seed=seed))

    @property
    def parts(self) -> list[Any]:
        return list(self.collection._fields.values())

    def asked(self, vectors: Vectors) -> Any:
        # Rows of other bytes in each field, and the same kernel of any two of them: it is a sum over features.
        return {"plain": vectors, "turned": vectors[..., ::-1]}

    def holds(self, item: kinbin.Item, vector: Vectors) -> bool:
        found = item.vectors or {}
        return all(np.array_equal(np.asarray(found.get(name)), one) for name, one in self.asked(vector).items())


class _Strings(Form):
    """A string for each vector, a letter for each number, with a pool index."""

    examples = False
    modes = ("exact", "links", "auto")

    @classmethod
    def create(cls, database: kinbin.Database, dim: int, seed: int) -> Form:
        del dim
        return cls(database.create_collection("c", items="strings", distance="levenshtein", seed=seed))

    @staticmethod
    def kernel(vectors: Vectors) -> NDArray[np.float64]:
        """Less the number of edits, of all pairs at once."""
        letters = _letters(vectors)
        n, length = letters.shape
        before = np.broadcast_to(np.arange(length + 1), (n, n, length + 1)).astype(np.int16)
        for at in range(length):
            row = np.empty_like(before)
            row[:, :, 0] = at + 1
            for other in range(length):
                differs = letters[:, None, at] != letters[None, :, other]
                cheapest = np.minimum(before[:, :, other + 1], row[:, :, other]) + 1
                row[:, :, other + 1] = np.minimum(cheapest, before[:, :, other] + differs)
            before = row
        return -before[:, :, -1].astype(np.float64)

    def asked(self, vectors: Vectors) -> Any:
        told = ["".join(chr(97 + letter) for letter in row) for row in _letters(np.atleast_2d(vectors)).tolist()]
        return told if vectors.ndim == 2 else told[0]

    def holds(self, item: kinbin.Item, vector: Vectors) -> bool:
        return bool(item.object == self.asked(vector))

    def answered(self, answer: Any) -> Any:
        return replace(answer, scores=-answer.scores)


def _letters(vectors: Vectors) -> NDArray[np.int64]:
    """(n, d) numbers of letters; the numbers of vectors lie between 0 and 1, as cubes do."""
    letters: NDArray[np.int64] = np.minimum(np.cbrt(vectors) * _LETTERS, _LETTERS - 1).astype(np.int64)
    return letters


FORMS: dict[str, type[Form]] = {"vector": Form, "fields": _Fields, "strings": _Strings}
"""By name, what to use such a collection by."""
