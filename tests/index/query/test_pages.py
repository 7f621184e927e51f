"""Groups, pages by cursor, chosen fields of payloads, and times: what is made of an answer, against the whole ranking."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fielded
import kinbin
from refusals import refused

N, DIM = 700, 8
X: NDArray[np.float32] = (np.random.default_rng(9).gamma(0.4, 1, (N, DIM)) + 0.001).astype(np.float32)
X[6::7] = X[5:-1:7][: len(X[6::7])]
IDS = [f"{i:03}" for i in range(N)]
SHOTS: list[Any] = ["a", 1, True, 1.5, None, "b", ["a"], {"x": 1}, "c", "d"]


def payload(i: int) -> dict[str, Any] | None:
    """Values of all kinds, some absent, some deep."""
    if i % 11 == 0:
        return None
    return {"shot": SHOTS[i * 7 % 10], "year": i, "deep": {"er": i % 4, "other": 1}} if i < 650 else {"shot": "rare" if i > 690 else "a"}


def fill(made: kinbin.Collection) -> kinbin.Collection:
    """All items, in a run and fresh."""
    made.add(IDS[:500], X[:500], [payload(i) for i in range(500)])
    made.compact()
    made.add(IDS[500:], X[500:], [payload(i) for i in range(500, N)])
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """One for all tests that change nothing in it."""
    with kinbin.open(tmp_path_factory.mktemp("pages")) as db:
        yield fill(db.create_collection("c", dim=DIM, seed=3))


def naive_groups(ids: list[str], groups: int, size: int, field: str = "shot") -> list[tuple[Any, list[str]]]:
    """The groups of a whole ranking, by definition."""
    found: list[tuple[Any, list[str]]] = []
    for one in ids:
        value = (payload(int(one)) or {}).get(field)
        if not isinstance(value, str | int | float):
            continue
        mine = [members for known, members in found if known == value and isinstance(known, bool) == isinstance(value, bool)]
        if mine:
            mine[0].append(one)
        else:
            found.append((value, [one]))
    return [(value, members[:size]) for value, members in found[:groups]]


@pytest.mark.parametrize("mode", ["auto", "exact"])
@pytest.mark.parametrize(("groups", "size"), [(1, 1), (5, 2), (3, 40), (9, 3)])
def test_groups_are_those_of_the_whole_ranking(mode: str, groups: int, size: int, collection: kinbin.Collection) -> None:
    """However deep a group's items lie: as many groups of as many items as there are, the nearest first, with their bound."""
    for i in (3, 77, 692):
        whole = collection.query(X[i], k=N, mode="exact")
        answer = collection.query(X[i], group_by={"field": "shot", "groups": groups, "size": size}, mode=mode, include=["payload.shot"])
        assert answer.groups is not None
        expected = naive_groups(whole.ids, groups, size)
        assert [(group.value, group.ids) for group in answer.groups] == expected
        assert [type(group.value) for group in answer.groups] == [type(value) for value, _ in expected]
        assert answer.ids == [one for _, members in expected for one in members]
        scores = dict(zip(whole.ids, whole.scores.tolist(), strict=True))
        assert answer.scores.tolist() == [scores[one] for one in answer.ids]
        assert [hit.payload for hit in answer] == [{"shot": value} for value, members in expected for _ in members]
        assert answer.recall_lower_bound == 1.0


def test_groups_leave_out_what_is_left_out(collection: kinbin.Collection) -> None:
    """Groups go with filters, exclusions, least scores, ids and deep fields, and are empty where nothing has the field."""
    whole = collection.query(X[5], k=N, mode="exact", filter={"year": {"$lt": 300}}).ids
    left = [one for one in whole if one not in {"005", whole[3]}]
    by = {"field": "shot", "groups": 4, "size": 2}
    answer = collection.query_id("005", group_by=by, exclude=[whole[3]], filter={"year": {"$lt": 300}})
    assert [(group.value, group.ids) for group in answer.groups or []] == naive_groups(left, 4, 2)
    deep = collection.query(X[5], group_by={"field": "deep.er", "groups": 10, "size": 1})
    assert sorted(group.value for group in deep.groups or []) == [0, 1, 2, 3]
    nothing = collection.query(X[5], group_by={"field": "nothing"}, min_score=0.5)
    assert (nothing.groups, nothing.ids) == ([], [])


def test_groups_without_a_full_search_have_no_bound(collection: kinbin.Collection) -> None:
    """Bands prove nothing of groups, and the answer says how to get a proof."""
    answer = collection.query(X[5], group_by={"field": "shot", "groups": 2}, mode="bands", target_recall=0.5)
    assert (answer.recall_lower_bound, answer.no_bound) == (
        None,
        "groups have a bound only where everything was searched: mode exact, or certify",
    )
    certified = collection.query(X[5], group_by={"field": "shot", "groups": 2}, certify=True)
    assert certified.recall_lower_bound == 1.0


@pytest.mark.parametrize("options", [{}, {"filter": {"shot": "a"}}, {"min_score": 0.3, "exclude": ["010", "011"]}], ids=str)
def test_pages_by_cursor_are_the_whole_answer(options: dict[str, Any], collection: kinbin.Collection) -> None:
    """Pages by cursor, of whatever size, are the ranking once, in order; the last one has no next."""
    whole = collection.query(X[20], k=N, mode="exact", **options)
    ids: list[str] = []
    cursor: str | None = ""
    for k in (1, 7, 50, 300, 300, 300):
        page = collection.query(X[20], k=k, mode="exact", cursor=cursor, **options)
        ids += page.ids
        assert page.recall_lower_bound == 1.0
        cursor = page.next
        if cursor is None:
            break
    assert cursor is None
    assert ids == whole.ids


def test_no_item_comes_twice_whatever_is_found(collection: kinbin.Collection) -> None:
    """Pages of a search that misses items never repeat one, and scores never rise from page to page."""
    for target in (0.2, 0.9):
        ids: list[str] = []
        scores: list[float] = []
        cursor: str | None = ""
        while cursor is not None:
            page = collection.query_id("020", k=9, mode="bands", target_recall=target, cursor=cursor)
            ids, scores, cursor = ids + page.ids, scores + page.scores.tolist(), page.next
        assert len(ids) == len(set(ids)) > 9
        assert "020" not in ids
        assert (np.diff(scores) <= 0).all()


def test_a_cursor_goes_with_its_query_alone(db: kinbin.Database, collection: kinbin.Collection) -> None:
    """Another query, other options, another collection, and any change of its text make a cursor void."""
    following = collection.query(X[20], k=5, cursor="").next
    assert following is not None
    twin = fill(db.create_collection("twin", dim=DIM, seed=4))
    text = "cursor is the next of an earlier page, unchanged, with the same query and options (k and include may change)"
    asks: tuple[Callable[[], kinbin.Answer], ...] = (
        lambda: collection.query(X[21], cursor=following),
        lambda: collection.query(X[20], cursor=following, filter={"shot": "a"}),
        lambda: collection.query(X[20], cursor=following, target_recall=0.5),
        lambda: twin.query(X[20], cursor=following),
        lambda: collection.query(X[20], cursor=following[:-2]),
        lambda: collection.query(X[20], cursor="A" + following[1:] if following[0] != "A" else "B" + following[1:]),
        lambda: collection.query(X[20], cursor="é"),
        lambda: collection.query(X[20], cursor="x"),
    )
    for ask in asks:
        with refused("bad_parameter", text, field="cursor"):
            ask()
    assert collection.query(X[20], k=3, cursor=following, include=["payload"], debug=True).ids


def test_a_cursor_ends_with_a_commit(db: kinbin.Database) -> None:
    """After any write the next page is refused; upkeep, which changes no item, leaves it alone."""
    made = fill(db.create_collection("c", dim=DIM))
    whole = made.query(X[20], k=20, mode="exact").ids
    following = made.query(X[20], k=10, mode="exact", cursor="").next
    made.compact()
    assert made.query(X[20], k=10, mode="exact", cursor=following).ids == whole[10:]
    made.add(["new"], [X[0] + 1])
    with pytest.raises(kinbin.CursorExpired, match="begin again") as expired:
        made.query(X[20], k=10, mode="exact", cursor=following)
    assert expired.value.code == "cursor_expired"


def test_pages_are_only_so_deep(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page behind more items than an offset may leave out names the limit."""
    following = collection.query(X[20], k=600, cursor="").next
    monkeypatch.setitem(kinbin.LIMITS, "offset", kinbin.Limit("offset", 500, "", ""))
    with refused("over_limit", "cursor: at most 500 items come before a page", field="cursor", limit="offset"):
        collection.query(X[20], k=600, cursor=following)


def test_chosen_fields_of_payloads(collection: kinbin.Collection) -> None:
    """Only the fields that are named come, each where it lies; a payload without them is empty, and none stays none."""
    names = ["003", "011", "661"]
    found = collection.get(names, include=["payload.year", "payload.deep.er", "payload.deep.none.such"])
    assert [item and item.payload for item in found] == [{"year": 3, "deep": {"er": 3}}, None, {}]
    assert all(item is not None and item.vector is None for item in found)
    answer = collection.query(X[3], k=1, include=("vector", "payload.deep", "payload.deep.er"))
    (hit,) = answer
    assert (hit.payload, hit.vector is not None) == ({"deep": {"er": 3, "other": 1}}, True)
    assert kinbin.QueryOptions(include=["payload.year", "payload"]).include == ("payload",)
    (item,) = collection.scroll(limit=1, include=["payload.shot"]).items
    assert item.payload is None


def test_times_are_told_in_order(collection: kinbin.Collection) -> None:
    """debug tells what was done, step by step, with times that are no more than the whole; without it there are none."""
    assert collection.query(X[3]).times is None
    one = collection.query(X[3], mode="exact", include=["payload"], debug=True)
    assert one.times is not None
    assert [name for name, _ in one.times] == [*one.steps, "plan, filter and names", "read contents"]
    assert all(0.0 <= ms < 60_000 for _, ms in one.times)
    batch = collection.query_batch(X[:2], debug=True)
    assert all(answer.times for answer in batch)
    examples = collection.query_examples([X[0], X[1]], debug=True)
    assert [name for name, _ in examples.times or ()] == ["score all rows"]


def test_what_takes_long_can_be_cancelled(collection: kinbin.Collection) -> None:
    """Groups, deep pages and examples end with SearchCancelled once the event is set, before they have seen everything."""
    seen: list[str] = []

    class Late(threading.Event):
        """Set when it was looked at so often."""

        def is_set(self) -> bool:
            seen.append("looked")
            return len(seen) > 1

    asks: tuple[Callable[[threading.Event], object], ...] = (
        lambda cancel: collection.query(X[0], group_by={"field": "nothing"}, cancel=cancel),
        lambda cancel: collection.query_examples([X[0], X[1]], cancel=cancel),
        lambda cancel: collection.query(X[0], k=1_000, offset=5_000, cancel=cancel),
        lambda cancel: collection.query_each([kinbin.Query(X[0])] * 3, cancel),
    )
    for ask in asks:
        seen.clear()
        with pytest.raises(kinbin.SearchCancelled):
            ask(Late())
        assert len(seen) == 2


def test_fields_are_grouped_and_paged_alike(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Items of several vectors have groups, cursors and times as others have."""
    c = fielded.filled(db, vectors := fielded.vectors(rng, 50))
    x = fielded.some(vectors, 4)
    whole = c.query(x, k=50).ids
    page = c.query(x, k=20, cursor="")
    assert page.ids + c.query(x, k=40, cursor=page.next).ids == whole
    with pytest.raises(kinbin.InvalidInput, match="cursor is the next"):
        c.query(x, {"colour": 0.5, "words": 1.0, "texture": 1.0}, cursor=page.next)
    answer = c.query(x, group_by={"field": "i", "groups": 3, "size": 1}, debug=True, include=["payload.i"])
    assert [group.ids for group in answer.groups or []] == [[one] for one in whole[:3]]
    assert next(name for name, _ in answer.times or ()) == "search all fields"
    assert answer.parts is not None
    assert len(answer.parts["colour"]) == 3


def test_contents_are_of_the_searched_snapshot_while_somebody_writes(db: kinbin.Database) -> None:
    """While items change their vector and payload together, every hit has the payload and vector that its score belongs to."""
    c = db.create_collection("moving", dim=2)
    ids = [f"{i}" for i in range(50)]
    stop = threading.Event()

    def write() -> None:
        step = 0
        while not stop.is_set():
            step += 1
            c.add(ids, [[1.0 + (step + i) % 9, 1.0] for i in range(50)], [{"v": 1.0 + (step + i) % 9} for i in range(50)])

    c.add(ids, [[1.0 + i % 9, 1.0] for i in range(50)], [{"v": 1.0 + i % 9} for i in range(50)])
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for step in range(60):
            options: dict[str, Any] = {"k": 50, "include": ["vector", "payload.v"], "mode": "exact"}
            shapes: list[dict[str, Any]] = [{}, {"offset": 3}, {"group_by": {"field": "v", "groups": 9, "size": 5}}, {"cursor": ""}]
            for hit in c.query([3.0, 1.0], **options | shapes[step % 4]):
                value = (hit.payload or {})["v"]
                assert np.asarray(hit.vector).tolist() == [value, 1.0]
                share = value / (value + 1)
                low, high = sorted((share, 0.75))
                assert hit.score == pytest.approx((low + 1 - high) / (high + 1 - low), abs=1e-6)
    finally:
        stop.set()
        writer.join()


GROUPING = 'is an object as {"field": "shot", "groups": 5, "size": 2}, of one query, without an offset and without a cursor'
CURSOR = "cursor is a string, or null; of one query, without an offset and without group_by"
BAD: list[tuple[dict[str, Any], str, str]] = [
    *[
        ({"group_by": value}, f"group_by {GROUPING}", "group_by")
        for value in ("shot", 3, {}, {"fields": "x"}, {"field": 3}, {"field": "a..b"})
    ],
    ({"group_by": {"field": "a"}, "offset": 3}, f"group_by {GROUPING}", "group_by"),
    *[
        ({"group_by": {"field": "a", "groups": value}}, "group_by: groups is a whole number from 1 on", "group_by")
        for value in (0, 1.5, True)
    ],
    ({"group_by": {"field": "a", "size": "2"}}, "group_by: size is a whole number from 1 on", "group_by"),
    *[({"cursor": value}, CURSOR, "cursor") for value in (3, True, b"")],
    ({"cursor": "", "offset": 1}, CURSOR, "cursor"),
    ({"cursor": "", "group_by": {"field": "a"}}, CURSOR, "cursor"),
    *[({"debug": value}, "debug is true or false", "debug") for value in (1, None, "yes")],
]


@pytest.mark.parametrize(("options", "text", "field"), BAD, ids=str)
def test_bad_shapes_are_refused(options: dict[str, Any], text: str, field: str, collection: kinbin.Collection) -> None:
    """What is no grouping, no cursor and no flag is refused with what is expected, and what does not go together."""
    for ask in (lambda **more: collection.query(X[0], **more), lambda **more: collection.query_batch(X[:1], **more), kinbin.QueryOptions):
        with refused("bad_parameter", text, field=field):
            ask(**options)


def test_limits_of_groups_and_contents_are_told(collection: kinbin.Collection) -> None:
    """More hits than a query may have, and more names than may be included, name their limits."""
    with refused("over_limit", "group_by: groups times size is at most 1000", field="group_by", limit="k"):
        collection.query(X[0], group_by={"field": "a", "groups": 501, "size": 2})
    with refused("over_limit", "include: at most 64, not 65", field="include", limit="include"):
        collection.query(X[0], include=[f"payload.{i}" for i in range(65)])
    for bad in ("payload.", "payload..a", "payload.a.", "payload." + "x" * 300):
        with pytest.raises(kinbin.InvalidInput, match=r"include lists some of vector, payload, payload\.FIELD"):
            collection.query(X[0], include=[bad])
