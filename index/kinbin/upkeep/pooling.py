"""What finds near objects without scoring all, as a collection knows it: `kinbin.pools` lies above it."""

from __future__ import annotations

from typing import Any, Protocol

from kinbin.query.found import Found, FoundOne
from kinbin.query.plan import Plan
from kinbin.query.route import Wanted
from kinbin.query.search import Masks
from kinbin.query.view import View
from kinbin.rows.rows import Rows
from kinbin.storage.transactions import Reader
from kinbin.upkeep.linking import Progress

__all__ = ["PoolIndex"]


class PoolIndex(Protocol):
    """What `kinbin.pools.Pools` is to a collection."""

    def search_one(self, at: tuple[Reader, View], plan: Plan, query: Rows, wanted: Wanted, masks: Masks) -> FoundOne | None:
        """The answer to one query; None: search without."""

    def search(self, at: tuple[Reader, View], plan: Plan, queries: Rows, wanted: Wanted, masks: Masks) -> Found | None:
        """The same for m queries."""

    def wake(self) -> None:
        """Tell of a write."""

    def look(self, view: View) -> None:
        """Tell of what a query has seen."""

    def build(self, progress: Progress | None) -> None:
        """Cover every object now."""

    def problems(self) -> list[str]:
        """What is damaged."""

    def describe(self, view: View) -> dict[str, Any] | None:
        """What `stats` tells."""

    def report(self) -> dict[str, Any]:
        """What failed in the background."""

    def close(self) -> None:
        """Let go of the files."""
