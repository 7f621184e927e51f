"""Answers to many queries as columns, and the models that they stand for. No I/O.

A service that knows columns sends an array for each field (`COLUMNS_TYPE`), and others send what they always did: a client names both in
`Accept`. What comes is checked whole when it is read; hits are made when they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from kinbin_client._lazy import lazy
from kinbin_client._responses import Reply, model_parser
from kinbin_client.models import Answer, AnswerBatch, GetResult, Hit

__all__ = ["COLUMNS_TYPE", "joined", "parse_answers", "part_of"]

COLUMNS_TYPE = "application/vnd.kinbin.columns+json"


class Columns(BaseModel):
    """The body: `counts` hits of each query, and a list for each field, of hits or of queries."""

    model_config = ConfigDict(extra="ignore")

    counts: list[int]
    ids: list[str]
    scores: list[float] | None = None
    distances: list[float] | None = None
    parts: dict[str, list[float]] | None = None
    recall_lower_bounds: list[float | None]
    no_bounds: list[str | None]
    modes: list[str]
    candidates: list[int]
    verified: list[int]
    truncated: list[list[str]]
    steps: list[list[str]]
    out_of_distribution: list[bool]
    took_ms: float | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Every list has as many entries as there are queries, or hits."""
        queries, hits = len(self.counts), sum(self.counts)
        by_query = (
            self.recall_lower_bounds, self.no_bounds, self.modes, self.candidates, self.verified, self.truncated, self.steps,
            self.out_of_distribution,
        )  # fmt: skip
        by_hit: list[Sequence[Any]] = [self.ids, self.numbers, *(self.parts or {}).values()]
        if min(self.counts, default=0) < 0 or {len(one) for one in by_query} - {queries} or {len(one) for one in by_hit} - {hits}:
            raise ValueError("the columns have different lengths")
        return self

    @property
    def numbers(self) -> list[float]:
        """The scores, or the distances, whichever came."""
        if (self.scores is None) == (self.distances is None):
            raise ValueError("there is just one of scores and distances")
        return self.scores if self.scores is not None else self.distances or []


_HITS = TypeAdapter(list[Hit])
_WHOLE: dict[str, Any] = {"partial": False, "shards_missing": []}
"""Of an answer in columns, which no gateway sends."""
_UNSAID = ("groups", "next", "debug", "took_ms", "partial", "shards_missing")
"""Fields of an answer that no column is of."""


@dataclass(frozen=True, slots=True)
class _Hits:
    """The hits of one answer."""

    columns: Columns
    first: int
    end: int
    field = "results"

    @property
    def ids(self) -> list[str]:
        """Their ids, without the hits."""
        return self.columns.ids[self.first : self.end]

    @property
    def scores(self) -> list[float]:
        """Their scores."""
        return self.columns.numbers[self.first : self.end]

    @property
    def ascending(self) -> bool:
        """Whether scores are distances."""
        return self.columns.distances is not None

    def make(self) -> list[Hit]:
        """They as models, as those of an answer in objects are made."""
        number = "distance" if self.ascending else "score"
        told: list[dict[str, Any]] = [{"id": one, number: score} for one, score in zip(self.ids, self.scores, strict=True)]
        if self.columns.parts is not None:
            for place, hit in enumerate(told, self.first):
                hit["parts"] = {name: scores[place] for name, scores in self.columns.parts.items()}
        return _HITS.validate_python(told)


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of a batch."""

    columns: Columns
    field = "answers"

    def __len__(self) -> int:
        return len(self.columns.counts)

    @property
    def ids(self) -> list[list[str]]:
        """The ids of each."""
        return _cut(self.columns.ids, self.columns.counts)

    @property
    def scores(self) -> list[list[float]]:
        """The scores of each."""
        return _cut(self.columns.numbers, self.columns.counts)

    def make(self) -> list[Answer]:
        """They as models, whose hits are made later."""
        columns = self.columns
        ends = list(accumulate(columns.counts))
        rows = zip(
            columns.counts, ends, columns.recall_lower_bounds, columns.no_bounds, columns.modes, columns.candidates, columns.verified,
            columns.truncated, columns.steps, columns.out_of_distribution, strict=True,
        )  # fmt: skip
        return [
            lazy(
                Answer,
                _Hits(columns, end - count, end),
                {
                    "recall_lower_bound": bound, "no_bound": no_bound, "mode": mode, "candidates": candidates, "verified": verified,
                    "truncated": truncated, "steps": steps, "out_of_distribution": far, "groups": None, "next": None, "debug": None,
                    "took_ms": None, "partial": False, "shards_missing": [],
                },
                (*_UNSAID, *(() if bound is None else ("no_bound",)), *(() if far else ("out_of_distribution",))),
            )
            for count, end, bound, no_bound, mode, candidates, verified, truncated, steps, far in rows
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Joined:
    """The answers of several requests, one batch behind the other."""

    batches: Sequence[AnswerBatch]
    field = "answers"

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @property
    def ids(self) -> list[list[str]]:
        """The ids of each."""
        return list(chain.from_iterable(batch.ids for batch in self.batches))

    @property
    def scores(self) -> list[list[float]]:
        """The scores of each."""
        return list(chain.from_iterable(batch.scores for batch in self.batches))

    def make(self) -> list[Answer]:
        """They as models."""
        return list(chain.from_iterable(batch.answers for batch in self.batches))


def joined(batches: Sequence[AnswerBatch], took_ms: float | None) -> AnswerBatch:
    """One batch of several."""
    return lazy(AnswerBatch, _Joined(tuple(batches)), {"took_ms": took_ms, **part_of(batches)})


def parse_answers(reply: Reply) -> AnswerBatch:
    """The parser of answers to many queries, as columns or as objects."""
    if reply.content_type != COLUMNS_TYPE:
        return _parse_objects(reply)
    columns = _parse_columns(reply)
    return lazy(AnswerBatch, _Answers(columns), {"took_ms": columns.took_ms, **_WHOLE}, _WHOLE)


_parse_objects = model_parser(AnswerBatch)
_parse_columns = model_parser(Columns)


def part_of(parts: Iterable[AnswerBatch | GetResult]) -> dict[str, Any]:
    """The fields `partial` and `shards_missing` of an answer that is made of several."""
    missing = sorted({shard for one in parts for shard in one.shards_missing})
    return {"partial": bool(missing), "shards_missing": missing}


def _cut(values: list[Any], counts: list[int]) -> list[list[Any]]:
    """A list cut into parts of these lengths."""
    return [values[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]
