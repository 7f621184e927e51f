"""Pages of earlier states and of other trees, where the pages of a tree are looked for: sound in themselves, and never believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from linked import still
from torture.harm import Harm, flipped_numbers
from torture.pages import PAGE, PageMap
from workload import stored_bytes

pytestmark = pytest.mark.durability

FILE = Path("collections") / "c" / "data.mdb"
ROWS, DIM = 420, 4
State = dict[str, tuple[bytes, object]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background."""
    with still():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, State]:
    """A file with many earlier pages, and what it holds: payloads and vectors were replaced, items deleted, in commits of their own."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(5)
    ids = [f"i{number:04d}" for number in range(ROWS)]
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=DIM, seed=1, indexes={"v": "number"})
        collection.add(ids, rows(rng, ROWS), [{"v": 0, "text": "x" * 90}] * ROWS)
        for number in range(12):
            collection.set_payload(ids[number::60], [{"v": number + 1}] * len(ids[number::60]))
            collection.add(ids[number + 20 :: 70], rows(rng, len(ids[number + 20 :: 70])), [{"v": -number}] * len(ids[number + 20 :: 70]))
            collection.delete(ids[number + 40 :: 130])
        state = stored_bytes(collection)
    return (folder / FILE).read_bytes(), state


def rows(rng: np.random.Generator, count: int) -> Any:
    """Vectors."""
    return (rng.random((count, DIM)) + 0.1).astype(np.float32)


def harmed(folder: Path, data: bytes) -> Path:
    """A database whose collection has this file."""
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_bytes(data)
    (folder / FILE).with_name("lock.mdb").unlink(missing_ok=True)
    return folder


def wrong_reads(folder: Path, state: State) -> list[str]:
    """What is answered and is not so; refusals are right."""
    wrong = []
    gone = [f"i{number:04d}" for number in range(ROWS) if f"i{number:04d}" not in state]

    def asked(what: str, act: Callable[[kinbin.Collection], object], right: object) -> None:
        try:
            with kinbin.open(folder) as database:
                found = act(database.collection("c"))
        except kinbin.CorruptData:
            return
        if found != right:
            wrong.append(what)

    names = sorted(state)
    asked("get", lambda c: [(np.asarray(i.vector).tobytes(), i.payload) if i else None for i in c.get(names)], [state[n] for n in names])
    asked("get of what is gone", lambda c: c.get(gone), [None] * len(gone))
    asked("scroll", stored_bytes, state)
    asked("count", lambda c: c.count({"v": 0}), sum(payload["v"] == 0 for _, payload in state.values()))  # type: ignore[index]
    return wrong


@pytest.mark.slow
def test_one_flipped_bit_leads_to_no_page_of_an_earlier_state(made: tuple[bytes, State], tmp_path: Path) -> None:
    """Each bit of each page's number that leads to another page of the file: refused, told by `check`, and all is saved by `repair`."""
    data, state = made
    pages = PageMap.of(data)
    harms = flipped_numbers(pages)
    assert len(harms) > 60
    assert sum(harm.where.endswith("free") for harm in harms) > 10
    for harm in harms:
        folder = harmed(tmp_path / "data", harm.done_to(data))
        assert wrong_reads(folder, state) == [], harm.where
    for number, harm in enumerate(harms[::3]):
        with kinbin.open(harmed(tmp_path / "again", harm.done_to(data))) as database:
            # In a process of its own, which takes a second.
            assert number % 8 or not database.check()["c"].ok, harm.where
            assert [one.items for one in database.recoverable("c") if one.commits == 37] == [], harm.where
            report = database.repair("c")
            assert stored_bytes(database.collection(report.name)) == state, harm.where
            assert (report.lost, report.bare) == (0, 0), harm.where
            database.drop_collection(report.name)


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["journal", "owners", "meta"])
def test_records_of_other_trees_are_no_items(made: tuple[bytes, State], tmp_path: Path, tree: str) -> None:
    """Their checksums are made as those of items are: nothing is said not to be there because one of them stands in its place."""
    data, state = made
    pages = PageMap.of(data)
    for target in pages.leaves["items"]:
        for source in pages.leaves[tree]:
            harm = Harm("copied", f"{source} over {target}", ((target * PAGE + 8, data[source * PAGE + 8 : (source + 1) * PAGE]),))
            folder = harmed(tmp_path / "data", harm.done_to(data))
            assert wrong_reads(folder, state) == [], harm.where
            with kinbin.open(folder) as database:
                lost = [node.key.decode() for node in pages.nodes(target)]
                with pytest.raises(kinbin.CorruptData):
                    database.collection("c").add(lost[:1], np.ones((1, DIM)), mode="insert")
                with pytest.raises(kinbin.CorruptData):
                    database.collection("c").delete(lost[:3])


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["items", "owners", "main", "meta", "journal"])
def test_repair_takes_no_page_of_an_earlier_state_for_that_of_a_tree(made: tuple[bytes, State], tmp_path: Path, tree: str) -> None:
    """A free page as it is, with its number, in the place of one of a tree: what is saved is of the last state, or it is said."""
    data, state = made
    pages = PageMap.of(data)
    free = [page for page in pages.by_kind()["free"] if any(data[page * PAGE : (page + 1) * PAGE])]
    for target in pages.leaves[tree][:4]:
        for source in free[::2]:
            content = bytearray(data)
            content[target * PAGE : (target + 1) * PAGE] = data[source * PAGE : (source + 1) * PAGE]
            with kinbin.open(harmed(tmp_path / "data", bytes(content))) as database:
                report = database.repair("c")
                saved = stored_bytes(database.collection(report.name))
                database.drop_collection(report.name)
            where = f"page {source} over {target}: {report}"
            assert set(saved) <= set(state), where
            assert len(state) - len(saved) == report.lost or any("more items were stored" in told for told in report.problems), where
            for name, (vector, payload) in saved.items():
                assert vector == state[name][0], where
                if name not in report.bare_ids and payload != state[name][1]:
                    assert any("may be of an earlier state" in told for told in report.problems), where
