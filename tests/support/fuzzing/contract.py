"""What the document of a service promises of an answer, and whether an answer keeps it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

__all__ = ["Contract", "Operation"]

PROBLEM_FIELDS = {"type", "title", "status", "code", "detail", "errors", "limit"}
PROBLEM_BYTES = 2_048
ROUTER = {"not_found": 404, "method_not_allowed": 405}
"""Answers to what is no route: no route can declare them."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a document."""

    method: str
    path: str
    name: str
    statuses: frozenset[int]
    codes: frozenset[str]
    types: Mapping[int, frozenset[str]]
    """By status, the media types of its answers."""
    bodies: Mapping[str, tuple[Any, ...]]
    """By media type, the examples of its bodies."""


class Contract:
    """A document, and the judge of answers by it."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.operations = [
            self._operation(document, method, path, told)
            for path, operations in document["paths"].items()
            for method, told in operations.items()
        ]
        self._everywhere = frozenset.intersection(*(one.codes for one in self.operations if one.path.startswith("/v1/collections/")))
        self._patterns = [(one, re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(one.path)))) for one in self.operations]

    @staticmethod
    def _operation(document: Mapping[str, Any], method: str, path: str, told: Mapping[str, Any]) -> Operation:
        def contents(answer: Mapping[str, Any]) -> frozenset[str]:
            if "$ref" in answer:
                answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
            return frozenset(answer.get("content", ()))

        bodies = told.get("requestBody", {}).get("content", {})
        return Operation(
            method.upper(), path, told["operationId"], frozenset(map(int, told["responses"])), frozenset(told["x-problem-codes"]),
            {int(status): contents(answer) for status, answer in told["responses"].items()},
            {kind: tuple(one["value"] for one in of.get("examples", {}).values()) for kind, of in bodies.items()},
        )  # fmt: skip

    def of(self, method: str, path: str) -> Operation | None:
        """The operation that a request goes to, its path as it is sent; None: no route is of this path and method."""
        plain = path.partition("?")[0]
        return next((one for one, pattern in self._patterns if one.method == method and pattern.fullmatch(plain)), None)

    def faults(self, operation: Operation | None, status: int, media_type: str, body: bytes) -> list[str]:
        """What is wrong with an answer; nothing if it is as documented."""
        if status >= 400:
            return self._problem_faults(operation, status, media_type, body)
        if operation is None:
            return [f"{status} where there is no route"]
        found = []
        if status not in operation.statuses:
            found.append(f"undeclared status {status}")
        elif operation.types[status] and media_type not in operation.types[status]:
            found.append(f"undeclared media type {media_type} of a {status}")
        if media_type.endswith("json"):
            try:
                orjson.loads(body)
            except orjson.JSONDecodeError as error:
                found.append(f"a body that is no JSON: {error}")
        return found

    def _problem_faults(self, operation: Operation | None, status: int, media_type: str, body: bytes) -> list[str]:
        if media_type != "application/problem+json":
            return [f"a {status} of media type {media_type}"]
        try:
            told: Any = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return [f"a problem document that is no JSON: {error}"]
        if not isinstance(told, dict) or told.keys() != PROBLEM_FIELDS or told["status"] != status:
            return [f"a {status} whose problem document is not whole"]
        found = [] if len(body) < PROBLEM_BYTES else ["a problem document that is too large"]
        code = told["code"]
        if ROUTER.get(code) == status:
            return found
        if code == "internal":
            found.append("an internal error")
        elif code not in (self._everywhere if operation is None else operation.codes):
            found.append(f"undeclared {status} {code}")
        elif operation is not None and status not in operation.statuses:
            found.append(f"undeclared status {status}")
        return found
