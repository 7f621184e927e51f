"""Near duplicates of a collection: the request, its answer as one or line by line, and the blocking and awaited calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from kinbin_client import _flows
from kinbin_client._duplicate_streams import AsyncDuplicateStream, Cluster, DuplicateStream, Pair
from kinbin_client._options import Filter
from kinbin_client._requests import Operation, Request, collection_path, json_request, to_json
from kinbin_client._responses import discard, model_parser
from kinbin_client._transport import AsyncSender, SyncSender
from kinbin_client.retry import Retry

__all__ = ["AsyncDeduplicated", "Deduplicated", "Duplicates"]

_SECONDS = 120.0
"""A search takes longer than a query does."""
_SILENCE = 600.0
"""Seconds without a line of a stream: clusters are told at the end."""
_LINES = {"accept": "application/x-ndjson"}


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Duplicates(_Model):
    """Pairs or clusters of one moment; iterate over it for those. `miss_probability`: the most that it is, of each, to be overlooked."""

    pairs: list[Pair] = []
    clusters: list[Cluster] = []
    miss_probability: float
    compared: int
    complete: bool
    """False: there are more than the limit."""
    took_ms: float | None = None

    def __len__(self) -> int:
        return len(self.pairs) + len(self.clusters)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # over what is found, not over the fields
        return iter([*self.pairs, *self.clusters])


_parse = model_parser(Duplicates)


def _asked(name: str, **asked: Any) -> Operation[Duplicates]:
    body = to_json({key: value for key, value in asked.items() if value is not None}, "request")
    sent = json_request("POST", f"{collection_path(name)}/duplicates", body)
    return Operation(Request(sent.method, sent.path, sent.body, sent.headers, sent.repeat, _SECONDS), _parse)


def _streamed(name: str, timeout: float, **asked: Any) -> Operation[None]:
    sent = _asked(name, **asked).request
    return Operation(Request(sent.method, sent.path, sent.body, {**sent.headers, **_LINES}, sent.repeat, timeout), discard)


class Deduplicated:
    """The part of a handle that finds near duplicates."""

    name: str
    _sender: SyncSender
    _retry: Retry

    def duplicates(
        self, min_score: float | None = None, as_: str = "pairs", *, max_distance: float | None = None, miss: float = 0.01,
        filter: Filter | None = None, field: str | None = None, limit: int = 1_000,
    ) -> Duplicates:  # fmt: skip
        """All pairs of items that score so much (or are so far apart at most), or the "clusters" that they make, with exact scores.

        miss: the most that the probability may be, of each pair, to be overlooked. Items of the same vector count as one: the first is
        paired with each of the others. field: of items with several vectors, the one that is compared.

        Usage: `[(one.a, one.b, one.score) for one in collection.duplicates(0.9).pairs]`
        """
        asked = {"as": as_, "max_distance": max_distance, "miss": miss, "filter": filter, "field": field, "limit": limit}
        return self._sender.run(_flows.send(_asked(self.name, min_score=min_score, **asked), self._retry))

    def duplicates_stream(
        self, min_score: float | None = None, as_: str = "pairs", *, max_distance: float | None = None, miss: float = 0.01,
        filter: Filter | None = None, field: str | None = None, limit: int | None = None, timeout: float = _SILENCE,
    ) -> DuplicateStream:  # fmt: skip
        """The same, line by line while they are found: of any number, in memory that does not grow with them.

        limit: so many at most; None: all. timeout: seconds without a line after which it is given up. A client of a path holds the answer.

        Usage: `for pair in collection.duplicates_stream(0.9): print(pair.a, pair.b, pair.score)`
        """
        asked = {"as": as_, "max_distance": max_distance, "miss": miss, "filter": filter, "field": field, "limit": limit}
        operation = _streamed(self.name, timeout, min_score=min_score, **asked)
        return DuplicateStream(self._sender.lines(_flows.send(operation, self._retry)))


class AsyncDeduplicated:
    """The same, awaited."""

    name: str
    _sender: AsyncSender
    _retry: Retry

    async def duplicates(
        self, min_score: float | None = None, as_: str = "pairs", *, max_distance: float | None = None, miss: float = 0.01,
        filter: Filter | None = None, field: str | None = None, limit: int = 1_000,
    ) -> Duplicates:  # fmt: skip
        """All pairs of items that score so much (or are so far apart at most), or the "clusters" that they make, with exact scores.

        miss: the most that the probability may be, of each pair, to be overlooked. Items of the same vector count as one: the first is
        paired with each of the others. field: of items with several vectors, the one that is compared.

        Usage: `[(one.a, one.b, one.score) for one in (await collection.duplicates(0.9)).pairs]`
        """
        asked = {"as": as_, "max_distance": max_distance, "miss": miss, "filter": filter, "field": field, "limit": limit}
        return await self._sender.run(_flows.send(_asked(self.name, min_score=min_score, **asked), self._retry))

    def duplicates_stream(
        self, min_score: float | None = None, as_: str = "pairs", *, max_distance: float | None = None, miss: float = 0.01,
        filter: Filter | None = None, field: str | None = None, limit: int | None = None, timeout: float = _SILENCE,
    ) -> AsyncDuplicateStream:  # fmt: skip
        """The same, line by line while they are found: of any number, in memory that does not grow with them.

        limit: so many at most; None: all. timeout: seconds without a line after which it is given up. A client of a path holds the answer.

        Usage: `async for pair in collection.duplicates_stream(0.9): print(pair.a, pair.b, pair.score)`
        """
        asked = {"as": as_, "max_distance": max_distance, "miss": miss, "filter": filter, "field": field, "limit": limit}
        operation = _streamed(self.name, timeout, min_score=min_score, **asked)
        return AsyncDuplicateStream(self._sender.lines(_flows.send(operation, self._retry)))
