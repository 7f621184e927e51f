"""What can be saved of one damaged store: which items there are, and their rows, each proved by its own check."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.rows.record import CHECK_AT, HEADER, records_nnz, unpack_rows
from kinbin.rows.rows import Rows
from kinbin.storage import format as fmt
from kinbin.storage.format import Commit, Part
from kinbin.storage.headers import RunHeader
from kinbin.storage.salvage import Salvage
from kinbin.storage.saved import Saved

__all__ = ["NamedItems", "SavedStore"]

_KEPT_BLOCKS = 8
"""Blocks of rows that are held in memory: rows are asked for in the order of their numbers."""


@dataclass(frozen=True)
class NamedItems:
    """The items that records prove: by id the row, and the payload where its record is whole."""

    rows: dict[bytes, int]
    payloads: dict[bytes, bytes]
    problems: list[str]

    @property
    def bare(self) -> list[bytes]:
        """Ids whose payload, if they had one, is lost."""
        return [key for key in self.rows if key not in self.payloads]


@dataclass(frozen=True, eq=False)
class _Source:
    """Rows of a run or of a journal entry: the number of each, and where its record lies."""

    numbers: NDArray[np.uint64]
    """Ascending."""
    blocks: NDArray[np.int64]
    """Of each row, which block it is in."""
    offsets: NDArray[np.int64]
    run: int
    """-1: a journal entry, whose records are `records`."""
    records: NDArray[np.uint8] | None = None
    checks: NDArray[np.uint32] | None = None
    """Of each row, the check that its record has; None: they are lost, or were not listed."""
    bound: bool = False
    """Whether they were listed: without them only blocks are believed whose checksums hold."""


class SavedStore:
    """One store, read without LMDB. Nobody may write to it meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._salvage = Salvage(path / "data.mdb")
        try:
            self.saved: Saved = self._salvage.records()
        except BaseException:
            self._salvage.close()
            raise
        self.problems: list[str] = []
        self._blocks: dict[tuple[int, int], NDArray[np.uint8]] = {}

    def close(self) -> None:
        """Let go of the file."""
        self._salvage.close()

    def was_written(self) -> bool:
        """See `Salvage.was_written`."""
        return self._salvage.was_written()

    def part(self, run: int, part: bytes, index: int = 0) -> tuple[bytes, bool] | None:
        """See `Salvage.part`."""
        return self._salvage.part(self.saved, (run, part, index))

    # -- items

    @cached_property
    def items(self) -> NamedItems:
        """The items: those of the tree, those that rows name, and those of lost pages whose row lives."""
        saved = self.saved
        rows = {key: row for key, (row, _) in saved.items.items()}
        payloads = {key: payload for key, (_, payload) in saved.items.items()}
        named = {key: row for row, ids in saved.owners.items() for key in ids}
        self._settle(rows, payloads, named)
        # Where no item is missing in its tree, a row that names another one is of an earlier state.
        missing = {key: row for key, row in named.items() if key not in rows} if b"items" in saved.lacking else {}
        dead = self._dead_rows() if missing else set()
        for key, row in missing.items():
            if row in dead:
                continue
            found = saved.doubtful_items.get(key)
            rows[key] = row
            if found is not None and found[0] == row:
                payloads[key] = found[1]
        self._take_doubtful(rows, payloads)
        return NamedItems(rows, payloads, self.problems)

    def _may_be_of(self, key: bytes, row: int) -> bool:
        """Whether a row may be an item's, by the record of the row's ids: that has to name it, if it is there, or all of them are."""
        names = self.saved.owners.get(row)
        return b"owners" in self.saved.lacking if names is None else key in names

    def _settle(self, rows: dict[bytes, int], payloads: dict[bytes, bytes], named: dict[bytes, int]) -> None:
        """Leave out the records of items whose rows are dead or others', which are of an earlier state: their rows may name them anew.

        rows, payloads: of the items; both are changed. named: the row of each id that a row names.
        """
        strange = [key for key, row in rows.items() if named.get(key, row) != row or not self._may_be_of(key, row)]
        if not strange:
            return
        dead = self._dead_rows()
        earlier = undecided = 0
        for key in strange:
            row, other = rows[key], named.get(key)
            if row in dead or not self._may_be_of(key, row):
                earlier += 1
                del rows[key], payloads[key]
            elif other is not None and other not in dead:
                undecided += 1
        if earlier:
            told = f"{earlier} records of items are of an earlier state, as their rows say, and were left out"
            self.problems.append(f"{told}: what else is on their pages may be of an earlier state")
        if undecided:
            told = f"{undecided} items and the rows they name tell different stories"
            self.problems.append(f"{told}; the items' own was taken, which may be that of an earlier state")

    def _take_doubtful(self, rows: dict[bytes, int], payloads: dict[bytes, bytes]) -> None:
        """Items of pages that no tree reaches, if the row lives that they name, and no record names another id of it."""
        saved = self.saved
        if not saved.free_known and saved.lacking:
            self.problems.append(
                "which pages are free is not known: pages that no tree reaches may be old, and were not looked at for items"
            )
        if saved.unsure:
            told = "rows were taken from pages that no tree reaches"
            self.problems.append(f"{told}: if a write was killed or taken back (`kinbin recover`) before, its rows may be among them")
        if not saved.doubtful_items and not saved.doubtful_owners:
            return
        dead = self._dead_rows()
        # Where no item is missing in its tree, none is told of elsewhere.
        for row, ids in saved.doubtful_owners.items() if b"items" in saved.lacking else ():
            if row not in saved.owners and row not in dead:
                for key in ids:
                    rows.setdefault(key, row)
        for key, (row, payload) in saved.doubtful_items.items():
            if row in dead or not self._may_be_of(key, row):
                continue
            if rows.setdefault(key, row) == row:
                payloads.setdefault(key, payload)

    def _dead_rows(self) -> set[int]:
        """Row numbers that runs and journal say are dead, as far as they can be read."""
        out = {int(row) for commit in self.saved.commits.values() for row in commit.dead}
        for run in self._listed_runs():
            numbers = self._run_numbers(run, {})
            if numbers is not None:
                out.update(int(row) for row in numbers[self._dead_places(run, len(numbers))])
        return out

    def _dead_places(self, run: int, rows: int) -> NDArray[np.bool_]:
        out = np.zeros(-(-rows // fmt.DEAD_ROWS) * fmt.DEAD_ROWS, np.bool_)
        for chunk in range(len(out) // fmt.DEAD_ROWS):
            found = self.part(run, Part.DEAD, chunk)
            if found is not None and found[1] and 8 * len(found[0]) == fmt.DEAD_ROWS:
                bits = np.unpackbits(np.frombuffer(found[0], np.uint8), bitorder="little").view(np.bool_)
                out[chunk * fmt.DEAD_ROWS : (chunk + 1) * fmt.DEAD_ROWS] = bits
        return out[:rows]

    # -- rows

    def rows_of(self, wanted: NDArray[np.uint64], wide: bool) -> tuple[NDArray[np.bool_], Rows]:
        """Which of these row numbers (n, ascending) are whole, and their rows, in order."""
        found = np.zeros(len(wanted), np.bool_)
        parts: dict[int, Rows] = {}
        for source in self._sources:
            place = np.minimum(np.searchsorted(source.numbers, wanted), max(len(source.numbers) - 1, 0))
            if not len(source.numbers):
                continue
            (here,) = np.nonzero((source.numbers[place] == wanted) & ~found)
            for block in np.unique(source.blocks[place[here]]):
                some = here[source.blocks[place[here]] == block]
                data = self._block(source, int(block))
                checks = None if source.checks is None else source.checks[place[some]]
                for at, row in _sound_rows(data, source.offsets[place[some]], wide, checks):
                    found[some[at]] = True
                    parts[int(some[at])] = row
        return found, _joined([parts[at] for at in sorted(parts)])

    def _block(self, source: _Source, block: int) -> NDArray[np.uint8]:
        if source.records is not None:
            return source.records
        key = source.run, block
        if key not in self._blocks:
            found = self.part(source.run, Part.BLOCK, block)
            if found is not None and not found[1] and source.bound and source.checks is None:
                found = None
            while len(self._blocks) >= _KEPT_BLOCKS:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[key] = np.frombuffer(b"" if found is None else found[0], np.uint8)
        return self._blocks[key]

    @cached_property
    def _sources(self) -> list[_Source]:
        """All runs and journal entries whose row numbers are proved."""
        out = [_of_commit(commit) for commit in self.saved.commits.values() if len(commit)]
        known: dict[int, NDArray[np.uint64]] = {}
        for run in self._listed_runs():
            numbers = self._run_numbers(run, known)
            if numbers is not None:
                known[run] = numbers
        lacking = [run for run in self._listed_runs() if run not in known]
        if len(lacking) == 1:
            elsewhere = [*(source.numbers for source in out), *known.values()]
            numbers = self._worked_out(lacking[0], np.unique(np.concatenate([np.empty(0, np.uint64), *elsewhere])))
            if numbers is not None:
                known[lacking[0]] = numbers
        for run in self._listed_runs():
            if run in known:
                out.append(self._of_run(run, known[run]))
            else:
                self.problems.append(f"the row numbers of run {run} are lost, and its rows with them")
        return out

    def _listed_runs(self) -> list[int]:
        """Numbers of the runs: those of the list, or else all that have blocks of rows."""
        if self.saved.manifest is not None:
            return self.saved.manifest
        return sorted({run for run, part, _ in self.saved.parts if part == Part.BLOCK})

    def _header(self, run: int) -> RunHeader | None:
        found = self.part(run, Part.HEADER)
        if found is not None:
            with suppress(CorruptData):
                return RunHeader.decode(fmt.decode_json(found[0], "a header"), "a header")
        return None

    def _run_numbers(self, run: int, known: dict[int, NDArray[np.uint64]]) -> NDArray[np.uint64] | None:
        """The row numbers of a run, if their checksum proves them."""
        if run in known:
            return known[run]
        found = self.part(run, Part.ROW_NUMBERS)
        if found is None or not found[1] or len(found[0]) % 8:
            return None
        numbers = np.frombuffer(found[0], "<u8")
        return numbers if (np.diff(numbers.astype(np.int64)) > 0).all() else None

    def _worked_out(self, run: int, elsewhere: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
        """The row numbers of the only run that lacks them: those that items name and nothing else has, in order.

        None if they are not as many as the run has living rows. Its dead rows are given numbers that nobody asks for.
        """
        header = self._header(run)
        if header is None:
            return None
        wanted = np.unique(np.fromiter(self.items.rows.values(), np.uint64, len(self.items.rows)))
        missing = np.setdiff1d(wanted, elsewhere, assume_unique=True)
        (living,) = np.nonzero(~self._dead_places(run, header.rows))
        if len(missing) != len(living):
            return None
        numbers = np.empty(header.rows, np.int64)
        numbers[:] = -1
        numbers[living] = missing.astype(np.int64)
        # Dead rows repeat the number before them: whoever looks for that finds the first, the living one.
        return np.maximum.accumulate(numbers).clip(0).astype(np.uint64)

    def _of_run(self, run: int, numbers: NDArray[np.uint64]) -> _Source:
        """Where the rows of a run lie: by its offsets, or, if these are damaged, by going from record to record."""
        header = self._header(run)
        rows = len(numbers)
        shift = header.block_shift if header is not None and header.rows == rows else self._shift(run, rows)
        blocks = np.arange(rows) >> shift
        listed, bound = self.part(run, Part.CHECKS), self._salvage.is_bound(self.saved, run)
        checks = np.frombuffer(listed[0], "<u4") if listed is not None and listed[1] and len(listed[0]) == 4 * rows else None
        found = self.part(run, Part.OFFSETS)
        if found is not None and found[1] and len(found[0]) == 4 * rows:
            return _Source(numbers, blocks, np.frombuffer(found[0], "<u4").astype(np.int64), run, checks=checks, bound=bound)
        self.problems.append(f"where the rows of run {run} lie was worked out from the rows")
        offsets = np.full(rows, -1, np.int64)
        stored = np.frombuffer(b"" if found is None else found[0][: len(found[0]) // 4 * 4], "<u4").astype(np.int64)
        for block in range(-(-rows >> shift)):
            body = self.part(run, Part.BLOCK, block)
            first, past = block << shift, min((block + 1) << shift, rows)
            if body is not None:
                offsets[first:past] = _walked(body[0], stored[first:past], past - first)
        return _Source(numbers, blocks, offsets, run, checks=checks, bound=bound)

    def _shift(self, run: int, rows: int) -> int:
        """Rows of a block, as a power of two, where the header is lost: the least that gives the blocks that there are."""
        count = max(1, sum(1 for number, part, _ in {**self.saved.stale_parts, **self.saved.parts} if (number, part) == (run, Part.BLOCK)))
        return next(shift for shift in range(32) if -(-rows >> shift) <= count)


def _of_commit(commit: Commit) -> _Source:
    count = len(commit)
    return _Source(commit.row_numbers(), np.zeros(count, np.int64), commit.offsets[:-1].astype(np.int64), -1, commit.records)


def _walked(body: bytes, stored: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Offsets of the records of a block: each begins where the one before ends; where that is damaged the stored offset goes on."""
    narrow = np.full(count, -1, np.int64)
    at = 0
    for local in range(count):
        if not 0 <= at <= len(body) - HEADER:
            if local >= len(stored):
                break
            at = int(stored[local])
            if not 0 <= at <= len(body) - HEADER:
                continue
        narrow[local] = at
        nnz = int.from_bytes(body[at + 8 : at + 12], "little")
        # The stored offset of the next row, where it is plausible, tells of wide rows from narrow ones.
        sizes = {(HEADER + (2 * nnz + 3) // 4 * 4 + 4 * nnz + 7) // 8 * 8, (HEADER + 12 * nnz + 7) // 8 * 8}
        following = int(stored[local + 1]) if local + 1 < len(stored) else -1
        at = following if following - at in sizes else at + min(sizes)
    return narrow


def _sound_rows(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], wide: bool, checks: NDArray[np.uint32] | None
) -> Iterable[tuple[int, Rows]]:
    """(which of the offsets, row) of the records whose checks hold, and are those that are listed."""
    base = np.uint64(data.ctypes.data) if len(data) else np.uint64(0)
    for at, offset in enumerate(offsets.tolist()):
        if not 0 <= offset <= len(data) - HEADER:
            continue
        if checks is not None and int.from_bytes(data[offset + CHECK_AT : offset + HEADER].tobytes(), "little") != checks[at]:
            continue
        address = np.array([base + np.uint64(offset)], np.uint64)
        indptr = records_nnz(address, np.array([len(data) - offset], np.int64), wide)
        if indptr[-1] < 0:
            continue
        row = Rows(indptr, np.empty(indptr[-1], np.uint64), np.empty(indptr[-1], np.float32), np.empty(1))
        if unpack_rows(address, wide, indptr, row.features, row.values, row.norms) < 0:
            yield at, row


def _joined(rows: list[Rows]) -> Rows:
    if not rows:
        return Rows(np.zeros(1, np.int64), np.empty(0, np.uint64), np.empty(0, np.float32), np.empty(0))
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([row.indptr[-1] for row in rows], out=indptr[1:])
    return Rows(
        indptr, np.concatenate([row.features for row in rows]), np.concatenate([row.values for row in rows]),
        np.concatenate([row.norms for row in rows]),
    )  # fmt: skip
