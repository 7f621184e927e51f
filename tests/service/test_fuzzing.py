"""A little of `make fuzz-api`: harmed requests, of a seed that is printed, each answered as the document says."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from fuzzing.bodies import NAMES, Asked, harmed
from fuzzing.contract import Contract
from fuzzing.service import KNOWN, items_of
from kinbin_service.openapi import COMMITTED
from service_app import App

CONTRACT = Contract(orjson.loads(COMMITTED.read_bytes()))
REQUESTS = 400
SLOW = {"rebuild", "tune", "given_recall", "sampled_recall", "map_items", "create_snapshot", "restore", "compact_collection"}
"""Of seconds: they are asked in the long run."""


async def ask(app: App, asked: Asked) -> tuple[int, str, bytes]:
    """Status, media type and body of an answer."""
    headers = [(name.encode(), value.encode("utf-8")) for name, value in asked.headers.items()]
    answer = await app.client.request(asked.method, f"http://localhost{asked.path}", content=asked.body, headers=headers)
    return answer.status_code, answer.headers.get("content-type", "").partition(";")[0], answer.content


async def test_harmed_requests_are_answered_as_documented(app: App) -> None:
    """Whatever is wrong with a request, its answer has a declared status, media type and code, a whole body, and is no internal error."""
    for name, config in KNOWN.items():
        await app.put(f"/v1/collections/{name}", config)
        await app.post(f"/v1/collections/{name}/index", {"items": items_of(name)})
    await app.client.put("/v1/aliases/live", json={"collection": "photos"})
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    statuses = set()
    for _ in range(REQUESTS):
        asked = harmed(CONTRACT, rng)
        if asked.operation is not None and asked.operation.name in SLOW:
            continue
        status, media_type, body = await ask(app, asked)
        statuses.add(status)
        assert CONTRACT.faults(asked.operation, status, media_type, body) == [], asked
    assert statuses >= {200, 400, 404, 415, 422}
    assert (await app.get("/livez"))["status"] == "ready"


def problem(status: int, code: str, **changes: Any) -> bytes:
    """The body of a refusal."""
    told = {"type": "x", "title": "x", "status": status, "code": code, "detail": "x", "errors": [], "limit": None}
    return json.dumps({**told, **changes}).encode()


PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "status", "media_type", "body", "fault"),
    [
        ("POST", "/query", 200, "application/json", b"{}", None),
        ("POST", "/query?k=3", 200, "application/json", b"{", "no JSON"),
        ("POST", "/query", 202, "application/json", b"{}", "undeclared status 202"),
        ("POST", "/query", 200, "text/html", b"{}", "undeclared media type"),
        ("POST", "/v1/collections/%00/query", 404, PROBLEM, problem(404, "collection_not_found"), None),
        ("POST", "/query", 500, PROBLEM, problem(500, "internal"), "an internal error"),
        ("POST", "/query", 409, PROBLEM, problem(409, "item_conflict"), "undeclared 409 item_conflict"),
        ("POST", "/query", 507, PROBLEM, problem(507, "bad_json"), "undeclared status 507"),
        ("POST", "/query", 400, "text/plain", b"no", "of media type text/plain"),
        ("POST", "/query", 400, PROBLEM, problem(422, "bad_json"), "not whole"),
        ("POST", "/query", 400, PROBLEM, problem(400, "bad_json", more=1), "not whole"),
        ("POST", "/query", 400, PROBLEM, problem(400, "bad_json", detail="x" * 3_000), "too large"),
        ("GET", "/nowhere", 404, PROBLEM, problem(404, "not_found"), None),
        ("GET", "/nowhere", 403, PROBLEM, problem(403, "foreign_origin"), None),
        ("GET", "/nowhere", 200, "application/json", b"{}", "no route"),
        ("GET", "/nowhere", 422, PROBLEM, problem(422, "bad_vector"), "undeclared 422 bad_vector"),
    ],
)
def test_the_judge_finds_what_is_not_documented(
    method: str, path: str, status: int, media_type: str, body: bytes, fault: str | None
) -> None:
    """Answers as documented have no fault; statuses, media types, codes and bodies that are not are each found."""
    found = CONTRACT.faults(CONTRACT.of(method, path), status, media_type, body)
    assert (found == []) if fault is None else any(fault in one for one in found), found


def test_a_seed_makes_the_same_requests_of_every_operation() -> None:
    """Requests are a function of the seed; in time every operation and every collection is asked, with bodies that are whole and not."""
    first, second = ([harmed(CONTRACT, rng) for _ in range(3_000)] for rng in (random.Random(5), random.Random(5)))
    assert first == second
    assert {one.operation.name for one in first if one.operation is not None} == {one.name for one in CONTRACT.operations}
    assert {name for name in NAMES[:4] if any(f"/{name}/" in one.path for one in first)} == set(NAMES[:4])
    whole = 0
    for one in first:
        try:
            json.loads(one.body)
            whole += 1
        except (ValueError, RecursionError):
            pass
    assert 500 < whole < 2_500
