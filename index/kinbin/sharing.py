"""The collections that are open in this process: databases of one directory share them."""

from __future__ import annotations

import threading
from pathlib import Path

from kinbin.collection import Collection
from kinbin.errors import InvalidInput, StorageBusy
from kinbin.fields.collection import FieldsCollection
from kinbin.items.objects import OBJECTS
from kinbin.pools.pools import Pools
from kinbin.storage.creation import FIELDS
from kinbin.storage.errors import translated

__all__ = ["SHARED", "bound"]


def _opened(name: str, path: Path) -> Collection | FieldsCollection:
    """The collection in a directory."""
    with translated():
        has_fields = (path / FIELDS).is_dir()
    if has_fields:
        return FieldsCollection(name, path)
    collection = Collection(name, path)
    # A function that is not there yet cannot be asked for a pool: `bound` opens it then.
    if collection._space.embeddings and collection._space.functions is None:
        collection._pools = Pools(collection)
    return collection


def bound(collection: Collection | FieldsCollection, distance: object, encoder: object, decoder: object) -> Collection | FieldsCollection:
    """A collection with its user's functions; without any of them as it is.

    Raises:
        InvalidInput: code "bad_parameter": it is compared by no function, or by another one.
    """
    if distance is encoder is decoder is None:
        return collection
    functions = None if isinstance(collection, FieldsCollection) else collection._space.functions
    if isinstance(collection, FieldsCollection) or functions is None:
        by = "several fields" if isinstance(collection, FieldsCollection) else collection.config.kernel
        text = f"the collection is compared by {by}, which is stored: open it without functions"
        raise InvalidInput.of("bad_parameter", text, field="distance")
    with _BINDING:
        if functions.bind(distance, encoder, decoder, objects=collection.config.items == OBJECTS.name):
            collection._pools = Pools(collection)
    return collection


_BINDING = threading.Lock()
_PATIENCE = 10.0
"""Seconds that an opening waits for one that closes."""


class _Shared:
    """The collections open in this process, by path: an environment must not be opened twice."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._closing: set[Path] = set()
        """Those whose last user has just left: their files are let go of as soon as nobody reads them."""
        self._open: dict[Path, tuple[Collection | FieldsCollection, int]] = {}

    def acquire(self, name: str, path: Path) -> Collection | FieldsCollection:
        """Open a collection, or count one more user of it."""
        with self._lock:
            if not self._lock.wait_for(lambda: path not in self._closing, _PATIENCE):
                raise StorageBusy("the collection is just being closed in this process, and somebody still reads it: try again")
            there, users = self._open.get(path, (None, 0))
            if there is None or not (there._is_named() and there._is_current()):
                there, users = _opened(name, path), 0
            self._open[path] = there, users + 1
            return there

    def release(self, collection: Collection | FieldsCollection, *, forget: bool = False) -> None:
        """One user less; the last one closes it (`forget`: at once, it was dropped)."""
        last, places = True, set()
        with self._lock:
            for path, (there, users) in list(self._open.items()):
                if there is collection:
                    last = users == 1 or forget
                    if last:
                        del self._open[path]
                        places.add(path)
                    else:
                        self._open[path] = there, users - 1
            self._closing |= places
        try:
            if last:
                collection.close()
        finally:
            with self._lock:
                self._closing -= places
                self._lock.notify_all()


SHARED = _Shared()
