"""What requests that predict, measure and change how rows lie in bands may hold, and their answers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

import kinbin
from kinbin_service.schemas.vectors import STRICT, FieldName, ObjectQueryIn, Vector, largest

__all__ = [
    "RebuildAnswer",
    "RebuildRequest",
    "RecallAnswer",
    "RecallOptions",
    "RecallRequest",
    "TuneAnswer",
    "TuneRequest",
]

Mode = Literal["auto", "bands", "links", "exact"]
assert set(Mode.__args__) == set(kinbin.OPTIONS["mode"].known or ())  # type: ignore[attr-defined]  # what typing gives a Literal
_Modes = Annotated[list[Mode] | None, Field(min_length=1, description="those to measure; null: all that the collection has the means for")]
_Target = Annotated[float, Field(gt=0, le=1, description="the recall that queries ask for")]
_Rows = Annotated[int, Field(ge=1, le=8, description="hashes a band")]
_Bands = Annotated[int, Field(ge=1, le=255)]
_Seed = Annotated[int, Field(ge=0, le=2**63 - 1, description="of the draw of stored rows")]


class ChoiceIn(BaseModel):
    """A setting to judge."""

    model_config = STRICT
    rows: _Rows
    bands: _Bands


class TuneRequest(BaseModel):
    """Predict what bands and walks find and take, by a sample of the stored rows."""

    LIMITS: ClassVar[dict[str, str]] = {"sample": "tuned_rows", "k": "tuned_k", "choices": "tuned_choices"}
    model_config = ConfigDict(
        **STRICT, json_schema_extra={"examples": [{"k": 10, "target_recall": 0.9, "sample": 50, "choices": [{"rows": 3, "bands": 128}]}]}
    )
    k: Annotated[int, Field(ge=1, le=largest("tuned_k"))] = 10
    target_recall: _Target = 0.9
    sample: Annotated[int, Field(ge=1, le=largest("tuned_rows"), description="stored rows that are drawn, each as a query")] = 200
    seed: _Seed = 0
    field: FieldName = None
    choices: Annotated[
        list[ChoiceIn] | None, Field(min_length=1, max_length=largest("tuned_choices"), description="null: all usual settings")
    ] = None


class RecallRequest(BaseModel):
    """Queries to measure recall by."""

    LIMITS: ClassVar[dict[str, str]] = {"queries": "tuned_rows"}
    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"queries": [{"indices": [0, 2], "values": [0.1, 2.5]}], "k": 10}]})
    queries: Annotated[
        list[SkipValidation[Vector | ObjectQueryIn]],
        Field(max_length=largest("tuned_rows"), description="vectors, or objects, each of these under its key"),
    ]
    k: Annotated[int, Field(ge=1, le=largest("k"))] = 10
    target_recall: _Target = 0.9
    modes: _Modes = None


class RecallOptions(BaseModel):
    """What is said in the address where stored rows are drawn."""

    LIMITS: ClassVar[dict[str, str]] = {"queries": "tuned_rows"}
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    queries: Annotated[int, Field(ge=1, le=largest("tuned_rows"), description="stored rows that are drawn, each as a query")] = 100
    k: Annotated[int, Field(ge=1, le=largest("k"), description="neighbours of each")] = 10
    target_recall: _Target = 0.9
    seed: _Seed = 0
    modes: Annotated[str | None, Field(description="some of auto, bands, links and exact, with commas; all if it is absent")] = None


class RebuildRequest(BaseModel):
    """The bands in which all rows are to lie."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"rows": 3, "bands": 128}]})
    rows: Annotated[_Rows | None, Field(description="null: chosen by Kinbin, run by run")] = None
    bands: Annotated[_Bands | None, Field(description="null: chosen by Kinbin, run by run")] = None
    field: FieldName = None


class HistogramAnswer(BaseModel):
    """How near the rows are to each other: by the probability that one hash of a pair agrees (of the min-max kernels, the score)."""

    edges: Annotated[list[float], Field(description="borders of the bins, from 0 to 1")]
    pairs: Annotated[list[float], Field(description="share of all pairs in each bin")]
    neighbours: Annotated[list[float], Field(description="share of the k nearest in each bin")]


class BandsForecastAnswer(BaseModel):
    """What a search by bands is expected to do if all rows lie in one run of these."""

    rows: int
    bands: int
    recall: Annotated[float, Field(description="of mode bands at the target")]
    recall_error: Annotated[float, Field(description="standard error of recall, as an estimate for all stored items")]
    uncertified: Annotated[float, Field(description="share of the queries that mode auto has to scan for")]
    postings: Annotated[float, Field(description="read by a query")]
    verified: Annotated[float, Field(description="rows scored for a query")]
    bytes_per_row: Annotated[float, Field(description="of the band tables alone")]
    microseconds: Annotated[float, Field(description="a query in one thread, one of many that are asked together")]


class WalkForecastAnswer(BaseModel):
    """What walks of one width find, as it was measured when the links were built."""

    width: int
    recall: float
    microseconds: float


class CurrentSettingAnswer(BaseModel):
    """The bands that are there, predicted and measured with the same rows."""

    rows: Annotated[int, Field(description="of the largest run")]
    bands: int
    runs: int
    recall: float
    measured_recall: float
    microseconds: float
    measured_microseconds: float


class SuggestionAnswer(BaseModel):
    """A setting for a rebuild."""

    rows: int
    bands: int
    why: str


class TuneAnswer(BaseModel):
    """What is predicted."""

    sample: int
    k: int
    target_recall: float
    similarity_histogram: HistogramAnswer
    bands: list[BandsForecastAnswer]
    walks: Annotated[list[WalkForecastAnswer], Field(description="empty: no links were built")]
    current: CurrentSettingAnswer
    suggested: SuggestionAnswer
    took_ms: float


class ModeRecallAnswer(BaseModel):
    """What one mode found."""

    mode: str
    recall: Annotated[
        float | None,
        Field(
            description="share of the k nearest that were found, by score; the mean of all queries. null: none has any, nothing to measure"
        ),
    ]
    lowest: Annotated[float | None, Field(description="that of the query that fared worst")]
    certificate: Annotated[float | None, Field(description="mean of the recall bounds that answers carried; null: none did")]
    certified: Annotated[float, Field(description="share of the answers that carried one")]
    milliseconds: Annotated[float, Field(description="median of a query that is asked alone, without HTTP")]


class RecallAnswer(BaseModel):
    """Recall of each mode, against an exact scan of the same snapshot."""

    queries: int
    k: int
    target_recall: float
    sampled: Annotated[bool, Field(description="whether queries are stored rows, each left out of its own answers")]
    modes: list[ModeRecallAnswer]
    took_ms: float


class RebuildAnswer(BaseModel):
    """How the rows lie now."""

    rows: Annotated[int | None, Field(description="hashes a band of the largest run; null: there are no rows")]
    bands: int | None
    count: Annotated[int, Field(description="different rows that lie so")]
    seconds: float
