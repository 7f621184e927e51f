"""Snapshots on the wire: requests, which are validated, and answers, which the document describes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from kinbin_service.schemas.vectors import STRICT

__all__ = [
    "RestoreOptions",
    "RestoreRequest",
    "SnapshotAnswer",
    "SnapshotDeletedAnswer",
    "SnapshotRequest",
    "SnapshotsAnswer",
    "VerifiedAnswer",
]


_EXAMPLE: JsonDict = {"collection": "photos", "snapshot": "20260131T120000000Z-4f1c09", "name": "photos-2"}


class SnapshotRequest(BaseModel):
    """Make a snapshot."""

    model_config = STRICT

    keep: Annotated[
        int | None, Field(ge=1, description="so many snapshots of the collection stay, the newest; older ones are deleted; null: all stay")
    ] = None


class RestoreRequest(BaseModel):
    """Make a new collection of a snapshot that the service keeps."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [_EXAMPLE]})

    collection: Annotated[str, Field(description="the collection that the snapshot was made of, which need not be there any more")]
    snapshot: Annotated[str, Field(description="its id")]
    name: Annotated[str, Field(description="of the new collection")]


class RestoreOptions(BaseModel):
    """What is said in the address where the body is a snapshot."""

    model_config = STRICT

    name: Annotated[str, Field(description="of the new collection")]


class SnapshotAnswer(BaseModel):
    """A snapshot on disk."""

    id: Annotated[str, Field(description="among the snapshots of the collection, ascending with time")]
    collection: str
    created: Annotated[str, Field(description="UTC, ISO 8601")]
    items: int
    bytes: int
    sha256: Annotated[str, Field(description="of the file, hexadecimal")]
    grown_bytes: Annotated[int, Field(description="what the collection's files grew by while it was made")]
    problem: Annotated[
        str, Field(description="what is wrong with its file, as far as size and beginning show; empty: nothing. verify reads all")
    ]


class SnapshotsAnswer(BaseModel):
    """The snapshots of a collection, the oldest first."""

    snapshots: list[SnapshotAnswer]


class SnapshotDeletedAnswer(BaseModel):
    """The snapshot is gone."""

    deleted: Annotated[str, Field(description="its id")]


class VerifiedAnswer(BaseModel):
    """What reading all of a snapshot found."""

    ok: Annotated[bool, Field(description="every record is proved, and the file is the one that was made")]
    items: Annotated[int, Field(description="items that were proved")]
    problems: list[str]
