"""The gateway's application: the routes of one server, each answered by the nodes of a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

import kinbin
from kinbin_cluster.gateway import browsing, collections, insights, items, operations, queries, writes
from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.compression import Packing
from kinbin_service.gate import Checks, Gate
from kinbin_service.metrics import Metrics
from kinbin_service.problems import Refusal, answer_http_error, answer_library_error, answer_refusal
from kinbin_service.routes import dashboard
from kinbin_service.settings import Settings
from kinbin_service.tracing import Tracing

__all__ = ["ROUTES", "create_app"]

Handler = Callable[[Request], Awaitable[Response]]

_OF_COLLECTION = "/v1/collections/{name}"

READS: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/query", queries.query_default),
    ("POST", f"{_OF_COLLECTION}/query", queries.query),
    ("POST", f"{_OF_COLLECTION}/get", items.get),
    ("POST", f"{_OF_COLLECTION}/scroll", items.scroll),
    ("POST", f"{_OF_COLLECTION}/count", items.count),
    ("POST", f"{_OF_COLLECTION}/facets", items.facets),
    ("POST", f"{_OF_COLLECTION}/explain", insights.explain),
    ("GET", _OF_COLLECTION, browsing.get_collection),
    ("GET", f"{_OF_COLLECTION}/limits", browsing.get_limits),
    ("GET", "/v1/collections", browsing.list_collections),
    ("GET", "/v1/aliases", browsing.list_aliases),
    *((method, path, insights.refuse(what)) for (method, path), what in insights.REFUSED.items()),
)
"""Requests that take a place (`Room`)."""

IDLE: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/livez", operations.livez),
    ("GET", "/readyz", operations.readyz),
    ("GET", "/healthz", operations.healthz),
    ("GET", "/v1/limits", operations.limits),
    ("GET", "/v1/cluster", operations.cluster),
    ("GET", "/metrics", operations.metrics),
    ("GET", "/openapi.json", operations.openapi),
    ("GET", "/docs", operations.docs),
    ("GET", "/", operations.front),
)
"""Requests that are answered however many are under way."""

ROUTES = frozenset((method, path) for method, path, _ in (*READS, *IDLE))
"""What this module answers itself; writes have routers of their own."""


def create_app(
    settings: Settings,
    cluster_settings: ClusterSettings,
    ready: Callable[[], object] = bool,
    running: Callable[[Metrics], AbstractAsyncContextManager[Gateway]] | None = None,
) -> FastAPI:
    """The ASGI application of these settings. ready: called once when requests are taken.

    running: what gives the gateway; by default one that is connected to NATS.
    """
    metrics, tracing = Metrics(), Tracing(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        made = Gateway.running(settings, cluster_settings, metrics, ready) if running is None else running(metrics)
        async with made as gateway:
            app.state.service = app.state.cluster = gateway
            gateway.tracing = tracing
            yield

    app = FastAPI(
        title="Kinbin", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    # Not FastAPI's routes: what these do for a request takes as long as sending it on.
    app.router.routes.extend(_Route(path, _placed(handler), methods=[method]) for method, path, handler in READS)
    app.router.routes.extend(_Route(path, handler, methods=[method]) for method, path, handler in IDLE)
    for part in (writes.routes, collections.routes, dashboard.router):
        app.include_router(part)
    app.add_exception_handler(Refusal, answer_refusal)
    app.add_exception_handler(kinbin.KinbinError, answer_library_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_middleware(Packing)
    app.add_middleware(Gate, checks=Checks(settings), metrics=metrics, tracing=tracing)
    return app


class _Route(Route):
    """A route that the metrics find in the scope of its requests."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As of any route."""
        match, child = super().matches(scope)
        if match is not Match.NONE:
            child["route"] = self
        return match, child


def _placed(handler: Handler) -> Handler:
    """A handler whose requests take a place."""

    async def placed(request: Request) -> Response:
        with request.app.state.service.admission.enter():
            return await handler(request)

    return placed
