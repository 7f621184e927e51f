"""Duplicates line by line, while they are found: what a line says, and the iterators over an answer, blocking and awaited."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from kinbin_client._responses import Reply, raise_for_error
from kinbin_client.errors import ConnectionLost, UnexpectedResponse

__all__ = ["AsyncDuplicateStream", "Cluster", "DuplicateStream", "DuplicatesSummary", "Pair"]

_PROBLEM = "application/problem+json"
_LEAST_ERROR = 400


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Pair(_Model):
    """Two items that are near each other: `score` is what the kernel prints, exactly."""

    a: str
    b: str
    score: float


class Cluster(_Model):
    """Items that hang together by near pairs: `keep` is the first of the ids, `least` what the farthest pair scores that joined them."""

    keep: str
    ids: list[str]
    least: float


class DuplicatesSummary(_Model):
    """The last line of a stream. `miss_probability`: the most that it is, of each pair, to be overlooked."""

    miss_probability: float
    compared: int
    complete: bool
    """False: there are more than the limit."""


class _Lines:
    """What the lines of one answer say."""

    def __init__(self) -> None:
        self.summary: DuplicatesSummary | None = None

    def take(self, line: bytes) -> Pair | Cluster | None:
        """What a line tells; None: it is the summary, which is the last one. The error that a search ended with is raised."""
        found = _parsed(line)
        if isinstance(found, DuplicatesSummary):
            self.summary = found
            return None
        if isinstance(found, Reply):
            raise_for_error(found)
        return found if isinstance(found, Pair | Cluster) else None

    @staticmethod
    def broken_off() -> ConnectionLost:
        """The error of an answer that has no summary."""
        return ConnectionLost("the answer ended before its last line: not all duplicates were told")


def _parsed(line: bytes) -> Pair | Cluster | DuplicatesSummary | Reply:
    """What a line is; a Reply: the error that stands in it."""
    try:
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            status = int(told["error"]["status"])
            if status >= _LEAST_ERROR:
                return Reply(status, {"content-type": _PROBLEM}, json.dumps(told["error"]).encode())
        kind = DuplicatesSummary if "miss_probability" in told else Cluster if "ids" in told else Pair
        return kind.model_validate(told)
    except (ValueError, TypeError, KeyError):
        raise UnexpectedResponse("a line of the answer is not what the service documents", 200) from None


class DuplicateStream:
    """Pairs or clusters, while they are found. Read it to its end, or `close` it, or use it in a with statement.

    `summary` is None until all were told. For one thread.
    """

    def __init__(self, lines: Generator[bytes, None, None]) -> None:
        self._lines, self._told = lines, _Lines()

    @property
    def summary(self) -> DuplicatesSummary | None:
        """What is promised of the answer; None before its end."""
        return self._told.summary

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self.summary is not None:
            raise StopIteration
        try:
            found = self._told.take(next(self._lines))
        except StopIteration:
            raise self._told.broken_off() from None
        if found is None:
            self.close()
            raise StopIteration
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the search, if it is not done."""
        self._lines.close()


class AsyncDuplicateStream:
    """The same, awaited: `async for` and `async with`. For one task."""

    def __init__(self, lines: AsyncGenerator[bytes, None]) -> None:
        self._lines, self._told = lines, _Lines()

    @property
    def summary(self) -> DuplicatesSummary | None:
        """What is promised of the answer; None before its end."""
        return self._told.summary

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self.summary is not None:
            raise StopAsyncIteration
        try:
            found = self._told.take(await anext(self._lines))
        except StopAsyncIteration:
            raise self._told.broken_off() from None
        if found is None:
            await self.close()
            raise StopAsyncIteration
        return found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the search, if it is not done."""
        await self._lines.aclose()
