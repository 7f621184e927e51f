"""Taking a state of a store that opening refuses: one before the last, or files that were put under another name.

LMDB keeps two states, each named by a meta page. Where one of these is damaged, which state is the last is not known, and nothing is
read. Whoever knows that it is better to go on with one of them says so here. The file as it was stays beside, as `data.mdb.damaged`.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kinbin.errors import CorruptData, InvalidInput, StorageError
from kinbin.storage.copying import Tally
from kinbin.storage.creation import is_renamed, name_of
from kinbin.storage.datafile import DATA, META_BYTES, Meta, head_of, metas_of, write_metas
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.free import check_reached
from kinbin.storage.headers import Identity
from kinbin.storage.lookups import ITEMS, JOURNAL, META, OWNERS, RUNS, Trees
from kinbin.storage.store import Store
from kinbin.storage.survey import has_sound_trees, proved_last_page

__all__ = ["Recoverable", "recover", "recoverable"]

DAMAGED_COPY = "data.mdb.damaged"
_PAGE_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Recoverable:
    """A state that a store may be set back to: all pages of its trees are sound. Its list of free pages may not be: writers refuse then."""

    transaction: int
    commits: int
    """Adds and deletes before it."""
    items: int
    collection: str | None
    """Whose files they say they are; None: format 1, which does not say it."""
    written_for: int | None = None
    """Of the store of a field: it goes with the items of this commit, or of the one before. None: of items, or nothing was written."""


def recoverable(folder: Path) -> list[Recoverable]:
    """The states of a store's file that are sound, the last first. Reads all of it; changes nothing.

    Raises:
        FormatMismatch: it is no store of Kinbin.
    """
    return [state for state, _, _ in _sound(folder)]


def recover(folder: Path, transaction: int) -> None:
    """Make one of the `recoverable` states the last, under the name that the directory has now. Nobody may have the store open.

    Raises:
        InvalidInput: there is no such state. StorageError: it could not be written, or there is a `data.mdb.damaged` already.
    """
    there = {state.transaction: (state, page, page_bytes) for state, page, page_bytes in _sound(folder)}
    if transaction not in there:
        raise InvalidInput.of("bad_parameter", f"there is no sound state of transaction {transaction}", field="transaction")
    state, page, page_bytes = there[transaction]
    if state.collection is not None and not is_renamed(name_of(folder), state.collection):
        what = f"these are the files of {state.collection!r}: what is in them is of other items"
        raise CorruptData(what, "put each file back into its directory; or restore a snapshot")
    number = _PAGE_NUMBER.unpack_from(page)[0]
    with translated():
        _keep_damaged(folder)
        with (folder / DATA).open("rb") as file:
            # Up to the end of the file would be safe as well, but pages of the state that is given up would never be used again.
            last = proved_last_page(file.fileno(), number)
            if last is None:
                last = file.seek(0, os.SEEK_END) // page_bytes - 1
        write_metas(folder / DATA, page, transaction, last)
        sync_directory(folder)
    if state.collection not in (name_of(folder), None):
        _rename(folder)


def _keep_damaged(folder: Path) -> None:
    """Copy the file as it is now; under its name only when it is whole."""
    kept = folder / DAMAGED_COPY
    if kept.exists():
        raise StorageError(f"{kept} is there: it is never overwritten; put it elsewhere first")
    draft = kept.with_name(f".new-{DAMAGED_COPY}")
    try:
        shutil.copyfile(folder / DATA, draft)
        with draft.open("rb") as copied:
            os.fsync(copied.fileno())
        draft.rename(kept)
    finally:
        draft.unlink(missing_ok=True)


def _rename(folder: Path) -> None:
    """Let the files say that they are those of the collection whose name the directory has."""
    store = Store(folder, adopt=True)
    try:
        with store.write() as writer:
            have = writer.identity()
            # Items and fields keep what tells that they belong together.
            name = name_of(folder)
            writer.put_identity(Identity.new(name, salted=False) if have is None else replace(have, collection=name))
    finally:
        store.close()


def _sound(folder: Path) -> list[tuple[Recoverable, bytes, int]]:
    """Each sound state with its meta page and the size of a page, the last first."""
    try:
        with translated():
            head, _ = head_of(folder / DATA)
    except CorruptData as error:
        error.collection = name_of(folder)
        if not error.own_advice:
            error.advice = "restore a snapshot, or import the collection again from its source"
        raise
    try:
        metas = metas_of(head)
    except CorruptData as error:
        error.collection = name_of(folder)
        if not error.own_advice:
            # No state can be told without them.
            error.advice = "`kinbin repair` may save something; else restore a snapshot, or import the collection again from its source"
        raise
    found = {}
    with translated(), (folder / DATA).open("rb") as file:
        content = np.fromfile(folder / DATA, np.uint8)
        for number, meta in enumerate(metas):
            if meta is None or not has_sound_trees(file.fileno(), number):
                continue
            try:
                state = _looked_through(file.fileno(), content, meta)
            except CorruptData:
                continue
            found[state.transaction] = state, head[number * meta.page_bytes :][:META_BYTES], meta.page_bytes
    return [found[transaction] for transaction in sorted(found, reverse=True)]


def _looked_through(descriptor: int, content: np.ndarray, meta: Meta) -> Recoverable:
    """The state that a meta page leads to, if all its records are sound, none is missing, and its trees lead to no page that is free.

    Raises:
        CorruptData: they are not. FormatMismatch: it is of a newer format.
    """
    pages = len(content) // meta.page_bytes
    trees = Trees(content.ctypes.data, meta.page_bytes, meta, pages, np.zeros(pages, np.uint32), believed=True)
    check_reached(descriptor, trees)
    tally = Tally(trees.salt)
    for tree in (META, ITEMS, OWNERS, JOURNAL):
        for key, record in trees.records(tree, b""):
            tally.pass_on((tree, key, record))
    listed = tally.listed()
    for key, record in trees.records(RUNS, b""):
        # What a crash left is listed nowhere.
        if int.from_bytes(key[:4], "big") in listed:
            tally.pass_on((RUNS, key, record))
    state = tally.finish()
    identity = trees.identity()
    if identity is None and state.transaction is not None:
        raise CorruptData("the files do not say whose they are")
    transaction = meta.transaction if state.transaction is None else state.transaction
    written_for = trees.json(b"commit", "the commit that was written for")
    return Recoverable(
        transaction, state.sequence, state.items, None if identity is None else identity.collection,
        written_for if isinstance(written_for, int) else None,
    )  # fmt: skip
