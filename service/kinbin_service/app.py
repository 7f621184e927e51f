"""The application: routes, error handlers, the gate around them, and the service that lives as long as they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException

import kinbin
from kinbin_service.compression import Packing
from kinbin_service.connections import DOOR
from kinbin_service.door import Door
from kinbin_service.gate import Checks, Gate
from kinbin_service.metrics import Metrics
from kinbin_service.problems import Refusal, answer_http_error, answer_library_error, answer_refusal
from kinbin_service.routes import (
    collections,
    compacting,
    dashboard,
    duplicates,
    explaining,
    indexes,
    items,
    mapping,
    operations,
    queries,
    snapshots,
    tuning,
    writes,
)
from kinbin_service.routing import take_routes
from kinbin_service.service import Service
from kinbin_service.settings import Settings
from kinbin_service.tracing import Tracing

__all__ = ["create_app"]


def create_app(settings: Settings, ready: Callable[[], object] = bool) -> FastAPI:
    """The ASGI application of these settings. Opens nothing yet: the database is opened when a process begins to serve.

    ready: called once when requests are taken.
    """
    metrics, tracing, checks = Metrics(), Tracing(settings), Checks(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Door]]:
        async with Service.running(settings, metrics, ready) as service:
            app.state.service = service
            service.tracing = tracing
            # What is traced has a span for each request, also for one that is refused at the door.
            yield {} if settings.traces else {DOOR: Door(service.admission, checks, metrics)}
        await asyncio.to_thread(tracing.flush)

    app = FastAPI(
        title="Kinbin", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        # Requests are traced by the gate (`tracing.py`), once.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )  # fmt: skip
    parts = (
        items, indexes, queries, explaining, mapping, duplicates, tuning, collections, compacting, writes, snapshots, operations, dashboard,
    )  # fmt: skip
    take_routes(app, (part.router for part in parts))
    app.add_exception_handler(Refusal, answer_refusal)
    app.add_exception_handler(kinbin.KinbinError, answer_library_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_middleware(Packing)
    app.add_middleware(Gate, checks=checks, metrics=metrics, tracing=tracing)
    return app
