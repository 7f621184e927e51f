"""Tuning: what bands and walks would find, what every mode finds, and other bands for a collection that is in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.admission import Cancel
from kinbin_service.documented import NAMED, VECTORS, in_address, route, without
from kinbin_service.problems import Entry, Place, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.adding import check_key
from kinbin_service.routes.mapping import by_field
from kinbin_service.routes.queries import many_in
from kinbin_service.routes.received import Name, options, received_json
from kinbin_service.routes.snapshots import UNQUEUED
from kinbin_service.routing import routes
from kinbin_service.schemas.tuning import (
    RebuildAnswer,
    RebuildRequest,
    RecallAnswer,
    RecallOptions,
    RecallRequest,
    TuneAnswer,
    TuneRequest,
)
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes("tuning")

_MOST_NEIGHBOURS = 20_000
"""Sample times k: more take longer than a search may, as eight times as many rows are hashed."""
REFUSALS = NAMED | {"bad_parameter", "over_limit", "search_deadline"}


def _empty_too(described: dict[str, Any]) -> dict[str, Any]:
    """The same route, whose body may be left out."""
    described["openapi_extra"]["requestBody"]["required"] = False
    return described


async def _told(request: Request, call: Callable[[kinbin.Database, threading.Event], Any]) -> Response:
    """The record that a call gives, which ends when nobody waits for it."""
    service, started, cancel = service_of(request), time.perf_counter(), Cancel()

    def run() -> bytes:
        return encode({**asdict(call(service.database, cancel)), "took_ms": took_ms(started)})

    return reply(await service.work(request, run, cancel=cancel))


@router.post("/v1/collections/{name}/tune", **_empty_too(route("Predict settings", TuneAnswer, body=TuneRequest, refusals=REFUSALS)))
async def tune(request: Request, name: Name) -> Response:
    """Recall, work and time of bands of r hashes, and of walks, by a sample; nothing is changed. No body is `{}`.

    Takes as long as `sample` exact scans, hashing of 8 · `sample` · `k` rows, and some 10 ms a setting; `sample` · `k` is at most 20,000.
    """
    async with received_json(request, TuneRequest, empty=b"{}") as asked:
        if asked.sample * asked.k > _MOST_NEIGHBOURS:
            text = f"sample times k is at most {_MOST_NEIGHBOURS:,}: more take longer than a search may"
            raise Refusal("over_limit", text, [Entry("#/sample", "sample times k is too large")], "tuned_rows")
        choices = None if asked.choices is None else [(one.rows, one.bands) for one in asked.choices]

        def predict(database: kinbin.Database, cancel: threading.Event) -> kinbin.Tuning:
            collection: Any = database.collection(name)
            how = {"sample": asked.sample, "seed": asked.seed, "choices": choices, "cancel": cancel}
            told: kinbin.Tuning = collection.tune(asked.k, asked.target_recall, **how, **by_field(collection, asked.field))
            return told

        return await _told(request, predict)


SAMPLED = route("Measure recall on stored items", RecallAnswer, parameters=in_address(RecallOptions), refusals=REFUSALS | {"invalid_field"})


@router.get("/v1/collections/{name}/recall", **SAMPLED)
async def sampled_recall(request: Request, name: Name) -> Response:
    """Every mode is asked for the neighbours of drawn rows, each without itself, and held against an exact scan of the same moment."""
    asked = options(request, RecallOptions)
    modes = None if asked.modes is None else [mode for mode in asked.modes.split(",") if mode]
    if modes == []:
        # The library would measure all of them.
        text = "modes lists at least one of auto, bands, links and exact; leave it out for all"
        raise Refusal("invalid_field", text, [Entry("#/modes", text)])
    return await _told(
        request,
        lambda database, cancel: database.collection(name).recall(
            asked.queries, asked.k, asked.target_recall, modes=modes, seed=asked.seed, cancel=cancel
        ),
    )


GIVEN = route("Measure recall on given queries", RecallAnswer, body=RecallRequest, refusals=REFUSALS | VECTORS)


@router.post("/v1/collections/{name}/recall", **GIVEN)
async def given_recall(request: Request, name: Name) -> Response:
    """The same for queries that are sent: those that users ask are seldom like the stored rows."""
    async with received_json(request, RecallRequest) as asked:
        request.state.place = Place("queries")
        key, vectors = many_in(asked.queries)

        def measure(database: kinbin.Database, cancel: threading.Event) -> kinbin.RecallReport:
            collection = database.collection(name)
            if isinstance(collection, kinbin.FieldsCollection):
                text = "recall of several vectors is measured with stored items: GET, without a body; the library takes queries by field"
                raise Refusal("invalid_field", text, [Entry("#/queries", text)])
            check_key(collection, key, "#/queries/0")
            return collection.recall(vectors, asked.k, asked.target_recall, modes=asked.modes, cancel=cancel)

        return await _told(request, measure)


REBUILD = route(
    "Lay a collection out in other bands", RebuildAnswer, body=RebuildRequest, refusals=NAMED | {"bad_parameter", "storage_full"}
)


@router.post("/v1/collections/{name}/rebuild", **_empty_too(without(REBUILD, UNQUEUED)))
async def rebuild(request: Request, name: Name) -> Response:
    """Answered when it is done; queries and adds go on meanwhile. No body is `{}`: Kinbin chooses.

    One such work, or snapshot, at a time in a worker; 429 says that another is under way. What was begun goes on when the client leaves.
    """
    async with received_json(request, RebuildRequest, empty=b"{}") as asked, service_of(request).long_work() as run:
        database = service_of(request).database

        def lay_out(_: threading.Event) -> kinbin.Rebuilt:
            collection: Any = database.collection(name)
            made: kinbin.Rebuilt = collection.rebuild(asked.rows, asked.bands, **by_field(collection, asked.field))
            return made

        made = await run(lay_out)
        return reply(encode(asdict(made)))
