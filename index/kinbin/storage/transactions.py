"""What is done inside one transaction of a store: reading a snapshot, and writing. See `store` for the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.storage import format as fmt
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import Commit, Part, State
from kinbin.storage.headers import Configuration, FieldNames, LinkSetHeader, RunHeader, numbers
from kinbin.storage.places import address_of, place_of

__all__ = ["Reader", "Writer"]

_DEAD_BYTES = fmt.DEAD_ROWS // 8
"""Of a chunk of dead bits."""


class Reader:
    """One snapshot. Made by `Store.read`; not used after its block."""

    def __init__(self, transaction: Any, trees: tuple[Any, ...], opening: int) -> None:
        self._txn = transaction
        self._meta, self._items, self._owners, self._journal, self._runs = trees
        self.opening = opening
        """Which opening of the files this is: addresses of another one are void."""

    def end(self) -> None:
        """Give the reader slot back at once: a transaction keeps it until the object dies, and a kept traceback keeps that."""
        transaction, self._txn = self._txn, None
        transaction.abort()

    def state_record(self) -> bytes:
        """The state record as it is stored: equal records are equal states."""
        return bytes(self._txn.get(b"state", b"", db=self._meta))

    def state(self) -> State:
        """The state record."""
        return fmt.decode_state(self.state_record())

    def configuration(self) -> Configuration:
        """What the collection was created with."""
        return Configuration.decode(fmt.decode_json(self._txn.get(b"config", b"", db=self._meta), "the collection's configuration"))

    def field_names(self) -> FieldNames:
        """The same of the first store of a collection with several fields."""
        return FieldNames.decode(fmt.decode_json(self._txn.get(b"config", b"", db=self._meta), "the collection's configuration"))

    def depths(self) -> dict[str, Any]:
        """What was measured of the depths of candidates of fields (`fields.depths`); nothing if it is absent or damaged."""
        try:
            data = fmt.decode_json(self._txn.get(b"depths", b"", db=self._meta), "the measured depths")
        except CorruptData:
            # It is measured again.
            return {}
        return data if isinstance(data, dict) else {}

    def manifest(self) -> list[int]:
        """Numbers of the runs, oldest rows first."""
        what = "the list of runs"
        return numbers(fmt.decode_json(self._txn.get(b"manifest", b"", db=self._meta), what), what)

    def link_sets(self) -> list[int]:
        """Numbers of the link sets, at most one; whoever knows of none may leave them out."""
        value = self._txn.get(b"links", db=self._meta)
        what = "the list of link sets"
        return [] if value is None else numbers(fmt.decode_json(value, what), what)

    def items(self, ids: Sequence[bytes]) -> list[tuple[int, bytes] | None]:
        """Row and payload of each id, None where there is none."""
        tree = self._items
        out: list[tuple[int, bytes] | None] = []
        for key in ids:
            value = self._txn.get(key, db=tree)
            out.append(None if value is None else fmt.decode_item(key, value))
        return out

    def scan_items(self, after: bytes | None) -> Iterator[tuple[bytes, int, bytes]]:
        """(id, row, payload) in the order of ids, from the first id greater than `after`."""
        with self._txn.cursor(db=self._items) as cursor:
            found = cursor.first() if after is None else cursor.set_range(after)
            if found and after is not None and bytes(cursor.key()) == after:
                found = cursor.next()
            while found:
                key = bytes(cursor.key())
                row, payload = fmt.decode_item(key, cursor.value())
                yield key, row, payload
                found = cursor.next()

    def owners(self, rows: Iterable[int]) -> list[list[bytes]]:
        """The ids of each row; an empty list for a row that has none."""
        tree = self._owners
        out = []
        for row in rows:
            value = self._txn.get(fmt.row_key(row), db=tree)
            out.append([] if value is None else fmt.decode_owners(row, value))
        return out

    def scan_owners(self) -> Iterator[tuple[int, list[bytes]]]:
        """Every row and its ids, by row."""
        with self._txn.cursor(db=self._owners) as cursor:
            for key, value in cursor:
                row = int.from_bytes(key, "big")
                yield row, fmt.decode_owners(row, value)

    def journal(self, after: int) -> Iterator[tuple[int, Commit]]:
        """Commits after the one numbered `after`, as far as they have entries."""
        with self._txn.cursor(db=self._journal) as cursor:
            found = cursor.set_range(fmt.sequence_key(after + 1))
            while found:
                yield int.from_bytes(cursor.key(), "big"), fmt.decode_commit(cursor.value())
                found = cursor.next()

    def run_part(self, run: int, part: bytes, index: int = 0, *, verify: bool = False) -> memoryview:
        """The body of a run's value, in place.

        Raises:
            CorruptData: it is absent, of another kind, or (asked to verify) damaged.
        """
        value = self._txn.get(fmt.run_key(run, part, index), db=self._runs)
        return fmt.open_value(memoryview(b"") if value is None else value, part, verify=verify)

    def run_parts(self, run: int, part: bytes, *, verify: bool = False) -> list[memoryview]:
        """The bodies of all values of one part of a run, by index, in place."""
        prefix = fmt.run_key(run, part)[:5]
        out: list[memoryview] = []
        with self._txn.cursor(db=self._runs) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:5]) == prefix:
                out.append(fmt.open_value(cursor.value(), part, verify=verify))
                found = cursor.next()
        return out

    def run_places(self, run: int, part: bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Addresses (n,) and bytes (n,) of the bodies of all values of one part of a run, by index, without reading them.

        The bytes of a small value may include its padding. Cost: 2 µs a value, however large.
        """
        prefix = fmt.run_key(run, part)[:5]
        places: list[tuple[int, int]] = []
        with self._txn.cursor(db=self._runs) as cursor:
            page_bytes = self._page_bytes(cursor, run)
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:5]) == prefix:
                place = place_of(cursor.key(), page_bytes) if page_bytes else None
                if place is None:
                    value = cursor.value()
                    place = address_of(value), len(value)
                places.append(place)
                found = cursor.next()
        out = np.array(places, np.uint64).reshape(-1, 2)
        return out[:, 0] + np.uint64(fmt.VALUE_HEADER), out[:, 1] - np.uint64(fmt.VALUE_HEADER)

    def _page_bytes(self, cursor: Any, run: int) -> int:
        """The page size, if `place_of` finds the run's header where it is; 0 if it does not."""
        page_bytes = int(self._txn.stat(self._runs)["psize"])
        if not cursor.set_key(fmt.run_key(run, Part.HEADER)):
            return 0
        value = cursor.value()
        return page_bytes if place_of(cursor.key(), page_bytes) == (address_of(value), len(value)) else 0

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
        bits = np.zeros(max(-(-rows // fmt.DEAD_ROWS), 1) * _DEAD_BYTES, np.uint8)
        with self._txn.cursor(db=self._runs) as cursor:
            prefix = fmt.run_key(run, Part.DEAD)[:5]
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:5]) == prefix:
                chunk = fmt.open_value(cursor.value(), Part.DEAD, verify=True)
                start = int.from_bytes(cursor.key()[5:], "big") * _DEAD_BYTES
                if len(chunk) != _DEAD_BYTES or start >= len(bits):
                    raise CorruptData(f"run {run} marks rows dead that it does not have: the files are damaged; restore a copy")
                bits[start : start + _DEAD_BYTES] = np.frombuffer(chunk, np.uint8)
                found = cursor.next()
        return DeadRows(rows, bits)

    def run_numbers(self) -> set[int]:
        """Numbers of all runs that have values, listed in the manifest or not."""
        out = set()
        with self._txn.cursor(db=self._runs) as cursor:
            found = cursor.first()
            while found:
                run = int.from_bytes(cursor.key()[:4], "big")
                out.add(run)
                found = cursor.set_range((run + 1).to_bytes(4, "big"))
        return out


class Writer(Reader):
    """One write transaction: reads what it wrote. Made by `Store.write`."""

    def put_state(self, state: State) -> None:
        """Replace the state record."""
        self._txn.put(b"state", fmt.encode_state(state), db=self._meta)

    def put_manifest(self, runs: list[int]) -> None:
        """Replace the list of runs."""
        self._txn.put(b"manifest", fmt.encode_json(runs), db=self._meta)

    def put_depths(self, data: dict[str, Any]) -> None:
        """Replace what was measured of the depths of candidates."""
        self._txn.put(b"depths", fmt.encode_json(data), db=self._meta)

    def put_link_sets(self, sets: list[int]) -> None:
        """Replace the list of link sets."""
        self._txn.put(b"links", fmt.encode_json(sets), db=self._meta)

    def put_items(self, records: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Add or replace items: (id, row, payload)."""
        put = self._txn.put
        for key, row, payload in records:
            put(key, fmt.encode_item(key, row, payload), db=self._items)

    def delete_items(self, ids: Iterable[bytes]) -> None:
        """Remove items."""
        for key in ids:
            self._txn.delete(key, db=self._items)

    def put_owners(self, owners: Iterable[tuple[int, list[bytes]]]) -> None:
        """Replace the ids of rows; a row without ids loses its record."""
        for row, ids in owners:
            if ids:
                self._txn.put(fmt.row_key(row), fmt.encode_owners(row, ids), db=self._owners)
            else:
                self._txn.delete(fmt.row_key(row), db=self._owners)

    def append_commit(self, sequence: int, commit: Commit) -> None:
        """Add a journal entry.

        Raises:
            CorruptData: the journal has one of this number, or of a later one.
        """
        if not self._txn.put(fmt.sequence_key(sequence), fmt.encode_commit(commit), db=self._journal, append=True):
            raise CorruptData("the journal is ahead of the state record: the files are damaged; restore a copy")

    def trim_journal(self, through: int) -> None:
        """Remove the entries up to one number: their rows are in a run now."""
        with self._txn.cursor(db=self._journal) as cursor:
            found = cursor.first()
            while found and int.from_bytes(cursor.key(), "big") <= through:
                found = cursor.delete()

    def put_run_part(self, run: int, part: bytes, index: int, body: bytes | NDArray[Any]) -> None:
        """Add or replace one value of a run."""
        self._txn.put(fmt.run_key(run, part, index), fmt.seal_value(part, body), db=self._runs)

    def put_header(self, number: int, header: RunHeader | LinkSetHeader) -> None:
        """Add the header of a run or of a link set."""
        self.put_run_part(number, Part.HEADER, 0, fmt.encode_json(header.encode()))

    def mark_dead(self, run: int, rows: NDArray[np.int64]) -> None:
        """Set the dead bits of local rows of a run; rewrites only the chunks they lie in."""
        chunks = rows // fmt.DEAD_ROWS
        for chunk in np.unique(chunks):
            key = fmt.run_key(run, Part.DEAD, int(chunk))
            value = self._txn.get(key, db=self._runs)
            dead = DeadRows.of(fmt.DEAD_ROWS)
            if value is not None:
                dead = DeadRows(fmt.DEAD_ROWS, np.frombuffer(fmt.open_value(value, Part.DEAD, verify=True), np.uint8))
            inside = rows[chunks == chunk] - chunk * fmt.DEAD_ROWS
            self.put_run_part(run, Part.DEAD, int(chunk), dead.with_dead(inside).bits)

    def delete_run(self, run: int) -> None:
        """Remove all values of a run."""
        prefix = run.to_bytes(4, "big")
        with self._txn.cursor(db=self._runs) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()[:4]) == prefix:
                found = cursor.delete()
