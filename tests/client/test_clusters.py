"""Tokens of writes, reads that wait for them, and answers of a part of the shards: against a gateway of a few lines in memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kinbin_client import AsyncClient, Chunking, Client, Collection, InvalidArgument, InvalidInput, Query, QueryOptions
from kinbin_client._cluster import joined

HEADER = "x-kinbin-after"
ANSWER: dict[str, Any] = {"results": [], "mode": "exact", "candidates": 0, "verified": 0}
PART: dict[str, Any] = {"partial": True, "shards_missing": [1]}


def token(uid: str, **sequences: int) -> str:
    """A token as a gateway makes it, of sequences by shard (s0, s1, …)."""
    pairs = [[int(shard[1:]), sequence] for shard, sequence in sequences.items()]
    return base64.urlsafe_b64encode(json.dumps([uid, pairs], separators=(",", ":")).encode()).decode().rstrip("=")


class Gateway:
    """Answers writes with the tokens that it is given, and reads of a part of the shards; keeps what it was asked."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.asked: list[tuple[str, str | None, Any]] = []
        """Of each request the last word of its path, its token, and its body."""
        self.uid: str | None = None
        """Tokens of other collections are refused, if it is set."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        word = request.url.path.rsplit("/", 1)[-1]
        after = request.headers.get(HEADER)
        is_json = request.headers.get("content-type") == "application/json"
        self.asked.append((word, after, json.loads(request.content) if is_json else request.url.query.decode()))
        if after is not None and self.uid is not None and base64.urlsafe_b64decode(after + "==")[2:3].decode() != self.uid:
            problem = {"type": "x", "title": "x", "status": 422, "code": "bad_parameter", "detail": "another collection", "errors": []}
            return httpx.Response(422, content=json.dumps(problem), headers={"content-type": "application/problem+json"})
        return httpx.Response(200, json=self.answer(word))

    def answer(self, word: str) -> dict[str, Any]:
        """What a word is answered with."""
        if word in ("index", "delete", "payload"):
            counts = {"indexed": 1, "updated": 0, "unchanged": 0, "deleted": 0, "count": 1}
            return {**counts, **({"token": self.tokens.pop(0)} if self.tokens else {})}
        if word == "query":
            batch = isinstance(self.asked[-1][2], str) or "queries" in self.asked[-1][2]
            return {**({"answers": [ANSWER]} if batch else ANSWER), **PART}
        contents: dict[str, dict[str, Any]] = {"get": {"items": []}, "scroll": {"items": []}, "count": {"count": 3}}
        facets: dict[str, Any] = {"field": "f", "values": [], "distinct": 0, "items": 0}
        return {**contents.get(word, facets), **PART} if word != "c" else {"name": "c", "count": 1, "stats": {}}

    def client(self, **more: Any) -> Client:
        """A client of it."""
        return Client("http://kinbin.test", transport=httpx.MockTransport(self), **more)


READS: dict[str, Callable[..., Any]] = {
    "query": lambda c, **more: c.query([1.0], **more),
    "query_id": lambda c, **more: c.query_id("a", **more),
    "query_batch": lambda c, **more: c.query_batch([[1.0]], **more),
    "query_each": lambda c, **more: c.query_each([Query([1.0])], **more),
    "query_examples": lambda c, **more: c.query_examples(["a"], **more),
    "options": lambda c, **more: c.query([1.0], options=QueryOptions(**more)),
    "get": lambda c, **more: c.get(["a"], **more),
    "facets": lambda c, **more: c.facets("f", **more),
    "counted": lambda c, **more: c.counted(**more),
}


@pytest.mark.parametrize("name", READS)
def test_reads_carry_a_token_and_take_a_part(name: str) -> None:
    """The token travels in its header, allow_partial in the body, and the answer tells which shards are missing; neither unasked."""
    gateway = Gateway()
    with gateway.client() as client:
        answer = READS[name](client.collection("c"), after="t1", allow_partial=True)
        READS[name](client.collection("c"))
    (_, after, body), (_, unasked, plain) = gateway.asked
    assert (after, body["allow_partial"]) == ("t1", True)
    assert (answer.partial, answer.shards_missing) == (True, [1])
    assert unasked is None
    assert "allow_partial" not in plain
    assert "after" not in body


def test_a_matrix_carries_them_in_its_address() -> None:
    """A batch that travels as a matrix has its token in the header, and allow_partial in the address."""
    numpy = pytest.importorskip("numpy")
    gateway = Gateway()
    with gateway.client() as client:
        batch = client.query_batch(numpy.ones((1, 2)), after="t1", allow_partial=True)
    assert gateway.asked[0][1] == "t1"
    assert "allow_partial=true" in gateway.asked[0][2]
    assert batch.partial


def test_what_cannot_say_that_it_is_of_a_part_takes_none() -> None:
    """Count, versions, stats and info wait for a token; allow_partial they refuse, as their answer is a number, or always whole."""
    gateway = Gateway()
    with gateway.client() as client:
        collection: Any = client.collection("c")
        assert collection.count(after="t1") == 3
        collection.versions(["a"], after="t1")
        collection.info(after="t1")
        assert [after for _, after, _ in gateway.asked] == ["t1"] * 3
        for refused in (collection.count, collection.info):
            with pytest.raises(TypeError, match="allow_partial"):
                refused(allow_partial=True)
        with pytest.raises(InvalidArgument, match="query_each"):
            collection.query_each([Query([1.0], options=QueryOptions(after="t1"))])


def test_scrolls_take_the_token_beside_their_cursor() -> None:
    """Of scroll, pages and items `after` is a cursor, in the body, and `token` the header."""
    gateway = Gateway()
    with gateway.client() as client:
        collection = client.collection("c")
        assert collection.scroll("cursor", token="t1", allow_partial=True).partial
        list(collection.items(token="t1", allow_partial=True))
    told = [(after, body["after"], body["allow_partial"]) for _, after, body in gateway.asked]
    assert told == [("t1", "cursor", True), ("t1", None, True)]


def test_an_add_of_several_requests_has_one_token_for_all() -> None:
    """It names of each shard the furthest sequence; a write on one server has none."""
    gateway = Gateway(token("u", s0=5, s1=7), token("u", s1=9, s2=1))
    with gateway.client() as client:
        done = client.collection("c").add(["a", "b"], [[1.0], [2.0]], chunking=Chunking(max_items=1))
        assert done.token == token("u", s0=5, s1=9, s2=1)
        assert client.collection("c").delete(["a"]).token is None


def test_tokens_join_as_far_as_they_are_understood() -> None:
    """Of another collection, or of another form, the later one counts."""
    assert joined([None, None]) is None
    assert joined([token("u", s0=5), token("v", s0=1)]) == token("v", s0=1)
    assert joined([token("u", s0=5), "later form"]) == "later form"


def write_and_read(collection: Any) -> list[Any]:
    """Two adds and a count."""
    return [collection.add(["a"], [[1.0]]), collection.add(["b"], [[1.0]]), collection.count()]


def test_reads_wait_for_the_writes_of_their_client() -> None:
    """With read_your_writes a read waits for all writes to that name, and to no other; without it for none."""
    gateway = Gateway(token("u", s0=5), token("u", s1=2))
    with gateway.client(read_your_writes=True) as client:
        write_and_read(client.collection("c"))
        client.collection("d").count()
        client.collection("c").count(after=token("u", s0=9))
    assert [after for _, after, _ in gateway.asked] == [None, None, token("u", s0=5, s1=2), None, token("u", s0=9, s1=2)]
    plain = Gateway(token("u", s0=5), token("u", s1=2))
    with plain.client() as client:
        write_and_read(client.collection("c"))
    assert [after for _, after, _ in plain.asked] == [None, None, None]


async def test_the_awaited_client_does_the_same() -> None:
    """Its reads wait for its own writes."""
    gateway = Gateway(token("u", s0=5))
    async with AsyncClient("http://kinbin.test", transport=httpx.MockTransport(gateway), read_your_writes=True) as client:
        collection = client.collection("c")
        reads: list[Callable[[], Awaitable[Any]]] = [collection.count, lambda: collection.get(["a"])]
        await collection.add(["a"], [[1.0]])
        for read in reads:
            await read()
    assert [after for _, after, _ in gateway.asked] == [None, token("u", s0=5), token("u", s0=5)]


def test_a_name_that_leads_elsewhere_is_read_without_the_old_token() -> None:
    """After an alias was moved the read is sent again without it, and later ones at once; a token that was given is refused."""
    gateway = Gateway(token("u", s0=5))
    with gateway.client(read_your_writes=True) as client:
        collection: Collection = client.collection("c")
        collection.add(["a"], [[1.0]])
        gateway.uid = "v"
        assert [collection.count(), collection.count()] == [3, 3]
        assert [after for _, after, _ in gateway.asked[1:]] == [token("u", s0=5), None, None]
        with pytest.raises(InvalidInput):
            collection.count(after=token("u", s0=5))


def test_an_option_that_there_is_not_is_refused() -> None:
    """A client, and a read, refuse names that they do not know."""
    with pytest.raises(TypeError, match="read_your_write"):
        Client(read_your_write=True)  # type: ignore[call-arg]


async def test_a_new_collection_says_how_it_lies_on_the_nodes() -> None:
    """`cluster` travels as it is, and is told of a collection that is there; without it nothing is said, as one server knows it not."""
    bodies: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.content:
            bodies.append(json.loads(request.content))
        about = {"name": "c", "count": 0, "stats": {}, "cluster": {"shards": 4, "replicas": 2}}
        return httpx.Response(201 if request.method == "PUT" else 200, json=about)

    spread = {"shards": 4, "replicas": 2}
    with Client("http://kinbin.test", transport=httpx.MockTransport(answer)) as client:
        assert client.create_collection("c", dim=3, cluster=spread).info().cluster == spread
        client.create_collection("c", dim=3)
        client.create_collection("c", items="strings", cluster={"shards": 2})
        with pytest.raises(InvalidArgument, match="cluster are a mapping"):
            client.create_collection("c", cluster=4)  # type: ignore[arg-type]
    async with AsyncClient("http://kinbin.test", transport=httpx.MockTransport(answer)) as awaited:
        await awaited.create_collection("c", fields={"a": {"dim": 2}}, cluster=spread)
    assert [body.get("cluster") for body in bodies] == [spread, None, {"shards": 2}, spread]
    assert "cluster" not in bodies[1]


def test_one_server_says_that_it_is_no_cluster(tmp_path: Path) -> None:
    """It refuses `cluster` in words that say why, and makes nothing."""
    with Client(path=tmp_path / "db") as client:
        with pytest.raises(InvalidInput, match="cluster: this is not a cluster, but one server"):
            client.create_collection("c", dim=3, cluster={"shards": 4})
        assert client.collections() == []
        client.create_collection("c", dim=3, cluster=None)
