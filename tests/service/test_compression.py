"""Compressed bodies, both ways: read within their limits, refused where they are damaged or grow too large, packed where asked for."""

from __future__ import annotations

import asyncio
import gzip
import io
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from kinbin_service import compression
from kinbin_service.problems import Refusal
from processor_time import at_most
from service_app import App, eventually, judged, running_app

PACKERS: dict[str, Any] = {"gzip": gzip.compress, "zstd": zstandard.compress}
ITEMS = {"items": [{"id": f"i{i}", "vector": [1 + i, 2, 3], "payload": {"text": "words " * 50}} for i in range(40)]}


def headers(encoding: str, media_type: str = "application/json") -> dict[str, str]:
    """Of a packed body."""
    return {"content-type": media_type, "content-encoding": encoding}


@pytest.mark.parametrize("encoding", PACKERS)
async def test_packed_bodies_are_read(app: App, encoding: str) -> None:
    """JSON, lines and matrices may come packed, on every route with a body."""
    pack = PACKERS[encoding]
    added = await app.client.post("/index", content=pack(orjson.dumps(ITEMS)), headers=headers(encoding))
    assert judged(added, 200)["indexed"] == 40
    lines = b"\n".join(orjson.dumps(one) for one in ITEMS["items"])
    again = await app.client.post("/index", content=pack(lines), headers=headers(encoding, "application/x-ndjson"))
    assert judged(again, 200)["unchanged"] == 40
    file = io.BytesIO()
    np.save(file, np.ones((2, 3), np.float32))
    asked = await app.client.post("/query?k=1", content=pack(file.getvalue()), headers=headers(encoding, "application/x-npy"))
    assert len(judged(asked, 200)["answers"]) == 2
    counted = await app.client.post("/v1/collections/default/count", content=pack(b"{}"), headers=headers(encoding.upper()))
    assert judged(counted, 200) == {"count": 40}


@pytest.mark.parametrize("encoding", PACKERS)
async def test_what_grows_too_large_is_refused_before_it_is_made(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small body that stands for a huge one is refused as soon as it passes the limit of its route; little more than that is made."""
    made: list[int] = []
    original = compression.pieces

    def watched(encoding: str, body: bytes) -> Any:
        for piece in original(encoding, body):
            made.append(len(piece))
            yield piece

    monkeypatch.setattr(compression, "pieces", watched)
    bomb = PACKERS[encoding](b" " * 200_000_000)
    assert len(bomb) < 250_000
    async with running_app(tmp_path, max_index_body_bytes=1_000_000) as app:
        refused = judged(await app.client.post("/index", content=bomb, headers=headers(encoding)), 413)
        assert (refused["code"], refused["limit"]) == ("body_too_large", "index_body_bytes")
        assert sum(made) <= 1_000_000 + 8_388_608
        assert app.service.buffers.held == 0
        assert (await app.get("/v1/collections"))["collections"] == []


@pytest.mark.parametrize("encoding", PACKERS)
async def test_unpacked_bytes_count_as_held(tmp_path: Path, encoding: str) -> None:
    """Bodies fill the memory set aside for them by what they unpack to."""
    async with running_app(tmp_path, max_buffered_bytes=40_000_000) as app:
        app.service.buffers.held = 39_000_000
        packed = PACKERS[encoding](b" " * 2_000_000)
        assert judged(await app.client.post("/index", content=packed, headers=headers(encoding)), 503)["code"] == "buffers_full"
        assert app.service.buffers.held == 39_000_000


@pytest.mark.parametrize("encoding", PACKERS)
@pytest.mark.parametrize("harm", ["cut", "foreign", "flipped", "behind"])
async def test_damaged_bodies_are_refused(app: App, encoding: str, harm: str) -> None:
    """A body that ends early, is packed otherwise, is damaged or has something behind it is refused with 400."""
    whole = PACKERS[encoding](orjson.dumps(ITEMS))
    broken = {
        "cut": whole[:-9], "foreign": orjson.dumps(ITEMS), "flipped": whole[:30] + bytes([whole[30] ^ 255]) + whole[31:],
        "behind": whole + b"more",
    }[harm]  # fmt: skip
    refused = judged(await app.client.post("/index", content=broken, headers=headers(encoding)), 400)
    assert refused["code"] in ("bad_encoding", "bad_json")
    assert refused["code"] == "bad_encoding" or harm == "flipped"
    assert (await app.get("/v1/collections"))["collections"] == []


def test_a_window_that_is_too_large_is_told() -> None:
    """A zstd body whose window is over the limit is told so, with what to do."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    maker = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = maker.compress(b"{}") + maker.flush()
    with pytest.raises(Refusal, match="window of at most 8,388,608 bytes") as refused:
        list(compression.pieces("zstd", packed))
    assert refused.value.code == "bad_encoding"


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "x-gzip"])
async def test_other_encodings_are_refused(app: App, encoding: str) -> None:
    """What is neither gzip nor zstd, or packed twice, is refused with 415."""
    refused = judged(await app.client.post("/index", content=b"{}", headers=headers(encoding)), 415)
    assert (refused["code"], "zstd or gzip" in refused["detail"]) == ("unsupported_encoding", True)


EMPTY: dict[str, tuple[str, bytes]] = {
    "gzip": ("gzip", gzip.compress(b"")), "zstd": ("zstd", zstandard.compress(b"")),
    "skippable": ("zstd", bytes.fromhex("502a4d18 00000000")),
}  # fmt: skip


@pytest.mark.parametrize("kind", EMPTY)
async def test_many_empty_members_are_refused(app: App, kind: str) -> None:
    """A body of a hundred thousand empty members is refused at once; a thousand members are taken."""
    encoding, one = EMPTY[kind]
    with at_most(5):
        refused = judged(await app.client.post("/index", content=one * 100_000, headers=headers(encoding)), 400)
    assert (refused["code"], "1,000" in refused["detail"]) == ("bad_encoding", True)
    body = one * 999 + PACKERS[encoding](orjson.dumps(ITEMS))
    assert judged(await app.client.post("/index", content=body, headers=headers(encoding)), 200)["indexed"] == 40


def test_the_rest_of_a_body_is_not_copied_for_each_member() -> None:
    """A thousand members before 32 MiB take a fraction of a second."""
    body = gzip.compress(b"") * 999 + gzip.compress(bytes(33_000_000), 0)
    with at_most(5):
        assert sum(map(len, compression.pieces("gzip", body))) == 33_000_000


@pytest.mark.parametrize("encoding", PACKERS)
async def test_unpacking_ends_in_time_and_with_its_client(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that takes longer to unpack than bodies may is refused; one whose client has left is unpacked no further."""

    def endless(*_: object) -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b""

    monkeypatch.setattr(compression, "pieces", endless)
    async with running_app(tmp_path, body_seconds=0.3) as app:
        refused = judged(await app.client.post("/index", content=b"x", headers=headers(encoding)), 408)
        assert refused["code"] == "body_timeout"
        assert app.service.buffers.held == 0

    async def left() -> bool:
        return True

    with pytest.raises(ClientDisconnect):
        await compression.unpacked(encoding, b"x", print, 20, left)


async def test_unpacking_leaves_other_threads_alone(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bodies are unpacked at once, the metrics answer."""
    go_on = threading.Event()

    def slow(*_: object) -> Iterator[bytes]:
        assert go_on.wait(60)
        yield b"{}"

    monkeypatch.setattr(compression, "pieces", slow)
    many = [asyncio.ensure_future(app.client.post("/index", content=b"x", headers=headers("gzip"))) for _ in range(64)]
    await eventually(lambda: app.service.buffers.held == 64)
    async with asyncio.timeout(10):
        assert (await app.client.get("/metrics")).status_code == 200
    go_on.set()
    assert {one.status_code for one in await asyncio.gather(*many)} == {422}


@given(st.binary(max_size=5_000), st.lists(st.integers(1, 2_000), max_size=3), st.sampled_from(sorted(PACKERS)))
def test_whatever_was_packed_in_parts_comes_out_whole(data: bytes, sizes: list[int], encoding: str) -> None:
    """Several members or frames, one behind the other, are one body."""
    parts, rest = [], data
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    packed = b"".join(PACKERS[encoding](part) for part in (*parts, rest))
    assert b"".join(compression.pieces(encoding, packed)) == data


@given(st.binary(max_size=300), st.sampled_from(sorted(PACKERS)))
def test_whatever_comes_is_unpacked_or_refused(data: bytes, encoding: str) -> None:
    """Any bytes are unpacked or refused, and nothing else is raised."""
    codes = {"bad_encoding"}
    try:
        list(compression.pieces(encoding, data))
    except Refusal as refusal:
        codes.add(refusal.code)
    assert codes == {"bad_encoding"}


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", None), ("identity", None), ("br, deflate", None), ("gzip", "gzip"), ("gzip, zstd", "zstd"), ("*", "zstd"),
        ("zstd;q=0.2, gzip;q=0.8", "gzip"), ("zstd;q=0, *;q=0.5", "gzip"), ("gzip;q=0", None), ("GZIP", "gzip"), ("gzip;q=high", None),
    ],
)  # fmt: skip
def test_the_encoding_of_an_answer_is_the_one_preferred(header: str, encoding: str | None) -> None:
    """The most preferred of the known ones is taken, zstd before gzip, and none that is refused."""
    assert compression.accepted(header) == encoding


@pytest.mark.parametrize("encoding", PACKERS)
async def test_large_answers_are_packed_where_that_is_accepted(app: App, encoding: str) -> None:
    """Answers above a size are packed as asked and say so; small ones, and those for others, travel as they are."""
    await app.post("/index", ITEMS)
    path, body = "/v1/collections/default/scroll", {"limit": 100, "include": ["payload", "vector"]}
    plain = await app.client.post(path, json={**body, "limit": 40}, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    async with app.client.stream("POST", path, json={**body, "limit": 40}, headers={"accept-encoding": encoding}) as answer:
        raw = b"".join([part async for part in answer.aiter_raw()])
    assert len(plain.content) >= compression.PACKED_BYTES
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == (encoding, "Accept-Encoding")
    assert int(answer.headers["content-length"]) == len(raw) < len(plain.content) / 2
    unpacked = zlib.decompress(raw, 31) if encoding == "gzip" else zstandard.decompress(raw)
    assert orjson.loads(unpacked) == plain.json()
    few = await app.client.post("/v1/collections/default/count", json={}, headers={"accept-encoding": encoding})
    assert "content-encoding" not in few.headers
