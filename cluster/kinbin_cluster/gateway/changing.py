"""Changes of a collection's settings, which every shard keeps for itself: one request after the other, and in one order on all shards.

A gateway that changes settings has a lease. Its edits carry the lease's term, and a shard refuses those of an earlier term than it has
seen: so a gateway that stalled leaves no shard with what a later request has changed on the others.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kinbin_cluster.gateway.cutting import Part, parts_of
from kinbin_cluster.leases import Lease, alone
from kinbin_cluster.message import Edit
from kinbin_cluster.picture import Collection
from kinbin_service.problems import Refusal

__all__ = ["changing", "index_parts", "limit_parts"]

_SECONDS = 10.0


@asynccontextmanager
async def changing(service: Any, collection: Collection) -> AsyncIterator[Lease]:
    """Change settings of a collection for the block. Raises Refusal where others do for too long."""

    def refused() -> Refusal:
        return Refusal("storage_busy", "other settings of the collection are changed just now: send it again; nothing was written")

    lease = Lease(service.registry, f"settings.{collection.uid}", secrets.token_hex(8), service.connection.clock)
    async with alone(lease, _SECONDS, refused):
        yield lease


def index_parts(collection: Collection, add: Mapping[str, Any], drop: Any, lease: Lease) -> list[Part]:
    """Payload indexes to declare and to drop, the same for all shards."""
    edit = Edit("indexes", more={"add": dict(add), "drop": list(drop), "term": lease.term})
    return parts_of(dict.fromkeys(range(collection.shards), edit))


def limit_parts(collection: Collection, items: int | None, lease: Lease) -> list[Part]:
    """A limit of items. Each shard holds its share."""

    def share(shard: int) -> int | None:
        return None if items is None else items // collection.shards + (shard < items % collection.shards)

    return parts_of({shard: Edit("limits", more={"items": share(shard), "term": lease.term}) for shard in range(collection.shards)})
