"""Reads of replicas: they may wait for a sequence, and say how far the replica was. Writes go through gateways, and are refused here."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbin_cluster.node.replica import ShardReplica
from kinbin_cluster.node.running import RunningNode
from kinbin_cluster.progress import Progress
from kinbin_cluster.shards import local_shard
from kinbin_service.keys import needed
from kinbin_service.problems import Entry, Refusal

__all__ = ["AFTER", "APPLIED", "WAIT", "Replicated"]

AFTER, WAIT, APPLIED = "X-Kinbin-After", "X-Kinbin-Wait-Ms", "X-Kinbin-Applied"
"""Of a request: the sequence to wait for, and how long; of an answer: the last sequences that it surely, and at most, has seen."""
WAIT_MS, MOST_WAIT_MS = 2_000, 30_000
ALL_LIVE = b"replicas=live"
"""Of GET /readyz: ready is a node all of whose replicas answer."""


class Replicated:
    """ASGI middleware inside of the gate."""

    def __init__(self, app: ASGIApp, node: Callable[[Scope], RunningNode]) -> None:
        self._app = app
        self._node = node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            _refuse_what_is_whole(scope["path"])
            _refuse_writes(scope["method"], scope["path"])
            if scope["path"] == "/readyz" and scope["query_string"] == ALL_LIVE:
                _refuse_unless_live(self._node(scope))
            found = self._replica(scope)
            if found is not None:
                await _wait(found[1], Headers(scope=scope))
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        if found is None:
            await self._app(scope, receive, send)
            return
        replica, progress = found
        started = time.perf_counter()
        try:
            await self._app(scope, receive, _telling(progress, send))
        finally:
            replica.read_for(time.perf_counter() - started)

    def _replica(self, scope: Scope) -> tuple[ShardReplica, Progress] | None:
        """The one that is asked for, and how far it is; None: none is."""
        parts = scope["path"].split("/")
        place = local_shard(parts[3]) if parts[:3] == ["", "v1", "collections"] and len(parts) > 3 else None
        if place is None:
            return None
        replica = self._node(scope).replicas.get(place)
        if replica is None or replica.applier is None:
            raise Refusal("collection_not_found", "this node holds no replica of that shard, or makes it just now")
        return replica, replica.applier.progress


def _refuse_unless_live(node: RunningNode) -> None:
    """Refuse while a replica that this node is to hold does not answer yet: an update of machine after machine waits for that."""
    waiting = node.not_live()
    if waiting:
        raise Refusal("not_ready", f"{waiting} of this node's replicas are not live yet")


def _refuse_what_is_whole(path: str) -> None:
    """Snapshots, restores and aliases are of whole collections, of which a node has parts: whoever asks, and by whatever method."""
    parts = path.split("/")[1:]
    if parts[:2] in (["v1", "restore"], ["v1", "aliases"]) or (parts[:2] == ["v1", "collections"] and parts[3:4] == ["snapshots"]):
        what = "a node has replicas of shards, and no whole collection: ask a gateway; `kinbin export` copies a collection of a cluster"
        raise Refusal("not_in_cluster", what)


def _refuse_writes(method: str, path: str) -> None:
    role, _ = needed(method, path)
    if role == "write" or (role == "admin" and method not in {"GET", "HEAD"} and not path.startswith("/cluster/")):
        raise Refusal("not_in_cluster", "a node takes no writes: its replicas follow the log of their shards; write by a gateway")


async def _wait(progress: Progress, headers: Headers) -> None:
    after = headers.get(AFTER)
    if after is None:
        return
    sequence, wait = _number(after, AFTER), min(MOST_WAIT_MS, _number(headers.get(WAIT, str(WAIT_MS)), WAIT))
    if not await progress.reached(sequence, wait / 1_000):
        raise Refusal("lagging", f"this replica has applied {progress.applied}, and not yet {sequence}")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise Refusal("invalid_field", f"{name} is a whole number", [Entry("#", f"{name} is a whole number")])
    return int(text)


def _telling(progress: Progress, send: Send) -> Send:
    """Sends answers that tell what the read has seen: all up to the first number, nothing beyond the second."""
    before = progress.applied

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            told = f"{before}-{progress.begun}".encode()
            message["headers"] = [*message.get("headers", ()), (APPLIED.lower().encode(), told)]
        await send(message)

    return sending
