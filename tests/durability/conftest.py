"""Processes for the tests of durability, and collections small enough to be sealed and merged often."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinbin
from nursery import Nursery
from scratch import DISK
from shim import compile_shim
from workload import DIM


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder; on a disk for tests that are marked so: there a commit takes its time, and a kill may meet it half-way."""
    if request.node.get_closest_marker("disk") is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="kinbin-", dir=DISK) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def watched_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """One nursery whose children the shim watches, or the reason why there is none."""
    try:
        shim = compile_shim(tmp_path_factory.mktemp("shim"))
    except NotImplementedError as reason:
        pytest.skip(str(reason))
    kinbin.warm_up()
    with Nursery({"LD_PRELOAD": str(shim)}) as nursery:
        yield nursery


@pytest.fixture
def watched(watched_of_session: Nursery) -> Iterator[Nursery]:
    """A nursery whose children's writes and syncs can be recorded, or made to fail."""
    yield watched_of_session
    watched_of_session.end_children()


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are sealed after 64 rows."""
    monkeypatch.setattr("kinbin.upkeep.sealing.SEAL_ROWS", 64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed database with an empty collection "c" for `workload`."""
    with kinbin.open(tmp_path / "data") as database:
        create(database)
    return tmp_path / "data"


def create(database: Any) -> Any:
    """The collection that the workloads use; few bands, so that its runs are small."""
    return database.create_collection("c", dim=DIM, bands=24, rows=2, seed=7)
