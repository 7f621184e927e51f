"""Compaction: everything of a collection merged into one run now, and disk given back."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from kinbin_service.documented import NAMED, route, without
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import Name, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.compacting import CompactAnswer, CompactRequest
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes("collections")
# It begins at once, or is refused as there is such work already.
COMPACT = without(route("Compact a collection", CompactAnswer, body=CompactRequest, refusals=NAMED | {"storage_full"}), "deadline")
COMPACT["openapi_extra"]["requestBody"]["required"] = False


@router.post("/v1/collections/{name}/compact", **COMPACT)
async def compact_collection(request: Request, name: Name) -> Response:
    """Seal and merge everything into one run; with `shrink` what lives is copied into a new file as well, which needs free disk.

    Queries go on, and writes: with `shrink` these wait for some microseconds an item at the end. It is answered when it is done, goes on
    when the client leaves, and shares its turn with snapshots: one at a time in a worker, otherwise 429. No body is `{}`.
    """
    async with received_json(request, CompactRequest, empty=b"{}") as asked, service_of(request).long_work() as run:
        database = service_of(request).database

        def compact(_: object) -> bytes:
            done = database.collection(name).compact(shrink=asked.shrink)
            return encode({"before_bytes": done.before_bytes, "after_bytes": done.after_bytes, "freed_bytes": done.freed_bytes})

        return reply(await run(compact))
