"""What a collection with several fields does not do, and what to do instead: said, as an attribute that is not there would say neither."""

from __future__ import annotations

from typing import Any, NoReturn

from kinbin.errors import InvalidInput

__all__ = ["OfOneVector"]


class OfOneVector:
    """The part of a `FieldsCollection` that refuses what is asked of collections of one vector only."""

    def query_examples(self, *_: Any, **__: Any) -> NoReturn:
        """Not of several fields. Raises InvalidInput, which says what to do."""
        raise _refused(
            "examples are compared by one vector of each item, and items have several here: ask for each of them (query_id, fields=[…]) "
            "and add the scores up"
        )

    def query_each(self, *_: Any, **__: Any) -> NoReturn:
        """Not of several fields. Raises InvalidInput, which says what to do."""
        raise _refused(
            "queries with options of their own are asked one by one here: query, query_id; or with the same options: query_batch"
        )


def _refused(text: str) -> InvalidInput:
    return InvalidInput.of("bad_parameter", text, field="collection")
