"""What a collection was created with, in the terms of the library."""

from __future__ import annotations

from kinbin.errors import FormatMismatch, InvalidInput
from kinbin.hashing import HASH_VERSION
from kinbin.items.functions import CALLABLE, Functions
from kinbin.items.kind import Form, Kind
from kinbin.items.kinds import kind_named
from kinbin.spaces.own import own_space
from kinbin.spaces.registry import object_space_of
from kinbin.spaces.space import Space
from kinbin.storage.headers import Configuration
from kinbin.storage.store import Store

__all__ = ["check_known", "configuration_of", "field_names_of", "what_is_stored"]


def what_is_stored(data: Configuration) -> tuple[Kind, Space, Form]:
    """What items of a collection are, how they are compared, and what else is said of them."""
    kind = kind_named(data.items)
    if data.kernel == CALLABLE:
        functions = Functions()
        form = Form(data.dim, functions=functions)
        return kind, own_space(kind, form, functions), form
    space = object_space_of(kind, data.kernel, data.parameters, data.dim).hashed_by(data.sampler)
    # What is stored is the length of rows.
    dim = data.dim if space.pyramid is None else space.pyramid.dim
    return kind, space, Form(dim, space.signed, dict(space.parameters))


def configuration_of(store: Store) -> Configuration:
    """What a collection was created with.

    Raises:
        FormatMismatch: it was written in another format, with other hashes, or has a kernel that this version does not know.
    """
    with store.read() as reader:
        reader.state()
        data = reader.configuration()
    check_known(data)
    return data


def check_known(data: Configuration) -> None:
    """See that this Kinbin knows the hashes and the kernel of a collection.

    Raises:
        FormatMismatch: it does not.
    """
    if data.hash_version != HASH_VERSION:
        raise FormatMismatch(f"the collection has hash version {data.hash_version}, this Kinbin computes version {HASH_VERSION}")
    if data.kernel == CALLABLE:
        return
    try:
        samplers = object_space_of(kind_named(data.items), data.kernel, data.parameters).samplers
    except InvalidInput as error:
        what = f"{data.items} under the kernel {data.kernel!r}"
        raise FormatMismatch(f"the collection has {what}, which this Kinbin does not know: {error}") from None
    if samplers and data.sampler not in samplers:
        raise FormatMismatch(f"the collection is hashed by {data.sampler!r}, which this Kinbin does not know for the kernel {data.kernel}")


def field_names_of(store: Store) -> tuple[str, ...]:
    """The fields a collection was created with.

    Raises:
        FormatMismatch: it was written with other hashes.
    """
    with store.read() as reader:
        data = reader.field_names()
    if data.hash_version != HASH_VERSION:
        raise FormatMismatch(f"the collection has hash version {data.hash_version}, this Kinbin computes version {HASH_VERSION}")
    return data.names
