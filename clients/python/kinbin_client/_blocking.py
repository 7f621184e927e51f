"""Writes of stored items, limits and aliases: the blocking half, which the handles and the client inherit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinbin_client import _flows, _writes
from kinbin_client._terms import Versions
from kinbin_client._transport import SyncSender
from kinbin_client.models import Holds, PayloadResult
from kinbin_client.retry import Retry

__all__ = ["Aliasing", "Writing"]


class Writing:
    """Of every handle of a named collection."""

    name: str
    _sender: SyncSender
    _retry: Retry

    def set_payload(
        self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any] | None], if_versions: Versions | None = None
    ) -> PayloadResult:
        """Replace the payloads of stored items, all or none, without their vectors; Conflict if an id is not there.

        `if_versions`: of each item the version that it must have (`get` with include "version"), or None.

        Usage: `collection.set_payload(["a"], [{"year": 2021}])`
        """
        return self._sender.run(_flows.send(_writes.payloads(self.name, ids, payloads, "replace", if_versions), self._retry))

    def patch_payload(
        self, ids: Sequence[str], patches: Sequence[Mapping[str, Any] | None], if_versions: Versions | None = None
    ) -> PayloadResult:
        """Merge a patch into the payload of each item (RFC 7396): null removes a field, objects are merged. As `set_payload`.

        Usage: `collection.patch_payload(["a"], [{"year": None, "tags": {"new": True}}])`
        """
        return self._sender.run(_flows.send(_writes.payloads(self.name, ids, patches, "merge", if_versions), self._retry))

    def versions(self, ids: Sequence[str]) -> list[int]:
        """The version of each item, 0 where there is none: for `if_versions`.

        Usage: `collection.versions(["a", "b"])`
        """
        found = self._sender.run(_flows.get(self.name, ids, ("version",), self._retry))
        known = {item.id: item.version or 0 for item in found.items}
        return [known.get(identifier, 0) for identifier in ids]

    def limits(self) -> Holds:
        """What the collection may hold at most.

        Usage: `(collection.limits()).items`
        """
        return self._sender.run(_flows.send(_writes.holds(self.name), self._retry))

    def set_limits(self, *, items: int | None = None, bytes: int | None = None) -> Holds:  # noqa: A002 - the service's word
        """Let it hold at most so many items and bytes; None: as many as there is room for. Adds that would pass that are refused.

        Usage: `collection.set_limits(items=1_000_000)`
        """
        return self._sender.run(_flows.send(_writes.set_holds(self.name, items, bytes), self._retry))


class Aliasing:
    """Of the client."""

    _sender: SyncSender
    _retry: Retry

    def alias(self, name: str, collection: str) -> None:
        """Let another name lead to a collection, at once, wherever it led before. It stands for the collection in every call.

        Usage: `client.alias("live", "photos-2")`
        """
        self._sender.run(_flows.send(_writes.alias(name, collection), self._retry))
        self._sender.kinds.pop(name, None)

    def aliases(self) -> dict[str, str]:
        """Collections by alias.

        Usage: `(client.aliases())["live"]`
        """
        return self._sender.run(_flows.send(_writes.aliases(), self._retry))

    def drop_alias(self, name: str) -> None:
        """Remove an alias; its collection stays. NotFound if there is none.

        Usage: `client.drop_alias("live")`
        """
        self._sender.run(_flows.send(_writes.drop_alias(name), self._retry))
