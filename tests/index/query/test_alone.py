"""Single queries that a walk alone answers take a short way: they are answered as by the long one, to the last field."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import kinbin.query.alone
import kinbin.query.search
from kinbin.links.search import search_links
from kinbin.query.alone import Alone
from kinbin.query.search import Searcher
from kinbin.storage.format import Part
from linked import KINDS, damage_links, names, rewrite, still

ROWS = 1_100
ASKED = 14
MODES = ("links", "auto")


@pytest.fixture(autouse=True, scope="module")
def _still() -> Iterator[None]:
    with still():
        yield


@pytest.fixture(scope="module", params=[("ngmm", "dense"), ("gmm", "signed"), ("ngmm", "sparse")], ids=" ".join)
def linked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[kinbin.Collection, Any]]:
    """A linked collection in which some rows are of several items and some are dead, and queries, the last of them strange."""
    kernel, kind = request.param
    one = KINDS[kind]
    X = one.rows(ROWS, seed=2)
    with kinbin.open(tmp_path_factory.mktemp("alone")) as database:
        collection = database.create_collection("c", kernel=kernel, dim=one.dim, seed=1)
        collection.add(names(range(ROWS)), X)
        collection.add([f"again {i}" for i in range(0, ROWS, 3)], X[::3])
        collection.link()
        collection.delete(names(range(0, ROWS, 7)))
        collection.delete([f"again {i}" for i in range(0, ROWS, 21)])
        Q = one.rows(ASKED, seed=3)
        strange = np.random.default_rng(4)
        if one.dim is not None:
            Q[-4:] = strange.random((4, Q.shape[1])) * [[1], [1e-3], [1], [1e3]]
            Q[-2:, :-1] = 0
        yield collection, Q


PLAIN: NDArray[np.float32] = KINDS["dense"].rows(1_500, seed=5)


def filled(database: kinbin.Database) -> kinbin.Collection:
    """A linked collection of rows of one item each."""
    collection = database.create_collection("c", dim=PLAIN.shape[1], seed=1)
    collection.add(names(range(len(PLAIN))), PLAIN)
    collection.link()
    return collection


@pytest.fixture
def plain(db: kinbin.Database) -> kinbin.Collection:
    """The same of its own for each test."""
    return filled(db)


def both(collection: kinbin.Collection, x: Any, **options: Any) -> tuple[kinbin.Answer, kinbin.Answer]:
    """The answer as it comes, and by the long way."""
    short = collection.query(x, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Alone, "answer", lambda *_: None)
        return short, collection.query(x, **options)


def told(answer: kinbin.Answer) -> dict[str, Any]:
    """All fields of an answer; arrays as lists."""
    values = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def row(Q: Any, i: int) -> Any:
    """One of the queries."""
    return Q[i] if isinstance(Q, np.ndarray) else Q[[i]]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("k", "target"), [(1, 0.5), (10, 0.9), (150, 0.95), (900, 0.9)])
def test_the_short_way_answers_as_the_long_one(mode: str, k: int, target: float, linked: tuple[kinbin.Collection, Any]) -> None:
    """Every field of an answer is the same, whoever gave it: of near and far queries, dead rows, shared rows, and nearly all."""
    collection, Q = linked
    for i in range(ASKED):
        for _ in range(2):
            short, long = both(collection, row(Q, i), k=k, target_recall=target, mode=mode)
            assert told(short) == told(long)


MORE: tuple[dict[str, Any], ...] = (
    {"min_score": 0.3}, {"certify": True}, {"filter": {"n": 1}}, {"offset": 2}, {"debug": True}, {"include": ("vector",)},
    {"exclude": ["5"]},
)  # fmt: skip


@pytest.mark.parametrize("options", MORE, ids=lambda options: next(iter(options)))
def test_what_asks_for_more_is_answered_as_before(options: dict[str, Any], linked: tuple[kinbin.Collection, Any]) -> None:
    """Options that need more than a walk are obeyed: the short way does not take such queries."""
    collection, Q = linked
    for i in (0, 1, ASKED - 1):
        short, long = (told(answer) for answer in both(collection, row(Q, i), k=5, **options))
        for answer in (short, long):
            answer["times"] = None if answer["times"] is None else [name for name, _ in answer["times"]]
            answer["items"] = None if answer["items"] is None else [(item.id, str(item.vector)) for item in answer["items"]]
        assert short == long


def test_near_queries_take_the_short_way(plain: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A near query whose rows have been named before is answered by a walk, and never reaches the general search."""
    wanted = {mode: told(plain.query(PLAIN[7], k=5, mode=mode)) for mode in MODES}

    def never(*_: Any) -> Any:
        raise AssertionError("the general search was asked")

    monkeypatch.setattr(Searcher, "search_one", never)
    assert {mode: told(plain.query(PLAIN[7], k=5, mode=mode)) for mode in MODES} == wanted


def test_a_far_query_is_walked_for_once(plain: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Auto completes a far query by the walk that was made already."""
    strange = np.zeros(PLAIN.shape[1], np.float32)
    strange[-1] = 1.0
    walks: list[int] = []

    def noted(*arguments: Any) -> Any:
        walks.append(1)
        return search_links(*arguments)

    for module in (kinbin.query.alone, kinbin.query.search):
        monkeypatch.setattr(module, "search_links", noted)
    answer = plain.query(strange, k=5)
    assert answer.out_of_distribution
    assert answer.mode == "exact"
    # The scan of a route that is no scan from its beginning makes no walk of its own.
    assert len(walks) == 1


def test_new_items_and_names_are_seen_at_once(plain: kinbin.Collection) -> None:
    """What is written between two queries is answered by the second: new items, names that changed, rows that died."""
    x = PLAIN[7]
    for _ in range(2):
        assert plain.query(x, k=3, mode="links").ids[0] == "7"
    plain.add(["twin"], [x])
    assert plain.query(x, k=3, mode="links").ids[:2] == ["7", "twin"]
    plain.delete(["7"])
    assert plain.query(x, k=1, mode="links").ids == ["twin"]
    plain.delete(["twin"])
    assert plain.query(x, k=1, mode="links").ids not in (["7"], ["twin"])
    plain.add(["new"], [x])
    assert plain.query(x, k=1, mode="links").ids == ["new"]


def test_damaged_links_are_no_reason_not_to_answer(tmp_path: Path) -> None:
    """Where the links name nodes that are not there, another way answers what a scan answers."""
    with kinbin.open(tmp_path) as database:
        collection = filled(database)
        damage_links(collection._store, rewrite(Part.LINKS, "<u4", lambda links: links.fill(2**31 + 5)))
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        wanted = collection.query(PLAIN[7], k=5, mode="exact")
        for mode in MODES:
            answer = collection.query(PLAIN[7], k=5, mode=mode)
            assert answer.mode != "links"
            assert answer.ids == wanted.ids


def test_threads_share_what_is_kept(linked: tuple[kinbin.Collection, Any]) -> None:
    """Threads that ask at once, for different numbers of answers, all get their own."""
    collection, Q = linked
    wanted = {(i, k): told(collection.query(row(Q, i), k=k, mode="links")) for i in range(8) for k in (1, 5, 20)}
    wrong: list[Any] = []

    def ask(shift: int) -> None:
        for place in range(240):
            i, k = (place + shift) % 8, (1, 5, 20)[place % 3]
            if told(collection.query(row(Q, i), k=k, mode="links")) != wanted[i, k]:
                wrong.append((i, k))

    threads = [threading.Thread(target=ask, args=(shift,)) for shift in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
