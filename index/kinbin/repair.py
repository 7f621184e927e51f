"""Making a collection anew from what is whole of a damaged one, beside it: items and rows are taken over, all else is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinbin.collection import Collection
from kinbin.errors import CorruptData, FormatMismatch
from kinbin.fields.collection import FieldsCollection
from kinbin.records import RepairReport
from kinbin.rows.rows import Rows
from kinbin.saving import SavedStore
from kinbin.storage.creation import FIELDS, name_of
from kinbin.storage.headers import Configuration, FieldNames
from kinbin.storage.quota import Quota
from kinbin.stored import refuse_other_hashes, what_is_stored

__all__ = ["Damaged"]

_ROWS_AT_ONCE = 1_000
_TOLD = 1_000
"""Ids that a report names."""

Progress = Callable[[int, int], object]


class Damaged:
    """The files of a damaged collection, read without LMDB; they are not changed.

    Raises:
        CorruptData: what the collection was created with is lost, so that its rows cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._first = stack.enter_context(_opened(path))
            self._stores: dict[str, SavedStore] = {}
            self.fields: dict[str, Configuration] | None = None
            self.configuration: Configuration | FieldNames
            if (path / FIELDS).is_dir():
                self.configuration = FieldNames.decode(self._first.saved.config)
                for name in self.configuration.names:
                    self._stores[name] = stack.enter_context(_opened(path / FIELDS / name))
                    _refuse_foreign(self._first, self._stores[name])
                self.fields = {name: _configured(store) for name, store in self._stores.items()}
            else:
                self.configuration = _configured(self._first)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Let go of the files."""
        self._stack.close()

    def save_into(self, target: Collection | FieldsCollection, progress: Progress | None) -> RepairReport:
        """Add everything that is whole to a new collection of the same configuration.

        progress(done, items) is called after each thousand rows. Cost: that of adding the items.

        Raises:
            CorruptData: there are items, or may be, and none of them is whole.
        """
        items = self._first.items
        by_row: dict[int, list[bytes]] = {}
        for key, row in items.rows.items():
            by_row.setdefault(row, []).append(key)
        lost: list[bytes] = []
        done = 0
        for some in _slices(np.array(sorted(by_row), np.uint64)):
            found, rows = self._rows(some)
            keys: list[bytes] = []
            which: list[int] = []
            for row, there, place in zip(some.tolist(), found, np.cumsum(found) - 1, strict=True):
                (keys if there else lost).extend(by_row[row])
                which += [int(place)] * len(by_row[row]) if there else []
            _add(target, keys, [items.payloads.get(key, b"") for key in keys], rows, np.array(which, np.int64))
            done += len(keys)
            if progress is not None:
                progress(done, len(items.rows))
        saved = self._first.saved
        if not done and (lost or saved.counted != 0 or not saved.state_is_last):
            known = [f"{len(lost):,} items are known, and no checksum proves a vector of them"] if lost else []
            raise _nothing_saved(self._first.path, "; ".join([*known, *self._problems()]))
        self._declare(target)
        # Of an item that is saved without its record the payload, if it had one, is lost.
        gone = set(lost)
        bare = [key for key in items.bare if key not in gone]
        return RepairReport(
            target.name, done, len(lost), _told(lost), len(bare), _told(bare), self._problems(),
            saved.counted if saved.state_is_last else None,
        )  # fmt: skip

    def _declare(self, target: Collection | FieldsCollection) -> None:
        """Declare the payload indexes that were declared, and what the collection may hold; after the items, which neither refuses then."""
        saved = self._first.saved
        if saved.indexes is not None and isinstance(target, Collection):
            target.change_indexes(saved.indexes.kinds)
        if saved.quota != Quota():
            target.set_limits(items=saved.quota.items, bytes=saved.quota.bytes)

    def _rows(self, numbers: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], dict[str, Rows]]:
        """Which rows are whole (in every field), and by field ("" without fields) the rows of these."""
        if isinstance(self.configuration, Configuration):
            found, rows = self._first.rows_of(numbers, _wide(self.configuration))
            return found, {"": rows}
        assert self.fields is not None
        parts = {name: store.rows_of(numbers, _wide(self.fields[name])) for name, store in self._stores.items()}
        everywhere = np.logical_and.reduce([found for found, _ in parts.values()])
        return everywhere, {name: rows.take(np.flatnonzero(everywhere[found])) for name, (found, rows) in parts.items()}

    def _problems(self) -> list[str]:
        """What was lost besides items, and what was worked out."""
        doubts = [_doubts(f"field {name}: " if name else "", store) for name, store in {"": self._first, **self._stores}.items()]
        return [*self._miscounted(), *(doubt for some in doubts for doubt in some)]

    def _miscounted(self) -> list[str]:
        """Whether there are other items than the state record counts, or than the fields were written for."""
        out = []
        counted, found, at = self._first.saved.counted, len(self._first.items.rows), self._first.saved.sequence
        if counted is None:
            out.append("the state record is lost: how many items there were is not known")
        elif not self._first.saved.state_is_last:
            told = f"the last state record is lost; the one of commit {at}, which was found, counted {counted:,} items"
            out.append(f"{told}: others may be missing, and are not counted as lost")
        elif counted > found:
            out.append(f"{counted - found:,} more items were stored, as the state record says: nothing is known of them")
        elif counted < found:
            out.append(f"{found - counted:,} items fewer were stored, as the state record says: so many may have been deleted before")
        for name, store in self._stores.items():
            written = store.saved.written_for
            if written is not None and at is not None and written > at + 1:
                told = f"field {name}: it was written for commit {written}, and the items are at commit {at}"
                out.append(f"{told}: an older copy of their file was put in its place, and later items are not here")
        return out


def _doubts(where: str, store: SavedStore) -> list[str]:
    """What is lost of one store, or was worked out. where: what stands before each."""
    saved = store.saved
    out = []
    if store.was_written():
        told = "the files were written to meanwhile: what was saved may be of several moments"
        out.append(f"{told}; end every process that has them open, and repair again")
    if saved.metas_lost:
        told = "both meta pages are damaged: this is the state of the last list of trees that was found"
        out.append(f"{told}; it may be an earlier one, or that of a write that was not acknowledged")
    elif not saved.newest_known:
        out.append("a meta page is damaged: this may be the state before the last commit, or that of a write that was not acknowledged")
    if saved.pages_lost:
        out.append(f"pages that are named and cannot be read, or are not those that were written there: {saved.pages_lost:,}")
    if saved.earlier:
        out.append("pages that are listed as free are in use: what is only there may be of an earlier state")
    if saved.entries_lost:
        out.append(f"entries of pages that no checksum proves: {saved.entries_lost:,}")
    if saved.adds_lost:
        told = "rows of adds that were not sealed into runs yet: one checksum proves a whole add, and does not hold"
        out.append(f"{told} ({saved.adds_lost:,} adds)")
    if saved.identity is not None and saved.identity.collection != name_of(store.path):
        told = f"the files say that they are those of {saved.identity.collection!r}: these are its items"
        out.append(f"{told}; drop the new collection if they are not those you meant")
    if saved.manifest is None:
        out.append("the list of runs is lost; rows were looked for in all of them")
    return [where + problem for problem in (*out, *store.problems)]


def _configured(store: SavedStore) -> Configuration:
    """What one was created with.

    Raises:
        FormatMismatch: it has other hashes than this machine computes, which what is saved would be hashed by.
    """
    config = Configuration.decode(store.saved.config)
    refuse_other_hashes(config)
    return config


@contextmanager
def _opened(path: Path) -> Iterator[SavedStore]:
    """One store of a damaged collection.

    Raises:
        CorruptData: nothing can be saved of it.
    """
    try:
        store = SavedStore(path)
    except CorruptData as error:
        error.collection = name_of(path)
        if error.own_advice:
            raise
        raise _nothing_saved(path, error.what) from None
    except FormatMismatch as error:
        raise _nothing_saved(path, str(error)) from None
    with closing(store):
        if store.saved.config is None:
            raise _nothing_saved(path, "what it was created with is lost, and its rows cannot be told from other bytes")
        yield store


def _nothing_saved(path: Path, why: str) -> CorruptData:
    error = CorruptData(f"nothing can be saved: {why}", "restore a snapshot, or import the collection again from its source")
    error.collection = name_of(path)
    return error


def _refuse_foreign(items: SavedStore, store: SavedStore) -> None:
    """Raise where the files of a field are those of another one: its rows would be given to items by the numbers of others."""
    identity, of_items = store.saved.identity, items.saved.identity
    if identity is None:
        return
    strange = of_items is not None and not of_items.has(identity)
    if identity.collection != name_of(store.path) or strange:
        whose = "another collection of this name (or the items are)" if strange else f"{identity.collection!r}"
        error = CorruptData(
            f"these are the files of {whose}: the vectors in them are of other items",
            "put each file back into its directory",
        )
        error.collection = name_of(store.path)
        raise error


def _slices(numbers: NDArray[np.uint64]) -> Iterator[NDArray[np.uint64]]:
    return (numbers[start : start + _ROWS_AT_ONCE] for start in range(0, len(numbers), _ROWS_AT_ONCE))


def _add(
    target: Collection | FieldsCollection, keys: list[bytes], payloads: list[bytes], rows: dict[str, Rows], which: NDArray[np.int64]
) -> None:
    """Add items with the rows at the places `which`."""
    if not keys:
        return
    if isinstance(target, FieldsCollection):
        target._add(keys, payloads, {name: part.take(which) for name, part in rows.items()}, "upsert")
    else:
        target._add(target._prepare(keys, payloads, rows[""].take(which)), "upsert")


def _wide(data: Configuration) -> bool:
    """Whether rows carry 64-bit feature ids."""
    kind, _, form = what_is_stored(data)
    return kind.wide(form)


def _told(keys: list[bytes]) -> list[str]:
    return [key.decode(errors="backslashreplace") for key in sorted(keys)[:_TOLD]]
