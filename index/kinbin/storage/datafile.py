"""The file of a store: which one it is, whether it still has its name, and what its two meta pages say.

LMDB's meta pages have no checksum, and it takes the one whose transaction is the later. Transaction n writes page n mod 2, so the two
always follow each other; where they do not, one of them is damaged, and which state is the last is not known any more.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import weakref
from dataclasses import dataclass
from pathlib import Path

from kinbin.errors import CorruptData, FormatMismatch
from kinbin.storage.errors import translated
from kinbin.storage.lockfile import LOCK
from kinbin.storage.trees import PAGE_BYTES

__all__ = [
    "DATA",
    "META_BYTES",
    "OLDER",
    "DataFile",
    "Gone",
    "LockReplaced",
    "Meta",
    "Outgrown",
    "Replaced",
    "TableBehind",
    "behind",
    "gone",
    "head_of",
    "in_order",
    "meta_damage",
    "metas_of",
    "opened",
    "write_metas",
]

DATA = "data.mdb"
OLDER = "`kinbin repair` saves what is whole, `kinbin recover` goes back to an older state; or restore a snapshot"
"""What to do where the last commits may be lost."""
_MAGIC = 0xBEEFC0DE
_VERSION = 1
_META_PAGE = 0x08
_PAGE = struct.Struct("<QHHHH")
"""Number, padding, flags, two bounds: before the meta record."""
_META = struct.Struct("<IIQQ IHHQQQQq IHHQQQQq QQ")
"""Magic, version, address, size of the map; of the free pages and of the trees: padding (there: the page size), flags, depth, counts,
root; the last page, the transaction."""
META_BYTES = _PAGE.size + _META.size
_NUMBER = struct.Struct("<Q")
_LAST = struct.Struct("<QQ")
"""The end of a meta record: last page, transaction."""
_INTEGER_KEYS = 0x08
"""The flags of the tree of free pages; that of the trees has none."""
_TRIES = 5
_MOST = 2**63 - 1
"""What a kernel takes for a count."""
_HEAD, _USUAL_HEAD = 2 * PAGE_BYTES[-1], 8_192
"""Bytes with both meta pages, of pages of any size, and of the usual one."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What a meta page says."""

    transaction: int
    last_page: int
    root: int
    """Of the tree that lists the trees; -1: there are none."""
    free_root: int
    """Of the tree of free pages; -1: there are none."""
    page_bytes: int
    map_bytes: int
    """Of address space."""
    depth: int
    """Of the tree that lists the trees: pages from its root to a leaf."""
    below: int
    """Of the same: the nodes of its root, as far as its record tells; 0: it does not."""
    page: bytes
    """All that the page says, as it was read."""

    @classmethod
    def of(cls, page: bytes, number: int) -> Meta | None:
        """What the first `META_BYTES` of meta page 0 or 1 say; None if it is none."""
        if len(page) < META_BYTES:
            return None
        own, _, flags, _, _ = _PAGE.unpack_from(page)
        one = _META.unpack_from(page, _PAGE.size)
        right = own == number and flags == _META_PAGE and one[:2] == (_MAGIC, _VERSION) and (one[5], one[13]) == (_INTEGER_KEYS, 0)
        branches, leaves, _, records = one[15:19]
        below = {1: records, 2: leaves, 3: branches - 1}.get(one[14], 0)
        if not right or below > _MOST:
            return None
        return cls(one[-1], one[-2], one[-3], one[11], one[4], one[3], one[14], below, page[:META_BYTES])


def metas_of(head: bytes) -> tuple[Meta | None, Meta | None]:
    """Both meta pages of a file's first bytes; None for one that is damaged.

    Raises:
        CorruptData: both are, or these are no files of Kinbin.
    """
    first = Meta.of(head[:META_BYTES], 0)
    if first is not None and _is_page_size(first.page_bytes):
        second = Meta.of(head[first.page_bytes :][:META_BYTES], 1)
        return first, second if second is not None and second.page_bytes == first.page_bytes else None
    for size in PAGE_BYTES:
        second = Meta.of(head[size:][:META_BYTES], 1)
        if second is not None and second.page_bytes == size:
            return None, second
    if len(head) >= _USUAL_HEAD and any(head[:META_BYTES]) and _MAGIC.to_bytes(4, "little") not in head and not _has_pages(head):
        advice = "restore a snapshot, or import the collection again from its source; `kinbin drop NAME --damaged` removes it"
        raise CorruptData(f"{DATA} holds other bytes than those of a store", advice)
    raise CorruptData("both meta pages are damaged, or cut off")


def _has_pages(head: bytes) -> bool:
    """Whether a page of these bytes carries its own number behind the two first ones, so that only these are others."""
    places = ((size, number) for size in PAGE_BYTES for number in range(2, len(head) // size))
    return any(head[number * size :][: _NUMBER.size] == _NUMBER.pack(number) for size, number in places)


def _is_page_size(size: int) -> bool:
    return size in PAGE_BYTES


def in_order(metas: tuple[Meta | None, Meta | None]) -> tuple[Meta, Meta]:
    """Two meta pages that follow each other, the later one first.

    Raises:
        CorruptData: they do not.
    """
    a, b = metas
    if a is None or b is None or a.map_bytes != b.map_bytes or max(a.last_page, b.last_page) * a.page_bytes >= a.map_bytes:
        raise meta_damage("a meta page is damaged")
    if abs(a.transaction - b.transaction) != 1 or a.transaction & 1 or not b.transaction & 1:
        raise meta_damage(f"the meta pages are of transactions {a.transaction} and {b.transaction}, which do not follow each other")
    last, before = (a, b) if a.transaction > b.transaction else (b, a)
    if last.last_page < before.last_page:
        # One flipped bit of a number exchanges the two. A commit that failed leaves the page before with the new roots, and its old end.
        raise meta_damage("the last meta page tells of fewer pages than the one before")
    return last, before


def meta_damage(why: str) -> CorruptData:
    """The error of meta pages that do not tell the last state."""
    return CorruptData(f"{why}: which state is the last is not known", OLDER)


class Replaced(CorruptData):
    """Another file has the name of the one that is open."""


class LockReplaced(Replaced):
    """The table of readers and writers was removed: who opens the files now does not see this process, nor is it seen."""


class TableBehind(LockReplaced):
    """The table of readers and writers is not that of the last commit: whoever made that had another one, which was removed."""


class Outgrown(Replaced):
    """The file has grown out of the address space that it was opened in: it is opened anew."""


class Gone(CorruptData):
    """The file has lost its name, and no other one has it. What is open can still be read."""


_HELD: set[DataFile] = set()
"""Files that this process writes to just now."""


def _leave_to_parent() -> None:
    """In a forked child: close the files, or a lock would outlive the parent that holds it."""
    while _HELD:
        _HELD.pop().close()


os.register_at_fork(after_in_child=_leave_to_parent)


class DataFile:
    """`data.mdb` of one store, as it was when it was opened. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Look at the file; a descriptor stays open as long as this is used.

        Raises:
            FormatMismatch: there is none, or it is something else. CorruptData: its meta pages do not fit each other.
        """
        # A path made of parts takes as long as opening the file.
        self._name, self._lock_name = f"{folder}/{DATA}", f"{folder}/{LOCK}"
        self._lock: tuple[int, int] | None = None
        with translated():
            self.descriptor = opened(self._name)
        self.close = weakref.finalize(self, os.close, self.descriptor)
        """Let go of the descriptor."""
        (self.meta, self.before), found = self._look(_TRIES)
        """What the two meta pages say, the later one first."""
        self._is = found.st_dev, found.st_ino
        self.pages = found.st_size // self.meta.page_bytes

    def _look(self, tries: int) -> tuple[tuple[Meta, Meta], os.stat_result]:
        """Both meta pages, the later one first; again if the two do not fit each other: a writer may be at them just now."""
        with translated():
            head, found = os.pread(self.descriptor, _USUAL_HEAD, 0), os.fstat(self.descriptor)
            first = Meta.of(head[:META_BYTES], 0)
            if first is None or 2 * first.page_bytes > _USUAL_HEAD:
                head = os.pread(self.descriptor, _HEAD, 0)
        try:
            return in_order(metas_of(head)), found
        except CorruptData:
            if tries <= 1:
                raise
        return self._look(tries - 1)

    def newest(self) -> Meta:
        """The last meta page as it is now; the file may have lost its name.

        Raises:
            CorruptData: the two do not fit each other.
        """
        return self._look(_TRIES)[0][0]

    @property
    def inode(self) -> tuple[int, int]:
        """Which file it is."""
        return self._is

    def is_same_as(self, other: DataFile) -> bool:
        """Whether both are one file."""
        return self._is == other._is

    def grown(self, pages: int) -> int:
        """The pages that the file has, looked at again if it should have more than are known.

        It may have lost its name: whoever has a dropped collection open still has to read that it is.
        """
        if pages > self.pages:
            with translated():
                self.pages = max(self.pages, os.fstat(self.descriptor).st_size // self.meta.page_bytes)
        return self.pages

    def hold(self) -> None:
        """Be the only one of all processes that writes to this file; waits for the one that does. Cost: a microsecond.

        LMDB's own lock is in `lock.mdb`: where that is removed, two processes hold two of them. This one lies on what is written to.
        """
        # Before it is held, and until it is not: a child that another thread forks in between would keep it.
        _HELD.add(self)
        try:
            with translated():
                fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except BaseException:
            _HELD.discard(self)
            raise

    def let_go(self) -> None:
        """Let the next one write."""
        if self in _HELD:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            _HELD.discard(self)

    def lock_named(self) -> tuple[int, int] | None:
        """Which file the table of readers is now; None: there is none."""
        try:
            found = os.stat(self._lock_name)  # noqa: PTH116 - a third of the time
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def watch_lock(self, lock: tuple[int, int]) -> None:
        """Look for this table of readers as well: LMDB has it open."""
        self._lock = lock

    def check_named(self) -> None:
        """See that the file still has its name and is not cut off: what is written to another file is lost. Cost: 2 µs.

        Raises:
            Replaced: another file has its name. LockReplaced: `lock.mdb` is another one, or gone. Gone: the file was removed.
            CorruptData: it was cut off.
        """
        # Before the look at the file: it may grow, and be seen to have grown by another thread, right behind it.
        pages = self.pages
        try:
            found = os.stat(self._name)  # noqa: PTH116 - a third of the time
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                with translated():
                    raise
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._is:
            if found is None:
                told = f"{DATA} was removed while it was open: nothing is acknowledged any more"
                raise Gone(
                    told, "put it back; or make a snapshot or an export by this process, which still reads what it had, before it ends"
                )
            told = f"{DATA} was replaced while it was open: nothing is acknowledged any more"
            raise Replaced(
                told,
                "put back the very file, which a copy of it is not; or end every process that has it open, and begin again with the other",
            )
        if found.st_size < pages * self.meta.page_bytes:
            raise CorruptData(f"{DATA} was cut off while it was open: nothing is acknowledged any more")
        if self._lock is not None and self.lock_named() != self._lock:
            raise LockReplaced(f"{LOCK} was removed or replaced while it was open", "end every process that has the database open")


def opened(path: str | Path) -> int:
    """A descriptor of a store's file.

    Raises:
        CorruptData: it is gone, or empty. FormatMismatch: there is none, or it is something else.
    """
    try:
        # Whoever opens what is no file, but waits to be written to, would wait as well.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENOENT and Path(path).parent.is_dir():
            # A collection that is dropped loses its name before its files.
            raise gone() from None
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
            raise FormatMismatch("this is not a store of Kinbin") from None
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size:
        return descriptor
    os.close(descriptor)
    if stat.S_ISREG(found.st_mode):
        raise CorruptData(f"{DATA} is empty")
    raise FormatMismatch("this is not a store of Kinbin")


def gone() -> CorruptData:
    """The error of a collection whose file is not there."""
    return CorruptData(f"{DATA} is not there: it was removed or moved away", "put it back; or restore a snapshot")


def behind(found: int, known: int) -> CorruptData:
    """The error of a file that is older than what others, who have the files open, have committed."""
    return CorruptData(
        f"{DATA} is at transaction {found}, and {LOCK} knows of {known}: an older copy was put in its place while a process had it open",
        "make a snapshot or an export by that process, if it still answers; then end every process that has the database open",
    )


def head_of(path: Path) -> tuple[bytes, os.stat_result]:
    """The first bytes of a store's file, among them both meta pages; and what the system says of it.

    Raises:
        FormatMismatch: there is none.
    """
    descriptor = opened(path)
    try:
        return os.pread(descriptor, _HEAD, 0), os.fstat(descriptor)
    finally:
        os.close(descriptor)


def write_metas(path: Path, page: bytes, transaction: int, last_page: int | None = None) -> None:
    """Let both meta pages of a file that nobody has open tell of one state, as that of a transaction and of the one before; synced.

    page: the first bytes of the meta page that leads to the state. last_page: of the file; None: what the page says.
    """
    known, _ = _LAST.unpack_from(page, META_BYTES - _LAST.size)
    page_bytes = _META.unpack_from(page, _PAGE.size)[4]
    with translated(), path.open("r+b") as file:
        for one in (transaction, transaction - 1):
            end = _LAST.pack(known if last_page is None else last_page, max(one, 0))
            file.seek((one & 1) * page_bytes)
            file.write(_NUMBER.pack(one & 1) + page[_NUMBER.size : META_BYTES - _LAST.size] + end)
        file.flush()
        os.fsync(file.fileno())
