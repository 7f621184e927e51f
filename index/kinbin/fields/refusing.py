"""What a collection with several fields does not do, and what to do instead: said, as an attribute that is not there would say neither."""

from __future__ import annotations

from typing import Any, NoReturn

from kinbin.errors import InvalidInput

__all__ = ["OfOneVector"]

_INSTEAD = "put the vectors of one field into a collection of their own (get with include=['vector'], or kinbin export), and ask that"


class OfOneVector:
    """The part of a `FieldsCollection` that refuses what is done with collections of one vector only."""

    def duplicates(self, *_: Any, **__: Any) -> NoReturn:
        """Not of several fields. Raises InvalidInput, which says what to do."""
        raise _refused(f"duplicates are told by one vector of each item, and items have several here: {_INSTEAD}")

    def tune(self, *_: Any, **__: Any) -> NoReturn:
        """Not of several fields. Raises InvalidInput, which says what to do."""
        raise _refused(f"a collection with several fields is not tuned: {_INSTEAD}; create_collection takes rows and bands of each field")

    def recall(self, *_: Any, **__: Any) -> NoReturn:
        """Not of several fields. Raises InvalidInput, which says what to do."""
        raise _refused(f"recall is measured of one vector, and items have several here: {_INSTEAD}; or compare with mode='exact'")

    def rebuild(self, *_: Any, **__: Any) -> NoReturn:
        """Not of several fields. Raises InvalidInput, which says what to do."""
        raise _refused(
            "a collection with several fields is not rebuilt: create another, with rows and bands of each field, and copy the items"
        )


def _refused(text: str) -> InvalidInput:
    return InvalidInput.of("bad_parameter", text, field="collection")
