"""Duplicates on the wire: the request, which is validated, and its answers, which the document describes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from kinbin_service.schemas.answers import Took
from kinbin_service.schemas.vectors import STRICT, FieldName, Filter, largest

__all__ = ["ClusterAnswer", "ClustersAnswer", "DuplicatesRequest", "PairAnswer", "PairsAnswer"]

_EXAMPLES: JsonDict = {"examples": [{"min_score": 0.9, "as": "clusters", "miss": 0.01, "filter": {"year": 2020}}]}
_Miss = Annotated[float, Field(description="the most that the probability is, of each pair, to be overlooked")]
_Compared = Annotated[int, Field(description="pairs of different vectors that were scored")]
_Complete = Annotated[bool, Field(description="false: there are more than the limit")]


class DuplicatesRequest(BaseModel):
    """How near duplicates are. One of min_score and max_distance, as the kernel prints."""

    model_config = ConfigDict(**STRICT, json_schema_extra=_EXAMPLES)
    min_score: Annotated[float | None, Field(description="pairs score so much at least")] = None
    max_distance: Annotated[float | None, Field(description="pairs are so far apart at most, where the kernel prints distances")] = None
    form: Annotated[
        Literal["pairs", "clusters"], Field(alias="as", description="clusters: what hangs together by such pairs (single linkage)")
    ] = "pairs"
    miss: Annotated[float, Field(description="the most that the probability may be, of each pair, to be overlooked; 0: compare all")] = 0.01
    filter: Filter | None = None
    field: FieldName = None
    limit: Annotated[
        int | None, Field(ge=1, le=largest("page"), description="pairs or clusters at most; null: 1,000 in JSON, and all as lines")
    ] = None


class PairAnswer(BaseModel):
    """Two items; of several with the same vector the first stands for all, and is paired with each of them."""

    a: str
    b: Annotated[str, Field(description="comes after a")]
    score: Annotated[float, Field(description="what the kernel prints, exactly: of kernels that print distances the distance")]


class ClusterAnswer(BaseModel):
    """Items that hang together by near pairs."""

    keep: Annotated[str, Field(description="the first of the ids")]
    ids: Annotated[list[str], Field(description="two or more, ascending")]
    least: Annotated[float, Field(description="what the farthest of the pairs scores that joined them")]


class PairsAnswer(BaseModel):
    """Pairs of one snapshot, as they are found."""

    pairs: list[PairAnswer]
    miss_probability: _Miss
    compared: _Compared
    complete: _Complete
    took_ms: Took


class ClustersAnswer(BaseModel):
    """Clusters of one snapshot."""

    clusters: list[ClusterAnswer]
    miss_probability: _Miss
    compared: _Compared
    complete: _Complete
    took_ms: Took
