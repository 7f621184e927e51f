"""Compaction on the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kinbin_service.schemas.vectors import STRICT

__all__ = ["CompactAnswer", "CompactRequest"]


class CompactRequest(BaseModel):
    """How to compact a collection."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{}, {"shrink": True}]})
    shrink: Annotated[bool, Field(description="give disk that nothing uses back as well")] = False


class CompactAnswer(BaseModel):
    """What it did to the files."""

    before_bytes: int
    after_bytes: int
    freed_bytes: Annotated[int, Field(description="below 0: the files grew")]
