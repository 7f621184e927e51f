"""Where errors of lmdb and of the operating system become Kinbin's: completely, in one place."""

from __future__ import annotations

import errno
from types import TracebackType

import lmdb

from kinbin.errors import Closed, CorruptData, FormatMismatch, KinbinError, StorageBusy, StorageError, StorageFull

__all__ = ["FOREIGN", "READ_ONLY", "reraise", "translated"]

_TREES = "the page that lists the trees was damaged while it was open"
_FULL = "the disk or the store's map is full: free space (answers go on meanwhile); nothing was written"

# A reader that is not in the table of lock.mdb is seen by no writer, which then reuses the pages that it stands on.
READ_ONLY = (
    "the files cannot be written, and reading needs that too: readers enter themselves in lock.mdb, so that writers leave them "
    "their pages. Allow this user to write, or copy the whole directory to where it may"
)

FOREIGN: tuple[tuple[type[Exception], type[StorageError], str], ...] = (
    (lmdb.MapFullError, StorageFull, _FULL),
    (lmdb.DiskError, StorageFull, _FULL),
    (lmdb.ReadersFullError, StorageBusy, "every reader slot of the store is taken: try again"),
    (lmdb.LockError, StorageBusy, "the store's lock could not be had (is it shared between containers?)"),
    (lmdb.PanicError, StorageBusy, "the store failed while writing and has to be opened again; the outcome is unknown"),
    (lmdb.MapResizedError, StorageBusy, "another process resized the store: open it again"),
    (lmdb.CorruptedError, CorruptData, "the store's pages are damaged"),
    (lmdb.PageNotFoundError, CorruptData, "the store's pages are damaged"),
    # Where the record of a tree that is open is another one, or gone: handles are never closed while a transaction uses them.
    (lmdb.BadDbiError, CorruptData, _TREES),
    (lmdb.IncompatibleError, CorruptData, _TREES),
    (lmdb.BadTxnError, CorruptData, _TREES),
    (lmdb.InvalidError, FormatMismatch, "this is not a store of Kinbin"),
    (lmdb.VersionMismatchError, FormatMismatch, "the store was written by another engine version"),
    (lmdb.ReadonlyError, StorageError, READ_ONLY),
)
"""lmdb's errors, most specific first; what is not listed becomes StorageError (a test walks all of them)."""

_NO_FILES = "this process may open no more files, and an open collection takes four (a field as well): raise `ulimit -n` ({})"
_TOO_LARGE = (
    "the file may not grow any more, by a limit of this process (`ulimit -f`) or of the file system (answers go on meanwhile); "
    "nothing was written"
)
_UNWRITTEN = "the store could not be written ({}): most often the disk is full; nothing was written"

_OF_THE_SYSTEM: dict[int | None, tuple[type[StorageError], str]] = {
    errno.ENOSPC: (StorageFull, _FULL),
    errno.EDQUOT: (StorageFull, _FULL),
    errno.EFBIG: (StorageFull, _TOO_LARGE),
    errno.EMFILE: (StorageError, _NO_FILES),
    errno.ENFILE: (StorageError, _NO_FILES),
}
_TOLD: tuple[tuple[str, type[StorageError], str], ...] = (
    ("File too large", StorageFull, _TOO_LARGE),
    # A full disk reaches lmdb as a short write, which it reports as an input/output error.
    ("Input/output", StorageFull, _UNWRITTEN),
    ("No space", StorageFull, _UNWRITTEN),
    ("Too many open", StorageError, _NO_FILES),
    ("Permission denied", StorageError, READ_ONLY),
    ("Read-only file system", StorageError, READ_ONLY),
)
"""What lmdb says of errors of the system that it has no class for."""


def _convert(error: Exception) -> KinbinError:
    for foreign, ours, text in FOREIGN:
        if isinstance(error, foreign):
            return ours(text)
    if isinstance(error, OSError):
        ours, text = _OF_THE_SYSTEM.get(error.errno, (StorageError, "the store failed: {}"))
        return ours(text.format(error))
    told = str(error)
    for words, ours, text in _TOLD:
        if words in told:
            return ours(text.format(error))
    if "already open" in told:
        return CorruptData(
            "these files are open in this process as another collection: directories were swapped, or one leads to another",
            "put each file back into the directory of its collection",
        )
    return Closed("the database was closed") if "closed" in told else StorageError(f"the store failed: {error}")


def reraise(error: BaseException | None) -> None:
    """Raise an error of lmdb or of the operating system as Kinbin's; do nothing with any other, or with none."""
    if isinstance(error, lmdb.Error | OSError) and not isinstance(error, KinbinError):
        # The traceback would keep the transaction, and its reader slot, alive.
        raise _convert(error.with_traceback(None)) from None


class _Translated:
    """See `translated`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        reraise(error)


_TRANSLATED = _Translated()


def translated() -> _Translated:
    """A block of storage work: foreign errors leave it as Kinbin's."""
    return _TRANSLATED
