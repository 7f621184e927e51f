"""What is done inside one snapshot of a store. See `store` for the contract, and `transactions` for writing."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.cancelling import look
from kinbin.errors import CorruptData
from kinbin.storage import format as fmt
from kinbin.storage.changes import CHANGES, INDEXES, Changes, Declared, change_key, count_of, decode_changes, mark_of
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import Commit, Part, State
from kinbin.storage.headers import CONFIG, CONFIGURATION, Configuration, FieldNames, Identity, LinkSetHeader, RunHeader, numbers
from kinbin.storage.lookups import ITEMS, JOURNAL, META, OWNERS, RUNS, Trees, view_of

__all__ = ["DEAD_BYTES", "Reader"]

DEAD_BYTES = fmt.DEAD_ROWS // 8
"""Of a chunk of dead bits."""
_RUN_KEY_BYTES = 9
_ITEMS_AT_ONCE, _SCANNED_AT_ONCE = 4_096, 256
"""Items that are looked up, and that are listed, between two looks at whether somebody still waits for them."""


class Reader:
    """One snapshot. Made by `Store.read`; not used after its block.

    Records are found in the file's pages, of which every number is checked (`pages`). All methods raise CorruptData where one is wrong.
    """

    def __init__(self, transaction: Any, trees: Trees, opening: int) -> None:
        self._txn = transaction
        self._trees = trees
        self.opening = opening
        """Which opening of the files this is: addresses of another one are void."""
        self.salt = trees.salt
        """What the checksums of these files begin with."""
        self._bound: dict[int, bool] = {}

    def end(self) -> None:
        """Give the reader slot back at once: a transaction keeps it until the object dies, and a kept traceback keeps that."""
        transaction, self._txn = self._txn, None
        transaction.abort()

    @property
    def transaction(self) -> int:
        """LMDB's number of the state that is read."""
        return self._trees.transaction

    def _get(self, tree: int, key: bytes) -> bytes | None:
        """A copy of one value."""
        return self._trees.get(tree, key)

    def _get_many(self, tree: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._trees.get_many(tree, keys)

    def scan_tree(self, tree: int, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Copies of keys and values of one tree from a key on, in order, unproved."""
        return self._trees.records(tree, start)

    def state_record(self) -> bytes:
        """The state record as it is stored: equal records are equal states."""
        return self._trees.state_record

    def state(self) -> State:
        """The state record."""
        return self._trees.state

    def refuse_empty_state(self) -> None:
        """See that a state that counts no items is not that of another collection: it would list no runs, and contradict nothing else.

        Raises:
            CorruptData: there are items.
        """
        if not self._trees.state.items and (there := self._trees.records_of(ITEMS)):
            raise CorruptData(f"there are {there:,} items, the state record says 0")

    def begun(self, key: bytes) -> int:
        """What the checksum of a record of the first tree begins with."""
        return fmt.begun(self.salt, key)

    def json(self, key: bytes, what: str) -> Any:
        """What a record of the first tree says; None: it is not there.

        Raises:
            CorruptData: it is damaged.
        """
        value = self._get(META, key)
        return None if value is None else fmt.decode_json(value, what, self.begun(key))

    def _json(self, key: bytes, what: str) -> Any:
        """The same of one that has to be there."""
        return fmt.decode_json(self._get(META, key) or b"", what, self.begun(key))

    def identity(self) -> Identity | None:
        """Whose files these are; None in format 1."""
        return self._trees.identity()

    def identity_record(self) -> bytes | None:
        """The same as it is stored."""
        return self._trees.identity_record

    def configuration(self) -> Configuration:
        """What the collection was created with, or has been rebuilt with."""
        return Configuration.decode(self._json(CONFIG, CONFIGURATION))

    def field_names(self) -> FieldNames:
        """The same of the first store of a collection with several fields."""
        return FieldNames.decode(self._json(CONFIG, CONFIGURATION))

    def depths(self) -> dict[str, Any]:
        """What was measured of the depths of candidates of fields (`fields.depths`); nothing if it is absent or damaged."""
        try:
            data = self._json(b"depths", "the measured depths")
        except CorruptData:
            # It is measured again.
            return {}
        return data if isinstance(data, dict) else {}

    def manifest(self) -> list[int]:
        """Numbers of the runs, oldest rows first."""
        what = "the list of runs"
        return numbers(self._json(b"manifest", what), what)

    def link_sets(self) -> list[int]:
        """Numbers of the link sets, at most one; whoever knows of none may leave them out."""
        what = "the list of link sets"
        found = self.json(b"links", what)
        return [] if found is None else numbers(found, what)

    def declared_indexes(self) -> Declared | None:
        """The payload indexes that are declared; None: there never was one. Cost: 2 µs."""
        found = self.json(INDEXES, "the list of payload indexes")
        return None if found is None else Declared.decode(found)

    def changes(self, after: int) -> Iterator[tuple[int, Changes]]:
        """What commits after the one numbered `after` touched, as far as the log has it."""
        for key, value in self.scan_tree(META, change_key(after + 1)):
            if not key.startswith(CHANGES):
                break
            yield int.from_bytes(key[len(CHANGES) :], "big"), decode_changes(value, self.begun(key))

    def changed_items(self, after: int) -> int:
        """How many items the log of the commits after one names. Reads no more than the heads of its records."""
        return sum(count_of(value) for key, value in self.scan_tree(META, change_key(after + 1)) if key.startswith(CHANGES))

    def change_mark(self, sequence: int) -> bytes | None:
        """The mark of the log at a commit; None: it has no record of that commit, nor has it of any before."""
        value = self._get(META, change_key(sequence))
        if value is not None:
            return mark_of(value)
        declared = self.declared_indexes()
        return None if declared is None else declared.mark

    def moved(self) -> list[int]:
        """The transactions after which the file was made anew (`shrinking`), the last ones, ascending."""
        what = "the list of moves"
        found = self.json(b"moved", what)
        return [] if found is None else numbers(found, what)

    def written_for(self) -> int:
        """In the store of a field: the commit of the first store that was last written for here, or that was done when rows were buried."""
        found = self.json(b"commit", "the commit that was written for")
        if found is None:
            return 0
        if not isinstance(found, int):
            raise CorruptData("the commit that was written for is no number")
        return found

    def items(self, ids: Sequence[bytes]) -> list[tuple[int, bytes] | None]:
        """Row and payload of each id; None where it is proved that there is none. Many may be given up (`cancelling`)."""
        if len(ids) > _ITEMS_AT_ONCE:
            out = []
            for start in range(0, len(ids), _ITEMS_AT_ONCE):
                look()
                out += self.items(ids[start : start + _ITEMS_AT_ONCE])
            return out
        found = self._get_many(ITEMS, ids)
        salt = self.salt
        return [None if value is None else fmt.decode_item(key, value, salt) for key, value in zip(ids, found, strict=True)]

    def scan_items(self, after: bytes | None) -> Iterator[tuple[bytes, int, bytes]]:
        """(id, row, payload) in the order of ids, from the first id greater than `after`; may be given up (`cancelling`)."""
        for count, (key, value) in enumerate(self.scan_tree(ITEMS, b"" if after is None else after + b"\0")):
            if not count % _SCANNED_AT_ONCE:
                look()
            yield key, *fmt.decode_item(key, value, self.salt)

    def all_items(self) -> Iterator[tuple[bytes, int, bytes]]:
        """All items, in the order of ids.

        Raises:
            CorruptData: at the end, if they are not as many as the state counts.
        """
        count, wanted = 0, self.state().items
        for count, item in enumerate(self.scan_items(None), 1):  # noqa: B007 - counted for what follows
            yield item
        if count != wanted:
            raise CorruptData(f"there are {count:,} items, the state record says {wanted:,}")

    def owners(self, rows: Iterable[int]) -> list[list[bytes]]:
        """The ids of each row; an empty list for a row that has none."""
        wanted = list(rows)
        found = self._get_many(OWNERS, [fmt.row_key(row) for row in wanted])
        salt = self.salt
        return [[] if value is None else fmt.decode_owners(row, value, salt) for row, value in zip(wanted, found, strict=True)]

    def scan_owners(self) -> Iterator[tuple[int, list[bytes]]]:
        """Every row and its ids, by row."""
        for key, value in self.scan_tree(OWNERS, b""):
            row = fmt.row_of(key)
            yield row, fmt.decode_owners(row, value, self.salt)

    def journal(self, after: int) -> Iterator[tuple[int, Commit]]:
        """Commits after the one numbered `after`, as far as they have entries."""
        for key, value in self.scan_tree(JOURNAL, fmt.sequence_key(after + 1)):
            yield int.from_bytes(key, "big"), fmt.decode_commit(key, value, self.salt)

    def run_part(self, run: int, part: bytes, index: int = 0, *, verify: bool = False) -> memoryview:
        """The body of a run's value, in place.

        Raises:
            CorruptData: it is absent, of another kind, or (asked to verify) damaged.
        """
        key = fmt.run_key(run, part, index)
        ((address, size),) = self._trees.places(RUNS, (key,))
        return fmt.open_value(key, view_of(address, size), self.salt, verify=verify, bound=self._is_bound(run))

    def _is_bound(self, run: int) -> bool:
        """Whether all values of a run, or link set, name their keys. What is damaged here is refused where it is read.

        Raises:
            CorruptData: some do, and some do not.
        """
        if self.salt:
            # In files that have one all do.
            return True
        known = self._bound.get(run)
        if known is None:
            # Runs without names have no checks: whoever has some is none of these, whatever its header is.
            places = self._trees.places(RUNS, [fmt.run_key(run, part) for part in (Part.HEADER, Part.ROW_NUMBERS, Part.CHECKS)])
            named = {fmt.names_key(ctypes.string_at(address, min(size, fmt.VALUE_HEADER))) for address, size in places if address}
            if len(named) > 1:
                raise CorruptData(f"values of another run stand in the place of some of run {run}")
            known = self._bound[run] = named == {True}
        return known

    def run_parts(self, run: int, part: bytes, *, verify: bool = False) -> list[memoryview]:
        """The bodies of all values of one part of a run, by index, in place.

        Raises:
            CorruptData: one is missing or of another kind, or (asked to verify) damaged.
        """
        places = self._parts(run, part).tolist()
        bound = self._is_bound(run)
        return [
            fmt.open_value(fmt.run_key(run, part, index), view_of(address, size), self.salt, verify=verify, bound=bound)
            for index, (address, size) in enumerate(places)
        ]

    def run_places(self, run: int, part: bytes, *, named: bool = True) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Addresses (n,) and bytes (n,) of the bodies of all values of one part of a run, by index, without reading them.

        The bytes of a small value may include its padding. named: look whether their headers name these keys, which touches a page of
        each. Cost: 0.5 µs a value, however large; 1 µs named.

        Raises:
            CorruptData: one is missing, too short, or stands in the place of another.
        """
        out = self._parts(run, part)
        if (out[:, 1] < fmt.VALUE_HEADER).any():
            raise CorruptData(f"a part {part.decode()!r} of run {run} is too short")
        if named:
            bound = self._is_bound(run)
            for index, address in enumerate(out[:, 0].tolist()):
                fmt.read_head(fmt.run_key(run, part, index), ctypes.string_at(address, fmt.VALUE_HEADER), self.salt, bound=bound)
        return out[:, 0] + np.uint64(fmt.VALUE_HEADER), out[:, 1] - np.uint64(fmt.VALUE_HEADER)

    def _parts(self, run: int, part: bytes) -> NDArray[np.uint64]:
        """Address and size (n, 2) of the values of one part of a run, whose indices are 0, 1 and so on."""
        out = self._trees.parts(RUNS, fmt.run_key(run, part)[:5])
        if out is None:
            raise CorruptData(f"part {part.decode()!r} of run {run} lacks a value")
        return out

    def run_header(self, run: int) -> RunHeader:
        """A run's header, checked."""
        what = f"the header of run {run}"
        return RunHeader.decode(fmt.decode_json(self.run_part(run, Part.HEADER, verify=True), what), what)

    def link_set_header(self, number: int) -> LinkSetHeader:
        """A link set's header, checked."""
        what = f"the header of link set {number}"
        return LinkSetHeader.decode(fmt.decode_json(self.run_part(number, Part.HEADER, verify=True), what), what)

    def run_dead(self, run: int, rows: int) -> DeadRows:
        """Which of a run's rows are dead (a copy).

        Raises:
            CorruptData: they are damaged, or of rows that the run does not have.
        """
        bits = np.zeros(max(-(-rows // fmt.DEAD_ROWS), 1) * DEAD_BYTES, np.uint8)
        prefix = fmt.run_key(run, Part.DEAD)[:5]
        for key, value in self.scan_tree(RUNS, prefix):
            if key[:5] != prefix:
                break
            chunk = fmt.open_value(key, memoryview(value), self.salt, verify=True, bound=self._is_bound(run))
            start = int.from_bytes(key[5:], "big") * DEAD_BYTES
            if len(key) != _RUN_KEY_BYTES or len(chunk) != DEAD_BYTES or start >= len(bits):
                raise CorruptData(f"run {run} marks rows dead that it does not have")
            bits[start : start + DEAD_BYTES] = np.frombuffer(chunk, np.uint8)
        return DeadRows(rows, bits)

    def run_numbers(self) -> set[int]:
        """Numbers of all runs that have values, listed in the manifest or not."""
        out: set[int] = set()
        start = b""
        while places := self._trees.listed(RUNS, start, 1):
            address, size, _, _ = places[0]
            run = int.from_bytes(ctypes.string_at(address, size)[:4], "big")
            out.add(run)
            if run == 2**32 - 1:
                break
            start = (run + 1).to_bytes(4, "big")
        return out
