"""Several edits in one transaction, with notes of the program that asked for them: all are on disk, notes too, or none is.

For programs that follow a log: what was done last is noted by the transaction that does it, so that nothing is done twice or left out,
whatever ends the process. Each edit is decided on what the ones before it left; one that is refused changes nothing, and the others stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self, Unpack

import numpy as np

from kinbin.errors import InvalidInput, ItemConflict, KeyReused, KinbinError
from kinbin.items.kind import Form, Kind
from kinbin.parameters import field_name, one_of, sequence_of
from kinbin.payloads import PAYLOAD_MODES, write_payloads
from kinbin.query.filters import compile_filter
from kinbin.records import AddResult, DeleteResult, PayloadResult
from kinbin.rows.identity import check_ids
from kinbin.rows.lookup import NARROW_DIMENSION
from kinbin.rows.rows import Rows
from kinbin.storage.notes import check_notes, note_named, notes_from
from kinbin.storage.quota import Quota
from kinbin.terms import ON_ERROR, WRITE_MODES, Asked, Terms, add_on_terms
from kinbin.upkeep.indexing import checked_kinds
from kinbin.writes import Writable, delete_found, delete_these, whole_or_none

__all__ = ["Grouped", "Outcome", "Together", "check_rows"]

Outcome = AddResult | DeleteResult | PayloadResult | KinbinError | None
"""What became of an edit: its result, None where there is none to tell, or why it was refused."""

_REFUSALS = (InvalidInput, ItemConflict, KeyReused)
"""Errors that are about the edit and what is stored. All others are about this machine: they end the whole transaction."""


class _Edit(Protocol):
    """A transaction, as far as it is needed here."""

    writing: bool

    def put_notes(self, notes: Mapping[bytes, bytes | None]) -> None: ...


class Together:
    """Edits that are collected, validated and packed as they come, and then done in one transaction. Made by `Collection.together`.

    Used in one thread, once.
    """

    def __init__(self, collection: Grouped) -> None:
        self._collection = collection
        self._edits: list[Callable[[Any], Any] | KinbinError] = []

    def __len__(self) -> int:
        return len(self._edits)

    def add(
        self, ids: Sequence[bytes], rows: Mapping[str, Rows], payloads: Sequence[bytes], mode: str = "upsert", *,
        now: float, positions: Sequence[int] | None = None, first: int | None = None, **terms: Unpack[Asked],
    ) -> Self:  # fmt: skip
        """An add of items that a `Schema` of the collection has checked: ids, rows and payloads as `Checked` has them.

        now: seconds since 1970, in the place of the clock: what depends on the time is then the same wherever the edit is done again.
        positions: of the items in the batch as it came, which problems name. terms: as `Collection.add` takes them.
        first: rows that are made get the number `first` plus the item's position, all of them more where the collection has that number
        already; None: the next numbers. Of rows with the same score the one with the lesser number is answered first, so whoever numbers
        rows of several collections by one counter has one order of ties (`numbers_of`, `AddResult.next_row`).
        """
        return self._append(partial(self._prepared, (ids, rows, payloads), mode, now, (positions, first), terms))

    def _prepared(
        self, given: tuple[Any, Mapping[str, Rows], Any], mode: str, now: float, at: tuple[Any, int | None], asked: Asked
    ) -> Callable[[Any], AddResult]:
        one_of("mode", mode, WRITE_MODES)
        one_of("on_error", asked.get("on_error", "reject"), ON_ERROR)
        ids, rows, payloads = given
        terms = Terms.of(list(ids), mode, asked).at(*at)
        items = self._collection._packed(list(ids), list(payloads), rows)
        return lambda edit: add_on_terms(edit, items, terms, now)

    def write_payloads(
        self, ids: Sequence[bytes], payloads: Sequence[bytes], mode: str = "replace", *, if_versions: Sequence[int | None] | None = None
    ) -> Self:
        """Payloads, or patches ("merge") of them, of items that are there: canonical JSON, as `Schema.check_payloads` has it."""

        def prepared() -> Callable[[Any], PayloadResult]:
            one_of("mode", mode, PAYLOAD_MODES)
            return lambda edit: write_payloads(edit, list(ids), list(payloads), mode, if_versions)

        return self._append(prepared)

    def delete(self, ids: Sequence[str | bytes], *, if_versions: Sequence[int | None] | None = None) -> Self:
        """Remove items by id: see `Collection.delete`."""

        def prepared() -> Callable[[Any], DeleteResult]:
            named = [one.decode() if isinstance(one, bytes) else one for one in sequence_of("ids", ids)]
            keys = list(dict.fromkeys(check_ids(named, unique=if_versions is not None)))
            return partial(delete_these, ids=keys, versions=if_versions)

        return self._append(prepared)

    def delete_matching(self, filter: Any) -> Self:
        """Remove all items that a filter matches when it is done, however many these are, in this one transaction."""

        def prepared() -> Callable[[Any], DeleteResult | None]:
            matches = compile_filter(filter)
            # Where an edit before it changes something they are looked for again, inside of the transaction.
            keys, sequence, _ = self._collection._matching(matches, filter)
            return partial(delete_found, keys=keys, matches=matches, sequence=sequence)

        return self._append(prepared)

    def change_indexes(self, add: Mapping[str, str], drop: Sequence[str] = ()) -> Self:
        """Drop and declare payload indexes."""

        def prepared() -> Callable[[Any], None]:
            wanted, gone = checked_kinds(add), [field_name(one, "drop") for one in sequence_of("drop", drop)]
            return lambda edit: edit.change_indexes(wanted, gone)

        return self._append(prepared)

    def set_limits(self, *, items: int | None) -> Self:
        """How many items the collection may hold at most; None: as many as there is room for."""

        def prepared() -> Callable[[Any], None]:
            quota = Quota(whole_or_none("items", items))
            return lambda edit: edit.put_quota(quota)

        return self._append(prepared)

    def nothing(self) -> Self:
        """An edit that changes nothing: it has a place among the outcomes."""
        return self._append(lambda: lambda _: None)

    def refused(self, error: KinbinError) -> Self:
        """An edit that was refused before it came here."""
        self._edits.append(error)
        return self

    def _append(self, prepare: Callable[[], Callable[[Any], Any]]) -> Self:
        try:
            self._edits.append(prepare())
        except _REFUSALS as error:
            self._edits.append(error)
        return self

    def commit(self, notes: Callable[[list[Outcome]], Mapping[bytes, bytes | None]]) -> list[Outcome]:
        """Do all edits in one transaction; on disk on return. Returns the outcome of each.

        notes: of the outcomes, what is to be noted, by name (at most 64 bytes; None removes a note). Called inside of the transaction.

        Raises:
            StorageError and what `notes` raises: nothing was done. StorageBusy: the outcome is unknown, `Collection.note` tells it.
        """

        def apply(edit: _Edit) -> list[Outcome]:
            try:
                outcomes = [one if isinstance(one, KinbinError) else _outcome(edit, one) for one in self._edits]
                noted = notes(outcomes)
                check_notes(noted)
                edit.put_notes(noted)
            except BaseException:
                # Edits before have written: without the notes none of them may stand.
                edit.writing = True
                raise
            return outcomes

        return self._collection._submit_together(apply)


def _outcome(edit: _Edit, write: Callable[[Any], Any]) -> Outcome:
    try:
        result: Outcome = write(edit)
    except _REFUSALS as error:
        if edit.writing:
            raise
        return error
    return result


class Grouped(Writable):
    """The part of a collection that does several edits at once."""

    def _packed(self, ids: list[bytes], payloads: list[bytes], rows: Mapping[str, Rows]) -> Any:
        """Items that were checked, packed for a transaction."""
        raise NotImplementedError

    def together(self) -> Together:
        """Edits to be done in one transaction, with notes of one's own: see `Together`."""
        return Together(self)

    def _submit_together(self, apply: Callable[[Any], list[Outcome]]) -> list[Outcome]:
        self._store.refuse_fork()
        outcomes: list[Outcome] = self._submit(apply)
        counts = [one.count for one in outcomes if isinstance(one, AddResult | DeleteResult | PayloadResult)]
        if counts:
            self._wake(counts[-1])
        return outcomes

    def numbers_of(self, ids: Sequence[str]) -> list[int | None]:
        """The row numbers of items; None of those that are not there. Cost: 2 µs each."""
        with self._store.read() as reader:
            return [None if one is None else one[0] for one in reader.items(check_ids(list(ids), unique=False))]

    def note(self, name: bytes) -> bytes | None:
        """What was noted under a name (`Together.commit`); None: nothing. Cost: 10 µs."""
        with self._store.read() as reader:
            return note_named(reader, name)

    def notes(self, prefix: bytes = b"") -> dict[bytes, bytes]:
        """All notes whose names begin so, in the order of their names."""
        with self._store.read() as reader:
            return notes_from(reader, prefix)


def check_rows(given: Mapping[str, Rows], name: str, n: int, kind: Kind, form: Form) -> Rows:
    """The rows of one field, which somebody else made: n rows that kernels of this collection may be handed.

    What `Rows` promises of their order and values is taken as it is.

    Raises:
        InvalidInput: codes "bad_vector", "dimension_mismatch", "negative_value".
    """
    rows = given.get(name)
    if rows is None:
        raise InvalidInput.of("bad_parameter", f"there are no rows of the field {name!r}", field="vectors")
    if len(rows) != n:
        raise InvalidInput.of("bad_parameter", f"{len(rows)} rows came with {n} ids", field="ids")
    bound = form.dim if kind.vectors and form.dim is not None else None if kind.wide(form) else NARROW_DIMENSION
    if bound is not None and len(rows.features) and int(rows.features.max()) >= bound:
        raise InvalidInput.of("dimension_mismatch", f"feature ids of this collection are below {bound}", field="vector")
    if kind.vectors and not form.signed and len(rows.values) and bool(np.min(rows.values) < 0):
        raise InvalidInput.of("negative_value", "this collection's kernel takes values ≥ 0", field="vector")
    return rows
