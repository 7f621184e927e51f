"""What a call does, step by step, without doing it: generators that yield requests and pauses.

A flow yields a Request and is sent its Reply (or thrown the TransportError of sending it), or yields
a Pause; it returns what the caller gets. `_transport.py` drives it, blocking or on the event loop: so
retries, chunks and waiting are written once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from kinbin_client import _asked, _chunks, _requests
from kinbin_client._chunks import Chunk, Chunking, OfFields
from kinbin_client._cluster import Reading, reading
from kinbin_client._cluster import joined as newest
from kinbin_client._columns import joined, part_of
from kinbin_client._objects import KEYS, Objects
from kinbin_client._options import Filter, Include, Query, QueryOptions
from kinbin_client._progress import Progress, shown
from kinbin_client._requests import Operation, Request, Scope
from kinbin_client._responses import Reply
from kinbin_client._terms import AddTerms
from kinbin_client.errors import (
    ApiError,
    InvalidArgument,
    InvalidInput,
    KinbinClientError,
    ServerError,
    Timeout,
    TransportError,
    Unavailable,
    UnexpectedResponse,
)
from kinbin_client.models import AddResult, Answer, AnswerBatch, GetResult, Page
from kinbin_client.retry import Retry, may_repeat, retry_after_of
from kinbin_client.vectors import Vectors

T = TypeVar("T")

_ONCE = Retry(attempts=1)
_IDS_A_GET = 1_000
_TOLD = 100
"""Bad items of an add that are told one by one."""
_STARTING_STATUSES = frozenset({502, 503, 504})
"""What the service, or a proxy before it, answers while it starts; a service that failed to start answers 500."""
_READY_SECONDS = 5.0
"""The longest that one question for readiness may take, so that a hanging one is asked again."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


Flow: TypeAlias = Generator[Request | Pause, Reply | None, T]


def send(operation: Operation[T], retry: Retry) -> Flow[T]:
    """Send a request, again if that is safe and may help, and parse its answer."""
    failures = 0
    while True:
        try:
            return operation.parse(_reply((yield operation.request)))
        except KinbinClientError as error:
            failures += 1
            if not may_repeat(error, operation.request.repeat):
                raise
            draw = random.random()  # noqa: S311  # spreads clients out, keeps no secret
            pause = retry.pause(failures, retry_after_of(error), draw)
            if pause is None:
                raise
        yield Pause(pause)


def add(
    scope: Scope,
    ids: Sequence[str | int],
    vectors: Vectors | OfFields | Objects,
    payloads: Sequence[Mapping[str, Any] | None] | None,
    terms: AddTerms,
    chunking: Chunking,
    progress: Progress | None,
    retry: Retry,
) -> Flow[AddResult]:
    """Add chunk by chunk; an error tells how many items had been acknowledged, and where in the whole add it lies."""
    total, chunks = _chunks.add_chunks(scope, ids, vectors, payloads, terms, chunking)
    done = 0
    results: list[AddResult] = []
    with shown(progress, total, "items") as tell:
        while True:
            try:
                chunk = next(chunks, None)
                if chunk is None:
                    return _sum_of_adds(results)
                results.append((yield from send(_requests.add(chunk.request), retry)).shifted(done))
            except KinbinClientError as error:
                _shift_problems(error, done)
                error.acknowledged = done
                raise
            done += chunk.size
            tell(done, total)


def query(scope: Scope, given: Any, options: QueryOptions, items: str, retry: Retry) -> Flow[Answer]:
    """Query by one vector or object."""
    return (yield from send(_requests.query(scope, given, options, items), retry))


def query_batch(
    scope: Scope,
    vectors: Vectors | OfFields | Objects,
    options: QueryOptions,
    chunking: Chunking,
    progress: Progress | None,
    retry: Retry,
) -> Flow[AnswerBatch]:
    """Query chunk by chunk; the answers come in the order of the queries."""
    total, chunks = _chunks.query_chunks(scope, vectors, options, chunking)
    return (yield from _batches(total, chunks, progress, retry))


def query_each(
    scope: Scope, queries: Iterable[Query], items: str, chunking: Chunking, progress: Progress | None, retry: Retry, asked: Reading
) -> Flow[AnswerBatch]:
    """The same for queries with options of their own."""
    total, chunks = _asked.each_chunks(scope, queries, items, chunking, asked)
    return (yield from _batches(total, chunks, progress, retry))


def query_examples(scope: Scope, query: Query, items: str, retry: Retry) -> Flow[Answer]:
    """Query by examples."""
    return (yield from send(_requests.answered(_asked.example_chunk(scope, query, items).request), retry))


def _batches(total: int, chunks: Iterator[Chunk], progress: Progress | None, retry: Retry) -> Flow[AnswerBatch]:
    batches: list[AnswerBatch] = []
    done = 0
    with shown(progress, total, "queries") as tell:
        for chunk in chunks:
            try:
                batch = yield from send(_requests.query_batch(chunk.request), retry)
            except KinbinClientError as error:
                _shift_problems(error, done)
                raise
            if len(batch) != chunk.size:
                raise UnexpectedResponse(f"{chunk.size} queries were sent and {len(batch)} answers came", 200)
            batches.append(batch)
            done += chunk.size
            tell(done, total)
    return batches[0] if len(batches) == 1 else joined(batches, _sum(batch.took_ms for batch in batches))


def of_its_kind(kinds: dict[str, str], name: str, retry: Retry, build: Callable[[str], Flow[T]]) -> Flow[T]:
    """What is built for the kind of items that a collection has: a key of `_objects.KEYS`.

    kinds: those that the client has met, by collection; others are taken for vectors, which most are. What is refused as such asks
    the service, once, and is built again if the collection is of another kind.
    """
    items = kinds.get(name, "vectors")
    try:
        return (yield from build(items))
    except (InvalidArgument, InvalidInput) as error:
        if error.acknowledged or not (_is_other_key(error) or (name not in kinds and error.code == "bad_vector")):
            raise
        found = yield from _kind_of(name, retry)
        if found is not None:
            kinds[name] = found
        if found in (None, items):
            raise
    return (yield from build(kinds[name]))


def _is_other_key(error: InvalidArgument | InvalidInput) -> bool:
    """Whether a service says that items of the collection carry something else."""
    return isinstance(error, InvalidInput) and error.code == "invalid_field" and error.detail.startswith("items of this collection carry ")


def _kind_of(name: str, retry: Retry) -> Flow[str | None]:
    """The kind of items of a collection; None if that cannot be found out, or is one that this client does not know."""
    try:
        found = (yield from send(_requests.collection_info(name), retry)).items
    except KinbinClientError:
        return None
    return found if found in KEYS else None


def is_ready() -> Flow[bool]:
    """Whether the service takes requests now; not asked again when it says that it does not."""
    try:
        yield from send(_requests.ready(), _ONCE)
    except Unavailable:
        return False
    return True


def wait_ready(timeout: float, interval: float, clock: Callable[[], float] = time.monotonic) -> Flow[None]:
    """Ask until the service is ready; Timeout, with the last failure as its cause, when that takes too long."""
    if timeout < 0 or interval <= 0:
        raise InvalidArgument("wait_ready takes a timeout of at least 0 and an interval above 0 seconds")
    deadline = clock() + timeout
    while True:
        try:
            return (yield from send(_requests.ready(timeout=min(_READY_SECONDS, max(deadline - clock(), interval))), _ONCE))
        except (TransportError, ServerError) as error:
            if isinstance(error, ServerError) and error.status not in _STARTING_STATUSES:
                raise
            left = deadline - clock()
            if left <= 0:
                raise Timeout(f"the service was not ready after {timeout:g} s: {error}", outcome_unknown=False) from error
        yield Pause(min(interval, left))


def get(name: str, ids: Sequence[str | int], include: Include, retry: Retry, asked: Reading) -> Flow[GetResult]:
    """Get items, a page of ids at a time."""
    listed = _requests.id_list(ids)
    parts: list[GetResult] = []
    for start in range(0, max(1, len(listed)), _IDS_A_GET):
        try:
            parts.append((yield from send(reading(_requests.get(name, listed[start : start + _IDS_A_GET], include), asked), retry)))
        except KinbinClientError as error:
            _shift_problems(error, start)
            raise
    if len(parts) == 1:
        return parts[0]
    items = [item for part in parts for item in part.items]
    return GetResult(items=items, missing=[one for part in parts for one in part.missing], **part_of(parts))


@dataclass(slots=True)
class Cursor:
    """Where a scroll over all pages is: `operation` is the request of the next page, `take` records the page."""

    name: str
    limit: int
    filter: Filter | None
    include: Include
    after: str | None = None
    asked: Reading = field(default_factory=Reading)
    finished: bool = False

    def operation(self) -> Operation[Page]:
        """The request of the next page."""
        return reading(_requests.scroll(self.name, self.after, self.limit, self.filter, self.include), self.asked)

    def take(self, page: Page) -> Page:
        """Move behind a page; UnexpectedResponse if the service would have us read it again for ever."""
        if page.next is not None and page.next == self.after:
            raise UnexpectedResponse("the service returned the cursor of this page as that of the next", 200)
        self.after = page.next
        self.finished = page.next is None
        return page


def _reply(received: Reply | None) -> Reply:
    if received is None:
        raise RuntimeError("whoever drives a flow answers a Request with its Reply")
    return received


def _shift_problems(error: KinbinClientError, offset: int) -> None:
    """Count the positions in a service's error from the start of the whole batch, not of the chunk."""
    if isinstance(error, ApiError) and offset:
        error.errors = tuple(problem.shifted(offset) for problem in error.errors)
        error.args = (error.status, error.code, error.detail, error.errors, error.limit, error.retry_after, error.request_id)


def _sum_of_adds(results: Sequence[AddResult]) -> AddResult:
    return AddResult(
        indexed=sum(result.indexed for result in results),
        updated=sum(result.updated for result in results),
        unchanged=sum(result.unchanged for result in results),
        count=results[-1].count,
        skipped=sum(result.skipped for result in results),
        problems=[problem for result in results for problem in result.problems][:_TOLD],
        took_ms=_sum(result.took_ms for result in results),
        token=newest(result.token for result in results),
        replayed=all(result.replayed for result in results),
    )


def _sum(times: Iterator[float | None]) -> float | None:
    known = [time_ms for time_ms in times if time_ms is not None]
    return sum(known) if known else None
