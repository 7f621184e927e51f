"""Stored items besides neighbours, limits and aliases: the blocking half, which the handles and the client inherit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, Unpack

from kinbin_client import _cluster, _flows, _insights, _requests, _tuning, _writes
from kinbin_client._cluster import Reading, Scrolling, Waiting
from kinbin_client._insights import ExplainTerms, MapTerms
from kinbin_client._objects import One
from kinbin_client._options import Filter, Include, id_as_text
from kinbin_client._requests import IndexKind, Operation
from kinbin_client._tables import VectorColumns, read_table
from kinbin_client._terms import Versions
from kinbin_client._transport import SyncSender
from kinbin_client.insights import Explanation, Map
from kinbin_client.models import (
    AddResult,
    CollectionInfo,
    CompactReport,
    Counted,
    Facets,
    Holds,
    Item,
    Page,
    PayloadResult,
    Rebuilt,
    RecallReport,
    Tuning,
)
from kinbin_client.retry import Retry

__all__ = ["Aliasing", "Browsing", "Explaining", "Tuned", "Writing"]

T = TypeVar("T")


class Browsing:
    """The part of a handle that reads items by what they hold, and declares payload indexes."""

    name: str

    def _do(self, operation: Operation[T]) -> T:
        """Send one request."""
        raise NotImplementedError

    def info(self, **waiting: Unpack[Waiting]) -> CollectionInfo:
        """The configuration of the collection; NotFound if it is not there.

        Usage: `client.collection("photos").info().kernel`
        """
        return self._do(_cluster.reading(_requests.collection_info(self.name), _cluster.only_after(waiting)))

    def stats(self, **waiting: Unpack[Waiting]) -> dict[str, Any]:
        """Sizes, runs and predictions of its index, as the library's `stats`; NotFound if it is not there.

        Usage: `(client.collection("photos").stats())["count"]`
        """
        return (self.info(**waiting)).stats

    def count(self, filter: Filter | None = None, **waiting: Unpack[Waiting]) -> int:
        """How many items there are (that fit a filter).

        Usage: `collection.count({"year": 2020})`
        """
        asked = _cluster.reading(_requests.count(self.name, filter), _cluster.only_after(waiting))
        return (self._do(asked)).count

    def counted(self, filter: Filter | None = None, **reading: Unpack[Reading]) -> Counted:
        """How many items there are (that fit a filter), with what is missing of them: see `Reading`.

        Usage: `(collection.counted(allow_partial=True)).shards_missing`
        """
        return self._do(_cluster.reading(_requests.count(self.name, filter), reading))

    def facets(self, field: str, filter: Filter | None = None, limit: int = 20, **reading: Unpack[Reading]) -> Facets:
        """The values of a field of payloads with how many items (that fit a filter) have each, exactly, the most frequent first.

        Usage: `[(one.value, one.count) for one in collection.facets("tag", {"year": 2020}).values]`
        """
        return self._do(_cluster.reading(_requests.facets(self.name, field, filter, limit), reading))

    def add_index(self, field: str, kind: IndexKind) -> None:
        """Index a field of payloads, in the background: filters on it need not read payloads then, and mean the same.

        Usage: `collection.add_index("year", "number")`
        """
        self._do(_requests.change_indexes(self.name, {field: kind}, []))

    def drop_index(self, field: str) -> None:
        """Drop the index of a field; InvalidInput if there is none. After a repeated request it may be gone already.

        Usage: `collection.drop_index("year")`
        """
        self._do(_requests.change_indexes(self.name, {}, [field]))

    def scroll(
        self, after: str | None = None, limit: int = 100, filter: Filter | None = None, include: Include = ("payload",), *,
        order_by: str | None = None, descending: bool = False, **reading: Unpack[Scrolling],
    ) -> Page:  # fmt: skip
        """One page of the items in id order; its `next` is the `after` of the following page.

        order_by: a field of payloads instead: its least value in each item first, or (descending) its greatest; items without a number or
        string in it are left out. Send the same order with every `after`.
        `token`: of a write that the page has to know.

        Usage: `page = collection.scroll(limit=50)`, `collection.scroll(order_by="year", descending=True)`
        """
        page = _requests.scroll(self.name, after, limit, filter, include, order_by, descending)
        return self._do(_cluster.reading(page, _cluster.of_scroll(reading)))

    def pages(
        self,
        limit: int = 100,
        filter: Filter | None = None,
        include: Include = ("payload",),
        after: str | None = None,
        **reading: Unpack[Scrolling],
    ) -> Iterator[Page]:
        """All pages from `after` on, each fetched when it is asked for; `token` as in `scroll`.

        Usage: `for page in collection.pages(limit=1000): store(page.items)`
        """
        cursor = _flows.Cursor(self.name, limit, filter, include, after, _cluster.of_scroll(reading))
        while not cursor.finished:
            yield cursor.take(self._do(cursor.operation()))

    def items(
        self, limit: int = 100, filter: Filter | None = None, include: Include = ("payload",), **reading: Unpack[Scrolling]
    ) -> Iterator[Item]:
        """All items in id order, fetched in pages of `limit`.

        Usage: `ids = [item.id for item in collection.items()]`
        """
        for page in self.pages(limit, filter, include, **reading):
            yield from page.items


class _Adding(Protocol):
    @property
    def add(self) -> Callable[..., AddResult]:
        """Of the handle."""


class Writing:
    """Of every handle of a named collection."""

    name: str
    _sender: SyncSender
    _retry: Retry

    def add_table(
        self: _Adding, table: Any, *, id: str = "id", vectors: VectorColumns = "vector", payload: Sequence[str] | None = None, **more: Any
    ) -> AddResult:
        """Add the rows of a DataFrame of pandas or polars, of a pyarrow Table, or of a mapping of columns; `more` as in `add`.

        `id`: the column of ids. `vectors`: a column of vectors or objects, several columns of numbers, or a mapping of field to either.
        `payload`: the columns that are fields of payloads; None: all others. Missing values leave their field out, dates and times become
        ISO 8601, whole numbers as ids their digits.

        Usage: `collection.add_table(frame, id="name", vectors=["red", "green"], progress=True)`
        """
        columns = read_table(table, id, vectors, payload)
        return self.add(columns.ids, columns.vectors, columns.payloads, **more)

    def set_payload(
        self, ids: Sequence[str | int], payloads: Sequence[Mapping[str, Any] | None], if_versions: Versions | None = None
    ) -> PayloadResult:
        """Replace the payloads of stored items, all or none, without their vectors; Conflict if an id is not there.

        `if_versions`: of each item the version that it must have (`get` with include "version"), or None.

        Usage: `collection.set_payload(["a"], [{"year": 2021}])`
        """
        return self._sender.run(_flows.send(_writes.payloads(self.name, ids, payloads, "replace", if_versions), self._retry))

    def patch_payload(
        self, ids: Sequence[str | int], patches: Sequence[Mapping[str, Any] | None], if_versions: Versions | None = None
    ) -> PayloadResult:
        """Merge a patch into the payload of each item (RFC 7396): null removes a field, objects are merged. As `set_payload`.

        Usage: `collection.patch_payload(["a"], [{"year": None, "tags": {"new": True}}])`
        """
        return self._sender.run(_flows.send(_writes.payloads(self.name, ids, patches, "merge", if_versions), self._retry))

    def versions(self, ids: Sequence[str | int], **waiting: Unpack[Waiting]) -> list[int]:
        """The version of each item, 0 where there is none: for `if_versions`.

        Usage: `collection.versions(["a", "b"])`
        """
        found = self._sender.run(_flows.get(self.name, ids, ("version",), self._retry, _cluster.only_after(waiting)))
        known = {item.id: item.version or 0 for item in found.items}
        return [known.get(id_as_text(identifier), 0) for identifier in ids]

    def compact(self, *, shrink: bool = False) -> CompactReport:
        """Merge everything into one run now, and with shrink give disk that nothing uses back; answered when it is done.

        Usage: `collection.compact(shrink=True).freed_bytes`
        """
        return self._sender.run(_flows.send(_writes.compact(self.name, shrink), self._retry))

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


class Explaining:
    """Of every handle of a named collection: what is told of its items for people to look at."""

    name: str
    _sender: SyncSender
    _retry: Retry

    def explain(
        self, query: One | None = None, *, id: str | int, query_id: str | int | None = None, **more: Unpack[ExplainTerms],
    ) -> Explanation:  # fmt: skip
        """Why the item of this id scores what it scores with a query, or with the stored item `query_id`: terms that add up to the score.

        `limit`: terms that are listed of each factor (50). `k`: neighbours of the walk that is asked for the item's place (10).
        `s_curve`: with the curve of the bands. `feature_names`: names by feature, or a list; tokens of the query need none.
        `field`: of a collection with several, the one that is explained, whose vector is given.

        Usage: `(collection.explain([0.1, 0, 2.5], id="a")).factors[0].terms`
        """
        flow = _insights.explained(self.name, (query, query_id), id, more, self._sender.kinds, self._retry)
        return self._sender.run(flow)

    def map(self, sample: int = 1_000, **more: Unpack[MapTerms]) -> Map:
        """A sample of the items in the plane, near where the kernel says near. The service needs scikit-learn for it.

        `method`: "kernel_pca" or "spectral". `fields`: of payloads, that come with the points, as for colours. `seed`: of the draw.
        `filter`: of the items that are drawn from. `field`: of a collection with several, the one whose kernel is meant.

        Usage: `[(point.x, point.y) for point in (collection.map(500, fields=["label"])).points]`
        """
        return self._sender.run(_flows.send(_insights.mapped(self.name, sample, more), self._retry))


class Tuned:
    """The part of a handle that predicts, measures and changes how rows lie in bands."""

    name: str
    _sender: SyncSender
    _retry: Retry

    def tune(
        self, k: int = 10, target_recall: float = 0.9, *, sample: int = 200, seed: int = 0,
        choices: Iterable[tuple[int, int]] | None = None, field: str | None = None,
    ) -> Tuning:  # fmt: skip
        """What bands of so many hashes, and walks, would find and take, by a sample of the stored rows; nothing is changed.

        `choices`: pairs of (rows, bands) to judge; None: all usual ones. `field`: of items with several vectors, the one that is meant.

        Usage: `collection.tune(target_recall=0.95).suggested`
        """
        asked = {"k": k, "target_recall": target_recall, "sample": sample, "seed": seed, "field": field}
        return self._sender.run(_flows.send(_tuning.tune(self.name, asked, choices), self._retry))

    def recall(
        self, queries: Any = 100, k: int = 10, target_recall: float = 0.9, *, modes: Iterable[str] | None = None, seed: int = 0
    ) -> RecallReport:
        """Measured recall of every mode, against an exact scan: with so many stored rows, or with the vectors or objects that are given.

        Usage:
            collection.recall()
            collection.recall(matrix, k=5, modes=["auto", "bands"])
        """
        asked = {"k": k, "target_recall": target_recall}
        if isinstance(queries, int):
            return self._sender.run(_flows.send(_tuning.sampled_recall(self.name, queries, asked, modes, seed), self._retry))

        def build(items: str) -> _flows.Flow[RecallReport]:
            return _flows.send(_tuning.measured_recall(self.name, queries, items, asked, modes), self._retry)

        return self._sender.run(_flows.of_its_kind(self._sender.kinds, self.name, self._retry, build))

    def rebuild(self, rows: int | None = None, bands: int | None = None, *, field: str | None = None) -> Rebuilt:
        """Lay all rows out in other bands, while the collection is used; None: chosen by Kinbin. Returns when it is done.

        `field`: of items with several vectors, the one whose rows are meant.

        Usage: `collection.rebuild(rows=3, bands=128)`
        """
        return self._sender.run(_flows.send(_tuning.rebuild(self.name, rows, bands, field), self._retry))


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
