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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import lmdb

from kinbin.errors import Closed, CollectionNotFound, FormatMismatch, StorageBusy, StorageError
from kinbin.storage import format as fmt
from kinbin.storage.errors import reraise, translated
from kinbin.storage.format import State
from kinbin.storage.headers import Configuration, FieldNames
from kinbin.storage.transactions import Reader, Writer

__all__ = ["FIELDS", "Snapshot", "Store", "sync_directory"]

MAP_SIZE = 1 << 40
"""Bytes of address space, not of disk: the map is never grown while it is open."""
MAX_READERS = 2048
FIELDS = "fields"
"""The directory of a collection in which the stores of its fields lie."""
_TREES = (b"meta", b"items", b"owners", b"journal", b"runs")


class Snapshot(Reader):
    """A `Reader` for the block of a `with` statement. Made by `Store.read`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Snapshot:
        self._store.enter()
        try:
            super().__init__(self._store.snapshot(), self._store.trees, self._store.opening)
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
    def create(cls, path: Path, configuration: Configuration | FieldNames, fields: Mapping[str, Configuration] | None = None) -> None:
        """Make the files of an empty collection: complete under another name first, then renamed.

        fields: what the stores of its fields are created with, by name.

        Raises:
            FileExistsError: the path exists.
        """
        draft = path.with_name(f".new-{path.name}-{secrets.token_hex(8)}")
        try:
            with translated():
                _write_new(draft, configuration)
                for name, one in (fields or {}).items():
                    _write_new(draft / FIELDS / name, one)
                if fields:
                    sync_directory(draft / FIELDS)
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
            StorageBusy: the outcome is unknown. What is the same when done twice may be repeated; for the rest, read what is stored.
        """
        self.refuse_fork()
        with self._write_lock, self.pinned():
            self._writes += 1
            try:
                with translated():
                    if self._writes % 64 == 1:
                        self._env.reader_check()
                    with self._env.begin(write=True, buffers=True) as transaction:
                        writer = Writer(transaction, self.trees, self.opening)
                        if writer.state().dropped:
                            raise CollectionNotFound("the collection was removed")
                        yield writer
            except StorageError:
                if not self._refuses_everything():
                    raise
                with self._idle:
                    self._failed = True
                raise StorageBusy(
                    "the store failed while writing; the outcome is unknown: repeat upserts and deletes, look for the rest"
                ) from None

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


def _write_new(path: Path, configuration: Configuration | FieldNames) -> None:
    """The files of one empty store."""
    path.mkdir(parents=True)
    env = lmdb.open(str(path), map_size=MAP_SIZE, max_dbs=len(_TREES), max_readers=MAX_READERS)
    try:
        meta, *_ = [env.open_db(name) for name in _TREES]
        with env.begin(write=True) as txn:
            txn.put(b"config", fmt.encode_json(configuration.encode()), db=meta)
            txn.put(b"manifest", fmt.encode_json([]), db=meta)
            txn.put(b"state", fmt.encode_state(State()), db=meta)
    finally:
        env.close()
    (path / "lock.mdb").unlink(missing_ok=True)
    sync_directory(path)


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
