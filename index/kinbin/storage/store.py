"""The store's contract: who uses the files when. `opening` is one opening of them, in LMDB; `creation` makes them.

Visibility   A commit is seen by every process at its next `read()`; a reader sees one moment.
Durability   A commit is on disk before `write()` returns (sync=True, no writemap); an exception inside
             the block leaves no trace of it.
Ordering     One writer at a time over all processes, by LMDB's lock and one on the file itself; commits are numbered without gaps.
Identity     The state record names the transaction that wrote it, the files name their collection. Where a snapshot's transaction
             is another one, CorruptData: commits were lost. A commit is acknowledged only while the file has its name, and the
             table of readers its own; reads look ten times a second.
Opening      Writes nothing.
Threads      `read()` from any thread; `write()` from any thread, one at a time in a process, and the
             transaction stays in its thread. Transactions are short: a long reader makes the file grow.
Memory       Values of runs lie still in the map while any reader that sees them is open, so kernels may
             read them by address; all smaller records are copied.
Fork         An environment never crosses a fork: `read()` and `write()` refuse in a child process.
Close        Waits for open readers and writers; afterwards everything raises Closed, or CollectionNotFound where it was dropped.
Failure      If the outcome of a commit is unknown (its last page could not be written) `write()` raises
             StorageBusy, and the next use opens the files anew, as soon as no reader is left.

The operations are batches (several ids, several rows), and none assumes that two calls see one
snapshot unless they are made inside one `read()`: a store on another machine can keep this contract.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from kinbin.errors import Closed, CollectionNotFound, CorruptData, FormatMismatch, KinbinError, StorageBusy, StorageError
from kinbin.storage import format as fmt
from kinbin.storage.commits import tell_of_commit
from kinbin.storage.creation import is_renamed, name_of
from kinbin.storage.datafile import Gone, LockReplaced, Replaced, TableBehind, gone
from kinbin.storage.directories import sync_path
from kinbin.storage.errors import reraise, translated
from kinbin.storage.free import check_free
from kinbin.storage.headers import Identity
from kinbin.storage.lockfile import LOCK
from kinbin.storage.lookups import Trees, identity_in
from kinbin.storage.mapped import is_another, is_successor
from kinbin.storage.opening import INHERITED, Opening
from kinbin.storage.transactions import Reader, Writer

__all__ = ["Snapshot", "Store"]

_PATIENCE = 10.0
"""Seconds that a use waits for readers of files that were replaced."""
LOOK_SECONDS = 0.1
"""Reads look so often whether the file still has its name."""
_AWAITED = "the files were made anew, and are opened as soon as a long read of this process ends: try again"
_TRIES = 20
"""Openings of files that others make anew meanwhile."""


class Snapshot(Reader):
    """A `Reader` for the block of a `with` statement. Made by `Store.read`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Snapshot:
        for _ in range(_TRIES):
            self._user = self._store.enter()
            try:
                super().__init__(*self._store.files.snapshot(), self._store.opening)
            except Replaced:
                self._store.leave(self._user)
                try:
                    self._store.follow()
                except CorruptData as error:
                    self._store.tell_whose(error)
                    raise
            except BaseException as error:
                self._store.leave(self._user)
                self._store.tell_whose(error)
                reraise(error)
                raise
            else:
                self._began = time.monotonic()
                if self._store.lost is not None and not self.state().dropped:
                    self.__exit__(None, None, None)
                    raise self._store.lost
                return self
        raise StorageBusy("the store is made anew faster than it can be opened: try again")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.end()
        finally:
            self._store.leave(self._user)
        if error is None and time.monotonic() > self._began + LOOK_SECONDS:
            self._store.check_table()
        self._store.tell_whose(error)
        reraise(error)


class Store:
    """The files of one collection, open in this process. See the head of this file for the contract."""

    def __init__(self, path: Path, *, adopt: bool = False) -> None:
        """adopt: files that say they are another collection's as well (`recovery`)."""
        self.path = path
        self._adopt = adopt
        self._pid = os.getpid()
        self._closed = False
        self.removed = False
        """Whether the collection is known to be dropped: said of uses after `close`, where the database is open."""
        self._failed = False
        self._replaced = False
        """Whether the files are to be opened anew as soon as nobody uses these: another file was made of this one (`shrinking`), `lock.mdb`
        is another one, or the map is too small (`addresses`)."""
        self._users: list[int] = []
        """The threads of all uses: a thread that uses the map already waits for nobody to let go of it."""
        # Every read takes it twice: a condition passes each on by a call of its own.
        self._using = threading.RLock()
        self._idle = threading.Condition(self._using)
        self._write_lock = threading.RLock()
        self._writes = 0
        self.files: Opening
        self.opening = 0
        self._identity: bytes | None = None
        """The record; None: of files of format 1, which have none."""
        self._look_due = 0.0
        self.lost: CorruptData | None = None
        """Why what is open is read no more, unless it says that the collection was dropped."""
        self._open()

    def _open(self) -> None:
        self._ready = False
        """Whether what has to hold before this process writes was seen to."""
        for _ in range(_TRIES):
            self.opening += 1
            try:
                self.files = Opening(self.path, self._check_identity)
            except Replaced:
                # Made anew between two looks at it (`shrinking`): what was found in the one file says nothing of the other.
                continue
            except FormatMismatch as error:
                missing = error if self.path.is_dir() else gone()
                self._name(missing)
                raise missing from None
            except StorageError as error:
                self._name(error)
                raise
            return
        raise StorageBusy("the store is made anew faster than it can be opened: try again")

    def tell_whose(self, error: BaseException | None) -> None:
        """Let an error of damage, or of a full disk, tell whose files they are.

        Raises:
            CollectionNotFound: in its place, where the files lost their name because the collection was dropped.
            StorageBusy: in its place, where `lock.mdb` was removed: what was read may have been written over.
        """
        if isinstance(error, Gone | Replaced):
            if self._was_dropped():
                raise CollectionNotFound("the collection was removed") from None
        elif isinstance(error, CorruptData):
            self.check_table()
        self._name(error)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let errors that leave the block outside of a read or write be Kinbin's, and tell whose files they are of."""
        try:
            with translated():
                yield
        except KinbinError as error:
            self.tell_whose(error)
            raise

    def _name(self, error: BaseException | None) -> None:
        if isinstance(error, StorageError) and not isinstance(error, StorageBusy) and not error.collection:
            error.collection = name_of(self.path)

    def _check_identity(self, trees: Trees) -> None:
        """See that these are the files of this collection, the same as before, and remember which they are.

        Raises:
            CorruptData: they are another one's. CollectionNotFound: of one that was made since these were opened: what is known of the
            other's runs says nothing of its own.
        """
        name = name_of(self.path)
        have = trees.identity()
        if have is None and trees.state.transaction is not None:
            raise CorruptData("the files do not say whose they are")
        if have is not None and have.collection != name and not self._adopt:
            back = "put each file back into the directory of its collection"
            raise CorruptData(
                f"these are the files of the collection {have.collection!r}: they were put in the place of its own",
                f"{back}; `kinbin recover` goes on with these, under this name" if is_renamed(name, have.collection) else back,
            )
        if self._identity is not None and trees.identity_record != self._identity:
            self.removed = True
            raise CollectionNotFound("the collection was removed, and there is another one of its name")
        self._identity = trees.identity_record
        self._upgraded = self._identity or fmt.encode_json(Identity.new(name, salted=False).encode())
        """What the first commit writes to files of format 1; another process may be faster."""

    def read(self) -> Snapshot:
        """One snapshot for the block of a `with` statement.

        The statement raises StorageBusy if no reader slot is free, or the files are being opened anew.
        """
        return Snapshot(self)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep the map in memory for the block without a snapshot: for who reads runs that only it may remove."""
        # What is read inside is read of the same files, and may write them full.
        self._look_due = 0.0
        with self._using:
            if threading.get_ident() not in self._users and not self.files.has_room(alone=True):
                self._replaced = True
        user = self.enter()
        try:
            yield
        finally:
            self.leave(user)

    def enter(self) -> int:
        """Keep the map in memory until `leave`, which is given what this returns."""
        self.refuse_fork()
        if time.monotonic() > self._look_due:
            self._look()
        return self._use()

    def _use(self) -> int:
        user = threading.get_ident()
        with self._using:
            if self._closed or self._replaced or self._failed:
                self._check_open(user)
            self._users.append(user)
        return user

    def _look(self) -> None:
        """See, now and then, that the file that is read is still the one that has the name. One that was just removed is read on."""
        self._look_due = time.monotonic() + LOOK_SECONDS
        try:
            try:
                self.files.file.check_named()
            except Replaced:
                self.follow()
            self.lost = None
        except Gone:
            self.lost = None
        except CorruptData as error:
            self.tell_whose(error)
            self.lost = error

    def check_table(self) -> None:
        """See that writers see the readers of this process: pages that a reader of another table uses are written over.

        Raises:
            StorageBusy: they do not.
        """
        try:
            self.files.file.check_named()
        except LockReplaced:
            raise StorageBusy(f"{LOCK} was removed meanwhile, and others may have written over what was read: try again") from None
        except CorruptData:
            pass

    def leave(self, user: int) -> None:
        """One user of the map less; the last one of a store that was closed lets go of the files."""
        with self._using:
            self._users.remove(user)
            if self._closed or self._replaced:
                if self._closed and not self._users:
                    self.files.close()
                self._idle.notify_all()

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """One write transaction for the block: committed and on disk when the block ends.

        Raises:
            StorageFull, CollectionNotFound (it was removed), CorruptData: nothing was written.
            StorageBusy: the outcome is unknown. What is the same when done twice may be repeated; for the rest, read what is stored.
        """
        self.refuse_fork()
        with self._write_lock:
            self._writes += 1
            user = None
            try:
                with translated():
                    transaction, writer, user = self._begin_writing()
                    with transaction:
                        yield writer
                        writer.finish(self._upgraded)
                        finished = time.perf_counter()
                    took = time.perf_counter() - finished
                    if writer.changed:
                        self.files.committed(writer.transaction + 1)
                        self._check_kept()
                tell_of_commit(took)
            except StorageError as error:
                self.tell_whose(error)
                if user is None or not self.files.refuses_everything():
                    raise
                with self._idle:
                    self._failed = True
                raise StorageBusy(
                    "the store failed while writing; the outcome is unknown: repeat upserts and deletes, look for the rest"
                ) from None
            finally:
                if user is not None:
                    self.files.file.let_go()
                    self.leave(user)

    def catch_up(self) -> None:
        """See that reads of this process miss no commit, also not of a writer whose `lock.mdb` was removed. Cost: 10 µs.

        Raises:
            CollectionNotFound (it was removed), CorruptData, StorageBusy.
        """
        self.refuse_fork()
        with self._write_lock:
            try:
                with translated():
                    transaction, _, user = self._begin_writing()
            except StorageError as error:
                self.tell_whose(error)
                raise
            transaction.abort()
            self.files.file.let_go()
            self.leave(user)

    def _was_dropped(self) -> bool:
        """Whether the collection was dropped whose files are open, and have lost their name.

        The state in them says so; or the last commits went to a file that was made of them (`shrinking`) and is gone with its directory.
        """
        try:
            user = self._use()
        except KinbinError as error:
            return isinstance(error, CollectionNotFound)
        try:
            with translated(), self.files.env.begin(buffers=True) as transaction:
                trees = self.files.trees_at(transaction.id())
                return trees is not None and trees.state.dropped
        except (Gone, Replaced):
            return self._is_elsewhere()
        except KinbinError:
            return False
        finally:
            self.leave(user)

    def _is_elsewhere(self) -> bool:
        """Whether the name leads to another collection, or to none."""
        # In this order: another process may make and drop them in turns.
        return is_another(self.path, self._identity) or not self.path.is_dir()

    def _check_kept(self) -> None:
        """See that what was just committed is in the file that has the name, maybe a new one, made of this one; else CorruptData."""
        try:
            self.files.file.check_named()
        except LockReplaced:
            self.follow()
            # Another process may have written at the same time, not knowing of this one.
            raise StorageBusy(f"{LOCK} was removed meanwhile; the outcome is unknown: read what is stored") from None
        except Replaced:
            self.follow()

    def _begin_writing(self) -> tuple[Any, Writer, int]:
        """A write transaction in the file that has the name, its writer, and what `leave` is given: until then the map is in memory."""
        for _ in range(_TRIES):
            user = self.enter()
            try:
                if self._replaced:
                    raise StorageBusy(_AWAITED)
                self.files.file.hold()
                try:
                    return *self._begin_alone(), user
                except BaseException:
                    self.files.file.let_go()
                    raise
            except Replaced:
                self.leave(user)
                self.follow()
            except BaseException:
                self.leave(user)
                raise
        raise StorageBusy("the store is made anew faster than it can be opened: try again")

    def _begin_alone(self) -> tuple[Any, Writer]:
        """A write transaction in the file that is held, and its writer.

        Raises:
            Replaced: another file has the name, or another table is to be opened with it.
        """
        # Before LMDB's lock is taken, which is that of all files that have had this name: if its holder died, LMDB sets the lock table to
        # the last transaction of the file that is open here, which must not be an older one. While it is held none takes its place.
        self.files.file.check_named()
        if self._writes % 64 == 1:
            self.files.env.reader_check()
        transaction = self.files.begin_writing()
        try:
            writer = self._writer(transaction)
            self.files.see_room(alone=len(self._users) == 1)
        except TableBehind:
            # Nobody may write by it, and every process that has it open will look for another one.
            transaction.abort()
            with translated(), suppress(FileNotFoundError):
                (self.path / LOCK).unlink()
            raise
        except BaseException:
            transaction.abort()
            raise
        return transaction, writer

    def follow(self) -> None:
        """Open the file that has taken the place of this one, at the next use, if it was made of it (`shrinking`).

        Raises:
            CorruptData: it is another one.
        """
        with self._idle:
            self._replaced = self._replaced or self.files.is_outgrown
            if self._replaced or self._closed:
                return
            try:
                self.files.file.check_named()
            except LockReplaced:
                # The same file: it is opened anew, with the table that others use.
                self._replaced = True
            except Replaced:
                if not is_successor(self.path, self._identity, self.files.last_transaction()):
                    raise
                self._replaced = True

    def whose(self) -> Identity | None:
        """Whose files these are; None in format 1."""
        return None if self._identity is None else identity_in(self._identity)

    @property
    def identity(self) -> str:
        """A number of the identity record, hexadecimal: another one for another collection of the same name."""
        return f"{zlib.crc32(self._identity or b''):08x}"

    @property
    def descriptor(self) -> int:
        """Of the file that is open, for who reads it besides LMDB inside of a `read()`."""
        return self.files.file.descriptor

    def loss(self) -> str | None:
        """What happened to the file that is open, if it has lost its name, and not to one that was made of it."""
        try:
            try:
                self.files.file.check_named()
            except Replaced:
                self.follow()
        except CorruptData as error:
            return error.what
        return None

    def is_named(self) -> bool:
        """Whether the name is still that of this collection: neither is its directory gone, nor are there files of another one.

        An older copy of its own file has the name, and is refused by every use: opened anew it would be taken for all there is.
        Cost: 2 µs.
        """
        try:
            self.files.file.check_named()
        except Gone:
            return self.path.is_dir()
        except Replaced:
            try:
                self.follow()
            except CorruptData:
                return not is_another(self.path, self._identity)
        except CorruptData:
            return False
        return True

    def _writer(self, transaction: Any) -> Writer:
        """The writer of a transaction that has just begun, if it may write."""
        last = transaction.id() - 1
        trees = self.files.trees_at(last)
        other = self.files.other_meta(last)
        if trees is None or other.transaction > last:
            if is_another(self.path, self._identity):
                raise _other_files()
            raise TableBehind(f"{LOCK} was removed while somebody wrote")
        self.files.check_newest(trees.meta, other)
        writer = Writer(transaction, trees, self.opening, self.files.handles)
        if writer.state().dropped:
            raise CollectionNotFound("the collection was removed")
        identity = writer.identity_record()
        if identity != self._identity and self._identity is None:
            # Files of format 1 when they were opened: another process has written since.
            self._check_identity(trees)
        elif identity != self._identity:
            raise _other_files()
        if not self._ready:
            check_free(self.files.file.descriptor, trees)
            # Whoever made the directories may have been killed before their names were on disk.
            sync_path(self.path)
            self._ready = True
        return writer

    def refuse_fork(self) -> None:
        """Raise Closed in a forked child; takes no lock, for another thread may have held it at the fork, and so for ever."""
        if os.getpid() != self._pid:
            raise Closed(INHERITED)

    def _check_open(self, user: int) -> None:
        if self._closed:
            raise self.over()
        if self._replaced and user in self._users:
            # It would wait for itself: inside it reads on in the files that it reads.
            return
        if self._replaced and not self._idle.wait_for(lambda: not (self._users and self._replaced) or self._closed, timeout=_PATIENCE):
            raise StorageBusy(_AWAITED)
        if self._closed:
            raise self.over()
        if self._failed or self._replaced:
            # Nobody may be reading by address while the map goes away.
            if self._users:
                raise StorageBusy("the store failed while writing and is being opened anew: try again")
            self.files.close()
            self._reopen()

    def _reopen(self) -> None:
        """Open the files that have the name now.

        Raises:
            CollectionNotFound: the collection was dropped meanwhile.
        """
        try:
            self._open()
        except (CollectionNotFound, StorageError):
            self.removed = self.removed or self._is_elsewhere()
            self._closed = self.removed
            if self.removed:
                raise self.over() from None
            raise
        self._failed = self._replaced = False

    def over(self) -> KinbinError:
        """The error of uses after `close`."""
        return CollectionNotFound("the collection was removed") if self.removed else Closed("the database was closed")

    def size_on_disk(self) -> int:
        """Bytes that the files take on disk, those that are open. Waits for nobody."""
        with self._using:
            if self._closed:
                raise self.over()
            return self.files.size_on_disk()

    def used_bytes(self) -> int:
        """Bytes of all pages in use at the last commit; see `Writer.used_bytes`."""
        with self.pinned():
            return self.files.used_bytes()

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
            if self._idle.wait_for(lambda: not self._users, timeout=60):
                self.files.close()


def _other_files() -> CorruptData:
    return CorruptData("other files were put in the place of these while they were open: nothing was written", "open the database again")
