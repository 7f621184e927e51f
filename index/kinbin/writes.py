"""What every collection does alike with items that are stored, or that come on terms: adds on terms, payloads, deletes, limits.

Each of these is one edit of a group commit, decided inside of its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kinbin.chunks import distinct_ids
from kinbin.errors import CollectionNotFound, InvalidInput
from kinbin.limits import limit
from kinbin.parameters import at_most, one_of, sequence_of
from kinbin.payloads import PAYLOAD_MODES, write_payloads
from kinbin.query.filters import Filter, Predicate, compile_filter
from kinbin.records import AddResult, DeleteResult, PayloadResult
from kinbin.rows.identity import check_ids, encode_payloads
from kinbin.skipping import good_items, some_of
from kinbin.storage.group import GroupCommit
from kinbin.storage.quota import Quota, put_quota, quota_of
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader
from kinbin.storage.versions import version_of
from kinbin.terms import Known, Terms, add_on_terms, check_versions, refuse_versions

__all__ = ["Writable", "delete_found", "delete_these", "whole_or_none"]

_FILTERED_SLICE = 1_000
"""Items that a filter deletes in one of several transactions: other writers wait some tens of milliseconds for it."""
_TRIES = 3
"""So often the items that a filter matches are looked for before a transaction; then inside of one, where nobody can come between."""
_LARGEST = 2**63 - 1


class _Deleting(Protocol):
    """A transaction, as far as deletes go."""

    sequence: int

    def delete(self, ids: list[bytes], matches: Predicate | None = None) -> DeleteResult: ...

    def known(self, ids: list[bytes]) -> list[Known]: ...

    def all_items(self) -> Any: ...


class Writable:
    """The writes that need nothing of what items hold."""

    _store: Store
    _writes: GroupCommit

    def _wake(self, items: int) -> None:
        raise NotImplementedError

    def _prepared(self, ids: Sequence[Any], X: Any, payloads: Sequence[Any] | None) -> Any:
        """A validated batch of one transaction."""
        raise NotImplementedError

    def _check_vectors(self, X: Any) -> object:
        """Refuse vectors that cannot be taken."""
        raise NotImplementedError

    # -- adds on terms

    def _add_on_terms(self, terms: Terms, ids: Any, X: Any, payloads: Sequence[Any] | None) -> AddResult:
        """One transaction of an add that asks for more than a mode."""
        listed = sequence_of("ids", ids)
        at_most("batch_items", len(listed), "ids")
        try:
            items = self._prepared(listed, X, payloads)
        except InvalidInput as error:
            if not terms.skip or error.problems[0].position is None:
                raise
            good, bad = good_items(listed, X, payloads, self._check_vectors)
            terms = terms.only(good, bad)
            some = None if payloads is None else [payloads[i] for i in good]
            items = self._prepared([listed[i] for i in good], some_of(X, good), some)
        result: AddResult = self._writes.submit(lambda edit: add_on_terms(edit, items, terms))
        self._wake(result.count)
        return result

    # -- payloads

    def set_payload(
        self, ids: Sequence[str | int], payloads: Sequence[Any], *, if_versions: Sequence[int | None] | None = None
    ) -> PayloadResult:
        """Replace the payloads of items that are there; their vectors stay as they are, and are neither sent nor hashed again.

        payloads: n JSON objects, or None to take a payload away. if_versions: see `add`. One transaction: all or none.

        Raises:
            InvalidInput. ItemConflict: an id is not there; `ids` names the first. VersionConflict.

        Cost: about 5 µs an item, and one fsync.
        """
        return self._write_payloads(ids, payloads, "replace", if_versions)

    def patch_payload(
        self, ids: Sequence[str | int], patches: Sequence[Any], *, if_versions: Sequence[int | None] | None = None
    ) -> PayloadResult:
        """Merge a patch into the payload of each item (RFC 7396), inside of the transaction: see `set_payload`.

        patches: n JSON objects: null removes a field, objects are merged, all else replaces what was there; None changes nothing.
        """
        return self._write_payloads(ids, patches, "merge", if_versions)

    def _write_payloads(self, ids: Any, payloads: Any, mode: str, if_versions: Any) -> PayloadResult:
        one_of("mode", mode, PAYLOAD_MODES)
        keys = distinct_ids(ids)
        at_most("batch_items", len(keys), "ids")
        versions = check_versions(if_versions, len(keys))
        encoded = encode_payloads(payloads, len(keys))
        self._store.refuse_fork()
        result: PayloadResult = self._writes.submit(lambda edit: write_payloads(edit, keys, encoded, mode, versions))
        self._wake(result.count)
        return result

    def versions(self, ids: Sequence[str | int]) -> list[int]:
        """The version of each item, in the order of the ids; 0 where there is none. For `if_versions`."""
        keys = check_ids(sequence_of("ids", ids), unique=False)
        at_most("batch_items", len(keys), "ids")
        with self._store.read() as reader:
            _refuse_dropped(reader)
            return [0 if one is None else version_of(key, *one) for key, one in zip(keys, reader.items(keys), strict=True)]

    # -- deletes

    def delete(
        self, ids: Sequence[str | int] | None = None, filter: Any = None, *, if_versions: Sequence[int | None] | None = None
    ) -> DeleteResult:
        """Remove items by id, or all that a filter matches; ids that are not there are passed over.

        if_versions: with ids, the version that each has to have inside of the transaction (`versions`), or None; nothing is removed
        where one has another. An item that is not there has version 0.

        By ids: one transaction. By filter: one transaction too, which removes just what matches when it is done. Where more than
        10,000 items match (limit `batch_items`) it is several transactions of 1,000 items, so that other writers need not wait for all
        of them, and `atomic` of the result is false: each removes only what still matches, items that begin to match during the call
        may stay, and after an error in between some are deleted and others are not; the call may be repeated.

        Raises:
            InvalidInput: both or neither of ids and filter came, or one of them is malformed. VersionConflict.
        """
        if (ids is None) == (filter is None):
            raise InvalidInput.of("bad_parameter", "delete takes either ids or a filter", field="ids")
        if if_versions is not None and ids is None:
            raise InvalidInput.of("bad_parameter", "if_versions comes with ids: a filter has no list of items", field="if_versions")
        self._store.refuse_fork()
        if ids is None:
            result = self._delete_matching(compile_filter(filter), filter)
        elif if_versions is not None:
            keys = distinct_ids(ids)
            at_most("batch_items", len(keys), "ids")
            result = self._submit(partial(delete_these, ids=keys, versions=check_versions(if_versions, len(keys))))
        else:
            keys = list(dict.fromkeys(check_ids(sequence_of("ids", ids), unique=False)))
            at_most("batch_items", len(keys), "ids")
            result = self._submit(partial(_delete, ids=keys))
        self._wake(result.count)
        return result

    def _delete_matching(self, matches: Filter, filter: Any) -> DeleteResult:
        most = int(limit("batch_items"))
        for attempt in range(_TRIES + 1):
            keys, sequence, count = self._matching(matches, filter)
            if not keys:
                return DeleteResult(0, count)
            if len(keys) > most:
                return self._delete_in_slices(keys, matches)
            last = attempt == _TRIES
            done: DeleteResult | None = self._submit(partial(delete_found, keys=keys, matches=matches, sequence=sequence, last=last))
            if done is not None:
                return done
        raise AssertionError("the last try looks inside of its transaction")

    def _matching(self, matches: Filter, filter: Any) -> tuple[list[bytes], int, int]:
        """Ids that a filter matches at one moment, the number of its last commit, and how many items there are."""
        with self._store.read() as reader:
            _refuse_dropped(reader)
            state = reader.state()
            return self._ids_of(reader, matches, filter), state.sequence, state.items

    def _ids_of(self, reader: Reader, matches: Filter, filter: Any) -> list[bytes]:
        """The ids of the items that a filter lets through. Cost: 1 µs an item, whether or not it is."""
        del filter
        return [key for key, _, payload in reader.scan_items(None) if matches(payload)]

    def _delete_in_slices(self, keys: list[bytes], matches: Predicate) -> DeleteResult:
        deleted = count = 0
        for start in range(0, len(keys), _FILTERED_SLICE):
            part = keys[start : start + _FILTERED_SLICE]
            result = self._submit(partial(_delete, ids=part, matches=matches))
            deleted, count = deleted + result.deleted, result.count
        return DeleteResult(deleted, count, atomic=False)

    def _submit(self, edit: Callable[[Any], Any]) -> Any:
        return self._writes.submit(edit)

    # -- limits

    def limits(self) -> dict[str, int | None]:
        """What the collection may hold at most: "items" and "bytes"; None: as many as there is room for."""
        with self._store.read() as reader:
            _refuse_dropped(reader)
            quota = quota_of(reader)
        return {"items": quota.items, "bytes": quota.bytes}

    def set_limits(self, *, items: int | None = None, bytes: int | None = None) -> None:  # noqa: A002 - the word that `limits` answers with
        """Set what the collection may hold at most, for every process; None: as many as there is room for.

        Adds are held against it inside of their transactions, and refused where they would pass it: InvalidInput, code "over_limit",
        with the limit "collection_items" or "collection_bytes"; nothing is written then. Bytes are those of the pages in use, so
        deletes make room once their rows have left the files (`compact`); upkeep needs more for a while. What is there already stays.
        """
        quota = Quota(whole_or_none("items", items), whole_or_none("bytes", bytes))
        with self._store.write() as writer:
            put_quota(writer, quota)


def _delete(edit: _Deleting, ids: list[bytes], matches: Predicate | None = None) -> DeleteResult:
    return edit.delete(ids, matches)


def delete_these(edit: _Deleting, *, ids: list[bytes], versions: Sequence[int | None] | None) -> DeleteResult:
    """Delete items by id, where they have these versions."""
    refuse_versions(ids, edit.known(ids), versions)
    return edit.delete(ids)


def delete_found(
    edit: _Deleting, *, keys: list[bytes], matches: Predicate, sequence: int, last: bool = True
) -> DeleteResult | None:  # fmt: skip
    """Delete what matches; None if others wrote since it was looked for, unless this is the last try."""
    if edit.sequence == sequence:
        return edit.delete(keys)
    return edit.delete([key for key, _, payload in edit.all_items() if matches(payload)]) if last else None


def _refuse_dropped(reader: Any) -> None:
    if reader.state().dropped:
        raise CollectionNotFound("the collection was removed")


def whole_or_none(name: str, value: object) -> int | None:
    """A whole number from 0 on, or None.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise InvalidInput.of("bad_parameter", f"{name} is a whole number from 0 on, or None", field=name)
    return value
