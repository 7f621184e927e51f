"""Compressed bodies, both ways: read within their limits, refused where they are damaged or grow too large, packed where asked for."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kinbin_service import compression
from kinbin_service.problems import Refusal
from service_app import App, judged, running_app

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


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "x-gzip"])
async def test_other_encodings_are_refused(app: App, encoding: str) -> None:
    """What is neither gzip nor zstd, or packed twice, is refused with 415."""
    refused = judged(await app.client.post("/index", content=b"{}", headers=headers(encoding)), 415)
    assert (refused["code"], "zstd or gzip" in refused["detail"]) == ("unsupported_encoding", True)


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
