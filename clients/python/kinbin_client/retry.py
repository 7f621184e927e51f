"""When a request is sent again, and after which pause. Pure: it decides, the shells wait.

Two questions are kept apart. *May* it be repeated: a request whose work may have been done is only
sent again when doing it twice is the same as doing it once, later (`Repeat.ALWAYS`: every read, delete, create, and every
add: with mode upsert by what it is, with others by its idempotency key); others (`Repeat.IF_NOT_DONE`: conditional writes of payloads,
drop_collection) only when it is certain that nothing was done. *Is it worth it*: only failures that pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kinbin_client.errors import ApiError, ConnectionFailed, ConnectionLost, InvalidArgument, KinbinClientError, Timeout

__all__ = ["Repeat", "Retry", "may_repeat", "retry_after_of"]

_PASSING = frozenset({408, 429, 502, 503, 504})
"""Statuses after which the same request may succeed."""

_REFUSED_BEFORE_WORK = frozenset({408, 429, 503})
"""The ones of them by which the service itself says that it did not begin ..."""

_MAYBE_DONE_CODES = frozenset({"storage_busy", "outcome_unknown"})
"""... except with these codes: nothing was acknowledged, which is less than nothing was done."""


_NOT_WORTH_IT = frozenset({"search_deadline"})
"""Codes after which the same request would take as long again."""


class Repeat(Enum):
    """Whether a request may be sent again when it is not known what became of the first."""

    ALWAYS = "always"
    IF_NOT_DONE = "if_not_done"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and after which pauses a failed request is sent again.

    The n-th pause is drawn between half of and the whole of `first_pause * 2**(n-1)`, at most
    `longest_pause`. A Retry-After of the service is waited out in full before that pause, unless it is
    longer than `longest_retry_after`: then the error is raised at once. All in seconds.

    Usage: `Client(url, retry=Retry(attempts=6))`, `Client(url, retry=Retry(attempts=1))` for none.
    """

    attempts: int = 4
    first_pause: float = 0.2
    longest_pause: float = 10.0
    longest_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidArgument(f"Retry.attempts counts the first attempt too: at least 1, not {self.attempts}")
        if min(self.first_pause, self.longest_pause, self.longest_retry_after) < 0:
            raise InvalidArgument("the pauses of Retry cannot be negative")

    def pause(self, failures: int, retry_after: float | None, draw: float) -> float | None:
        """Seconds to wait after so many failures (1, 2, ...); None: give up. `draw` is random in [0, 1)."""
        if failures >= self.attempts:
            return None
        doubled = self.first_pause * 2.0 ** min(failures - 1, 60)
        jittered = min(doubled, self.longest_pause) * (0.5 + 0.5 * draw)
        if retry_after is None:
            return jittered
        return None if retry_after > self.longest_retry_after else retry_after + jittered


def may_repeat(error: KinbinClientError, repeat: Repeat) -> bool:
    """Whether sending the request again is safe, and may help."""
    if isinstance(error, Timeout | ConnectionFailed | ConnectionLost):
        return repeat is Repeat.ALWAYS or not error.outcome_unknown
    if not isinstance(error, ApiError) or error.status not in _PASSING or error.code in _NOT_WORTH_IT:
        return False
    by_kinbin = error.code is not None
    refused = by_kinbin and error.status in _REFUSED_BEFORE_WORK and error.code not in _MAYBE_DONE_CODES
    return repeat is Repeat.ALWAYS or refused


def retry_after_of(error: KinbinClientError) -> float | None:
    """The seconds that the service asked to wait, if it did."""
    return error.retry_after if isinstance(error, ApiError) else None
