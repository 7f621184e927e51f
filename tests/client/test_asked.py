"""Queries by examples, with options of their own, in pages and groups: the client answers what the library answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import kinbin
import kinbin_client
from kinbin_client import AsyncClient, Chunking, InvalidArgument
from service_app import running_app, warm_up_once

X = np.random.default_rng(4).gamma(0.5, 1, (30, 4)).astype(np.float32) + 0.01
IDS = [f"i{number:02d}" for number in range(30)]
PAYLOADS = [{"n": n, "shot": n % 4} for n in range(30)]


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """A client of a service of its own."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path / "service") as app:

        async def forward(request: httpx.Request) -> httpx.Response:
            content = await request.aread()
            answer = await app.client.request(request.method, request.url, content=content, headers=request.headers)
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

        async with AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as one:
            yield one


@pytest.fixture
async def pair(client: AsyncClient, tmp_path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """A collection of the library and one of the client, with the same items."""
    with kinbin.open(tmp_path / "library") as database:
        ours = database.create_collection("c", dim=4, seed=1)
        ours.add(IDS, X, PAYLOADS)
        theirs = await client.create_collection("c", dim=4, seed=1)
        await theirs.add(IDS, X, PAYLOADS)
        yield ours, theirs


def read(answer: Any) -> Any:
    """What both say."""
    groups = None if answer.groups is None else [(group.value, group.ids) for group in answer.groups]
    return [(hit.id, hit.score, hit.payload) for hit in answer], groups, answer.recall_lower_bound


OPTIONS: list[dict[str, Any]] = [
    {"exclude": ["i03", "nobody"], "offset": 2, "include": ["payload.n"]},
    {"exclude": {"i03"}, "include_self": True},
    {"group_by": {"field": "shot", "groups": 3, "size": 2}, "include": ("payload.shot",)},
    {"cursor": "", "k": 4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
async def test_options_are_sent(options: dict[str, Any], pair: tuple[Any, Any]) -> None:
    """Each option gives the library's answer, by vector, by id, of many, and by examples."""
    ours, theirs = pair
    if "include_self" not in options:
        assert read(await theirs.query(X[3], **options)) == read(ours.query(X[3], **options))
        ours_many, theirs_many = ours.query_batch(X[:3], **options), await theirs.query_batch(X[:3], **options)
        assert [read(one) for one in theirs_many] == [read(one) for one in ours_many]
    assert read(await theirs.query_id("i05", **options)) == read(ours.query_id("i05", **options))
    found = await theirs.query_examples(["i01", X[2]], ["i04"], **options)
    assert read(found) == read(ours.query_examples(["i01", X[2]], ["i04"], **options))


async def test_pages_and_times(pair: tuple[Any, Any]) -> None:
    """Pages go on by next until there is none, and end with a write; debug tells steps."""
    _, theirs = pair
    whole = (await theirs.query_id("i05", k=30)).ids
    first = await theirs.query_id("i05", k=20, cursor="")
    last = await theirs.query_id("i05", k=20, cursor=first.next, debug=True)
    assert (first.ids + last.ids, last.next) == (whole, None)
    assert last.debug.steps
    assert all(one.debug for one in await theirs.query_batch(X[:2], debug=True, certify=True, offset=1))
    await theirs.add(["new"], [[1, 1, 1, 1]])
    with pytest.raises(kinbin_client.Conflict) as expired:
        await theirs.query_id("i05", k=20, cursor=first.next)
    assert expired.value.code == "cursor_expired"


async def test_queries_with_options_of_their_own(pair: tuple[Any, Any]) -> None:
    """Each entry is answered as the library answers it, in one request or in several; an error tells where it is in all of them."""
    ours, theirs = pair

    def queries(forms: Any) -> list[Any]:
        options = forms.QueryOptions
        return [
            forms.Query(X[3], options=options(k=3)),
            forms.Query(id="i07", options=options(k=5, filter={"n": {"$gt": 9}})),
            forms.Query(positive=["i01", X[9]], negative=["i02"], options=options(include=["payload.n"])),
        ]

    expected = [read(one) for one in ours.query_each(queries(kinbin))]
    for chunking in (Chunking(), Chunking(max_items=2)):
        assert [read(one) for one in await theirs.query_each(iter(queries(kinbin_client)), chunking=chunking)] == expected
    assert len(await theirs.query_each([])) == 0
    with pytest.raises(kinbin_client.NotFound) as unknown:
        await theirs.query_each([*queries(kinbin_client), kinbin_client.Query(id="no")], chunking=Chunking(max_items=2))
    assert unknown.value.errors[0].position == 3


async def test_objects_stand_under_their_key(client: AsyncClient) -> None:
    """Strings are examples under their key; a handle that did not make the collection finds out what its items are."""
    words = await client.create_collection("w", items="strings", distance="levenshtein")
    await words.add(["a", "b", "c"], ["kitten", "sitting", "mitten"])
    one = kinbin_client.Query("sitting", options=kinbin_client.QueryOptions(k=1))
    for known in (True, False):
        if not known:
            client._sender.kinds.clear()
        assert (await client.collection("w").query_examples([{"string": "bitten"}, "a"])).distances == [1.0, 3.0]
        assert [found.ids for found in await client.collection("w").query_each([one])] == [["b"]]
    with pytest.raises(InvalidArgument, match="an example is an id, or"):
        await words.query_examples([7.5])


REFUSED: dict[str, Any] = {
    "no list": lambda c, forms: c.query_each(7),
    "no query": lambda c, forms: c.query_each([forms.Query(id="i01"), 7]),
    "two things": lambda c, forms: c.query_each([forms.Query(X[0], id="i01")]),
    "no positive": lambda c, forms: c.query_examples([]),
    "one example": lambda c, forms: c.query_examples("i01"),
    "one negative": lambda c, forms: c.query_examples(["i01"], "i02"),
    "a zero example": lambda c, forms: c.query_each([forms.Query([0, 0, 0, 0])]),
    "exclude as a string": lambda c, forms: c.query(X[0], exclude="i01"),
    "exclude of numbers": lambda c, forms: c.query(X[0], exclude=[1.5]),
    "an offset below none": lambda c, forms: c.query(X[0], offset=-1),
    "include_self as text": lambda c, forms: c.query_id("i01", include_self="yes"),
    "debug as text": lambda c, forms: c.query(X[0], debug="yes"),
    "a void cursor": lambda c, forms: c.query(X[0], cursor="void"),
    "a cursor and an offset": lambda c, forms: c.query(X[0], cursor="", offset=3),
    "a grouping of nothing": lambda c, forms: c.query(X[0], group_by={"field": "a.."}),
    "an unknown example": lambda c, forms: c.query_examples(["i01", "no"]),
    "too large an offset": lambda c, forms: c.query(X[0], offset=10_001),
}


async def test_the_same_is_refused(pair: tuple[Any, Any]) -> None:
    """What the library refuses the client refuses, or the service, in the same words."""
    ours, theirs = pair
    for label, ask in REFUSED.items():
        with pytest.raises(kinbin.InvalidInput) as by_library:
            ask(ours, kinbin)
        with pytest.raises(kinbin_client.KinbinClientError) as by_client:
            await ask(theirs, kinbin_client)
        error, detail = by_client.value, by_library.value.problems[0].detail
        told = error.detail if isinstance(error, kinbin_client.ApiError) else str(error.args[0])
        assert told.partition(", not ")[0] == detail.partition(", not ")[0], label
