"""The OpenAPI file names every error of every route: each is driven into all that it can be refused with, and held against the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

import kinbin
from kinbin_service.documented import PROBLEMS
from kinbin_service.openapi import COMMITTED
from kinbin_service.problems import CODES
from service_app import App, running_app

DOCUMENT = orjson.loads(COMMITTED.read_bytes())
OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
KEY = "key-of-the-test"
BIG = "99999999999"
WRITES = {"add_items", "add_items_default", "create_collection", "delete_items", "drop_collection"}
NEVER = {"body_timeout", "buffers_full", "overloaded", "deadline", "cancelled"}
"""What takes a slow or a crowded service, which other tests have (test_admission, test_gates)."""
ITEM = {"id": "a", "vector": [1, 2]}

DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"a": DEEP}
TERMS = {"$or": [{"a": 1}] * 300}
"""More conditions than a filter has."""

Sent = tuple[dict[str, str], bytes]
"""Headers and body."""


JSON = {"content-type": "application/json"}


def json_of(content: Any) -> Sent:
    """A JSON body."""
    return JSON, orjson.dumps(content)


BODIES: dict[str, list[Any]] = {
    "add_items": [
        {"items": [ITEM], "mode": "insert"}, {"items": [ITEM, ITEM]}, {"items": [{"id": "", "vector": [1, 2]}]},
        {"items": [{"id": "a", "vector": [1, -1]}]}, {"items": [{"id": "a", "vectors": {"x": [1]}}]},
        {"items": [{"id": "a", "vector": [1]}]}, {"items": [{"id": "a", "vector": [0, 0]}]}, {"items": [{"id": "a", "vector": [1, 1e20]}]},
        {"items": [{"id": "a", "vector": "x"}]}, {"items": [{"id": "a", "string": "x"}]}, {"items": [{"id": "a", "series": "x"}]},
        {"items": [{"id": "a", "vector": {"indices": [1, 1], "values": [1, 2]}}]}, {"items": [ITEM | {"payload": DEEP}]},
        {"items": [ITEM | {"payload": {"a": "x" * 70_000}}]},
    ],
    "query": [
        {"vector": [1]}, {"vector": [1, -1]}, {"vector": [0, 0]}, {"vector": [1, 1e20]}, {"vector": "x"},
        {"id": "no"}, {"id": ""}, {"series": "x"},
        {"vector": {"indices": [1, 1], "values": [1, 2]}}, {"vector": [1, 2], "filter": {"$x": 1}}, {"vector": [1, 2], "k": 1_001},
        {"vector": [1, 2], "exclude": [""]}, {"vector": [1, 2], "cursor": "x"}, {"positive": ["no", "a"]}, {"queries": [{"id": "no"}]},
        {"vector": [1, 2], "min_score": 7},
    ],
    "get_items": [{"ids": [""]}, {"ids": ["a"] * 10_001}, {"ids": ["a"], "include": ["x"]}],
    "delete_items": [{"ids": [""]}, {"filter": {"$x": 1}}, {"filter": TERMS}, {"ids": ["a"], "filter": {}}],
    "scroll_items": [{"after": "!"}, {"filter": {"$x": 1}}, {"filter": TERMS}, {"limit": 0}],
    "count_items": [{"filter": {"$x": 1}}, {"filter": TERMS}],
    "create_collection": [{"dim": 10**9}, {"kernel": "x"}, {"dim": 3}, {"bands": 9_999, "rows": 99}, {"dim": 2, "fields": {}}],
}  # fmt: skip
BODIES |= {"add_items_default": BODIES["add_items"], "query_default": BODIES["query"]}
NPY = {"content-type": "application/x-npy"}
RAW: dict[str, list[Sent]] = {
    "add_items": [(NPY, b"x"), ({"content-type": "multipart/form-data; boundary=b"}, b"x"), (NPY | {"x-kinbin-ids": "[1]"}, b"x")],
    "query": [(NPY, b"x")],
}
RAW |= {"add_items_default": RAW["add_items"], "query_default": RAW["query"]}
"""Bodies that are not JSON."""
ANY_BODY: list[Sent] = [
    *map(json_of, ([], {}, {"unknown": 1}, {"ids": 7, "items": 7, "vector": 7, "limit": "x", "filter": 7, "dim": "x"})),
    *(
        ({"content-type": "application/json"}, body)
        for body in (b"", b"{", b"\xff", b'{"ids":[NaN]}', b'{"kernel":"\\ud800","id":"\\ud800"}')
    ),
    ({"content-type": "text/plain"}, b"x"),
    ({"content-type": "application/json", "content-encoding": "br"}, b"x"),
]
GATES: list[tuple[dict[str, str], str]] = [
    ({"authorization": "Bearer wrong"}, ""),
    ({"host": "elsewhere.example"}, ""),
    ({"origin": "http://elsewhere.example"}, ""),
    ({"content-length": BIG}, ""),
    ({"content-length": "x"}, ""),
    ({}, "?api_key=x"),
]
FAILURES: list[kinbin.KinbinError] = [
    kinbin.StorageError("x"), kinbin.StorageBusy("x"), kinbin.CorruptData("x"), kinbin.FormatMismatch("x"), kinbin.Closed("x"),
    kinbin.CollectionNotFound("x"),
]  # fmt: skip


class Failing:
    """A database whose every call fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise self.error

        return fail


class Drive:
    """Sends requests to one route, and notes with which errors they are answered."""

    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.method, self.path, self.operation = OPERATIONS[name]
        self.seen: set[str] = set()

    async def send(self, headers: dict[str, str], body: bytes = b"", collection: str = "c", query: str = "") -> None:
        """One request, whose answer must be one that the file has."""
        path = self.path.replace("{name}", collection)
        given = {"authorization": f"Bearer {KEY}", **headers}
        response = await self.app.client.request(self.method.upper(), path + query, content=body, headers=given)
        self.note(response)

    def note(self, response: httpx.Response) -> None:
        """Hold one answer against the file."""
        told = (self.path, response.status_code, response.text[:300])
        assert str(response.status_code) in self.operation["responses"], told
        if response.status_code >= 400:
            code = response.json()["code"]
            assert code in self.operation[PROBLEMS], told
            self.seen.add(code)


@pytest.fixture(params=OPERATIONS)
def name(request: pytest.FixtureRequest) -> str:
    """Every route."""
    return str(request.param)


def good_body(name: str) -> Sent:
    """A body that the route takes."""
    bodies: dict[str, Any] = {
        "add_items": {"items": [ITEM]}, "query": {"vector": [1, 2]}, "get_items": {"ids": ["a"]}, "delete_items": {"ids": ["b"]},
        "create_collection": {"dim": 2},
    }  # fmt: skip
    return json_of(bodies.get(name.removesuffix("_default"), {})) if OPERATIONS[name][0] in {"post", "put"} else ({}, b"")


async def test_every_route_names_its_errors(name: str, tmp_path: Path) -> None:
    """Each answer to bad requests, failing storage and states of the service has its status and code in the file; no code is idle."""
    async with running_app(tmp_path / "data", api_key=KEY, allowed_hosts="localhost") as app:
        drive = Drive(app, name)
        database = app.service.database
        for made in ("c", "default"):
            database.create_collection(made, kernel="minmax", dim=2).add(["a"], [[1, 2]])
        await drive.send(*good_body(name), collection="d" if name == "drop_collection" else "c")
        for headers, query in GATES:
            await drive.send(headers, query=query)
        for sent in (*ANY_BODY, *RAW.get(name, ()), *map(json_of, BODIES.get(name, ()))):
            await drive.send(*sent)
        if name.startswith("query"):
            await drive.send(*json_of({"vector": [1, 2], "cursor": following(app, drive)}))
        for collection in ("none", "A", "x" * 64):
            await drive.send(*good_body(name), collection=collection)
        await break_down(drive, name)
        idle = set(drive.operation[PROBLEMS]) - drive.seen - NEVER - UNFORESEEN.get(name, set())
        assert not idle, "declared, and never seen"


def following(app: App, drive: Drive) -> str:
    """The cursor of a second page, after which something was written."""
    collection = app.service.database.collection("c" if "{name}" in drive.path else "default")
    collection.add(["b", "c"], [[2, 2], [3, 2]])
    cursor = collection.query([1, 2], k=1, cursor="").next
    collection.add(["d"], [[1, 5]])
    assert cursor is not None
    return cursor


async def break_down(drive: Drive, name: str) -> None:
    """The service in all its states, and a store that fails in all ways."""
    service = drive.app.service
    states: tuple[Any, ...] = ("starting", "stopping", "failed")
    for state in states:
        service.state = state
        await drive.send(*good_body(name))
    service.state = "ready"
    database: Any = service.database
    if "overloaded" in drive.operation[PROBLEMS]:
        for error in [*FAILURES, *([kinbin.StorageFull("x")] if name in WRITES else [])]:
            if isinstance(error, kinbin.CollectionNotFound) and "collection_not_found" not in drive.operation[PROBLEMS]:
                continue
            failing: Any = Failing(error)
            service.database = failing
            await drive.send(*good_body(name))
    service.database = database


UNFORESEEN = {"list_limits": {"internal"}}
"""Errors that nobody foresees, of routes that do nothing that could fail."""


def test_operations_have_names_to_call_them_by() -> None:
    """Operation ids are words that stay: these, and those of routes to come, are lower case and say nothing of methods and paths."""
    assert {
        "add_items", "add_items_default", "query", "query_default", "get_items", "delete_items", "scroll_items", "count_items",
        "create_collection", "get_collection", "drop_collection", "list_collections", "livez", "readyz", "healthz", "list_limits",
    } <= OPERATIONS.keys()  # fmt: skip
    for name in OPERATIONS:
        assert name.isidentifier()
        assert name == name.lower()
        assert "__" not in name
        assert not name.endswith(("_get", "_post", "_put", "_delete"))
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values())


def test_the_contract_has_the_version_of_the_package() -> None:
    """One version: that of the package."""
    assert DOCUMENT["info"]["version"] == kinbin.__version__


def test_statuses_are_those_of_the_codes() -> None:
    """A route has a response for the status of each of its codes, and for no other error."""
    for _, _, operation in OPERATIONS.values():
        errors = {int(status) for status in operation["responses"] if int(status) >= 400}
        assert errors == {CODES[code].status for code in operation[PROBLEMS]}
