"""All records of a store at one snapshot, each proved on the way, and a new file made of them.

What snapshots, restored collections and shrunk files have in common. Only what the state leads to is copied: runs and link sets that a
crash left, and pages that nothing uses, stay behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb

from kinbin.errors import CorruptData, StorageBusy
from kinbin.storage import format as fmt
from kinbin.storage.addresses import MAP_SIZE
from kinbin.storage.answered import DUE, check_due
from kinbin.storage.changes import CHANGES, decode_changes
from kinbin.storage.datafile import DATA, META_BYTES, head_of, in_order, metas_of, write_metas
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.format import Part, State
from kinbin.storage.headers import CONFIG, Identity, numbers
from kinbin.storage.lockfile import make_lock_file
from kinbin.storage.lookups import ITEMS, JOURNAL, META, NAMES, OWNERS, RUNS, identity_in
from kinbin.storage.notes import NOTE, open_note
from kinbin.storage.transactions import Reader

__all__ = [
    "TRANSACTION_BYTES",
    "NewFile",
    "Record",
    "Tally",
    "immovable_records",
    "make_store",
    "other_records",
    "records",
]

Record = tuple[int, bytes, bytes]
"""Number of the tree, key, value."""
TRANSACTION_BYTES = 32 << 20
"""Of a file that is made: what is written at a time."""
_RUN_KEY_BYTES = 9


class Tally:
    """Proves the records of one store as they pass, in any order of trees: each by its checksum, and at the end that none is missing."""

    def __init__(self, salt: int | None = None) -> None:
        """salt: what checksums begin with; None: the records tell it, of which those of the first tree come first."""
        self.salt = salt
        self.state: State | None = None
        self._first: list[tuple[bytes, bytes]] = []
        """Records of the first tree, until it is known what their checksums begin with."""
        self.counts: Counter[int] = Counter()
        """Records by tree."""
        self._meta: dict[bytes, Any] = {}
        self._owned = 0
        self._entries: list[int] = []
        self._parts: dict[int, Counter[bytes]] = {}
        self._unnamed: dict[int, set[bytes]] = {}
        """By run, parts of which some value does not name its key: of a run of an earlier format all but dead bits."""

    def pass_on(self, record: Record) -> None:
        """Prove one record.

        Raises:
            CorruptData: it fails its checksum, or is not what belongs there. FormatMismatch: it is of a newer format.
        """
        tree, key, value = record
        if not 0 <= tree < len(NAMES):
            raise _damaged("a record is of no tree")
        self.counts[tree] += 1
        if tree == META and self.salt is None:
            self._first.append((key, value))
            return
        salt = self._known()
        if tree == ITEMS:
            fmt.decode_item(key, value, salt)
        elif tree == OWNERS:
            self._owned += len(fmt.decode_owners(fmt.row_of(key), value, salt))
        elif tree == RUNS:
            self._pass_part(key, value)
        elif tree == JOURNAL:
            fmt.decode_commit(key, value, salt)
            self._entries.append(int.from_bytes(key, "big"))
        else:
            self._pass_first(key, value)

    def _known(self) -> int:
        """What checksums begin with. Where the records tell it, those of the first tree are proved once all are there."""
        if self.salt is None:
            first = dict(self._first)
            self.salt = identity_in(first[b"identity"]).salt if b"identity" in first else 0
            for key, value in self._first:
                self._pass_first(key, value)
        return self.salt

    def _pass_first(self, key: bytes, value: bytes) -> None:
        """Prove a record of the first tree."""
        before = fmt.begun(self._known(), key)
        if key == b"state":
            self.state = fmt.decode_state(value)
            if self.state.salt != self.salt:
                raise _damaged("the state record is that of other files")
        elif key.startswith(CHANGES):
            decode_changes(value, before)
        elif key.startswith(DUE):
            check_due(key, value)
        elif key.startswith(NOTE):
            open_note(key, value, self._known())
        else:
            self._meta[key] = fmt.decode_json(value, f"the record {key.decode(errors='replace')!r}", 0 if key == b"identity" else before)

    def _pass_part(self, key: bytes, value: bytes) -> None:
        if len(key) != _RUN_KEY_BYTES:
            raise _damaged("the key of a run's value is malformed")
        run, part, index = int.from_bytes(key[:4], "big"), fmt.part_of(key), int.from_bytes(key[5:], "big")
        fmt.open_value(key, memoryview(value), self._known(), verify=True)
        parts = self._parts.setdefault(run, Counter())
        # Chunks of dead bits are written when one of their rows dies; all else is complete.
        if part != Part.DEAD and index != parts[part]:
            raise _damaged(f"part {part.decode(errors='replace')!r} of run {run} lacks a value")
        parts[part] += 1
        if not fmt.names_key(value):
            self._unnamed.setdefault(run, set()).add(part)

    def json(self, key: bytes) -> object:
        """The content of one record of the first tree.

        Raises:
            CorruptData: it is missing.
        """
        self._known()
        if key not in self._meta:
            raise _damaged(f"the record {key.decode()!r} is missing")
        content: object = self._meta[key]
        return content

    def listed(self) -> set[int]:
        """The runs and link sets that there have to be, once the first tree has passed.

        Raises:
            CorruptData: the list of runs is missing, or one of the lists is damaged.
        """
        listed = {*numbers(self.json(b"manifest"), "the list of runs")}
        return listed | ({*numbers(self.json(b"links"), "the list of link sets")} if b"links" in self._meta else set())

    def finish(self) -> State:
        """See that every record was there. Returns the state.

        Raises:
            CorruptData: some are missing.
        """
        self._known()
        state = self.state
        if state is None:
            raise _damaged("the state record is missing")
        self.json(CONFIG)
        # The store of a field has items' rows, and no items of its own.
        if self.counts[ITEMS] not in ({state.items} if self.counts[ITEMS] else {0, state.items}) or self.counts[ITEMS] != self._owned:
            told = f"{self.counts[ITEMS]} items, {self._owned} of which rows name"
            raise _damaged(f"there are {told}; the state record says {state.items}")
        if state.rows is not None and self.counts[OWNERS] not in (0, state.rows):
            raise _damaged(f"{self.counts[OWNERS]} rows have ids, the state record says {state.rows}")
        if self._entries and self._entries != list(range(state.sequence - len(self._entries) + 1, state.sequence + 1)):
            raise _damaged("the journal lacks an entry")
        listed = self.listed()
        if missing := [run for run in listed if run not in self._parts or not self._parts[run][Part.HEADER]]:
            raise _damaged(f"run {min(missing)} is missing")
        for run, unnamed in self._unnamed.items():
            if self._parts[run].keys() - unnamed - {Part.DEAD}:
                raise _damaged(f"values of another run stand in the place of some of run {run}")
        if self._parts.keys() - listed:
            raise _damaged(f"run {min(self._parts.keys() - listed)} is not listed")
        return state


def _damaged(what: str) -> CorruptData:
    return CorruptData(what)


def records(reader: Reader, tally: Tally) -> Iterator[Record]:
    """Every record of a snapshot, by tree and key, each proved before it is given; the tally is finished at the end.

    Raises:
        CorruptData: something is damaged or missing.

    Cost: about 2 µs a small record, 1 ns a byte of the large ones.
    """
    yield from _proved(_small(reader), tally)
    yield from _proved(_of_runs(reader, lambda _: True), tally)
    tally.finish()


def immovable_records(reader: Reader, tally: Tally) -> Iterator[Record]:
    """Those values of listed runs and link sets that never change as long as these are listed; proved, but not whether all are there."""
    return _proved(_of_runs(reader, lambda part: part != Part.DEAD), tally)


def other_records(reader: Reader, tally: Tally) -> Iterator[Record]:
    """All others."""
    yield from _proved(_small(reader), tally)
    yield from _proved(_of_runs(reader, lambda part: part == Part.DEAD), tally)


def _proved(given: Iterator[Record], tally: Tally) -> Iterator[Record]:
    for record in given:
        tally.pass_on(record)
        yield record


def _small(reader: Reader) -> Iterator[Record]:
    """What lies in all trees but that of runs."""
    for tree in (META, ITEMS, OWNERS, JOURNAL):
        for key, value in reader.scan_tree(tree, b""):
            yield tree, key, value


def _of_runs(reader: Reader, wanted: Callable[[bytes], bool]) -> Iterator[Record]:
    """Values of what is listed; wanted: of a part's byte."""
    for run in sorted({*reader.manifest(), *reader.link_sets()}):
        prefix = run.to_bytes(4, "big")
        for key, value in reader.scan_tree(RUNS, prefix):
            if key[:4] != prefix:
                break
            if wanted(key[4:5]):
                yield RUNS, key, value


class NewFile:
    """A new file of LMDB that records are put into, in a folder that nobody knows yet.

    Used in one thread, as a context; whoever made the folder removes it when something is raised.

    Raises:
        StorageFull, StorageError: it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> NewFile:
        with translated():
            # Whether it lies in a folder of its own is one of the flags that LMDB keeps.
            self._env = lmdb.open(str(self._folder), map_size=MAP_SIZE, max_dbs=len(NAMES), lock=False, sync=False, metasync=False)
            with self._env.begin(write=True) as first:
                self._handles = [self._env.open_db(name, first) for name in NAMES]
        self._meta: dict[bytes, bytes] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._env.close()

    def put(self, given: Iterable[Record]) -> None:
        """Put records; those that ascend in their tree are put fastest, and fill pages to the brim."""
        source = iter(given)
        while self._put_some(source):
            pass

    def _put_some(self, source: Iterator[Record]) -> bool:
        """Put some MiB of records, in one transaction. Returns whether there may be more."""
        size = 0
        with translated(), self._env.begin(write=True) as step:
            for tree, key, value in source:
                if tree == META:
                    # Last of all: the state names its transaction.
                    self._meta[key] = value
                elif not step.put(key, value, db=self._handles[tree], append=True):
                    step.put(key, value, db=self._handles[tree])
                size += len(value)
                if size > TRANSACTION_BYTES:
                    return True
        return False

    def finish(self, changed: Callable[[int], dict[bytes, bytes]], transaction: int | None = None) -> None:
        """Put the records of the first tree, and all of it on disk.

        changed: of the number of the last transaction, records that take the place of those that came. transaction: the number that
        the file is to say its last transaction has; None: what it comes to.
        """
        with translated():
            with self._env.begin(write=True) as step:
                last = int(step.id())
                if transaction is not None and transaction < last:
                    raise StorageBusy("the store was compacted into more transactions than it had: try again")
                meta = self._meta | changed(last if transaction is None else transaction)
                for key in sorted(meta):
                    step.put(key, meta[key], db=self._handles[META])
            self._env.sync(True)
        if transaction is not None:
            self._env.close()
            head, _ = head_of(self._folder / DATA)
            write_metas(self._folder / DATA, head[(last & 1) * in_order(metas_of(head))[0].page_bytes :][:META_BYTES], transaction)


def make_store(folder: Path, given: Iterable[Record], identity: Identity, state: Callable[[], State]) -> None:
    """Make the files of a store in a new folder, with an identity of their own, but for the salt that the records have.

    state: asked for once all records were given; it may raise what is wrong with them.
    """
    folder.mkdir(parents=True)
    with NewFile(folder) as file:
        file.put(given)
        known = state()
        whose = fmt.encode_json(replace(identity, salt=known.salt).encode())
        file.finish(lambda number: {b"identity": whose, b"state": fmt.encode_state(known.with_(transaction=number))})
    with translated():
        make_lock_file(folder)
        sync_directory(folder)
