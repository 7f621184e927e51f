"""Maps: a sample of the items in the plane."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.admission import Cancel
from kinbin_service.documented import FILTERED, NAMED, route
from kinbin_service.problems import Entry, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.received import Name, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.mapping import MapAnswer, MapRequest
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes("queries")
MAP = route(
    "Lay a sample out in the plane", MapAnswer, body=MapRequest, refusals=NAMED | FILTERED | {"bad_parameter", "search_deadline"}
)  # fmt: skip


@router.post("/v1/collections/{name}/map", **MAP)
async def map_items(request: Request, name: Name) -> Response:
    """Near items lie near each other, by the exact kernel of all pairs; the same state and seed give the same map. Takes scikit-learn."""
    async with received_json(request, MapRequest) as asked:
        started = time.perf_counter()
        database = service_of(request).database
        cancel = Cancel()

        def run() -> bytes:
            found = _mapped(database.collection(name), asked, cancel)
            return encode({**asdict(found), "took_ms": took_ms(started)})

        return reply(await service_of(request).work(request, run, cancel=cancel))


def _mapped(collection: Any, asked: MapRequest, cancel: threading.Event) -> kinbin.Map:
    how: dict[str, Any] = {
        "method": asked.method, "fields": asked.fields, "seed": asked.seed, "filter": asked.filter, "cancel": cancel,
    }  # fmt: skip
    found: kinbin.Map = collection.map(asked.sample, **how, **by_field(collection, asked.field))
    return found


def by_field(collection: Any, field: str | None) -> dict[str, str]:
    """What a call takes about one vector of each item: the field, where items have several. Refused: one too many, or none."""
    several = isinstance(collection, kinbin.FieldsCollection)
    if several != (field is not None):
        text = "items of this collection have one vector: leave field out"
        if several:
            text = f"items of this collection have several vectors: field says which is meant, of {', '.join(collection.config.fields)}"
        raise Refusal("invalid_field", text, [Entry("#/field", text)])
    return {} if field is None else {"field": field}
