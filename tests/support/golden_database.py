"""The database that each format's release leaves behind for ever: how it is made, and what it must answer.

    python tests/support/golden_database.py tests/data      writes format_v<N>.tar.xz and format_v<N>.json

It is written once for a format, by the first release that has it, and never again: old files must open.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
from kinbin.storage.format import FORMAT_VERSION

COLLECTIONS: dict[str, dict[str, Any]] = {
    "dense": {"kernel": "ngmm", "dim": 16, "sampler": "gcws", "seed": 1},
    "sparse": {"kernel": "ngmm", "dim": None, "sampler": "dart", "bands": 8, "rows": 2, "seed": 2},
    "counts": {"kernel": "minmax", "dim": None, "sampler": "gcws", "bands": 8, "rows": 1, "seed": 3},
    "signed": {"kernel": "gmm", "dim": 100_000, "sampler": "gcws", "bands": 6, "rows": 2, "seed": 2**64 - 1},
    "shares": {"kernel": "gint", "dim": 8, "sampler": "dart", "bands": 12, "rows": 1, "seed": 5},
}
ITEMS = 80
QUERIES = 6


def vectors(name: str) -> list[dict[int, float]]:
    """The vectors of a collection: eighths, so that they are exact in every form."""
    config = COLLECTIONS[name]
    rng = np.random.default_rng(config["seed"])
    features = config["dim"] or 2**62
    out = []
    for _ in range(ITEMS):
        size = int(rng.integers(1, 9))
        # A few common features, so that rows have neighbours, and some of the whole range.
        ids = {int(f) for f in rng.integers(0, min(features, 12), size)} | {int(rng.integers(0, features))}
        sign = -1 if config["kernel"] in ("gmm", "ngmm", "gint") else 1
        out.append({f: float(rng.integers(1, 200)) / 8 * (sign if rng.random() < 0.3 else 1) for f in sorted(ids)})
    out[9] = dict(out[8])
    return out


def build(folder: Path) -> None:
    """Make the database: runs, a journal, dead rows in both, identical vectors, payloads, a collection for every kernel."""
    with kinbin.open(folder) as database:
        for name, config in COLLECTIONS.items():
            collection = database.create_collection(name, **config)
            rows = vectors(name)
            ids = [f"{name}-{i:02}" for i in range(ITEMS)]
            payloads = [None if i % 3 else {"number": i, "text": "ü" * (i % 4), "list": [1, 2.5, None, True]} for i in range(ITEMS)]
            collection.add(ids[:50], rows[:50], payloads[:50])
            collection.compact()
            collection.add(ids[40:50], rows[50:60], payloads[40:50])
            collection.add(ids[60:], rows[60:], payloads[60:])
            collection.delete([ids[3], ids[61]])


def expectations(folder: Path) -> dict[str, Any]:
    """What the database holds and answers, as JSON."""
    out: dict[str, Any] = {}
    with kinbin.open(folder) as database:
        for name, config in COLLECTIONS.items():
            collection = database.collection(name)
            items = collection.scroll(limit=1000, include=("vector", "payload")).items
            queries = vectors(name)[:QUERIES]
            answers = collection.query_batch(queries, k=4, mode="exact")
            out[name] = {
                "configuration": {**config, "seed": str(config["seed"])},
                "count": collection.count(),
                "runs": [run["rows"] for run in collection.stats()["runs"]],
                "fresh": collection.stats()["fresh_rows"],
                "items": {item.id: [nonzeros(item.vector), item.payload] for item in items},
                "answers": [
                    {"query": sorted(query.items()), "ids": answer.ids, "scores": [round(float(score), 9) for score in answer.scores]}
                    for query, answer in zip(queries, answers, strict=True)
                ],
            }
    return out


def nonzeros(vector: Any) -> list[list[float]]:
    """[feature, value] of a vector's nonzeros."""
    if isinstance(vector, kinbin.Sparse):
        return [[int(f), float(v)] for f, v in zip(np.asarray(vector.indices), np.asarray(vector.values), strict=True)]
    return [[int(f), float(vector[f])] for f in np.flatnonzero(vector)]


def pack(folder: Path) -> bytes:
    """The database's data files as a tar, without times or owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for file in sorted(folder.rglob("data.mdb")):
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                archive.addfile(entry, content)
    return buffer.getvalue()


def write(target: Path) -> None:
    """Write the golden database of this format, unless there is one."""
    archive, answers = (target / f"format_v{FORMAT_VERSION}.{ending}" for ending in ("tar.xz", "json"))
    if archive.exists():
        raise SystemExit(f"{archive} is there: it is never written again")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        build(Path(place))
        packed = pack(Path(place))
        archive.write_bytes(packed)
        known = {"sha256": hashlib.sha256(packed).hexdigest(), "collections": expectations(Path(place))}
        answers.write_text(json.dumps(known, indent=None, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
