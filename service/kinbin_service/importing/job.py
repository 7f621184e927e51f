"""The import of one file: read a batch, add it, remember it; go on where an earlier run ended.

After every acknowledged batch, and only then, the state file is replaced. So whatever ends a run, the next one repeats at most
the batch that was under way, which an upsert makes harmless (and what `_insert_rest` does for mode insert).
"""

from __future__ import annotations

import dataclasses
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from kinbin_service.importing import state as states
from kinbin_service.importing.bad_rows import BadRows
from kinbin_service.importing.batches import BadRow, Batch, Source, SourceError
from kinbin_service.importing.progress import Watch
from kinbin_service.importing.state import FileIdentity, ImportState, Resumed
from kinbin_service.importing.targets import Added, Refused, Target, TargetDiffers, Wanted

__all__ = ["AddOptions", "ImportJob", "Outcome", "StopRequest", "stopping_on_signals"]


@dataclass(slots=True)
class StopRequest:
    """Whether the user asked to stop; looked at between batches."""

    signal: int | None = None


@contextmanager
def stopping_on_signals() -> Iterator[StopRequest]:
    """For the block, the first SIGINT or SIGTERM asks to stop after the batch under way; a second SIGINT breaks off at once."""
    request = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        if request.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        request.signal = number

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class AddOptions:
    """How items are added: rows a batch, the mode, and what the collection is to be if it has to be made.

    Without `wanted.dim` it gets the length of the first vector when that is dense, and none otherwise.
    """

    rows: int = 1_000
    mode: str = "upsert"
    wanted: Wanted = dataclasses.field(default_factory=Wanted)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did with one file."""

    rows: int
    """Rows acknowledged in this run."""
    position: int
    """Rows that are behind, in this run or before, bad ones among them."""
    skipped: int
    """Rows that earlier runs had imported."""
    empty: int
    """Empty lines that this run passed over."""
    added: Added
    seconds: float
    finished: bool


class ImportJob:
    """One file on its way into one collection. `options` is what decides which items the file holds, as JSON.

    With `bad`, bad rows are left out and noted there; without, the first one ends the import.
    """

    def __init__(
        self, source: Source, target: Target, folder: Path, options: dict[str, Any], add: AddOptions, bad: BadRows | None = None
    ) -> None:
        self._source, self._target, self._how, self._bad = source, target, add, bad
        self._options = {**options, "format": source.format}
        self.state_path = states.state_path(folder, str(source.path.resolve()), target.place, target.name)
        self._state = self._fresh()
        self._prepared = False
        self._catching_up = False

    def resume(self) -> str | None:
        """Go on where an earlier run ended, if one did; what there is to tell about it."""
        fresh = self._fresh()
        resumed = states.resume(states.load(self.state_path), fresh)
        kept = resumed.state
        if kept.last_id is not None and not self._target.present([kept.last_id])[0]:
            resumed = Resumed(fresh, "what was imported is no longer in the collection: starting from the first row")
        self._state = resumed.state
        self._catching_up = self._state.under_way
        if self._state.finished:
            return f"already imported, {self._state.position.rows:,} rows, before the command was interrupted"
        if self._state.position.rows:
            return f"continuing after {self._state.position.rows:,} rows"
        return resumed.note

    def run(self, watch: Watch, stop: StopRequest) -> Outcome:
        """Import the rest of the file. Raises SourceError for a bad row; the rows before its batch are kept."""
        began = time.monotonic()
        skipped = self._state.position.rows
        left_out = 0
        sums = Added()
        watch.start(self._source.path.name, self._source.total, self._source.done(self._state.position))
        if not self._state.finished:
            self._remember(dataclasses.replace(self._state, under_way=True))
        try:
            for batch in (
                () if self._state.finished else self._source.batches(self._state.position, self._how.rows, skip_bad=self._bad is not None)
            ):
                if stop.signal is not None:
                    self._remember(dataclasses.replace(self._state, under_way=False))
                    break
                taken, added = self._add(batch)
                if self._bad is not None:
                    self._bad.note(taken.bad)
                    left_out += len(taken.bad)
                self._remember(self._state.advanced(batch.end, taken.ids[-1] if taken.ids else self._state.last_id))
                watch.advance(self._source.done(batch.end), len(taken))
                sums = sums.plus(added)
            else:
                self._remember(dataclasses.replace(self._state, finished=True, under_way=False))
                watch.advance(self._source.total, 0)
        except (SourceError, TargetDiffers) as error:
            self._keep_prefix()
            if isinstance(error, BadRow) and self._bad is None:
                raise error.told(self._state.position.rows) from None
            raise
        rows = self._state.position.rows - skipped - left_out
        elapsed = time.monotonic() - began
        return Outcome(rows, self._state.position.rows, skipped, self._source.empty, sums, elapsed, self._state.finished)

    def forget(self) -> None:
        """Remove the state: the command is done, and the next one starts over."""
        states.remove(self.state_path)

    def _fresh(self) -> ImportState:
        source = str(self._source.path.resolve())
        return ImportState(source, self._target.place, self._target.name, FileIdentity.of(self._source.path), self._options)

    def _add(self, batch: Batch) -> tuple[Batch, Added]:
        """Add what is good of a batch: all of it, or it raises, unless bad rows are left out. What was added, and what that did."""
        while batch.ids:
            try:
                return batch, self._add_whole(batch)
            except Refused as refused:
                named = {position: detail for position, detail in refused.problems if position is not None}
                if self._bad is None or refused.conflict or not named:
                    raise _located(batch, refused) from None
                bad = [batch.error_at(position, detail) for position, detail in named.items()]
                rest = batch.chosen([position for position in range(len(batch)) if position not in named])
                batch = dataclasses.replace(rest, bad=_in_order((*batch.bad, *bad)))
                self._catching_up = self._catching_up or refused.partly
        return batch, Added()

    def _add_whole(self, batch: Batch) -> Added:
        """Add a batch, all or nothing. Raises Refused."""
        if not self._prepared:
            names = self._source.columns.feature_names or None
            self._target.prepare(dataclasses.replace(self._how.wanted, feature_names=names), batch)
            self._prepared = True
        try:
            added = self._target.add(batch, self._how.mode)
        except Refused as refused:
            if refused.conflict and self._how.mode == "insert" and self._catching_up:
                return self._insert_rest(batch, refused)
            raise
        self._catching_up = False
        return added

    def _insert_rest(self, batch: Batch, refused: Refused) -> Added:
        """Insert what the interrupted run did not: it may have ended between an acknowledgement and the state file.

        What it wrote lies at the head of the batch; the rest is inserted, and refused whole if any of it is there.
        """
        present = self._target.present(batch.ids)
        written = present.index(False) if False in present else len(present)
        if written == 0:
            raise refused
        if written == len(batch):
            return Added(unchanged=written)
        self._catching_up = False
        rest = batch.chosen(range(written, len(batch)))
        try:
            added = self._target.add(rest, self._how.mode)
        except Refused as error:
            raise _located(rest, error) from None
        return dataclasses.replace(added, unchanged=added.unchanged + written)

    def _remember(self, state: ImportState) -> None:
        states.save(self.state_path, state)
        self._state = state

    def _keep_prefix(self) -> None:
        """Note what lies before the bad row, so that the import can go on once it is corrected."""
        offset = self._state.position.offset
        prefix = states.digest_of(self._source.path, offset) if 0 < offset <= states.PREFIX_BYTES else None
        self._remember(dataclasses.replace(self._state, prefix=prefix, under_way=False))


_OTHER_MODE = re.compile(r"; use mode \w+ or upsert(?=;|$)")
"""What the library and the service advise."""


def _in_order(errors: Sequence[BadRow]) -> tuple[BadRow, ...]:
    return tuple(sorted(errors, key=lambda error: (error.line or 0, error.row or 0)))


def _located(batch: Batch, refused: Refused) -> SourceError:
    """The refusal as an error about a row of the file."""
    position, detail = refused.problems[0]
    if len(refused.problems) > 1:
        detail += f" (and {len(refused.problems) - 1} more in the same batch)"
    if refused.conflict:
        detail = _OTHER_MODE.sub("", detail) + "; use --mode upsert to add and replace alike"
    error = batch.error_at(position if position is not None else 0, detail)
    # One that is in conflict is no bad row: leaving bad ones out does not help. How much of a batch was written in part is not known.
    plain = refused.conflict or refused.partly
    told = SourceError(error.path, error.detail, line=error.line, row=error.row) if plain else error
    # Of a row whose own size passes a limit it is said as of other bad rows.
    told.code = refused.code if position is None else None
    error.lone = position is not None
    return told
