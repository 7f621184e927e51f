"""Maps: a sample of the items in the plane."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.documented import FILTERED, NAMED, route
from kinbin_service.problems import Entry, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.received import Name, received_json
from kinbin_service.schemas.mapping import MapAnswer, MapRequest
from kinbin_service.service import service_of

__all__ = ["router"]

router = APIRouter(tags=["queries"])
MAP = route(
    "Lay a sample out in the plane", MapAnswer, body=MapRequest, refusals=NAMED | FILTERED | {"bad_parameter", "search_deadline"}
)  # fmt: skip


@router.post("/v1/collections/{name}/map", **MAP)
async def map_items(request: Request, name: Name) -> Response:
    """Near items lie near each other, by the exact kernel of all pairs; the same state and seed give the same map. Takes scikit-learn."""
    async with received_json(request, MapRequest) as asked:
        started = time.perf_counter()
        database = service_of(request).database
        cancel = threading.Event()

        def run() -> bytes:
            found = _mapped(database.collection(name), asked, cancel)
            return encode({**asdict(found), "took_ms": took_ms(started)})

        return reply(await service_of(request).work(request, run, cancel=cancel))


def _mapped(collection: Any, asked: MapRequest, cancel: threading.Event) -> kinbin.Map:
    how: dict[str, Any] = {
        "method": asked.method, "fields": asked.fields, "seed": asked.seed, "filter": asked.filter, "cancel": cancel,
    }  # fmt: skip
    several = isinstance(collection, kinbin.FieldsCollection)
    if several != (asked.field is not None):
        text = "field says by which field's kernel" if several else "items of this collection have one vector: leave field out"
        raise Refusal("invalid_field", text, [Entry("#/field", text)])
    if several:
        how["field"] = asked.field
    found: kinbin.Map = collection.map(asked.sample, **how)
    return found
