"""A sealed run: immutable rows and tables, read in place."""

from __future__ import annotations

import threading
from ctypes import c_uint32
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.rows.record import CHECK_AT, HEADER, clear_unlisted
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import SMALLEST_VALUE, VALUE_HEADER, Part
from kinbin.storage.headers import RunHeader
from kinbin.storage.transactions import Reader

__all__ = ["Run"]

_VERIFYING = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A sealed run: its rows and tables lie in the store's map, its dead rows are a copy."""

    number: int
    header: RunHeader
    offsets: NDArray[np.uint32]
    row_numbers: NDArray[np.uint64]
    """(rows,) ascending; a copy."""
    checks: NDArray[np.uint32]
    """(rows,) of the rows' records; empty where the run has none."""
    content: NDArray[np.uint64]
    content_rows: NDArray[np.uint32]
    blocks: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    tables: NDArray[np.uint64]
    dead: DeadRows
    plans: dict[float, object]
    """What `plan` has worked out for this run, by target."""
    sound: list[bool] = field(default_factory=list)
    """Has a member once the checksums of all rows have been verified."""
    made: dict[str, Any] = field(default_factory=dict)
    """What was made of its rows, by name."""

    @classmethod
    def load(cls, reader: Reader, number: int) -> Run:
        """Read a run's header and places.

        What tells which row is whose is verified here, once: a row's own check could not see that it is
        answered in place of another. Cost: about 2 µs a block and band, 8 ns a row;
        blocks and tables themselves are not read.
        """
        header = reader.run_header(number)
        rows = header.rows
        blocks, lengths = reader.run_places(number, Part.BLOCK)
        # Bands only propose rows: a table in the place of another costs recall, and `check` finds it.
        tables, sizes = reader.run_places(number, Part.BAND, named=False)
        if len(tables) != header.bands or len(blocks) != -(-rows >> header.block_shift):
            raise CorruptData(f"run {number} has {len(tables)} bands and {len(blocks)} blocks, its header says otherwise")
        if (sizes != max(header.table_bytes, SMALLEST_VALUE - VALUE_HEADER)).any():
            raise CorruptData(f"a band of run {number} has not the size its header gives")
        return cls(
            number,
            header,
            np.frombuffer(_sized(reader.run_part(number, Part.OFFSETS, verify=True), 4 * rows), "<u4"),
            _row_numbers(reader, number, rows),
            _checks(reader, number, header),
            np.frombuffer(_sized(reader.run_part(number, Part.CONTENT), 8 * rows), "<u8"),
            np.frombuffer(_sized(reader.run_part(number, Part.CONTENT_ROWS), 4 * rows), "<u4"),
            blocks,
            lengths,
            tables,
            reader.run_dead(number, rows),
            {},
        )

    def with_dead(self, local: NDArray[np.int64]) -> Run:
        """A copy in which these local rows are dead as well."""
        return self.replaced(self.dead.with_dead(local))

    def replaced(self, dead: DeadRows) -> Run:
        """A copy with other dead rows."""
        return replace(self, dead=dead)

    def verify_rows(self, reader: Reader) -> None:
        """Verify the checksums of all rows, once: one that is damaged scores anything, and an exact answer would leave it out.

        Raises:
            CorruptData.

        Cost: 0.5 to 1 ns a byte, the first time in a process.
        """
        if not self.sound:
            with _VERIFYING:
                # One thread at a time: others have nothing to do before it is done.
                if not self.sound:
                    reader.run_parts(self.number, Part.BLOCK, verify=True)
                    self.sound.append(True)

    @property
    def rows(self) -> int:
        """Rows, dead ones included."""
        return self.header.rows

    @property
    def live(self) -> int:
        """Rows that are not dead."""
        return self.dead.live

    def local(self, row: int) -> int:
        """The place of a row number in this run, or -1."""
        place = int(np.searchsorted(self.row_numbers, np.uint64(row)))
        return place if place < self.rows and int(self.row_numbers[place]) == row else -1

    def place(self, local: int) -> tuple[int, int]:
        """Address of a row's record and the bytes left in its block; none where another row's record is."""
        block = local >> self.header.block_shift
        offset = int(self.offsets[local])
        address, room = int(self.blocks[block]) + offset, int(self.lengths[block]) - offset
        if len(self.checks) and (room < HEADER or self.checks.item(local) != c_uint32.from_address(address + CHECK_AT).value):
            return address, 0
        return address, room

    def places(self, locals_: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Addresses and rooms of many rows. Reads the beginning of each."""
        block = locals_ >> self.header.block_shift
        offset = self.offsets[locals_].astype(np.uint64)
        addresses, rooms = self.blocks[block] + offset, self.lengths[block].astype(np.int64) - offset.astype(np.int64)
        if len(self.checks):
            clear_unlisted(addresses, self.checks[locals_], rooms)
        return addresses, rooms


def _row_numbers(reader: Reader, number: int, rows: int) -> NDArray[np.uint64]:
    """A copy of the row numbers.

    Nothing else proves whose a row is. Were they read in the file each time, damage that comes while it is open would be answered from,
    and be merged into a run with checksums of its own.
    """
    numbers = np.frombuffer(_sized(reader.run_part(number, Part.ROW_NUMBERS, verify=True), 8 * rows), "<u8").copy()
    numbers.flags.writeable = False
    return numbers


def _checks(reader: Reader, number: int, header: RunHeader) -> NDArray[np.uint32]:
    """The checks of all rows; none of a run of format 2."""
    if not header.checks:
        return np.empty(0, np.uint32)
    return np.frombuffer(_sized(reader.run_part(number, Part.CHECKS, verify=True), 4 * header.rows), "<u4")


def _sized(body: memoryview, size: int) -> memoryview:
    if len(body) != size:
        raise CorruptData(f"a part of a run has {len(body)} bytes, its header gives {size}")
    return body
