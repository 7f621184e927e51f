"""The store's contract, and its LMDB form: the only importer of lmdb beside `errors`.

Visibility   A commit is seen by every process at its next `read()`; a reader sees one moment.
Durability   A commit is on disk before `write()` returns (sync=True, no writemap); an exception inside
             the block leaves no trace of it.
Ordering     One writer at a time over all processes; commits are numbered without gaps.
Threads      `read()` from any thread; `write()` from any thread, one at a time in a process, and the
             transaction stays in its thread. Transactions are short: a long reader makes the file grow.
Memory       Values of runs lie still in the map while any reader that sees them is open, so kernels may
             read them by address; all smaller records are copied.
Fork         An environment never crosses a fork: `read()` and `write()` refuse in a child process.
Close        Waits for open readers and writers; afterwards everything raises Closed.
Failure      If the outcome of a commit is unknown (its last page could not be written) `write()` raises
             StorageBusy, and the next use opens the files anew, as soon as no reader is left.

The operations are batches (several ids, several rows), and none assumes that two calls see one
snapshot unless they are made inside one `read()`: a store on another machine can keep this contract.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

from kinbin.errors import Closed, CollectionNotFound, CorruptData, FormatMismatch, StorageBusy, StorageError
from kinbin.storage import format as fmt
from kinbin.storage.errors import reraise, translated
from kinbin.storage.format import Commit, Part, State
from kinbin.storage.places import address_of, place_of

__all__ = ["Reader", "Snapshot", "Store", "Writer", "sync_directory"]

MAP_SIZE = 1 << 40
"""Bytes of address space, not of disk: the map is never grown while it is open."""
MAX_READERS = 2048
_TREES = (b"meta", b"items", b"owners", b"journal", b"runs")


class Reader:
    """One snapshot. Made by `Store.read`; not used after its block."""

    def __init__(self, store: Store, transaction: Any) -> None:
        self._txn = transaction
        self.opening = store.opening
        self._meta, self._items, self._owners, self._journal, self._runs = store.trees

    opening: int
    """Which opening of the files this is: addresses of another one are void."""

    def end(self) -> None:
        """Give the reader slot back at once: a transaction keeps it until the object dies, and a kept traceback keeps that."""
        transaction, self._txn = self._txn, None
        transaction.abort()

    def state_record(self) -> bytes:
        """The state record as it is stored: equal records are equal states."""
        return bytes(self._txn.get(b"state", b"", db=self._meta))

    def state(self) -> State:
        """The state record."""
        return fmt.decode_state(self.state_record())

    def configuration(self) -> dict[str, Any]:
        """What the collection was created with."""
        data: dict[str, Any] = fmt.decode_json(self._txn.get(b"config", b"", db=self._meta), "the collection's configuration")
        return data

    def manifest(self) -> list[int]:
        """Numbers of the runs, oldest rows first."""
        runs: list[int] = fmt.decode_json(self._txn.get(b"manifest", b"", db=self._meta), "the list of runs")
        return runs

    def link_sets(self) -> list[int]:
        """Numbers of the link sets, at most one; whoever knows of none may leave them out."""
        value = self._txn.get(b"links", db=self._meta)
        sets: list[int] = [] if value is None else fmt.decode_json(value, "the list of link sets")
        return sets

    def items(self, keys: Sequence[bytes]) -> list[tuple[int, bytes] | None]:
        """Row and payload of each id, None where there is none."""
        tree = self._items
        out: list[tuple[int, bytes] | None] = []
        for key in keys:
            value = self._txn.get(key, db=tree)
            out.append(None if value is None else fmt.decode_item(key, value))
        return out

    def scan_items(self, after: bytes | None) -> Iterator[tuple[bytes, int, bytes]]:
        """(id, row, payload) in the order of ids, from the first id greater than `after`."""
        with self._txn.cursor(db=self._items) as cursor:
            found = cursor.first() if after is None else cursor.set_range(after)
            if found and after is not None and bytes(cursor.key()) == after:
                found = cursor.next()
            while found:
                key = bytes(cursor.key())
                row, payload = fmt.decode_item(key, cursor.value())
                yield key, row, payload
                found = cursor.next()

    def owners(self, rows: Iterable[int]) -> list[list[bytes]]:
        """The ids of each row; an empty list for a row that has none."""
        tree = self._owners
        out = []
        for row in rows:
            value = self._txn.get(fmt.row_key(row), db=tree)
            out.append([] if value is None else fmt.decode_owners(row, value))
        return out

    def scan_owners(self) -> Iterator[tuple[int, list[bytes]]]:
        """Every row and its ids, by row."""
        with self._txn.cursor(db=self._owners) as cursor:
            for key, value in cursor:
                row = int.from_bytes(key, "big")
                yield row, fmt.decode_owners(row, value)

    def journal(self, after: int) -> Iterator[tuple[int, Commit]]:
        """Commits after the one numbered `after`, as far as they have entries."""
        with self._txn.cursor(db=self._journal) as cursor:
            found = cursor.set_range(fmt.sequence_key(after + 1))
            while found:
                yield int.from_bytes(cursor.key(), "big"), fmt.decode_commit(cursor.value())
                found = cursor.next()

    def run_part(self, run: int, part: bytes, index: int = 0, *, verify: bool = False) -> memoryview:
        """The body of a run's value, in place.

        Raises:
            CorruptData: it is absent, of another kind, or (asked to verify) damaged.
        """
        value = self._txn.get(fmt.run_key(run, part, index), db=self._runs)
        return fmt.open_value(memoryview(b"") if value is None else value, part, verify=verify)

    def run_parts(self, run: int, part: bytes, *, verify: bool = False) -> list[memoryview]:
        """The bodies of all values of one part of a run, by index, in place."""
        prefix = fmt.run_key(run, part)[:5]
        out: list[memoryview] = []
        with self._txn.cursor(db=self._runs) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:5]) == prefix:
                out.append(fmt.open_value(cursor.value(), part, verify=verify))
                found = cursor.next()
        return out

    def run_places(self, run: int, part: bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Addresses (n,) and bytes (n,) of the bodies of all values of one part of a run, by index, without reading them.

        The bytes of a small value may include its padding. Cost: 2 µs a value, however large.
        """
        prefix = fmt.run_key(run, part)[:5]
        places: list[tuple[int, int]] = []
        with self._txn.cursor(db=self._runs) as cursor:
            page_bytes = self._page_bytes(cursor, run)
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:5]) == prefix:
                place = place_of(cursor.key(), page_bytes) if page_bytes else None
                if place is None:
                    value = cursor.value()
                    place = address_of(value), len(value)
                places.append(place)
                found = cursor.next()
        out = np.array(places, np.uint64).reshape(-1, 2)
        return out[:, 0] + np.uint64(fmt.VALUE_HEADER), out[:, 1] - np.uint64(fmt.VALUE_HEADER)

    def _page_bytes(self, cursor: Any, run: int) -> int:
        """The page size, if `place_of` finds the run's header where it is; 0 if it does not."""
        page_bytes = int(self._txn.stat(self._runs)["psize"])
        if not cursor.set_key(fmt.run_key(run, Part.HEADER)):
            return 0
        value = cursor.value()
        return page_bytes if place_of(cursor.key(), page_bytes) == (address_of(value), len(value)) else 0

    def run_header(self, run: int) -> dict[str, Any]:
        """A run's header, checked."""
        header: dict[str, Any] = fmt.decode_json(self.run_part(run, Part.HEADER, verify=True), "a run's header")
        return header

    def run_dead(self, run: int, rows: int) -> NDArray[np.uint8]:
        """One bit a row (a copy), set for rows that must not be answered; padded to whole chunks."""
        chunks = -(-rows // fmt.DEAD_ROWS)
        out = np.zeros(max(chunks, 1) * fmt.DEAD_ROWS // 8, np.uint8)
        with self._txn.cursor(db=self._runs) as cursor:
            prefix = fmt.run_key(run, Part.DEAD)[:5]
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:5]) == prefix:
                start = int.from_bytes(cursor.key()[5:], "big") * fmt.DEAD_ROWS // 8
                bits = np.frombuffer(fmt.open_value(cursor.value(), Part.DEAD, verify=True), np.uint8)
                out[start : start + len(bits)] = bits
                found = cursor.next()
        return out

    def run_numbers(self) -> set[int]:
        """Numbers of all runs that have values, listed in the manifest or not."""
        out = set()
        with self._txn.cursor(db=self._runs) as cursor:
            found = cursor.first()
            while found:
                run = int.from_bytes(cursor.key()[:4], "big")
                out.add(run)
                found = cursor.set_range((run + 1).to_bytes(4, "big"))
        return out


class Snapshot(Reader):
    """A `Reader` for the block of a `with` statement. Made by `Store.read`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Snapshot:
        self._store.enter()
        try:
            super().__init__(self._store, self._store.snapshot())
        except BaseException as error:
            self._store.leave()
            reraise(error)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.end()
        finally:
            self._store.leave()
        reraise(error)


class Writer(Reader):
    """One write transaction: reads what it wrote. Made by `Store.write`."""

    def put_state(self, state: State) -> None:
        """Replace the state record."""
        self._txn.put(b"state", fmt.encode_state(state), db=self._meta)

    def put_manifest(self, runs: list[int]) -> None:
        """Replace the list of runs."""
        self._txn.put(b"manifest", fmt.encode_json(runs), db=self._meta)

    def put_link_sets(self, sets: list[int]) -> None:
        """Replace the list of link sets."""
        self._txn.put(b"links", fmt.encode_json(sets), db=self._meta)

    def put_items(self, records: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Add or replace items: (id, row, payload)."""
        put = self._txn.put
        for key, row, payload in records:
            put(key, fmt.encode_item(key, row, payload), db=self._items)

    def delete_items(self, keys: Iterable[bytes]) -> None:
        """Remove items."""
        for key in keys:
            self._txn.delete(key, db=self._items)

    def put_owners(self, owners: Iterable[tuple[int, list[bytes]]]) -> None:
        """Replace the ids of rows; a row without ids loses its record."""
        for row, ids in owners:
            if ids:
                self._txn.put(fmt.row_key(row), fmt.encode_owners(row, ids), db=self._owners)
            else:
                self._txn.delete(fmt.row_key(row), db=self._owners)

    def append_commit(self, sequence: int, commit: Commit) -> None:
        """Add a journal entry.

        Raises:
            CorruptData: the journal has one of this number, or of a later one.
        """
        if not self._txn.put(fmt.sequence_key(sequence), fmt.encode_commit(commit), db=self._journal, append=True):
            raise CorruptData("the journal is ahead of the state record: the files are damaged; restore a copy")

    def trim_journal(self, through: int) -> None:
        """Remove the entries up to one number: their rows are in a run now."""
        with self._txn.cursor(db=self._journal) as cursor:
            found = cursor.first()
            while found and int.from_bytes(cursor.key(), "big") <= through:
                found = cursor.delete()

    def put_run_part(self, run: int, part: bytes, index: int, body: bytes | NDArray[Any]) -> None:
        """Add or replace one value of a run."""
        self._txn.put(fmt.run_key(run, part, index), fmt.seal_value(part, body), db=self._runs)

    def put_run_header(self, run: int, header: dict[str, Any]) -> None:
        """Add a run's header."""
        self.put_run_part(run, Part.HEADER, 0, fmt.encode_json(header))

    def mark_dead(self, run: int, rows: NDArray[np.int64]) -> None:
        """Set the dead bits of local rows of a run; rewrites only the chunks they lie in."""
        chunks = rows // fmt.DEAD_ROWS
        for chunk in np.unique(chunks):
            key = fmt.run_key(run, Part.DEAD, int(chunk))
            value = self._txn.get(key, db=self._runs)
            bits = np.zeros(fmt.DEAD_ROWS // 8, np.uint8)
            if value is not None:
                bits[:] = np.frombuffer(fmt.open_value(value, Part.DEAD, verify=True), np.uint8)
            inside = rows[chunks == chunk] - chunk * fmt.DEAD_ROWS
            np.bitwise_or.at(bits, inside >> 3, np.left_shift(1, inside & 7).astype(np.uint8))
            self.put_run_part(run, Part.DEAD, int(chunk), bits)

    def delete_run(self, run: int) -> None:
        """Remove all values of a run."""
        prefix = run.to_bytes(4, "big")
        with self._txn.cursor(db=self._runs) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:4]) == prefix:
                found = cursor.delete()


class Store:
    """The files of one collection, open in this process. See the head of this file for the contract."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self._closed = False
        self._failed = False
        self._users = 0
        self._idle = threading.Condition()
        self._write_lock = threading.RLock()
        self._writes = 0
        self.opening = 0
        self._open()

    def _open(self) -> None:
        self.opening += 1
        if not (self.path / "data.mdb").is_file():
            # lmdb would make one.
            raise FormatMismatch("this is not a store of Kinbin")
        with translated():
            self._env = lmdb.open(
                str(self.path), map_size=MAP_SIZE, max_dbs=len(_TREES), max_readers=MAX_READERS,
                sync=True, metasync=True, writemap=False, readahead=False, create=False,
            )  # fmt: skip
            try:
                self._fill_up()
                self.trees = tuple(self._env.open_db(name) for name in _TREES)
                self._env.reader_check()
            except BaseException:
                self._env.close()
                raise

    def _fill_up(self) -> None:
        """Lengthen a file that is shorter than its pages, as an incomplete copy is.

        The pages that are missing then read as zeros and fail their checks; a look beyond the end of a mapped
        file would kill the process. (Unused pages at the end may be missing from a sound file.)
        """
        path = self.path / "data.mdb"
        page = self._env.stat()["psize"]
        if path.stat().st_size < page * (self._env.info()["last_pgno"] + 1):
            with self._env.begin(write=True):
                size = page * (self._env.info()["last_pgno"] + 1)
                if path.stat().st_size < size:
                    os.truncate(path, size)

    @classmethod
    def create(cls, path: Path, configuration: dict[str, Any]) -> None:
        """Make the files of an empty collection: complete under another name first, then renamed.

        Raises:
            FileExistsError: the path exists.
        """
        draft = path.with_name(f".new-{path.name}-{secrets.token_hex(8)}")
        try:
            with translated():
                draft.mkdir(parents=True)
                env = lmdb.open(str(draft), map_size=MAP_SIZE, max_dbs=len(_TREES), max_readers=MAX_READERS)
                try:
                    meta, *_ = [env.open_db(name) for name in _TREES]
                    with env.begin(write=True) as txn:
                        txn.put(b"config", fmt.encode_json(configuration), db=meta)
                        txn.put(b"manifest", fmt.encode_json([]), db=meta)
                        txn.put(b"state", fmt.encode_state(State()), db=meta)
                finally:
                    env.close()
                (draft / "lock.mdb").unlink(missing_ok=True)
                sync_directory(draft)
            _rename_new(draft, path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def read(self) -> Snapshot:
        """One snapshot for the block of a `with` statement.

        The statement raises StorageBusy if no reader slot is free, or the files are being opened anew.
        """
        return Snapshot(self)

    def snapshot(self) -> Any:
        """A read transaction; if all slots are taken, those of dead processes are freed first."""
        try:
            return self._env.begin(buffers=True)
        except lmdb.ReadersFullError:
            self._env.reader_check()
            return self._env.begin(buffers=True)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep the map in memory for the block without a snapshot: for who reads runs that only it may remove."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Keep the map in memory until `leave`."""
        self.refuse_fork()
        with self._idle:
            self._check_open()
            self._users += 1

    def leave(self) -> None:
        """One user of the map less; the last one of a store that was closed lets go of the files."""
        with self._idle:
            self._users -= 1
            if self._closed:
                if not self._users:
                    self._env.close()
                self._idle.notify_all()

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """One write transaction for the block: committed and on disk when the block ends.

        Raises:
            StorageFull, CollectionNotFound (it was removed), CorruptData: nothing was written.
            StorageBusy: the outcome is unknown; repeat the request.
        """
        self.refuse_fork()
        with self._write_lock, self.pinned():
            self._writes += 1
            try:
                with translated():
                    if self._writes % 64 == 1:
                        self._env.reader_check()
                    with self._env.begin(write=True, buffers=True) as transaction:
                        writer = Writer(self, transaction)
                        if writer.state().dropped:
                            raise CollectionNotFound("the collection was removed")
                        yield writer
            except StorageError:
                if not self._refuses_everything():
                    raise
                with self._idle:
                    self._failed = True
                raise StorageBusy("the store failed while writing; the outcome is unknown: repeat the request") from None

    def _refuses_everything(self) -> bool:
        """Whether a meta page could not be written: until it is opened anew the environment does nothing more."""
        try:
            self._env.begin().abort()
        except lmdb.PanicError:
            return True
        except lmdb.Error:
            return False
        return False

    def refuse_fork(self) -> None:
        """Raise Closed in a forked child; takes no lock, for another thread may have held it at the fork, and so for ever."""
        if os.getpid() != self._pid:
            raise Closed("the database was opened before a fork, which it cannot: open it in each process, after the fork")

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the database was closed")
        if self._failed:
            # Nobody may be reading by address while the map goes away.
            if self._users:
                raise StorageBusy("the store failed while writing and is being opened anew: try again")
            self._env.close()
            self._open()
            self._failed = False

    def size_on_disk(self) -> int:
        """Bytes that the files take on disk."""
        return (self.path / "data.mdb").stat().st_blocks * 512

    def close(self) -> None:
        """Wait for open readers and writers, then let go of the files. Harmless when repeated.

        Who reads for longer than a minute keeps the files open until it ends.
        """
        if os.getpid() != self._pid:
            return
        with self._idle:
            if self._closed:
                return
            self._closed = True
            if self._idle.wait_for(lambda: self._users == 0, timeout=60):
                self._env.close()


def _rename_new(draft: Path, path: Path) -> None:
    """Give a finished draft its name, on disk as well."""
    try:
        draft.rename(path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise FileExistsError(path) from None
        with translated():
            raise
    with translated():
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Put a directory's entries on disk: a new file is durable only with its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
