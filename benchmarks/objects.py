"""Strings: nearest and within some edits, against scans by rapidfuzz; durable adds; one thread."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
from common import K, Options, Skipped, data_set, ids_of, interleaved, run, spread
from report import paragraphs, table

TARGETS = (0.9, 0.95, 0.99)
EDITS = (2, 3)
LETTERS = 25
"""Ranges are asked for strings of so many letters and more."""
BATCH = 1_000
ALONE, MANY, SLOW = 200, 200, 5
"""Queries that are timed one by one, in a batch, and of a scan that takes long."""


def chain_codes(_rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Contours of digits as steps in eight directions."""
    data = data_set("mnist_chaincode")
    return [[one for one in bytes(data[f"{part}_text"]).decode().split("\n") if one] for part in ("train", "test")]  # type: ignore[return-value]


def words(rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Different words of messages, some of which are asked for."""
    data = data_set("news20_text")
    known = sorted(set(re.findall(r"[a-z]{2,}", bytes(data["train_text"]).decode().lower())))
    mixed = [known[i] for i in rng.permutation(len(known))]
    return mixed[:50_000], mixed[50_000:]


SETS = {"mnist_chaincode": chain_codes, "words of news20_text": words}


def measure(options: Options) -> dict[str, Any]:
    """Every set."""
    kinbin.warm_up()
    kinbin.set_threads(1)
    return {"sets": [_measure(name, *read(np.random.default_rng(0)), options) for name, read in SETS.items()]}


def _measure(name: str, stored: list[str], others: list[str], options: Options) -> dict[str, Any]:
    stored, others = stored[: options.pick(len(stored), 3_000)], others[: options.pick(ALONE, 40)]
    folder = options.cache / f"objects-{name.replace(' ', '-')}-{len(stored)}"
    built = folder / "built.json"
    if not built.exists():
        # What was built is kept, so that times can be measured again without building.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        built.write_text(json.dumps(_fill(folder, stored)), encoding="utf-8")
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        pools = collection.stats()["pools"]
        told: dict[str, Any] = json.loads(built.read_text(encoding="utf-8"))
        return told | {
            "name": name, "rows": len(stored), "queries": len(others), "letters": float(np.median([len(one) for one in stored])),
            "embedding": pools["embedding"], "tried": pools["tried"], "nearest": _nearest(collection, stored, others, options),
            "ranges": _ranges(collection, stored, options),
        }  # fmt: skip


def _fill(folder: Path, stored: list[str]) -> dict[str, float]:
    """A collection with a pool index: strings a second that were added, and what making the index took."""
    with kinbin.open(folder) as database:
        collection = database.create_collection("c", items="strings", distance="levenshtein", seed=0)
        started = time.perf_counter()
        for first in range(0, len(stored), BATCH):
            part = stored[first : first + BATCH]
            collection.add(ids_of(first, first + len(part)), part)
        added = len(stored) / (time.perf_counter() - started)
        started = time.perf_counter()
        collection.link()
        return {"adds": added, "linked": time.perf_counter() - started}


def _nearest(collection: kinbin.Collection, stored: list[str], asked: list[str], options: Options) -> list[dict[str, Any]]:
    """Lines of systems: recall, and ms a query alone and in a batch."""
    process, distance = _rapidfuzz()
    true = collection.query_batch(asked, k=K, mode="exact").scores
    few = asked[:SLOW]
    alone: dict[str, tuple[int, Callable[[], object]]] = {
        f"Kinbin, target {target}": (len(asked), lambda target=target: [collection.query(one, k=K, target_recall=target) for one in asked])  # type: ignore[misc]
        for target in TARGETS
    }
    alone["Kinbin, exact"] = SLOW, lambda: [collection.query(one, k=K, mode="exact") for one in few]
    alone["rapidfuzz cdist"] = SLOW, lambda: [process.cdist([one], stored, scorer=distance) for one in few]
    alone["rapidfuzz extract"] = SLOW, lambda: [process.extract(one, stored, scorer=distance, limit=K) for one in few]
    alone["rapidfuzz extract, the right cutoff"] = (
        SLOW,
        lambda: [
            process.extract(one, stored, scorer=distance, limit=K, score_cutoff=int(kth))
            for one, kth in zip(few, true[:, -1], strict=False)
        ],
    )
    many: dict[str, Callable[[], Any]] = {
        f"Kinbin, target {target}": lambda target=target: collection.query_batch(asked, k=K, target_recall=target)  # type: ignore[misc]
        for target in TARGETS
    }
    some = asked[:30]
    many["rapidfuzz cdist"] = lambda: process.cdist(some, stored, scorer=distance)
    recalls = {name: float((many[name]().scores <= true[:, -1:]).mean()) for name in many if name.startswith("Kinbin")}
    singles = interleaved({name: call for name, (_, call) in alone.items()}, options.rounds(3))
    batches = interleaved(many, options.rounds(3))
    counts = {name: 30 if name == "rapidfuzz cdist" else len(asked) for name in many}
    return [
        {
            "system": name, "recall": recalls.get(name, 1.0), "alone_ms": spread([one / count * 1e3 for one in singles[name]]),
            "batch_ms": spread([one / counts[name] * 1e3 for one in batches[name]]) if name in batches else None,
        }
        for name, (count, _) in alone.items()
    ]  # fmt: skip


def _ranges(collection: kinbin.Collection, stored: list[str], options: Options) -> list[dict[str, Any]]:
    """Lines of distances: all within them of strings that are so far from stored ones."""
    process, distance = _rapidfuzz()
    rng = np.random.default_rng(1)
    long = [one for one in stored if len(one) >= LETTERS]
    lines = []
    for edits in EDITS if len(long) > len(stored) // 2 else ():
        asked = [_edited(long[i], edits, rng) for i in rng.integers(0, len(long), options.pick(ALONE, 40))]
        found = [collection.query(one, k=1_000, max_distance=edits) for one in asked]
        slow = [process.extract(one, stored, scorer=distance, score_cutoff=edits, limit=None) for one in asked[:SLOW]]
        if [len(one) for one in slow] != [len(one) for one in found[:SLOW]]:
            raise RuntimeError("a range is not complete")
        seconds = interleaved(
            {
                "ours": lambda asked=asked, edits=edits: [collection.query(one, k=1_000, max_distance=edits) for one in asked],  # type: ignore[misc]
                "theirs": lambda asked=asked, edits=edits: [  # type: ignore[misc]
                    process.extract(one, stored, scorer=distance, score_cutoff=edits, limit=None) for one in asked[:SLOW]
                ],
            },
            options.rounds(3),
        )
        lines.append(
            {
                "edits": edits, "found": _mean([len(one) for one in found]), "verified": _mean([one.verified for one in found]),
                "bound": min(one.recall_lower_bound or 0.0 for one in found),
                "ours_ms": spread([one / len(asked) * 1e3 for one in seconds["ours"]]),
                "theirs_ms": spread([one / SLOW * 1e3 for one in seconds["theirs"]]),
            }
        )  # fmt: skip
    return lines


def _mean(counts: list[int]) -> float:
    return float(np.mean(counts))


def _edited(text: str, edits: int, rng: np.random.Generator) -> str:
    """A string with so many characters replaced, left out or put in."""
    out = list(text)
    for _ in range(edits):
        place, letter = int(rng.integers(len(out))), text[rng.integers(len(text))]
        out[place : place + int(rng.integers(2))] = [letter] * int(rng.integers(2))
    return "".join(out)


def _rapidfuzz() -> tuple[Any, Any]:
    try:
        from rapidfuzz import process
        from rapidfuzz.distance import Levenshtein
    except ImportError:
        raise Skipped("rapidfuzz is not installed: make bench installs it") from None
    return process, Levenshtein.distance


def render(result: dict[str, Any]) -> str:
    """Two tables a set."""
    return paragraphs(*(_render(one) for one in result["sets"]))


def _render(one: dict[str, Any]) -> str:
    best = min(line["alone_ms"]["median"] for line in one["nearest"] if "rapidfuzz" in line["system"] and "cutoff" not in line["system"])
    header = ("the ten nearest", "recall", "ms a query alone", "the best scan, times", "ms a query of a batch")
    lines: Sequence[Sequence[object]] = [
        (
            line["system"], line["recall"], line["alone_ms"]["median"], best / line["alone_ms"]["median"],
            None if line["batch_ms"] is None else line["batch_ms"]["median"],
        )
        for line in one["nearest"]
    ]  # fmt: skip
    tried = ", ".join(f"{name} {recall}" for name, recall in one["tried"].items())
    text = (
        f"**{one['name']}**: {one['rows']:,} strings of {one['letters']:.0f} characters in the median, {one['queries']} queries that are "
        f"not stored. "
        f"Durable adds: {one['adds']:,.0f} strings/s in batches of {BATCH:,}; the pool index was made in {one['linked']:.1f} s. "
        f"Rows are {one['embedding']} (found on the sample: {tried}). The best scan is without a cutoff that nobody knows beforehand."
    )
    ranges = [
        (
            f"within {line['edits']}", line["found"], line["verified"], line["bound"], line["ours_ms"]["median"],
            line["theirs_ms"]["median"], line["theirs_ms"]["median"] / line["ours_ms"]["median"],
        )
        for line in one["ranges"]
    ]  # fmt: skip
    parts = [text, table(header, lines)]
    if ranges:
        parts.append(table(("edits", "found", "scored", "bound", "Kinbin ms", "extract with cutoff ms", "times"), ranges))
    return paragraphs(*parts)


if __name__ == "__main__":
    run("objects", measure, render)
