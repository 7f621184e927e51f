"""The OpenAPI document of a gateway says what a cluster has besides one server."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

from kinbin_cluster.gateway.contract import NOT_OFFERED, contract
from kinbin_service.app import create_app
from kinbin_service.openapi import document
from kinbin_service.settings import Settings

OF = "/v1/collections/{name}"
PARTIAL = ["/query", *(f"{OF}/{word}" for word in ("query", "get", "scroll", "count", "facets"))]
WRITES = ["/index", *(f"{OF}/{word}" for word in ("index", "delete", "payload", "indexes"))]


def properties(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each schema that the JSON of a body may be."""
    schema = body["content"]["application/json"]["schema"]
    names = [one["$ref"].rsplit("/", 1)[-1] for one in schema.get("anyOf", [schema])]
    return [contract()["components"]["schemas"][name]["properties"] for name in names]


@pytest.mark.parametrize("path", PARTIAL)
def test_reads_take_a_token_and_a_part(path: str) -> None:
    """Each has the header, allow_partial in every form of its body, and partial with shards_missing in every form of its answer."""
    operation = contract()["paths"][path]["post"]
    assert "X-Kinbin-After" in [one["name"] for one in operation["parameters"] if one["in"] == "header"]
    assert all("allow_partial" in one for one in properties(operation["requestBody"]))
    assert all({"partial", "shards_missing"} <= one.keys() for one in properties(operation["responses"]["200"]))


@pytest.mark.parametrize("path", WRITES)
def test_writes_answer_with_a_token(path: str) -> None:
    """Every form of their answer has it."""
    assert all("token" in one for one in properties(contract()["paths"][path]["post"]["responses"]["200"]))


def test_a_new_collection_says_how_it_lies() -> None:
    """The body of PUT has `cluster`, with shards and replicas."""
    (body,) = properties(contract()["paths"][OF]["put"]["requestBody"])
    named = body["cluster"]["anyOf"][0]["$ref"].rsplit("/", 1)[-1]
    assert {"shards", "replicas"} <= contract()["components"]["schemas"][named]["properties"].keys()


def test_the_document_of_one_server_stays_as_it_is() -> None:
    """What a cluster has besides does not get into it."""
    plain = str(document(create_app(Settings())))
    assert "X-Kinbin-After" not in plain
    assert "allow_partial" not in plain


def test_the_document_has_what_its_routes_refer_to_and_nothing_else() -> None:
    """From any route every reference leads somewhere, and every model and response is led to; nothing is told of what is not offered."""
    made = contract()
    components = {(kind, name): one for kind in ("schemas", "responses") for name, one in made["components"][kind].items()}
    used: set[tuple[str, str]] = set()
    left: list[Any] = [made["paths"]]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
            if "$ref" in one and (found := (one["$ref"].split("/")[2], one["$ref"].split("/")[3])) not in used:
                used.add(found)
                left.append(components[found])
        elif isinstance(one, list):
            left += one
    assert used == components.keys()
    names = {name for _, name in components}
    of_one_server = {"DuplicatesRequest", "RestoreOptions", "SnapshotAnswer", "MapRequest"}
    assert of_one_server <= document(create_app(Settings()))["components"]["schemas"].keys()
    assert not of_one_server & names
    assert {"AddRequest", "QueryAnswer", "SpreadIn", "ProblemAnswer"} <= names


@pytest.mark.parametrize(("method", "path"), NOT_OFFERED)
def test_what_is_not_offered_is_told_as_a_refusal(method: str, path: str) -> None:
    """Its document has the reason and 501, and neither a body nor an answer."""
    told = contract()["paths"][path][method.lower()]
    assert NOT_OFFERED[method, path] in told["description"]
    assert "501" in told["responses"]
    assert "200" not in told["responses"]
    assert "requestBody" not in told


def test_drops_say_that_another_may_come_first() -> None:
    """Both have 409, and the code of it."""
    for path in (OF, "/v1/aliases/{name}"):
        told = contract()["paths"][path]["delete"]
        assert "409" in told["responses"]
        assert "changed_meanwhile" in told["x-problem-codes"]
