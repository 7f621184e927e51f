"""Snapshots of a service: `Client.snapshots` and `AsyncClient.snapshots`, and what restoring sends."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from kinbin_client import _flows
from kinbin_client._flows import Flow
from kinbin_client._requests import Operation, Request, collection_path, json_request, to_json
from kinbin_client._responses import Reply, discard, model_parser, raise_for_error
from kinbin_client._transport import AsyncSender, SyncSender
from kinbin_client.errors import InvalidArgument, UnexpectedResponse
from kinbin_client.models import Snapshot, SnapshotReport
from kinbin_client.retry import Repeat, Retry

__all__ = ["AsyncSnapshots", "Snapshots", "restore"]

LONG_SECONDS = 3_600.0
"""A whole collection is read or written before there is an answer."""
_PART_BYTES = 8 << 20
"""Of a download: one that breaks off goes on with the part at hand."""
_TYPE = "application/x-kinbin-snapshot"
_PART = re.compile(r"bytes (\d+)-(\d+)/(\d+)", re.ASCII)


class _Listed(BaseModel):
    snapshots: list[Snapshot]


_parse_one, _parse_list, _parse_report = model_parser(Snapshot), model_parser(_Listed), model_parser(SnapshotReport)


def _path(name: str, id: str = "") -> str:
    return f"{collection_path(name)}/snapshots{'/' + quote(id, safe='') if id else ''}"


def _create(name: str, keep: int | None) -> Operation[Snapshot]:
    """Not sent again when it may have been done: there would be two of them."""
    body = to_json({} if keep is None else {"keep": keep}, "request")
    sent = json_request("POST", _path(name), body, Repeat.IF_NOT_DONE)
    return Operation(Request(sent.method, sent.path, sent.body, sent.headers, sent.repeat, LONG_SECONDS), _parse_one)


def _list(name: str) -> Operation[list[Snapshot]]:
    return Operation(Request("GET", _path(name)), lambda reply: _parse_list(reply).snapshots)


def _delete(name: str, id: str) -> Operation[None]:
    return Operation(Request("DELETE", _path(name, _some(id)), repeat=Repeat.IF_NOT_DONE), discard)


def _verify(name: str, id: str) -> Operation[SnapshotReport]:
    return Operation(Request("POST", f"{_path(name, _some(id))}/verify", timeout=LONG_SECONDS), _parse_report)


def _some(id: str) -> str:
    if not isinstance(id, str) or not id:
        raise InvalidArgument("the id of a snapshot is a string that is not empty", code="bad_parameter")
    return id


def restore(source: str | os.PathLike[str] | Snapshot, name: str) -> Operation[Any]:
    """Restore a snapshot that the service keeps, or upload a file."""
    if isinstance(source, Snapshot):
        body = to_json({"collection": source.collection, "snapshot": source.id, "name": name}, "request")
        sent = json_request("POST", "/v1/restore", body, Repeat.IF_NOT_DONE)
        return Operation(Request(sent.method, sent.path, sent.body, sent.headers, sent.repeat, LONG_SECONDS), discard)
    file = Path(source)
    if not file.is_file():
        raise InvalidArgument(f"{file} is no file: a snapshot is restored from a file, or from one of `snapshots`", code="bad_parameter")
    collection_path(name)
    headers = {"content-type": _TYPE, "content-length": str(file.stat().st_size)}
    path = f"/v1/restore?name={quote(name, safe='')}"
    return Operation(Request("POST", path, None, headers, Repeat.IF_NOT_DONE, LONG_SECONDS, file), discard)


def _download(name: str, id: str, write: Callable[[bytes], object], retry: Retry) -> Flow[str]:
    """Hand over a snapshot part by part. Returns the SHA-256 that the service tells of it."""
    at, size, digest = 0, 1, ""
    while at < size:
        headers = {"range": f"bytes={at}-{at + _PART_BYTES - 1}", "accept-encoding": "identity"}
        reply = yield from _flows.send(Operation(Request("GET", _path(name, _some(id)), headers=headers), _received), retry)
        told = _PART.fullmatch(reply.headers.get("content-range", ""))
        tag = reply.headers.get("etag", "").strip('"')
        if reply.status != 206 or told is None or int(told[1]) != at or not reply.body or (digest and tag != digest):
            raise UnexpectedResponse("the service did not send the part of the snapshot that was asked for", reply.status)
        write(reply.body)
        at, size, digest = at + len(reply.body), int(told[3]), tag
    return digest


def _received(reply: Reply) -> Reply:
    raise_for_error(reply)
    return reply


class _Target:
    """A new file that a download is written to: whole, and the one that was asked for, or not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists():
            raise InvalidArgument(f"{self.path} is there: a download overwrites nothing", code="bad_parameter")
        self._draft = self.path.with_name(f".{self.path.name}.part")
        self._digest = hashlib.sha256()
        self._file = self._draft.open("wb")

    def write(self, part: bytes) -> None:
        """Add a part."""
        self._digest.update(part)
        self._file.write(part)

    def finish(self, digest: str) -> Path:
        """Give it its name, if it is what was told."""
        if self._digest.hexdigest() != digest:
            raise UnexpectedResponse("the snapshot that arrived has another SHA-256 than the service tells of", 200)
        self._file.close()
        self._draft.rename(self.path)
        return self.path

    def close(self) -> None:
        """Remove what is not whole."""
        self._file.close()
        self._draft.unlink(missing_ok=True)


class Snapshots:
    """The snapshots that a service keeps. Made by `Client.snapshots`.

    Usage:
        made = client.snapshots.create("photos", keep=7)
        client.snapshots.download("photos", made.id, "photos.kinbin")
        client.restore(made, "photos-2")
    """

    def __init__(self, sender: SyncSender, retry: Retry) -> None:
        self._sender, self._retry = sender, retry

    def create(self, name: str, keep: int | None = None) -> Snapshot:
        """Make a snapshot of a collection while it is used. keep: so many of it stay, the newest; None: all."""
        return self._sender.run(_flows.send(_create(name, keep), self._retry))

    def list(self, name: str) -> list[Snapshot]:
        """The snapshots of a collection, which need not be there any more, the oldest first."""
        return self._sender.run(_flows.send(_list(name), self._retry))

    def delete(self, name: str, id: str) -> None:
        """Remove one; NotFound if it is not there."""
        self._sender.run(_flows.send(_delete(name, id), self._retry))

    def verify(self, name: str, id: str) -> SnapshotReport:
        """Let the service read all of one, and prove every record."""
        return self._sender.run(_flows.send(_verify(name, id), self._retry))

    def download(self, name: str, id: str, path: str | os.PathLike[str]) -> Path:
        """Fetch one into a new file, whose SHA-256 is compared. A part that breaks off is asked for again."""
        target = _Target(path)
        try:
            return target.finish(self._sender.run(_download(name, id, target.write, self._retry)))
        finally:
            target.close()


class AsyncSnapshots:
    """The same, awaited. Made by `AsyncClient.snapshots`."""

    def __init__(self, sender: AsyncSender, retry: Retry) -> None:
        self._sender, self._retry = sender, retry

    async def create(self, name: str, keep: int | None = None) -> Snapshot:
        """Make a snapshot of a collection while it is used. keep: so many of it stay, the newest; None: all."""
        return await self._sender.run(_flows.send(_create(name, keep), self._retry))

    async def list(self, name: str) -> list[Snapshot]:
        """The snapshots of a collection, which need not be there any more, the oldest first."""
        return await self._sender.run(_flows.send(_list(name), self._retry))

    async def delete(self, name: str, id: str) -> None:
        """Remove one; NotFound if it is not there."""
        await self._sender.run(_flows.send(_delete(name, id), self._retry))

    async def verify(self, name: str, id: str) -> SnapshotReport:
        """Let the service read all of one, and prove every record."""
        return await self._sender.run(_flows.send(_verify(name, id), self._retry))

    async def download(self, name: str, id: str, path: str | os.PathLike[str]) -> Path:
        """Fetch one into a new file, whose SHA-256 is compared. A part that breaks off is asked for again."""
        target = _Target(path)
        try:
            return target.finish(await self._sender.run(_download(name, id, target.write, self._retry)))
        finally:
            target.close()
