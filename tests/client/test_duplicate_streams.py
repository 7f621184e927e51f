"""Duplicates line by line, blocking and awaited: what a stream tells, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from kinbin_client import (
    AsyncClient,
    Client,
    Cluster,
    ConnectionLost,
    DuplicatesSummary,
    InvalidInput,
    Pair,
    Retry,
    Unavailable,
    UnexpectedResponse,
)  # fmt: skip

PAIR = b'{"a":"x\xe2\x80\xa8\xc2\x85y","b":"z","score":0.5}\n'
"""An id with characters that some take for ends of lines."""
SUMMARY = b'{"miss_probability":0.01,"compared":7,"complete":true}\n'
STOPPING = {
    "type": "about:blank",
    "title": "Stopping",
    "status": 503,
    "code": "stopping",
    "detail": "the service is stopping",
    "errors": [],
}


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body in parts, which knows whether it was let go of."""

    def __init__(self, parts: list[bytes], error: Exception | None = None) -> None:
        self.parts, self.error, self.closed = parts, error, False

    def __iter__(self) -> Iterator[bytes]:
        yield from self.parts
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> Any:
        for part in self:
            yield part

    def close(self) -> None:
        """Noted."""
        self.closed = True

    async def aclose(self) -> None:
        """Noted."""
        self.closed = True


def answering(*bodies: Parts | httpx.Response) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """A service that gives these answers, one a request, and the requests that it got."""
    left, asked = list(bodies), list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        one = left.pop(0)
        return one if isinstance(one, httpx.Response) else httpx.Response(200, stream=one)

    return httpx.MockTransport(answer), asked


def read(transport: httpx.MockTransport, **options: Any) -> tuple[list[Any], Any]:
    """What the blocking client is told, and the summary."""
    with Client(transport=transport, retry=Retry(attempts=2, first_pause=0.0, longest_pause=0.0)) as client:
        stream = client.collection("c").duplicates_stream(0.5, **options)
        return list(stream), stream.summary


def read_awaited(transport: httpx.MockTransport, **options: Any) -> tuple[list[Any], Any]:
    """The same of the awaited one."""

    async def run() -> tuple[list[Any], Any]:
        async with AsyncClient(transport=transport, retry=Retry(attempts=2, first_pause=0.0, longest_pause=0.0)) as client:
            stream = client.collection("c").duplicates_stream(0.5, **options)
            return [one async for one in stream], stream.summary

    return asyncio.run(run())


both = pytest.mark.parametrize("reads", [read, read_awaited])
Reads = Callable[..., tuple[list[Any], Any]]


@both
@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_lines_however_they_are_cut(reads: Reads, size: int) -> None:
    """Lines end at newlines only, wherever the parts of the answer end, and the last one is the summary."""
    whole = PAIR + b'{"a":"p","b":"q","score":1}\n' + SUMMARY
    body = Parts([whole[at : at + size] for at in range(0, len(whole), size)])
    transport, asked = answering(body)
    found, summary = reads(transport, limit=5)
    assert found == [Pair(a="x\u2028\u0085y", b="z", score=0.5), Pair(a="p", b="q", score=1)]
    assert summary == DuplicatesSummary(miss_probability=0.01, compared=7, complete=True)
    assert body.closed
    assert asked[0].headers["accept"] == "application/x-ndjson"
    assert orjson.loads(asked[0].content) == {"min_score": 0.5, "as": "pairs", "miss": 0.01, "limit": 5}


@both
@pytest.mark.parametrize(
    ("parts", "error", "raised"),
    [
        ([PAIR], None, ConnectionLost),
        ([PAIR, PAIR[:9]], None, ConnectionLost),
        ([PAIR], httpx.ReadError("gone"), ConnectionLost),
        ([PAIR, b'{"error":' + orjson.dumps(STOPPING) + b"}\n"], None, Unavailable),
        ([PAIR, b"<html>\n"], None, UnexpectedResponse),
        ([PAIR, b'{"a":1}\n'], None, UnexpectedResponse),
        ([PAIR, b'{"error":{"status":200}}\n'], None, UnexpectedResponse),
        ([PAIR, b"[1]\n"], None, UnexpectedResponse),
    ],
)
def test_an_answer_that_breaks_off(reads: Reads, parts: list[bytes], error: Exception | None, raised: type[Exception]) -> None:
    """An answer without its last line, and one that ends with an error, raise: nobody takes a part for the whole; nothing is repeated."""
    transport, asked = answering(Parts(parts, error))
    with pytest.raises(raised):
        reads(transport)
    assert len(asked) == 1


@both
def test_the_beginning_is_repeated(reads: Reads) -> None:
    """A refusal before the first line that may pass is asked again."""
    busy = httpx.Response(503, json=STOPPING, headers={"content-type": "application/problem+json", "retry-after": "0"})
    transport, asked = answering(busy, Parts([SUMMARY]))
    assert reads(transport)[0] == []
    assert len(asked) == 2


def test_who_stops_early_lets_go() -> None:
    """Leaving the with statement closes the answer, which ends the search; a stream that was never read asks nothing."""
    body = Parts([PAIR, PAIR, SUMMARY])
    transport, asked = answering(body)
    with Client(transport=transport) as client:
        with client.collection("c").duplicates_stream(0.5) as stream:
            assert next(stream).b == "z"
        assert body.closed
        assert stream.summary is None
        with client.collection("c").duplicates_stream(0.5):
            pass
    assert len(asked) == 1


async def test_a_client_of_a_path_reads_lines(tmp_path: Path) -> None:
    """Of a directory both clients tell what `duplicates` tells, and refusals are raised by the first step."""
    with Client(path=tmp_path) as client:
        photos = client.create_collection("photos", kernel="ngmm", dim=4)
        photos.add(list("abcd"), [[1, 2, 0, 0], [1, 2.01, 0, 0], [0, 0, 2, 1], [0, 0, 2, 1]])
        with photos.duplicates_stream(0.9) as pairs:
            assert list(pairs) == list(photos.duplicates(0.9))
            assert pairs.summary is not None
            assert pairs.summary.complete
        refused = photos.duplicates_stream()
        with pytest.raises(InvalidInput, match="give min_score"):
            next(refused)
    async with AsyncClient(path=tmp_path) as other:
        stream = other.collection("photos").duplicates_stream(0.9, "clusters", limit=1)
        assert [one async for one in stream] == [Cluster(keep="a", ids=["a", "b"], least=stream_least(tmp_path))]
        assert stream.summary is not None
        assert not stream.summary.complete


def stream_least(path: Path) -> float:
    """What the first cluster's farthest pair scores, by the answer as one."""
    with Client(path=path) as client:
        return client.collection("photos").duplicates(0.9, "clusters").clusters[0].least


@pytest.mark.server
def test_a_service_is_read_line_by_line(live_url: str) -> None:
    """Over a connection all pairs arrive, more than one answer may list, and a reader that leaves early leaves the service free."""
    rows = np.repeat(np.eye(8, dtype=np.float32) + 0.01, 40, axis=0) + np.linspace(0, 1e-3, 320, dtype=np.float32)[:, None]
    with Client(live_url, api_key="canary-key-4711") as client:
        photos = client.create_collection("streamed", dim=8)
        photos.add([str(i) for i in range(320)], rows)
        stream = photos.duplicates_stream(0.9, miss=0)
        found = {(one.a, one.b) for one in stream}
        assert len(found) == 8 * 40 * 39 // 2
        assert stream.summary is not None
        assert stream.summary.complete
        with photos.duplicates_stream(0.9, miss=0) as early:
            assert next(early).score >= 0.9
        assert client.ready()
        client.drop_collection("streamed")
