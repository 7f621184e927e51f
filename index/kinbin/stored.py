"""What a collection was created with, in the terms of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kinbin.errors import FormatMismatch, InvalidInput
from kinbin.hashing import HASH_VERSION, SAMPLERS, check_hashes
from kinbin.items.functions import CALLABLE, Functions
from kinbin.items.kind import Form, Kind
from kinbin.items.kinds import kind_named
from kinbin.spaces.own import own_space
from kinbin.spaces.registry import object_space_of
from kinbin.spaces.space import Space
from kinbin.storage.format import begun, decode_json
from kinbin.storage.headers import CONFIG, CONFIGURATION, Configuration, FieldNames
from kinbin.storage.store import Store

__all__ = ["configuration_of", "field_names_of", "refuse_other_hashes", "what_is_stored"]


T = TypeVar("T")


def what_is_stored(data: Configuration) -> tuple[Kind, Space, Form]:
    """What items of a collection are, how they are compared, and what else is said of them.

    Raises:
        FormatMismatch: it has other hashes, this machine computes others, or it has a kernel that this version does not know.
    """
    refuse_other_hashes(data)
    if data.kernel == CALLABLE:
        kind, functions = kind_named(data.items), Functions()
        form = Form(data.dim, functions=functions)
        return kind, own_space(kind, form, functions), form
    try:
        kind = kind_named(data.items)
        space = object_space_of(kind, data.kernel, data.parameters, data.dim)
    except InvalidInput as error:
        what = f"{data.items} under the kernel {data.kernel!r}"
        raise FormatMismatch(f"the collection has {what}, which this Kinbin does not know: {error}") from None
    if space.samplers and data.sampler not in space.samplers:
        raise FormatMismatch(f"the collection is hashed by {data.sampler!r}, which this Kinbin does not know for the kernel {data.kernel}")
    space = space.hashed_by(data.sampler)
    # What is stored is the length of rows.
    dim = data.dim if space.pyramid is None else space.pyramid.dim
    return kind, space, Form(dim, space.signed, dict(space.parameters))


def refuse_other_hashes(data: Configuration) -> None:
    """Refuse what was stored with other hashes than this process computes.

    Raises:
        FormatMismatch.
    """
    _check_version(data)
    if data.sampler in SAMPLERS:
        check_hashes(data.sampler)


def configuration_of(store: Store) -> Configuration:
    """What a collection was created with.

    Raises:
        CorruptData: the record is damaged.
    """
    return _decoded(store, Configuration.decode)


def field_names_of(store: Store) -> tuple[str, ...]:
    """The fields a collection was created with.

    Raises:
        CorruptData: the record is damaged. FormatMismatch: it was written with other hashes.
    """
    data = _decoded(store, FieldNames.decode)
    _check_version(data)
    return data.names


def _decoded(store: Store, decode: Callable[[object], T]) -> T:
    """What the record of a store's configuration says."""
    with store.telling():
        return decode(decode_json(store.files.configured, CONFIGURATION, begun(store.files.salt, CONFIG)))


def _check_version(data: Configuration | FieldNames) -> None:
    if data.hash_version != HASH_VERSION:
        raise FormatMismatch(f"the collection has hash version {data.hash_version}, this Kinbin computes version {HASH_VERSION}")
