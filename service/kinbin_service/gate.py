"""The outermost layer: what every request passes before its route, and what every answer passes on the way out.

In: a body that says that it is too large is refused (413), then a host or a web page that is not the server's
(421, 403; see hosts.py), then a key in the address (400), then a missing or wrong key (401), then what the key may
not do (403; see keys.py). Nothing of the body has been read by then. Then, as long as the queue is full, whatever would
have to wait in it (429; most of that was refused before, by door.py): a query may still begin where writes alone
wait. Out: a request id, one line in the access log, and a problem document for whatever nobody foresaw.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbin_service.admission import ClientGone
from kinbin_service.bodies import too_large
from kinbin_service.connections import stopping
from kinbin_service.dashboard import PATHS as DASHBOARD_PATHS
from kinbin_service.hosts import Hosts
from kinbin_service.keys import KEY, Keys, changes, check, needed
from kinbin_service.limits import body_limit, is_stream
from kinbin_service.metrics import Metrics
from kinbin_service.problems import REFUSED, Refusal
from kinbin_service.settings import Settings
from kinbin_service.tracing import Tracing

__all__ = ["DOCUMENT_PATHS", "IDLE_PATHS", "OPEN_PATHS", "Checks", "Gate"]

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
"""Paths that need no key, and that any host may ask for: orchestrators probe them, by the address of a container. They tell a state."""

DOCUMENT_PATHS = frozenset({"/", "/docs", "/openapi.json"}) | DASHBOARD_PATHS
"""Paths that need no key, as a browser cannot send one before it has a page: the same document on every server, and no data."""

IDLE_PATHS = OPEN_PATHS | DOCUMENT_PATHS | {"/v1/cluster", "/v1/limits", "/metrics"}
"""Paths that ask the library for nothing, and are answered however much there is to do."""

SHORT_BYTES = 65_536
SHORT_SECONDS = 1.0

KEY_PARAMETERS = frozenset({"api_key", "api-key", "apikey", "key", "token", "access_token", "x-api-key", "authorization"})
CLIENT_LEFT = 499
PATH_CHARACTERS = 200

log = logging.getLogger("kinbin.service")
access_log = logging.getLogger("kinbin.access")


class Checks:
    """What each request passes before anything is made for it, and what is noted of each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._hosts = Hosts(settings)
        self._keys = Keys(settings)

    def pass_on(self, scope: Scope, headers: Headers) -> None:
        """Refuse by size, host and key, in this order."""
        self._check_size(scope, headers)
        if scope["path"] not in OPEN_PATHS:
            self._hosts.check(headers)
        self._check_key(scope, headers)

    def note(self, metrics: Metrics, scope: Scope, answered: tuple[str, int, float]) -> None:
        """Count a request, and log it. answered: its id, the status, and when it was begun."""
        request_id, status, started = answered
        metrics.request(scope["method"], getattr(scope.get("route"), "path", None), status, time.perf_counter() - started)
        if REFUSED in scope:
            metrics.refused(scope[REFUSED])
        if self.settings.access_log:
            access_log.info("request", extra={"fields": _access_fields(scope, request_id, status, started)})

    def _check_size(self, scope: Scope, headers: Headers) -> None:
        """Refuse a body whose declared length is over the limit of its route; bodies without one are counted as they arrive."""
        declared = headers.get("content-length")
        if declared is None or is_stream(scope):
            return
        name, limit = body_limit(scope["path"], self.settings)
        if not (declared.isascii() and declared.isdecimal()):
            raise Refusal("bad_request", "Content-Length is not a number")
        if len(declared) > 19 or int(declared) > limit:
            raise too_large(name, limit)

    def _check_key(self, scope: Scope, headers: Headers) -> None:
        """Refuse a key in the address, a request without a key where one is set, and one whose key may not do it."""
        query: bytes = scope["query_string"]
        if query and any(name.lower() in KEY_PARAMETERS for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)):
            raise Refusal("key_in_query", "addresses are logged on the way: send the key as Authorization: Bearer or as X-API-Key")
        if not self._keys.required or scope["path"] in OPEN_PATHS | DOCUMENT_PATHS:
            return
        key = self._keys.of(headers)
        scope[KEY] = key
        check(key, scope["method"], scope["path"])


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, checks: Checks, metrics: Metrics, tracing: Tracing) -> None:
        self.app = app
        self._metrics = metrics
        self._tracing = tracing
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = secrets.token_hex(8)
        status = 0
        headers = Headers(scope=scope)
        body_left = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_watched() -> Message:
            nonlocal body_left
            message = await receive()
            body_left = body_left and message.get("more_body", False)
            return message

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # An answer before the end of the body: closing the connection is the way not to receive the rest.
                closing = [(b"connection", b"close")] if body_left else []
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode()), *closing]
            await send(message)

        with self._tracing.request(scope, headers, request_id) as told:
            try:
                await self._pass(scope, headers, receive_watched, send_marked)
            except (ClientDisconnect, ClientGone):
                status = status or CLIENT_LEFT
            except asyncio.CancelledError:
                if not stopping(scope):
                    raise
                if status == 0:
                    await _given_up(scope).response()(scope, receive_watched, send_marked)
            except Exception:
                log.exception("request failed", extra={"fields": {"request_id": request_id}})
                if status == 0:
                    failure = Refusal("internal", f"the log of the server tells more about request {request_id}")
                    await failure.response()(scope, receive_watched, send_marked)
            finally:
                told.append(status)
                self._checks.note(self._metrics, scope, (request_id, status, started))

    async def _pass(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        try:
            self._checks.pass_on(scope, headers)
            if scope["path"] not in IDLE_PATHS:
                await _check_room(scope, headers, receive)
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _given_up(scope: Scope) -> Refusal:
    """What is answered when a server that stops waits no longer."""
    if changes(scope["method"], scope["path"]):
        return Refusal("outcome_unknown", "the service stops, and has not heard of the end of this: it may be done or not")
    return Refusal("stopping", "the service stops, and waited no longer for this to end")


async def _check_room(scope: Scope, headers: Headers, receive: Receive) -> None:
    """Refuse a request that could not even wait: before routing and parsing, since under overload refusals are most of the work."""
    try:
        writes = needed(scope["method"], scope["path"])[0] == "write"
        scope["app"].state.service.admission.check_room(writes=writes)
    except Refusal:
        # A short body has mostly arrived with its head. Once it is read, the connection can be kept.
        declared = headers.get("content-length", "0")
        if "transfer-encoding" not in headers and declared.isdecimal() and int(declared) <= SHORT_BYTES:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHORT_SECONDS):
                    while (await receive()).get("more_body", False):
                        pass
        raise


def _access_fields(scope: Scope, request_id: str, status: int, started: float) -> dict[str, Any]:
    """The fields of a line of the access log: the path as it was sent, still encoded, and never the query string."""
    client = scope.get("client")
    route = scope.get("route")
    return {
        "request_id": request_id,
        "method": scope["method"],
        "path": (scope.get("raw_path") or scope["path"].encode())[:PATH_CHARACTERS].decode("ascii", "backslashreplace"),
        "route": getattr(route, "path", None),
        "status": status,
        **({"code": scope[REFUSED]} if REFUSED in scope else {}),
        "took_ms": round((time.perf_counter() - started) * 1_000, 3),
        "client": client[0] if client else None,
        **({"key": scope[KEY].name} if KEY in scope else {}),
    }
