"""Flipping bits of stored records in the files of a closed collection, and judging what comes of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
from naive_format import dump
from workload import Stored


@dataclass(frozen=True, slots=True)
class Place:
    """A stored value: in which tree, under which key, and where in data.mdb (wherever a copy of it lies)."""

    tree: str
    key: bytes
    value: bytes
    offsets: tuple[int, ...]


def places(folder: Path) -> list[Place]:
    """Every value of a closed collection that is long enough to be told from others, with its place in the file."""
    data = (folder / "data.mdb").read_bytes()
    out = []
    for tree, pairs in dump(folder).items():
        for key, value in pairs:
            offsets, start = [], data.find(value)
            while start >= 0:
                offsets.append(start)
                start = data.find(value, start + 1)
            assert offsets, "every value lies in one piece in the file"
            out.append(Place(tree, key, value, tuple(offsets)))
    return out


def part_of(place: Place) -> str:
    """What a value is, in a word: the tree, for `meta` the key, for `runs` the part."""
    if place.tree == "runs":
        return f"runs {chr(place.key[4])}"
    return place.key.decode() if place.tree == "meta" else place.tree


def flipped_copy(source: Path, target: Path, place: Place, bits: list[int]) -> None:
    """A copy of a closed database with some bits of one value flipped, in all copies of it."""
    shutil.copytree(source, target)
    file = target / "collections" / "c" / "data.mdb"
    data = bytearray(file.read_bytes())
    for offset in place.offsets:
        for bit in bits:
            data[offset + (bit >> 3)] ^= 1 << (bit & 7)
    file.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a damaged database does: `wrong` answers, `refused` uses, and what check finds."""

    wrong: list[str]
    refused: list[str]
    missing: list[str]
    """Stored items that were left out of an answer without a word."""
    problems: list[str]


def judge(connection: Connection, expected: Stored, kernel: np.ndarray[Any, Any]) -> None:
    """For each path: use a damaged database in every way and send the verdict. kernel: exact scores, (n, n), in the order of expected."""
    while True:
        try:
            path = connection.recv()
        except EOFError:
            return
        connection.send(_verdict(path, expected, kernel))


def _verdict(path: str, expected: Stored, kernel: np.ndarray[Any, Any]) -> Verdict:
    out = Verdict([], [], [], [])
    names = list(expected)
    place = {name: i for i, name in enumerate(names)}
    try:
        with kinbin.open(path) as database:
            collection = database.collection("c")
            collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
            _judge_reads(collection, expected, out)
            for i, name in enumerate(names):
                for mode in ("bands", "exact"):
                    try:
                        answer = collection.query(expected[name][0], k=3, mode=mode)
                    except kinbin.KinbinError as error:
                        out.refused.append(f"query: {type(error).__name__}")
                        continue
                    if any(found not in place for found in answer.ids):
                        out.wrong.append(f"{mode}: unknown ids {answer.ids}")
                    elif not np.allclose(answer.scores, [kernel[i, place[found]] for found in answer.ids], rtol=0, atol=1e-5):
                        out.wrong.append(f"{mode}: {name}: wrong scores")
                    elif name not in answer.ids:
                        out.missing.append(name)
            out.problems.extend(collection.check().problems)
            for edit in (
                lambda: collection.add(
                    names[:3], np.array([expected[name][0] for name in names[:3]]), [expected[name][1] for name in names[:3]]
                ),
                lambda: collection.add(["new"], expected[names[5]][0][None]),
                lambda: collection.delete([names[7]]),
                collection.compact,
            ):
                try:
                    edit()
                except kinbin.KinbinError as error:
                    out.refused.append(f"edit: {type(error).__name__}")
    except kinbin.KinbinError as error:
        out.refused.append(f"open: {type(error).__name__}")
        out.problems.append(str(error))
    return out


def _judge_reads(collection: Any, expected: Stored, out: Verdict) -> None:
    """get, scroll and count against what was stored."""
    for name, (vector, payload) in expected.items():
        try:
            (item,) = collection.get([name])
        except kinbin.KinbinError as error:
            out.refused.append(f"get: {type(error).__name__}")
            continue
        if item is None or not np.array_equal(item.vector, vector) or item.payload != payload:
            out.wrong.append(f"get: {name}")
    for use, wanted in (
        (lambda: [item.id for item in collection.scroll(limit=1000).items], sorted(expected)),
        (collection.count, len(expected)),
    ):
        try:
            if use() != wanted:
                out.wrong.append("scroll or count")
        except kinbin.KinbinError as error:
            out.refused.append(f"scroll or count: {type(error).__name__}")
