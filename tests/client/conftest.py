"""The services that the client is tested against: one in memory that holds to the REST contract, and the real one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import urllib.parse
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.lib.format import read_array_header_1_0, read_magic

import kinbin
from forking import popen
from kinbin_client import AsyncClient, Client, Collection, KinbinClientError, Timeout
from service_app import warm_up_once
from service_process import free_port
from typescript_package import Run, runner

API_KEY = "canary-key-4711"
QUERY_FIELDS = {"vector", "id", "queries", "k", "target_recall", "min_score", "mode", "certify", "filter", "include", "include_self"}


# ---------------------------------------------------------------------------------- a service in memory


class Refused(Exception):
    """What the service in memory answers with a problem document."""

    def __init__(self, status: int, code: str, pointer: str | None = None, limit: str | None = None) -> None:
        super().__init__(code)
        errors = [] if pointer is None else [{"pointer": pointer, "detail": "this one"}]
        self.answer = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": f"because of {code}"}
        self.answer |= {"errors": errors, "limit": limit, "a_field_of_later": 1}
        self.status = status


def check(condition: object, status: int, code: str, pointer: str | None = None) -> None:
    """Refuse unless a condition holds."""
    if not condition:
        raise Refused(status, code, pointer)


def ngmm(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """The kernel in its plainest form, on {feature: weight}."""
    sums = [sum(abs(value) for value in vector.values()) for vector in (first, second)]
    parts = [{(f, v > 0): abs(v) / total for f, v in vector.items()} for vector, total in zip((first, second), sums, strict=True)]
    smaller = sum(min(value, parts[1].get(feature, 0.0)) for feature, value in parts[0].items())
    return smaller / (2 - smaller)


def features(raw: Any, pointer: str) -> dict[Any, float]:
    """A vector of the wire as {feature: weight} without zeros."""
    if isinstance(raw, list):
        found: dict[Any, float] = dict(enumerate(raw))
    elif set(raw) == {"indices", "values"}:
        found = dict(zip(raw["indices"], raw["values"], strict=True))
    else:
        check(set(raw) == {"tokens"}, 422, "bad_vector", pointer)
        found = raw["tokens"]
    check(all(type(value) in (int, float) for value in found.values()), 422, "bad_vector", pointer)
    kept = {feature: value for feature, value in found.items() if value}
    check(kept, 422, "zero_vector", pointer)
    return kept


def matrix_of(body: bytes) -> list[list[float]]:
    """The rows of an .npy body."""
    stream = io.BytesIO(body)
    assert read_magic(stream) == (1, 0)
    shape, fortran_order, dtype = read_array_header_1_0(stream)
    assert not fortran_order
    assert dtype.str in ("<f4", "<f8")
    rows: list[list[float]] = np.frombuffer(body, dtype, offset=stream.tell()).reshape(shape).tolist()
    return rows


class FakeKinbin:
    """The REST contract over dictionaries: strict about requests, and with fields of later versions in its answers."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, Any]] = {}
        self.stored: dict[str, dict[str, dict[str, Any]]] = {}
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        path = request.url.raw_path.decode().partition("?")[0]
        try:
            check(request.headers.get("authorization") == f"Bearer {API_KEY}" or path in ("/healthz", "/readyz"), 401, "unauthorized")
            status, answer = self.route(request, path)
        except Refused as refused:
            body, headers = json.dumps(refused.answer), {"content-type": "application/problem+json", "x-request-id": "r1"}
            return httpx.Response(refused.status, content=body, headers=headers)
        return httpx.Response(status, json={**answer, "a_field_of_later": {"x": 1}})

    def route(self, request: httpx.Request, path: str) -> tuple[int, dict[str, Any]]:
        """Find the handler of a request."""
        if path in ("/healthz", "/readyz"):
            return 200, {"status": "ready", "version": "0.1.0"}
        if path == "/v1/limits":
            return 200, {"limits": [{"name": "k", "value": 1000, "unit": "neighbours", "reason": "because", "later": 1}]}
        if path == "/v1/collections":
            return 200, {"collections": sorted(self.configs)}
        if path in ("/index", "/query"):
            return 200, self.items("default", path[1:], request)
        name, _, action = path.removeprefix("/v1/collections/").partition("/")
        if action:
            return 200, self.items(name, action, request)
        return self.manage(name, request)

    def manage(self, name: str, request: httpx.Request) -> tuple[int, dict[str, Any]]:
        """PUT, GET and DELETE of a collection."""
        if request.method == "PUT":
            config = json.loads(request.content)
            assert set(config) == {"kernel", "dim", "sampler", "bands", "rows", "seed"}
            status = 200 if name in self.configs else 201
            check(self.configs.setdefault(name, config) == config, 409, "collection_exists")
            self.stored.setdefault(name, {})
            return status, self.describe(name)
        check(name in self.configs, 404, "collection_not_found")
        if request.method == "DELETE":
            del self.configs[name], self.stored[name]
            return 200, {"dropped": name}
        return 200, self.describe(name)

    def describe(self, name: str) -> dict[str, Any]:
        """A collection as it is answered."""
        config = {field: value for field, value in self.configs[name].items() if field != "seed"}
        return {"name": name, **config, "count": len(self.stored[name]), "stats": {"runs": []}}

    def items(self, name: str, action: str, request: httpx.Request) -> dict[str, Any]:
        """The routes of one collection."""
        assert request.method == "POST"
        asked = self.parse(action, request)
        if action == "index" and name == "default":
            self.configs.setdefault(name, {"kernel": "ngmm", "dim": None, "sampler": None, "bands": None, "rows": None, "seed": None})
            self.stored.setdefault(name, {})
        check(name in self.configs, 404, "collection_not_found")
        handler: Callable[..., dict[str, Any]] = getattr(self, f"do_{action}")
        return handler(self.stored[name], **asked)

    def parse(self, action: str, request: httpx.Request) -> dict[str, Any]:
        """The arguments of a request with a JSON body or a matrix."""
        if request.headers["content-type"] == "application/json":
            assert not request.url.query
            asked: dict[str, Any] = json.loads(request.content)
            return asked
        assert request.headers["content-type"] == "application/x-npy"
        rows = matrix_of(request.content)
        given: dict[str, Any] = dict(urllib.parse.parse_qsl(request.url.query.decode(), keep_blank_values=True))
        if action == "index":
            ids = json.loads(request.headers["x-kinbin-ids"])
            return {**given, "items": [{"id": id_, "vector": row} for id_, row in zip(ids, rows, strict=True)]}
        given["include"] = [part for part in given["include"].split(",") if part]
        numbers: dict[str, Any] = {name: float(given[name]) for name in ("target_recall", "min_score") if name in given}
        if "certify" in given:
            given["certify"] = {"true": True, "false": False}[given["certify"]]
        return {**given, **numbers, "k": int(given["k"]), "queries": rows}

    def do_index(self, stored: dict[str, Any], *, items: list[dict[str, Any]], mode: str) -> dict[str, Any]:
        """Add items, all or none."""
        check(items, 422, "invalid_field", "#/items")
        counts = {"indexed": 0, "updated": 0, "unchanged": 0}
        fresh = {}
        for position, item in enumerate(items):
            assert set(item) <= {"id", "vector", "payload"}
            vector = features(item["vector"], f"#/items/{position}/vector")
            new = {"raw": item["vector"], "vector": vector, "payload": item.get("payload")}
            check((item["id"] in stored) == (mode == "update") or mode == "upsert", 409, "item_conflict", f"#/items/{position}/id")
            before = stored.get(item["id"])
            counts["indexed" if before is None else "unchanged" if before == new else "updated"] += 1
            fresh[item["id"]] = new
        stored.update(fresh)
        return {**counts, "count": len(stored), "took_ms": 1.5}

    def do_query(self, stored: dict[str, Any], **asked: Any) -> dict[str, Any]:
        """Answer one vector, one id, or many vectors, by a scan."""
        assert set(asked) <= QUERY_FIELDS
        check(1 <= asked["k"] <= 1000, 422, "over_limit", "#/k")
        if "queries" in asked:
            check(asked["queries"], 422, "invalid_field", "#/queries")
            vectors = [features(raw, f"#/queries/{position}") for position, raw in enumerate(asked["queries"])]
            return {"answers": [self.nearest(stored, vector, asked) for vector in vectors], "took_ms": 2.5}
        if "id" in asked:
            check(asked["id"] in stored, 404, "unknown_id")
            others = stored if asked.get("include_self") else {id_: item for id_, item in stored.items() if id_ != asked["id"]}
            return self.nearest(others, stored[asked["id"]]["vector"], asked) | {"took_ms": 0.5}
        return self.nearest(stored, features(asked["vector"], "#/vector"), asked) | {"took_ms": 0.5}

    def nearest(self, stored: dict[str, Any], vector: dict[Any, float], asked: dict[str, Any]) -> dict[str, Any]:
        """The best k by a scan."""
        scored = [(ngmm(vector, item["vector"]), id_) for id_, item in stored.items() if self.fits(item, asked.get("filter"))]
        least = asked.get("min_score")
        kept = sorted((pair for pair in scored if least is None or pair[0] >= least), key=lambda pair: (-pair[0], pair[1]))
        hits = [{"score": score, **self.shown(stored, id_, asked["include"]), "later": 1} for score, id_ in kept[: asked["k"]]]
        return {"results": hits, "recall_lower_bound": 1.0, "mode": "exact", "candidates": 0, "verified": len(scored), "truncated": []}

    def fits(self, item: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
        """Whether a payload fits a filter of equalities and $gte."""
        payload = item["payload"] or {}
        for field, wanted in (conditions or {}).items():
            if isinstance(wanted, dict):
                check(set(wanted) == {"$gte"}, 422, "bad_filter", "#/filter")
                if not payload.get(field, float("-inf")) >= wanted["$gte"]:
                    return False
            elif payload.get(field) != wanted:
                return False
        return True

    def shown(self, stored: dict[str, Any], id_: str, include: Sequence[str]) -> dict[str, Any]:
        """An item as it is answered."""
        item = stored[id_]
        vector = item["raw"]
        if isinstance(vector, dict) and "tokens" in vector:
            vector = {"indices": [zlib.crc32(token.encode()) for token in vector["tokens"]], "values": list(vector["tokens"].values())}
        content = {"payload": item["payload"], "vector": vector}
        return {"id": id_, **{name: content[name] for name in include}}

    def do_get(self, stored: dict[str, Any], *, ids: list[str], include: list[str]) -> dict[str, Any]:
        """Items by id."""
        check(len(ids) <= 1000, 422, "over_limit", "#/ids")
        check(all(ids), 422, "bad_id", f"#/ids/{ids.index('') if '' in ids else 0}")
        there = [id_ for id_ in ids if id_ in stored]
        return {"items": [self.shown(stored, id_, include) for id_ in there], "missing": [id_ for id_ in ids if id_ not in stored]}

    def do_delete(self, stored: dict[str, Any], *, ids: list[str] | None = None, filter: Any = None) -> dict[str, Any]:
        """Delete by ids or filter."""
        assert (ids is None) != (filter is None)
        gone = [id_ for id_ in stored if (id_ in ids if ids is not None else self.fits(stored[id_], filter))]
        for id_ in gone:
            del stored[id_]
        return {"deleted": len(gone), "count": len(stored)}

    def do_scroll(self, stored: dict[str, Any], *, after: str | None, limit: int, filter: Any, include: list[str]) -> dict[str, Any]:
        """One page; the cursor is the last id, disguised."""
        last = "" if after is None else bytes.fromhex(after).decode()
        rest = [id_ for id_ in sorted(stored) if id_ > last and self.fits(stored[id_], filter)]
        page = rest[:limit]
        following = page[-1].encode().hex() if len(rest) > limit else None
        return {"items": [self.shown(stored, id_, include) for id_ in page], "next": following}

    def do_count(self, stored: dict[str, Any], *, filter: Any) -> dict[str, Any]:
        """How many items there are."""
        return {"count": sum(self.fits(item, filter) for item in stored.values())}


@pytest.fixture
def fake() -> FakeKinbin:
    """A service in memory, as an httpx handler."""
    return FakeKinbin()


# ------------------------------------------------------------------------------------ the real service


class LiveService:
    """A real service in a process of its own, on a free port of this machine; killed and started again at will."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = folder / "db"
        self.log = folder / "service.log"
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start a process, without waiting until it is ready."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KINBIN_")}
        settings = {"KINBIN_DATA_DIR": str(self.data), "KINBIN_PORT": str(self.port), "KINBIN_API_KEY": API_KEY}
        with self.log.open("ab") as output:
            self.process = popen([sys.executable, "-m", "kinbin_service"], env={**kept, **settings}, stdout=output, stderr=output)
        return self.process

    def kill(self) -> None:
        """End the process without notice."""
        self.process.kill()
        self.process.wait(timeout=40)

    def stop(self) -> None:
        """End the process as an operator does."""
        self.process.terminate()
        self.process.wait(timeout=40)


@pytest.fixture
def live_service(tmp_path: Path) -> Iterator[LiveService]:
    """A real service of one test alone."""
    service = LiveService(tmp_path)
    try:
        _await_service(service)
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def live_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real service that tests share."""
    service = LiveService(tmp_path_factory.mktemp("live"))
    try:
        _await_service(service)
        yield service.url
    finally:
        service.stop()


@pytest.fixture
def local_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for clients in local mode; kernels are loaded once a process."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    return tmp_path / "local"


def _await_service(service: LiveService) -> None:
    """Wait until a service is ready; fail with the end of its log as soon as it cannot become so."""
    deadline = time.monotonic() + 100
    reason: object = "time is up"
    with Client(service.url) as client:
        while time.monotonic() < deadline and service.process.poll() is None:
            try:
                client.wait_ready(timeout=2)
            except Timeout as error:
                reason = error
            except KinbinClientError as error:
                reason = error
                break
            else:
                return
    end = service.log.read_text(encoding="utf-8", errors="replace")[-3_000:]
    pytest.fail(f"no service ({reason}; status {service.process.poll()}); its log ends:\n{end}")


# ------------------------------------------------------------------------------------------- clients


class Awaited:
    """A blocking client with the manners of the asynchronous one, so that scenarios are written once."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute
        if name == "collection":
            return lambda *args: Awaited(attribute(*args))
        if name in ("pages", "items"):
            return lambda *args, **options: _each(attribute(*args, **options))
        return lambda *args, **options: _result(attribute, args, options)


async def _each(values: Iterator[Any]) -> AsyncIterator[Any]:
    for value in values:
        yield value


async def _result(method: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    result = method(*args, **options)
    return Awaited(result) if isinstance(result, Collection) else result


@pytest.fixture(
    params=[
        "blocking-memory",
        "asyncio-memory",
        "blocking-local",
        "asyncio-local",
        pytest.param("blocking-live", marks=pytest.mark.server),
        pytest.param("asyncio-live", marks=pytest.mark.server),
    ]
)
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Awaitable[None]]], Awaitable[None]]:
    """Runs a scenario with a client: blocking or asynchronous, against the service in memory, the real one, or the one of local mode."""
    manner, _, where = request.param.partition("-")
    to: dict[str, Any]
    if where == "live":
        to = {"url": request.getfixturevalue("live_url"), "api_key": API_KEY}
    elif where == "local":
        to = {"path": request.getfixturevalue("local_path")}
    else:
        to = {"url": "http://kinbin.test", "api_key": API_KEY, "transport": httpx.MockTransport(FakeKinbin())}

    async def run_scenario(scenario: Callable[[Any], Awaitable[None]]) -> None:
        if manner == "blocking":
            with Client(**to) as client:
                await _scenario_on(scenario, Awaited(client))
        else:
            async with AsyncClient(**to) as client:
                await _scenario_on(scenario, client)

    return run_scenario


async def _scenario_on(scenario: Callable[[Any], Awaitable[None]], client: Any) -> None:
    """Run a scenario on a service without collections."""
    for name in await client.collections():
        await client.drop_collection(name)
    await scenario(client)


@pytest.fixture(scope="session")
def node() -> Run:
    """Runs a program of Node with the TypeScript client built; skips where that cannot be."""
    return runner()
