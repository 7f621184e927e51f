"""Why an item scores what it scores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.convert import carried
from kinbin_service.documented import NAMED, VECTORS, route
from kinbin_service.objects import VECTOR
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.adding import check_key
from kinbin_service.routes.mapping import by_field
from kinbin_service.routes.received import Name, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.explaining import ExplainAnswer, ExplainRequest
from kinbin_service.service import service_of

__all__ = ["router", "told"]

router = routes("queries")
EXPLAIN = route(
    "Tell why an item scores what it scores", ExplainAnswer, body=ExplainRequest,
    refusals=NAMED | VECTORS | {"bad_id", "bad_parameter", "unknown_id"},
)  # fmt: skip


@router.post("/v1/collections/{name}/explain", **EXPLAIN)
async def explain(request: Request, name: Name) -> Response:
    """Terms add up to the score that a query answers, or to what it is a function of, to 1e-9; bands and links tell what finds it."""
    async with received_json(request, ExplainRequest) as asked:
        started = time.perf_counter()
        given = asked.one()
        key, query = (VECTOR, None) if given is None else (given[0], carried(given[0], given[1], f"#/{given[0]}"))
        database = service_of(request).database

        def run() -> bytes:
            collection = database.collection(name)
            return encode({**told(_explained(collection, asked, key, query)), "took_ms": took_ms(started)})

        return reply(await service_of(request).work(request, run))


def _explained(collection: Any, asked: ExplainRequest, key: str, query: Any) -> kinbin.Explanation:
    how: dict[str, Any] = {
        "id": asked.id, "query_id": asked.query_id, "limit": asked.limit, "k": asked.k, "s_curve": asked.s_curve,
        "feature_names": asked.feature_names,
    }  # fmt: skip
    field = by_field(collection, asked.field)
    if not field and asked.query_id is None:
        check_key(collection, key, "#")
    explanation: kinbin.Explanation = collection.explain(query, **how, **field)
    return explanation


def told(found: kinbin.Explanation) -> dict[str, Any]:
    """An explanation as it is sent."""
    factors = [_factor(one) for one in found.factors]
    head = {"id": found.id, "score": found.score, "ascending": found.ascending}
    single = len(factors) == 1
    flat = factors[0] if single else {
        "parameters": {}, "value": found.score, "sum": found.score, "outer": None, "terms": [], "rest": {"features": 0, "part": 0.0},
        "constants": [],
    }  # fmt: skip
    return {
        **head, **flat, "kernel": found.kernel, "formula": found.formula, "factors": None if single else factors,
        "bands": None if found.bands is None else _without_nothing(asdict(found.bands)), "no_bound": found.no_bound,
        "walk": None if found.walk is None else asdict(found.walk),
    }  # fmt: skip


def _factor(found: kinbin.Factor) -> dict[str, Any]:
    content = {
        "kernel": found.kernel, "formula": found.formula, "parameters": dict(found.parameters), "value": found.value, "sum": found.sum,
        "outer": found.outer, "terms": [_term(one) for one in found.terms], "rest": _without_nothing(asdict(found.rest)),
        "constants": [{"name": name, "part": part} for name, part in found.constants],
    }  # fmt: skip
    return content | ({"cells": [asdict(cell) for cell in found.cells]} if found.cells else {})


def _term(found: kinbin.Term) -> dict[str, Any]:
    """Of a term what it has; what both have is always said."""
    return {"query": None, "item": None, **_without_nothing(asdict(found))}


def _without_nothing(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}
