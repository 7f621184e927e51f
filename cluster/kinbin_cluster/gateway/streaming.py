"""Streams of lines through a gateway: as on one node, each batch a write that is cut by shard."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_cluster.gateway.adding import added
from kinbin_cluster.gateway.schemas import collection_named
from kinbin_cluster.gateway.verdicts import counts_of
from kinbin_service.problems import Refusal
from kinbin_service.routes import streaming
from kinbin_service.routes.received import DEFAULT
from kinbin_service.service import service_of

__all__ = ["stream_index"]

_COUNT_SECONDS = 5.0


async def stream_index(request: Request, name: str) -> Response:
    """The answer to a stream; its body is read while it is sent."""
    return await streaming.stream_index(request, name, _Stream)


class _Stream(streaming.Stream):
    """One stream into a cluster."""

    async def added(self, body: bytes, key: str | None) -> tuple[kinbin.AddResult, dict[str, Any]]:
        """One batch."""
        service: Any = service_of(self._request)
        batch = await service.parsed(len(body), lambda: self.batch(body))
        done = await added(service, self._name, batch, len(body), key)
        return done.result, done.bad

    async def counted(self) -> int:
        """Items of all shards."""
        service: Any = service_of(self._request)
        try:
            collection = collection_named(service.picture, self._name)
        except kinbin.CollectionNotFound:
            if self._name == DEFAULT:
                return 0
            raise
        counts = await counts_of((service.picture, service.fanout), collection.uid, range(collection.shards), _COUNT_SECONDS)
        known = [count for count in counts if count is not None]
        if len(known) < collection.shards:
            raise Refusal("shard_unavailable", "a shard does not tell how many items it has")
        return sum(known)
