"""A rebuild lays all rows out anew, while the collection is read and written."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from background import no_background
from kinbin.upkeep.sealing import Upkeep


@pytest.fixture
def rows(rng: np.random.Generator) -> NDArray[np.float32]:
    """(1,500, 24) rows around 40 centres."""
    centres = rng.gamma(0.5, size=(40, 24))[np.arange(1_500) % 40]
    return (centres * rng.gamma(6.0, 1 / 6, centres.shape) + 1e-3).astype(np.float32)


def filled(database: kinbin.Database, rows: NDArray[np.float32]) -> kinbin.Collection:
    """A collection of them, some fresh, some in a run."""
    collection = database.create_collection("points", dim=24, seed=1)
    collection.add([str(i) for i in range(1_000)], rows[:1_000])
    collection.compact()
    collection.add([str(i) for i in range(1_000, len(rows))], rows[1_000:])
    return collection


def layouts(collection: kinbin.Collection) -> list[tuple[int, int]]:
    """(r, bands) of the runs."""
    return [(run["r"], run["bands"]) for run in collection.stats()["runs"]]


def test_all_rows_lie_as_was_asked_for(tmp_path: Path, rows: NDArray[np.float32]) -> None:
    """One run of the new kind, fresh rows included; what comes later, and after opening again, lies so too; None lets Kinbin choose."""
    with no_background():
        with kinbin.open(tmp_path) as database:
            collection = filled(database, rows)
            told = collection.rebuild(7, 33)
            assert (told.rows, told.bands, told.count) == (7, 33, 1_500)
            assert layouts(collection) == [(7, 33)]
            assert (collection.config.rows, collection.config.bands) == (7, 33)
            assert collection.check().ok
        with kinbin.open(tmp_path) as database:
            collection = database.collection("points")
            assert (collection.config.rows, collection.config.bands) == (7, 33)
            collection.add(["new"], rows[:1] + 1.0)
            collection.compact()
            assert layouts(collection) == [(7, 33)]
            collection.rebuild()
            assert (collection.config.rows, collection.config.bands) == (None, None)
            assert layouts(collection) != [(7, 33)]


def test_answers_stay(tmp_path: Path, rows: NDArray[np.float32]) -> None:
    """Exact answers, payloads and links are those of before; walks go on."""
    with no_background(), kinbin.open(tmp_path) as database:
        collection = filled(database, rows)
        collection.set_payload(["3"], [{"a": 1}])
        collection.link()
        exact, walked = (collection.query_batch(rows[:20], mode=mode) for mode in ("exact", "links"))
        collection.rebuild(2, 50)
        for before, mode in ((exact, "exact"), (walked, "links")):
            after = collection.query_batch(rows[:20], mode=mode)
            assert (after.ids == before.ids).all()
            assert (after.scores == before.scores).all()
        item = collection.get(["3"])[0]
        assert item is not None
        assert item.payload == {"a": 1}
        assert collection.stats()["links"]["unlinked_rows"] == 0


def test_reads_and_writes_go_on(tmp_path: Path, rows: NDArray[np.float32]) -> None:
    """While it is rebuilt again and again, every query is answered completely, and what is added meanwhile is there."""
    with no_background(), kinbin.open(tmp_path) as database:
        collection = filled(database, rows)
        expected = collection.query_batch(rows[:10], k=1, mode="exact").ids[:, 0].tolist()
        done, wrong, asked = threading.Event(), [], 0

        def rebuild() -> None:
            try:
                for r in (2, 3, 4, 5, 2, 3):
                    collection.rebuild(r, 40)
            finally:
                done.set()

        worker = threading.Thread(target=rebuild)
        worker.start()
        while not done.is_set():
            for i in range(10):
                found = collection.query(rows[i], k=1, mode="auto").ids
                wrong += [found] if found != [expected[i]] else []
                asked += 1
            collection.add([f"more {asked}"], rows[asked % 100 : asked % 100 + 1] * np.float32(3.0) + np.float32(asked))
        worker.join()
        assert asked >= 10
        assert not wrong
        assert collection.count() == len(rows) + asked // 10
        assert collection.rebuild(3, 41).count == collection.stats()["rows"]
        assert collection.check().ok


def test_another_process_follows(tmp_path: Path, rows: NDArray[np.float32]) -> None:
    """Who opened the collection before another process rebuilt it merges as the rebuild chose, and says so."""
    with no_background(), kinbin.open(tmp_path) as database:
        collection = filled(database, rows)
        program = f"import kinbin\nwith kinbin.open({str(tmp_path)!r}) as d:\n    d.collection('points').rebuild(6, 21)"
        subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
        assert layouts(collection) == [(6, 21)]
        assert (collection.stats()["rows_per_band"], collection.stats()["bands"]) == (6, 21)
        collection.add(["new"], rows[:1] + np.float32(1.0))
        collection.compact()
        assert layouts(collection) == [(6, 21)]
        assert collection.query(rows[5], k=1, mode="bands").ids == ["5"]


def test_one_that_fails_leaves_the_old_runs(tmp_path: Path, rows: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash before the swap changes no answer; the choice is kept, and the next merge follows it."""
    with no_background(), kinbin.open(tmp_path) as database:
        collection = filled(database, rows)
        before, old = collection.query_batch(rows[:20], mode="bands"), layouts(collection)

        def fail(*_: object) -> None:
            raise OSError("stop")

        with monkeypatch.context() as patch:
            patch.setattr(Upkeep, "_swap", fail)
            with pytest.raises(kinbin.StorageError, match="stop"):
                collection.rebuild(8, 12)
        assert layouts(collection) == old
        assert (collection.query_batch(rows[:20], mode="bands").ids == before.ids).all()
        collection.compact()
        assert layouts(collection) == [(8, 12)]
        assert collection.check().ok


def test_what_is_out_of_range_is_refused(db: kinbin.Database) -> None:
    """Rows above 8, bands above 255, numbers below 1, items that are not hashed: nothing is changed."""
    collection = db.create_collection("points", dim=2)
    for wrong in ((9, 64), (0, 64), (2, 256), (2, 0), (2.5, 64), ("2", 64)):
        with pytest.raises(kinbin.InvalidInput):
            collection.rebuild(*wrong)
    assert collection.rebuild(2, 10).rows is None
    assert (collection.config.rows, collection.config.bands) == (2, 10)
    with pytest.raises(kinbin.InvalidInput, match="rebuild is about bands"):
        db.create_collection("words", items="strings", distance="levenshtein").rebuild(2, 10)
