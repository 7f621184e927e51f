"""Requests that schemathesis makes of the document: what it allows, and what it forbids.

It stands in the lock of benchmarks; nothing but this module imports it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fuzzing.bodies import NAMES
from fuzzing.contract import Contract

__all__ = ["generated"]

CHECKS = [
    content_type_conformance, response_headers_conformance, response_schema_conformance, status_code_conformance,
]  # fmt: skip
ALLOWED, FORBIDDEN = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


def generated(document: Mapping[str, Any], address: str, start: int, each: int, told: Callable[[str, list[str]], bool]) -> None:
    """Ask `each` requests of every operation and of both kinds, all of them a function of the seed `start`.

    told: called with a request (as text) and what was wrong with its answer, after each; true ends all.
    """
    contract = Contract(document)
    schema = schemathesis.openapi.from_dict(dict(document))
    ended = False
    with requests.Session() as session:
        found: Any
        for place, found in enumerate(schema.get_all_operations()):
            for mode in (ALLOWED, FORBIDDEN):

                @seed(start + 1_000 * place + (mode is FORBIDDEN))
                @settings(max_examples=each, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
                @given(found.ok().as_strategy(generation_mode=mode))
                def ask(case: Any) -> None:
                    nonlocal ended
                    if ended:
                        return
                    checks = [*CHECKS] if _named(case) or _skips(case) else [*CHECKS, negative_data_rejection]
                    ended = told(case.as_curl_command()[:20_000], _faults(contract, case, address, session, checks))

                # There is nothing that an operation without parameters forbids.
                with suppress(Unsatisfiable):
                    ask()


def _named(case: Any) -> bool:
    """Let three of four requests go to a collection that is there; whether this one does, for it may be allowed by that."""
    drawn = zlib.crc32(repr((case.path_parameters, case.body, case.query)).encode("utf-8", "replace"))
    if case.path_parameters and "name" in case.path_parameters and drawn % 4:
        case.path_parameters["name"] = NAMES[drawn // 4 % 4]
        return True
    return False


def _skips(case: Any) -> bool:
    """Whether bad items are left out, so that a request with some of them is done."""
    return isinstance(case.body, dict) and case.body.get("on_error") == "skip"


def _faults(contract: Contract, case: Any, address: str, session: requests.Session, checks: list[Any]) -> list[str]:
    """What is wrong with the answer to a request."""
    answer = case.call(base_url=address, session=session, timeout=60)
    body = answer.content
    media_type = next(iter(answer.headers.get("content-type", [""]))).partition(";")[0]
    found = contract.faults(contract.of(case.method.upper(), case.operation.path), answer.status_code, media_type, body)
    if answer.status_code >= 400:
        # Refused, in whichever way: schemathesis does not count 413 among them.
        checks = [check for check in checks if check is not negative_data_rejection]
    try:
        case.validate_response(answer, checks=checks, excluded_checks=[not_a_server_error])
    except FailureGroup as group:
        found += [f"{type(one).__name__}: {one}"[:600] for one in group.exceptions]
    return found
