"""Duplicates: near pairs of a collection, or their clusters, as one answer or as lines while they are found."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import kinbin
from kinbin_service.admission import Cancel, ClientGone
from kinbin_service.bodies import NDJSON
from kinbin_service.connections import drop, stopping
from kinbin_service.documented import FILTERED, NAMED, also, route
from kinbin_service.problems import Entry, Place, Refusal, document, from_library
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.mapping import by_field
from kinbin_service.routes.received import Name, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.duplicates import ClustersAnswer, DuplicatesRequest, PairsAnswer
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes("queries")
_LIMIT = 1_000
"""Pairs or clusters of an answer in JSON that asks for no number."""
_LINES = 1_000
_SLICE_SECONDS = 0.5
"""Lines are sent when there are so many, or so much time has passed."""
_PATIENCE_SECONDS = 20.0
"""So long lines wait for a reader that takes none (less where a stopping service waits less): others wait for their turn."""
DUPLICATES = route(
    "Find near duplicates", PairsAnswer | ClustersAnswer, body=DuplicatesRequest,
    refusals=NAMED | FILTERED | {"bad_parameter", "search_deadline"},
) | also(NDJSON, "a pair or a cluster as JSON a line; the last line has miss_probability, compared and complete, or error")  # fmt: skip


@router.post("/v1/collections/{name}/duplicates", **DUPLICATES)
async def find_duplicates(request: Request, name: Name) -> Response:
    """All pairs that score so much, of one snapshot, with exact scores; or the clusters that they make (single linkage).

    Each is overlooked with the probability `miss_probability` at most. With `Accept: application/x-ndjson` a pair or cluster is a line,
    sent while others are looked for, in a thread of its own and one such search at a time; the last line has `miss_probability`,
    `compared` and `complete`, or `error`, a problem document. A reader that takes nothing for 20 seconds is broken off. As JSON it takes
    as long as a search may, and has at most as many ids as an answer may have items. Of items with several vectors `field`
    says which is meant.
    """
    async with received_json(request, DuplicatesRequest) as asked:
        if NDJSON in request.headers.get("accept", ""):
            return _Streamed(request, name, asked)
        service, started, cancel = service_of(request), time.perf_counter(), Cancel()

        def find() -> bytes:
            with _search(service.database, name, asked, cancel) as answer:
                listed, complete = _listed(answer, asked.limit or _LIMIT, service.settings.max_answer_items)
                summary = _summary(answer, complete=complete)
            return encode({asked.form: listed, **summary, "took_ms": took_ms(started)})

        return reply(await service.work(request, find, cancel=cancel))


def _search(
    database: kinbin.Database, name: str, asked: DuplicatesRequest, cancel: threading.Event, progress: Callable[..., object] | None = None
) -> kinbin.Duplicates:
    collection: Any = database.collection(name)
    how: dict[str, Any] = {**by_field(collection, asked.field)}
    if not how:
        how = {"max_distance": asked.max_distance}
    elif asked.max_distance is not None:
        text = "fields print scores: use min_score, not max_distance"
        raise Refusal("bad_parameter", text, [Entry("#/max_distance", text)])
    found: kinbin.Duplicates = collection.duplicates(
        asked.min_score, asked.form, miss=asked.miss, filter=asked.filter, cancel=cancel, progress=progress, **how
    )
    return found


def _told(found: kinbin.Pair | kinbin.Cluster) -> dict[str, Any]:
    if isinstance(found, kinbin.Pair):
        return {"a": found.a, "b": found.b, "score": found.score}
    return {"keep": found.keep, "ids": list(found.ids), "least": found.least}


def _summary(answer: kinbin.Duplicates, *, complete: bool) -> dict[str, Any]:
    return {"miss_probability": answer.miss_probability, "compared": answer.compared, "complete": complete}


def _listed(answer: kinbin.Duplicates, limit: int, most_ids: int) -> tuple[list[dict[str, Any]], bool]:
    """(what is found, whether that is all). Refused: more ids than an answer may have items."""
    listed, ids = [], 0
    for found in islice(answer, limit):
        ids += 2 if isinstance(found, kinbin.Pair) else len(found.ids)
        if ids > most_ids:
            detail = f"an answer has at most {most_ids:,} items: ask for fewer clusters, or for lines (Accept: {NDJSON})"
            raise Refusal("over_limit", detail, [Entry("#/limit", "too many ids")], "answer_items")
        listed.append(_told(found))
    return listed, next(answer, None) is None


class _Streamed(Response):
    """The answer as lines. What is refused before the first of them is answered like any other refusal."""

    media_type = NDJSON

    def __init__(self, request: Request, name: str, asked: DuplicatesRequest) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._request = request
        self._lines = _Lines(service_of(request).database, name, asked, partial(stopping, request.scope))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find and send, in turn, until all is told, the client leaves or takes nothing any more, or the service stops."""
        lines, service = self._lines, service_of(self._request)
        patience = min(_PATIENCE_SECONDS, 0.8 * service.settings.drain_seconds)
        async with service.long_work() as run:
            watching = asyncio.create_task(_watch(receive, lines.cancel))
            try:
                part = await run(lines.next)
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                while part:
                    async with asyncio.timeout(patience):
                        await send({"type": "http.response.body", "body": part, "more_body": not lines.ended})
                    part = b"" if lines.ended else await run(lines.next)
            except TimeoutError:
                # Its end is awaited: the server logs an answer that is not complete unless its client is gone.
                if drop(scope):
                    await watching
                raise ClientGone from None
            finally:
                watching.cancel()
                lines.cancel.set()
                await run(lines.close)


async def _watch(receive: Receive, cancel: threading.Event) -> None:
    """Let a search end when its client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel.set()


class _Lines:
    """Parts of an answer, some lines each, the summary or the error last. Its calls wait for each other."""

    def __init__(self, database: kinbin.Database, name: str, asked: DuplicatesRequest, stopping: Callable[[], bool]) -> None:
        self.ended = False
        self.cancel = threading.Event()
        self._lock = threading.Lock()
        self._search = partial(_search, database, name, asked, self.cancel, self._go_on)
        self._answer: kinbin.Duplicates | None = None
        self._left = asked.limit
        self._stop = threading.Event()
        self._stopping = stopping

    def next(self, stop: threading.Event) -> bytes:
        """The next lines: of half a second, or a thousand. Raises what ends the search before the first. stop: the service stops."""
        with self._lock:
            self._stop = stop
            self._go_on()
            first = self._answer is None
            lines: list[bytes] = []
            try:
                self._find(lines)
            except kinbin.KinbinError as error:
                if isinstance(error, kinbin.SearchCancelled) and not self._ends():
                    raise ClientGone from None
                cancelled = isinstance(error, kinbin.SearchCancelled)
                refusal = Refusal("stopping", "the service is stopping") if cancelled else from_library(error, Place())
                if first and not lines:
                    raise refusal from error
                lines.append(encode({"error": orjson.loads(document(refusal.code, refusal.detail, refusal.errors, refusal.limit))}))
                self.ended = True
            return b"\n".join(lines) + b"\n"

    def close(self, _: threading.Event) -> None:
        """Let go of the snapshot."""
        with self._lock:
            if self._answer is not None:
                self._answer.close()

    def _find(self, lines: list[bytes]) -> None:
        answer = self._answer = self._answer or self._search()
        until = time.monotonic() + _SLICE_SECONDS
        while not self.ended and len(lines) < _LINES and (not lines or time.monotonic() < until):
            found = next(answer, None)
            self.ended = found is None or self._left == 0
            lines.append(encode(_told(found) if found is not None and not self.ended else _summary(answer, complete=found is None)))
            self._left = None if self._left is None else self._left - 1

    def _go_on(self, *_: object) -> None:
        if self._ends():
            self.cancel.set()

    def _ends(self) -> bool:
        """Whether the service stops."""
        return self._stop.is_set() or self._stopping()
