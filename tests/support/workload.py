"""A long history of adds, updates and deletes as a function of a seed, and what must be stored after each step.

Every item is one of a fixed set of ids of its own prefix, so that two histories never touch each other.
One vector in twelve comes from a small pool: identical vectors are stored once, whoever owns them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIM = 24
_IDS = 80
_POOL = 3

Stored = dict[str, tuple[NDArray[np.float32], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Step:
    """One call: an add of these items, or a delete of these ids."""

    delete: bool
    ids: list[str]
    vectors: NDArray[np.float32]
    payloads: list[dict[str, Any]]

    def perform(self, collection: Any) -> None:
        """Do it."""
        if self.delete:
            collection.delete(self.ids)
        else:
            collection.add(self.ids, self.vectors, self.payloads)


@dataclass
class Workload:
    """The steps of one seed and prefix; `after(n)` remembers where it was last."""

    seed: int
    prefix: str
    _states: dict[int, Stored] = field(default_factory=lambda: {0: {}})

    def step(self, number: int) -> Step:
        """Step `number`, from 0."""
        rng = np.random.default_rng([self.seed, number, *self.prefix.encode()])
        delete = bool(rng.random() < 0.25)
        size = int(rng.integers(1, 13))
        ids = [f"{self.prefix}{i:03}" for i in rng.choice(_IDS, size, replace=False)]
        vectors = (rng.random((size, DIM), np.float32) + np.float32(0.001)) ** 3
        for i in np.flatnonzero(rng.random(size) < 1 / 12):
            vectors[i] = 1.0 + np.arange(DIM) % (2 + int(rng.integers(_POOL)))
        payloads = [{"step": number, "place": i} for i in range(size)]
        return Step(delete, ids, vectors, payloads)

    def after(self, steps: int) -> Stored:
        """What is stored after so many steps."""
        known = max(number for number in self._states if number <= steps)
        stored = self._states[known]
        for number in range(known, steps):
            stored = self._apply(stored, self.step(number))
        # Crash tests look at neighbouring steps and go forward.
        self._states = {number: state for number, state in self._states.items() if number in (0, known)} | {steps: stored}
        return stored

    @staticmethod
    def _apply(stored: Stored, step: Step) -> Stored:
        out = dict(stored)
        for i, identifier in enumerate(step.ids):
            if step.delete:
                out.pop(identifier, None)
            else:
                out[identifier] = step.vectors[i], step.payloads[i]
        return out


def stored_items(collection: Any) -> Stored:
    """Everything a collection holds, by scrolling through it."""
    out: Stored = {}
    after = None
    while True:
        page = collection.scroll(after, limit=97, include=("vector", "payload"))
        out.update((item.id, (item.vector, item.payload)) for item in page.items)
        after = page.next
        if after is None:
            return out


def stored_bytes(collection: Any) -> dict[str, tuple[bytes, object]]:
    """The same, with vectors as bytes, so that `==` tells whether two are equal."""
    return {name: (vector.tobytes(), payload) for name, (vector, payload) in stored_items(collection).items()}


def same(left: Stored, right: Stored) -> bool:
    """Whether two contents are equal to the bit."""
    return left.keys() == right.keys() and all(
        payload == right[key][1] and np.array_equal(vector, right[key][0]) for key, (vector, payload) in left.items()
    )


def findings(collection: Any, expected: Stored) -> list[str]:
    """Every way in which a collection differs from what must be stored: got, counted, found by bands, found by scan, sound."""
    out = []
    if not same(stored_items(collection), expected):
        out.append("scroll gives other items")
    ids = list(expected)
    got = collection.get(ids) if ids else []
    if any(item is None for item in got):
        out.append(f"{sum(item is None for item in got)} items are not found by id")
    elif not same({item.id: (item.vector, item.payload) for item in got}, expected):
        out.append("get gives other items")
    if collection.count() != len(expected):
        out.append(f"{collection.count()} are counted, {len(expected)} stored")
    if ids:
        vectors = np.array([expected[identifier][0] for identifier in ids])
        kernel = _ngmm(vectors)
        for mode in ("bands", "exact"):
            answers = collection.query_batch(vectors, k=24, mode=mode, target_recall=0.5)
            out += [f"{mode}: {problem}" for problem in _wrong_answers(answers, ids, kernel)]
    report = collection.check()
    if not report.ok or report.items != len(expected):
        out.append(f"check: {report.problems}, {report.items} items")
    return out


def _wrong_answers(answers: Any, ids: list[str], kernel: NDArray[np.float64]) -> list[str]:
    out = []
    place = {identifier: i for i, identifier in enumerate(ids)}
    for i, (identifier, answer) in enumerate(zip(ids, answers, strict=True)):
        unknown = [other for other in answer.ids if other not in place]
        if unknown:
            out.append(f"{unknown} are answered and not stored")
            continue
        if identifier not in answer.ids or answer.scores[answer.ids.index(identifier)] < 1.0 - 1e-6:
            out.append(f"{identifier} is not found by its vector")
        if not np.allclose(answer.scores, kernel[i, [place[other] for other in answer.ids]], rtol=0, atol=1e-5):
            out.append(f"the neighbours of {identifier} have scores of other vectors")
    return out


def _ngmm(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """(n, n) the kernel by its definition, for non-negative vectors."""
    parts = vectors.astype(np.float64)
    parts /= parts.sum(axis=1, keepdims=True)
    shared = np.minimum(parts[:, None, :], parts[None, :, :]).sum(axis=2)
    return np.asarray(shared / (2.0 - shared))
