"""The node's application: that of the service, with what its cluster needs inside of the same gate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import orjson
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_cluster.errors import ClusterError
from kinbin_cluster.node.reads import MOST_WAIT_MS, Replicated
from kinbin_cluster.node.running import RunningNode
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.app import create_app
from kinbin_service.problems import Entry, Refusal
from kinbin_service.settings import Settings, is_wildcard, reached_at

__all__ = ["create_node_app"]

MOST_ASKED = 1_000
log = logging.getLogger("kinbin.cluster.node")
router = APIRouter(include_in_schema=False)


def create_node_app(settings: Settings, cluster: ClusterSettings, ready: Callable[[], object] = bool) -> FastAPI:
    """The ASGI application of a node. settings: of one worker, whose key is the one between gateways and nodes.

    ready: called once when requests are taken.
    """
    app = create_app(settings, ready)
    serving = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with serving(app) as state:
            address = reached_at(settings.host, settings.port, tls=settings.tls_cert_file is not None)
            if settings.tls_cert_file is not None and (cluster.address or "").startswith("http:"):
                text = f"no gateway would reach it: it has a certificate, and its --address is {cluster.address}; it begins with https:"
                raise ClusterError(text)
            if cluster.address is None and is_wildcard(settings.host):
                log.warning(
                    "KINBIN_CLUSTER_ADDRESS is not set: gateways of this machine alone reach the node",
                    extra={"fields": {"address": address}},
                )
            async with RunningNode.running(app.state.service, cluster, address) as node:
                app.state.node = node
                yield state

    app.router.lifespan_context = lifespan
    app.include_router(router)
    # Behind the gate and the packing of answers, which were added before: nobody waits here who has no key.
    app.user_middleware.append(Middleware(Replicated, node=lambda scope: scope["app"].state.node))
    return app


@router.post("/cluster/verdicts")
async def verdicts(request: Request) -> Response:
    """What became of entries of the log, each as soon as its replica has applied it; waits for `wait_ms` at most."""
    try:
        asked = orjson.loads(await request.body())
        places = [(str(one["uid"]), int(one["shard"]), min(int(one["sequence"]), 1 << 62)) for one in asked["asked"]]
        seconds = min(MOST_WAIT_MS, max(0, int(asked.get("wait_ms", 0)))) / 1_000
    except (ValueError, KeyError, TypeError, AttributeError):
        text = 'expected {"asked": [{"uid", "shard", "sequence"}], "wait_ms"}'
        raise Refusal("bad_request", text, [Entry("#", text)]) from None
    if len(places) > MOST_ASKED:
        raise Refusal("over_limit", f"at most {MOST_ASKED} verdicts are asked for at once", [Entry("#/asked", "too many")])
    node: RunningNode = request.app.state.node
    told = await asyncio.gather(*(_verdict(node, *place, seconds) for place in places))
    return Response(orjson.dumps({"verdicts": told}), media_type="application/json")


async def _verdict(node: RunningNode, uid: str, shard: int, sequence: int, seconds: float) -> dict[str, Any]:
    """One of them; of sequence 0 how many items there are."""
    about: dict[str, Any] = {"uid": uid, "shard": shard, "sequence": sequence}
    replica = node.replicas.get((uid, shard))
    applier = None if replica is None else replica.applier
    if applier is None:
        return about | {"missing": True}
    reached = await applier.progress.reached(sequence, seconds)
    about["applied"] = applier.progress.applied
    if not reached:
        return about | {"lagging": True}
    if not sequence:
        return about | {"count": applier.items}
    return about | (applier.verdicts.of(sequence) or {"unknown": True})


@router.get("/cluster/node")
async def status(request: Request) -> Response:
    """What this node holds, and how far it is."""
    node: RunningNode = request.app.state.node
    shards = [{"uid": uid, "shard": shard, **asdict(replica.told())} for (uid, shard), replica in sorted(node.replicas.items())]
    return Response(orjson.dumps({"node": node.means.name, "version": kinbin.__version__, "shards": shards}), media_type="application/json")
