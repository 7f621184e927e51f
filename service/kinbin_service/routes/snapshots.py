"""Snapshots: made, listed, downloaded, verified and deleted beside a collection, and restored into a new one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import FileResponse, Response

import kinbin
from kinbin_service.bodies import JSON, SNAPSHOT, content_type, parse_json, read_body, too_large
from kinbin_service.documented import NAMED, parameters, route, without
from kinbin_service.limits import body_limit
from kinbin_service.problems import Refusal
from kinbin_service.replies import encode, reply
from kinbin_service.routes.collections import describe
from kinbin_service.routes.received import Name, no_options, options, received_json
from kinbin_service.schemas.answers import CollectionAnswer
from kinbin_service.schemas.snapshots import (
    RestoreOptions,
    RestoreRequest,
    SnapshotAnswer,
    SnapshotDeletedAnswer,
    SnapshotRequest,
    SnapshotsAnswer,
    VerifiedAnswer,
)
from kinbin_service.schemas.validation import validate
from kinbin_service.service import service_of

__all__ = ["router"]

router = APIRouter(tags=["snapshots"])

Id = Annotated[str, Path(description="id of the snapshot", examples=["20260131T120000000Z-4f1c09"])]
_RANGE = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", re.ASCII | re.IGNORECASE)
_WRITTEN_BYTES = 4 << 20
"""Of an upload, at a time: in a thread, since the disk may be busy."""
NOT_THERE = frozenset({"bad_name", "snapshot_not_found"})
"""Snapshots outlive their collections, so nobody asks whether these are there."""
UNQUEUED = "deadline"
"""What work of minutes is never refused with: it begins at once, or is refused as there is such work already."""

CREATE = without(route("Make a snapshot", SnapshotAnswer, body=SnapshotRequest, refusals=NAMED | {"storage_full"}), UNQUEUED)


@router.post("/v1/collections/{name}/snapshots", **CREATE, status_code=201)
async def create_snapshot(request: Request, name: Name) -> Response:
    """A consistent copy of the collection as it is at one moment, made while others read and write it.

    One at a time in a worker; 429 says that another is at work. What was begun goes on when the client leaves.
    """
    async with received_json(request, SnapshotRequest) as asked, service_of(request).long_work() as run:
        snapshots = service_of(request).database.snapshots
        made = await run(lambda cancel: snapshots.create(name, asked.keep, cancel=cancel))
        return reply(encode(asdict(made)), 201)


@router.get("/v1/collections/{name}/snapshots", **route("List snapshots", SnapshotsAnswer, refusals=frozenset({"bad_name"})))
async def list_snapshots(request: Request, name: Name) -> Response:
    """Those of a collection, which need not be there any more, the oldest first."""
    snapshots = service_of(request).database.snapshots

    def listed() -> bytes:
        return encode({"snapshots": [asdict(one) for one in snapshots.list(name)]})

    return reply(await service_of(request).work(request, listed))


DOWNLOAD = route("Download a snapshot", None, refusals=NOT_THERE | {"range_not_satisfiable"})
DOWNLOADED: dict[int | str, dict[str, Any]] = {
    200: {"content": {SNAPSHOT: {"schema": {"type": "string", "format": "binary"}}}, "description": "The file"},
    206: {"content": {SNAPSHOT: {"schema": {"type": "string", "format": "binary"}}}, "description": "The part of it that Range names"},
}


@router.get("/v1/collections/{name}/snapshots/{id}", **DOWNLOAD, responses=DOWNLOADED)
async def get_snapshot(request: Request, name: Name, id: Id) -> Response:
    """The file, with its SHA-256 as ETag. One range of bytes may be asked for, to go on where a download broke off."""
    snapshots = service_of(request).database.snapshots
    path, told = await service_of(request).work(request, lambda: (snapshots.path(name, id), snapshots.info(name, id)))
    _check_range(request, told.bytes)
    headers = {"ETag": f'"{told.sha256}"', "Cache-Control": "no-store"}
    return FileResponse(path, media_type=SNAPSHOT, filename=f"{name}-{id}.kinbin", headers=headers)


def _check_range(request: Request, size: int) -> None:
    """Leave one range that the file has, or none: what is no range is left out, as HTTP has it; one beyond the end is refused."""
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None or not (asked[1] or asked[2]) or (asked[1] and asked[2] and int(asked[1]) > int(asked[2])):
        request.scope["headers"] = [(key, value) for key, value in request.scope["headers"] if key != b"range"]
    elif (asked[1] and int(asked[1]) >= size) or (not asked[1] and not int(asked[2])):
        raise Refusal("range_not_satisfiable", f"the snapshot has {size:,} bytes")


@router.delete("/v1/collections/{name}/snapshots/{id}", **route("Delete a snapshot", SnapshotDeletedAnswer, refusals=NOT_THERE))
async def delete_snapshot(request: Request, name: Name, id: Id) -> Response:
    """The file is removed; the collection stays as it is."""
    snapshots = service_of(request).database.snapshots

    def delete() -> bytes:
        snapshots.delete(name, id)
        return encode({"deleted": id})

    return reply(await service_of(request).work(request, delete))


VERIFY = without(route("Verify a snapshot", VerifiedAnswer, refusals=NOT_THERE), UNQUEUED)


@router.post("/v1/collections/{name}/snapshots/{id}/verify", **VERIFY)
async def verify_snapshot(request: Request, name: Name, id: Id) -> Response:
    """Reads all of it, and proves every record. One at a time in a worker, with the making of snapshots."""
    async with service_of(request).long_work() as run:
        snapshots = service_of(request).database.snapshots
        return reply(encode(asdict(await run(lambda _: snapshots.verify(name, id)))))


RESTORE = route(
    "Restore a snapshot into a new collection",
    CollectionAnswer,
    body=RestoreRequest,
    other_bodies={SNAPSHOT: {"schema": {"type": "string", "format": "binary", "description": "the file of a snapshot, of any length"}}},
    parameters=parameters(RestoreOptions),
    refusals=NOT_THERE | {"alias_conflict", "collection_exists", "corrupt_snapshot", "no_snapshot", "over_limit", "storage_full"},
)


@router.post("/v1/restore", **without(RESTORE, UNQUEUED), status_code=201)
async def restore(request: Request) -> Response:
    """Of one that the service keeps (JSON), or of an uploaded file (`?name=`): all of it is proved before anything is made.

    The collection is there whole or not at all. Restore only files whose maker you trust: checksums do not prove who made one.
    """
    media_type = content_type(request, (JSON, SNAPSHOT))
    service = service_of(request)
    if media_type == SNAPSHOT:
        name = options(request, RestoreOptions).name
        async with service.long_work() as run:
            with service.database.snapshots.draft() as (file, path):
                await _written(request, file)
                try:
                    return reply(await run(_restoring(service.database, path, name)), 201)
                except kinbin.CorruptData as error:
                    raise Refusal("corrupt_snapshot", f"{error}: nothing was made") from None
                except kinbin.FormatMismatch as error:
                    raise Refusal("no_snapshot", f"{error}: nothing was made") from None
    no_options(request)
    with service.buffers.account() as account:
        body = await read_body(request, account, "body_bytes", service.settings.max_body_bytes, service.settings.body_seconds)
    asked = validate(RestoreRequest, parse_json(body))
    snapshots = service.database.snapshots
    async with service.long_work() as run:
        path = await asyncio.to_thread(snapshots.path, asked.collection, asked.snapshot)
        return reply(await run(_restoring(service.database, path, asked.name)), 201)


def _restoring(database: kinbin.Database, path: Any, name: str) -> Callable[[Any], bytes]:
    def call(cancel: Any) -> bytes:
        return encode(describe(database.restore(path, name, cancel=cancel)))

    return call


def _write(file: BinaryIO, data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise Refusal("storage_full", "the snapshot could not be stored; nothing was made of it") from error


async def _written(request: Request, file: BinaryIO) -> None:
    """Write the body of a request to a file as it arrives. Refused: longer than its limit, or silent for too long."""
    settings = service_of(request).settings
    name, limit = body_limit(request.scope["path"], settings)
    size, waiting = 0, bytearray()
    chunks = request.stream()
    while True:
        try:
            async with asyncio.timeout(settings.body_seconds):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise Refusal("body_timeout", f"nothing of the body arrived for {settings.body_seconds:g} seconds") from None
        size += len(chunk or b"")
        if size > limit:
            raise too_large(name, limit)
        waiting += chunk or b""
        if len(waiting) >= _WRITTEN_BYTES or chunk is None:
            await asyncio.to_thread(_write, file, bytes(waiting))
            waiting.clear()
        if chunk is None:
            return
