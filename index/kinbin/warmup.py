"""Compiling (or loading from numba's cache) every kernel before the first request has to wait for it."""

from __future__ import annotations

import tempfile

import numpy as np

from kinbin.database import Database

__all__ = ["warm_up"]

_FEATURES = 96
"""More than a sampler's first table of parameters holds, so that it grows."""


def warm_up() -> None:
    """Use every kernel once, on a small database in a temporary directory. Cost: half a second from cache, one to two minutes compiling."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="kinbin-") as folder, Database(folder) as database:
        many = rng.random((48, _FEATURES)) + 0.01
        # Links of rows of one feature have packed codes.
        single = np.eye(48, _FEATURES)
        for name, kernel, dim, sampler, vectors in (
            ("narrow", "ngmm", _FEATURES, "gcws", many),
            ("wide", "ngmm", None, "dart", many),
            ("packed", "ngmm", None, "dart", single),
            ("plain", "gmm", None, "gcws", many),
        ):
            collection = database.create_collection(name, kernel=kernel, dim=dim, sampler=sampler, seed=0)
            collection.add([str(i) for i in range(32)], vectors[:32])
            collection.compact()
            collection.add([str(i) for i in range(24, 48)], vectors[24:])
            collection.query_batch(vectors[:2], mode="exact")
            collection.link()
            collection.delete(["3"])
            collection.add(["48"], vectors[:1] + 1.0)
            collection.link()
            for mode in ("bands", "links", "exact"):
                collection.query(vectors[0], mode=mode)
            collection.get(["0"])
            collection.check()
