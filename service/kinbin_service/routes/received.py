"""What every route with a body does first: content type, body within its limits, parameters of the address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

from fastapi import Path
from pydantic import BaseModel
from starlette.requests import Request

from kinbin.limits import LIMITS
from kinbin_service.bodies import JSON, content_type, parse_json, read_body
from kinbin_service.limits import body_limit
from kinbin_service.problems import Entry, Refusal
from kinbin_service.schemas.validation import validate
from kinbin_service.service import service_of

__all__ = ["DEFAULT", "NAME_RULE", "Name", "no_options", "options", "received", "received_json"]

DEFAULT = "default"
"""The collection of the short routes /index and /query."""

# The library judges names, so that every way in has the same rule; the document states it.
NAME_RULE = {"pattern": "^[a-z0-9][a-z0-9_-]*$", "minLength": 1, "maxLength": int(LIMITS["name_length"].value)}
Name = Annotated[str, Path(description="name of the collection", examples=["photos"], json_schema_extra=NAME_RULE)]

Model = TypeVar("Model", bound=BaseModel)


@asynccontextmanager
async def received(request: Request, *media_types: str) -> AsyncIterator[tuple[str, bytes]]:
    """The media type and the body of a request; the body's bytes count as held until the end of the block."""
    media_type = content_type(request, media_types)
    service = service_of(request)
    name, limit = body_limit(request.scope["path"], service.settings)
    with service.buffers.account() as account:
        yield media_type, await read_body(request, account, name, limit, service.settings.body_seconds)


@asynccontextmanager
async def received_json(request: Request, model: type[Model], empty: bytes | None = None) -> AsyncIterator[Model]:
    """A JSON body as a validated model. empty: what stands for a body of no bytes, which then needs no media type."""
    if empty is not None and "transfer-encoding" not in request.headers and request.headers.get("content-length", "0") == "0":
        no_options(request)
        yield validate(model, parse_json(empty))
        return
    async with received(request, JSON) as (_, body):
        no_options(request)
        yield await service_of(request).parsed(len(body), lambda: validate(model, parse_json(body)))


def options(request: Request, model: type[Model]) -> Model:
    """The parameters of the address as a validated model; one that is a list is written with commas, and none is there twice."""
    twice = [name for name in model.model_fields if len(request.query_params.getlist(name)) > 1]
    if twice:
        text = f"{twice[0]} stands in the address more than once: give it once, and several values with commas where it takes them"
        raise Refusal("invalid_field", text, [Entry(f"#/{twice[0]}", text)])
    given: dict[str, str | list[str]] = dict(request.query_params)
    if isinstance(given.get("include"), str):
        given["include"] = [part for part in str(given["include"]).split(",") if part]
    return validate(model, given)


def no_options(request: Request) -> None:
    """Refuse parameters of the address where the body says everything."""
    if request.query_params:
        raise Refusal("invalid_field", "with a JSON body, options are fields of the body", [Entry("#", "the address has parameters")])
