"""Broken promises, planted one by one: what a campaign has to tell, so that its silence about a sound program means something."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.collection import Collection
from kinbin.repair import Damaged
from kinbin.storage.salvage import Salvage
from kinbin.storage.store import Store
from kinbin.storage.trees import TreeRecord
from pooled import pools_at_once
from torture import mended, verdict
from torture.specimen import Specimen

__all__ = ["PLANTS", "REPAIR_PLANTS", "judge_repair_with", "judge_with", "planted_background", "planted_locks"]


def _nothing_of_one(original: Any) -> Any:
    """`get` says that one item is not there."""
    return lambda self, ids, *rest: [None if id == "item-0100" else item for id, item in zip(ids, original(self, ids, *rest), strict=True)]


def _dies(original: Any) -> Any:
    def count(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    assert original
    return count


def _never_ends(original: Any) -> Any:
    def scroll(*_: Any, **__: Any) -> None:
        while True:
            pass

    assert original
    return scroll


def _foreign(original: Any) -> Any:
    def count(*_: Any, **__: Any) -> int:
        raise ValueError("list.remove(x): x not in list")

    assert original
    return count


def _refuses(original: Any) -> Any:
    """`get` refuses, and nothing is wrong with the files: `check` cannot find it."""

    def get(*_: Any, **__: Any) -> None:
        raise kinbin.CorruptData("planted")

    assert original
    return get


def _short(original: Any) -> Any:
    """Exact answers lack their best item, and say that nothing was missed."""

    def query_batch(self: Collection, Q: Any, *rest: Any, mode: str = "auto", **named: Any) -> Any:
        answers = list(original(self, Q, *rest, mode=mode, **named))
        if mode == "exact":
            raise kinbin.CorruptData("asked for one by one")
        assert answers
        return original(self, Q, *rest, mode=mode, **named)

    return query_batch


def _short_one(original: Any) -> Any:
    def query(self: Collection, x: Any, k: int = 10, **named: Any) -> Any:
        answer = original(self, x, k=k + 1, **named)
        return _without_first(answer) if named.get("mode") == "exact" else original(self, x, k=k, **named)

    return query


def _without_first(answer: Any) -> Any:
    return replace(answer, ids=answer.ids[1:], scores=answer.scores[1:])


def _loses_writes(original: Any) -> Any:
    """Every other add of few items is acknowledged and not done."""

    def add(self: Collection, ids: Any, *rest: Any, **named: Any) -> Any:
        return original(self, ids, *rest, **named) if len(ids) > 2 else kinbin.AddResult(len(ids), 0, 0, self.count() + len(ids))

    return add


PLANTS: dict[str, tuple[tuple[str, Callable[[Any], Any]], ...]] = {
    "silent, and check says ok": (("get", _nothing_of_one),),
    "dead process": (("count", _dies),),
    "loop": (("scroll", _never_ends),),
    "untyped error": (("count", _foreign),),
    "check says ok of what is refused": (("get", _refuses),),
    "silent, and check says ok: exact answers": (("query_batch", _short), ("query", _short_one)),
    "silent, and check says ok: lost writes": (("add", _loses_writes),),
}
"""By the outcome that has to be told, methods of collections and what they become."""


def _takes_everything(patch: pytest.MonkeyPatch) -> None:
    """Records that no tree reaches are believed, whatever they are of, and on whatever page."""
    original = Salvage.records

    def records(self: Salvage) -> Any:
        self._metas = [replace(meta, last_page=self._pages.last_page) for meta in self._metas]
        return original(self)

    patch.setattr(Salvage, "records", records)
    patch.setattr(Salvage, "_whole_free", lambda self: set())
    patch.setattr("kinbin.storage.salvage.TreeRecord", _Uncounted)


def _says_nothing(patch: pytest.MonkeyPatch) -> None:
    """An item is left out, and nobody is told."""
    original = Damaged.save_into

    def save_into(self: Damaged, target: Any, progress: Any) -> Any:
        report = original(self, target, progress)
        target.delete(["item-0100"])
        return report

    patch.setattr(Damaged, "save_into", save_into)


class _Uncounted:
    """A record of a tree that no count of entries agrees with."""

    @staticmethod
    def decode(value: bytes) -> TreeRecord:
        """See `TreeRecord`."""
        return replace(TreeRecord.decode(value), entries=0)


REPAIR_PLANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {"takes everything": _takes_everything, "says nothing": _says_nothing}
"""What repair may do wrong: it has to be told as "silent"."""


def judge_repair_with(connection: Connection, specimen: Specimen) -> None:
    """`mended.judge`, once, with the plant that is sent after the path."""
    path, name = connection.recv(), connection.recv()
    with pytest.MonkeyPatch.context() as patch, pools_at_once():
        REPAIR_PLANTS[name](patch)
        connection.send(mended.judged(path, specimen))


def judge_with(connection: Connection, specimen: Specimen) -> None:
    """`verdict.judge`, with the plant that the path names: `.../PLANT/data`."""
    path = connection.recv()
    name = connection.recv()
    with pytest.MonkeyPatch.context() as patch:
        for method, plant in PLANTS[name]:
            for used in (Collection, kinbin.FieldsCollection):
                patch.setattr(used, method, plant(getattr(used, method)))
        connection.send(verdict.used(path, specimen, specimen.kernel))


@contextmanager
def _outliving(path: Path, *, wait: bool) -> Iterator[bool]:
    """An election by a file that is there, which does not die with its holder."""
    taken = path.with_suffix(".taken")
    while True:
        try:
            taken.touch(exist_ok=False)
        except FileExistsError:
            if not wait:
                yield False
                return
            time.sleep(0.01)
        else:
            break
    try:
        yield True
    finally:
        taken.unlink()


@contextmanager
def planted_locks(name: str) -> Iterator[None]:
    """For the block a bug in processes of `torture.locks`: elections "outlive" their holder, adds are "lost", reader slots "kept"."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "outlive":
            # First where others take it from.
            patch.setattr("kinbin.upkeep.election.elected", _outliving)
            for module in ("fields.writing", "upkeep.sealing", "upkeep.linking", "upkeep.indexing"):
                patch.setattr(f"kinbin.{module}.elected", _outliving)
        elif name == "lost":
            patch.setattr(Collection, "add", _loses_writes(Collection.add))
        elif name == "kept":
            patch.setattr("kinbin.storage.store.Store.write", _frees_nothing(Store.write))
        else:
            assert not name
        yield


def _frees_nothing(original: Any) -> Any:
    def write(self: Store) -> Any:
        # Never the first of 64.
        self._writes = 1
        return original(self)

    return write


@contextmanager
def planted_background(name: str) -> Iterator[None]:
    """For the block a bug in the background: an error "ends" a thread, "nothing" is told, or a second try of a seal has "lost" rows."""
    from kinbin.upkeep.background import _BackgroundThread
    from kinbin.upkeep.sealing import Upkeep

    with pytest.MonkeyPatch.context() as patch:
        if name == "ends":
            note = _BackgroundThread._note

            def ended(self: Any, error: BaseException) -> float:
                self._stop.set()
                return note(self, error)

            patch.setattr(_BackgroundThread, "_note", ended)
        elif name == "nothing":
            patch.setattr(_BackgroundThread, "_note", lambda self, error: 0.001)
        elif name == "lost":
            patch.setattr(Upkeep, "_perform", _loses_what_failed(Upkeep._perform))
        else:
            assert not name
        yield


def _loses_what_failed(original: Any) -> Any:
    """Rows that could not be written to a run at the first try are dead in the run of the second, and not counted any more."""
    failed: list[Any] = []

    def perform(self: Any, task: Any) -> None:
        try:
            original(self, task)
        except kinbin.KinbinError:
            failed.append(task)
            raise
        if failed:
            with self._store.write() as writer:
                state = writer.state()
                assert state.rows is not None
                writer.mark_dead(writer.manifest()[-1], np.arange(10))
                writer.put_state(state.with_(rows=state.rows - 10))

    return perform
