"""The store of rows that were made of a collection's objects: runs and links alone, keyed by the objects' row numbers.

It is derived: nothing in it has an id, a journal or an owner, it may lack rows or have those of objects that died, and may be removed
at any time. Who builds it is elected by a file lock; others read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.build import write_run
from kinbin.errors import StorageError
from kinbin.hashing import HASH_VERSION, check_hashes, default_sampler, make_sampler
from kinbin.inspection import check_store
from kinbin.items.vectors import is_wide
from kinbin.pools.measured import Packed
from kinbin.query.view import View, Views
from kinbin.records import CheckReport
from kinbin.rows.rows import Rows
from kinbin.segments.source import Recipe, Source
from kinbin.spaces.registry import space_of
from kinbin.storage.creation import create_store
from kinbin.storage.headers import Configuration
from kinbin.storage.store import Store
from kinbin.storage.survey import survey_store
from kinbin.storage.transactions import Reader
from kinbin.upkeep.linking import Linker, Progress
from kinbin.upkeep.sealing import Upkeep

__all__ = ["Side"]

_MOST_RUNS = 16
"""More are merged before they are linked."""


class Side:
    """One such store, open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = Store(path)
        with self._store.read() as reader:
            data = reader.configuration()
        check_hashes(data.sampler)
        # Bands are for bounds, and what they would bound is not the distance.
        space = replace(space_of(data.kernel), hashes=False)
        sampler = make_sampler(data.sampler, seed=data.seed, normalise=space.shapes, dim=data.dim)
        self.recipe = Recipe(space, sampler, is_wide(data.dim), None, None)
        self._views = Views(space.geometry)
        self._upkeep = Upkeep(self._store, self._views, self.recipe)
        self._linker = Linker(self._store, self._views, self.recipe, data.dim, self._upkeep, calibrates=False)

    @classmethod
    def create(cls, path: Path, kernel: str, dim: int | None, seed: int) -> Side:
        """A new, empty one."""
        space = space_of(kernel)
        create_store(path, Configuration(kernel, dim, default_sampler(space.shapes, dim), None, None, seed, HASH_VERSION))
        return cls(path)

    @contextmanager
    def reading(self) -> Iterator[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        while True:
            with self._store.read() as reader:
                view = self._views.at(reader)
                if view is not None:
                    yield reader, view
                    return

    def append(self, numbers: NDArray[np.uint64], rows: Rows, stop: threading.Event) -> None:
        """Add rows under numbers, ascending, beyond all that are there. Durable on return.

        Raises:
            Cancelled: stop was set.
        """
        packed = Packed(rows, self.recipe.wide)
        number = write_run(self._store, Source(numbers, packed.addresses, packed.rooms), self.recipe, stop)
        with self._store.write() as writer:
            state = writer.state()
            writer.put_manifest([*writer.manifest(), number])
            writer.put_state(state.with_(manifest=state.manifest + 1, next_row=int(numbers[-1]) + 1, rows=(state.rows or 0) + len(numbers)))

    def link(self, progress: Progress | None = None) -> None:
        """Link all rows that are there."""
        with self.reading() as (_, view):
            many = len(view.runs) > _MOST_RUNS
        if many:
            self._upkeep.merge_all()
        self._linker.link_all(progress)

    def problems(self) -> list[str]:
        """What is damaged: pages, checksums, postings and codes. Reads everything; rows are hashed again."""
        try:
            if found := survey_store(self._store):
                return found
            with self._store.read() as reader:
                return check_store(reader, self.recipe, None, np.empty(0, np.uint64)).problems
        except StorageError as error:
            return CheckReport.of(error).problems

    def horizon(self) -> int:
        """The last row number that is there; -1: none is."""
        with self.reading() as (_, view):
            return max((int(run.row_numbers[-1]) for run in view.runs), default=-1)

    def size_on_disk(self) -> int:
        """Bytes that the files take on disk."""
        return self._store.size_on_disk()

    def stop(self) -> None:
        """End the building at hand."""
        self._upkeep.stop.set()
        self._linker.stop.set()

    def close(self) -> None:
        """Let go of the files."""
        self.stop()
        self._store.close()
