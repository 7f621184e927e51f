"""Commits that never became the state, or were taken back: their pages stay in the file, and later commits have their numbers again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kinbin
from kinbin.upkeep import sealing
from linked import still
from torture.pages import PAGE, PageMap, newest_meta
from workload import stored_bytes

pytestmark = pytest.mark.durability

FILE = Path("collections") / "c" / "data.mdb"
ROWS, DIM = 3_000, 4
State = dict[str, tuple[bytes, object]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background; a step of upkeep seals whatever there is."""
    with still(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "SEAL_ROWS", 1)
        yield


class Life:
    """A collection, and what it has to hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.file = folder, folder / FILE
        self.random, self.vectors = random.Random(seed), np.random.default_rng(seed)
        self.state: State = {}

    def added(self, collection: kinbin.Collection, names: list[str], tag: str) -> State:
        """Add these; what the collection holds then."""
        vectors = (self.vectors.random((len(names), DIM)) + 0.1).astype(np.float32)
        collection.add(names, vectors, [{"t": tag * 250} for _ in names])
        return self.state | {name: (vector.tobytes(), {"t": tag * 250}) for name, vector in zip(names, vectors, strict=True)}

    def some(self, count: int) -> list[str]:
        """Names of items."""
        return [f"i{number}" for number in self.random.sample(range(ROWS), count)]

    def begin(self) -> None:
        """A run of rows."""
        with kinbin.open(self.folder) as database:
            collection = database.create_collection("c", dim=DIM)
            self.state = self.added(collection, [f"i{number}" for number in range(ROWS)], "a")
            collection.compact()
            self.state = self.added(collection, self.some(3), "b")

    def killed_commit(self) -> State:
        """A commit all of whose pages are written but the meta page, as a `kill -9` leaves it. What it would have made."""
        before = self.file.read_bytes()
        with kinbin.open(self.folder) as database:
            given_up = self.added(database.collection("c"), [*self.some(900), *(f"new{number}" for number in range(200))], "k")
        self.file.write_bytes(before[: 2 * PAGE] + self.file.read_bytes()[2 * PAGE :])
        (self.file.parent / "lock.mdb").unlink()
        return given_up

    def commit_taken_back(self) -> State:
        """A commit that was, until its meta page was damaged and `recover` went back behind it."""
        with kinbin.open(self.folder) as database:
            given_up = self.added(database.collection("c"), self.some(900), "k")
        self.lose(newest_meta(self.file.read_bytes()))
        with kinbin.open(self.folder) as database:
            database.recover("c", database.recoverable("c")[0].transaction)
        return given_up

    def go_on(self) -> None:
        """Commits that have the numbers of the one that was given up; sealed."""
        with kinbin.open(self.folder) as database:
            collection = database.collection("c")
            assert stored_bytes(collection) == self.state
            for count in (1, 3):
                self.state = self.added(collection, self.some(count), "c")
            # A merge would write over what was given up.
            collection._upkeep.step()
        with kinbin.open(self.folder) as database:
            assert database.check()["c"].ok
            assert stored_bytes(database.collection("c")) == self.state

    def lose(self, *pages: int) -> None:
        """Zero pages."""
        content = bytearray(self.file.read_bytes())
        for page in pages:
            content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        self.file.write_bytes(content)

    def repaired(self) -> tuple[State, kinbin.RepairReport]:
        """What is saved."""
        with kinbin.open(self.folder) as database:
            report = database.repair("c")
            return stored_bytes(database.collection(report.name)), report


@pytest.fixture(params=["killed", "taken back"])
def life(tmp_path: Path, request: pytest.FixtureRequest) -> Life:
    """One with a commit that was given up, and others after it."""
    made = Life(tmp_path, 7)
    made.begin()
    if request.param == "killed":
        made.killed_commit()
    else:
        made.commit_taken_back()
    made.go_on()
    return made


@pytest.mark.slow
def test_repair_takes_no_rows_of_a_commit_that_was_given_up(life: Life) -> None:
    """Its rows have numbers that others have now, and its records are whole: nothing of a tree that is whole is looked for elsewhere."""
    saved, report = life.repaired()
    assert saved == life.state
    assert (report.lost, report.bare, report.problems) == (0, 0, [])


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["items", "owners", "runs", "freelist", "main", "meta"])
def test_nor_where_something_is_lost(life: Life, tree: str) -> None:
    """What is saved is what was stored last, whatever leaf of the file is zeroed; the rest is told."""
    page = PageMap.of(life.file.read_bytes()).leaves[tree][0]
    life.lose(page)
    try:
        saved, report = life.repaired()
    except kinbin.CorruptData as error:
        # The list of trees, or what it was created with.
        assert tree in ("main", "meta"), error  # noqa: PT017 - both ends are right
        return
    assert all(vector == life.state[name][0] for name, (vector, _) in saved.items())
    assert all(payload == life.state[name][1] for name, (_, payload) in saved.items() if name not in report.bare_ids)
    assert set(life.state) - set(saved) == set(report.lost_ids)


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["newest", "both"])
def test_nor_where_meta_pages_are_lost(life: Life, pages: str) -> None:
    """The last state is found by its list of trees."""
    life.lose(*((0, 1) if pages == "both" else (newest_meta(life.file.read_bytes()),)))
    saved, report = life.repaired()
    assert saved == life.state
    assert any("meta page" in problem for problem in report.problems)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["journal", "owners", "items"])
def test_nor_where_a_page_amid_the_list_of_free_pages_is_lost(tmp_path: Path, lost: str) -> None:
    """An entry of it has pages of its own: of one that is zeroed the numbers are gone, and how many there are is not."""
    life = Life(tmp_path, 2)
    life.begin()
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        names = [*life.state]
        collection.add(names, np.stack([np.frombuffer(life.state[name][0], np.float32) for name in names]), [{"t": "p" * 900}] * len(names))
        collection.set_payload(names, [None] * len(names))
        life.state = {name: (vector, None) for name, (vector, _) in life.state.items()}
        for _ in range(2):
            life.state = life.added(collection, life.some(1), "e")
    life.killed_commit()
    with kinbin.open(tmp_path) as database:
        for number in range(2):
            life.state = life.added(database.collection("c"), [f"b{number}.{i}" for i in range(100)], "f")
    pages = PageMap.of(life.file.read_bytes())
    large = [node for leaf in pages.leaves["freelist"] for node in pages.nodes(leaf) if node.big and node.pages > 1]
    first, past = large[0].value_at // PAGE, large[0].value_at // PAGE + large[0].pages
    life.lose(*range(first + 1, past), pages.leaves[lost][-1])
    saved, report = life.repaired()
    assert all(vector == life.state[name][0] for name, (vector, _) in saved.items())
    assert set(life.state) - set(saved) == set(report.lost_ids)
    assert any("which pages are free is not known" in problem for problem in report.problems)


def test_a_killed_commit_is_not_brought_in(tmp_path: Path) -> None:
    """The file is whole: its items are the acknowledged ones, not those besides whose records the kill left."""
    life = Life(tmp_path, 3)
    life.begin()
    life.killed_commit()
    saved, report = life.repaired()
    assert saved == life.state
    assert report.problems == []


@pytest.mark.parametrize("killed", [False, True])
def test_without_the_newest_meta_page_a_commit_is_there_whole_or_not_at_all(tmp_path: Path, killed: bool) -> None:
    """The last one, or that which was killed behind it; which of them is not known, and that is said."""
    life = Life(tmp_path, 3)
    life.begin()
    with kinbin.open(tmp_path) as database:
        life.state = life.added(database.collection("c"), [*life.some(50), *(f"b{number}" for number in range(300))], "d")
    given_up = life.killed_commit() if killed else life.state
    life.lose(newest_meta(life.file.read_bytes()))
    saved, report = life.repaired()
    assert saved in (life.state, given_up)
    assert "may be the state before the last commit, or that of a write that was not acknowledged" in report.problems[0]
