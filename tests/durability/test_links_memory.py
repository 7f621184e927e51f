"""The memory of linking: a bound whatever the number of rows, the same links in files, and nothing left of them."""

from __future__ import annotations

import errno
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.errors import StorageFull
from kinbin.links.graph import Graph
from kinbin.storage.format import VALUE_HEADER
from kinbin.storage.lookups import RUNS
from kinbin.storage.workspace import _owner as owner_of
from link_memory import prepare
from linked import KINDS, link_findings, link_sets, names, still
from nursery import Nursery
from workload import Workload

pytestmark = pytest.mark.durability

MEBIBYTE = 1 << 20


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing is done in the background."""
    with still():
        yield


def stored_links(collection: Any) -> dict[bytes, bytes]:
    """The body of every value of the link set; headers have checksums that begin otherwise in other files."""
    with collection._store.read() as reader:
        (number,) = reader.link_sets()
        prefix = number.to_bytes(4, "big")
        found = {}
        for key, value in reader.scan_tree(RUNS, prefix):
            if not key.startswith(prefix):
                break
            found[bytes(key[4:])] = bytes(value[VALUE_HEADER:])
        return found


def files_of(folder: Path) -> set[Path]:
    """All files but those that are locked: they stay, and are made when they are first wanted."""
    return {path for path in folder.rglob("*") if path.suffix != ".lock"}


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "kind"), [("ngmm", "dense"), ("ngmm", "sparse"), ("gmm", "dense"), ("cosine", "dense")])
@pytest.mark.usefixtures("quiet")
def test_links_are_the_same_wherever_they_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, kind: str) -> None:
    """Built in memory or in files, anew or extended without dead rows: every value of a link set is the same to the byte."""
    X = KINDS[kind].rows(1_600, seed=8)
    with kinbin.open(tmp_path) as database:
        made = {}
        for most in (0, 1 << 30):
            collection = made[most] = database.create_collection(f"at-most-{most}", kernel=kernel, dim=KINDS[kind].dim, seed=5)
            monkeypatch.setattr("kinbin.upkeep.drafts.LINK_BYTES", most)
            collection.add(names(range(1_000)), X[:1_000])
            collection.compact()
            collection.link()
        assert stored_links(made[0]) == stored_links(made[1 << 30])
        for most, collection in made.items():
            monkeypatch.setattr("kinbin.upkeep.drafts.LINK_BYTES", most)
            collection.delete(names(range(0, 300, 3)))
            collection.add(names(range(1_000, 1_600)), X[1_000:])
            collection.compact()
            collection.link()
            assert collection.stats()["links"]["rows"] == 1_500
            assert collection.check().ok
        assert stored_links(made[0]) == stored_links(made[1 << 30])


@pytest.mark.usefixtures("quiet")
def test_links_come_into_memory_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all fits, what lies in files is codes, written once, and not the links, which are written at random places."""
    where: list[tuple[bool, bool]] = []
    insert = Graph.insert

    def looking(graph: Graph, *arguments: Any) -> bool:
        where.append((isinstance(owner_of(graph.links), np.ndarray), isinstance(owner_of(graph.codes.data), np.ndarray)))
        return insert(graph, *arguments)

    monkeypatch.setattr(Graph, "insert", looking)
    X = KINDS["dense"].rows(1_600, seed=8)
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=KINDS["dense"].dim, seed=5)
        for first, last in ((0, 1_000), (1_000, 1_600)):
            # 260 bytes of links a row, row numbers and addresses, and too little for codes, or the links that are there.
            monkeypatch.setattr("kinbin.upkeep.drafts.LINK_BYTES", last * (260 + 24 + 56))
            collection.add(names(range(first, last)), X[first:last])
            collection.compact()
            collection.link()
    assert where == [(True, False), (True, False)]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts memory that is no file's on Linux only")
@pytest.mark.parametrize("steps", ["anew", "extended"])
def test_memory_is_bounded_by_a_setting(tmp_path: Path, nursery: Nursery, steps: str) -> None:
    """With link_bytes so small that linking needs files a process that may have no more memory links all; with more it cannot."""
    assert resource.getrlimit(resource.RLIMIT_DATA)[1] == resource.RLIM_INFINITY, "this machine already has a limit"
    done = {}
    prepare(tmp_path / "made", steps)
    for most in (MEBIBYTE, 1 << 30):
        shutil.copytree(tmp_path / "made", tmp_path / str(most))
        child = nursery.start("link_memory:link_with_little_memory", str(tmp_path / str(most)), most)
        try:
            done[most] = child.receive(120.0)
        except EOFError:
            done[most] = f"the process ended: {child.wait()}"
    assert done[MEBIBYTE] == "linked"
    assert done[1 << 30] != "linked", "the limit is so wide that it proves nothing"


@pytest.mark.usefixtures("quiet", "small_runs")
def test_a_full_disk_ends_linking_with_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no file gets its room, link() raises StorageFull, the old links answer, nothing is left, and the next link() works."""
    workload = Workload(31, "l")

    def refuse(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "planted")

    with kinbin.open(folder) as database:
        collection = database.collection("c")
        for number in range(60):
            workload.step(number).perform(collection)
            if number == 30:
                collection.link()
        expected, before = workload.after(60), link_sets(collection)
        there = files_of(folder)
        monkeypatch.setattr("kinbin.upkeep.drafts.LINK_BYTES", 0)
        with monkeypatch.context() as patch:
            patch.setattr("os.posix_fallocate", refuse)
            with pytest.raises(StorageFull):
                collection.link()
            assert link_sets(collection) == before
            assert link_findings(collection, expected) == []
        collection.link()
        assert link_sets(collection) != before
        assert link_findings(collection, expected) == []
        assert files_of(folder) == there


@pytest.mark.usefixtures("small_runs")
def test_nothing_is_left_of_a_killed_build(folder: Path, nursery: Nursery) -> None:
    """Killed while its links lie in files, a process leaves no file behind."""
    with still(), kinbin.open(folder) as database:
        collection = database.collection("c")
        collection.add(names(range(300)), KINDS["dense"].rows(300, seed=1)[:, :24])
        collection.compact()
        there = files_of(folder)
    child = nursery.start("link_memory:link_in_files", str(folder))
    mapped = child.receive()
    assert mapped > 0, "no part of the links was in a file: this proves nothing"
    child.kill()
    assert files_of(folder) == there
    with still(), kinbin.open(folder) as database:
        collection = database.collection("c")
        collection.link()
        assert collection.stats()["links"]["rows"] == 300
        assert collection.check().ok
