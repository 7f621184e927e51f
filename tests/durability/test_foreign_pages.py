"""Pages and values of other files, and records in the place of others: sound in themselves, and no records of this file.

The other one was written alike, step by step: so its pages lie at the same places, with the same keys.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from earlier import unsalted
from kinbin.storage.lookups import META
from kinbin.storage.salvage import Salvage
from linked import still
from torture.pages import PAGE, PageMap
from workload import _ngmm

pytestmark = pytest.mark.durability

DIM, HALF, GONE = 6, 60, (3, 4, 5)
IDS = [f"i{i:03d}" for i in range(2 * HALF)]
LIVING = [i for i in range(2 * HALF) if i not in GONE]


def rows(own: bool) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Of the collection that is harmed, or of the other one: its first half is like nothing here."""
    rng = np.random.default_rng(1)
    out = (rng.random((2 * HALF, DIM)) + 0.01).astype(np.float32)
    if not own:
        out[:HALF] = rng.random((HALF, DIM)) * 0.05 + 0.001
        out[:HALF, 0] = 50
    return out


def payload(own: bool, i: int) -> dict[str, Any]:
    """Of an item."""
    return {"own": own, "n": i if own else 1_000 + i}


def build(folder: Path) -> Path:
    """Two collections, in the same steps: a run, with dead rows, and a journal."""
    with still(), kinbin.open(folder) as database:
        for name, own in (("c", True), ("d", False)):
            collection = database.create_collection(name, dim=DIM, seed=1, bands=4, rows=1)
            for first in (0, HALF):
                some = range(first, first + HALF)
                collection.add(IDS[first : first + HALF], rows(own)[first : first + HALF], [payload(own, i) for i in some])
                if not first:
                    collection.compact()
            collection.delete([IDS[i + (0 if own else 10)] for i in GONE])
    return folder


def file_of(folder: Path, name: str) -> Path:
    """Where a store lies."""
    return folder / "collections" / name / "data.mdb"


def shared_pages(folder: Path, one: str, other: str) -> list[int]:
    """Pages that both files use, for the same."""
    maps = [PageMap.of(file_of(folder, name).read_bytes()) for name in (one, other)]
    kinds = [pages.kinds for pages in maps]
    return [
        page
        for page in sorted(kinds[0].keys() & kinds[1].keys())
        if page > 1
        and kinds[0][page] == kinds[1][page] != "free"
        and maps[0].data[page * PAGE :][:PAGE] != maps[1].data[page * PAGE :][:PAGE]
    ]


def with_page_of(folder: Path, harmed: str, other: str, page: int, target: Path) -> Path:
    """A copy in which a page of the one file is that of the other."""
    shutil.copytree(folder, target)
    data, there = bytearray(file_of(target, harmed).read_bytes()), file_of(target, other).read_bytes()
    data[page * PAGE : (page + 1) * PAGE] = there[page * PAGE : (page + 1) * PAGE]
    file_of(target, harmed).write_bytes(data)
    return target


def told(act: Any) -> Any:
    """What is answered; None: it was refused."""
    try:
        return act()
    except kinbin.KinbinError:
        return None


def mistakes(collection: Any) -> Iterator[str]:
    """What is answered, and wrong."""
    own = rows(own=True)
    kernel = _ngmm(own)
    for i in LIVING:
        answer = told(partial(collection.query, own[i], k=3, mode="exact"))
        if answer is not None and not np.allclose(answer.scores, np.sort(kernel[i, LIVING])[::-1][:3], rtol=0, atol=1e-6):
            yield f"exact, {IDS[i]}"
        found = told(partial(collection.get, [IDS[i]]))
        if found is not None and (found[0] is None or found[0].payload != payload(True, i) or not np.array_equal(found[0].vector, own[i])):
            yield f"get, {IDS[i]}"
    page = told(partial(collection.scroll, limit=1_000))
    if page is not None and [item.id for item in page.items] != [IDS[i] for i in LIVING]:
        yield "scroll"
    for count, wanted in ((collection.count, len(LIVING)), (partial(collection.count, {"n": {"$lt": 500}}), len(LIVING))):
        if told(count) not in (None, wanted):
            yield "count"


def repaired_wrongly(folder: Path) -> Iterator[str]:
    """What `repair` gives an item that it never had; none may be there that was deleted, without a word."""
    own = rows(own=True)
    with kinbin.open(folder) as database:
        report = told(partial(database.repair, "c"))
        if report is None:
            return
        items = {item.id: item for item in database.collection("c-repaired").scroll(limit=1_000, include=("vector", "payload")).items}
        for i, one in enumerate(IDS):
            item = items.get(one)
            if item is None:
                if i in LIVING and one not in report.lost_ids and not report.problems:
                    yield f"{one} is left out without a word"
            elif i not in LIVING:
                if not report.problems:
                    yield f"{one} is back without a word"
            elif not np.array_equal(np.asarray(item.vector), own[i]) or item.payload not in (payload(True, i), None):
                yield f"{one} is another one"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two collections."""
    return build(tmp_path_factory.mktemp("foreign") / "data")


@pytest.mark.slow
def test_no_page_of_another_collection_is_believed(sound: Path, tmp_path: Path) -> None:
    """Whichever page it is: answers are right or refused, `check` tells of what is refused, and `repair` saves nothing of the other's."""
    pages = shared_pages(sound, "c", "d")
    assert len(pages) > 15
    for page in pages:
        folder = with_page_of(sound, "c", "d", page, tmp_path / str(page))
        with kinbin.open(folder) as database:
            collection: Any = told(lambda database=database: database.collection("c"))
            answers = None
            if collection is not None:
                assert list(mistakes(collection)) == [], page
                answers = told(lambda collection=collection: collection.query_batch(rows(own=True)[LIVING], mode="exact"))
            assert answers is not None or not database.check()["c"].ok, page
        assert list(repaired_wrongly(folder)) == [], page
        shutil.rmtree(folder)


def test_without_a_salt_they_are(tmp_path: Path) -> None:
    """Collections of format 3: what these tests look for is there, and they see it."""
    with unsalted():
        sound = build(tmp_path / "sound")
    found = set()
    for page in shared_pages(sound, "c", "d"):
        folder = with_page_of(sound, "c", "d", page, tmp_path / str(page))
        with kinbin.open(folder) as database:
            collection = told(lambda database=database: database.collection("c"))
            found |= set() if collection is None else {mistake.partition(",")[0] for mistake in mistakes(collection)}
    assert {"exact", "get"} <= found


@pytest.mark.slow
def test_no_page_of_another_field_is_believed(tmp_path: Path) -> None:
    """Two fields of one collection, written by the same adds."""
    own, other = rows(own=True), rows(own=False)
    with still(), kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("c", fields={"a": {"dim": DIM}, "b": {"dim": DIM}}, seed=1)
        for first in (0, HALF):
            some = slice(first, first + HALF)
            collection.add(IDS[some], {"a": own[some], "b": other[some]})
            if not first:
                collection.compact()
    for page in shared_pages(tmp_path / "data", "c/fields/a", "c/fields/b"):
        folder = with_page_of(tmp_path / "data", "c/fields/a", "c/fields/b", page, tmp_path / str(page))
        with kinbin.open(folder) as database:
            harmed: Any = told(lambda database=database: database.collection("c"))
            for i, one in enumerate(IDS if harmed is not None else ()):
                found = told(lambda harmed=harmed, one=one: harmed.get([one]))
                assert found is None or np.array_equal(found[0].vectors["a"], own[i]), (page, one)
                answer = told(lambda harmed=harmed, i=i: harmed.query({"a": own[i]}, k=1, mode="exact"))
                assert answer is None or answer.ids == [one], (page, one)
        shutil.rmtree(folder)


# -- records of the first tree


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A collection with answers of two idempotency keys, and a log of commits, of records of one size."""
    with still(), kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("c", dim=DIM, indexes={"n": "number"})
        for i in (1, 2):
            collection.add([IDS[i]], rows(own=True)[i : i + 1], [{"n": i}], idempotency_key=f"key {i}")
    return tmp_path / "data"


@pytest.mark.parametrize("prefix", [b"key:", b"changes"])
def test_records_in_each_others_place(logged: Path, prefix: bytes) -> None:
    """Their checksums cover their keys: an answer is not that of another key, nor what a commit touched that of another."""
    with still(), kinbin.open(logged) as database:
        store: Any = database.collection("c")._store
        with store.write() as writer:
            keys = [key for key, _ in writer.scan_tree(META, prefix) if key.startswith(prefix)][:2]
            values = [writer._get(META, key) for key in keys]
            for key, value in zip(keys, values[::-1], strict=True):
                writer._put(META, key, value)
    with still(), kinbin.open(logged) as database:
        collection = database.collection("c")
        if prefix == b"key:":
            with pytest.raises(kinbin.CorruptData, match="idempotency key"):
                collection.add([IDS[2]], rows(own=True)[2:3], [{"n": 2}], idempotency_key="key 2")
            assert not collection.check().ok
        # What was logged is done without: the index is built anew.
        assert collection.count({"n": {"$gte": 0}}) == 2


def test_a_repair_finds_the_salt_among_the_records(sound: Path, tmp_path: Path) -> None:
    """Identity and state are lost, which name it: without it nothing could be proved."""
    shutil.copytree(sound, tmp_path / "data")
    file = file_of(tmp_path / "data", "c")
    data = bytearray(file.read_bytes())
    pages = PageMap.of(bytes(data))
    for node in (node for page in pages.leaves["meta"] for node in pages.nodes(page)):
        if node.key in (b"identity", b"state"):
            data[node.value_at : node.value_at + node.size] = b"lost" * (node.size // 4) + bytes(node.size % 4)
    while (at := data.find(b'"salt"')) >= 0:
        # Of earlier pages.
        data[at - 90 : at + 20] = bytes(110)
    file.write_bytes(data)
    with kinbin.open(tmp_path / "data") as database:
        assert database.repair("c").items == len(LIVING)
    shutil.rmtree(tmp_path / "data" / "collections" / "c-repaired")
    assert list(repaired_wrongly(tmp_path / "data")) == []


def test_files_keep_their_salt(tmp_path: Path) -> None:
    """Shrunk and restored ones have that of their records; new ones, fields as well, have others; earlier ones have none."""

    def salt(collection: Any) -> int:
        with collection._store.read() as reader:
            assert reader.state().salt == reader.salt
            return int(reader.salt)

    with still(), kinbin.open(tmp_path) as database:
        with unsalted():
            before = database.create_collection("before", dim=DIM)
        made = database.create_collection("made", dim=DIM)
        fielded: Any = database.create_collection("fielded", fields={"a": {"dim": DIM}, "b": {"dim": DIM}})
        salts = [salt(made), *(salt(field) for field in (fielded, *fielded._fields.values()))]
        assert len({*salts, 0}) == 5
        for collection, own in ((made, salts[0]), (before, 0)):
            collection.add(IDS, rows(own=True))
            collection.compact(shrink=True)
            restored = database.restore(database.snapshots.create(collection.name), f"{collection.name}-again")
            assert salt(collection) == salt(restored) == own
            assert restored.check().ok
            restored.delete(IDS[:2])
            assert restored.check().ok


def test_records_that_no_tree_reaches_have_no_vote(sound: Path, tmp_path: Path) -> None:
    """Whoever may add chooses what numbers and payloads look like: theirs lie on pages of their own, which may look like leaves."""
    shutil.copytree(sound, tmp_path / "data")
    file = file_of(tmp_path / "data", "c")
    first = len(file.read_bytes()) // PAGE
    with file.open("ab") as end:
        for number in range(first, first + 40):
            end.write(_leaf(number, salt=0x12345678))
    salvage = Salvage(file)
    with kinbin.open(tmp_path / "data") as database:
        store: Any = database.collection("c")._store
        with store.read() as reader:
            assert salvage.salt == reader.salt
        assert database.repair("c").items == len(LIVING)
    salvage.close()


def _leaf(number: int, salt: int) -> bytes:
    """A page of records that a salt proves."""
    entries = []
    for i in range(100):
        key, body = struct.pack(">Q", 1_000 * number + i), struct.pack("<Q", i)
        entries.append(struct.pack("<HHHH", 12, 0, 0, 8) + key + zlib.crc32(key + body, salt).to_bytes(4, "little") + body)
    upper = PAGE - 28 * len(entries)
    slots = struct.pack(f"<{len(entries)}H", *(upper + 28 * i for i in range(len(entries))))
    head = struct.pack("<QHHHH", number, 0, 2, 16 + len(slots), upper) + slots
    return head.ljust(upper, b"\0") + b"".join(entries)


def test_what_an_empty_collection_says_is_not_believed(sound: Path, tmp_path: Path) -> None:
    """The first tree's leaf of another one of its name, which lists no runs: nothing of it contradicts itself, but there are items."""
    shutil.copytree(sound, tmp_path / "data")
    file = file_of(tmp_path / "data", "c")
    data = bytearray(file.read_bytes())
    own = PageMap.of(bytes(data))
    with kinbin.open(tmp_path / "other") as database:
        store: Any = database.create_collection("c", dim=DIM)._store
        while _touched(store) < own.transaction:
            pass
    other = PageMap.of(file_of(tmp_path / "other", "c").read_bytes())
    assert other.transaction == own.transaction
    (page,), (there,) = own.leaves["meta"], other.leaves["meta"]
    data[page * PAGE + 8 : (page + 1) * PAGE] = other.data[there * PAGE + 8 : (there + 1) * PAGE]
    file.write_bytes(data)
    with kinbin.open(tmp_path / "data") as database:
        with pytest.raises(kinbin.CorruptData):
            database.collection("c").compact()
        assert not database.check()["c"].ok
        with suppress(kinbin.KinbinError):
            assert database.repair("c").items == len(LIVING)


def _touched(store: Any) -> int:
    """Commit the state as it is. Returns the transaction."""
    with store.write() as writer:
        writer.put_state(writer.state())
        return int(writer.transaction) + 1
