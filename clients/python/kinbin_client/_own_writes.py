"""Reads that wait for the writes of their own client: the tokens that it has met, and the flows that carry them. No I/O."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from kinbin_client._cluster import Consistency, after, joined, wants_own
from kinbin_client._flows import Flow
from kinbin_client._requests import AFTER_HEADER, Request
from kinbin_client._responses import Reply
from kinbin_client.errors import KinbinClientError

__all__ = ["OwnWrites"]

T = TypeVar("T")

_OF_COLLECTION = re.compile(r"/v1/collections/([^/?]+)(?:/([a-z]+))?(?:\?|$)")
_SHORT = re.compile(r"/(index|query)(?:\?|$)")
_DEFAULT = "default"
_READS = frozenset({None, "query", "get", "scroll", "count", "facets", "explain", "limits"})
_WRITES = frozenset({"index", "delete", "payload", "indexes", "limits"})
_ANSWERED = 200


class OwnWrites:
    """The tokens of a client's own writes, by the name of the collection; its reads wait for them. Safe for threads."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, asked: Consistency) -> OwnWrites | None:
        """Those of a new client, if it asks for them. TypeError for an option that there is not."""
        return cls() if wants_own(asked) else None

    def during(self, flow: Flow[T]) -> Flow[T]:
        """A flow whose reads wait for the writes before, and whose writes are remembered."""
        try:
            step = next(flow)
            while True:
                if not isinstance(step, Request):
                    step = flow.send((yield step))
                    continue
                try:
                    reply = yield from self._sent(step)
                except KinbinClientError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _sent(self, request: Request) -> Generator[Request, Reply | None, Reply | None]:
        name, word = _place(request)
        if name is None:
            return (yield request)
        with self._lock:
            known = self._tokens.get(name)
        waits = known is not None and request.method in ("GET", "POST") and word in _READS
        asked = after(request, joined((known, request.headers.get(AFTER_HEADER)))) if waits else request
        reply = yield asked
        if reply is None:
            return None
        if waits and AFTER_HEADER not in request.headers and _is_foreign(reply):
            # The name leads elsewhere now: the alias was moved, or the collection is a new one.
            self._forget(name, known)
            reply = yield request
        elif reply.status == _ANSWERED and request.method == "DELETE" and word is None:
            self._forget(name)
        elif reply.status == _ANSWERED and word in _WRITES and request.method != "GET":
            self._remember(name, _token_of(reply))
        return reply

    def _remember(self, name: str, token: str | None) -> None:
        with self._lock:
            both = joined((self._tokens.get(name), token))
            if both is not None:
                self._tokens[name] = both

    def _forget(self, name: str, token: str | None = None) -> None:
        with self._lock:
            if token is None or self._tokens.get(name) == token:
                self._tokens.pop(name, None)


def _place(request: Request) -> tuple[str | None, str | None]:
    """The collection of a request, and what is done with it; None and None of others."""
    found = _OF_COLLECTION.match(request.path)
    if found is not None:
        return found[1], found[2]
    short = _SHORT.match(request.path)
    return (None, None) if short is None else (_DEFAULT, short[1])


def _object_of(reply: Reply) -> Mapping[str, Any]:
    try:
        content = json.loads(reply.body)
    except ValueError:
        return {}
    return content if isinstance(content, Mapping) else {}


def _is_foreign(reply: Reply) -> bool:
    """Whether a token may have been refused: as one of another collection."""
    return reply.status in (400, 422) and _object_of(reply).get("code") == "bad_parameter"


def _token_of(reply: Reply) -> str | None:
    token = _object_of(reply).get("token")
    return token if isinstance(token, str) else None
