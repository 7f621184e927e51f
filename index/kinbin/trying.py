"""Tuning before anything is built: a collection is made of the vectors in a temporary directory, asked, and removed."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from typing import Any

from kinbin.database import open as open_database
from kinbin.errors import InvalidInput
from kinbin.tuning.records import Tuning

__all__ = ["tune"]


def tune(
    vectors: Any, k: int = 10, target_recall: float = 0.9, *, sample: int = 200, seed: int = 0,
    choices: Iterable[tuple[int, int]] | None = None, link: bool = False, cancel: threading.Event | None = None,
    **options: Any,
) -> Tuning:  # fmt: skip
    """What bands, and walks, would find and take in a collection of these vectors. See `Collection.tune`.

    vectors: what `Collection.add` takes, (n, d) array, scipy CSR, or n vectors or objects. They stand for all: neighbours are looked for
    among them, and times are those of so many rows. Where they are a part of what will be stored, neighbours will be nearer, recall
    as good or better, and postings as many more. link: build links as well, so that `walks` are told. options: of
    `Database.create_collection`, as kernel, items, parameters, sampler; dim None: sparse, but of a NumPy array its width.

    Cost: adding and merging (50 µs a vector), linking if asked for (60 to 90 µs a vector), and `Collection.tune`; twice the vectors' bytes
    on disk, where temporary files go (TMPDIR), until it returns.

    Raises:
        InvalidInput: a vector, an option or a parameter is malformed, or items are not hashed. StorageError. SearchCancelled.
    """
    shape = getattr(vectors, "shape", None)
    if shape is None and not hasattr(vectors, "__len__"):
        raise InvalidInput.of("bad_parameter", "vectors are a matrix, or a list of vectors or objects", field="vectors")
    count = int(shape[0]) if shape else len(vectors)
    if shape is not None and len(shape) == 2 and not hasattr(vectors, "indptr") and options.get("dim") is None:
        options["dim"] = int(shape[1])
    with tempfile.TemporaryDirectory(prefix="kinbin-tune-") as path, open_database(path) as database:
        collection = database.create_collection("tuned", **options)
        collection.add([str(place) for place in range(count)], vectors)
        if link:
            collection.link()
        else:
            collection.compact()
        return collection.tune(k, target_recall, sample=sample, seed=seed, choices=choices, cancel=cancel)
