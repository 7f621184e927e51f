"""Asking why an item scores what it scores: what `Collection.explain` takes, judged, and answered from one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kinbin.errors import InvalidInput
from kinbin.options import OPTIONS
from kinbin.parameters import at_most, whole
from kinbin.query.search import Masks
from kinbin.query.view import View
from kinbin.rows.identity import check_ids
from kinbin.rows.rows import Rows
from kinbin.storage.transactions import Reader

# What few processes use is imported where it is used: every opening would wait for it.
if TYPE_CHECKING:
    from kinbin.explaining.explain import How
    from kinbin.explaining.told import Explanation

__all__ = ["TERMS", "Explained", "about_of", "explain_in", "how_of", "row_of"]

TERMS = 50
"""Terms that are listed unless another number is asked for."""


class Explained:
    """The part of a `Collection` that tells why."""

    def _one(self, x: Any) -> Rows:
        """One object as a canonical row."""
        raise NotImplementedError

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def explain(
        self, query: Any = None, *, id: str | int, query_id: str | int | None = None, limit: int = TERMS, k: int = 10,
        s_curve: bool = False, feature_names: Mapping[int, str] | Sequence[str] | None = None,
    ) -> Explanation:  # fmt: skip
        """Why the item of this id scores what it scores with a query: terms that add up to its score, and what finds it.

        query: a vector or object, as `query` takes it; or query_id: the vector of that stored item, which the walk leaves out. limit: terms
        that are listed of each factor, the rest being added up. k: neighbours of the walk that is asked for the item's place. s_curve:
        with the curve of the bands. feature_names: names for features, by id, before those that the collection was created with; or a
        list, of features 0, 1, …, or of tokens where vectors have no length. Tokens of the query are known by themselves; those that the
        item alone has are stored as hashes, and have no other names.

        Parts add up to the score, or to what it is a function of, to 1e-9: see `Explanation`. All is read from one snapshot.

        Raises:
            InvalidInput: code "unknown_id": an item is not there; or something is malformed. CorruptData: a row is damaged.

        Cost: 0.3 to 0.6 ms where rows are linked, and for objects what aligning takes: up to half a second.
        """
        about = about_of(query, query_id)
        # Bytes may be an image: what was given says which they are.
        row = about if query is None else self._one(about)
        how = how_of(self, query, (limit, k, s_curve), feature_names)
        (key,) = check_ids([id])
        with self._reading() as (reader, view):
            return explain_in(self, (reader, view), (reader, row, key), None, how)


def about_of(query: Any, query_id: str | int | None) -> Any:
    """What is asked: an object, or the id of a stored one as bytes.

    Raises:
        InvalidInput: both were given, or neither, or the id is none.
    """
    if (query is None) == (query_id is None):
        raise InvalidInput.of("bad_parameter", "explain takes a query or a query_id, one of them", field="query_id")
    return query if query_id is None else check_ids([query_id])[0]


def how_of(parts: Any, query: Any, numbers: tuple[int, int, bool], names: Any) -> How:
    """The other parameters, checked. parts: a collection; numbers: limit, k, s_curve."""
    from kinbin.explaining.explain import How
    from kinbin.explaining.names import names_of, tokens_in

    limit, k, s_curve = numbers
    at_most("page", whole("limit", limit), "limit")
    at_most("k", whole("k", k), "k")
    if not isinstance(s_curve, bool):
        raise InvalidInput.of("bad_parameter", "s_curve is true or false", field="s_curve")
    known = tokens_in(query) if parts._kind.vectors else {}
    return How(known | parts.config.feature_names | names_of(names, parts._form.dim), limit, k, OPTIONS["target_recall"].default, s_curve)


def row_of(reader: Reader, key: bytes, field: str) -> int:
    """The number of the row of a stored item.

    Raises:
        InvalidInput: code "unknown_id".
    """
    (known,) = reader.items([key])
    if known is None:
        raise InvalidInput.of("unknown_id", f"no item of this collection has the {field} that was given", field=field)
    return known[0]


def explain_in(parts: Any, at: tuple[Reader, View], asked: tuple[Reader, Rows | bytes, bytes], masks: Masks, how: How) -> Explanation:
    """The explanation in a snapshot. asked: what reads the items, the query or the key of a stored one, the item's key."""
    from kinbin.explaining.explain import Stored, explained
    from kinbin.explaining.told import Explanation

    reader, query, key = asked
    stored = Stored(reader, key, row_of(reader, key, "id"), query if isinstance(query, bytes) else None)
    if isinstance(query, bytes):
        query = parts._contents.rows(at[1], [row_of(reader, query, "query_id")])
    return Explanation(id=key.decode(), **explained(parts, at, query, stored, masks, how))
