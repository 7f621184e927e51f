"""Health, readiness, limits and documentation."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import kinbin
from kinbin.warmup import warm_up
from kinbin_service.documented import REFERRED
from kinbin_service.kernels import GROUPS
from kinbin_service.limits import all_limits
from kinbin_service.objects import KEYS
from kinbin_service.openapi import COMMITTED, document, text
from kinbin_service.settings import Settings
from service_app import App, eventually, problem, running_app


async def test_a_worker_is_alive_at_once_and_ready_after_warming_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the kernels are loaded /livez is 200, /readyz 503, and requests are 503 with Retry-After; then all is 200."""
    gate = threading.Event()
    monkeypatch.setattr(kinbin, "warm_up", lambda *_: gate.wait(30))
    async with running_app(tmp_path / "data", ready=False) as app:
        assert (await app.get("/livez"))["status"] == "starting"
        assert (await app.get("/healthz")) | {"version": ""} == {
            "status": "starting",
            "version": "",
            "compiling": ["small", "bands", "links"],
            "background": "ok",
        }
        assert (await app.get("/readyz", status=503))["code"] == "not_ready"
        assert (await app.post("/query", {"vector": [1]}, status=503))["code"] == "not_ready"
        await app.get("/v1/limits")
        gate.set()
        await eventually(lambda: app.service.state == "ready")
        assert (await app.get("/readyz"))["status"] == "ready"
        await app.post("/index", {"items": [{"id": "a", "vector": [1]}]})


def _state(*pending: str) -> kinbin.Compiling:
    return kinbin.Compiling(3, 7, ("scan",), pending, 0.5, 1.0)


async def test_requests_are_taken_while_the_rest_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is ready when the kernels of small collections are there; /readyz names what is still compiled, until nothing is."""
    first, rest = threading.Event(), threading.Event()

    def warm_up(progress: Callable[[kinbin.Compiling], None], groups: tuple[str, ...] | None = None) -> None:
        progress(_state("small") if groups else _state("bands"))
        (first if groups else rest).wait(30)

    monkeypatch.setattr(kinbin, "warm_up", warm_up)
    async with running_app(tmp_path / "data", ready=False) as app:
        # The groups are pending from the start; how far they are is told by the thread that compiles.
        await eventually(lambda: app.service.kernels.count() != "")
        assert len(app.service.kernels.pending) == 3
        assert "3 of 7" in (await app.get("/readyz", status=503))["detail"]
        first.set()
        await eventually(lambda: app.service.state == "ready" and list(app.service.kernels.pending) == ["bands"])
        assert (await app.get("/readyz"))["compiling"] == ["bands"]
        await app.post("/index", {"items": [{"id": "a", "vector": [1]}]})
        rest.set()
        await eventually(lambda: not app.service.kernels.pending)
        assert (await app.get("/readyz"))["compiling"] == []


def test_the_groups_of_kernels_are_those_of_the_library() -> None:
    """The service knows the library's groups, all of them and in their order."""
    with pytest.raises(kinbin.InvalidInput, match=f"groups are {', '.join(GROUPS)}, not none"):
        warm_up(groups=["none"])


async def test_a_worker_stops_while_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a worker does not wait for kernels that nobody needs any more."""
    told = threading.Event()

    def warm_up(progress: Callable[[kinbin.Compiling], None], groups: tuple[str, ...] | None = None) -> None:
        while groups is None:
            progress(_state("links"))
            told.set()
            time.sleep(0.01)

    monkeypatch.setattr(kinbin, "warm_up", warm_up)
    async with running_app(tmp_path / "data"):
        await eventually(told.is_set)


async def test_a_ready_worker_stays_ready_if_the_rest_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be compiled ahead of need is in the log, and requests are taken all the same."""

    def warm_up(progress: object, groups: tuple[str, ...] | None = None) -> None:
        if groups is None:
            raise RuntimeError("no more processes")

    monkeypatch.setattr(kinbin, "warm_up", warm_up)
    async with running_app(tmp_path / "data") as app:
        await eventually(lambda: "no more processes" in caplog.text)
        assert (await app.get("/readyz"))["status"] == "ready"


async def test_a_worker_that_cannot_warm_up_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed warm-up makes /livez and /readyz fail, so that somebody restarts the worker, and is in the log."""

    def broken(*_: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(kinbin, "warm_up", broken)
    async with running_app(tmp_path / "data") as app:
        for path in ("/livez", "/healthz", "/readyz"):
            assert (await app.get(path, status=500))["code"] == "internal"
        await app.post("/query", {"vector": [1]}, status=500)
    assert "no compiler" in caplog.text


async def test_a_stopping_worker_is_not_ready(app: App) -> None:
    """While a worker stops, /readyz is 503 and new requests are refused."""
    app.service.state = "stopping"
    assert (await app.get("/readyz", status=503))["code"] == "stopping"
    assert (await app.post("/query", {"vector": [1]}, status=503))["code"] == "stopping"


async def test_health_tells_the_version(app: App) -> None:
    """The health checks name the version of Kinbin."""
    assert (await app.get("/healthz"))["version"] == kinbin.__version__


async def test_limits_are_the_tables_of_library_and_service(app: App) -> None:
    """/v1/limits holds every limit of both tables, with unit and reason."""
    table = {limit["name"]: limit for limit in (await app.get("/v1/limits"))["limits"]}
    assert table.keys() == all_limits(app.service.settings).keys() > kinbin.LIMITS.keys()
    assert all(table[name]["value"] == limit.value for name, limit in kinbin.LIMITS.items())
    assert table["index_body_bytes"]["value"] == app.service.settings.max_index_body_bytes
    assert all(limit["unit"] and limit["reason"] for limit in table.values())


async def test_the_committed_document_is_that_of_the_application(app: App) -> None:
    """service/openapi.json is what the application describes (`make docs` writes it)."""
    assert COMMITTED.read_bytes() == text(app.client._transport.app)  # type: ignore[attr-defined]


async def test_the_document_has_nothing_of_other_applications(app: App) -> None:
    """Models of a gateway's routes, known to the same process, are not in a server's document."""
    pytest.importorskip("kinbin_cluster.gateway.collections")
    assert "ClusterRequest" in REFERRED
    assert COMMITTED.read_bytes() == text(app.client._transport.app)  # type: ignore[attr-defined]
    assert await app.get("/openapi.json") == document(app.client._transport.app)  # type: ignore[attr-defined]


async def test_the_document_describes_every_route_and_every_reference(app: App) -> None:
    """All routes of the contract are in the document, every reference leads somewhere, every error is a problem document."""
    described = await app.get("/openapi.json")
    assert {(method, path) for path, methods in described["paths"].items() for method in methods} == {
        ("post", "/index"), ("post", "/query"), ("get", "/v1/collections"),
        ("put", "/v1/collections/{name}"), ("get", "/v1/collections/{name}"), ("delete", "/v1/collections/{name}"),
        *(("post", f"/v1/collections/{{name}}/{route}") for route in ("index", "query", "explain", "map", "get", "delete", "scroll")),
        *(("post", f"/v1/collections/{{name}}/{route}") for route in ("count", "payload", "facets", "indexes", "duplicates")),
        ("get", "/v1/collections/{name}/limits"), ("put", "/v1/collections/{name}/limits"),
        ("get", "/v1/aliases"), ("put", "/v1/aliases/{name}"), ("delete", "/v1/aliases/{name}"),
        *(("post", f"/v1/collections/{{name}}/{route}") for route in ("tune", "recall", "rebuild")),
        ("get", "/v1/collections/{name}/recall"),
        *(("get", path) for path in ("/healthz", "/livez", "/readyz", "/v1/limits", "/metrics")),
        ("post", "/v1/collections/{name}/compact"),
        *((method, "/v1/collections/{name}/snapshots") for method in ("post", "get")),
        *((method, "/v1/collections/{name}/snapshots/{id}") for method in ("get", "delete")),
        ("post", "/v1/collections/{name}/snapshots/{id}/verify"), ("post", "/v1/restore"),
    }  # fmt: skip
    for reference in re.findall(r'"\$ref": *"([^"]+)"', COMMITTED.read_text()):
        node = described
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"]
            for status, response in operation["responses"].items():
                assert int(status) < 400 or response == {"$ref": f"#/components/responses/{status}"}


async def test_examples_of_the_document_work(app: App) -> None:
    """Every example of a collection makes one, every example of an add is accepted by one, and every example query is answered."""
    described = await app.get("/openapi.json")
    made = described["paths"]["/v1/collections/{name}"]["put"]["requestBody"]["content"]["application/json"]["examples"]
    for number, example in enumerate(made.values()):
        await app.put(f"/v1/collections/made{number}", example["value"])
    for items in ("strings", "series", "points"):
        await app.put(f"/v1/collections/{items}", {"items": items, "dim": 2 if items == "points" else None})
    bodies = described["paths"]["/v1/collections/{name}/index"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    for number, example in enumerate(bodies.values()):
        first = example["value"]["items"][0]
        if "vectors" in first:
            await app.put("/v1/collections/fields", {"fields": {"colour": {"dim": 3}, "words": {}}})
            await app.post("/v1/collections/fields/index", example["value"])
            continue
        if "vector" not in first:
            await app.post(f"/v1/collections/{objects_of(first)}/index", example["value"])
            continue
        vector = first["vector"]
        dim = 3 if isinstance(vector, list) and not isinstance(vector[0], str) else None
        await app.put(f"/v1/collections/c{number}", {"dim": dim})
        await app.post(f"/v1/collections/c{number}/index", example["value"])
    for route in ("query", "get", "scroll", "count", "facets", "indexes", "duplicates", "tune", "recall", "rebuild", "delete"):
        content = described["paths"][f"/v1/collections/{{name}}/{route}"]["post"]["requestBody"]["content"]["application/json"]
        for example in content["examples"].values():
            several = route == "query" and any(f'"{word}"' in str(example["value"]).replace("'", '"') for word in ("vectors", "fields"))
            name = "fields" if several else objects_of(example["value"].get("queries", [example["value"]])[0]) if route == "query" else "c0"
            await app.post(f"/v1/collections/{name}/{route}", example["value"])


def objects_of(sent: Any) -> str:
    """The collection of objects that an item or a query is for; of vectors `c0`."""
    return next((kind for key, kind in KEYS.items() if isinstance(sent, dict) and key in sent), "c0")


async def test_vectors_are_described_to_the_letter(app: App) -> None:
    """The document says what a vector may be, though the service leaves its numbers to the library."""
    schemas = (await app.get("/openapi.json"))["components"]["schemas"]
    forms = schemas["ItemIn"]["properties"]["vector"]["anyOf"]
    assert [form["items"] for form in forms[:2]] == [{"type": "number"}, {"type": "string"}]
    assert [form["$ref"].rsplit("/", 1)[1] for form in forms[2:]] == ["SparseVector", "TokenVector"]
    assert schemas["SparseVector"]["additionalProperties"] is False
    assert schemas["AddRequest"]["properties"]["items"]["maxItems"] == kinbin.LIMITS["batch_items"].value
    assert schemas["QueryRequest"]["properties"]["k"]["maximum"] == kinbin.LIMITS["k"].value


async def test_the_page_for_people_needs_nothing_from_elsewhere(app: App) -> None:
    """/docs lists every route, loads nothing from the network, and runs one script only: the one whose digest its policy names."""
    response = await app.client.get("/docs")
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert not re.search(r'(src|href)="(https?:)?//', response.text)
    (script,) = re.findall(r"<script>(.*?)</script>", response.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
    for path in (await app.get("/openapi.json"))["paths"]:
        assert path in response.text


async def test_the_page_for_people_shows_code_as_code(app: App) -> None:
    """What the document has between backticks is code on the page, in every text of it: none is left to be read."""
    page = (await app.client.get("/docs")).text
    assert "<code>Idempotency-Key</code>" in page.partition("<h2>")[0]
    texts = re.sub(r"<(script|style|pre|textarea|select)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert re.findall(r".{0,40}`.{0,40}", texts) == []


async def test_every_route_can_be_tried_from_the_page(app: App) -> None:
    """Each route has a form, and what a form with a body begins with is taken by the route as it is."""
    page = (await app.client.get("/docs")).text
    described = (await app.get("/openapi.json"))["paths"]
    forms = re.findall(r'<form data-method="(\w+)" data-path="([^"]+)">(.*?)</form>', page, re.DOTALL)
    assert {(method.lower(), path) for method, path, _ in forms} == {(method, path) for path in described for method in described[path]}
    await app.put("/v1/collections/default", {"kernel": "ngmm", "dim": 3})
    tried = 0
    for method, path, fields in forms:
        if body := re.search(r"<textarea[^>]*>(.*?)</textarea>", fields, re.DOTALL):
            headers = {"content-type": "application/json"}
            answer = await app.client.request(method, path.replace("{name}", "tried"), content=unescape(body[1]), headers=headers)
            assert answer.status_code in {200, 201, 404, 409}, (path, answer.text)
            tried += 1
    assert tried == page.count("<textarea") > 5


@pytest.mark.parametrize("key", [None, "secret-of-the-test"])
async def test_the_front_page_leads_to_the_documents(tmp_path: Path, key: str | None) -> None:
    """/ leads to /docs, relative to wherever a proxy has put it, with and without a key."""
    async with running_app(tmp_path / "data", api_key=key) as app:
        response = await app.client.get("/")
        assert (response.status_code, response.headers["location"]) == (307, "docs")
        assert (await app.client.get("/", follow_redirects=True)).text.startswith("<!doctype html>")


async def test_health_answers_get_only(app: App) -> None:
    """Other methods on operations are 405."""
    assert problem(await app.client.post("/healthz"))["code"] == "method_not_allowed"


def test_limits_follow_the_settings() -> None:
    """A changed setting shows in the table of limits."""
    assert all_limits(Settings(queue_length=7))["queue_length"].value == 7


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/collections/x", "DELETE, GET, PUT"), ("/v1/collections/x/limits", "GET, PUT"), ("/v1/collections/x/recall", "GET, POST"),
        ("/v1/aliases/x", "DELETE, PUT"), ("/query", "POST"), ("/v1/collections/x/snapshots", "GET, POST"),
    ],
)  # fmt: skip
async def test_a_wrong_method_is_told_all_that_there_are(app: App, path: str, methods: str) -> None:
    """Of a path with several routes, `Allow` names the methods of all."""
    answer = await app.client.request("PATCH", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
