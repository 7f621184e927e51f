"""Files that were damaged: told, refused, found by check(), and never answered from as if nothing were."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from damage import Place, Verdict, flipped_copy, part_of, places
from kinbin.errors import CorruptData, FormatMismatch
from kinbin.hashing import EXPECTED_DIGESTS, check_hashes
from kinbin.storage import format as fmt
from kinbin.storage.format import Part
from kinbin.storage.lookups import JOURNAL, META, OWNERS, RUNS
from kinbin.storage.store import Store
from kinbin.storage.transactions import Writer
from nursery import Child, Nursery
from stored_headers import header_json, put_header_json
from workload import DIM, Stored, Workload, _ngmm, findings

pytestmark = pytest.mark.durability

STEPS = 50
PARTS = [
    "state", "config", "identity", "manifest", "items", "owners", "journal",
    "runs h", "runs o", "runs n", "runs t", "runs c", "runs p", "runs r", "runs b", "runs x",
]  # fmt: skip
EXPECTED: Stored = Workload(13, "d").after(STEPS)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database with a run, dead rows in it, and a journal."""
    folder = tmp_path_factory.mktemp("sound") / "data"
    workload = Workload(13, "d")
    with kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2, seed=7)
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        for number in range(STEPS):
            workload.step(number).perform(collection)
            if number == STEPS * 9 // 10:
                collection.compact()
        assert findings(collection, EXPECTED) == []
        with collection._store.read() as reader:
            assert reader.run_dead(reader.manifest()[0], 8).count
    return folder


class Judge:
    """A child that uses damaged databases, and is replaced when it dies of one."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._child: Child | None = None
        self._kernel = _ngmm(np.array([vector for vector, _ in EXPECTED.values()]))

    def verdict(self, path: Path) -> Verdict:
        """What came of using a database in every way."""
        if self._child is None:
            self._child = self._nursery.start("damage:judge", EXPECTED, self._kernel)
        self._child.connection.send(str(path))
        try:
            verdict: Verdict = self._child.receive()
        except (EOFError, ConnectionResetError):
            status = self._child.wait()
            self._child = None
            pytest.fail(f"the process died of it ({status})")
        return verdict


@pytest.fixture
def judged(nursery: Nursery) -> Judge:
    """Who tries damaged databases."""
    return Judge(nursery)


def test_the_judge_finds_nothing_wrong_with_what_is_sound(judged: Judge, sound: Path, tmp_path: Path) -> None:
    """An undamaged copy is answered from, checked and edited without a complaint."""
    shutil.copytree(sound, tmp_path / "data")
    assert judged.verdict(tmp_path / "data") == Verdict([], [], [], [])


@pytest.mark.parametrize("part", PARTS)
def test_a_flipped_bit_is_never_answered_from(judged: Judge, sound: Path, tmp_path: Path, part: str) -> None:
    """One flipped bit in any stored value: no wrong item, id or score comes back, nothing dies, and check() tells."""
    rng = random.Random(part)
    chosen = [place for place in places(sound / "collections" / "c") if part_of(place) == part]
    assert chosen
    silent = 0
    for number in range(10):
        place = rng.choice(chosen)
        used = _used(place)
        # The first and last bits of what counts, then any.
        bit = (0, 8 * used - 1)[number] if number < 2 else rng.randrange(8 * used)
        flipped_copy(sound, tmp_path / str(number), place, [bit])
        verdict = judged.verdict(tmp_path / str(number))
        assert verdict.wrong == [], f"bit {bit} of {place.key!r}"
        assert verdict.problems, f"bit {bit} of {place.key!r} was not found by check"
        assert all(len(problem) > 20 for problem in verdict.problems)
        if verdict.missing:
            # A damaged posting list or row may fail to bring its rows up; everything else that is damaged is told at once.
            assert part in ("runs b", "runs r")
        silent += not verdict.refused
        shutil.rmtree(tmp_path / str(number))
    if part not in ("runs b", "runs c", "runs p"):
        assert silent <= 2, "hardly anybody was told"


def _used(place: Place) -> int:
    """Bytes of a value that mean something."""
    return 16 + int.from_bytes(place.value[8:12], "little") if place.tree == "runs" else len(place.value)


@pytest.mark.parametrize("part", ["runs o", "runs n", "runs t"])
def test_a_row_is_never_answered_in_place_of_another(tmp_path: Path, rng: np.random.Generator, part: str) -> None:
    """Where all records are 64 bytes long, one flipped bit makes a row's place or number another row's: it is refused, not answered."""
    vectors = rng.random((40, 8)).astype(np.float32) + np.float32(0.01)
    with kinbin.open(tmp_path / "sound") as database:
        collection = database.create_collection("c", dim=8, bands=6, rows=1, seed=1)
        collection.add([f"i{i}" for i in range(40)], vectors)
        collection.compact()
    (place,) = (place for place in places(tmp_path / "sound" / "collections" / "c") if part_of(place) == part)
    width, bit = {"runs o": (4, 6), "runs n": (8, 0), "runs t": (4, 0)}[part]
    for row in (0, 3, 38):
        flipped_copy(tmp_path / "sound", tmp_path / f"{row}", place, [8 * (16 + width * row) + bit])
        with kinbin.open(tmp_path / f"{row}") as database:
            collection = database.collection("c")
            with pytest.raises(CorruptData):
                collection.query(vectors[0], k=40, mode="exact")
            with pytest.raises(CorruptData):
                collection.query(vectors[0], mode="bands")
            with pytest.raises(CorruptData):
                collection.get(["i0"])
            assert not collection.check().ok


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9])
def test_a_file_that_was_cut_off(judged: Judge, sound: Path, tmp_path: Path, share: float) -> None:
    """An incomplete copy is refused or told by check(); nobody follows it beyond its end, which would kill the process."""
    shutil.copytree(sound, tmp_path / "data")
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    verdict = judged.verdict(tmp_path / "data")
    assert verdict.wrong == []
    assert verdict.problems


# -- damage whose checksums are right


@pytest.fixture
def damaged(sound: Path, tmp_path: Path) -> Iterator[Callable[[Callable[[Writer, int], None]], kinbin.Collection]]:
    """A collection whose records were changed by hand, checksums and all."""
    opened = []

    def damage(edit: Callable[[Writer, int], None]) -> kinbin.Collection:
        folder = tmp_path / "data"
        shutil.copytree(sound, folder)
        store = Store(folder / "collections" / "c")
        with store.write() as writer:
            edit(writer, writer.manifest()[0])
        store.close()
        database = kinbin.open(folder)
        opened.append(database)
        collection = database.collection("c")
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        return collection

    yield damage
    for database in opened:
        database.close()


def changed(writer: Writer, run: int, part: bytes, dtype: str, change: Callable[[NDArray[Any]], None], index: int = 0) -> None:
    """Replace a part by a changed copy of itself."""
    array = np.frombuffer(bytes(writer.run_part(run, part, index)), dtype).copy()
    change(array)
    writer.put_run_part(run, part, index, array)


def swap_two(array: NDArray[Any]) -> None:
    """Exchange the first and the last number."""
    array[[0, -1]] = array[[-1, 0]]


def put_record(writer: Writer, run: int, edit: Callable[[bytearray], None]) -> None:
    """Change the bytes of block 0."""
    block = bytearray(writer.run_part(run, Part.BLOCK, 0))
    edit(block)
    writer.put_run_part(run, Part.BLOCK, 0, bytes(block))


def write_at(place: int, data: bytes) -> Callable[[bytearray], None]:
    """An edit that writes bytes at a place."""

    def edit(block: bytearray) -> None:
        block[place : place + len(data)] = data

    return edit


def change_table(
    writer: Writer,
    run: int,
    band: int,
    offsets: Callable[[NDArray[Any]], None] | None = None,
    postings: Callable[[NDArray[Any]], None] | None = None,
) -> None:
    """Change the offsets or the postings of a band."""
    table = bytes(writer.run_part(run, Part.BAND, band))
    slots = (1 << writer.run_header(run).slot_bits) + 1
    first, second = np.frombuffer(table, "<u4", slots).copy(), np.frombuffer(table, "<u2", -1, 4 * slots).copy()
    if offsets is not None:
        offsets(first)
    if postings is not None:
        postings(second)
    writer.put_run_part(run, Part.BAND, band, first.tobytes() + second.tobytes())


def first_item(writer: Writer) -> tuple[bytes, int, bytes]:
    """The first item's id, row and payload."""
    return next(iter(writer.scan_items(None)))


def set_all(value: int) -> Callable[[NDArray[Any]], None]:
    """A change of all numbers."""

    def change(array: NDArray[Any]) -> None:
        array[:] = value

    return change


LOGICAL: dict[str, tuple[str, Callable[[Writer, int], None]]] = {
    "postings in another order": (
        "band 3: its postings", lambda w, run: change_table(w, run, 3, postings=swap_two)),
    "an offset of a band": (
        "band 0: its postings", lambda w, run: change_table(w, run, 0, offsets=lambda a: write_one(a, 3, a[3] + 1))),
    "content hashes": (
        "content hashes", lambda w, run: changed(w, run, Part.CONTENT, "<u8", lambda a: write_one(a, 0, a[0] - 1))),
    "rows of content hashes": ("content hashes", lambda w, run: changed(w, run, Part.CONTENT_ROWS, "<u4", swap_two)),
    "row numbers that do not ascend": ("do not ascend", lambda w, run: changed(w, run, Part.ROW_NUMBERS, "<u8", swap_two)),
    "a row number": (
        "not the same", lambda w, run: changed(w, run, Part.ROW_NUMBERS, "<u8", lambda a: write_one(a, living(w, run), 10**9))),
    "a row's value": ("fails its check", lambda w, run: put_record(w, run, write_at(40, b"\1"))),
    "a row's size": ("does not fit", lambda w, run: put_record(w, run, write_at(8, b"\xff\xff\xff\x0f"))),
    "an item of another row": (
        "does not name the item", lambda w, _: w.put_items([(first_item(w)[0], first_item(w)[1] + 1, b"")])),
    "an item too many": ("items, the state record says", lambda w, _: w.put_items([(b"zzz", first_item(w)[1], b"")])),
    "an item that is gone": ("ids of rows are no items", lambda w, _: w.delete_items([first_item(w)[0]])),
    "owners that are gone": ("does not name the item", lambda w, _: w.put_owners([(first_item(w)[1], [])])),
    "owners of nothing": ("has no id", lambda w, _: put_raw(w, OWNERS, fmt.row_key(10**6), fmt.encode_owners(10**6, [], w.salt))),
    "a dead row that has an id": ("rows are alive, the state record says", lambda w, run: w.mark_dead(run, np.array([living(w, run)]))),
    "a journal entry that is gone": (
        "journal has not just", lambda w, _: drop_raw(w, JOURNAL, fmt.sequence_key(w.state().sequence - 1))),
    "a journal entry too many": ("journal has not just", lambda w, _: w.append_commit(w.state().sequence + 1, empty_commit(w))),
    "a band that is gone": ("lacks a value", lambda w, run: drop_raw(w, RUNS, fmt.run_key(run, Part.BAND, 4))),
    "a block that is gone": ("blocks", lambda w, run: drop_raw(w, RUNS, fmt.run_key(run, Part.BLOCK))),
    "offsets that are too few": (
        "its header gives", lambda w, run: w.put_run_part(run, Part.OFFSETS, 0, bytes(w.run_part(run, Part.OFFSETS))[:-4])),
    "a band that is too short": (
        "not the size its header gives", lambda w, run: w.put_run_part(run, Part.BAND, 1, bytes(w.run_part(run, Part.BAND, 1))[:-2])),
    "a header that is gone": ("part 'h'", lambda w, run: drop_raw(w, RUNS, fmt.run_key(run, Part.HEADER))),
    "a header without its sample": ("'contrast'", lambda w, run: put_header_json(w, run, without(header_json(w, run), "contrast"))),
    "a header of other postings": ("'posting_bytes'", lambda w, run: put_header_json(w, run, header_json(w, run) | {"posting_bytes": 3})),
    "a run that is gone": ("part 'h'", lambda w, run: w.delete_run(run)),
    "a list of runs that is gone": ("list of runs", lambda w, _: drop_raw(w, META, b"manifest")),
}  # fmt: skip


def without(data: dict[str, Any], name: str) -> dict[str, Any]:
    """A header without a field."""
    return {key: value for key, value in data.items() if key != name}


def write_one(array: NDArray[Any], place: int, value: Any) -> None:
    """Set one number."""
    array[place] = value


def put_raw(writer: Writer, tree: int, key: bytes, value: bytes) -> None:
    """Put bytes under a key."""
    writer._put(tree, key, value)


def drop_raw(writer: Writer, tree: int, key: bytes) -> None:
    """Remove a key, which must be there."""
    assert writer._get(tree, key) is not None
    writer._delete(tree, (key,))


def living(writer: Writer, run: int) -> int:
    """A local row of a run that is alive."""
    return int(writer.run_dead(run, 8).living()[0])


def empty_commit(writer: Writer) -> fmt.Commit:
    """A commit that changes nothing."""
    return fmt.Commit(
        writer.state().next_row, np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint64),
        np.empty((0, fmt.FRESH_BANDS), np.uint16), np.empty(0, np.uint8),
    )  # fmt: skip


@pytest.mark.parametrize("kind", LOGICAL)
def test_check_finds_what_checksums_do_not(damaged: Callable[[Callable[[Writer, int], None]], kinbin.Collection], kind: str) -> None:
    """Records that contradict each other are found by check() though every checksum is right, and told in a sentence that names them."""
    sentence, edit = LOGICAL[kind]
    report = damaged(edit).check()
    assert not report.ok
    assert any(sentence in problem for problem in report.problems), report.problems


def test_check_tells_what_it_is_looking_at(sound: Path) -> None:
    """check() tells its progress, finds a sound collection sound, and counts what is in it."""
    told: list[str] = []
    with kinbin.open(sound) as database:
        report = database.collection("c").check(told.append)
    assert (report.ok, report.items, report.runs, report.problems) == (True, len(EXPECTED), 1, [])
    assert [line.split(":")[0].split(" ")[0] for line in told] == ["run", "journal", "items"]


def query_all(collection: kinbin.Collection, mode: str) -> Counter[str]:
    """How many of the stored vectors are answered, and how many are refused as damaged."""
    outcomes: Counter[str] = Counter()
    for vector, _ in EXPECTED.values():
        try:
            collection.query(vector, k=3, mode=mode)
            outcomes["answered"] += 1
        except CorruptData:
            outcomes["refused"] += 1
    return outcomes


OUT_OF_BOUNDS: dict[str, Callable[[Writer, int], None]] = {
    "postings": lambda w, run: change_table(w, run, 2, postings=set_all(65_535)),
    "slots beyond the rows": lambda w, run: change_table(w, run, 2, offsets=lambda a: set_all(2**32 - 1)(a[1:])),
    "slots that go backwards": lambda w, run: change_table(w, run, 2, offsets=lambda a: set_all(a[-1])(a[::2])),
}


@pytest.mark.parametrize("kind", OUT_OF_BOUNDS)
def test_numbers_out_of_bounds_are_refused(damaged: Callable[[Callable[[Writer, int], None]], kinbin.Collection], kind: str) -> None:
    """Postings and slots that point outside their run are refused as damage before they are followed; a scan does not need them."""
    collection = damaged(OUT_OF_BOUNDS[kind])
    assert query_all(collection, "bands")["refused"] > 0
    assert query_all(collection, "exact") == {"answered": len(EXPECTED)}
    assert not collection.check().ok


@pytest.mark.parametrize("offset", [2**32 - 1, 2**31, 100_000, 4], ids=["4 GiB", "2 GiB", "outside", "between rows"])
def test_rows_out_of_bounds_are_refused(damaged: Callable[[Callable[[Writer, int], None]], kinbin.Collection], offset: int) -> None:
    """Rows whose place lies outside their block, or between two rows, are refused by every use, and followed by none."""
    collection = damaged(lambda w, run: changed(w, run, Part.OFFSETS, "<u4", set_all(offset)))
    assert query_all(collection, "bands")["refused"] > 0
    assert query_all(collection, "exact")["refused"] > 0
    refused = 0
    for name in EXPECTED:
        try:
            collection.get([name])
        except CorruptData:
            refused += 1
    assert refused > 0
    with pytest.raises(CorruptData):
        collection.compact()
    assert not collection.check().ok


@pytest.mark.parametrize(
    "norm", [b"\xff" * 8, bytes(6) + b"\xf0\x7f", bytes(8), b"\0\0\0\0\0\0\x08\xc0"], ids=["nan", "infinite", "zero", "negative"]
)
def test_a_norm_that_is_no_norm(damaged: Callable[[Callable[[Writer, int], None]], kinbin.Collection], norm: bytes) -> None:
    """A row whose norm is not a positive number is never answered and never built from; nothing is written outside a histogram for it."""

    def edit(writer: Writer, run: int) -> None:
        offsets = np.frombuffer(writer.run_part(run, Part.OFFSETS), "<u4")
        for offset in offsets[::2]:
            put_record(writer, run, write_at(int(offset), norm))

    collection = damaged(edit)
    query_all(collection, "bands")
    query_all(collection, "exact")
    for _ in range(2):
        with pytest.raises(CorruptData):
            collection.compact()
    assert not collection.check().ok


def test_identical_rows_that_are_damaged_are_not_shared(damaged: Callable[[Callable[[Writer, int], None]], kinbin.Collection]) -> None:
    """An index of content hashes that points outside the run is refused by an add that meets it, which then leaves nothing."""
    collection = damaged(lambda w, run: changed(w, run, Part.CONTENT_ROWS, "<u4", set_all(2**31)))
    before = collection.count()
    refused = 0
    for name, (vector, _) in EXPECTED.items():
        try:
            collection.add([name + "-again"], vector[None])
        except CorruptData:
            refused += 1
    assert refused > 10
    assert collection.count() == before + len(EXPECTED) - refused


# -- other versions


def restated(sound: Path, target: Path, key: bytes, value: Callable[[Any], bytes]) -> None:
    """A copy of a database with another record of the collection."""
    shutil.copytree(sound, target)
    store = Store(target / "collections" / "c")
    with store.write() as writer:
        put_raw(writer, META, key, value(writer))
        if key == b"state":
            # It is not written once more, as this version writes it.
            writer.finish = lambda identity: None  # type: ignore[method-assign]
    store.close()


def test_a_newer_format_is_refused(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of a newer format is refused when it is opened, with both numbers, as often as it is tried; others are not affected."""

    def newer(writer: Writer) -> bytes:
        state = writer.state()
        with monkeypatch.context() as patch:
            patch.setattr(fmt, "FORMAT_VERSION", 5)
            return fmt.encode_state(state)

    restated(sound, tmp_path / "data", b"state", newer)
    with kinbin.open(tmp_path / "data") as database:
        for _ in range(3):
            with pytest.raises(FormatMismatch, match="format 5, this Kinbin reads format 4"):
                database.collection("c")
        with pytest.raises(FormatMismatch, match="format 5, this Kinbin reads format 4"):
            database.drop_collection("c")
        assert database.create_collection("d").count() == 0


def test_another_hash_version_is_refused(sound: Path, tmp_path: Path) -> None:
    """A collection whose hashes are of another version is refused when it is opened, with both numbers."""

    def with_other_hashes(writer: Writer) -> bytes:
        return fmt.encode_json(writer.configuration().encode() | {"hash_version": 2}, writer.begun(b"config"))

    restated(sound, tmp_path / "data", b"config", with_other_hashes)
    with kinbin.open(tmp_path / "data") as database:
        for _ in range(3):
            with pytest.raises(FormatMismatch, match="hash version 2, this Kinbin computes version 1"):
                database.collection("c")


def test_a_machine_that_computes_other_hashes_is_refused(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the digest of its sampler differs no collection is opened, made or saved: its index would silently be wrong."""
    check_hashes.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("kinbin.hashing.golden.sampler_digest", lambda _: bytes(16))
        with kinbin.open(sound) as database:
            for _ in range(2):
                with pytest.raises(FormatMismatch, match="hash version 1"):
                    database.collection("c")
                with pytest.raises(FormatMismatch, match="hash version 1"):
                    database.create_collection("new")
                with pytest.raises(FormatMismatch, match="hash version 1"):
                    database.create_collection("strings", items="strings")
                with pytest.raises(FormatMismatch, match="hash version 1"):
                    database.create_collection("fields", fields={"a": {}, "b": {"kernel": "cosine"}})
                with pytest.raises(FormatMismatch, match="hash version 1"):
                    database.repair("c", "saved")
            assert database.collections() == ["c"]
    with kinbin.open(sound) as database:
        database.collection("c")


@pytest.mark.parametrize(("wrong", "kernel"), [("argmax", "cosine"), ("gcws_sign", "mm_acos"), ("dart", "ngmm")])
def test_hashes_of_its_own_sampler_are_looked_at(wrong: str, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that computes one sampler wrongly refuses the collections that it hashes, and no others."""
    dim = None if wrong == "dart" else 16
    with kinbin.open(tmp_path) as database:
        database.create_collection("wrong", kernel=kernel, dim=dim)
        database.create_collection("right", kernel="gmm", dim=16)
    check_hashes.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("kinbin.hashing.golden.sampler_digest", lambda name: bytes(16) if name == wrong else EXPECTED_DIGESTS[name])
        with kinbin.open(tmp_path) as database:
            assert database.collection("right").count() == 0
            with pytest.raises(FormatMismatch, match="does not compute hash version 1"):
                database.collection("wrong")
            with pytest.raises(FormatMismatch, match="does not compute hash version 1"):
                database.create_collection("more", kernel=kernel, dim=dim)
            assert sorted(database.collections()) == ["right", "wrong"]
    check_hashes.cache_clear()


def test_every_part_is_damaged_by_a_test(sound: Path) -> None:
    """The parts that the flipped bits go through are all there are."""
    assert {part_of(place) for place in places(sound / "collections" / "c")} == set(PARTS)
