"""Giving disk back: what lives of a store is copied into a new file, which takes the place of the old one while others have that open.

Whoever calls holds the store's upkeep lock, so that no run comes or goes. The new file counts transactions on from where the old one
ends, with the same identity: `lock.mdb` serves both, and a process that still has the old one finds a transaction at its next snapshot
that its file does not have (`Store.follow`).
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from pathlib import Path

from kinbin.errors import StorageBusy, StorageError
from kinbin.storage.copying import TRANSACTION_BYTES, NewFile, Tally, immovable_records, other_records
from kinbin.storage.creation import logged_name
from kinbin.storage.datafile import DATA
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.format import encode_json
from kinbin.storage.store import Store

__all__ = ["remove_drafts", "shrink"]

_DRAFT = ".shrunk-"
"""Then the identity of the store: whoever had the upkeep lock of a collection that was dropped removes nothing of the next of its name."""
_REMEMBERED = 64
"""Transactions at which the file was made anew: who has not looked since for so long takes it for another one's."""

log = logging.getLogger("kinbin.upkeep")


def remove_drafts(store: Store) -> None:
    """Remove what a crash left of new files. Only the holder of the upkeep lock makes them."""
    for entry in store.path.glob(f"{_DRAFT}{store.identity}-*"):
        shutil.rmtree(entry, ignore_errors=True)


def shrink(store: Store) -> None:
    """Put a new file in the place of a store's own, without the pages that nothing uses.

    Readers of all processes go on; writers wait while items, owners and the journal are copied: 6 µs an item. Needs as much free disk
    as what lives takes.

    Raises:
        CorruptData: something is damaged; the old file stays. StorageFull, StorageError: the same.
    """
    remove_drafts(store)
    _count_on(store)
    draft = store.path / f"{_DRAFT}{store.identity}-{secrets.token_hex(8)}"
    try:
        with translated():
            draft.mkdir()
        with NewFile(draft) as file:
            with store.read() as reader:
                tally = Tally(reader.salt)
                file.put(immovable_records(reader, tally))
            # LMDB's lock is held from here until the new file has its name on disk: nothing is committed that it lacks.
            with store.write():
                with store.read() as reader:
                    file.put(other_records(reader, tally))
                    tally.finish()
                    moved = [*reader.moved(), reader.transaction][-_REMEMBERED:]
                    listed = encode_json(moved, reader.begun(b"moved"))
                    file.finish(lambda _: {b"moved": listed}, reader.transaction)
                with translated():
                    _like(store.path / DATA, draft / DATA)
                    (draft / DATA).rename(store.path / DATA)
                    sync_directory(store.path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    try:
        # Others see by it that there is a new file, and let go of the old one.
        _touch(store)
    except StorageBusy as error:
        log.warning("%s: the file is shrunk; who has the old one open holds its space (%s)", logged_name(store.path), error)


def _like(old: Path, new: Path) -> None:
    """Give a new file the owner and the rights of the old one: another user may be serving it.

    Raises:
        StorageError: the owner is another user, and only root may give files away.
    """
    was = old.stat()
    new.chmod(was.st_mode & 0o777)
    if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(new, was.st_uid, was.st_gid)
        except PermissionError:
            raise StorageError("the files belong to another user, who could not write to new ones: shrink them as that user") from None


def _touch(store: Store) -> int:
    """Commit the state as it is. Returns the number of the transaction."""
    with store.write() as writer:
        writer.put_state(writer.state())
        return writer.transaction + 1


def _count_on(store: Store) -> None:
    """Make the store as old as the new file will be, which takes a transaction for every few MiB: both count alike."""
    wanted = store.size_on_disk() // TRANSACTION_BYTES + 8
    while _touch(store) < wanted:
        pass
