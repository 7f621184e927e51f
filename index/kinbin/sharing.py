"""The collections that are open in this process: databases of one directory share them."""

from __future__ import annotations

import threading
from pathlib import Path

from kinbin.collection import Collection
from kinbin.fields.collection import FieldsCollection
from kinbin.pools.pools import Pools
from kinbin.storage.errors import translated
from kinbin.storage.store import FIELDS

__all__ = ["SHARED"]


def _opened(name: str, path: Path) -> Collection | FieldsCollection:
    """The collection in a directory."""
    with translated():
        has_fields = (path / FIELDS).is_dir()
    if has_fields:
        return FieldsCollection(name, path)
    collection = Collection(name, path)
    if collection._space.embeddings:
        collection._pools = Pools(collection)
    return collection


class _Shared:
    """The collections open in this process, by path: an environment must not be opened twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[Collection | FieldsCollection, int]] = {}

    def acquire(self, name: str, path: Path) -> Collection | FieldsCollection:
        """Open a collection, or count one more user of it."""
        with self._lock:
            there, users = self._open.get(path, (None, 0))
            if there is None or not there._is_current():
                there, users = _opened(name, path), 0
            self._open[path] = there, users + 1
            return there

    def release(self, collection: Collection | FieldsCollection, *, forget: bool = False) -> None:
        """One user less; the last one closes it (`forget`: at once, it was dropped)."""
        with self._lock:
            last = True
            for path, (there, users) in list(self._open.items()):
                if there is collection:
                    last = users == 1 or forget
                    if last:
                        del self._open[path]
                    else:
                        self._open[path] = there, users - 1
        if last:
            collection.close()


SHARED = _Shared()
