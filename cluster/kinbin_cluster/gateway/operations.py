"""Operations of a gateway: health, limits, metrics, documentation. As on a server, they answer under any load."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import kinbin
from kinbin_cluster.gateway.contract import contract
from kinbin_cluster.gateway.metrics import GatewayMetrics
from kinbin_cluster.gateway.reading import gateway_of
from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.overview import overview
from kinbin_service.docs_page import CONTENT_SECURITY_POLICY, render
from kinbin_service.limits import all_limits
from kinbin_service.metrics import CONTENT_TYPE
from kinbin_service.problems import Refusal
from kinbin_service.replies import encode, reply

__all__ = ["cluster", "docs", "front", "healthz", "limits", "livez", "metrics", "openapi", "readyz"]


async def livez(request: Request) -> Response:
    """GET /livez: 200 as long as the gateway runs."""
    return reply(encode(_status(gateway_of(request))))


async def healthz(request: Request) -> Response:
    """GET /healthz: the same."""
    return await livez(request)


async def readyz(request: Request) -> Response:
    """GET /readyz: 200 while some node lives, be NATS there or not: reads go on without it. Else it says what is lacking."""
    gateway = gateway_of(request)
    if gateway.stopping:
        return Refusal("stopping", "the gateway is stopping").response()
    if not gateway.picture.live():
        known = sorted(gateway.picture.nodes)
        silent = f"no node that this gateway knows has told of itself lately: {', '.join(known[:8])}" if known else "no node has joined yet"
        return Refusal("not_ready", f"{silent}; start nodes (kinbin node), or look at kinbin cluster status").response()
    return reply(encode(_status(gateway)))


async def limits(request: Request) -> Response:
    """GET /v1/limits."""
    table = all_limits(gateway_of(request).settings).values()
    rows = [{"name": limit.name, "value": limit.value, "unit": limit.unit, "reason": limit.reason} for limit in table]
    return reply(encode({"limits": rows}))


async def metrics(request: Request) -> Response:
    """GET /metrics: those of a server, and what the gateway knows of the cluster."""
    gateway = gateway_of(request)
    gateway.metrics.sample(gateway)
    text = await asyncio.to_thread(gateway.metrics.text, GatewayMetrics(gateway))
    return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


async def cluster(request: Request) -> Response:
    """GET /v1/cluster: nodes, gateways and shards as this gateway knows them; no node is asked, and no server of NATS."""
    gateway = gateway_of(request)
    connected = gateway.connection is not None and gateway.connection.connected
    return reply(encode({**overview(gateway.picture), "nats_connected": connected}))


async def openapi(_request: Request) -> Response:
    """GET /openapi.json: the contract of one server, and what a cluster has besides."""
    return reply(encode(contract()))


async def docs(_request: Request) -> Response:
    """GET /docs: the same for people."""
    return HTMLResponse(render(contract()), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


async def front(_request: Request) -> Response:
    """GET /: to the page for people."""
    return RedirectResponse("docs")


def _status(gateway: Gateway) -> dict[str, object]:
    live = len(gateway.picture.live())
    status = "stopping" if gateway.stopping else "ready" if live else "starting"
    return {"status": status, "version": kinbin.__version__, "compiling": [], "background": "ok", "nodes": live}
