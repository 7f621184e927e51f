"""Operations of a gateway: health, limits, metrics, documentation. As on a server, they answer under any load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import kinbin
from kinbin_cluster.gateway.contract import contract
from kinbin_cluster.gateway.reading import gateway_of
from kinbin_cluster.gateway.service import Gateway
from kinbin_service.docs_page import CONTENT_SECURITY_POLICY, render
from kinbin_service.limits import all_limits
from kinbin_service.metrics import CONTENT_TYPE
from kinbin_service.problems import Refusal
from kinbin_service.replies import encode, reply

__all__ = ["GatewayMetrics", "docs", "front", "healthz", "limits", "livez", "metrics", "openapi", "readyz"]


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


async def openapi(_request: Request) -> Response:
    """GET /openapi.json: the contract of one server, and what a cluster has besides."""
    return reply(encode(contract()))


async def docs(_request: Request) -> Response:
    """GET /docs: the same for people."""
    return HTMLResponse(render(contract()), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


async def front(_request: Request) -> Response:
    """GET /: to the page for people."""
    return RedirectResponse("docs")


class GatewayMetrics:
    """What a gateway knows of its cluster, as Prometheus collects it. Labels are names of nodes, and states: never ids."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        gateway, picture = self._gateway, self._gateway.picture
        nodes = GaugeMetricFamily("kinbin_cluster_node_live", "Whether the gateway has heard of a node lately", labels=["node"])
        for name in sorted(picture.nodes):
            nodes.add_metric([name], float(picture.is_live(name)))
        yield nodes
        silent = GaugeMetricFamily("kinbin_cluster_shards_unanswered", "Shards that no live node answers for")
        lag = GaugeMetricFamily(
            "kinbin_cluster_lag_messages", "Messages that a node's replicas are behind the first of their shard", labels=["node"]
        )
        behind: dict[str, int] = {}
        unanswered = 0
        for uid, shard in list(picture.shards):
            applied = picture.applied(uid, shard)
            copies = [picture.replica(uid, shard, node) for node in applied]
            unanswered += not any(copy is not None and copy.state == "live" for copy in copies)
            for node, sequence in applied.items():
                behind[node] = behind.get(node, 0) + max(applied.values()) - sequence
        silent.add_metric([], unanswered)
        yield silent
        for node, count in sorted(behind.items()):
            lag.add_metric([node], count)
        yield lag
        owed = GaugeMetricFamily("kinbin_gateway_outstanding", "Requests that a node has not answered yet", labels=["address"])
        for address, count in sorted(gateway.fanout.outstanding().items()):
            owed.add_metric([address], count)
        yield owed
        yield CounterMetricFamily("kinbin_gateway_hedged", "Second requests that were sent as the first were late", gateway.fanout.hedged)
        yield CounterMetricFamily(
            "kinbin_gateway_elsewhere", "Requests that another replica was asked as one failed", gateway.fanout.elsewhere
        )


def _status(gateway: Gateway) -> dict[str, object]:
    live = len(gateway.picture.live())
    status = "stopping" if gateway.stopping else "ready" if live else "starting"
    return {"status": status, "version": kinbin.__version__, "compiling": [], "background": "ok", "nodes": live}
