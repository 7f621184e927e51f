"""The OpenAPI file names every error of every route: each is driven into all that it can be refused with, and held against the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

import kinbin
from kinbin_service.bodies import NDJSON, SNAPSHOT
from kinbin_service.documented import PROBLEMS, route, without
from kinbin_service.key_file import line_of
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
NARROW = "key-that-may-nothing-here"
BIG = "99999999999"
NEVER = {"body_timeout", "buffers_full", "overloaded", "deadline", "search_deadline"} | {
    "head_timeout", "head_too_large", "too_many_connections", "outcome_unknown",
}  # fmt: skip
"""What takes a slow, crowded or stopping service, which other tests have: test_admission, _gates, _connections and _streaming."""
ITEM = {"id": "a", "vector": [1, 2]}

DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"a": DEEP}
TERMS = {"$or": [{"a": 1}] * 300}
"""More conditions than a filter has."""


class Sent(NamedTuple):
    """One request to a route."""

    headers: dict[str, str]
    body: bytes = b""
    collection: str | None = None
    """None: the one that the route is meant for."""
    query: str = ""


JSON = {"content-type": "application/json"}


def json_of(content: Any, **headers: str) -> Sent:
    """A JSON body."""
    return Sent(JSON | headers, orjson.dumps(content))


MOST_SAMPLED = int(kinbin.LIMITS["tuned_rows"].value)
BODIES: dict[str, list[Any]] = {
    "add_items": [
        {"items": [ITEM], "mode": "insert"}, {"items": [ITEM, ITEM]}, {"items": [{"id": "", "vector": [1, 2]}]},
        {"items": [{"id": "a", "vector": [1, -1]}]}, {"items": [{"id": "a", "vectors": {"x": [1]}}]},
        {"items": [{"id": "a", "vector": [1]}]}, {"items": [{"id": "a", "vector": [0, 0]}]}, {"items": [{"id": "a", "vector": [1, 1e20]}]},
        {"items": [{"id": "a", "vector": "x"}]}, {"items": [{"id": "a", "string": "x"}]}, {"items": [{"id": "a", "series": "x"}]},
        {"items": [{"id": "a", "vector": {"indices": [1, 1], "values": [1, 2]}}]}, {"items": [ITEM | {"payload": DEEP}]},
        {"items": [ITEM | {"payload": {"a": "x" * 70_000}}]}, {"items": [ITEM | {"if_version": 7}]},
    ],
    "query": [
        {"vector": [1]}, {"vector": [1, -1]}, {"vector": [0, 0]}, {"vector": [1, 1e20]}, {"vector": "x"},
        {"id": "no"}, {"id": ""}, {"series": "x"},
        {"vector": {"indices": [1, 1], "values": [1, 2]}}, {"vector": [1, 2], "filter": {"$x": 1}}, {"vector": [1, 2], "k": 1_001},
        {"vector": [1, 2], "exclude": [""]}, {"vector": [1, 2], "cursor": "x"}, {"positive": ["no", "a"]}, {"queries": [{"id": "no"}]},
        {"vector": [1, 2], "min_score": 7},
    ],
    "get_items": [{"ids": [""]}, {"ids": ["a"] * 10_001}, {"ids": ["a"], "include": ["x"]}],
    "delete_items": [{"ids": [""]}, {"filter": {"$x": 1}}, {"filter": TERMS}, {"ids": ["a"], "filter": {}},
        {"ids": ["a"], "if_versions": []}, {"ids": ["a", "a"], "if_versions": [1, 1]}, {"ids": ["a"], "if_versions": [1]},
    ],
    "scroll_items": [{"after": "!"}, {"filter": {"$x": 1}}, {"filter": TERMS}, {"limit": 0}],
    "count_items": [{"filter": {"$x": 1}}, {"filter": TERMS}],
    "create_collection": [{"dim": 10**9}, {"kernel": "x"}, {"dim": 3}, {"bands": 9_999, "rows": 99}, {"dim": 2, "fields": {}}],
    "write_payloads": [
        {"items": [{"id": "", "payload": {}}]}, {"items": [{"id": "a", "payload": {}}] * 2}, {"items": [{"id": "no", "payload": {}}]},
        {"items": [{"id": "a", "payload": DEEP}]}, {"items": [{"id": "a", "payload": {"a": "x" * 70_000}}]},
        {"items": [{"id": "a", "payload": {}, "if_version": 7}]}, {"items": [{"id": "a", "payload": {}}], "mode": "x"},
    ],
    "change_indexes": [{"add": {"a": "x"}}, {"add": {"": "number"}}, {"add": {f"f{n}": "number" for n in range(99)}}, {"drop": ["no"]}],
    "count_facets": [{"field": "a", "filter": {"$x": 1}}, {"field": "a", "filter": TERMS}, {"field": ""}, {"field": "a", "limit": 0}],
    "find_duplicates": [
        {"min_score": 0.5, "filter": {"$x": 1}}, {"min_score": 0.5, "filter": TERMS}, {"min_score": 7}, {"as": "x"},
        {"min_score": 1, "limit": 0},
    ],
    "explain": [
        {"vector": [1], "id": "a"}, {"vector": [1, -1], "id": "a"}, {"vector": [0, 0], "id": "a"}, {"vector": [1, 1e20], "id": "a"},
        {"vector": "x", "id": "a"}, {"query_id": "no", "id": "a"}, {"query_id": "a", "id": "no"}, {"query_id": "a", "id": ""},
        {"series": "x", "id": "a"}, {"vector": {"indices": [1, 1], "values": [1, 2]}, "id": "a"}, {"vector": [1, 2], "id": "a", "k": 1_001},
        {"vector": [1, 2], "id": "a", "feature_names": {"x": "y"}}, {"query_id": "a", "id": "a", "field": "x"},
    ],
    "map_items": [
        {"filter": {"$x": 1}}, {"filter": TERMS}, {"sample": 0}, {"sample": 9_999}, {"method": "x"}, {"fields": ["a..b"]}, {"field": "x"},
    ],
    "put_limits": [{"items": -1}, {"bytes": 2**63}, {"items": "x"}],
    "put_alias": [{"collection": "none"}, {"collection": "A"}, {"collection": "other"}],
    "create_snapshot": [{"keep": 0}, {"keep": "x"}],
    "tune": [{"k": 101}, {"sample": 0}, {"choices": [{"rows": 9, "bands": 1}]}],
    "given_recall": [
        {"queries": queries}
        for queries in (
            [[1]], [[1, -1]], [[0, 0]], [[1, 1e20]], ["x"], [{"series": "x"}], [{"indices": [1, 1], "values": [1, 2]}],
            [[1, 2]] * (MOST_SAMPLED + 1),
        )
    ],
    "rebuild": [{"rows": 9}, {"bands": "x"}],
}  # fmt: skip
BODIES |= {"add_items_default": BODIES["add_items"], "query_default": BODIES["query"]}
NPY = {"content-type": "application/x-npy"}
LINES = {"content-type": NDJSON}
STREAMED = "?stream=true"
RAW: dict[str, list[Sent]] = {
    "add_items": [
        Sent(NPY, b"x"),
        Sent({"content-type": "multipart/form-data; boundary=b"}, b"x"),
        Sent(NPY | {"x-kinbin-ids": "[1]"}, b"x"),
        json_of({"items": [{"id": "k", "vector": [1, 2]}]}, **{"idempotency-key": "k"}),
        json_of({"items": [{"id": "k", "vector": [1, 3]}]}, **{"idempotency-key": "k"}),
        *(Sent(LINES, line, query=STREAMED) for line in (b"{", b'{"id":""}', b'{"id":"","vector":[1,2]}', b'{"id":"a","vector":[1]}')),
        Sent(JSON, b"{}", query=STREAMED),
        Sent(LINES, b"", query=STREAMED + "&after=x"),
        Sent(LINES | {"content-encoding": "gzip"}, b"x", query=STREAMED),
    ],
    "query": [Sent(NPY, b"x")],
    "create_collection": [Sent(*json_of({"dim": 2})[:2], "alias")],
    "drop_collection": [Sent({}, collection="alias"), Sent({}, collection="c"), Sent({}, query="?damaged=x")],
    "put_alias": [Sent(*json_of({"collection": "c"})[:2], "c")],
    "drop_alias": [Sent({}, collection="none")],
    "tune": [Sent(JSON, b"{}", "words")],
    "rebuild": [Sent(JSON, b"{}", "words")],
    "given_recall": [
        Sent(JSON, b'{"queries":[{"string":"a"}],"modes":["bands"]}', "words"),
        Sent(JSON, b'{"queries":[{"string":7}]}', "words"),
    ],
    "sampled_recall": [
        Sent({}, query="?queries=x"),
        Sent({}, query=f"?queries={MOST_SAMPLED + 1}"),
        Sent({}, query="?k=1001"),
        Sent({}, collection="words", query="?modes=bands"),
    ],
    "get_snapshot": [Sent({"range": "bytes=99999999-"})],
    "restore": [Sent({"content-type": SNAPSHOT}, b"x", query="?name=new"), Sent({"content-type": SNAPSHOT}, b"x")],
}
RAW |= {"add_items_default": RAW["add_items"], "query_default": RAW["query"]}
"""Bodies that are not JSON, and names and parameters of one route alone."""
ANY_BODY: list[Sent] = [
    *map(json_of, ([], {}, {"unknown": 1}, {"ids": 7, "items": 7, "vector": 7, "limit": "x", "filter": 7, "dim": "x"})),
    *(Sent(JSON, body) for body in (b"", b"{", b"\xff", b'{"ids":[NaN]}', b'{"kernel":"\\ud800","id":"\\ud800"}', b'{"id":"\\ud800"}')),
    Sent({"content-type": "text/plain"}, b"x"),
    Sent(JSON | {"content-encoding": "br"}, b"x"),
    Sent(JSON | {"content-encoding": "gzip"}, b"x"),
]
GATES: list[Sent] = [
    Sent({"authorization": "Bearer wrong"}),
    Sent({"authorization": f"Bearer {NARROW}"}),
    Sent({"host": "elsewhere.example"}),
    Sent({"origin": "http://elsewhere.example"}),
    Sent({"content-length": BIG}),
    Sent({"content-length": "x"}),
    Sent({}, query="?api_key=x"),
]
FAILURES: list[kinbin.KinbinError] = [
    kinbin.StorageError("x"), kinbin.StorageBusy("x"), kinbin.CorruptData("x"), kinbin.FormatMismatch("x"), kinbin.Closed("x"),
    kinbin.CollectionNotFound("x"), kinbin.StorageFull("x"),
]  # fmt: skip
NOT_OF_ALL = {"collection_not_found", "storage_full"}
"""Of these failures, what a call fails with only where the file says so."""
CROWDED = kinbin.InvalidInput.of("over_limit", "x", field="name", limit="collections")
"""A database that has as many collections as it may have."""


class Failing:
    """A database whose every call fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.snapshots = self

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise self.error

        return fail


class Drive:
    """Sends requests to one route, and notes with which errors they are answered."""

    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.method, self.path, self.operation = OPERATIONS[name]
        self.usual = {"drop_collection": "d", "put_alias": "new", "drop_alias": "alias"}.get(name, "c")
        self.snapshot = "none"
        self.seen: set[str] = set()

    async def send(self, sent: Sent) -> None:
        """One request, whose answer must be one that the file has."""
        path = self.path.replace("{name}", sent.collection or self.usual).replace("{id}", self.snapshot)
        given = {"authorization": f"Bearer {KEY}", **sent.headers}
        self.note(await self.app.client.request(self.method.upper(), path + sent.query, content=sent.body, headers=given))

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
        "create_collection": {"dim": 2}, "write_payloads": {"items": [{"id": "a", "payload": {}}]}, "count_facets": {"field": "a"},
        "explain": {"query_id": "a", "id": "a"}, "find_duplicates": {"min_score": 0.5}, "given_recall": {"queries": [[1, 2]]},
        "put_alias": {"collection": "c"}, "restore": {"collection": "c", "snapshot": "none", "name": "new"},
    }  # fmt: skip
    return json_of(bodies.get(name.removesuffix("_default"), {})) if OPERATIONS[name][0] in {"post", "put"} else Sent({})


@pytest.mark.slow
async def test_every_route_names_its_errors(name: str, tmp_path: Path) -> None:
    """Each answer to bad requests, failing storage and states of the service has its status and code in the file; no code is idle."""
    keys = tmp_path / "keys"
    keys.write_text(line_of(NARROW, "narrow", "backup", ["elsewhere"]))
    async with running_app(tmp_path / "data", api_key=KEY, api_keys_file=keys, allowed_hosts="localhost") as app:
        drive = Drive(app, name)
        database = app.service.database
        for made in ("c", "default"):
            database.create_collection(made, kernel="minmax", dim=2).add(["a"], [[1, 2]])
        database.create_collection("words", items="strings", distance="levenshtein").add(["a"], ["a"])
        database.alias("alias", "c")
        special = kept(drive, database) if "snapshots" in OPERATIONS[name][2]["tags"] else []
        await drive.send(good_body(name))
        for sent in (*GATES, *ANY_BODY, *RAW.get(name, ()), *special, *map(json_of, BODIES.get(name, ()))):
            await drive.send(sent)
        if name.startswith("query"):
            await drive.send(json_of({"vector": [1, 2], "cursor": following(app, drive)}))
        for collection in ("none", "A", "x" * 64):
            await drive.send(good_body(name)._replace(collection=collection))
        await break_down(drive, name)
        idle = set(drive.operation[PROBLEMS]) - drive.seen - NEVER - UNFORESEEN.get(name, set())
        assert not idle, "declared, and never seen"


def kept(drive: Drive, database: kinbin.Database) -> list[Sent]:
    """Make the snapshot that routes are asked about; what is sent to restore it: kept ones, and an upload that is damaged."""
    drive.snapshot = str(database.snapshots.create("c").id)
    if drive.path != "/v1/restore":
        return []
    data = bytearray(database.snapshots.path("c", drive.snapshot).read_bytes())
    data[len(data) // 2] ^= 1
    names = [json_of({"collection": "c", "snapshot": drive.snapshot, "name": name}) for name in ("new", "new", "alias", "A")]
    return [*names, Sent({"content-type": SNAPSHOT}, bytes(data), query="?name=other")]


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
        await drive.send(good_body(name))
    service.state = "ready"
    database: Any = service.database
    declared = set(drive.operation[PROBLEMS])
    for error in [*FAILURES, *([CROWDED] if name == "restore" else [])] if "overloaded" in declared else []:
        if error.code in NOT_OF_ALL - declared:
            continue
        failing: Any = Failing(error)
        service.database = failing
        await drive.send(good_body(name))
    service.database = database


UNFORESEEN = {"list_limits": {"internal"}, "metrics": {"internal"}}
"""Errors that nobody foresees, of routes that do nothing that could fail."""


def test_operations_have_names_to_call_them_by() -> None:
    """Operation ids are words that stay: these, and those of routes to come, are lower case and say nothing of methods and paths."""
    assert {
        "add_items", "add_items_default", "query", "query_default", "get_items", "delete_items", "scroll_items", "count_items",
        "create_collection", "get_collection", "drop_collection", "list_collections", "livez", "readyz", "healthz", "list_limits",
        "metrics", "write_payloads", "change_indexes", "count_facets", "explain", "find_duplicates", "map_items", "put_limits",
        "get_limits", "put_alias", "drop_alias", "list_aliases", "create_snapshot", "list_snapshots", "get_snapshot", "delete_snapshot",
        "verify_snapshot", "restore", "tune",
        "sampled_recall", "given_recall", "rebuild",
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


def test_a_route_takes_codes_and_nothing_else() -> None:
    """A status, which would promise all of its codes, and a word that is no code are refused, and so is taking off what is not there."""
    for refusals in ({404}, {"no_such_code"}):
        wrong: Any = frozenset(refusals)
        with pytest.raises(AssertionError, match="no codes"):
            route("x", None, refusals=wrong)
    with pytest.raises(AssertionError, match="not declared"):
        without(route("x", None), "bad_name")
