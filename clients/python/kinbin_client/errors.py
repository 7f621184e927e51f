"""Every error that the client raises on purpose. Imports nothing of the client.

    KinbinClientError
    ├── InvalidArgument (ValueError)    an argument cannot be put into a request; that request was not sent
    ├── ClientClosed                    use after close()
    ├── ApiError                        the service answered with a status of 400 or more
    │   ├── BadRequest                  400, and any other 4xx without a class of its own
    │   ├── Unauthorized                401: no API key, or an unknown one
    │   ├── Forbidden                   403: the key may not do this
    │   ├── NotFound                    404: no such collection, or no such route
    │   ├── Conflict                    409: exists already, or dimension or kernel differ
    │   ├── TooLarge                    413: the body is over the limit
    │   ├── UnsupportedMedia            415
    │   ├── InvalidInput                422: `errors` says what is wrong, and where
    │   ├── RateLimited                 429: `retry_after` says when to come back
    │   └── ServerError                 500 and any other 5xx
    │       ├── Unavailable             503: starting, stopping or overloaded; see `retry_after`
    │       └── StorageFull             507: nothing was written, queries go on
    ├── UnexpectedResponse              an answer that is not Kinbin's (a proxy's page, truncated JSON, a redirect)
    └── TransportError                  no answer arrived; `outcome_unknown` says whether the work may have been done
        ├── Timeout                     no answer in time
        │   └── ConnectTimeout (also ConnectionFailed)
        ├── ConnectionFailed            no connection: nothing was sent
        └── ConnectionLost              the connection broke after the request had begun

Attributes are for programs, the text is for people. All of them can be pickled. None holds an API key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = [
    "ApiError",
    "BadRequest",
    "ClientClosed",
    "Conflict",
    "ConnectTimeout",
    "ConnectionFailed",
    "ConnectionLost",
    "Forbidden",
    "InvalidArgument",
    "InvalidInput",
    "KinbinClientError",
    "NotFound",
    "Problem",
    "RateLimited",
    "ServerError",
    "StorageFull",
    "Timeout",
    "TooLarge",
    "TransportError",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "UnsupportedMedia",
]


_BATCHES = ("items", "queries", "ids")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a request: `pointer` is a JSON pointer into its body ("#/items/3/vector")."""

    pointer: str
    detail: str

    @property
    def position(self) -> int | None:
        """The index of the item, query or id it is about, or None."""
        parts = self.pointer.split("/")
        return int(parts[2]) if len(parts) > 2 and parts[1] in _BATCHES and parts[2].isdecimal() else None

    def shifted(self, offset: int) -> Problem:
        """The same problem, its position counted from `offset` items further back."""
        position = self.position
        if position is None:
            return self
        parts = self.pointer.split("/")
        parts[2] = str(position + offset)
        return replace(self, pointer="/".join(parts))


def install(extra: str) -> str:
    """The advice to install an extra: from a checkout, since no public index has this package."""
    return f"pip install './clients/python[{extra}]'"


class KinbinClientError(Exception):
    """Root of the tree.

    `acknowledged` is set when a call that was cut into several requests (an add of many items)
    fails: the first so many items had been acknowledged by the service, durably, before the
    request that failed. It is None for every other call.
    """

    acknowledged: int | None = None

    def __str__(self) -> str:
        text = self._text()
        if not self.acknowledged:
            return text
        return f"{text} ({self.acknowledged} items of this add had been acknowledged; the failed request began at item {self.acknowledged})"

    def _text(self) -> str:
        return super().__str__()


class InvalidArgument(KinbinClientError, ValueError):
    """An argument cannot be put into a request; that request was not sent.

    `position` is the index of the offending item in the batch, or None. `code` is the one that the service would
    have answered with, or None where only the client could refuse.
    """

    def __init__(self, message: str, position: int | None = None, code: str | None = None) -> None:
        super().__init__(message, position, code)
        self.position = position
        self.code = code

    def _text(self) -> str:
        message = str(self.args[0])
        return message if self.position is None else f"item {self.position}: {message}"


class ClientClosed(KinbinClientError):
    """The client was closed; make another one."""

    def __init__(self, message: str = "the client is closed") -> None:
        super().__init__(message)


class ApiError(KinbinClientError):
    """The service answered with an error.

    `code` names the kind for programs and never changes; it is None when the answer did not come
    from Kinbin (a proxy's page). `errors` locates what is wrong in the arguments, `limit` names the
    limit that was passed (see `Client.limits`), `retry_after` is in seconds, `request_id` finds the request
    in the service's log.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        detail: str,
        errors: tuple[Problem, ...] = (),
        limit: str | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(status, code, detail, errors, limit, retry_after, request_id)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.limit = limit
        self.retry_after = retry_after
        self.request_id = request_id

    def _text(self) -> str:
        text = f"{self.status} {self.code or type(self).__name__}: {self.detail}"
        # What the detail says already is not said again, but its place is, unless that is the whole body.
        said = [(problem, self.detail.startswith(problem.detail.removesuffix("…"))) for problem in self.errors]
        places = "; ".join(
            problem.pointer if again else f"{problem.pointer}: {problem.detail}"
            for problem, again in said
            if not (again and problem.pointer == "#")
        )
        return f"{text} [{places}]" if places else text


class BadRequest(ApiError):
    """400, and any other 4xx without a class of its own."""


class Unauthorized(ApiError):
    """401: no API key, or an unknown one."""


class Forbidden(ApiError):
    """403: the key may not do this."""


class NotFound(ApiError):
    """404: no such collection, or no such route."""


class Conflict(ApiError):
    """409: it exists already, or dimension or kernel differ; nothing was written."""


class TooLarge(ApiError):
    """413: the body is over the limit of the service or of a proxy before it."""


class UnsupportedMedia(ApiError):
    """415: the service does not read this content type."""


class InvalidInput(ApiError):
    """422: `errors` says what is wrong, and where; nothing was written."""


class RateLimited(ApiError):
    """429: too many requests; `retry_after` says when to come back. Nothing was done."""


class ServerError(ApiError):
    """A 5xx answer."""


class Unavailable(ServerError):
    """503: the service is starting, stopping or overloaded; `retry_after` says when to come back."""


class StorageFull(ServerError):
    """507: the storage of the service is full; nothing was written, queries go on."""


class UnexpectedResponse(KinbinClientError):
    """An answer that is not what the service documents: a proxy's page, truncated JSON, a redirect.

    `excerpt` is the beginning of its body. Whether the work was done is not known, except that a
    redirect never did it.
    """

    def __init__(self, message: str, status: int, content_type: str = "", excerpt: str = "") -> None:
        super().__init__(message, status, content_type, excerpt)
        self.status = status
        self.content_type = content_type
        self.excerpt = excerpt

    def _text(self) -> str:
        text = f"{self.args[0]} (status {self.status}, {self.content_type or 'no content type'})"
        return f"{text}: {self.excerpt}" if self.excerpt else text


class TransportError(KinbinClientError):
    """No answer arrived. `outcome_unknown`: the service may have done the work all the same."""

    def __init__(self, message: str, outcome_unknown: bool = True) -> None:
        super().__init__(message, outcome_unknown)
        self.outcome_unknown = outcome_unknown

    def _text(self) -> str:
        return str(self.args[0])


class Timeout(TransportError):
    """No answer in time."""


class ConnectionFailed(TransportError):
    """No connection could be made: nothing was sent."""

    def __init__(self, message: str, outcome_unknown: bool = False) -> None:
        super().__init__(message, outcome_unknown)


class ConnectTimeout(ConnectionFailed, Timeout):
    """No connection could be made in time: nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke after the request had begun."""
