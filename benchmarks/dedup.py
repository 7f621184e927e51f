"""Deduplication of documents: `kinbin dedup` and datasketch's MinHashLSH, each in a process of its own; what they find of planted pairs.

    python benchmarks/dedup_documents.py documents.ndjson --count 100000
    python benchmarks/dedup.py documents.ndjson

datasketch as text-dedup uses it: sets of word shingles, `MinHash.update_batch`, an insert and a query a document, union-find over what is
found, nothing verified; bands that find a pair at the score as surely as Kinbin's. One thread each. Memory is the peak of what is no page
cache (RssAnon). The parts of a planted pair count if their exact Jaccard similarity is at least the score.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import orjson

SCORE, WORDS = 0.8, 3
BANDS, ROWS = 20, 6
"""Of datasketch: 1 - (1 - 0.8^6)^20 = 0.998."""


def shingles(text: str) -> set[str]:
    """Of words; the documents are plain already."""
    words = text.split()
    return {" ".join(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1))}


def by_datasketch(source: Path, out: Path) -> None:
    """Write of each document the first of its cluster."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=SCORE, num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    parents: list[int] = []

    def root(one: int) -> int:
        while parents[one] != one:
            parents[one] = parents[parents[one]]
            one = parents[one]
        return one

    with source.open("rb") as file:
        for number, line in enumerate(file):
            sketch = MinHash(num_perm=BANDS * ROWS)
            sketch.update_batch([one.encode() for one in shingles(orjson.loads(line)["text"])])
            parents.append(number)
            for other in index.query(sketch):
                one, two = root(number), root(other)
                parents[max(one, two)] = min(one, two)
            index.insert(number, sketch, check_duplication=False)
    out.write_bytes(orjson.dumps([root(number) for number in range(len(parents))]))


def by_kinbin(source: Path, out: Path) -> None:
    """The same, through the command."""
    from kinbin_service.cli import app

    app(["dedup", str(source), "--mark", "--out", str(out), "--min-score", str(SCORE), "--words", str(WORDS), "--miss", "0.002"])


def measured(kind: str, source: Path, out: Path) -> dict[str, Any]:
    """Run one of them in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, __file__, str(source), "--run", kind, "--out", str(out)])
    peak = {"RssAnon": 0, "VmRSS": 0}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            try:
                lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
            except OSError:
                return
            for line in lines:
                name, _, rest = line.partition(":")
                if name in peak:
                    peak[name] = max(peak[name], int(rest.split()[0]))

    watching = threading.Thread(target=watch)
    watching.start()
    code = child.wait()
    ended.set()
    watching.join()
    assert code == 0
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "anonymous_mb": peak["RssAnon"] // 1024,
        "resident_mb": peak["VmRSS"] // 1024,
    }


def judged(source: Path, cluster: list[int]) -> dict[str, Any]:
    """What was found of the planted pairs that are near enough, and how many documents were put with others that are near nothing."""
    copies: list[tuple[int, int]] = []
    needed: set[int] = set()
    with source.open("rb") as file:
        for line in file:
            document = orjson.loads(line)
            if "copy_of" in document:
                copies.append((document["id"], document["copy_of"]))
                needed.update(copies[-1])
    texts: dict[int, set[str]] = {}
    with source.open("rb") as file:
        for number, line in enumerate(file):
            if number in needed:
                texts[number] = shingles(orjson.loads(line)["text"])
    near = found = wrong = 0
    for one, other in copies:
        score = len(texts[one] & texts[other]) / len(texts[one] | texts[other])
        if score >= SCORE:
            near += 1
            found += cluster[one] == cluster[other]
    planted = {one for pair in copies for one in pair}
    wrong = sum(first != number and number not in planted for number, first in enumerate(cluster))
    return {"near_pairs": near, "recall": round(found / max(1, near), 5), "strangers": wrong}


def main() -> None:
    """Measure both, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", choices=["kinbin", "datasketch"])
    parser.add_argument("--run", choices=["kinbin", "datasketch"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.run:
        (by_kinbin if given.run == "kinbin" else by_datasketch)(given.file, given.out)
        return
    with tempfile.TemporaryDirectory(dir=given.file.parent) as folder:
        for kind in [given.only] if given.only else ["kinbin", "datasketch"]:
            out = Path(folder) / f"{kind}.ndjson"
            told = measured(kind, given.file, out)
            if kind == "kinbin":
                with out.open("rb") as file:
                    cluster = [orjson.loads(line)["cluster"] for line in file]
            else:
                cluster = orjson.loads(out.read_bytes())
            print(json.dumps({"by": kind, "documents": len(cluster), **told, **judged(given.file, cluster)}))


if __name__ == "__main__":
    main()
