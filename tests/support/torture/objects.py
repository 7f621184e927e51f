"""Kills of whoever stores strings, series, point sets and images, at any moment; and what is left of them."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
import naive
import naive_objects
import naive_strings
from crashing_objects import KINDS, objects_of, stored_after
from nursery import Nursery
from pooled import pools_at_once
from torture.crashes import Verdicts

__all__ = ["findings", "object_campaign"]

_OF_ONE = 20
"""Kills of one database; then another one is made, for looking at it takes longer and longer."""
_LOOKED_AT = 10
"""Kills between looks at everything: all checksums, all distances; the pool indexes are made anew then."""
_ELSEWHERE = 999_999
"""The step whose objects nobody stores: they are asked for."""


def counts(pixels: Any) -> NDArray[np.float32]:
    """(2, 2, 512) of an image, by the definition: cell i of a side begins with pixel ⌊i n / 2⌋."""
    out = np.zeros((2, 2, 512), np.float32)
    for (y, x), _ in np.ndenumerate(pixels[..., 0]):
        r, g, b = (int(value) // 32 for value in pixels[y, x])
        # The first cell has ⌊n / 2⌋ pixels.
        out[int(y >= pixels.shape[0] // 2), int(x >= pixels.shape[1] // 2), r * 64 + g * 8 + b] += 1
    return out


def _told(kind: str, there: Any) -> Any:
    """What comes back of an object, so that == compares it to the bit."""
    return there if kind == "strings" else (there.dtype.str, there.size if kind == "images" else there.shape, there.tobytes())


@cache
def _kept(kind: str, name: str) -> Any:
    """What has to come back of the object of an id."""
    number, place = map(int, name.split("-"))
    given = objects_of(kind, number)[place]
    return _told(kind, counts(given) if kind == "images" else given)


def contents(collection: kinbin.Collection, kind: str) -> dict[str, Any]:
    """All objects by id, to be compared by ==."""
    found: dict[str, Any] = {}
    after = None
    while True:
        page = collection.scroll(after, limit=1_000, include=("vector",))
        found |= {item.id: _told(kind, item.object if item.vector is None else item.vector) for item in page.items}
        after = page.next
        if after is None:
            return found


_TRUE: dict[str, Callable[[Any, list[Any]], Any]] = {
    "strings": naive_strings.distances,
    "series": lambda query, stored: [naive_objects.dtw(query[:, None], one[:, None], 0.5) for one in stored],
    "points": lambda query, stored: [naive_objects.hausdorff(query, one) for one in stored],
    "images": lambda query, stored: naive.nested_scores(counts(query), np.array([counts(one) for one in stored]), levels=2),
}
"""Distances or scores of a query and stored objects, by their slow twins."""


def findings(collection: kinbin.Collection, expected: dict[str, Any], kind: str = "strings") -> list[str]:
    """Every way in which a collection is not what it should be."""
    out = [*collection.check().problems]
    if collection.count() != len(expected):
        out.append(f"{collection.count()} items, not {len(expected)}")
    if expected:
        query = objects_of(kind, _ELSEWHERE)[3]
        turn = -1.0 if kind == "images" else 1.0
        true = turn * np.sort(turn * np.asarray(_TRUE[kind](query, list(expected.values()))))[:5]
        answer = collection.query(query, k=5, mode="exact")
        if answer.scores.shape != true.shape or not np.allclose(answer.scores, true, rtol=0, atol=1e-6):
            out.append(f"answered {answer.scores.tolist()}, not {true.tolist()}")
        walked = collection.query(query, k=5, mode="links")
        if not set(walked.ids) <= expected.keys() or (turn * np.diff(walked.scores) < 0).any():
            out.append(f"a pool answered {walked.ids}, {walked.scores.tolist()}")
    return out


def object_campaign(nursery: Nursery, work: Path, seed: int, kills: int, *, late: bool = False, seconds: float = 1e9) -> Verdicts:
    """Kill a process that stores objects of all kinds so many times; after each what was acknowledged has to be there, and no step half.

    The first that is wrong ends it.

    seed: of the moments. late: a planted bug, see `crashing_objects.work`.
    """
    rng, out, began, steps = random.Random(seed), Verdicts(), time.monotonic(), 0
    with pools_at_once():
        for first in range(0, kills, _OF_ONE):
            folder, done = work / f"objects-{first}", 0
            with kinbin.open(folder) as database:
                for kind, configuration in KINDS.items():
                    database.create_collection(kind, **configuration, seed=3)
            last = min(kills, first + _OF_ONE)
            for kill in range(first, last):
                how = "after three steps" if kill % 2 else "as soon as it is open"
                done, wrong = _killed(nursery, folder, rng, (done, 3 * (kill % 2)), late)
                if not wrong:
                    done, wrong = _looked_at(folder, done, whole=kill % _LOOKED_AT == _LOOKED_AT - 1 or kill == last - 1)
                out.add(f"seed {seed}, kill {kill}, {how}, step {done}", wrong, how)
                if wrong or time.monotonic() - began > seconds:
                    return out
            steps += done
            shutil.rmtree(folder)
    if steps <= kills:
        out.add(f"seed {seed}", f"the children did too little to prove anything: {steps} steps", "at the end")
    return out


def _killed(nursery: Nursery, folder: Path, rng: random.Random, told: tuple[int, int], late: bool) -> tuple[int, str]:
    """Kill one child. told: the step to begin at, and how many are awaited. Returns the steps acknowledged, and what is wrong."""
    done, awaited = told
    child = nursery.start("crashing_objects:work", str(folder), done, late)
    # However little it has done, or after some steps, on any machine.
    acknowledged = [child.receive() for _ in range(1 + awaited)][1:]
    time.sleep(rng.uniform(0.002, 0.08))
    child.kill()
    done = max([done, *(number + 1 for number in (*acknowledged, *child.rest()))])
    status = child.wait()
    return done, "" if status == -9 else f"it ended by itself: {status}"


def _looked_at(folder: Path, done: int, whole: bool) -> tuple[int, str]:
    """The steps that are done, one more perhaps than was acknowledged, and what is wrong. whole: everything is looked at."""
    with kinbin.open(folder) as database:
        there = {kind: contents(database.collection(kind), kind) for kind in KINDS}
        more = next((more for more in (0, 1) if all(there[kind] == _after(kind, done + more) for kind in KINDS)), None)
        if more is None:
            sizes = {kind: (len(there[kind]), len(_after(kind, done))) for kind in KINDS if there[kind] != _after(kind, done)}
            return done, f"lost or half done: items that are there and that should be: {sizes}"
        done += more
        if not whole:
            return done, ""
        for kind in KINDS:
            collection, expected = database.collection(kind), stored_after(_steps(kind, done), kind)
            wrong = findings(collection, expected, kind)
            if not wrong and kind != "images":
                # The children extend the index that is made here, if they live long enough.
                collection.link()
                wrong = findings(collection, expected, kind)
                if (covered := collection.stats()["pools"]["covered"]) != len(expected):
                    wrong.append(f"{covered} objects are covered, not {len(expected)}")
            if wrong:
                return done, f"{kind}: damaged: {wrong[:3]}"
    return done, ""


def _steps(kind: str, done: int) -> int:
    """How many of the first steps are the kind's."""
    place = list(KINDS).index(kind)
    return len(range(place, done, len(KINDS)))


def _after(kind: str, done: int) -> dict[str, Any]:
    return {name: _kept(kind, name) for name in stored_after(_steps(kind, done), kind)}
