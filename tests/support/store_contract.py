"""What every store must keep, as a test class: a form of the store inherits it and says how it is made and opened.

The sentences are those at the head of `kinbin.storage.store`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from kinbin.errors import Closed, CollectionNotFound, CorruptData, KinbinError, StorageBusy
from kinbin.storage.format import DEAD_ROWS, FRESH_BANDS, Commit, Part, State
from kinbin.storage.headers import Configuration
from stored_headers import CONFIGURATION, run_header

MOMENT = 0.15
"""Seconds in which something that must not happen is given the time to happen."""
LONG = 30.0


class Stop(Exception):
    """What the tests raise inside a block."""


def commit_of(first_row: int, rows: int, dead: tuple[int, ...] = ()) -> Commit:
    """A journal entry of so many rows of 8 bytes each."""
    return Commit(
        first_row,
        np.array(dead, np.uint64),
        np.arange(rows + 1, dtype=np.int64) * 8,
        np.arange(rows, dtype=np.uint64) + np.uint64(first_row),
        np.full((rows, FRESH_BANDS), first_row, np.uint16),
        np.full(8 * rows, first_row % 251, np.uint8),
    )


def add_row(store: Any, row: int) -> None:
    """One commit: an item, its row, its journal entry, the state."""
    with store.write() as writer:
        sequence = writer.state().sequence + 1
        writer.put_items([(b"item%06d" % row, row, b'{"row":%d}' % row)])
        writer.put_owners([(row, [b"item%06d" % row])])
        writer.append_commit(sequence, commit_of(row, 1))
        writer.put_state(writer.state().with_(sequence=sequence, next_row=row + 1, items=row + 1))


def everything(store: Any) -> dict[str, Any]:
    """All that a reader can see, as plain data."""
    with store.read() as reader:
        runs = reader.manifest()
        return {
            "state": reader.state(),
            "configuration": reader.configuration(),
            "manifest": runs,
            "items": list(reader.scan_items(None)),
            "owners": list(reader.scan_owners()),
            "journal": [(number, entry.first_row, len(entry), entry.dead.tolist()) for number, entry in reader.journal(0)],
            "run numbers": reader.run_numbers(),
            "parts": {run: [bytes(part) for part in reader.run_parts(run, Part.BLOCK)] for run in reader.run_numbers()},
            "dead": {run: reader.run_dead(run, 10).bits.tobytes() for run in reader.run_numbers()},
        }


class StoreContract:
    """Inherit it, and give `create` and `open`; `busy_slots` if the store has a limit of concurrent readers."""

    CONFIGURATION: ClassVar[Configuration] = CONFIGURATION
    busy_slots: int | None = None

    def create(self, path: Path) -> None:
        """Make an empty store with CONFIGURATION."""
        raise NotImplementedError

    def open(self, path: Path) -> Any:
        """Open what was made."""
        raise NotImplementedError

    def slots_in_use(self, store: Any) -> int:
        """How many readers the store believes to have."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """Where a new, empty store is."""
        self.create(tmp_path / "store")
        return tmp_path / "store"

    @pytest.fixture
    def store(self, place: Path) -> Iterator[Any]:
        """An open, empty store."""
        store = self.open(place)
        yield store
        store.close()

    # -- records

    def test_a_new_store_is_empty(self, store: Any) -> None:
        """A new store has its configuration, the first state, and nothing else."""
        assert everything(store) == {
            "state": State(), "configuration": self.CONFIGURATION, "manifest": [], "items": [], "owners": [], "journal": [],
            "run numbers": set(), "parts": {}, "dead": {},
        }  # fmt: skip

    def test_items_come_back(self, store: Any) -> None:
        """Items are found by id and in the order of their ids as bytes, with row and payload; those that are not there are None."""
        records = [("ä".encode(), 3, b""), (b"a", 1, b'{"x":1}'), (b"a" * 255, 2**47, b"p" * 70_000), (b"b", 4, b"{}")]
        with store.write() as writer:
            writer.put_items(records)
            assert writer.items([b"a", b"none"]) == [(1, b'{"x":1}'), None]
        with store.read() as reader:
            assert reader.items([key for key, _, _ in records]) == [(row, payload) for _, row, payload in records]
            assert list(reader.scan_items(None)) == sorted(records)
            assert [key for key, _, _ in reader.scan_items(b"a")] == [b"a" * 255, b"b", "ä".encode()]
            assert [key for key, _, _ in reader.scan_items(b"aa")] == [b"a" * 255, b"b", "ä".encode()]
            assert list(reader.scan_items("ä".encode())) == []
        with store.write() as writer:
            writer.put_items([(b"a", 9, b"")])
            writer.delete_items([b"b", b"none"])
        with store.read() as reader:
            assert reader.items([b"a", b"b"]) == [(9, b""), None]

    def test_owners_come_back(self, store: Any) -> None:
        """A row's ids come back in their order, rows in theirs; a row whose ids are gone has no record."""
        owners = [(1, [b"b", b"a"]), (255, [b"x" * 255]), (256, [b"c"]), (2**40, [b"%d" % i for i in range(1000)])]
        with store.write() as writer:
            writer.put_owners(reversed(owners))
            assert writer.owners([1]) == [[b"b", b"a"]]
        with store.read() as reader:
            assert list(reader.scan_owners()) == owners
            assert reader.owners([256, 7, 1]) == [[b"c"], [], [b"b", b"a"]]
        with store.write() as writer:
            writer.put_owners([(1, []), (7, []), (256, [b"d"])])
        with store.read() as reader:
            assert [row for row, _ in reader.scan_owners()] == [255, 256, 2**40]
            assert reader.owners([256]) == [[b"d"]]

    def test_the_journal_is_read_from_a_number_on_and_trimmed_up_to_one(self, store: Any) -> None:
        """Journal entries come back in order and whole, after any number; trimming removes just those up to one."""
        with store.write() as writer:
            for number in range(1, 301):
                writer.append_commit(number, commit_of(number * 10, 3, (number,)))
        with store.read() as reader:
            assert [number for number, _ in reader.journal(0)] == list(range(1, 301))
            assert [number for number, _ in reader.journal(297)] == [298, 299, 300]
            entry = dict(reader.journal(299))[300]
        wanted = commit_of(3000, 3, (300,))
        assert (entry.first_row, len(entry)) == (3000, 3)
        for name in ("dead", "offsets", "hashes", "keys", "records"):
            np.testing.assert_array_equal(getattr(entry, name), getattr(wanted, name))
        with store.write() as writer:
            writer.trim_journal(298)
        with store.read() as reader:
            assert [number for number, _ in reader.journal(0)] == [299, 300]
        with store.write() as writer:
            writer.trim_journal(300)
        with store.read() as reader:
            assert list(reader.journal(0)) == []

    def test_a_journal_entry_is_never_put_behind_the_last(self, store: Any) -> None:
        """A commit whose number is not the greatest is refused, and not dropped in silence."""
        with store.write() as writer:
            writer.append_commit(5, commit_of(1, 1))
        for number in (5, 4):
            with pytest.raises(CorruptData, match="ahead of the state"), store.write() as writer:
                writer.append_commit(number, commit_of(2, 1))
        with store.read() as reader:
            assert [(number, entry.first_row) for number, entry in reader.journal(0)] == [(5, 1)]

    def test_runs_come_back_part_by_part(self, store: Any) -> None:
        """A run's parts come back by index and whole, whatever their size; runs do not touch each other, and leave nothing behind."""
        blocks = [bytes([i]) * size for i, size in enumerate((0, 1, 4079, 4080, 4081, 100_000))]
        with store.write() as writer:
            for run in (1, 2, 2**31):
                for index in reversed(range(len(blocks))):
                    writer.put_run_part(run, Part.BLOCK, index, blocks[index])
                writer.put_run_part(run, Part.OFFSETS, 0, np.arange(5, dtype=np.uint32))
                writer.put_header(run, run_header(run))
            writer.put_manifest([2, 1])
        with store.read() as reader:
            assert reader.run_numbers() == {1, 2, 2**31}
            assert reader.manifest() == [2, 1]
            for run in (1, 2, 2**31):
                assert [bytes(part) for part in reader.run_parts(run, Part.BLOCK, verify=True)] == blocks
                assert reader.run_header(run).encode() == run_header(run).encode()
                assert np.frombuffer(reader.run_part(run, Part.OFFSETS, verify=True), "<u4").tolist() == [0, 1, 2, 3, 4]
            assert reader.run_parts(1, Part.BAND) == []
            with pytest.raises(CorruptData):
                reader.run_part(1, Part.CONTENT)
        with store.write() as writer:
            writer.delete_run(1)
            writer.delete_run(2**31)
        with store.read() as reader:
            assert reader.run_numbers() == {2}
            assert [bytes(part) for part in reader.run_parts(2, Part.BLOCK)] == blocks

    def test_dead_rows_are_marked_one_by_one(self, store: Any) -> None:
        """Dead bits add up over commits and chunks; rows that were never marked are alive."""
        with store.write() as writer:
            writer.mark_dead(1, np.array([0, 9, DEAD_ROWS - 1, DEAD_ROWS], np.int64))
        with store.write() as writer:
            writer.mark_dead(1, np.array([3, 2 * DEAD_ROWS + 7], np.int64))
            writer.mark_dead(1, np.empty(0, np.int64))
        with store.read() as reader:
            dead = reader.run_dead(1, 3 * DEAD_ROWS)
            assert dead.gone().tolist() == [0, 3, 9, DEAD_ROWS - 1, DEAD_ROWS, 2 * DEAD_ROWS + 7]
            assert reader.run_dead(2, 1000).count == 0

    def test_values_of_runs_lie_still(self, store: Any) -> None:
        """While a reader is open, the bytes of its runs keep their place and content, whatever is committed and removed meanwhile."""
        body = np.random.default_rng(0).integers(0, 256, 50_000, np.uint8).tobytes()
        with store.write() as writer:
            writer.put_run_part(1, Part.BLOCK, 0, body)
        with store.read() as reader:
            part = reader.run_part(1, Part.BLOCK)
            with store.write() as writer:
                writer.delete_run(1)
            for row in range(50):
                add_row(store, row)
            with store.write() as writer:
                writer.put_run_part(2, Part.BLOCK, 0, b"\xff" * 50_000)
            assert bytes(part) == body
            assert bytes(reader.run_part(1, Part.BLOCK, verify=True)) == body

    # -- visibility

    def test_a_commit_is_seen_by_the_next_read(self, store: Any) -> None:
        """A reader that begins after a commit sees it, in any thread."""
        with ThreadPoolExecutor(1) as other:
            for row in range(20):
                add_row(store, row)
                with store.read() as reader:
                    assert reader.items([b"item%06d" % row]) != [None]
                assert len(other.submit(everything, store).result(LONG)["items"]) == row + 1

    def test_a_reader_sees_one_moment(self, store: Any) -> None:
        """A reader that is open while others commit goes on seeing what was there when it began."""
        add_row(store, 0)
        with ThreadPoolExecutor(1) as other, store.read() as reader:
            before = reader.state()
            for row in range(1, 30):
                other.submit(add_row, store, row).result(LONG)
            assert reader.state() == before
            assert len(list(reader.scan_items(None))) == 1
            assert len(list(reader.journal(0))) == 1
        assert len(everything(store)["items"]) == 30

    def test_many_readers_at_once(self, store: Any) -> None:
        """A thousand readers may be open at once, each at its own moment, and a writer goes on."""
        with ExitStack() as stack:
            readers = []
            for row in range(1000):
                if row % 50 == 0:
                    add_row(store, row // 50)
                readers.append(stack.enter_context(store.read()))
            assert [reader.state().items for reader in readers] == [i // 50 + 1 for i in range(1000)]

    # -- durability and order

    def test_commits_outlive_the_store_in_their_order(self, place: Path) -> None:
        """What was committed is there after closing and opening again: all of it, in the order it came."""
        store = self.open(place)
        for row in range(200):
            add_row(store, row)
        before = everything(store)
        store.close()
        store = self.open(place)
        assert everything(store) == before
        assert [first for _, first, _, _ in before["journal"]] == list(range(200))
        store.close()

    @pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, CorruptData], ids=lambda error: error.__name__)
    def test_an_exception_in_a_write_leaves_no_trace(self, store: Any, error: type[BaseException]) -> None:
        """Whatever was put before an exception inside write() is gone, and the next write works."""
        add_row(store, 0)
        with store.write() as writer:
            writer.put_run_part(1, Part.BLOCK, 0, b"kept")
        before = everything(store)

        def spoil() -> None:
            with store.write() as writer:
                writer.put_items([(b"new", 5, b""), (b"item000000", 9, b"")])
                writer.delete_items([b"item000000"])
                writer.put_owners([(0, []), (5, [b"new"])])
                writer.append_commit(2, commit_of(5, 9))
                writer.trim_journal(1)
                writer.put_run_part(1, Part.BLOCK, 0, b"lost")
                writer.put_run_part(9, Part.BAND, 3, b"lost" * 5_000)
                writer.mark_dead(1, np.array([1], np.int64))
                writer.put_manifest([9])
                writer.put_state(State(7, 7, 7, 7, 7, 7))
                raise error

        with pytest.raises(error):
            spoil()
        assert everything(store) == before
        add_row(store, 1)
        assert len(everything(store)["items"]) == 2

    def test_a_removed_store_refuses_to_be_written(self, store: Any) -> None:
        """Once the state says dropped, every write is refused and nothing changes; what is there can still be read."""
        add_row(store, 0)
        with store.write() as writer:
            writer.put_state(writer.state().with_(dropped=True))
        before = everything(store)
        with pytest.raises(CollectionNotFound):
            add_row(store, 1)
        assert everything(store) == before

    # -- one writer

    def test_one_writer_at_a_time(self, store: Any) -> None:
        """A second write() waits until the first has ended, and then sees what that did."""
        inside, leave = threading.Event(), threading.Event()

        def first() -> None:
            with store.write() as writer:
                inside.set()
                assert leave.wait(LONG)
                writer.put_items([(b"first", 1, b"")])

        def second() -> list[Any]:
            with store.write() as writer:
                return list(writer.items([b"first"]))

        with ThreadPoolExecutor(2) as threads:
            one = threads.submit(first)
            assert inside.wait(LONG)
            two = threads.submit(second)
            with pytest.raises(TimeoutError):
                two.result(MOMENT)
            leave.set()
            one.result(LONG)
            assert two.result(LONG) == [(1, b"")]

    def test_concurrent_writers_lose_nothing(self, store: Any) -> None:
        """Writers in eight threads that each add to a common number leave its sum, and commits without gaps."""

        def count_up(_: int) -> None:
            with store.write() as writer:
                state = writer.state()
                writer.append_commit(state.sequence + 1, commit_of(state.next_row, 1))
                writer.put_state(state.with_(sequence=state.sequence + 1, next_row=state.next_row + 1))

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(count_up, range(200)))
        there = everything(store)
        assert there["state"].sequence == 200
        assert [entry[:2] for entry in there["journal"]] == [(number, number - 1) for number in range(1, 201)]

    # -- reader slots

    def test_slots_are_freed_after_concurrent_reads(self, store: Any) -> None:
        """Two hundred readers at the same moment all get a slot, and leave none taken."""
        add_row(store, 0)
        met = threading.Barrier(200)

        def read() -> int:
            with store.read() as reader:
                met.wait(LONG)
                return int(reader.state().items)

        with ThreadPoolExecutor(200) as threads:
            for _ in range(2):
                assert {future.result(LONG) for future in [threads.submit(read) for _ in range(200)]} == {1}
        assert self.slots_in_use(store) == 0

    @pytest.mark.parametrize("where", ["plain", "items", "owners", "scan", "journal", "run"])
    def test_a_kept_traceback_keeps_no_slot(self, store: Any, where: str) -> None:
        """An error that left a read, and is kept with all its frames, does not keep the reader's slot."""
        add_row(store, 0)
        with store.write() as writer:
            writer.put_run_part(1, Part.BLOCK, 0, b"x")
        kept = []

        def fail() -> None:
            with store.read() as reader:
                steps: dict[str, Callable[[], Any]] = {
                    "plain": lambda: None,
                    "items": lambda: reader.items([b"item000000", None]),
                    "owners": lambda: reader.owners([0, -1]),
                    "scan": lambda: [1 // row for _, row, _ in reader.scan_items(None)],
                    "journal": lambda: [1 // entry.first_row for _, entry in reader.journal(0)],
                    "run": lambda: reader.run_part(1, Part.HEADER),
                }
                steps[where]()
                raise Stop

        for _ in range(50):
            try:
                fail()
            except (Stop, TypeError, OverflowError, ZeroDivisionError, KinbinError) as error:
                kept.append(error)
        assert len(kept) == 50
        assert self.slots_in_use(store) == 0

    def test_no_slot_is_an_error_to_try_again(self, store: Any) -> None:
        """When all slots are taken a further read raises StorageBusy, writes go on, and a slot given back can be used."""
        if self.busy_slots is None:
            pytest.skip("this store has no limit of readers")
        with ExitStack() as stack:
            for _ in range(self.busy_slots):
                stack.enter_context(store.read())
            with pytest.raises(StorageBusy), store.read():
                pass
            add_row(store, 0)
        with store.read() as reader:
            assert reader.state().items == 1
        assert self.slots_in_use(store) == 0

    # -- the end

    def test_after_close_everything_is_refused(self, place: Path) -> None:
        """After close(), which may be repeated, every use raises Closed."""
        store = self.open(place)
        add_row(store, 0)
        store.close()
        store.close()
        for use in (store.read, store.write, store.pinned):
            with pytest.raises(Closed, match="closed"), use():
                pass

    @pytest.mark.parametrize("kind", ["read", "write", "pinned"])
    def test_close_waits(self, place: Path, kind: str) -> None:
        """close() waits for readers and writers that are open, refuses new ones meanwhile, and loses nothing of theirs."""
        store = self.open(place)
        add_row(store, 0)
        inside, leave = threading.Event(), threading.Event()

        def use() -> int:
            with getattr(store, kind)() as block:
                inside.set()
                assert leave.wait(LONG)
                if kind == "write":
                    block.put_items([(b"late", 1, b"")])
                return len(list(block.scan_items(None))) if block is not None else 0

        with ThreadPoolExecutor(2) as threads:
            user = threads.submit(use)
            assert inside.wait(LONG)
            closing = threads.submit(store.close)
            with pytest.raises(TimeoutError):
                closing.result(MOMENT)
            with pytest.raises(Closed), store.read():
                pass
            leave.set()
            closing.result(LONG)
            assert user.result(LONG) == {"read": 1, "write": 2, "pinned": 0}[kind]
        store = self.open(place)
        assert len(everything(store)["items"]) == (2 if kind == "write" else 1)
        store.close()

    def test_close_is_not_stopped_by_who_is_pinned_and_wants_to_write(self, place: Path) -> None:
        """Who holds the map and then wants to write is refused while the store closes; neither waits for the other."""
        store = self.open(place)
        inside, leave = threading.Event(), threading.Event()

        def build() -> None:
            with store.pinned():
                inside.set()
                assert leave.wait(LONG)
                with store.write():
                    pass

        with ThreadPoolExecutor(2) as threads:
            builder = threads.submit(build)
            assert inside.wait(LONG)
            closing = threads.submit(store.close)
            with pytest.raises(TimeoutError):
                closing.result(MOMENT)
            leave.set()
            with pytest.raises(Closed):
                builder.result(LONG)
            closing.result(LONG)
