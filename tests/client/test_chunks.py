"""Large adds and batches are cut within their limits, carry every item once and in order, and lose no digit."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from kinbin_client import Chunking, InvalidArgument
from kinbin_client._chunks import Chunk, add_chunks, query_chunks
from kinbin_client._options import QueryOptions
from kinbin_client._requests import DEFAULT_SCOPE
from kinbin_client._terms import AddTerms
from kinbin_client.retry import Repeat


def add(ids: Any, vectors: Any, payloads: Any = None, mode: Any = "upsert", **limits: int) -> list[Chunk]:
    """All requests of an add."""
    return list(add_chunks(DEFAULT_SCOPE, ids, vectors, payloads, AddTerms(mode), Chunking(**limits))[1])


def body(chunk: Chunk) -> Any:
    """The JSON of a chunk."""
    assert chunk.request.headers == {"content-type": "application/json"}
    return json.loads(chunk.request.body or b"")


def matrix(chunk: Chunk) -> Any:
    """The matrix of a chunk."""
    assert chunk.request.headers["content-type"] == "application/x-npy"
    return np.load(io.BytesIO(chunk.request.body or b""), allow_pickle=False)


def header_ids(chunk: Chunk) -> list[str]:
    """The ids in the header of a chunk."""
    ids: list[str] = json.loads(chunk.request.headers["x-kinbin-ids"])
    return ids


@given(
    st.lists(st.text(max_size=40), unique=True, max_size=30),
    st.integers(min_value=1, max_value=12),
    st.integers(min_value=1, max_value=900),
)
def test_json_chunks_hold_every_item_once(ids: list[str], max_items: int, max_bytes: int) -> None:
    """Whatever the limits, the chunks hold all items in order, and none passes a limit unless it holds one item only."""
    payloads = [{"n": n} if n % 2 else None for n in range(len(ids))]
    chunks = add(ids, [[n, 0.5] for n in range(len(ids))], payloads, max_items=max_items, max_bytes=max_bytes)
    items = [item for chunk in chunks for item in body(chunk)["items"]]
    assert [item["id"] for item in items] == ids
    assert [item["vector"] for item in items] == [[n, 0.5] for n in range(len(ids))]
    assert [item.get("payload") for item in items] == payloads
    assert sum(chunk.size for chunk in chunks) == len(ids)
    for chunk in chunks:
        assert chunk.size <= max_items
        assert chunk.size <= 1 or len(chunk.request.body or b"") <= max_bytes + len('{"mode":"upsert","items":[]}')


def test_add_of_nothing_is_one_request() -> None:
    """What an add of nothing means, the service says."""
    assert [body(chunk) for chunk in add([], [])] == [{"mode": "upsert", "items": []}]
    assert [body(chunk) for chunk in add([], np.ones((0, 3), np.float32))] == [{"mode": "upsert", "items": []}]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8, ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrix_travels_as_float32(dtype: Any, order: Any) -> None:
    """A matrix of real numbers, in any order of bytes and of memory, travels as the float32 matrix that NumPy reads."""
    rows = np.asarray(np.arange(12).reshape(4, 3) * 3, dtype=dtype, order=order)
    (chunk,) = add(list("abcd"), rows)
    assert chunk.request.path == "/index?mode=upsert"
    assert header_ids(chunk) == list("abcd")
    assert matrix(chunk).dtype == np.dtype("<f4")
    assert (len(chunk.request.body or b"") - 4 * rows.size) % 64 == 0, "the format aligns the numbers"
    np.testing.assert_array_equal(matrix(chunk), rows.astype(np.float32))


def test_part_of_a_matrix_travels_as_it_is() -> None:
    """Strided and reversed views travel as the numbers they show."""
    rows = np.arange(48, dtype=np.float32).reshape(6, 8)[::-2, 1::3]
    (chunk,) = add(list("abc"), rows)
    np.testing.assert_array_equal(matrix(chunk), rows)


@pytest.mark.parametrize("mode", ["insert", "update"])
def test_mode_of_a_matrix_stands_in_the_address(mode: Any) -> None:
    """The mode of a matrix is a parameter of the address; such an add may be repeated, as it has a key."""
    (chunk,) = add(["a"], np.ones((1, 2), np.float32), mode=mode)
    assert chunk.request.path == f"/index?mode={mode}"
    assert chunk.request.repeat is Repeat.ALWAYS
    assert len(chunk.request.headers["idempotency-key"]) == 32


LONG_IDS = [f"{number:03d}-" + "ж" * 125 for number in range(300)]


@given(st.lists(st.text(min_size=1, max_size=255), unique=True, min_size=1, max_size=400))
@example(LONG_IDS)
@example([str(number) for number in range(900)])
def test_header_of_ids_stays_small(ids: list[str]) -> None:
    """Whatever the ids, the header is ASCII, under 32 kB unless one id alone is larger, and the rows stay with their ids."""
    rows = np.arange(2 * len(ids), dtype=np.float32).reshape(-1, 2)
    chunks = add(ids, rows)
    assert (len(chunks) > 1) is (sum(len(json.dumps(name)) + 1 for name in ids) > 30_000)
    assert [name for chunk in chunks for name in header_ids(chunk)] == ids
    np.testing.assert_array_equal(np.concatenate([matrix(chunk) for chunk in chunks]), rows)
    for chunk in chunks:
        header = chunk.request.headers["x-kinbin-ids"]
        assert header.isascii()
        assert header.isprintable()
        assert len(header) < 32_000
        assert matrix(chunk).shape == (chunk.size, 2)


def test_matrix_is_cut_by_bytes_and_items() -> None:
    """A matrix is cut by both limits; a row that alone passes the limit on bytes travels alone."""
    rows = np.ones((10, 100), np.float32)
    ids = [str(n) for n in range(10)]
    assert [chunk.size for chunk in add(ids, rows, max_items=4)] == [4, 4, 2]
    assert [chunk.size for chunk in add(ids, rows, max_bytes=1_200)] == [3, 3, 3, 1]
    assert [chunk.size for chunk in add(ids, rows, max_bytes=1)] == [1] * 10


@pytest.mark.parametrize(
    ("vectors", "payloads"),
    [
        (np.ones((2, 2), np.float32), [{"a": 1}, None]),
        (np.ones((2, 2)) * 1e39, None),
        ([[1, 1], [1, 1]], None),
        (sparse.csr_array(np.ones((2, 2))), None),
        ([np.ones(2), np.ones(2)], None),
    ],
)
def test_what_float32_cannot_hold_travels_as_json(vectors: Any, payloads: Any) -> None:
    """Payloads, values beyond float32 and anything but a matrix travel as JSON."""
    (chunk,) = add(["a", "b"], vectors, payloads)
    assert len(body(chunk)["items"]) == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_value_that_is_not_finite_is_located(bad: float) -> None:
    """A matrix with a value that is not finite is refused with the row, before that row is sent."""
    rows = np.ones((5, 3), np.float32)
    rows[3, 1] = bad
    with pytest.raises(InvalidArgument, match="item 3: values are finite numbers, this vector has a NaN or an infinity"):
        add(list("abcde"), rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["a"], [[1], [2]]), "2 vectors came with 1 ids"),
        ((["a", "b"], [[1], [2]], [None]), "1 payloads came with 2 ids"),
        ((["a", "b", "a"], [[1], [2], [3]]), "item 2: the id 'a' is at position 0 already"),
        ((["a", "b", "a"], np.ones((3, 1), np.float32)), "item 2: the id 'a' is at position 0 already"),
        ((["a"], [[1]], [object()]), "item 0: a payload is a JSON object"),
        ((["a"], np.ones((1, 2), bool)), "item 0: vectors are numbers, this array has dtype bool"),
        ((["a"], np.ma.masked_array(np.ones((1, 2)))), "masked arrays are not taken"),
        ((["a", "b"], [[1], "no"]), "item 1: a vector is"),
    ],
)
def test_add_that_cannot_be_sent_is_refused(arguments: Any, words: str) -> None:
    """Lengths that differ, repeated ids and items without a JSON form are refused with their position."""
    with pytest.raises(InvalidArgument, match=words):
        add(*arguments)


@pytest.mark.parametrize("limits", [{"max_items": 0}, {"max_bytes": 0}])
def test_chunk_holds_something(limits: Any) -> None:
    """Limits that no chunk can keep are refused."""
    with pytest.raises(InvalidArgument):
        Chunking(**limits)


def test_queries_of_a_matrix_keep_their_digits() -> None:
    """A matrix of queries travels with all its digits: float32 as float32, everything else as float64."""
    for dtype, sent in ((np.float32, "<f4"), (np.float64, "<f8"), (np.int64, "<f8"), (np.float16, "<f4")):
        rows = (np.arange(6).reshape(3, 2) / 3).astype(dtype)
        options = QueryOptions(k=5, min_score=0.25, certify=True, include=("payload", "vector"))
        total, (chunk,) = query_chunks(DEFAULT_SCOPE, rows, options, Chunking())
        assert total == len(rows)
        assert matrix(chunk).dtype == np.dtype(sent)
        np.testing.assert_array_equal(matrix(chunk), rows)
        path, _, parameters = chunk.request.path.partition("?")
        assert path == "/query"
        assert parse_qs(parameters) == {
            "k": ["5"],
            "target_recall": ["0.9"],
            "mode": ["auto"],
            "include": ["payload,vector"],
            "min_score": ["0.25"],
            "certify": ["true"],
        }


def test_queries_with_a_filter_travel_as_json() -> None:
    """A filter has no place in an address: such queries travel as JSON."""
    _, (chunk,) = query_chunks(DEFAULT_SCOPE, np.ones((2, 2)), QueryOptions(k=5, filter={"a": 1}), Chunking())
    assert body(chunk) == {
        "k": 5,
        "target_recall": 0.9,
        "mode": "auto",
        "include": [],
        "filter": {"a": 1},
        "queries": [[1.0, 1.0], [1.0, 1.0]],
    }


@pytest.mark.parametrize(
    ("k", "include", "sizes"), [(10, ("payload",), [1_000, 1_000, 500]), (100, ("vector",), [100] * 25), (1_000, (), [1_000, 1_000, 500])]
)
@pytest.mark.parametrize("form", [np.array, list])
def test_queries_are_cut_by_the_size_of_their_answer(k: int, include: Any, sizes: list[int], form: Any) -> None:
    """One request asks for no more results, payloads and vectors than the service returns for one."""
    vectors = form([[1.0, 2.0]] * 2_500)
    assert [chunk.size for chunk in query_chunks(DEFAULT_SCOPE, vectors, QueryOptions(k=k, include=include), Chunking())[1]] == sizes
