"""Models of which one field is made when it is first looked at.

An answer to 1,000 queries has 10,000 hits, each a model of its own: made at once, they take longer than the search. Here an object begins
with all fields but one, and with the maker of that one; whoever looks at the field, or at the object as a whole (compares, prints, copies,
dumps or pickles it), finds it made. Which of the two an object is cannot be seen: it has the class, the fields and the `==` of any other.

Everything of pydantic that looks at a whole object reads `__dict__`, and a field is an entry of it; so both are told here. Threads
that look at once may each make the field; the last one's stays, and all are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel

__all__ = ["Lazy", "Maker", "lazy", "maker_of"]

T = TypeVar("T", bound="Lazy")

_ENTRIES: Any = BaseModel.__dict__["__dict__"]
"""The entries of an object as they are, without the property below."""
_MAKER = " maker"
"""No field is named so."""


class Maker(Protocol):
    """What makes the field that is missing."""

    field: str
    """Its name: the first field of its class."""

    def make(self) -> Any:
        """Its value."""


class Lazy(BaseModel):
    """A model of which one field may be made later. See the module."""

    if not TYPE_CHECKING:

        @property
        def __dict__(self) -> dict[str, Any]:
            held = _ENTRIES.__get__(self)
            maker = held.get(_MAKER)
            if maker is None:
                return held
            # In the order of the fields, in which they are printed and dumped.
            whole = {maker.field: maker.make(), **held}
            del whole[_MAKER]
            _ENTRIES.__set__(self, whole)
            return whole

        @__dict__.setter
        def __dict__(self, entries: dict[str, Any]) -> None:
            _ENTRIES.__set__(self, entries)

        def __getattr__(self, name: str) -> Any:
            # Asked only for what is no entry.
            maker = maker_of(self)
            if maker is not None and name == maker.field:
                return self.__dict__[name]
            return super().__getattr__(name)


def maker_of(model: Lazy) -> Any:
    """What makes the missing field of an object; None if it has all."""
    return _ENTRIES.__get__(model).get(_MAKER)


def lazy(model: type[T], maker: Maker, fields: dict[str, Any], unset: Iterable[str] = ()) -> T:
    """An object of a class with these fields, in their order and of their types, but for the one that the maker makes.

    unset: fields that have their defaults because nothing was said of them.
    """
    made = model.__new__(model)
    put = object.__setattr__
    put(made, "__pydantic_fields_set__", {maker.field, *fields}.difference(unset))
    put(made, "__pydantic_extra__", None)
    put(made, "__pydantic_private__", None)
    _ENTRIES.__set__(made, {**fields, _MAKER: maker})
    return made
