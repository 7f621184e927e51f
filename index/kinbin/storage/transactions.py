"""What is done inside one write transaction of a store: it reads what it wrote. See `store` for the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.storage import format as fmt
from kinbin.storage.changes import CHANGES, INDEXES, Declared, change_key, encode_changes
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import Commit, Part, State
from kinbin.storage.headers import CONFIG, Configuration, Identity, LinkSetHeader, RunHeader
from kinbin.storage.lookups import ITEMS, JOURNAL, META, OWNERS, RUNS, Trees
from kinbin.storage.reading import DEAD_BYTES, Reader

__all__ = ["Reader", "Writer"]


class Writer(Reader):
    """One write transaction: reads what it wrote. Made by `Store.write`.

    What it wrote is kept here until it ends, and read from here; all else is read as it was before, from pages that LMDB does not
    change. Before LMDB changes a page, it was looked through (`Trees.firm`).
    """

    def __init__(self, transaction: Any, trees: Trees, opening: int, handles: tuple[Any, ...]) -> None:
        """handles: of LMDB's trees. trees: at the transaction before."""
        super().__init__(transaction, trees, opening)
        self._handles = handles
        self._new: list[dict[bytes, bytes | None]] = [{} for _ in handles]
        """Of each tree the values that were put, and None for those that were removed."""
        self._firm: list[set[bytes]] = [set() for _ in handles]
        """Of each tree keys whose pages were looked through."""
        self._firm[META].add(b"state")
        self.commits: list[tuple[int, Commit]] = []
        """What was added to the journal, with its numbers."""

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return any(self._new)

    def finish(self, identity: bytes) -> None:
        """Let the state record name this transaction, if anything was written; files of format 1 become those of the newest.

        identity: its record.
        """
        if self.changed:
            if self.identity_record() is None:
                self._put(META, b"identity", identity)
            if b"state" not in self._new[META]:
                self.put_state(self.state())

    def used_bytes(self) -> int:
        """Bytes of all pages in use, as this transaction leaves them. Pages that are free are none of them."""
        told = [self._txn.stat(tree) for tree in self._handles]
        return int(sum(one["psize"] * (one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"]) for one in told))

    # -- what was written here, before what was there

    def _get(self, tree: int, key: bytes) -> bytes | None:
        new = self._new[tree]
        return new[key] if key in new else super()._get(tree, key)

    def _get_many(self, tree: int, keys: Sequence[bytes]) -> list[bytes | None]:
        new = self._new[tree]
        self._firm[tree].update(keys)
        if not new:
            return super()._get_many(tree, keys)
        found = iter(super()._get_many(tree, [key for key in keys if key not in new]))
        return [new[key] if key in new else next(found) for key in keys]

    def scan_tree(self, tree: int, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The same, with what was written."""
        new = self._new[tree]
        if not new:
            return super().scan_tree(tree, start)
        merged: dict[bytes, bytes | None] = dict(super().scan_tree(tree, start))
        merged.update((key, value) for key, value in new.items() if key >= start)
        return ((key, value) for key, value in sorted(merged.items(), key=itemgetter(0)) if value is not None)

    def state_record(self) -> bytes:
        """The state record as this transaction leaves it."""
        return self._new[META].get(b"state") or super().state_record()

    def state(self) -> State:
        """The state record as this transaction leaves it."""
        record = self._new[META].get(b"state")
        return super().state() if record is None else fmt.decode_state(record)

    # -- writing

    def _secure(self, tree: int, keys: Iterable[bytes]) -> None:
        """See that the pages where these keys belong are sound: LMDB trusts the pages that it changes.

        Raises:
            CorruptData: they are not.
        """
        firm = self._firm[tree]
        more = [key for key in keys if key not in firm]
        if more:
            self._trees.firm(tree, more, beside=False)
            firm.update(more)

    def _put(self, tree: int, key: bytes, value: bytes) -> None:
        self._secure(tree, (key,))
        self._put_secured(tree, key, value)

    def _put_secured(self, tree: int, key: bytes, value: bytes) -> None:
        self._txn.put(key, value, db=self._handles[tree])
        self._new[tree][key] = value

    def _delete(self, tree: int, keys: Iterable[bytes]) -> None:
        """Remove keys; those that are not there are passed over."""
        wanted = list(keys)
        if not wanted:
            return
        self._trees.firm(tree, wanted, beside=True)
        for key in wanted:
            self._txn.delete(key, db=self._handles[tree])
            self._new[tree][key] = None

    def put_state(self, state: State) -> None:
        """Replace the state record; it names this transaction."""
        self._put(META, b"state", fmt.encode_state(state.with_(salt=self.salt), self._txn.id()))

    def put_json(self, key: bytes, data: Any) -> None:
        """Replace a record of the first tree."""
        self._put(META, key, fmt.encode_json(data, self.begun(key)))

    def put_identity(self, identity: Identity) -> None:
        """Say whose files these are."""
        self._put(META, b"identity", fmt.encode_json(identity.encode()))

    def put_manifest(self, runs: list[int]) -> None:
        """Replace the list of runs."""
        self.put_json(b"manifest", runs)

    def put_configuration(self, configuration: Configuration) -> None:
        """Replace the configuration: only how many bands of how many hashes runs have may be another one."""
        self.put_json(CONFIG, configuration.encode())

    def put_written_for(self, sequence: int) -> None:
        """Say which commit of the first store is written for, in the store of a field."""
        self.put_json(b"commit", sequence)

    def put_depths(self, data: dict[str, Any]) -> None:
        """Replace what was measured of the depths of candidates."""
        self.put_json(b"depths", data)

    def put_link_sets(self, sets: list[int]) -> None:
        """Replace the list of link sets."""
        self.put_json(b"links", sets)

    def put_declared_indexes(self, declared: Declared) -> None:
        """Replace the list of payload indexes."""
        self.put_json(INDEXES, declared.encode())

    def append_changes(self, sequence: int, items: list[tuple[bytes, int | None]]) -> None:
        """Log what a commit touched."""
        key = change_key(sequence)
        self._put(META, key, encode_changes(items, self.begun(key)))

    def trim_changes(self, before: int) -> None:
        """Remove the log of the commits before one."""
        last = change_key(before)
        self._delete(META, [key for key in self._keys(META, CHANGES) if key < last])

    def put_items(self, records: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Add or replace items: (id, row, payload)."""
        values = {key: fmt.encode_item(key, row, payload, self.salt) for key, row, payload in records}
        self._secure(ITEMS, values)
        self._new[ITEMS].update(values)
        self._txn.cursor(db=self._handles[ITEMS]).putmulti(values.items())

    def delete_items(self, ids: Iterable[bytes]) -> None:
        """Remove items."""
        self._delete(ITEMS, ids)

    def put_owners(self, owners: Iterable[tuple[int, Sequence[bytes]]]) -> None:
        """Replace the ids of rows; a row without ids loses its record."""
        past = self._trees.state.next_row
        new = self._new[OWNERS]
        kept: list[bytes] = []
        late: list[bytes] = []
        gone: list[bytes] = []
        for row, ids in owners:
            key = fmt.row_key(row)
            if not ids:
                gone.append(key)
                continue
            (late if row >= past else kept).append(key)
            new[key] = fmt.encode_owners(row, ids, self.salt)
        # Rows that are new, as most are, follow the last: they go on one leaf, which the first and the last of them lead to.
        self._secure(OWNERS, kept + late[:1] + late[1:][-1:])
        self._txn.cursor(db=self._handles[OWNERS]).putmulti([(key, new[key]) for key in kept + late])
        if gone:
            self._delete(OWNERS, gone)

    def append_commit(self, sequence: int, commit: Commit) -> None:
        """Add a journal entry.

        Raises:
            CorruptData: the journal has one of this number, or of a later one.
        """
        key = fmt.sequence_key(sequence)
        value = fmt.encode_commit(key, commit, self.salt)
        self._secure(JOURNAL, (key,))
        if not self._txn.put(key, value, db=self._handles[JOURNAL], append=True):
            raise CorruptData("the journal is ahead of the state record")
        self._new[JOURNAL][key] = value
        self.commits.append((sequence, commit))

    def trim_journal(self, through: int) -> None:
        """Remove the entries up to one number: their rows are in a run now."""
        last = fmt.sequence_key(through)
        self._delete(JOURNAL, [key for key in self._keys(JOURNAL, b"") if key <= last])

    def _keys(self, tree: int, prefix: bytes) -> list[bytes]:
        """All keys that begin so, as this transaction leaves them."""
        found = []
        for key, _, _ in self._trees.scan(tree, prefix):
            if not key.startswith(prefix):
                break
            found.append(key)
        new = self._new[tree]
        return [key for key in found if key not in new] + [
            key for key, value in new.items() if value is not None and key.startswith(prefix)
        ]

    def run_part(self, run: int, part: bytes, index: int = 0, *, verify: bool = False) -> memoryview:
        """The body of a run's value as this transaction leaves it: see `Reader.run_part`."""
        key = fmt.run_key(run, part, index)
        value = self._new[RUNS].get(key)
        if value is None:
            return super().run_part(run, part, index, verify=verify)
        return fmt.open_value(key, memoryview(value), self.salt, verify=verify)

    def put_run_part(self, run: int, part: bytes, index: int, body: bytes | NDArray[Any]) -> None:
        """Add or replace one value of a run."""
        key = fmt.run_key(run, part, index)
        self._put(RUNS, key, fmt.seal_value(key, body, self.salt))

    def put_header(self, number: int, header: RunHeader | LinkSetHeader) -> None:
        """Add the header of a run or of a link set."""
        self.put_run_part(number, Part.HEADER, 0, fmt.encode_json(header.encode()))

    def mark_dead(self, run: int, rows: NDArray[np.int64]) -> None:
        """Set the dead bits of local rows of a run; rewrites only the chunks they lie in."""
        chunks = rows // fmt.DEAD_ROWS
        for chunk in np.unique(chunks):
            key = fmt.run_key(run, Part.DEAD, int(chunk))
            value = self._get(RUNS, key)
            dead = DeadRows.of(fmt.DEAD_ROWS)
            if value is not None:
                body = fmt.open_value(key, memoryview(value), self.salt, verify=True, bound=self._is_bound(run))
                if len(body) != DEAD_BYTES:
                    raise CorruptData(f"run {run} marks rows dead that it does not have")
                dead = DeadRows(fmt.DEAD_ROWS, np.frombuffer(body, np.uint8))
            inside = rows[chunks == chunk] - chunk * fmt.DEAD_ROWS
            self.put_run_part(run, Part.DEAD, int(chunk), dead.with_dead(inside).bits)

    def delete_run(self, run: int) -> None:
        """Remove all values of a run."""
        self._delete(RUNS, self._keys(RUNS, run.to_bytes(4, "big")))
