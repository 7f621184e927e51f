"""Sealing and merging: answers are the same before and after, dead rows go, and what happens meanwhile is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import kinbin.upkeep.sealing
import naive
from background import no_background
from kinbin.upkeep.background import UpkeepThread
from kinbin.upkeep.sealing import Task, next_task
from refusals import contents

pytestmark = pytest.mark.usefixtures("quiet")

DIM = 16
KINDS = {"dense": DIM, "wide": None}


def vectors(n: int, seed: int = 0) -> NDArray[np.float32]:
    """Signed rows, a fifth of them repeated."""
    rng = np.random.default_rng(seed)
    X: NDArray[np.float32] = (rng.gamma(0.4, size=(n, DIM)) * rng.choice([-1, 1], (n, DIM), p=[0.2, 0.8])).astype(np.float32)
    X[:, 0] = 0.1
    X[4::5] = X[3:-1:5]
    return X


def answers(collection: kinbin.Collection) -> list[Any]:
    """Everything that can be asked exactly."""
    batch = collection.query_batch(vectors(12, seed=9), k=60, mode="exact")
    by_id = [collection.query_id(item.id, k=5, mode="exact") for item in collection.scroll(limit=5).items]
    filtered = collection.query_batch(vectors(3, seed=8), k=60, mode="exact", filter={"n": {"$lt": 50}})
    ranked = [
        sorted(zip(answer.ids, answer.scores.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))
        for answer in [*batch, *by_id, *filtered]
    ]
    sizes = collection.count(), collection.count(filter={"n": {"$lt": 50}}), collection.stats()["rows"]
    return [ranked, contents(collection), sizes]


def fill(collection: kinbin.Collection, start: int, stop: int) -> None:
    """Add items start … stop-1, replace a few that were there and delete some."""
    X = vectors(stop)
    collection.add([f"{i:04}" for i in range(start, stop)], X[start:], [{"n": i} for i in range(start, stop)])
    if start:
        collection.add([f"{i:04}" for i in range(3, start, 11)], X[range(5, start + 2, 11)][: len(range(3, start, 11))])
        collection.delete([f"{i:04}" for i in range(0, start, 13)])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [name for name, kernel in kinbin.KERNELS.items() if kernel.signed])
@pytest.mark.parametrize("kind", KINDS)
def test_exact_answers_outlive_every_seal_and_merge(kernel: str, kind: str, db: kinbin.Database) -> None:
    """After each step of upkeep, a merge of everything, and a second one, all exact answers and all contents are as before."""
    collection = db.create_collection("c", kernel=kernel, dim=KINDS[kind], seed=3)
    seen_runs = set()
    before: list[Any] = []
    with no_background(seal_rows=40):
        for start, stop in ((0, 50), (50, 120), (120, 170), (170, 210), (210, 260), (260, 420)):
            fill(collection, start, stop)
            before = answers(collection)
            while collection._upkeep.step():
                assert answers(collection) == before
                seen_runs.add(len(collection.stats()["runs"]))
        while collection._upkeep.step(quiet=True):
            assert answers(collection) == before
    for _ in range(2):
        collection.compact()
        assert answers(collection) == before
        stats = collection.stats()
        assert (stats["fresh_rows"], stats["dead_rows"], len(stats["runs"])) == (0, 0, 1)
    assert len(seen_runs) >= 3
    assert collection.check().ok


def test_exact_answers_outlive_reopening(tmp_path: Path) -> None:
    """A database opened again, with runs and a journal, answers as it did."""
    with kinbin.open(tmp_path) as db:
        collection = db.create_collection("c", dim=DIM, seed=3)
        fill(collection, 0, 100)
        collection.compact()
        fill(collection, 100, 180)
        before = answers(collection)
        bands = [answer.ids for answer in collection.query_batch(vectors(20, seed=7), mode="bands")]
    with kinbin.open(tmp_path) as db:
        collection = db.collection("c")
        assert answers(collection) == before
        assert [answer.ids for answer in collection.query_batch(vectors(20, seed=7), mode="bands")] == bands


def test_the_bands_find_every_identical_vector_at_any_time(db: kinbin.Database) -> None:
    """A stored vector shares all bands with itself: the bands find it in the journal, in old and new runs, and after merges."""
    collection = db.create_collection("c", dim=DIM)
    X = vectors(300)
    with no_background(seal_rows=60):
        for start in range(0, 300, 50):
            collection.add([f"{i:04}" for i in range(start, start + 50)], X[start : start + 50])
            for _ in range(3):
                for i, answer in enumerate(collection.query_batch(X[: start + 50], k=3, mode="bands", target_recall=0.5)):
                    assert f"{i:04}" in answer.ids
                    assert answer.scores[0] == 1.0
                collection._upkeep.step()


# ------------------------------------------------------------------------------------------- meanwhile


@pytest.mark.parametrize("seal", [True, False], ids=["seal", "merge"])
def test_what_happens_during_a_build_is_kept(seal: bool, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items added, replaced and deleted while a run is built are right before and after it is swapped in."""
    collection = db.create_collection("c", dim=DIM)
    model = naive.Items("ngmm")
    X = vectors(400)

    def add(numbers: range, rows: NDArray[np.float32]) -> None:
        names = [f"{i:04}" for i in numbers]
        collection.add(names, rows)
        model.add(names, [naive.row(row.tolist()) for row in rows], [None] * len(names))

    def check() -> None:
        for q in X[[0, 3, 150, 399]]:
            answer = collection.query(q, k=500, mode="exact")
            naive.assert_answers(answer.ids, answer.scores, model.truth(naive.row(q.tolist())), 500)
        assert collection.count() == len(model.items)

    build = kinbin.upkeep.sealing.write_run  # type: ignore[attr-defined]
    built = []

    def build_and_write(*arguments: Any) -> Any:
        number = build(*arguments)
        built.append(number)
        collection.delete([f"{i:04}" for i in range(0, 300, 7)])
        model.delete(f"{i:04}" for i in range(0, 300, 7))
        add(range(1, 200, 10), X[range(200, 400, 10)])
        add(range(300, 320), X[300:320])
        check()
        return number

    add(range(150), X[:150])
    if not seal:
        collection.compact()
    add(range(150, 300), X[150:300])
    monkeypatch.setattr(kinbin.upkeep.sealing, "write_run", build_and_write)
    collection.compact()
    assert len(built) == 1
    check()
    stats = collection.stats()
    assert stats["rows"] == model.distinct_rows()
    assert stats["fresh_rows"] > 0
    assert stats["dead_rows"] > 0
    assert collection.check().ok
    monkeypatch.undo()
    collection.compact()
    check()
    assert collection.stats()["dead_rows"] == 0


def test_all_rows_may_die_while_their_run_is_built(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose rows are all deleted before it is swapped in answers nothing and goes with the next merge."""
    collection = db.create_collection("c", dim=DIM)
    collection.add(["a", "b"], vectors(2))
    build = kinbin.upkeep.sealing.write_run  # type: ignore[attr-defined]

    def build_and_delete(*arguments: Any) -> Any:
        number = build(*arguments)
        collection.delete(["a", "b"])
        return number

    monkeypatch.setattr(kinbin.upkeep.sealing, "write_run", build_and_delete)
    collection.compact()
    monkeypatch.undo()
    for mode in ("auto", "bands", "exact"):
        assert collection.query(vectors(1)[0], mode=mode).ids == []
    assert collection.check().ok
    collection.compact()
    assert collection.stats()["runs"] == []
    collection.add(["a"], vectors(1))
    assert collection.query(vectors(1)[0]).ids == ["a"]


def test_only_dead_rows_are_sealed_to_nothing(db: kinbin.Database) -> None:
    """A journal of dead rows becomes no run."""
    collection = db.create_collection("c", dim=DIM)
    collection.add(["a", "b"], vectors(2))
    collection.delete(["a", "b"])
    with no_background(seal_rows=2):
        assert collection._upkeep.step()
        assert not collection._upkeep.step()
    assert collection.stats()["fresh_rows"] == 0
    assert collection.stats()["runs"] == []
    assert collection.check().ok


@pytest.mark.slow
@pytest.mark.parametrize("count", [65_536, 65_537])
def test_runs_about_the_limit_of_16_bit_row_numbers(count: int, db: kinbin.Database) -> None:
    """A run of just as many rows as 16 bits can number, and one of one more, are sound and answer for their last rows."""
    collection = db.create_collection("c", dim=6, bands=12, rows=4, seed=1)
    X = (np.random.default_rng(1).random((count, 6)) + 0.01).astype(np.float32)
    for start in range(0, count, 10_000):
        stop = min(start + 10_000, count)
        collection.add([f"{i:05}" for i in range(start, stop)], X[start:stop])
    collection.compact()
    (run,) = collection.stats()["runs"]
    assert run["rows"] == count
    asked = [0, 1, 40_000, count - 2, count - 1]
    for mode in ("bands", "exact"):
        assert collection.query_batch(X[asked], k=1, mode=mode, target_recall=0.01).ids[:, 0].tolist() == [f"{i:05}" for i in asked]
    assert collection.check().ok


# ------------------------------------------------------------------------------------------------ plan


def view(fresh: int, *runs: int | tuple[int, int]) -> Any:
    """What `next_task` looks at: fresh rows, and runs of so many rows (and live rows)."""
    sizes = [run if isinstance(run, tuple) else (run, run) for run in runs]
    return SimpleNamespace(fresh=SimpleNamespace(rows=fresh), runs=[SimpleNamespace(rows=rows, live=live) for rows, live in sizes])


SEAL = kinbin.upkeep.sealing.SEAL_ROWS
QUIET_SEAL = kinbin.upkeep.sealing.QUIET_SEAL_ROWS

TASKS: list[tuple[str, Any, bool, Task | None]] = [
    ("nothing", view(0), False, None),
    ("a few fresh rows", view(SEAL - 1), False, None),
    ("too few fresh rows to be linked, quiet", view(QUIET_SEAL - 1), True, None),
    ("enough fresh rows to be linked", view(QUIET_SEAL), False, None),
    ("enough fresh rows to be linked, quiet", view(QUIET_SEAL), True, Task(0, 0, seal=True)),
    ("enough fresh rows", view(SEAL), False, Task(0, 0, seal=True)),
    ("fresh rows before merges", view(SEAL, 9, 9, 9, 9), False, Task(4, 4, seal=True)),
    ("three runs alike", view(0, 9, 9, 9), False, None),
    ("four runs alike", view(0, 9, 9, 9, 9), False, Task(0, 4, seal=False)),
    ("a large run and four small ones", view(0, 1_000, 9, 9, 9, 9), False, Task(1, 5, seal=False)),
    ("small runs as large as the large one", view(0, 36, 9, 9, 9, 9), False, Task(0, 5, seal=False)),
    ("two runs alike, quiet", view(0, 9, 9), True, Task(0, 2, seal=False)),
    ("a large run and a small one, quiet", view(0, 1_000, 9), True, None),
    ("a large run and a third of it, quiet", view(0, 30, 10), True, Task(0, 2, seal=False)),
    ("a run with few dead rows", view(0, (100, 71)), False, None),
    ("a run with many dead rows", view(0, 1_000, (100, 69)), False, Task(1, 2, seal=False)),
]


@pytest.mark.parametrize(("state", "quiet", "task"), [case[1:] for case in TASKS], ids=[case[0] for case in TASKS])
def test_what_is_done_next(state: Any, quiet: bool, task: Task | None) -> None:
    """Fresh rows are sealed first, then runs of like size merged, then runs with many dead rows written anew."""
    assert next_task(state, quiet=quiet) == task


def test_a_row_is_rewritten_a_few_times_only() -> None:
    """While a million rows arrive, runs stay few and each row is written about log4 of the number of seals times."""
    sizes: list[int] = []
    written = 0
    for _ in range(1_000_000 // SEAL):
        sizes.append(SEAL)
        written += SEAL
        while (task := next_task(view(0, *sizes))) is not None:
            merged = sum(sizes[task.first : task.last])
            sizes[task.first : task.last] = [merged]
            written += merged
        assert len(sizes) <= 16
    assert written / sum(sizes) < 6


def test_growing_collections_are_banded_anew(db: kinbin.Database, histograms: NDArray[np.float32]) -> None:
    """A run of many rows has bands of more hashes than a run of few, unless they are fixed."""

    def chosen(name: str, rows: int | None) -> list[int]:
        collection = db.create_collection(name, dim=512, rows=rows, seed=1)
        heights = []
        for start, stop in ((0, 100), (100, 12_000)):
            for first in range(start, stop, 10_000):
                last = min(first + 10_000, stop)
                collection.add([str(i) for i in range(first, last)], histograms[first:last])
            collection.compact()
            heights.append(collection.stats()["runs"][0]["r"])
        return heights

    few, many = chosen("free", None)
    assert many > few
    assert chosen("fixed", 2) == [2, 2]


def test_background_work_is_there_again_however_blocks_end() -> None:
    """Two blocks without background work that end in the order they began, as fixtures with parameters do, leave nothing switched off."""
    before = UpkeepThread.wake, UpkeepThread.look
    first, second = no_background(), no_background()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert before == (UpkeepThread.wake, UpkeepThread.look)
