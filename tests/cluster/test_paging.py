"""Pages over shards where searches miss items, and which replica is asked where the first is late or refuses."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from kinbin_cluster.gateway import paging
from kinbin_cluster.gateway.asking import Query
from kinbin_cluster.gateway.fanout import Fanout
from kinbin_cluster.gateway.paging import Cursor, page_of
from kinbin_cluster.gateway.reading import Part, Reading
from kinbin_cluster.picture import Node, Picture, Shard
from kinbin_service.problems import Refusal

ITEMS = [{"id": f"i{n}", "score": 1.0 - n / 100} for n in range(60)]


def reading() -> Reading:
    """What a page is read by, one shard of it."""
    return cast("Reading", SimpleNamespace(partial=False, shards=[0], token={}, collection=SimpleNamespace(uid="u")))


@pytest.mark.parametrize("missed", [set(), {3}, {0, 3, 5}, set(range(8))])
async def test_pages_go_on_where_a_deeper_search_finds_more(monkeypatch: pytest.MonkeyPatch, missed: set[int]) -> None:
    """What the first search missed ranks before the cursor: later pages hold as many items as they would, to the last of all."""

    async def found(_: Reading, asked: Query, cursor: Cursor) -> tuple[dict[str, Any], dict[int, int]]:
        there = [one for n, one in enumerate(ITEMS) if cursor.answered or n not in missed]
        return {"results": there[: asked.content["k"] + asked.content["offset"]]}, {0: 7}

    monkeypatch.setattr(paging, "_found", found)
    seen: list[str] = []
    sizes, cursor = [], ""
    while True:
        page = await page_of(reading(), {"vector": [1], "k": 10, "cursor": cursor})
        seen += [one["id"] for one in page["results"]]
        sizes.append(len(page["results"]))
        if (cursor := page["next"]) is None:
            break
    assert len(seen) == len(set(seen)) == len(ITEMS) - len(missed)
    assert all(size == 10 for size in sizes[:-1])


def test_a_first_page_that_was_written_to_has_no_other_behind_it() -> None:
    """Nobody knows which state was read: the page is answered, and its cursor is one that has expired; so is one of another state."""
    first = Cursor(0, 0.0, "", {})
    told = paging._applied([Part(0, {}, (5, 5)), Part(1, {}, (7, 9))], first)
    assert told[0] == 5
    for applied in ((7, 7), (9, 9), (7, 9)):
        with pytest.raises(Refusal) as refused:
            paging._applied([Part(1, {}, applied)], Cursor(10, 0.5, "i9", told))
        assert refused.value.code == "cursor_expired"
    assert paging._applied([Part(0, {}, (5, 5))], Cursor(10, 0.5, "i9", told)) == {0: 5}


@pytest.mark.parametrize(
    "content", [["x", 0.5, "i1", []], [1, "x", "i1", []], [1, 0.5, 1, []], [1, 0.5, "i1", [[0, "x"]]], [1, 0.5, "i1", [7]], 1]
)
def test_a_cursor_that_somebody_made_is_refused(content: Any) -> None:
    """Whatever stands in it is judged before it is used."""
    mark = bytes(16)
    text = Cursor(1, 0.5, "i1", {}).text(mark)
    assert Cursor.read(text, mark) == Cursor(1, 0.5, "i1", {})
    forged = base64.urlsafe_b64encode(mark + orjson.dumps(content)).decode().rstrip("=")
    with pytest.raises(Refusal, match="cursor is the next of an earlier page"):
        Cursor.read(forged, mark)


async def test_a_copy_that_is_being_made_is_asked_where_no_other_can_be() -> None:
    """Where one that lives is late or refuses, it is not asked: it would be the first to answer, with what it has so far."""
    picture = Picture(60.0)
    for name, state in (("a", "live"), ("b", "replaying")):
        picture.nodes[name] = Node(name, f"http://{name}")
        told = {"applied": 3, "state": state}
        picture.hear(name, orjson.dumps({"shards": {"u.0": told}}))
    picture.shards["u", 0] = Shard(("a", "b"))
    fanout = Fanout(picture)
    first = fanout._next("u", 0, [], only_ready=False)
    assert first is fanout.node("http://a")
    assert fanout._next("u", 0, [first], only_ready=True) is None
    assert fanout._next("u", 0, [first], only_ready=False) is fanout.node("http://b")
