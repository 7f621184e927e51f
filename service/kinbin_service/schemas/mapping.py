"""What is asked of a map, and what it says."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from kinbin_service.schemas.vectors import STRICT, Filter, Payload, largest

__all__ = ["MapAnswer", "MapRequest"]


class MapRequest(BaseModel):
    """A sample of the items to lay out in the plane."""

    LIMITS: ClassVar[dict[str, str]] = {"fields": "include"}
    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "examples": [{"sample": 500, "fields": ["label"]}, {"method": "spectral", "filter": {"year": 2020}}, {"field": "colour"}]
        },
    )
    # The library judges the limit: other requests have samples, too.
    sample: Annotated[
        int, Field(ge=1, description="different vectors that are drawn, at most", json_schema_extra={"maximum": largest("map_sample")})
    ] = 1_000
    method: Annotated[Literal["kernel_pca", "spectral"], Field(description="how they are laid out, by scikit-learn")] = "kernel_pca"
    field: Annotated[str | None, Field(description="of a collection with several: the one whose kernel is meant")] = None
    fields: Annotated[list[str], Field(max_length=largest("include"), description="of payloads, that come with the points")] = []
    seed: Annotated[int, Field(ge=0, lt=2**32, description="of the draw")] = 0
    filter: Filter | None = None


class MapPointOut(BaseModel):
    """An item in the plane; items with the same vector are one point."""

    id: str
    x: float
    y: float
    payload: Annotated[Payload | None, Field(description="the fields that were asked for")] = None


class MapAnswer(BaseModel):
    """A sample of the items, near items near each other."""

    method: str
    kernel: str
    sample: Annotated[int, Field(description="points")]
    rows: Annotated[int, Field(description="different vectors that were drawn from")]
    points: list[MapPointOut]
    explained: Annotated[tuple[float, float] | None, Field(description="of kernel_pca, the share of the variance of each axis")]
    took_ms: float
