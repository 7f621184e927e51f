"""What others commit between two looks at the files is no damage."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import pytest

import kinbin
from kinbin.storage import mapped, opening
from kinbin.storage.lookups import Trees


def test_a_file_that_grows_is_not_cut_off(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread sees that the file has grown while one that has committed looks at its size."""
    file = db.create_collection("c", items="strings")._store.files.file
    real = os.stat

    def late(path: Any, *others: Any, **named: Any) -> os.stat_result:
        found = real(path, *others, **named)
        if str(path) == file._name:
            file.pages = found.st_size // file.meta.page_bytes + 1
        return found

    monkeypatch.setattr(os, "stat", late)
    file.check_named()


def test_a_file_that_is_written_while_it_is_compared_is_not_damaged(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has taken the place of another one is looked at without a snapshot: commits meanwhile make no damage of it."""
    collection = db.create_collection("c", items="strings")
    collection.add(["a"], ["x"])
    collection.compact(shrink=True)
    store = collection._store
    with store.read() as reader:
        last = reader.moved()[-1]
    real, looks = Trees.get, 0

    def late(trees: Any, tree: int, key: bytes) -> bytes | None:
        nonlocal looks
        looks += key == b"moved"
        if looks == 1 and key == b"moved":
            writer = threading.Thread(target=lambda: [collection.add([str(i)], [f"y{i}"]) for i in range(8)])
            writer.start()
            writer.join()
        return real(trees, tree, key)

    monkeypatch.setattr(Trees, "get", late)
    assert mapped.is_successor(store.path, store._identity, last)
    assert not mapped.is_successor(store.path, store._identity, last + 1)
    assert not mapped.is_another(store.path, store._identity)
    assert mapped.is_another(store.path, b"another")


def test_a_meta_page_that_is_written_over_is_not_damaged(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits between the two looks at a meta page: the snapshot is begun again."""
    collection = db.create_collection("c", items="strings")
    collection.add(["a"], ["x"])
    store, read, looks = collection._store, ctypes.string_at, 0

    def between(*place: int) -> bytes:
        nonlocal looks
        looks += 1
        found = read(*place)
        if looks == 1:
            writer = threading.Thread(target=lambda: [collection.add([str(i)], [f"y{i}"]) for i in range(2)])
            writer.start()
            writer.join()
            store.files.newest = None
        return found

    # As if another process had written it.
    store.files.newest = store.files._committed = None
    monkeypatch.setattr(opening, "string_at", between)
    with store.read() as reader:
        assert reader.state().items == 3
    assert looks > 2
