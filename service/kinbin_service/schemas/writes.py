"""What requests that write payloads, aliases and limits may hold, and their answers."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kinbin_service.schemas.vectors import STRICT, Id, Payload, Version, largest

__all__ = [
    "AliasAnswer",
    "AliasDroppedAnswer",
    "AliasRequest",
    "AliasesAnswer",
    "HoldsAnswer",
    "HoldsRequest",
    "PayloadAnswer",
    "PayloadIn",
    "PayloadRequest",
]


class PayloadIn(TypedDict):
    """The payload, or the patch, of one item."""

    __pydantic_config__ = STRICT  # type: ignore[misc]  # how pydantic configures a TypedDict
    id: Annotated[Id, Field(description="of a stored item", examples=["a"])]
    payload: Annotated[Payload | None, Field(description="any JSON object; null takes the payload away, and is no change as a patch")]
    if_version: NotRequired[Version | None]


class PayloadRequest(BaseModel):
    """Payloads of stored items, in one transaction: all of them or none."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "examples": [
                {"items": [{"id": "a", "payload": {"year": 2021}}]},
                {"items": [{"id": "a", "payload": {"year": None, "tags": {"new": True}}}], "mode": "merge"},
            ]
        },
    )
    items: Annotated[list[PayloadIn], Field(max_length=largest("batch_items"), fail_fast=True)]
    mode: Annotated[
        Literal["replace", "merge"],
        Field(description="merge: a patch (RFC 7396): null removes a field, objects are merged, all else replaces what was there"),
    ] = "replace"


class AliasRequest(BaseModel):
    """Where an alias leads."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"collection": "photos-2"}]})
    collection: Annotated[str, Field(description="name of a collection that is there")]


Most = Annotated[int | None, Field(ge=0, le=2**63 - 1, description="at most; null: as many as there is room for")]


class HoldsRequest(BaseModel):
    """What a collection may hold."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"items": 1_000_000, "bytes": None}]})
    items: Most = None
    bytes: Most = None


class PayloadAnswer(BaseModel):
    """The payloads are durable, and every worker sees them."""

    updated: int
    unchanged: Annotated[int, Field(description="items whose payload was the same before")]
    count: Annotated[int, Field(description="items in the collection")]


class AliasAnswer(BaseModel):
    """An alias."""

    alias: str
    collection: str


class AliasesAnswer(BaseModel):
    """Collections by alias."""

    aliases: dict[str, str]


class AliasDroppedAnswer(BaseModel):
    """The alias is gone; its collection stays."""

    dropped: str


class HoldsAnswer(BaseModel):
    """What the collection may hold, and how many items it has."""

    items: int | None
    bytes: int | None
    count: int
