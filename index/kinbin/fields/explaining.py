"""Why an item scores what it scores in one field of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kinbin.collection import Collection
from kinbin.explaining.asked import TERMS, about_of, explain_in, how_of
from kinbin.fields.moment import Moments
from kinbin.fields.vectors import taking
from kinbin.parameters import one_of
from kinbin.rows.identity import check_ids

if TYPE_CHECKING:
    from kinbin.explaining.told import Explanation

__all__ = ["ExplainedFields"]


class ExplainedFields:
    """The part of a `FieldsCollection` that tells why."""

    _fields: dict[str, Collection]
    _moments: Moments

    def explain(
        self, query: Any = None, *, id: str | int, field: str, query_id: str | int | None = None, limit: int = TERMS, k: int = 10,
        s_curve: bool = False, feature_names: Mapping[int, str] | Sequence[str] | None = None,
    ) -> Explanation:  # fmt: skip
        """Why an item scores what it scores in one field: the vector of that field alone is compared.

        `parts` of an answer tell what each field's kernel prints, and so which field to ask about. All else: see `Collection.explain`.
        """
        one_of("field", field, self._fields)
        collection = self._fields[field]
        about = about_of(query, query_id)
        # Bytes may be what was given, and no id.
        row = about if query is None else taking(field, collection._one)(about)
        how = how_of(collection, query, (limit, k, s_curve), feature_names)
        (key,) = check_ids([id])
        with self._moments.open() as moment:
            part = moment.parts[field]
            return explain_in(collection, (part.reader, part.view), (moment.reader, row, key), part.masks, how)
