"""Matrices and lines: the same items and answers as with JSON, and bodies that lie."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from processor_time import at_most
from service_app import App, judged, problem

NPY = {"content-type": "application/x-npy"}
LINES = {"content-type": "application/x-ndjson"}


def npy(array: NDArray[Any], **options: Any) -> bytes:
    """An array as the bytes of an .npy file."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


async def send(app: App, path: str, content: bytes, status: int = 200, *, ids: str | None = None) -> Any:
    """The answer to an npy body, with ids in the header if they are given."""
    headers = NPY if ids is None else {**NPY, "x-kinbin-ids": ids}
    return judged(await app.client.post(path, content=content, headers=headers), status)


@pytest.mark.parametrize("ids", ['["a","b","c"]', "a,b,c", " a , b , c "])
async def test_a_matrix_adds_the_same_items_as_json(app: App, ids: str) -> None:
    """Rows of a matrix with ids in the header are stored as the same vectors in JSON are."""
    matrix = np.array([[1, 2, 3], [0.5, 0, 0], [0, -4, 0]], np.float32)
    done = await send(app, "/index", npy(matrix), ids=ids)
    assert (done["indexed"], done["count"]) == (3, 3)
    assert "ids" not in done
    again = await app.post("/index", {"items": [{"id": name, "vector": row.tolist()} for name, row in zip("abc", matrix, strict=True)]})
    assert again["unchanged"] == 3


async def test_ids_of_other_scripts_travel_in_the_header(app: App) -> None:
    """Ids that are not ASCII come as escapes of a JSON array or as UTF-8."""
    matrix = npy(np.ones((1, 3), np.float32))
    await send(app, "/index", matrix, ids=json.dumps(["é€"]))
    response = await app.client.post(
        "/index", content=matrix, headers=[(b"content-type", b"application/x-npy"), (b"x-kinbin-ids", "ñ".encode())]
    )
    judged(response, 200)
    assert set((await app.state())["default"]) == {"é€", "ñ"}


async def test_made_ids_are_returned_unique_and_sortable(app: App) -> None:
    """Without the header the answer names an id for every row, in row order, later requests sorting later."""
    first = (await send(app, "/index", npy(np.ones((20, 3), np.float32) * np.arange(1, 21)[:, None])))["ids"]
    await asyncio.sleep(0.002)
    second = (await send(app, "/index", npy(np.eye(3, dtype=np.float32))))["ids"]
    assert first + second == sorted(first + second)
    assert len(set(first + second)) == 23
    stored = await app.post("/v1/collections/default/get", {"ids": second, "include": ["vector"]})
    assert [item["vector"] for item in stored["items"]] == np.eye(3).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
        '{"descr": "<f4", "fortran_order": False, "shape": (2, 3)}',
        "{ 'descr' : '<f4', 'fortran_order': False, 'shape': (2, 3,), }      \n",
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
async def test_headers_of_other_writers_are_read(app: App, text: str, version: tuple[int, int]) -> None:
    """The order of keys, quotes, spaces and commas of a header do not matter."""
    await send(app, "/index", header(text, version) + np.arange(1, 7, dtype="<f4").tobytes(), ids="a,b")
    assert (await app.state())["default"]["b"]["vector"] == [4.0, 5.0, 6.0]


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
async def test_both_widths_and_both_orders_are_read(app: App, dtype: str, order: Any) -> None:
    """float32 and float64, row-major and column-major, give the same vectors."""
    matrix = np.asarray([[1, 2, 3], [4, 5, 6]], dtype=dtype, order=order)
    await send(app, "/index", npy(matrix), ids="a,b")
    assert (await app.state())["default"]["b"]["vector"] == [4.0, 5.0, 6.0]


async def test_a_matrix_of_queries_gives_an_answer_each(app: App) -> None:
    """The answers to a matrix are those to the same queries in JSON; options stand in the address."""
    await app.post("/index", {"items": [{"id": f"i{n}", "vector": [1, n, 3], "payload": {"n": n}} for n in range(6)]})
    matrix = np.array([[1, 2, 3], [1, 5, 3]], np.float32)
    batch = await send(app, "/query?k=2&mode=exact&min_score=0.5&include=payload,vector&target_recall=0.5", npy(matrix))
    same = await app.post(
        "/query",
        {"queries": matrix.tolist(), "k": 2, "mode": "exact", "min_score": 0.5, "include": ["payload", "vector"], "target_recall": 0.5},
    )
    assert batch["answers"] == same["answers"]
    assert [answer["results"][0]["id"] for answer in batch["answers"]] == ["i2", "i5"]
    assert len((await send(app, "/query", npy(matrix[:1])))["answers"]) == 1


async def test_lines_add_the_same_items_as_json(app: App) -> None:
    """NDJSON adds one item a line, in one transaction; blank lines and CRLF do not matter; mode stands in the address."""
    lines = b'{"id":"a","vector":[1,2,3],"payload":{"n":1}}\r\n\n{"id":"b","vector":{"indices":[0],"values":[2]}}\n'
    done = judged(await app.client.post("/index?mode=insert", content=lines, headers=LINES), 200)
    assert done["indexed"] == 2
    stored = (await app.state())["default"]
    assert stored["a"] == {"id": "a", "vector": [1.0, 2.0, 3.0], "payload": {"n": 1}}
    assert stored["b"]["vector"] == [2.0, 0.0, 0.0]
    refused = judged(await app.client.post("/index?mode=insert", content=lines, headers=LINES), 409)
    assert [entry["pointer"] for entry in refused["errors"]] == ["#/items/0/id", "#/items/1/id"]


@pytest.mark.parametrize(
    ("lines", "status", "code", "pointer", "told"),
    [
        (b'{"id":"a","vector":[1,2]}\n{"id":"b","vector":[1,', 400, "bad_json", "#/items/1", "line 2: not JSON, at character 22"),
        (
            b'{"id":"a","vector":[1,2]}\n\n{"id":"b","vector":[1,NaN]}',
            422,
            "non_finite",
            "#/items/1/vector/1",
            "line 3: a number is not finite, at character 22",
        ),
        (
            b'{"id":"a","vector":[1,2]}\n{"id":"\\ud800","vector":[1,2]}',
            422,
            "bad_id",
            "#/items/1/id",
            "line 2: a string holds half of a surrogate pair",
        ),
        (b'{"id":"a","vector":[1,2]}\n{"id":"b"}', 422, "invalid_field", "#/items/1/vector", "line 2: vector: this field is required"),
        (
            b'{"id":"a","vector":[1,2]}\n{"id":"b","vector":[0,0]}',
            422,
            "zero_vector",
            "#/items/1/vector",
            "line 2: a vector has at least one value",
        ),
        (b'{"id":"a","vector":[1,2]},{"id":"b","vector":[1,2]}', 400, "bad_json", "#/items/0", "line 1: "),
        (b'{"items":[{"id":"a","vector":[1,2]}]}', 422, "invalid_field", "#/items/0/id", "line 1: id: this field is required"),
        (b"\n".join([b'{"id":"a","vector":[1]}'] * 10_001), 422, "over_limit", "#/items", "items: at most 10000"),
        ("[]".encode("utf-16"), 400, "bad_json", "#/items/0", "line 1: "),
        (b"[" * 5_000, 400, "bad_json", "#/items/0", "line 1: "),
        (
            b'{"id":"a","vector":[1]}\n\n{"id":"b","vector":[1]}\n\n\n{"id":"b","vector":[2]}',
            422,
            "duplicate_id",
            "#/items/2/id",
            "line 6: the same id is on line 3 already; send each id once",
        ),
    ],
)
async def test_bad_lines_are_refused_whole(app: App, lines: bytes, status: int, code: str, pointer: str, told: str) -> None:
    """A bad line refuses the whole body; its pointer counts the lines that are not blank, and its text names the line itself."""
    refused = judged(await app.client.post("/index", content=lines, headers=LINES), status)
    assert (refused["code"], refused["errors"][0]["pointer"]) == (code, pointer)
    assert refused["detail"].startswith(told)
    assert await app.state() == {}


def header(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    """The head of an .npy file with any text."""
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text.encode("latin-1")


HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }\n"

BAD_MATRICES: dict[str, tuple[bytes, int, str, str]] = {
    "not npy": (b"hello", 400, "bad_npy", "not that of a matrix"),
    "empty": (b"", 400, "bad_npy", "not that of a matrix"),
    "an npz file": (b"PK\x03\x04" + b"\0" * 100, 400, "bad_npy", "not that of a matrix"),
    "half a header": (npy(np.ones((2, 3), np.float32))[:30], 400, "bad_npy", "not that of a matrix"),
    "an unknown version": (header(HEAD % "1, 3", (9, 0)) + b"\0" * 12, 400, "bad_npy", "not that of a matrix"),
    "code in the header": (header("__import__('os').system('true')"), 400, "bad_npy", "not that of a matrix"),
    "a huge header": (header(HEAD % "1, 3" + " " * 60_000), 400, "bad_npy", "not that of a matrix"),
    "a key twice": (header("{'descr': '<f4', 'descr': '<f4', 'shape': (1, 3), }") + b"\0" * 12, 400, "bad_npy", "not that of a matrix"),
    "a truncated length": (b"\x93NUMPY\x01\x00", 400, "bad_npy", "not that of a matrix"),
    "values of other keys": (header("{'descr': True, 'fortran_order': (1, 3), 'shape': '<f4', }"), 400, "bad_npy", "not that of a matrix"),
    "a nested header": (header("(" * 900), 400, "bad_npy", "not that of a matrix"),
    "truncated": (npy(np.ones((2, 3), np.float32))[:-1], 400, "bad_npy", "announces 24 bytes of entries, and 23 follow"),
    "too long": (npy(np.ones((2, 3), np.float32)) + b"\0", 400, "bad_npy", "announces 24 bytes of entries, and 25 follow"),
    "4 TB announced": (header(HEAD % "1000000000, 1000"), 400, "bad_npy", "announces 4,000,000,000,000 bytes"),
    "a size beyond 64 bits": (header(HEAD % "9999999999999999, 9999999999999999"), 400, "bad_npy", "and 0 follow"),
    "a negative shape": (header(HEAD % "-1, 3"), 400, "bad_npy", "not that of a matrix"),
    "objects": (npy(np.array([[{}, None]], object), allow_pickle=True), 422, "invalid_field", "float32 or float64"),
    "integers": (npy(np.ones((2, 3), np.int64)), 422, "invalid_field", "float32 or float64"),
    "booleans": (npy(np.ones((2, 3), np.bool_)), 422, "invalid_field", "float32 or float64"),
    "big-endian": (npy(np.ones((2, 3), ">f4")), 422, "invalid_field", "float32 or float64"),
    "half precision": (npy(np.ones((2, 3), np.float16)), 422, "invalid_field", "float32 or float64"),
    "complex": (npy(np.ones((2, 3), np.complex64)), 422, "invalid_field", "float32 or float64"),
    "records": (npy(np.zeros((2, 3), [("a", "<f4")])), 400, "bad_npy", "not that of a matrix"),
    "strings": (npy(np.array([["a", "b"]])), 422, "invalid_field", "float32 or float64"),
    "one dimension": (npy(np.ones(3, np.float32)), 422, "invalid_field", "two dimensions"),
    "no dimension": (npy(np.array(3, np.float32)), 422, "invalid_field", "two dimensions"),
    "three dimensions": (npy(np.ones((1, 2, 3), np.float32)), 422, "invalid_field", "two dimensions"),
    "no rows": (npy(np.ones((0, 3), np.float32)), 422, "invalid_field", "is empty"),
    "no columns": (npy(np.ones((3, 0), np.float32)), 422, "invalid_field", "is empty"),
    "too many rows": (npy(np.ones((10_001, 1), np.float32)), 422, "over_limit", "at most 10,000"),
    "NaN": (npy(np.array([[1, np.nan, 3]], np.float32)), 422, "non_finite", ""),
    "infinity": (npy(np.array([[1, 2, np.inf]], np.float64)), 422, "non_finite", ""),
    "out of float32": (npy(np.array([[1, 2, 1e300]], np.float64)), 422, "out_of_range", ""),
    "a zero row": (npy(np.array([[1, 2, 3], [0, 0, 0]], np.float32)), 422, "zero_vector", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_MATRICES)
async def test_matrices_that_lie_are_refused_before_anything_is_allocated(app: App, name: str) -> None:
    """A malformed matrix is 400 or 422 for adds and queries, in a moment, and nothing is written."""
    content, status, code, detail = BAD_MATRICES[name]
    with at_most(5):
        refused = await send(app, "/index", content, status)
        assert (refused["code"], detail in refused["detail"]) == (code, True), refused
        assert await app.state() == {}
        await app.put("/v1/collections/default", {"dim": 3})
        assert (await send(app, "/query", content, status))["code"] in (code, "dimension_mismatch")


async def test_the_row_of_a_bad_number_is_named(app: App) -> None:
    """NaN in a matrix is named by the row's pointer, for adds and for queries."""
    matrix = np.ones((5, 3), np.float32)
    matrix[3, 1] = np.nan
    assert (await send(app, "/index", npy(matrix), 422))["errors"][0]["pointer"] == "#/items/3/vector"
    await app.put("/v1/collections/default", {"dim": 3})
    assert (await send(app, "/query", npy(matrix), 422))["errors"][0]["pointer"] == "#/queries/3"


@pytest.mark.parametrize(
    ("ids", "code"),
    [("a,b", "invalid_field"), ("a,b,c,d", "invalid_field"), ("a,,c", "bad_id"), ("a,b,a", "duplicate_id"), ("", "invalid_field"),
     ('["a","b"', "bad_id"),
     ('["a","b",7.5]', "bad_id"), ('["a","7",7]', "duplicate_id"), ('["a","b","\\ud800"]', "bad_id"), ('["a","b",null]', "bad_id")],
)  # fmt: skip
async def test_bad_ids_of_a_matrix_are_refused(app: App, ids: str, code: str) -> None:
    """Ids that are missing, repeated or no ids refuse the whole matrix."""
    refused = await send(app, "/index", npy(np.ones((3, 3), np.float32)), 422, ids=ids)
    assert refused["code"] == code
    assert await app.state() == {}


@pytest.mark.parametrize(
    "parameters", ["k=ten", "k=0", "k=1.5", "mode=fast", "include=all", "target_recall=2", "min_score=nan", "colour=red", "filter={}"]
)
async def test_bad_options_of_a_matrix_are_refused(app: App, parameters: str) -> None:
    """Options in the address are validated as those in a body are."""
    await app.put("/v1/collections/default", {"dim": 3})
    response: httpx.Response = await app.client.post(f"/query?{parameters}", content=npy(np.ones((1, 3), np.float32)), headers=NPY)
    assert response.status_code == 422
    assert problem(response)["code"] == "invalid_field"


class Unread(list[float]):
    """A vector whose numbers may not be looked at."""

    def __iter__(self) -> Iterator[float]:
        raise AssertionError("the numbers were walked")

    def __getitem__(self, place: Any) -> Any:
        raise AssertionError("the numbers were walked")


def test_a_bulk_add_is_parsed_without_walking_its_numbers() -> None:
    """Of 10,000 × 128 as JSON the envelope is validated and the vectors are passed on as they are: numpy looks at them, once."""
    from kinbin_service.schemas.requests import AddRequest
    from kinbin_service.schemas.validation import validate

    row = Unread([0.5] * 128)
    value = {"items": [{"id": f"i{number}", "vector": row, "payload": {"n": number}} for number in range(10_000)]}
    asked = validate(AddRequest, value)
    assert len(asked.items) == 10_000
    assert all(item["vector"] is row for item in asked.items)
