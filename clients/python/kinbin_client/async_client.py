"""The client for asyncio: `AsyncClient` and `AsyncCollection`, with the methods of `Client` and `Collection`, awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast

import httpx

from kinbin_client import _flows, _requests
from kinbin_client._awaited import Aliasing, AsyncBrowsing, Explaining, Tuned, Writing
from kinbin_client._chunks import Chunking, OfFields
from kinbin_client._cluster import Consistency, Reading
from kinbin_client._duplicates import AsyncDeduplicated
from kinbin_client._flows import Flow
from kinbin_client._local import async_sender
from kinbin_client._objects import Many, One, of_kind
from kinbin_client._options import AllOptions, Asked, Filter, Include, Query, QueryOptions, listed, options_of, options_of_more
from kinbin_client._own_writes import OwnWrites
from kinbin_client._progress import Progress
from kinbin_client._requests import (
    DEFAULT_SCOPE,
    CollectionOptions,
    Combine,
    Kernel,
    Operation,
    Scope,
    collection_scope,
)
from kinbin_client._terms import AddMode, AddTerms, Versions
from kinbin_client._terms import Asked as TermsAsked
from kinbin_client._transport import DEFAULT_ADDRESS, DEFAULT_TIMEOUT, AsyncSender, Connection, TimeoutSetting
from kinbin_client.models import (
    AddResult,
    Answer,
    AnswerBatch,
    DeleteResult,
    GetResult,
    Health,
    Limit,
    Snapshot,
)
from kinbin_client.retry import Retry
from kinbin_client.snapshots import AsyncSnapshots, restore
from kinbin_client.vectors import ByField, Vector, Vectors

__all__ = ["AsyncClient", "AsyncCollection", "AsyncFieldsCollection"]

T = TypeVar("T")


class _AsyncHandle:
    """What every handle holds."""

    def __init__(self, sender: AsyncSender, scope: Scope, retry: Retry) -> None:
        self._sender = sender
        self._scope = scope
        self._retry = retry

    async def _do(self, operation: Operation[T]) -> T:
        return await self._sender.run(_flows.send(operation, self._retry))


class _AsyncSearchable(_AsyncHandle):
    """Adding and querying, alike for a named collection and for the default one."""

    _name = "default"

    async def _of_its_kind(self, build: Callable[[str], Flow[T]]) -> T:
        """Drive what is built for the kind of items of the collection."""
        return await self._sender.run(_flows.of_its_kind(self._sender.kinds, self._name, self._retry, build))

    async def add(
        self,
        ids: Sequence[str | int],
        vectors: Many,
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        mode: AddMode = "upsert",
        *,
        chunking: Chunking = Chunking(),  # noqa: B008  # immutable
        progress: Progress | None = None,
        **terms: Unpack[TermsAsked],
    ) -> AddResult:
        """Add or replace items, as `Client.add`; `progress` is True, or a plain function, called on the event loop.

        Each request is encoded on the event loop, which takes as long as its `chunking.max_bytes` are many.

        Usage: `await client.add(["a", "b"], [[0.1, 0, 2.5], [1, 2, 3]], payloads=[{"year": 2020}, None])`
        """
        on = AddTerms(mode, **terms)
        return await self._of_its_kind(
            lambda items: _flows.add(self._scope, ids, of_kind(items, vectors), payloads, on, chunking, progress, self._retry)
        )

    async def query(
        self,
        vector: One,
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:
        """The k nearest items of a vector, best first, with a lower bound on their recall.

        Usage: `answer = await client.query([0.1, 0, 2.5], k=5, target_recall=0.95)`
        """
        wanted = options_of(options, k, target_recall, asked)
        return await self._of_its_kind(lambda items: _flows.query(self._scope, vector, wanted, items, self._retry))

    async def query_id(
        self,
        id: str | int,
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:
        """The k nearest items of a stored item, without itself unless `include_self`; NotFound with code "unknown_id" if it is not there.

        Usage: `answer = await client.query_id("a", k=5)`
        """
        wanted = options_of(options, k, target_recall, asked)
        return await self._do(_requests.query_id(self._scope, id, wanted))

    async def query_batch(
        self,
        vectors: Many,
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        chunking: Chunking = Chunking(),  # noqa: B008  # immutable
        progress: Progress | None = None,
        **asked: Unpack[Asked],
    ) -> AnswerBatch:
        """One answer for each of many vectors, in their order; many travel in several requests. `progress` as in `add`.

        Usage: `for answer in await client.query_batch(matrix, k=5): print(answer.ids)`
        """
        wanted = options_of(options, k, target_recall, asked)
        return await self._of_its_kind(
            lambda items: _flows.query_batch(self._scope, of_kind(items, vectors), wanted, chunking, progress, self._retry)
        )

    async def query_each(
        self,
        queries: Iterable[Query],
        *,
        chunking: Chunking = Chunking(),  # noqa: B008  # immutable
        progress: Progress | None = None,
        **reading: Unpack[Reading],
    ) -> AnswerBatch:
        """One answer for each of many queries with options of their own, in their order; those of one request are of one snapshot.

        Usage: `await client.query_each([Query(id="a", options=QueryOptions(k=3)), Query([0.1, 0, 2])])`
        """
        several = listed(queries)
        return await self._of_its_kind(
            lambda items: _flows.query_each(self._scope, several, items, chunking, progress, self._retry, reading)
        )

    async def query_examples(
        self,
        positive: Iterable[Any],
        negative: Iterable[Any] = (),
        *,
        options: QueryOptions | None = None,
        **more: Unpack[AllOptions],
    ) -> Answer:
        """The k items of the greatest mean score with the positive examples, less their mean score with the negative ones.

        Examples are ids of stored items, or vectors; objects stand under their key, as {"string": "kitten"}. Items that are examples
        are left out, unless `include_self` keeps them.

        Usage: `await client.query_examples(["a", [0.1, 0, 2.5]], ["b"], k=5)`
        """
        query = Query(positive=listed(positive), negative=listed(negative), options=options_of_more(options, more))
        return await self._of_its_kind(lambda items: _flows.query_examples(self._scope, query, items, self._retry))


class _AsyncStored(Writing, Explaining, _AsyncHandle, AsyncBrowsing):
    """What every handle of a named collection can do, whatever its items hold."""

    def __init__(self, sender: AsyncSender, name: str, retry: Retry) -> None:
        super().__init__(sender, collection_scope(name), retry)
        self.name = self._name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._sender.connection!r}>"

    async def get(self, ids: Sequence[str | int], include: Include = ("vector", "payload"), **reading: Unpack[Reading]) -> GetResult:
        """Stored items by id.

        Usage: `(await collection.get(["a", "b"])).find("a")`
        """
        return await self._sender.run(_flows.get(self.name, ids, include, self._retry, reading))

    async def delete(
        self, ids: Sequence[str | int] | None = None, filter: Filter | None = None, *, if_versions: Versions | None = None
    ) -> DeleteResult:
        """Delete items, by exactly one of ids and filter. After a repeated request `deleted` may be too low.

        `if_versions`, with ids: the version that each has to have (`versions`), or None; `Conflict` where one has another.

        Usage: `await collection.delete(["a"])`, `await collection.delete(filter={"year": {"$lt": 2000}})`
        """
        return await self._do(_requests.delete(self.name, ids, filter, if_versions))


class AsyncCollection(_AsyncStored, AsyncDeduplicated, _AsyncSearchable, Tuned):
    """A handle of one collection; made by `AsyncClient.collection`, without asking whether the collection is there."""


class AsyncFieldsCollection(_AsyncStored):
    """A handle of a collection whose items have several vectors; made by `AsyncClient.fields_collection`, without asking for it."""

    async def add(
        self,
        ids: Sequence[str | int],
        vectors: ByField[Vectors],
        payloads: Sequence[Mapping[str, Any] | None] | None = None,
        mode: AddMode = "upsert",
        *,
        chunking: Chunking = Chunking(),  # noqa: B008  # immutable
        progress: Progress | None = None,
        **terms: Unpack[TermsAsked],
    ) -> AddResult:
        """Add or replace items: for each field as many vectors as there are ids. As `Collection.add` in everything else.

        Usage: `await pictures.add(["a"], {"colour": [[0.1, 0, 2.5]], "words": [["red", "apple"]]})`
        """
        on = AddTerms(mode, **terms)
        return await self._sender.run(_flows.add(self._scope, ids, OfFields(vectors, {}), payloads, on, chunking, progress, self._retry))

    async def query(
        self,
        vectors: ByField[Vector],
        weights: Mapping[str, float] | None = None,
        combine: Combine = "sum",
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:
        """The k nearest items by the combined score of some fields: Σ weight · score, or their product. Hits tell the `parts`.

        Usage: `await pictures.query({"colour": [0.1, 0, 2.5], "words": ["red"]}, weights={"colour": 0.7, "words": 0.3})`
        """
        wanted = options_of(options, k, target_recall, asked)
        return await self._do(_requests.query_fields_of(self._scope, vectors, _requests.combined(weights, combine), wanted))

    async def query_id(
        self,
        id: str | int,
        weights: Mapping[str, float] | None = None,
        combine: Combine = "sum",
        k: int = 10,
        target_recall: float = 0.9,
        *,
        fields: Sequence[str] | None = None,
        options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:
        """The k nearest items of a stored item, by the fields that `fields` or `weights` name, or by all.

        Usage: `await pictures.query_id("a", fields=["colour"])`
        """
        wanted = options_of(options, k, target_recall, asked)
        return await self._do(_requests.query_id_of(self._scope, id, _requests.combined(weights, combine, fields), wanted))

    async def query_batch(
        self,
        vectors: ByField[Vectors],
        weights: Mapping[str, float] | None = None,
        combine: Combine = "sum",
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        chunking: Chunking = Chunking(),  # noqa: B008  # immutable
        progress: Progress | None = None,
        **asked: Unpack[Asked],
    ) -> AnswerBatch:
        """One answer for each of many queries, in their order: for each field as many vectors as there are queries.

        Usage: `for answer in await pictures.query_batch({"colour": matrix}): print(answer.ids)`
        """
        wanted = options_of(options, k, target_recall, asked)
        several = OfFields(vectors, _requests.combined(weights, combine))
        return await self._sender.run(_flows.query_batch(self._scope, several, wanted, chunking, progress, self._retry))


class AsyncClient(Aliasing, _AsyncSearchable):
    """A Kinbin service, over HTTP, for asyncio. `add` and the queries on the client itself work on the collection "default".

    The arguments are those of `Client` (a transport is an httpx.AsyncBaseTransport). It belongs to the
    event loop on which it is first used; any number of its tasks may use it at once.

    Usage:
        async with AsyncClient("http://127.0.0.1:8080", api_key=key) as client:
            await client.wait_ready()
            await client.add(["a"], [[0.1, 0, 2.5]])
            print((await client.query([0.1, 0, 2])).ids)
    """

    def __init__(
        self,
        url: str = DEFAULT_ADDRESS,
        *,
        path: str | os.PathLike[str] | None = None,
        api_key: str | None = None,
        timeout: TimeoutSetting = DEFAULT_TIMEOUT,
        retry: Retry = Retry(),  # noqa: B008  # immutable
        transport: httpx.AsyncBaseTransport | None = None,
        verify: bool | SSLContext = True,
        headers: Mapping[str, str] | None = None,
        **consistency: Unpack[Consistency],
    ) -> None:
        super().__init__(async_sender(Connection.to(url, api_key, timeout, verify, headers), transport, path), DEFAULT_SCOPE, retry)
        self._sender.own = OwnWrites.of(consistency)

    def __repr__(self) -> str:
        return f"AsyncClient({self._sender.connection!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; further calls, also those of its collections, raise ClientClosed."""
        await self._sender.close()

    async def create_collection(
        self,
        name: str,
        *,
        kernel: Kernel | None = None,
        dim: int | None = None,
        items: str = "vectors",
        distance: str | None = None,
        exist_ok: bool = False,
        fields: ByField[Mapping[str, Any]] | None = None,
        indexes: Mapping[str, str] | None = None,
        **options: Unpack[CollectionOptions],
    ) -> AsyncCollection:
        """Create a collection; Conflict if there is one of this name. See `Client.create_collection`.

        Usage: `photos = await client.create_collection("photos", kernel="ngmm", dim=512)`
        """
        asked = {"kernel": kernel, "dim": dim, "items": items, "distance": distance, **options}
        asked["indexes"] = None if indexes is None else dict(indexes)
        await self._do(_requests.create_collection(name, _requests.configuration(asked, fields), exist_ok))
        self._sender.kinds[name] = items
        return self.collection(name) if fields is None else cast(AsyncCollection, self.fields_collection(name))

    def collection(self, name: str) -> AsyncCollection:
        """The handle of a collection; sends nothing, and is not awaited.

        Usage: `await client.collection("photos").query([0.1, 0, 2.5])`
        """
        return AsyncCollection(self._sender, name, self._retry)

    def fields_collection(self, name: str) -> AsyncFieldsCollection:
        """The handle of a collection whose items have several vectors; sends nothing, and is not awaited.

        Usage: `await client.fields_collection("pictures").query({"colour": [0.1, 0, 2.5]})`
        """
        return AsyncFieldsCollection(self._sender, name, self._retry)

    async def collections(self) -> list[str]:
        """The names of all collections, sorted.

        Usage: `if "photos" in await client.collections(): ...`
        """
        return await self._do(_requests.collections())

    async def drop_collection(self, name: str, *, damaged: bool = False) -> None:
        """Delete a collection with all its items; NotFound if it is not there. damaged: also one whose files are damaged.

        Usage: `await client.drop_collection("photos")`
        """
        await self._do(_requests.drop_collection(name, damaged=damaged))
        self._sender.kinds.pop(name, None)

    @property
    def snapshots(self) -> AsyncSnapshots:
        """The snapshots that the service keeps.

        Usage: `await client.snapshots.create("photos", keep=7)`
        """
        return AsyncSnapshots(self._sender, self._retry)

    async def restore(self, source: str | os.PathLike[str] | Snapshot, name: str) -> AsyncCollection:
        """Make a new collection of a snapshot: one of `snapshots`, or a file, which is uploaded. Conflict if there is one of this name.

        All of it is proved before anything is made.

        Usage: `await client.restore("photos.kinbin", "photos-2")`
        """
        await self._do(restore(source, name))
        return self.collection(name)

    async def limits(self) -> dict[str, Limit]:
        """The limits of the service by name.

        Usage: `(await client.limits())["k"].value`
        """
        return await self._do(_requests.limits())

    async def health(self) -> Health:
        """The state of the worker that answers, if any does.

        Usage: `(await client.health()).status`
        """
        return await self._do(_requests.health())

    async def ready(self) -> bool:
        """Whether the service takes requests now.

        Usage: `await client.ready()`
        """
        return await self._sender.run(_flows.is_ready())

    async def wait_ready(self, timeout: float = 60.0, interval: float = 0.25) -> None:  # noqa: ASYNC109  # as Client.wait_ready
        """Wait until the service takes requests; Timeout, with the reason, after `timeout` seconds.

        Usage: `await client.wait_ready(timeout=30)`
        """
        await self._sender.run(_flows.wait_ready(timeout, interval))
