"""Operations: health, limits, documentation. None of them waits in the queue, so they answer under any load."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

import kinbin
from kinbin_service.docs_page import CONTENT_SECURITY_POLICY, render
from kinbin_service.documented import route, without
from kinbin_service.limits import all_limits
from kinbin_service.metrics import CONTENT_TYPE
from kinbin_service.openapi import document
from kinbin_service.replies import encode, reply
from kinbin_service.routing import routes
from kinbin_service.schemas.answers import LimitsAnswer, StatusAnswer
from kinbin_service.service import Service, service_of

__all__ = ["router"]

router = routes("operations")


def _status(service: Service) -> Response:
    background = "failing" if service.background_fails() else "ok"
    told = {"status": service.state, "version": kinbin.__version__, "compiling": service.kernels.pending, "background": background}
    return reply(encode(told))


GATES = ("unauthorized", "forbidden", "foreign_origin", "unknown_host")
"""What nobody is refused with who asks for health."""


@router.get("/livez", **without(route("Is the worker alive", StatusAnswer, works=False), *GATES))
async def livez(request: Request) -> Response:
    """200 as soon as the worker runs; 500 when it can never become ready and should be restarted."""
    service = service_of(request)
    return service.unavailable().response() if service.state == "failed" else _status(service)


READYZ = route("Does the worker take requests", StatusAnswer, works=False, refusals=frozenset({"not_ready", "stopping"}))


@router.get("/readyz", **without(READYZ, *GATES))
async def readyz(request: Request) -> Response:
    """200 once the kernels that small collections need are loaded; 503 before that, and while the worker stops.

    `compiling` names groups of kernels that are still being compiled or loaded: "small", without which nothing is answered, "bands"
    (collections of more than a thousand items) and "links". A request that needs one of them is answered when it is there.
    """
    service = service_of(request)
    return _status(service) if service.state == "ready" else service.unavailable().response()


@router.get("/healthz", **without(route("Health in one word", StatusAnswer, works=False), *GATES))
async def healthz(request: Request) -> Response:
    """The same as /livez: alive, with the state and the version."""
    return await livez(request)


@router.get("/v1/limits", **route("Every limit of this server", LimitsAnswer, works=False))
async def list_limits(request: Request) -> Response:
    """One table: name, value, unit and reason. Problem answers name the limit that was passed."""
    table = all_limits(service_of(request).settings).values()
    rows = [{"name": limit.name, "value": limit.value, "unit": limit.unit, "reason": limit.reason} for limit in table]
    return reply(encode({"limits": rows}))


@router.get("/metrics", **route("Metrics for Prometheus", str, works=False), response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Requests, refusals, queue, answers, commits, background work and collections, of all workers; the reference lists them."""
    service = service_of(request)
    service.metrics.sample(service)
    text = await asyncio.to_thread(service.metrics.text, *service.collectors)
    return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


@router.get("/openapi.json", include_in_schema=False)
async def openapi_json(request: Request) -> Response:
    """The OpenAPI document."""
    return reply(encode(document(request.app)))


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The same for people."""
    return HTMLResponse(render(document(request.app)), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


@router.get("/", include_in_schema=False)
async def front() -> Response:
    """To the page for people: relative, as a proxy may have put the server below a path of its own."""
    return RedirectResponse("docs")
