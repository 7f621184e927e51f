"""Answers of the service, parsed: bytes in, models or errors out. No I/O."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kinbin_client.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Problem,
    RateLimited,
    ServerError,
    StorageFull,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    UnsupportedMedia,
)

__all__ = ["ERROR_CLASSES", "Reply", "discard", "model_parser", "raise_for_error"]

_LARGE_BODY = 65_536
ERROR_CLASSES: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    415: UnsupportedMedia,
    422: InvalidInput,
    429: RateLimited,
    503: Unavailable,
    507: StorageFull,
}
"""Status → class; other 4xx are BadRequest, other 5xx ServerError."""

_EXCERPT_LENGTH = 200
_CREDENTIALS = re.compile(r"(?i)(bearer|basic)\s+[^\s\"'<]+")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer as it came: `headers` with names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def excerpt(self) -> str:
        """The beginning of the body on one line, fit for a message: without control characters and credentials."""
        text = self.body[: 4 * _EXCERPT_LENGTH].decode("utf-8", "replace")
        line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
        line = _CREDENTIALS.sub(r"\1 ***", line)
        return line if len(line) <= _EXCERPT_LENGTH else line[:_EXCERPT_LENGTH] + "..."


class _Entry(BaseModel):
    pointer: str = ""
    detail: str = ""


class _ProblemBody(BaseModel):
    """application/problem+json, as far as this version reads it."""

    model_config = ConfigDict(extra="ignore")

    title: str = ""
    code: str
    detail: str = ""
    errors: list[_Entry] = []
    limit: str | None = None


def raise_for_error(reply: Reply) -> None:
    """The error that a reply stands for, raised; nothing for a 2xx."""
    if 200 <= reply.status < 300:
        return
    if reply.status < 400:
        where = reply.headers.get("location", "")
        hint = "redirects are not followed, so that the API key goes nowhere else: give the client the final address"
        raise UnexpectedResponse(f"the service redirected to {where!r}; {hint}", reply.status, reply.content_type, reply.excerpt)
    by_default = BadRequest if reply.status < 500 else ServerError
    error_class = ERROR_CLASSES.get(reply.status, by_default)
    retry_after = _retry_after(reply.headers.get("retry-after"))
    request_id = reply.headers.get("x-request-id")
    body = _problem_body(reply)
    if body is None:
        raise error_class(reply.status, None, _foreign_detail(reply), retry_after=retry_after, request_id=request_id)
    problems = tuple(Problem(entry.pointer, entry.detail) for entry in body.errors)
    raise error_class(reply.status, body.code, body.detail or body.title, problems, body.limit, retry_after, request_id)


def model_parser(model: type[Model]) -> Callable[[Reply], Model]:
    """A parser of 2xx answers whose body is the JSON of a model."""

    def parse(reply: Reply) -> Model:
        raise_for_error(reply)
        try:
            with _uncollected(len(reply.body)):
                return model.model_validate_json(reply.body)
        except ValidationError as error:
            raise _unexpected(reply, error) from None

    return parse


@contextmanager
def _uncollected(size: int) -> Iterator[None]:
    """For the block, no garbage is collected if a body is large.

    Its hits are made by the ten thousand, which lets Python look for garbage among all that a program holds, several times over, and
    there is none: it took half of the time that a batch of 1,000 queries was read in.
    """
    if size < _LARGE_BODY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def discard(reply: Reply) -> None:
    """The parser of answers whose body says nothing (a 2xx is all that matters)."""
    raise_for_error(reply)


def _unexpected(reply: Reply, error: ValidationError) -> UnexpectedResponse:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    reason = f"{place}: {first['msg']}" if place else first["msg"]
    return UnexpectedResponse(f"the answer is not what the service documents: {reason}", reply.status, reply.content_type, reply.excerpt)


def _problem_body(reply: Reply) -> _ProblemBody | None:
    """The problem document of an error, or None when Kinbin did not write this body."""
    if reply.content_type != "application/problem+json":
        return None
    try:
        return _ProblemBody.model_validate_json(reply.body)
    except ValidationError:
        return None


def _foreign_detail(reply: Reply) -> str:
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = "unknown status"
    origin = f"{phrase}, in a form that Kinbin does not use ({reply.content_type or 'no content type'}): perhaps from a proxy"
    return f"{origin}: {reply.excerpt}" if reply.excerpt else origin


def _retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None if it holds neither."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
