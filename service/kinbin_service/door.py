"""What refuses a request that could not even wait, before anything is made for it: under overload refusals are most of the work.

The gate refuses the same, with the same answer, where a body is still on its way; then connections cannot know it.
"""

from __future__ import annotations

import secrets
import time
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import Scope

from kinbin_service.admission import Admission
from kinbin_service.gate import IDLE_PATHS, Checks
from kinbin_service.keys import needed
from kinbin_service.metrics import Metrics
from kinbin_service.problems import MEDIA_TYPE, REFUSED, Refusal, document

__all__ = ["Door", "Told"]

_STATUS = 429
_HEADERS = [(b"retry-after", b"1"), (b"content-type", MEDIA_TYPE.encode())]


class Told(NamedTuple):
    """An answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Door:
    """Of one process, before all of its requests."""

    def __init__(self, admission: Admission, checks: Checks, metrics: Metrics) -> None:
        self._admission = admission
        self._checks = checks
        self._metrics = metrics

    def is_shut(self) -> bool:
        """Whether as many requests wait as may wait. Some may pass all the same."""
        return self._admission.waiting >= self._admission.queue_length

    def refused(self, scope: Scope) -> Told | None:
        """What a request is told that can neither begin nor wait; None: it may pass, or the gate has more to say."""
        if scope["method"] == "HEAD" or scope["path"] in IDLE_PATHS:
            return None
        started = time.perf_counter()
        try:
            self._checks.pass_on(scope, Headers(scope=scope))
        except Refusal:
            return None
        try:
            self._admission.check_room(writes=needed(scope["method"], scope["path"])[0] == "write")
        except Refusal as refusal:
            request_id = secrets.token_hex(8)
            scope[REFUSED] = refusal.code
            self._checks.note(self._metrics, scope, (request_id, _STATUS, started))
            body = document(refusal.code, refusal.detail, limit=refusal.limit)
            return Told(_STATUS, [*_HEADERS, (b"content-length", b"%d" % len(body)), (b"x-request-id", request_id.encode())], body)
        return None
