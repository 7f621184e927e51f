"""The blocking client: `Client`, and `Collection`, its handle of one collection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from ssl import SSLContext
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast

import httpx

from kinbin_client import _flows, _requests
from kinbin_client._blocking import Aliasing, Browsing, Explaining, Tuned, Writing
from kinbin_client._chunks import Chunking, OfFields
from kinbin_client._cluster import Consistency, Reading
from kinbin_client._duplicates import Deduplicated
from kinbin_client._flows import Flow
from kinbin_client._local import sync_sender
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
from kinbin_client._transport import DEFAULT_ADDRESS, DEFAULT_TIMEOUT, Connection, SyncSender, TimeoutSetting
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
from kinbin_client.snapshots import Snapshots, restore
from kinbin_client.vectors import ByField, Vector, Vectors

__all__ = ["Client", "Collection", "FieldsCollection"]

T = TypeVar("T")


class _Handle:
    """What every handle holds."""

    def __init__(self, sender: SyncSender, scope: Scope, retry: Retry) -> None:
        self._sender = sender
        self._scope = scope
        self._retry = retry

    def _do(self, operation: Operation[T]) -> T:
        return self._sender.run(_flows.send(operation, self._retry))


class _Searchable(_Handle):
    """Adding and querying, alike for a named collection and for the default one."""

    _name = "default"

    def _of_its_kind(self, build: Callable[[str], Flow[T]]) -> T:
        """Drive what is built for the kind of items of the collection."""
        return self._sender.run(_flows.of_its_kind(self._sender.kinds, self._name, self._retry, build))

    def add(
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
        """Add or replace items; they are durable and searchable on return.

        Many items travel in several requests, each of them atomic. When one fails, the error's
        `acknowledged` says how many items had been acknowledged before it; with mode "upsert" the
        whole add may simply be called again, and with any mode with the same `idempotency_key`, for a day. After a repeated request items
        may be counted as `unchanged` that were new. `progress`: True shows a bar of tqdm;
        a function is called as progress(done, total) after every request.

        `on_error`: "skip" leaves bad items out (`skipped` and `problems` of the result). `if_versions`: of each item the version that it
        must have (`versions`), 0 if it must not be there, or None. `idempotency_key`: the same add under the same key is done once;
        one is made for insert, update and conditional adds, so that they are repeated safely.

        Usage:
            client.add(["a", "b"], [[0.1, 0, 2.5], [1, 2, 3]], payloads=[{"year": 2020}, None])
            client.add(ids, matrix, progress=lambda done, total: print(done, "of", total))
            client.add(["c"], [{"red": 3, "apple": 1}])
            words.add(["d"], ["kitten"])  # items="strings"
            pictures.add(["e"], [Path("e.jpg")])  # items="images": paths, bytes, images of Pillow, arrays of uint8
        """
        on = AddTerms(mode, **terms)
        return self._of_its_kind(
            lambda items: _flows.add(self._scope, ids, of_kind(items, vectors), payloads, on, chunking, progress, self._retry)
        )

    def query(
        self,
        vector: One,
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:
        """The k nearest items of a vector, best first, with a lower bound on their recall or the reason why there is none.

        Usage:
            client.query([0.1, 0, 2.5], k=5, target_recall=0.95)
            client.query([0.1, 0, 2.5], certify=True).recall_lower_bound
            words.query("sitting", max_distance=3).distances
            client.query({3: 1.5, 70001: 2.0}, filter={"year": {"$gte": 2020}}, include=("payload", "vector"))
        """
        wanted = options_of(options, k, target_recall, asked)
        return self._of_its_kind(lambda items: _flows.query(self._scope, vector, wanted, items, self._retry))

    def query_id(
        self,
        id: str | int,
        k: int = 10,
        target_recall: float = 0.9,
        *,
        options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:
        """The k nearest items of a stored item, without itself unless `include_self`; NotFound with code "unknown_id" if it is not there.

        Usage: `client.query_id("a", k=5)`
        """
        wanted = options_of(options, k, target_recall, asked)
        return self._do(_requests.query_id(self._scope, id, wanted))

    def query_batch(
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

        Usage: `for answer in client.query_batch(matrix, k=5): print(answer.ids)`
        """
        wanted = options_of(options, k, target_recall, asked)
        return self._of_its_kind(
            lambda items: _flows.query_batch(self._scope, of_kind(items, vectors), wanted, chunking, progress, self._retry)
        )

    def query_each(
        self,
        queries: Iterable[Query],
        *,
        chunking: Chunking = Chunking(),  # noqa: B008  # immutable
        progress: Progress | None = None,
        **reading: Unpack[Reading],
    ) -> AnswerBatch:
        """One answer for each of many queries with options of their own, in their order; those of one request are of one snapshot.

        Usage: `client.query_each([Query(id="a", options=QueryOptions(k=3)), Query([0.1, 0, 2])])`
        """
        several = listed(queries)
        return self._of_its_kind(lambda items: _flows.query_each(self._scope, several, items, chunking, progress, self._retry, reading))

    def query_examples(
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

        Usage: `client.query_examples(["a", [0.1, 0, 2.5]], ["b"], k=5)`
        """
        query = Query(positive=listed(positive), negative=listed(negative), options=options_of_more(options, more))
        return self._of_its_kind(lambda items: _flows.query_examples(self._scope, query, items, self._retry))


class _Stored(Writing, Explaining, _Handle, Browsing):
    """What every handle of a named collection can do, whatever its items hold."""

    def __init__(self, sender: SyncSender, name: str, retry: Retry) -> None:
        super().__init__(sender, collection_scope(name), retry)
        self.name = self._name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._sender.connection!r}>"

    def get(self, ids: Sequence[str | int], include: Include = ("vector", "payload"), **reading: Unpack[Reading]) -> GetResult:
        """Stored items by id.

        Usage: `collection.get(["a", "b"]).find("a")`
        """
        return self._sender.run(_flows.get(self.name, ids, include, self._retry, reading))

    def delete(
        self, ids: Sequence[str | int] | None = None, filter: Filter | None = None, *, if_versions: Versions | None = None
    ) -> DeleteResult:
        """Delete items, by exactly one of ids and filter. After a repeated request `deleted` may be too low.

        `if_versions`, with ids: the version that each has to have (`versions`), or None; `Conflict` where one has another.

        Usage: `collection.delete(["a"])`, `collection.delete(filter={"year": {"$lt": 2000}})`
        """
        return self._do(_requests.delete(self.name, ids, filter, if_versions))


class Collection(_Stored, Deduplicated, _Searchable, Tuned):
    """A handle of one collection; made by `Client.collection`, without asking whether the collection is there.

    As safe for threads as its client.
    """


class FieldsCollection(_Stored):
    """A handle of a collection whose items have several vectors; made by `Client.fields_collection`, without asking for it."""

    def add(
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

        Usage: `pictures.add(["a"], {"colour": [[0.1, 0, 2.5]], "words": [["red", "apple"]]})`
        """
        on = AddTerms(mode, **terms)
        return self._sender.run(_flows.add(self._scope, ids, OfFields(vectors, {}), payloads, on, chunking, progress, self._retry))

    def query(
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

        Usage: `pictures.query({"colour": [0.1, 0, 2.5], "words": ["red"]}, weights={"colour": 0.7, "words": 0.3})`
        """
        wanted = options_of(options, k, target_recall, asked)
        return self._do(_requests.query_fields_of(self._scope, vectors, _requests.combined(weights, combine), wanted))

    def query_id(
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

        Usage: `pictures.query_id("a", fields=["colour"])`
        """
        wanted = options_of(options, k, target_recall, asked)
        return self._do(_requests.query_id_of(self._scope, id, _requests.combined(weights, combine, fields), wanted))

    def query_batch(
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

        Usage: `for answer in pictures.query_batch({"colour": matrix}): print(answer.ids)`
        """
        wanted = options_of(options, k, target_recall, asked)
        several = OfFields(vectors, _requests.combined(weights, combine))
        return self._sender.run(_flows.query_batch(self._scope, several, wanted, chunking, progress, self._retry))


class Client(Aliasing, _Searchable):
    """A Kinbin service, over HTTP. `add` and the queries on the client itself work on the collection "default".

    `path`, in the place of `url`: the directory of a database, which is opened in this process; all else is the same. Takes the library.
    `api_key` travels in a header only. `timeout` is in seconds, or an httpx.Timeout. `transport` replaces
    the network (httpx.MockTransport in tests), `verify` is an ssl.SSLContext for a private authority.
    `read_your_writes`: of a cluster, every read waits until the shards have applied what this client wrote to that name before.

    Safe for threads; make one for each process (after a fork), and close it, or use it in a with statement.

    Usage:
        with Client("http://127.0.0.1:8080", api_key=key) as client:
            client.wait_ready()
            client.add(["a"], [[0.1, 0, 2.5]])
            print(client.query([0.1, 0, 2]).ids)
    """

    def __init__(
        self,
        url: str = DEFAULT_ADDRESS,
        *,
        path: str | os.PathLike[str] | None = None,
        api_key: str | None = None,
        timeout: TimeoutSetting = DEFAULT_TIMEOUT,
        retry: Retry = Retry(),  # noqa: B008  # immutable
        transport: httpx.BaseTransport | None = None,
        verify: bool | SSLContext = True,
        headers: Mapping[str, str] | None = None,
        **consistency: Unpack[Consistency],
    ) -> None:
        super().__init__(sync_sender(Connection.to(url, api_key, timeout, verify, headers), transport, path), DEFAULT_SCOPE, retry)
        self._sender.own = OwnWrites.of(consistency)

    def __repr__(self) -> str:
        return f"Client({self._sender.connection!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; further calls, also those of its collections, raise ClientClosed."""
        self._sender.close()

    def create_collection(
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
    ) -> Collection:
        """Create a collection; Conflict if there is one of this name, unless `exist_ok` and it is alike.

        `dim` None: sparse vectors and tokens; else dense (or sparse) vectors of so many features. None for
        the others: chosen by Kinbin. `parameters` are the kernel's, such as {"gamma": 2.0}; those left out have their defaults.
        `fields`: for items of several vectors, the configuration of each by its name, in the place of all others but `seed`; a
        `FieldsCollection` is returned then. `items`: "vectors", or objects: "strings", "series", "points", "images", which are compared
        by a `distance` (or kernel) of theirs, such as "levenshtein"; None: their default. `indexes`: fields of payloads that filters ask
        for, with their kinds: {"year": "number", "tag": "keyword", "seen": "datetime", "where": "geo"}.
        `feature_names`: a list of names of features 0, 1, … (of tokens without `dim`), or names by feature: explanations tell them.
        `cluster`: at a gateway, how it lies on the nodes: {"shards": 4, "replicas": 2}; one server refuses it (InvalidInput).

        Usage: `photos = client.create_collection("photos", kernel="ngmm", dim=512)`
        """
        asked = {"kernel": kernel, "dim": dim, "items": items, "distance": distance, **options}
        asked["indexes"] = None if indexes is None else dict(indexes)
        self._do(_requests.create_collection(name, _requests.configuration(asked, fields), exist_ok))
        self._sender.kinds[name] = items
        return self.collection(name) if fields is None else cast(Collection, self.fields_collection(name))

    def collection(self, name: str) -> Collection:
        """The handle of a collection; sends nothing.

        Usage: `client.collection("photos").query([0.1, 0, 2.5])`
        """
        return Collection(self._sender, name, self._retry)

    def fields_collection(self, name: str) -> FieldsCollection:
        """The handle of a collection whose items have several vectors; sends nothing.

        Usage: `client.fields_collection("pictures").query({"colour": [0.1, 0, 2.5]})`
        """
        return FieldsCollection(self._sender, name, self._retry)

    def collections(self) -> list[str]:
        """The names of all collections, sorted.

        Usage: `if "photos" in client.collections(): ...`
        """
        return self._do(_requests.collections())

    def drop_collection(self, name: str, *, damaged: bool = False) -> None:
        """Delete a collection with all its items; NotFound if it is not there. damaged: also one whose files are damaged.

        Usage: `client.drop_collection("photos")`
        """
        self._do(_requests.drop_collection(name, damaged=damaged))
        self._sender.kinds.pop(name, None)

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots that the service keeps.

        Usage: `client.snapshots.create("photos", keep=7)`
        """
        return Snapshots(self._sender, self._retry)

    def restore(self, source: str | os.PathLike[str] | Snapshot, name: str) -> Collection:
        """Make a new collection of a snapshot: one of `snapshots`, or a file, which is uploaded. Conflict if there is one of this name.

        All of it is proved before anything is made.

        Usage: `client.restore("photos.kinbin", "photos-2")`
        """
        self._do(restore(source, name))
        return self.collection(name)

    def limits(self) -> dict[str, Limit]:
        """The limits of the service by name.

        Usage: `client.limits()["k"].value`
        """
        return self._do(_requests.limits())

    def health(self) -> Health:
        """The state of the worker that answers, if any does.

        Usage: `client.health().status`
        """
        return self._do(_requests.health())

    def ready(self) -> bool:
        """Whether the service takes requests now.

        Usage: `client.ready()`
        """
        return self._sender.run(_flows.is_ready())

    def wait_ready(self, timeout: float = 60.0, interval: float = 0.25) -> None:
        """Wait until the service takes requests; Timeout, with the reason, after `timeout` seconds.

        Usage: `client.wait_ready(timeout=30)`
        """
        self._sender.run(_flows.wait_ready(timeout, interval))
