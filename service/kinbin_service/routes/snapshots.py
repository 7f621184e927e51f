"""Snapshots: made, listed, downloaded, verified and deleted beside a collection, and restored into a new one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from email.utils import formatdate
from typing import Annotated, Any, BinaryIO

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

import kinbin
from kinbin_service.bodies import JSON, SNAPSHOT, content_encoding, content_type, parse_json, read_body, too_large
from kinbin_service.documented import NAMED, parameters, route, without
from kinbin_service.limits import body_limit
from kinbin_service.problems import Refusal
from kinbin_service.replies import encode, reply
from kinbin_service.routes.collections import describe
from kinbin_service.routes.received import Name, no_options, options, received_json
from kinbin_service.routing import routes
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

router = routes("snapshots")

Id = Annotated[str, Path(description="id of the snapshot", examples=["20260131T120000000Z-4f1c09"])]
_RANGE = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", re.ASCII | re.IGNORECASE)
_DIGITS = 20
_READ_BYTES = 256 << 10
_WRITTEN_BYTES = 4 << 20
"""Of an upload, at a time: in a thread, since the disk may be busy."""
NOT_THERE = frozenset({"bad_name", "snapshot_not_found"})
"""Snapshots outlive their collections, so nobody asks whether these are there."""
UNQUEUED = "deadline"
"""What work of minutes is never refused with: it begins at once, or is refused as there is such work already."""

CREATE = without(route("Make a snapshot", SnapshotAnswer, body=SnapshotRequest, refusals=NAMED | {"storage_full"}), UNQUEUED)
CREATE["openapi_extra"]["requestBody"]["required"] = False


@router.post("/v1/collections/{name}/snapshots", **CREATE, status_code=201)
async def create_snapshot(request: Request, name: Name) -> Response:
    """A consistent copy of the collection as it is at one moment, made while others read and write it.

    One at a time in a worker; 429 says that another is at work. What was begun goes on when the client leaves. No body is `{}`.
    """
    async with received_json(request, SnapshotRequest, empty=b"{}") as asked, service_of(request).long_work() as run:
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

    def opened() -> tuple[BinaryIO, kinbin.SnapshotInfo]:
        # In one step: it may be deleted at any time, and a file that is open stays whole.
        path = snapshots.path(name, id)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            raise kinbin.SnapshotNotFound(id) from None
        try:
            return file, snapshots.info(name, id)
        except BaseException:
            file.close()
            raise

    file, told = await service_of(request).work(request, opened)
    try:
        return _Download(request, file, told, f"{name}-{id}.kinbin")
    except BaseException:
        file.close()
        raise


class _Download(StreamingResponse):
    """A file, or the part of it that Range names; it is closed at the end."""

    def __init__(self, request: Request, file: BinaryIO, told: kinbin.SnapshotInfo, name: str) -> None:
        status = os.fstat(file.fileno())
        marks = {"ETag": f'"{told.sha256}"', "Last-Modified": formatdate(status.st_mtime, usegmt=True)}
        part = _range(request, status.st_size, tuple(marks.values()))
        start, end = part or (0, status.st_size)
        headers = {**marks, "Cache-Control": "no-store", "Accept-Ranges": "bytes", "Content-Length": str(end - start)}
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
        if part:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{status.st_size}"
        super().__init__(_parts(file, start, end), 206 if part else 200, headers, SNAPSHOT)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._file:
            await super().__call__(scope, receive, send)


async def _parts(file: BinaryIO, start: int, end: int) -> AsyncIterator[bytes]:
    """The bytes from start to end. Read in a thread, since the disk may be busy."""
    await asyncio.to_thread(file.seek, start)
    while start < end and (part := await asyncio.to_thread(file.read, min(_READ_BYTES, end - start))):
        start += len(part)
        yield part


def _range(request: Request, size: int, marks: tuple[str, ...]) -> tuple[int, int] | None:
    """The one range that is asked for; None: everything. What is no range is left out, as HTTP has it; one beyond the end is refused.

    marks: what the file is known by; a range of another (If-Range) is left out.
    """
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None or not (asked[1] or asked[2]) or request.headers.get("if-range", marks[0]) not in marks:
        return None
    first, last = _number(asked[1]), _number(asked[2])
    if asked[1] and asked[2] and first > last:
        return None
    if (asked[1] and first >= size) or (not asked[1] and not last):
        raise Refusal("range_not_satisfiable", f"the snapshot has {size:,} bytes")
    if not asked[1]:
        return max(size - last, 0), size
    return first, min(last + 1, size) if asked[2] else size


def _number(digits: str) -> int:
    """The number, or one beyond every size: numbers of thousands of digits are not made."""
    return int(digits.lstrip("0")[:_DIGITS] or "0")


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
        if content_encoding(request) != "identity":
            raise Refusal("unsupported_encoding", "an uploaded snapshot travels as it is: unpack it first")
        name = options(request, RestoreOptions).name
        with service.upload():
            # What can be refused without the file is, before its gigabytes come.
            await asyncio.to_thread(_check_free, service.database, name)
            with service.database.snapshots.draft() as (file, path):
                await _written(request, file)
                async with service.long_work(wait=True) as run:
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


def _check_free(database: kinbin.Database, name: str) -> None:
    """Refuse a name that no new collection may have."""
    if name in database.collections():
        raise kinbin.CollectionExists(f"a collection is named {name!r}: restore into a name that is free")
    if name in database.aliases():
        raise kinbin.AliasConflict(f"{name!r} is an alias: restore into a name that is free")
    with contextlib.suppress(kinbin.CollectionNotFound):
        database.collection(name)


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
