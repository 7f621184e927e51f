"""What is left out of answers: excluded ids, the item that a query is about, and what lies before an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fielded
import kinbin
from kinbin.query.ranking import MOST_SEARCHED
from refusals import refused

N = 2_400
MODES = ("auto", "bands", "exact")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """Items of which every fifth shares its vector with the one before, some in a run and some fresh."""
    X = np.random.default_rng(5).gamma(0.4, 1, (N, 12)).astype(np.float32) + 0.001
    X[4::5] = X[3::5]
    with kinbin.open(tmp_path_factory.mktemp("shaping")) as db:
        made = db.create_collection("c", dim=12, seed=3)
        ids = [f"{i:04}" for i in range(N)]
        made.add(ids[:2_000], X[:2_000], [{"odd": i % 2} for i in range(2_000)])
        made.compact()
        made.add(ids[2_000:], X[2_000:], [{"odd": i % 2} for i in range(2_000, N)])
        yield made


def everything(collection: kinbin.Collection, x: Any, **options: Any) -> list[tuple[str, float]]:
    """Ids and scores of all items, the nearest first, as far as a search of everything goes."""
    answer = collection.query(x, k=1_000, mode="exact", **options)
    return list(zip(answer.ids, answer.scores.tolist(), strict=True))


def shown(answer: kinbin.Answer) -> list[tuple[str, float]]:
    """Ids and scores."""
    return list(zip(answer.ids, answer.scores.tolist(), strict=True))


def vector(collection: kinbin.Collection, identifier: str) -> Any:
    """The vector of an item."""
    (item,) = collection.get([identifier])
    assert item is not None
    return item.vector


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{}, {"filter": {"odd": 1}}, {"min_score": 0.2}], ids=["plain", "filter", "min_score"])
def test_excluded_items_are_not_answered(mode: str, options: dict[str, Any], collection: kinbin.Collection) -> None:
    """The answer is the ranking without the excluded items, k of them, whether or not they share their vector with others."""
    x = vector(collection, "0303")
    ranking = everything(collection, x, **options)
    gone = {name for name, _ in ranking[:7:2]} | {"0304", "0001"}
    left = [one for one in ranking if one[0] not in gone][:10]
    answer = collection.query(x, exclude=[*gone, "nobody", "x" * 300], mode=mode, target_recall=1.0, **options)
    assert [score for _, score in shown(answer)] == [score for _, score in left]
    assert not gone & set(answer.ids)
    assert answer.recall_lower_bound is not None or mode == "bands"


@pytest.mark.parametrize("mode", MODES)
def test_a_query_by_id_leaves_out_the_item(mode: str, collection: kinbin.Collection) -> None:
    """The item itself is not among its neighbours, but what shares its vector is; include_self keeps it."""
    for identifier in ("0000", "0303", "2203"):
        ranking = everything(collection, vector(collection, identifier))
        answer = collection.query_id(identifier, k=5, mode=mode, target_recall=1.0)
        assert [score for _, score in shown(answer)] == [score for name, score in ranking if name != identifier][:5]
        assert identifier not in answer.ids
        kept = collection.query_id(identifier, k=5, mode=mode, target_recall=1.0, include_self=True)
        assert [score for _, score in shown(kept)] == [score for _, score in ranking[:5]]
        assert identifier in kept.ids


@pytest.mark.parametrize("ask", ["query", "query_id", "query_batch"])
def test_pages_by_offset_are_the_ranking_in_pieces(ask: str, collection: kinbin.Collection) -> None:
    """Pages one after the other are the whole ranking, with the contents of their items."""
    x, whole = vector(collection, "0100"), everything(collection, vector(collection, "0100"))
    asked: dict[str, Callable[..., kinbin.Answer]] = {
        "query": lambda **more: collection.query(x, **more),
        "query_id": lambda **more: collection.query_id("0100", include_self=True, **more),
        "query_batch": lambda **more: collection.query_batch([x, x], **more)[1],
    }
    found: list[tuple[str, float]] = []
    for offset in range(0, 60, 20):
        page = asked[ask](k=20, offset=offset, mode="exact", include=["payload"])
        assert page.items is not None
        assert [item.id for item in page.items] == page.ids
        assert all(item.payload == {"odd": int(item.id) % 2} for item in page.items)
        found += shown(page)
    assert found == whole[:60]


def test_a_deep_page_is_ranked_by_a_scan(collection: kinbin.Collection) -> None:
    """Pages beyond what a search keeps go on where it ends, without a gap, to the last item; then they are empty."""
    x = vector(collection, "0100")
    first = [shown(collection.query(x, k=500, offset=offset, mode="exact")) for offset in (0, 500, 1_000)]
    deep = collection.query(x, k=900, offset=MOST_SEARCHED - 500, mode="exact")
    assert (deep.steps, deep.recall_lower_bound) == (("score all rows",), 1.0)
    ids = [name for page in first for name, _ in page] + deep.ids
    assert len(ids) == len(set(ids)) == N
    scores = np.concatenate([[score for page in first for _, score in page], deep.scores])
    assert (np.diff(scores) <= 0).all()
    assert collection.query(x, offset=N).ids == []
    assert len(collection.query(x, k=900, offset=1_500, filter={"odd": 1})) == 0
    near = collection.query(x, k=900, offset=1_500, min_score=0.1)
    assert len(near) == max(0, int((scores >= 0.1).sum()) - 1_500)


def test_a_batch_is_shaped_query_by_query(collection: kinbin.Collection) -> None:
    """Each answer of a batch with exclusions is that of its query alone; a batch of none stays one."""
    X = np.stack([vector(collection, name) for name in ("0003", "0700", "2100")])
    options: dict[str, Any] = {"k": 6, "exclude": ["0003", "2100", "0701"], "offset": 2, "mode": "exact"}
    batch = collection.query_batch(X, **options)
    assert [shown(answer) for answer in batch] == [shown(collection.query(x, **options)) for x in X]
    assert batch.ids.shape == (3, 6)
    assert len(collection.query_batch(X[:0], **options)) == 0


def test_bounds_hold_for_what_is_left(collection: kinbin.Collection) -> None:
    """An answer that is shaped has the bound that the deeper search proved."""
    answer = collection.query_id("0100", mode="bands", target_recall=0.5)
    deeper = collection.query(vector(collection, "0100"), k=11, mode="bands", target_recall=0.5)
    assert answer.recall_lower_bound == deeper.recall_lower_bound


def test_strings_are_shaped_alike(db: kinbin.Database) -> None:
    """Objects are left out and paged like vectors; deep pages have the distances of a search."""
    words = db.create_collection("w", items="strings", distance="levenshtein")
    texts = [f"{i:b}" for i in range(2_500)]
    words.add([f"i{i}" for i in range(2_500)], texts)
    assert words.query_id("i5", k=3).ids == ["i2", "i3", "i4"]
    whole = np.sort([hit.score for hit in words.query("101", k=1_000, mode="exact")])
    deep = words.query("101", k=600, offset=1_900, mode="exact")
    assert (len(deep), deep.steps) == (600, ("score all rows",))
    assert deep.distances is not None
    assert deep.distances.min() >= whole[-1]
    assert "i5" not in words.query("101", exclude=["i5"]).ids


def test_fields_are_shaped_alike(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Items of several vectors are left out and paged like others, and keep the parts of their scores and their contents."""
    X = fielded.vectors(rng, 60)
    c = fielded.filled(db, X)
    x = fielded.some(X, 4)
    whole = c.query(x, k=60)
    assert c.query_id("i0004", k=59).ids == [name for name in whole.ids if name != "i0004"]
    assert c.query_id("i0004", k=60, include_self=True).ids == whole.ids
    left = [place for place, name in enumerate(whole.ids) if name not in {"i0007", whole.ids[2]}]
    page = c.query(x, k=5, offset=3, exclude=["i0007", whole.ids[2], "nobody"], include=["payload"])
    assert page.ids == [whole.ids[place] for place in left[3:8]]
    assert page.parts is not None
    assert whole.parts is not None
    for name, part in page.parts.items():
        np.testing.assert_array_equal(part, whole.parts[name][left[3:8]])
    assert [hit.payload for hit in page] == [{"i": int(name[1:])} for name in page.ids]
    both = {name: np.stack([vectors, vectors]) if not isinstance(vectors, list) else [vectors] * 2 for name, vectors in x.items()}
    assert [one.ids for one in c.query_batch(both, k=5, offset=3)] == [whole.ids[3:8]] * 2


IDS = "exclude is a list of ids, each a string that is not empty or a 64-bit integer"
BAD: list[tuple[str, Any, str]] = [
    *[("exclude", value, IDS) for value in ("a", 7, None, [7.0], [True], [2**64], [""], [None], {"a": 1}, b"a")],
    *[("include_self", value, "include_self is true or false") for value in (1, None, "yes")],
    *[("offset", value, "offset is a whole number from 0 on") for value in (-1, 1.5, True, False, "1", None, float("nan"))],
]


@pytest.mark.parametrize(("name", "value", "text"), BAD)
def test_bad_shapes_are_refused(name: str, value: Any, text: str, collection: kinbin.Collection) -> None:
    """What is no list of ids, no flag or no number is refused by every query with what is expected."""
    for ask in (lambda **more: collection.query([1] * 12, **more), lambda **more: collection.query_id("0000", **more),
                lambda **more: collection.query_batch([[1] * 12], **more), kinbin.QueryOptions):  # fmt: skip
        with refused("bad_parameter", text, field=name):
            ask(**{name: value})


@pytest.mark.parametrize(("name", "value", "told"), [("exclude", [str(i) for i in range(1_001)], "1001"), ("offset", 10_001, "10001")])
def test_limits_of_shapes_are_told(name: str, value: Any, told: str, collection: kinbin.Collection) -> None:
    """Too many exclusions and too large an offset name their limits."""
    most = int(kinbin.LIMITS[name].value)
    with refused("over_limit", f"{name}: at most {most}, not {told}", field=name, limit=name):
        collection.query([1] * 12, **{name: value})


def test_an_unknown_option_is_a_type_error(collection: kinbin.Collection) -> None:
    """A keyword that is no option is told as Python tells it."""
    with pytest.raises(TypeError, match="excluding"):
        collection.query([1] * 12, excluding=["a"])  # type: ignore[call-arg]


SHAPES: list[dict[str, Any]] = [
    {}, {"filter": {"odd": 1}}, {"min_score": 0.2}, {"offset": 7}, {"exclude": ["0303", "2003", "nobody"]}, {"cursor": ""}, {"k": 60},
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(shape) or "plain")
def test_answers_tell_the_numbers_of_their_rows(mode: str, shape: dict[str, Any], collection: kinbin.Collection) -> None:
    """Those of all hits in their order, of runs and of fresh rows, of rows that several items share; by a vector and by an id."""
    for identifier in ("0303", "2003"):
        asked: dict[str, Any] = {"k": 20, **shape, "mode": mode}
        for answer in (collection.query(vector(collection, identifier), **asked), collection.query_id(identifier, **asked)):
            assert answer.row_numbers is not None
            assert len(answer) > 3
            assert answer.row_numbers.tolist() == collection.numbers_of(answer.ids)
    assert collection.query_id("0303", group_by={"field": "odd"}).row_numbers is None
