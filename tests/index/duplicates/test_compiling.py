"""Kernels of duplicates are compiled ahead of need."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import kinbin
from kinbin.native.specialisations import known, requested


def test_a_warm_up_knows_every_kernel(db: kinbin.Database, tmp_path: Path) -> None:
    """What duplicates of dense and of sparse items, and of texts, call is in the table of what a warm-up compiles."""
    X = np.repeat(np.random.default_rng(0).random((150, 8)), 2, axis=0)
    X[::2, 0] += 1e-3
    for dim in (8, None):
        collection = db.create_collection(f"c{dim or 0}", dim=dim)
        collection.add([str(i) for i in range(300)], X if dim else [dict(enumerate(row.tolist())) for row in X])
        for form in ("pairs", "clusters"):
            assert len(list(collection.duplicates(0.9, form))) >= 100
    for number, shingler in enumerate((kinbin.Shingler(words=2), kinbin.Shingler(characters=4))):
        with kinbin.TextDuplicates(tmp_path / str(number), shingler=shingler) as job:
            job.add([*(f"text {i} of é {i % 7}" for i in range(300)), "text 1 of é 1"])
            assert job.finish().kept <= 300
    table = {(one.module, one.kernel, one.arguments) for one in known()}
    called = [one for one in requested("", []) if one.module.startswith("kinbin.duplicates") and not one.inner]
    assert len(called) >= 6
    assert {(one.module, one.kernel, one.arguments) for one in called} <= table
