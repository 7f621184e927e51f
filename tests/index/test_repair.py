"""Repair: what is intact of a damaged collection is answered again, nothing is invented, and the damaged files stay as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import kinbin
from kinbin.repair import Damaged
from kinbin.storage.correction import corrected
from linked import still
from torture.harm import HARMS, Harm, flips
from torture.pages import PAGE, PageMap
from torture.specimen import Specimen, build
from workload import findings, stored_items

SEED = 3
FILE = Path("collections") / "c" / "data.mdb"


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Specimen, bytes]:
    """A database in all states: what it holds, and its file."""
    folder = tmp_path_factory.mktemp("sound") / "data"
    return build(folder, SEED), (folder / FILE).read_bytes()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background."""
    with still():
        yield


def damaged(folder: Path, data: bytes) -> Path:
    """A database whose collection has this file."""
    (folder / FILE).parent.mkdir(parents=True)
    (folder / FILE).write_bytes(data)
    return folder


def repaired(folder: Path, specimen: Specimen) -> tuple[kinbin.RepairReport, set[str]]:
    """The report, and the names of the items that are there again; that all of them are true is asserted."""
    before = (folder / FILE).read_bytes()
    with kinbin.open(folder) as database:
        report = database.repair("c")
        collection = database.collection(report.name)
        stored = stored_items(collection)
        places = {name: i for i, name in enumerate(specimen.names)}
        if any("meta page" in problem for problem in report.problems):
            # The last commit deleted three items: it may be undone, and that is told.
            assert len(set(stored) - set(places)) in (0, 3)
        else:
            assert set(stored) <= set(places)
        for name, (vector, payload) in stored.items():
            if name not in places:
                continue
            assert np.array_equal(vector, specimen.vectors[places[name]]), name
            assert payload == (None if name in report.bare_ids else specimen.payloads[places[name]]), name
        assert report.items == len(stored) == collection.count()
        assert not set(report.lost_ids) & set(stored)
        assert collection.check().ok
    assert (folder / FILE).read_bytes() == before
    return report, set(stored)


def test_a_sound_collection_is_copied_whole(specimen: tuple[Specimen, bytes], tmp_path: Path) -> None:
    """Repair of what is not damaged loses nothing, tells of nothing, and gives a collection that answers the same."""
    sound, data = specimen
    report, names = repaired(damaged(tmp_path / "data", data), sound)
    assert (report.lost, report.bare, report.problems) == (0, 0, [])
    assert names == set(sound.names)
    with kinbin.open(tmp_path / "data") as database:
        expected = {name: (vector, payload) for name, vector, payload in zip(sound.names, sound.vectors, sound.payloads, strict=True)}
        assert findings(database.collection("c-repaired"), expected) == []


@pytest.mark.slow
def test_a_flipped_bit_loses_nothing(specimen: tuple[Specimen, bytes], tmp_path: Path) -> None:
    """After any single flipped bit every item is there again, with its payload."""
    sound, data = specimen
    for number, harm in enumerate(flips(PageMap.of(data), random.Random(SEED), 30)):
        report, names = repaired(damaged(tmp_path / str(number), harm.done_to(data)), sound)
        assert names >= set(sound.names), harm.where
        assert (report.lost, report.bare) == (0, 0), harm.where


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a collection with one run, twelve adds in its journal and large payloads: 240 items."""
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(1)
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=6, seed=1)

        def add(first: int, count: int) -> None:
            payloads = [{"n": i, "t": "x" * (5_000 if i % 40 == 3 else 20 + 7 * (i % 10))} for i in range(first, first + count)]
            collection.add([f"i{i:03d}" for i in range(first, first + count)], rng.random((count, 6), np.float32) + 0.1, payloads)

        add(0, 120)
        collection.compact()
        for number in range(12):
            add(120 + 10 * number, 10)
    return (folder / FILE).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["items", "owners", "journal", "runs", "meta"])
def test_a_flipped_bit_of_what_places_entries_loses_nothing(small: bytes, tmp_path: Path, tree: str) -> None:
    """Heads of leaves, slots, heads of entries, and what leads to large values: what is wrong of one way the other one tells."""
    pages = PageMap.of(small)
    rng = random.Random(f"{SEED} {tree}")
    places: list[int] = []
    for page in pages.leaves[tree]:
        offsets = pages.node_offsets(page)
        places += [page * PAGE + at for at in (*range(16), *range(16, 16 + 2 * len(offsets)))]
        places += [page * PAGE + offset + at for offset in offsets for at in range(8)]
        places += [int(node.at) + 8 + len(node.key) + at for node in pages.nodes(page) if node.big for at in range(8)]
    file = damaged(tmp_path / "data", small) / FILE
    for place in rng.sample(places, min(120, len(places))):
        content = bytearray(small)
        content[place] ^= 1 << (bit := rng.randrange(8))
        file.write_bytes(content)
        with closing(Damaged(file.parent)) as there:
            items = there._first.items
            found, _ = there._rows(np.unique(np.fromiter(items.rows.values(), np.uint64)))
            where = f"byte {place % PAGE}, bit {bit} of page {place // PAGE}"
            assert (len(items.rows), items.bare, bool(found.all())) == (240, [], True), where


def hit(harm: Harm) -> set[int]:
    """Pages that a harm changes."""
    return {page for offset, new in harm.edits for page in range(offset // PAGE, (offset + len(new) - 1) // PAGE + 1)}


@pytest.mark.parametrize("name", sorted(set(HARMS) - {"truncated"}))
def test_what_is_intact_is_saved(specimen: tuple[Specimen, bytes], tmp_path: Path, name: str) -> None:
    """Page damage loses only items with a part on the pages that were hit: their payload, their vector, or what places many vectors."""
    sound, data = specimen
    pages = PageMap.of(data)
    rng = random.Random(f"{SEED} {name}")
    for number in range(8):
        harm = HARMS[name](pages, rng)
        kinds = {pages.kinds[page] for page in hit(harm)}
        report, names = repaired(damaged(tmp_path / str(number), harm.done_to(data)), sound)
        missing = set(sound.names) - names
        assert "meta" not in kinds or any("meta page" in problem for problem in report.problems), harm.where
        if not any(kind.startswith(("items", "owners")) for kind in kinds):
            assert not report.bare, harm.where
        if not kinds & {"runs r:value", "journal:value", "journal:leaf", "runs:leaf", "runs:branch", "runs n:value", "runs h:value"}:
            assert not missing, harm.where
        assert missing == set(report.lost_ids), harm.where


@pytest.mark.parametrize(("one", "other"), list(combinations(("items", "owners", "journal", "runs", "meta"), 2)))
def test_leaves_in_each_others_place_are_saved(specimen: tuple[Specimen, bytes], tmp_path: Path, one: str, other: str) -> None:
    """Each says whose place it has: nothing is taken for what that place holds (a row's ids were taken for an item), nor is it lost."""
    sound, data = specimen
    pages = PageMap.of(data)
    for number, (first, second) in enumerate(zip(pages.leaves[one][:3], pages.leaves[other][:3], strict=False)):
        content = bytearray(data)
        for here, there in ((first, second), (second, first)):
            content[here * PAGE : (here + 1) * PAGE] = data[there * PAGE : (there + 1) * PAGE]
        report, names = repaired(damaged(tmp_path / str(number), bytes(content)), sound)
        assert names == set(sound.names)
        assert (report.lost, report.bare) == (0, 0)


def test_the_new_name_is_no_longer_than_names_are(tmp_path: Path) -> None:
    """What is appended to the longest name takes the place of its end."""
    with kinbin.open(tmp_path / "data") as database:
        database.create_collection("c" * 63, dim=2).add(["a"], np.ones((1, 2)))
        assert database.repair("c" * 63).name == "c" * 54 + "-repaired"


def test_a_writer_meanwhile_is_told(specimen: tuple[Specimen, bytes], tmp_path: Path) -> None:
    """Nobody may write while a collection is repaired; who does is noticed."""
    with kinbin.open(damaged(tmp_path / "data", specimen[1])) as database:
        collection = database.collection("c")

        def write(*_: int) -> None:
            collection.delete(specimen[0].names[:1])

        report = database.repair("c", progress=write)
    assert any("written to meanwhile" in problem for problem in report.problems)


def test_a_file_that_is_cut_gives_what_is_left(specimen: tuple[Specimen, bytes], tmp_path: Path) -> None:
    """Of a file that ends early what is left is saved or told to be lost; one without its configuration is refused."""
    sound, data = specimen
    saved = []
    for number, share in enumerate((0.95, 0.7, 0.4)):
        folder = damaged(tmp_path / str(number), data[: int(len(data) * share)])
        try:
            _, names = repaired(folder, sound)
        except kinbin.CorruptData:
            names = set()
        saved.append(len(names))
    assert saved[0] > 0
    with pytest.raises(kinbin.CorruptData, match="created with"), kinbin.open(damaged(tmp_path / "none", data[: 2 * PAGE])) as database:
        database.repair("c")
    with kinbin.open(tmp_path / "none") as database:
        assert database.collections() == ["c"]


@pytest.mark.parametrize("payload", [None, {"n": 1}])
def test_ids_of_eight_bytes_are_not_taken_for_rows(tmp_path: Path, payload: dict[str, int] | None) -> None:
    """Records that no tree reaches any more are told apart by their form: the newest meta page is lost, with all that it leads to."""
    rows = np.random.default_rng(7).random((40, 5)).astype(np.float32)
    ids = [f"id-{number:05}" for number in range(len(rows))]
    with kinbin.open(tmp_path / "data") as database:
        database.create_collection("c", dim=5).add(ids, rows, [payload] * len(rows))
    file = tmp_path / "data" / FILE
    data = file.read_bytes()
    newest = max((0, 1), key=lambda page: int.from_bytes(data[page * PAGE + 144 : page * PAGE + 152], "little"))
    file.write_bytes(data[: newest * PAGE] + bytes(PAGE) + data[(newest + 1) * PAGE :])
    with kinbin.open(tmp_path / "data") as database:
        report = database.repair("c")
        stored = stored_items(database.collection(report.name))
    assert report.items == len(ids)
    assert sorted(stored) == ids
    for name, row in zip(ids, rows, strict=True):
        assert np.array_equal(stored[name][0], row)
        assert stored[name][1] == payload


@pytest.mark.parametrize("harmed", [False, True])
def test_what_was_declared_is_declared_again(tmp_path: Path, harmed: bool) -> None:
    """Payload indexes and limits of a collection are those of the repaired one, also after a flipped bit of their records."""
    with kinbin.open(tmp_path / "data") as database:
        made = database.create_collection("c", dim=3, indexes={"n": "number", "tag": "keyword"})
        made.add([f"i{i}" for i in range(40)], np.eye(3)[np.arange(40) % 3] + 1, [{"n": i, "tag": f"t{i % 3}"} for i in range(40)])
        made.set_limits(items=30, bytes=None)
        expected = made.count({"n": {"$lt": 7}})
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    data = bytearray(file.read_bytes())
    if harmed:
        for text in (b'"kinds":', b'"items":30'):
            at = data.find(text)
            while at >= 0:
                data[at + 3] ^= 4
                at = data.find(text)
        file.write_bytes(bytes(data))
    with kinbin.open(tmp_path / "data") as database:
        report = database.repair("c")
        again = database.collection(report.name)
        assert (report.items, again.count({"n": {"$lt": 7}})) == (40, expected)
        assert {name: one["kind"] for name, one in again.stats()["indexes"]["fields"].items()} == {"n": "number", "tag": "keyword"}
        assert again.limits() == {"items": 30, "bytes": None}
        with pytest.raises(kinbin.InvalidInput, match="at most 30 items"):
            again.add(["more"], [[1, 2, 3]])


def test_fields_are_repaired(tmp_path: Path) -> None:
    """A collection with several fields is repaired field by field; an item that lacks a vector in one of them is lost, and told."""
    vectors = np.random.default_rng(1).random((60, 6)).astype(np.float32) + np.float32(0.1)
    with kinbin.open(tmp_path / "data") as database:
        made = database.create_collection("c", fields={"a": {"kernel": "ngmm", "dim": 6}, "b": {}}, seed=1)
        words = [kinbin.Sparse([i, 100 + i], [1.0, 2.0]) for i in range(60)]
        made.add([f"i{i}" for i in range(60)], {"a": vectors, "b": words}, [{"n": i} for i in range(60)])
        made.compact()
        made.add(["more"], {"a": vectors[:1] + 1, "b": words[:1]})
        made.delete(["more"])
        whole = database.repair("c", into="whole")
        assert (whole.items, whole.lost, whole.problems) == (60, 0, [])
        database.drop_collection("whole")
    file = tmp_path / "data" / "collections" / "c" / "fields" / "a" / "data.mdb"
    data = bytearray(file.read_bytes())
    # Old pages hold copies.
    at = data.find(vectors[7].tobytes())
    while at >= 0:
        data[at] ^= 1
        data[at + 5] ^= 1
        at = data.find(vectors[7].tobytes())
    file.write_bytes(bytes(data))
    with kinbin.open(tmp_path / "data") as database:
        report = database.repair("c", into="again")
        assert (report.items, report.lost_ids) == (59, ["i7"])
        again = database.fields_collection("again")
        assert again.check().ok
        item = again.get(["i9"])[0]
        assert item is not None
        assert item.vectors is not None
        assert np.array_equal(item.vectors["a"], vectors[9])  # type: ignore[arg-type]
        with pytest.raises(kinbin.CollectionExists):
            database.repair("c", into="again")


@pytest.mark.parametrize("size", [1, 2, 7, 100, 4096, 70_001])
def test_one_flipped_bit_is_put_right(size: int) -> None:
    """Whichever bit of a message or of its checksum was flipped, the message comes back; two flipped bits are no message."""
    import zlib

    rng = random.Random(size)
    message = rng.randbytes(size)
    checksum = zlib.crc32(message)
    for bit in [0, 8 * size - 1, *(rng.randrange(8 * size) for _ in range(12))]:
        harmed = bytearray(message)
        harmed[bit >> 3] ^= 1 << (bit & 7)
        assert corrected(bytes(harmed), checksum) == message
    for bit in range(32):
        assert corrected(message, checksum ^ 1 << bit) == message
    if size > 2:
        harmed = bytearray(message)
        harmed[0] ^= 1
        harmed[-1] ^= 4
        assert corrected(bytes(harmed), checksum) is None
