"""Writes of stored items, limits and aliases: the awaited half, which the handles and the client inherit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from kinbin_client import _flows, _writes
from kinbin_client._tables import VectorColumns, read_table
from kinbin_client._terms import Versions
from kinbin_client._transport import AsyncSender
from kinbin_client.models import AddResult, Holds, PayloadResult
from kinbin_client.retry import Retry

__all__ = ["Aliasing", "Writing"]


class _Adding(Protocol):
    @property
    def add(self) -> Callable[..., Coroutine[Any, Any, AddResult]]:
        """Of the handle."""


class Writing:
    """Of every handle of a named collection."""

    name: str
    _sender: AsyncSender
    _retry: Retry

    async def add_table(
        self: _Adding, table: Any, *, id: str = "id", vectors: VectorColumns = "vector", payload: Sequence[str] | None = None, **more: Any
    ) -> AddResult:
        """Add the rows of a DataFrame of pandas or polars, of a pyarrow Table, or of a mapping of columns; `more` as in `add`.

        `id`: the column of ids. `vectors`: a column of vectors or objects, several columns of numbers, or a mapping of field to either.
        `payload`: the columns that are fields of payloads; None: all others. Missing values leave their field out, dates and times become
        ISO 8601, whole numbers as ids their digits.

        Usage: `await collection.add_table(frame, id="name", vectors=["red", "green"], progress=True)`
        """
        columns = read_table(table, id, vectors, payload)
        return await self.add(columns.ids, columns.vectors, columns.payloads, **more)

    async def set_payload(
        self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any] | None], if_versions: Versions | None = None
    ) -> PayloadResult:
        """Replace the payloads of stored items, all or none, without their vectors; Conflict if an id is not there.

        `if_versions`: of each item the version that it must have (`get` with include "version"), or None.

        Usage: `await collection.set_payload(["a"], [{"year": 2021}])`
        """
        return await self._sender.run(_flows.send(_writes.payloads(self.name, ids, payloads, "replace", if_versions), self._retry))

    async def patch_payload(
        self, ids: Sequence[str], patches: Sequence[Mapping[str, Any] | None], if_versions: Versions | None = None
    ) -> PayloadResult:
        """Merge a patch into the payload of each item (RFC 7396): null removes a field, objects are merged. As `set_payload`.

        Usage: `await collection.patch_payload(["a"], [{"year": None, "tags": {"new": True}}])`
        """
        return await self._sender.run(_flows.send(_writes.payloads(self.name, ids, patches, "merge", if_versions), self._retry))

    async def versions(self, ids: Sequence[str]) -> list[int]:
        """The version of each item, 0 where there is none: for `if_versions`.

        Usage: `await collection.versions(["a", "b"])`
        """
        found = await self._sender.run(_flows.get(self.name, ids, ("version",), self._retry))
        known = {item.id: item.version or 0 for item in found.items}
        return [known.get(identifier, 0) for identifier in ids]

    async def limits(self) -> Holds:
        """What the collection may hold at most.

        Usage: `(await collection.limits()).items`
        """
        return await self._sender.run(_flows.send(_writes.holds(self.name), self._retry))

    async def set_limits(self, *, items: int | None = None, bytes: int | None = None) -> Holds:  # noqa: A002 - the service's word
        """Let it hold at most so many items and bytes; None: as many as there is room for. Adds that would pass that are refused.

        Usage: `await collection.set_limits(items=1_000_000)`
        """
        return await self._sender.run(_flows.send(_writes.set_holds(self.name, items, bytes), self._retry))


class Aliasing:
    """Of the client."""

    _sender: AsyncSender
    _retry: Retry

    async def alias(self, name: str, collection: str) -> None:
        """Let another name lead to a collection, at once, wherever it led before. It stands for the collection in every call.

        Usage: `await client.alias("live", "photos-2")`
        """
        await self._sender.run(_flows.send(_writes.alias(name, collection), self._retry))
        self._sender.kinds.pop(name, None)

    async def aliases(self) -> dict[str, str]:
        """Collections by alias.

        Usage: `(await client.aliases())["live"]`
        """
        return await self._sender.run(_flows.send(_writes.aliases(), self._retry))

    async def drop_alias(self, name: str) -> None:
        """Remove an alias; its collection stays. NotFound if there is none.

        Usage: `await client.drop_alias("live")`
        """
        await self._sender.run(_flows.send(_writes.drop_alias(name), self._retry))
