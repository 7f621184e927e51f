"""What every read at a gateway does: which collection, how far its shards have to be, who answers, and what is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.requests import Request as Received

from kinbin_cluster.gateway.fanout import Asked
from kinbin_cluster.gateway.schemas import collection_named
from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.gateway.tokens import HEADER, Token
from kinbin_cluster.gateway.transport import Reply, Request
from kinbin_cluster.picture import Collection
from kinbin_service.admission import ClientGone
from kinbin_service.bodies import JSON
from kinbin_service.problems import CODES, Entry, Refusal
from kinbin_service.replies import encode

__all__ = ["Body", "Part", "Pointers", "Reading", "as_bytes", "gateway_of", "heard", "not_in_cluster", "take_partial", "unavailable"]

Body = bytes | Mapping[str, Any]
"""Of a request to a shard: bytes as they are, or what is sent as JSON."""
Pointers = Callable[[str], str]
"""What a pointer into a shard's body is in the client's."""

_UNWATCHED_SECONDS = 0.1
"""A request that takes no longer is not watched for its client's leaving."""
_GONE = frozenset({"collection_not_found", "not_ready", "stopping", "closed", "too_many_connections", "storage_busy", "unauthorized"})
"""Codes by which a node says that it does not answer for a shard now."""
_OVERLOADED_SECONDS = 5.0
"""Beside the time of a search: how long everything else of a request may take."""

log = logging.getLogger("kinbin.gateway")


@dataclass(frozen=True, slots=True)
class Part:
    """What one shard answered."""

    shard: int
    content: dict[str, Any]
    applied: tuple[int, int] | None = None
    """The sequence of its log that it had applied before and after it read; None: it did not say."""


@dataclass(slots=True)
class Reading:
    """One read of one collection."""

    gateway: Gateway
    collection: Collection
    token: Mapping[int, int]
    """By shard, how far it has to be."""
    partial: bool = False
    """Whether an answer of some shards will do."""
    takes_part: bool = False
    """Whether it could have been asked so that it does."""
    missing: list[int] = field(default_factory=list)
    """The shards that nobody answered for."""

    @classmethod
    def of(cls, request: Received, name: str) -> Reading:
        """The read that a request asks for.

        Raises:
            Refusal, KinbinError: there is no such collection, or the token is none of it.
        """
        gateway = gateway_of(request)
        collection = collection_named(gateway.picture, name)
        given = request.headers.get(HEADER)
        token: Mapping[int, int] = {}
        if given is not None:
            read = Token.read(given)
            if read.uid != collection.uid:
                raise Refusal("bad_parameter", f"{HEADER} is a token of another collection, or of one that was dropped")
            token = read.sequences
        return cls(gateway, collection, token)

    @property
    def shards(self) -> range:
        """All shards of the collection."""
        return range(self.collection.shards)

    async def ask_all(self, path: str, body: Body | Callable[[int], Body], **more: Any) -> list[Part]:
        """What all shards answer to the same request, or to one made for each. See `ask`."""
        if callable(body):
            return await self.ask([(shard, path, body(shard)) for shard in self.shards], **more)
        same = as_bytes(body)
        return await self.ask([(shard, path, same) for shard in self.shards], **more)

    async def ask(
        self, requests: Sequence[tuple[int, str, Body]], *, pointers: Mapping[int, Pointers] | None = None, method: str = "POST",
        media_type: str = JSON,
    ) -> list[Part]:  # fmt: skip
        """What shards answer, in the order of requests of (shard, path behind the name, body), without those that are missing.

        Raises:
            Refusal: what the first of the shards refused; or, as `partial` is not set, or all are missing, shard_unavailable.
        """
        asked = [Asked(shard, Request(method, path, as_bytes(body), self._headers(shard, media_type))) for shard, path, body in requests]
        seconds = self.gateway.settings.search_seconds + _OVERLOADED_SECONDS
        replies = await self.gateway.fanout.ask(self.collection.uid, asked, seconds)
        parts: list[Part] = []
        missing: list[int] = []
        for one, reply in zip(asked, replies, strict=True):
            if reply is not None and reply.status == 200:
                parts.append(Part(one.shard, orjson.loads(reply.body), _applied(reply)))
                continue
            refusal = None if reply is None else _refusal(reply, (pointers or {}).get(one.shard))
            if refusal is not None:
                raise refusal
            missing.append(one.shard)
        refuses = bool(missing) and (not self.partial or not parts)
        self.gateway.fanout.work.missing["refused" if refuses else "partial"] += len(missing)
        if refuses:
            refused = any(reply is not None and reply.status == 401 for reply in replies)
            raise unavailable(missing, self.collection.shards, other_key=refused, advise=self.takes_part and not self.partial)
        self.missing = sorted({*self.missing, *missing})
        return parts

    def told(self, content: dict[str, Any]) -> dict[str, Any]:
        """An answer, with what it lacks."""
        if not self.missing:
            return content
        return {**content, "partial": True, "shards_missing": self.missing}

    def _headers(self, shard: int, media_type: str) -> Sequence[tuple[str, str]]:
        after = self.token.get(shard)
        plain = (("Content-Type", media_type),)
        return plain if after is None else (*plain, (HEADER, str(after)))


def as_bytes(body: Body) -> bytes:
    """A body as it is sent."""
    return body if isinstance(body, bytes) else encode(body)


def unavailable(missing: Sequence[int], shards: int, *, other_key: bool = False, advise: bool = False) -> Refusal:
    """The refusal of a read that some shards do not answer.

    other_key: a node refused the key of this gateway. advise: what the other shards answer may be had by asking otherwise.
    """
    named = ", ".join(map(str, missing[:8]))
    if other_key:
        return Refusal("shard_unavailable", f"shard {named} of {shards}: its nodes have another KINBIN_CLUSTER_KEY than this gateway")
    advice = ", or take what there is with allow_partial" if advise else ""
    return Refusal("shard_unavailable", f"no node answers for shard {named} of {shards}; try again{advice}")


def not_in_cluster(what: str, pointer: str = "#") -> Refusal:
    """The refusal of what one server does and a cluster does not."""
    return Refusal("not_in_cluster", what, [Entry(pointer, what)])


def take_partial(content: Any) -> bool:
    """Take `allow_partial` out of a body: it is for the gateway."""
    if not isinstance(content, dict) or "allow_partial" not in content:
        return False
    allowed = content.pop("allow_partial")
    if not isinstance(allowed, bool):
        text = "allow_partial is true or false"
        raise Refusal("invalid_field", text, [Entry("#/allow_partial", text)])
    return allowed


def gateway_of(request: Received) -> Gateway:
    """The gateway that the application of a request runs."""
    gateway: Gateway = request.app.state.service
    return gateway


@asynccontextmanager
async def heard(request: Received) -> AsyncIterator[None]:
    """The block ends when the client leaves, whose body was read. Most blocks end before anybody looks."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    watching: list[asyncio.Task[None]] = []
    gone = False

    async def watch() -> None:
        nonlocal gone
        await _left(request)
        gone = True
        task.cancel()

    later = loop.call_later(_UNWATCHED_SECONDS, lambda: watching.append(loop.create_task(watch())))
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        later.cancel()
        for one in watching:
            one.cancel()


async def _left(request: Received) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusal(reply: Reply, pointers: Pointers | None) -> Refusal | None:
    """What a node's refusal is to the client; None: it does not answer for its shard."""
    try:
        told = orjson.loads(reply.body)
        code, detail = told["code"], told["detail"]
        entries = [Entry(one["pointer"] if pointers is None else pointers(one["pointer"]), one["detail"]) for one in told["errors"]]
        limit = told["limit"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        log.exception("a node answered with no problem document", extra={"fields": {"status": reply.status}})
        return None
    if code in _GONE or code not in CODES:
        return None
    return Refusal(code, detail, entries, limit)


def _applied(reply: Reply) -> tuple[int, int] | None:
    before, _, after = reply.headers.get("x-kinbin-applied", "").partition("-")
    return (int(before), int(after)) if before.isdecimal() and after.isdecimal() else None
