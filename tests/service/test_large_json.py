"""Large JSON bodies: read in pieces they are what orjson makes of them, and they are read outside of the event loop."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_service import large_json
from kinbin_service.large_json import LARGE_BYTES, compacted, loads
from kinbin_service.service import Service
from service_app import App

TEXTS = st.text(alphabet='ab"\\[]{},: \n€\U0001f600', max_size=8)
NUMBERS = st.one_of(st.integers(-9, 9), st.floats(-9, 9), st.integers(2**70, 2**80))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Arrays and objects of values, with the names that are looked at among others."""
    names = st.one_of(st.sampled_from(["items", "queries", "vector", "vectors"]), TEXTS)
    return st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner, max_size=4), st.lists(NUMBERS, min_size=16, max_size=18))


VALUES = st.recursive(st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS), nested, max_leaves=12)


@pytest.fixture(params=[(1, 1), (9, 13)])
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and blocks of a few bytes, so that short texts have many."""
    monkeypatch.setattr(large_json, "LARGE_BYTES", 0)
    monkeypatch.setattr(large_json, "_PIECE_BYTES", request.param[0])
    monkeypatch.setattr(large_json, "_BLOCK_BYTES", request.param[1])


def plain(value: Any) -> Any:
    """A value with lists in the place of arrays, and integers as arrays hold them: 64-bit floats, which not all are."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, int) and abs(value) > 2**53:
        return float(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def same(text: bytes) -> None:
    """See that a text is read as orjson reads it, or refused at the same place for the same reason."""
    expected, refused = outcome(orjson.loads, text), outcome(loads, text)
    assert refused == expected


def outcome(read: Callable[[bytes], Any], text: bytes) -> Any:
    """What a text is read as, or where and why it is refused."""
    try:
        return "read", plain(read(text))
    except orjson.JSONDecodeError as error:
        return "refused", error.pos, error.msg


@pytest.mark.usefixtures("small_pieces")
class TestPieces:
    """Texts of many pieces."""

    @given(content=VALUES, indent=st.sampled_from([None, 0, 2]), ascii_only=st.booleans())
    def test_any_text_is_read_as_it_is(self, content: Any, indent: int | None, ascii_only: bool) -> None:
        """Values of all shapes, with quotes, backslashes and brackets in their strings and any white space, come out as from orjson."""
        same(json.dumps(content, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace"))

    @pytest.mark.slow
    @given(content=st.dictionaries(TEXTS, st.lists(VALUES, min_size=2, max_size=6), min_size=1, max_size=3), data=st.data())
    def test_broken_texts_are_refused_as_they_are(self, content: Any, data: st.DataObject) -> None:
        """A text with a byte changed, taken out or put in is refused where and as orjson refuses it, or read as it reads it."""
        text = bytearray(json.dumps(content, ensure_ascii=False).encode())
        at = data.draw(st.integers(0, len(text) - 1))
        put = data.draw(st.sampled_from([b"", b",", b"]", b"[", b'"', b"\\", b"}", b"5", b" ", b"\xff"]))
        same(bytes(text[:at] + put + text[at + data.draw(st.integers(0, 1)) :]))

    @pytest.mark.parametrize(
        "text",
        [
            b'{"items":[{"a":1},]}', b'{"items":[,{"a":1}]}', b'{"items":[{"a":1}{"a":2}]}', b'{"items":[{"a":1},,{"a":2}]}',
            b'{"items":[{"a":1},5]}', b'{"items":[5,{"a":1},"x",[2],7]}', b'{"items":[[1],[2]],"items":[[3]]}', b'{"items":[[1],[2]]',
            b'{"items":[[1],[2]]}}', b'{"items":[[1],[2]] , "k" : 3}', b'[[1],[2]]', b'{"items":[[1]]}x', b'{"a":{"b":[[1],[2]]}}',
            b'{"items":[[1],[2]}}',
            b'{"items":[["\\\\"],["\\\\\\""],["]"]]}', b"", b"[", b'"', b'{"a":[[1],[2]],"b":[[3],[4],[5]]}', b'{"items":[{"a":1}   ]}',
        ],
    )  # fmt: skip
    def test_awkward_texts(self, text: bytes) -> None:
        """Commas too many or too few, keys that occur twice, other arrays, and escapes at every border."""
        same(text)


@pytest.mark.usefixtures("small_pieces")
def test_an_integer_that_no_float_is_becomes_the_nearest_one() -> None:
    """Of vectors, whose values are floats."""
    same(b'{"items":[' + b"0," * 16 + b"11805916207174113034]}")


def test_vectors_become_arrays_and_nothing_else_does() -> None:
    """Lists of numbers are arrays of the very same float64, where vectors stand; booleans, texts, huge numbers and short lists stay."""
    numbers = [0.1, -2, 1e300, *range(20)]
    item = compacted({"id": "a", "vector": [*numbers], "payload": {"vector": [*numbers]}, "series": [*numbers]})
    assert item["vector"].dtype == np.float64
    assert item["vector"].tolist() == numbers
    assert item["payload"]["vector"] == item["series"] == numbers
    assert isinstance(compacted([*numbers]), np.ndarray)
    assert isinstance(compacted({"vectors": {"a": [*numbers]}})["vectors"]["a"], np.ndarray)
    for other in ([True, *numbers], ["1", *numbers], [None, *numbers], [10**400, *numbers], [1.5], []):
        assert compacted({"vector": other})["vector"] is other


@pytest.fixture
def large() -> bytes:
    """An add of more than 64 KiB, of vectors of all forms."""
    rng = np.random.default_rng(5)
    items: list[dict[str, Any]] = [
        {"id": str(i), "vector": rng.normal(size=64).astype(np.float32).tolist(), "payload": {"t": '"[\\', "i": i}} for i in range(120)
    ]
    items.append({"id": "int", "vector": [*range(1, 65)]})
    items.append({"id": "sparse", "vector": {"indices": [3, 7], "values": [1.5, 2]}})
    text = orjson.dumps({"items": items, "mode": "insert"})
    assert len(text) > LARGE_BYTES
    return text


def test_escapes_keep_no_text_from_being_cut(large: bytes) -> None:
    """A text with quotes, brackets and backslashes in its strings is read in pieces: all its vectors are arrays."""
    assert b'\\"[\\\\' in large
    assert all(isinstance(item["vector"], np.ndarray) for item in loads(large)["items"][:121])


async def test_large_adds_store_what_small_ones_store(app: App, large: bytes) -> None:
    """Items of one large body, and the same one by one, are the same to the bit; so are they as lines; and queries of them answer alike."""
    content = orjson.loads(large)
    for name in ("large", "small", "lines"):
        await app.put(f"/v1/collections/{name}", {"dim": 64})
    assert (await app.post("/v1/collections/large/index", large))["indexed"] == 122
    for item in content["items"]:
        await app.post("/v1/collections/small/index", {"items": [item]})
    lines = b"\n".join(map(orjson.dumps, content["items"]))
    await app.post("/v1/collections/lines/index", lines, headers={"content-type": "application/x-ndjson"})
    state = await app.state()
    assert state["large"] == state["small"] == state["lines"]
    queries = [item["vector"] for item in content["items"][:120]]
    for name in ("large", "small"):
        answers = (await app.post(f"/v1/collections/{name}/query", {"queries": queries, "k": 3}))["answers"]
        assert [answer["results"][0]["id"] for answer in answers] == [str(i) for i in range(120)]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"vector": [1.0] * 63}, "#/items/100/vector"),
        ({"vector": [True] * 64}, "#/items/100/vector"),
        ({"vector": [1e39] * 64}, "#/items/100/vector"),
        ({"vector": [0] * 64}, "#/items/100/vector"),
        ({"vector": "text"}, "#/items/100/vector"),
        ({"id": 5.5}, "#/items/100/id"),
    ],
)
async def test_large_adds_are_refused_as_small_ones(app: App, large: bytes, change: dict[str, Any], pointer: str) -> None:
    """A bad item deep in a large body is refused with its place and the words that a small body gets, and nothing is written."""
    content = orjson.loads(large)
    await app.put("/v1/collections/a", {"dim": 64})
    bad = content["items"][100] | change
    small = await app.post("/v1/collections/a/index", {"items": [bad]}, status=422)
    content["items"][100] = bad
    refused = await app.post("/v1/collections/a/index", orjson.dumps(content), status=422)
    assert (refused["code"], refused["detail"]) == (small["code"], small["detail"])
    assert refused["errors"][0]["pointer"] == pointer
    assert (await app.post("/v1/collections/a/count", {}))["count"] == 0


@pytest.fixture
def parsed_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The threads in which JSON was read, in order."""
    threads: list[str] = []

    def noting(text: bytes) -> Any:
        threads.append(threading.current_thread().name.split("_")[0])
        return loads(text)

    monkeypatch.setattr("kinbin_service.bodies.large_json.loads", noting)
    return iter([threads])


async def test_large_bodies_are_read_outside_of_the_event_loop(app: App, large: bytes, parsed_in: Iterator[list[str]]) -> None:
    """Bodies over 64 KiB are read in a thread of their own, on every route; smaller ones at once."""
    (threads,) = parsed_in
    await app.put("/v1/collections/a", {"dim": 64})
    await app.post("/v1/collections/a/index", large)
    await app.post("/v1/collections/a/query", {"queries": [item["vector"] for item in orjson.loads(large)["items"][:100]]})
    await app.post("/v1/collections/a/get", {"ids": [f"{i:0100d}" for i in range(1_000)]})
    assert threads == ["MainThread", "kinbin-parse", "kinbin-parse", "kinbin-parse"]
    assert isinstance(app.service, Service)
