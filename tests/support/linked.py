"""Clustered rows for the tests of links, collections that are linked when a test says so, and damage to a stored link set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin
import kinbin.codes.coder
import kinbin.codes.projected
import kinbin.links.calibration
import kinbin.upkeep.background
import naive
from background import no_background
from crashing import at_write, die, make_runs_small
from kinbin.spaces.space import SHAPES
from kinbin.storage import format as fmt
from kinbin.storage.lookups import RUNS
from kinbin.storage.store import Store
from kinbin.storage.transactions import Writer
from mechanisms import cells
from workload import Stored, Workload, _ngmm, _wrong_answers, findings

CLUSTERS = 30
DIM = 48
_LARGEST_ID = 100_000


@dataclass(frozen=True)
class Kind:
    """A form that vectors may have."""

    name: str
    dim: int | None
    signed: bool
    clusters: int = CLUSTERS
    vocabulary: int = 0
    """Words of rows without a dimension."""
    layout: str = "bytes"
    """Of the codes that links choose for such rows; instead of bytes there are units where a kernel compares unit rows."""

    def rows(self, n: int, seed: int) -> Any:
        """(n, d) rows, a float32 matrix or CSR, around the same centres for every seed; no two are alike."""
        rng = np.random.default_rng(seed)
        which = rng.integers(0, self.clusters, n)
        noise = rng.gamma(6.0, 1 / 6, (n, self.vocabulary or DIM))
        size = rng.lognormal(0.0, 0.2, (n, 1))
        if self.dim is None:
            return self._words(which, noise * size, rng)
        rows = (self._centres()[which] * noise * size).astype(np.float32)
        # No row is empty.
        rows[:, 0] += np.float32(1e-3)
        return rows

    def _centres(self) -> NDArray[np.float64]:
        rng = np.random.default_rng(1)
        centres = rng.gamma(0.5, size=(self.clusters, DIM)) + 0.01
        return centres * rng.choice([-1.0, 1.0], centres.shape, p=[0.4, 0.6]) if self.signed else centres

    def _words(self, which: NDArray[np.int64], weights: NDArray[np.float64], rng: np.random.Generator) -> sp.csr_array:
        """Bags of some 30 of a cluster's 60 words, whose ids are far apart."""
        chosen = np.random.default_rng(1)
        ids = np.sort(chosen.permutation(_LARGEST_ID)[: self.vocabulary])
        words = np.stack([np.isin(np.arange(self.vocabulary), chosen.permutation(self.vocabulary)[:60]) for _ in range(self.clusters)])
        signs = chosen.choice([-1.0, 1.0], self.vocabulary) if self.signed else np.ones(self.vocabulary)
        there = words[which] & (rng.random(weights.shape) < 0.6)
        owner, word = np.nonzero(there)
        values = (weights * signs)[owner, word].astype(np.float32)
        return sp.csr_array((values, (owner, ids[word])), shape=(len(which), _LARGEST_ID))


KINDS = {
    "dense": Kind("dense", DIM, signed=False),
    "sparse": Kind("sparse", None, signed=False, clusters=120, vocabulary=3_000, layout="packed"),
    "signed": Kind("signed", DIM, signed=True),
    "signed sparse": Kind("signed sparse", None, signed=True, clusters=120, vocabulary=3_000, layout="packed"),
    "few words": Kind("few words", None, signed=True, vocabulary=200),
}


def code_layout(kernel: str, kind: str) -> str:
    """Of the codes that links choose for rows of a kind under a kernel."""
    layout = KINDS[kind].layout
    return "units" if layout == "bytes" and kinbin.KERNELS[kernel].geometry != SHAPES else layout


def cases(*kinds: str, most: int = 2) -> list[tuple[str, str]]:
    """The kernels that stand for all, with kinds that they take: see `mechanisms.cells`."""
    return cells(kinds, lambda name, kind: kinbin.KERNELS[name].signed or not KINDS[kind].signed, most)


def true_scores(kernel: str, X: Any, Q: Any) -> NDArray[np.float64]:
    """(m, n) the slow twin's scores of queries and rows."""
    if sp.issparse(X):
        table = naive.Table(kernel, X.indptr, X.indices, X.data)
        return np.stack([table.scores(Q[[i]].indices, Q[[i]].data) for i in range(Q.shape[0])])
    table = naive.Table.of_dense(kernel, X)
    return np.stack([table.scores_of_dense(q) for q in Q])


def names(numbers: Iterable[int]) -> list[str]:
    """Ids of rows by their number: `int(id)` is the row."""
    return [str(int(number)) for number in numbers]


@contextmanager
def still() -> Iterator[None]:
    """Inside, nothing is sealed, merged or linked in the background, and what is linked is linked `roughly`."""
    with no_background(), pytest.MonkeyPatch.context() as patch:
        roughly(patch)
        patch.setattr(kinbin.upkeep.background.LinkThread, "wake", lambda thread: None)
        yield


def roughly(patch: pytest.MonkeyPatch) -> None:
    """Links are chosen in a third of the time, a little worse: of fewer features and directions, and calibrated by fewer queries."""
    patch.setattr(kinbin.codes.coder, "_MERGED_SLOTS", 256)
    patch.setattr(kinbin.codes.projected, "WIDTHS", (64, 128, 256, 384))
    patch.setattr(kinbin.links.calibration, "_QUERIES", 96)


def link_sets(collection: Any) -> list[int]:
    """Numbers of the listed link sets."""
    with collection._store.read() as reader:
        sets: list[int] = reader.link_sets()
        return sets


def orphans(collection: Any) -> set[int]:
    """Numbers that have values and that no list names, and those that a list names and that have none."""
    with collection._store.read() as reader:
        there: set[int] = reader.run_numbers()
        return there ^ {*reader.manifest(), *reader.link_sets()}


def link_findings(collection: Any, expected: Stored) -> list[str]:
    """`workload.findings`, and every way in which answers by links and in auto mode differ from what must be stored."""
    out = findings(collection, expected)
    if expected:
        vectors = np.array([expected[identifier][0] for identifier in expected])
        kernel = _ngmm(vectors)
        for mode in ("links", "auto"):
            answers = collection.query_batch(vectors, k=24, mode=mode)
            out += [f"{mode}: {problem}" for problem in _wrong_answers(answers, list(expected), kernel)]
    return out


# -------------------------------------------------------------------------------------------- processes


def crash_while_linking(connection: Connection, path: str, write: int, when: str) -> None:
    """Link everything, and die at write transaction `write`: before it, in it, or after its commit.

    Sends "done" if there are fewer transactions than that.
    """
    with still(), kinbin.open(path) as database, at_write(write, when, die):
        database.collection("c").link()
    connection.send("done")


def link_step_by_step(connection: Connection, path: str) -> None:
    """Link everything; send each step of the progress and wait for a word before the next."""

    def progress(done: int, total: int) -> None:
        connection.send((done, total))
        connection.recv()

    with still(), kinbin.open(path) as database:
        database.collection("c").link(progress)
    connection.send("done")


def work_and_link(connection: Connection, path: str, seed: int, start: int) -> None:
    """Steps of a workload from a number on, for ever, while another thread links without a pause; sends each number when it is done."""
    make_runs_small()
    database = kinbin.open(path)
    collection = database.collection("c")
    connection.send("open")

    def link() -> None:
        while True:
            collection.link()

    threading.Thread(target=link).start()
    workload = Workload(seed, "l")
    while True:
        workload.step(start).perform(collection)
        connection.send(start)
        start += 1


# ---------------------------------------------------------------------------------------------- damage


def damage_links(store: Store, edit: Callable[[Writer, int], None]) -> None:
    """Edit the values of the link set in one transaction."""
    with store.write() as writer:
        (number,) = writer.link_sets()
        edit(writer, number)


def flip(part: bytes, places: Iterable[int], index: int = 0) -> Callable[[Writer, int], None]:
    """An edit that inverts bytes of a value's body and leaves its checksum."""

    def edit(writer: Writer, number: int) -> None:
        key = fmt.run_key(number, part, index)
        value = bytearray(writer._get(RUNS, key) or b"")
        size = int.from_bytes(value[8:12], "little")
        for place in places:
            if place < size:
                value[fmt.VALUE_HEADER + place] ^= 0xFF
        writer._put(RUNS, key, bytes(value))

    return edit


def rewrite(part: bytes, dtype: str, change: Callable[[NDArray[Any]], None], index: int = 0) -> Callable[[Writer, int], None]:
    """An edit that changes the numbers of a value, and its checksum with them."""

    def edit(writer: Writer, number: int) -> None:
        array = np.frombuffer(bytes(writer.run_part(number, part, index)), dtype).copy()
        change(array)
        writer.put_run_part(number, part, index, array)

    return edit
