"""The kinds of items by name. This is the one list of them: whoever offers them reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from kinbin.parameters import one_of

if TYPE_CHECKING:
    from kinbin.items.kind import Kind

__all__ = ["KINDS", "kind_named"]

_HOMES = {
    "vectors": "kinbin.items.vectors:VECTORS",
    "strings": "kinbin.items.strings:STRINGS",
    "images": "kinbin.items.images:IMAGES",
    "series": "kinbin.items.series:SERIES",
    "points": "kinbin.items.points:POINTS",
}


_OWN = "objects"
"""Of the library alone: what an encoder of the user's makes of objects, for a distance of the user's."""


@cache
def _imported(home: str) -> Kind:
    module, _, attribute = home.partition(":")
    kind: Kind = getattr(import_module(module), attribute)
    return kind


class _Kinds(Mapping[str, "Kind"]):
    """Kinds are imported when they are looked up: their names alone need no numpy."""

    def __getitem__(self, name: str) -> Kind:
        return _imported(_HOMES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


KINDS: Mapping[str, Kind] = _Kinds()


def kind_named(name: object) -> Kind:
    """The kind of this name.

    Raises:
        InvalidInput: code "bad_parameter": there is none.
    """
    if isinstance(name, str) and name == _OWN:
        from kinbin.items.objects import OBJECTS

        return OBJECTS
    one_of("items", name, (*KINDS, _OWN))
    return KINDS[str(name)]
