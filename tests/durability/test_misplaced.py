"""Whole values of runs, and pages of them, in the place of others: they are sound in themselves, and belong elsewhere.

Both runs have as many rows of one size, so that whatever stands in the place of something fits there.
"""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest

import kinbin
from earlier import unsalted
from kinbin.storage import format as fmt
from kinbin.storage.format import Part
from kinbin.storage.lookups import JOURNAL
from linked import still
from torture.pages import PAGE, Node, PageMap
from torture.specimen import seal
from workload import _ngmm

pytestmark = pytest.mark.durability

ROWS, DIM, RUNS = 400, 28, 2
"""A record has 184 bytes: of 23 pages each begins as the first one does."""
PARTS = [Part.HEADER, Part.OFFSETS, Part.ROW_NUMBERS, Part.CHECKS, Part.CONTENT, Part.CONTENT_ROWS, Part.BLOCK, Part.BAND, Part.DEAD]


@pytest.fixture(scope="module")
def vectors() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A row for each item; none is zero anywhere."""
    return (np.random.default_rng(5).random((RUNS * ROWS, DIM), np.float32) + np.float32(0.01)).astype(np.float32)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, vectors: np.ndarray) -> Path:
    """A database with two runs, of each of which two rows are dead, in the same places."""
    folder = tmp_path_factory.mktemp("misplaced") / "data"
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=DIM, bands=4, rows=1, seed=3)
        for run in range(RUNS):
            collection.add(ids(run), vectors[run * ROWS : (run + 1) * ROWS], [{"n": i} for i in range(ROWS)])
            seal(collection)
        collection.delete([f"i{run * ROWS + place:04d}" for run in range(RUNS) for place in (7, 8 + run)])
        with collection._store.read() as reader:
            assert reader.manifest() == [1, 2]
    return folder


def ids(run: int) -> list[str]:
    """Of the items of a run."""
    return [f"i{i:04d}" for i in range(run * ROWS, (run + 1) * ROWS)]


LIVING = [one for run in range(RUNS) for place, one in enumerate(ids(run)) if place not in (7, 8 + run)]


def values(data: bytes, part: bytes) -> list[Node]:
    """The values of a part, by run and index."""
    pages = PageMap.of(data)
    return [node for page in pages.leaves["runs"] for node in pages.nodes(page) if node.key[4:5] == part]


def exchanged(data: bytes, part: bytes) -> bytes:
    """The first value of a part in one run, and that in the other, in each other's place; heads of pages stay."""
    out = bytearray(data)
    a, b = (next(node for node in values(data, part) if node.key[:4] == run.to_bytes(4, "big")) for run in (1, 2))
    size = max(a.size, b.size)
    here, there = slice(a.value_at, a.value_at + size), slice(b.value_at, b.value_at + size)
    out[here], out[there] = data[there], data[here]
    return bytes(out)


def copied(data: bytes, part: bytes) -> bytes:
    """The value of one run in the place of that of the other, too."""
    out = bytearray(data)
    a, b = (next(node for node in values(data, part) if node.key[:4] == run.to_bytes(4, "big")) for run in (1, 2))
    size = max(a.size, b.size)
    out[b.value_at : b.value_at + size] = data[a.value_at : a.value_at + size]
    return bytes(out)


def page_of_rows(data: bytes, part: bytes) -> bytes:
    """A page amid the rows of one run in the place of the same page of the other: all of its whole rows have right checks."""
    out = bytearray(data)
    a, b = values(data, part)
    at = PAGE - a.value_at % PAGE + 3 * PAGE
    out[b.value_at + at : b.value_at + at + PAGE] = data[a.value_at + at : a.value_at + at + PAGE]
    return bytes(out)


HARMS: list[tuple[Callable[[bytes, bytes], bytes], bytes]] = [
    *((harm, part) for harm in (exchanged, copied) for part in PARTS),
    (page_of_rows, Part.BLOCK),
]


@pytest.fixture(params=HARMS, ids=lambda given: f"{given[0].__name__} {given[1].decode()}")
def harmed(request: pytest.FixtureRequest, sound: Path, tmp_path: Path) -> Path:
    """A copy of the database, harmed."""
    harm, part = request.param
    shutil.copytree(sound, tmp_path / "data")
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    before = file.read_bytes()
    after = harm(before, part)
    assert after != before
    file.write_bytes(after)
    return tmp_path / "data"


def wrong(collection: kinbin.Collection, vectors: np.ndarray) -> list[str]:
    """What is answered, and wrong. What is refused is not."""
    told = []
    for one in LIVING:
        with suppress(kinbin.CorruptData):
            item = collection.get([one])[0]
            if (
                item is None
                or not np.array_equal(np.asarray(item.vector), vectors[int(one[1:])])
                or item.payload != {"n": int(one[1:]) % ROWS}
            ):
                told.append(f"get {one}")
    living = np.array([int(one[1:]) for one in LIVING])
    scores = _ngmm(vectors)
    for one in LIVING[::5]:
        number = int(one[1:])
        best = np.sort(scores[number, living])[::-1][:3]
        for mode in ("exact", "bands", "auto"):
            with suppress(kinbin.CorruptData):
                answer = collection.query(vectors[number], k=3, mode=mode)
                right = [scores[number, int(found[1:])] for found in answer.ids]
                complete = mode == "exact" or answer.recall_lower_bound == 1.0
                if not np.allclose(answer.scores, right, atol=1e-5) or (complete and not np.allclose(answer.scores, best, atol=1e-5)):
                    told.append(f"{mode} {one}: {answer.ids}")
    return told


@pytest.mark.slow
def test_nothing_wrong_is_answered_and_check_tells(harmed: Path, vectors: np.ndarray) -> None:
    """Each item and each answer is right, or refused; `check` finds what is refused; so it is after `compact`, if that does anything."""
    with kinbin.open(harmed) as database:
        collection = database.collection("c")
        assert wrong(collection, vectors) == []
        report = collection.check()
        assert not report.ok
        with suppress(kinbin.CorruptData):
            database.restore(collection.snapshot(harmed.parent / "s.kinbin"), "again")
            # A table of bands is no part of what is restored unseen.
            assert wrong(database.collection("again"), vectors) == []
        with suppress(kinbin.CorruptData):
            collection.compact()
        assert wrong(collection, vectors) == []
    with kinbin.open(harmed) as database:
        assert wrong(database.collection("c"), vectors) == []


@pytest.mark.slow
def test_what_repair_saves_is_right_and_the_rest_is_listed(harmed: Path, vectors: np.ndarray, request: pytest.FixtureRequest) -> None:
    """No item has the vector of another one; each that is missing is named; what changed places is found there."""
    with kinbin.open(harmed) as database:
        report = database.repair("c")
        saved = database.collection("c-repaired")
        assert wrong_of(saved, vectors) == []
        kept = {item.id for item in saved.scroll(limit=1000).items}
        assert kept | set(report.lost_ids) == set(LIVING)
        assert kept == set(LIVING) or any(word in request.node.callspec.id for word in ("copied", "page_of_rows"))
        assert saved.check().ok


def wrong_of(collection: kinbin.Collection, vectors: np.ndarray) -> list[str]:
    """Items whose vector is not theirs."""
    found = [item for item in collection.get(LIVING) if item is not None and item.vector is not None]
    return [item.id for item in found if not np.array_equal(np.asarray(item.vector), vectors[int(item.id[1:])])]


@pytest.mark.parametrize("at", [0, 1, 6])
@pytest.mark.parametrize("what", ["zeroed", "another page", "head"])
def test_a_page_of_rows_costs_the_rows_that_lie_there(sound: Path, tmp_path: Path, vectors: np.ndarray, at: int, what: str) -> None:
    """Whichever page of a block is damaged, with its header or without: all other rows are saved, and none that is not of its place."""
    shutil.copytree(sound, tmp_path / "data")
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    data = bytearray(file.read_bytes())
    one, other = (node.value_at - 16 for node in values(bytes(data), Part.BLOCK))
    size = 32 if what == "head" else PAGE
    content = data[other + at * PAGE :][:size] if what == "another page" else bytes(size)
    file.write_bytes(bytes(data[: one + at * PAGE]) + bytes(content) + bytes(data[one + at * PAGE + size :]))
    with kinbin.open(tmp_path / "data") as database:
        report = database.repair("c")
        assert wrong_of(database.collection("c-repaired"), vectors) == []
        assert len(LIVING) - report.items == report.lost <= PAGE // 184 + 2


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("part", [Part.BLOCK, Part.ROW_NUMBERS, Part.OFFSETS])
def test_a_flipped_bit_of_a_header_costs_nothing(tmp_path: Path, version: int, part: bytes) -> None:
    """Of the format that the value has, of the part, of the name of its key, of its size and of its checksum."""
    folder = golden(version, tmp_path)
    file = folder / "collections" / "dense" / "data.mdb"
    data = file.read_bytes()
    at = values(data, part)[0].value_at
    with kinbin.open(folder) as database:
        items = database.collection("dense").count()
    for bit in range(0, 128, 3):
        flipped = bytearray(data)
        flipped[at + (bit >> 3)] ^= 1 << (bit & 7)
        file.write_bytes(flipped)
        with kinbin.open(folder) as database:
            report = database.repair("dense")
            assert (report.items, report.lost) == (items, 0), bit
            database.drop_collection("dense-repaired")


def golden(version: int, folder: Path) -> Path:
    """The database that the first release of a format left."""
    with tarfile.open(Path(__file__).parents[1] / "data" / f"format_v{version}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("part", [one for one in PARTS if one not in (Part.HEADER, Part.CHECKS, Part.DEAD)])
def test_a_value_of_an_older_format_is_none_of_a_newer_run(tmp_path: Path, rng: np.random.Generator, part: bytes) -> None:
    """It names no key; sound as it is, it is refused where the run's values do, and what is saved or copied is right."""
    folder = golden(2, tmp_path)
    file = folder / "collections" / "dense" / "data.mdb"
    with still(), kinbin.open(folder) as database:
        collection = database.collection("dense")
        stats = collection.stats()
        count = stats["runs"][0]["rows"] - stats["fresh_rows"] + 1
        fresh = (rng.integers(1, 200, (count, 16)) / 8).astype(np.float32)
        collection.add([f"new-{i}" for i in range(count)], fresh)
        seal(collection)
        known = {item.id: np.asarray(item.vector) for item in collection.scroll(limit=1000, include=("vector",)).items}
        right = {one: collection.query(vector, k=5, mode="exact").scores for one, vector in known.items()}
    data = file.read_bytes()
    old, new = (next(node for node in values(data, part) if node.key[:4] == run.to_bytes(4, "big")) for run in (1, 2))
    assert old.size == new.size
    harmed = bytearray(data)
    harmed[new.value_at : new.value_at + new.size] = data[old.value_at : old.value_at + old.size]
    file.write_bytes(harmed)

    def agrees(collection: kinbin.Collection) -> None:
        for one, vector in known.items():
            with suppress(kinbin.CorruptData):
                (item,) = collection.get([one])
                assert item is not None
                assert np.array_equal(np.asarray(item.vector), vector)
            with suppress(kinbin.CorruptData):
                np.testing.assert_allclose(collection.query(vector, k=5, mode="exact").scores, right[one], atol=1e-6)

    with kinbin.open(folder) as database:
        collection = database.collection("dense")
        agrees(collection)
        assert not collection.check().ok
        with pytest.raises(kinbin.CorruptData):
            collection.snapshot(tmp_path / "s.kinbin")
        report = database.repair("dense")
        saved = database.collection("dense-repaired").get(list(known))
        assert all(item is None or np.array_equal(np.asarray(item.vector), known[item.id]) for item in saved)
        assert report.lost == sum(item is None for item in saved)
        with suppress(kinbin.CorruptData):
            collection.compact()
        agrees(collection)


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [True, False], ids=["format 3", "format 1"])
def test_entries_of_the_journal_in_each_others_place(tmp_path: Path, vectors: np.ndarray, keyed: bool) -> None:
    """Their checksum covers the key; that of earlier formats does not, and there the numbers of their rows do not ascend."""

    def as_stored(value: bytes) -> bytes:
        body = value[4:] if keyed else b"\1\0\0\0" + value[8:]
        return value if keyed else zlib.crc32(body).to_bytes(4, "little") + body

    with still(), kinbin.open(tmp_path / "data") as database:
        with nullcontext() if keyed else unsalted():
            collection = database.create_collection("c", dim=DIM, bands=4, rows=1, seed=3)
        for first in (0, 20):
            collection.add(ids(0)[first : first + 20], vectors[first : first + 20])
        keys = [fmt.sequence_key(number) for number in (1, 2)]
        with collection._store.write() as writer:
            stored = [as_stored(writer._get(JOURNAL, key) or b"") for key in keys]
            for key, value in zip(keys, stored, strict=True):
                writer._put(JOURNAL, key, value)
    with kinbin.open(tmp_path / "data") as database:
        assert database.collection("c").count() == 40
        assert database.check()["c"].ok
    with still(), kinbin.open(tmp_path / "data") as database, database.collection("c")._store.write() as writer:
        for key, value in zip(keys, stored[::-1], strict=True):
            writer._put(JOURNAL, key, value)
    with kinbin.open(tmp_path / "data") as database:
        collection = database.collection("c")
        uses: list[Callable[[], object]] = [
            lambda: collection.get(["i0000"]), lambda: collection.query(vectors[0], mode="exact"), collection.compact,
        ]  # fmt: skip
        for use in uses:
            with pytest.raises(kinbin.CorruptData):
                use()
        assert not database.check()["c"].ok
