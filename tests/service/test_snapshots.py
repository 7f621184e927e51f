"""Snapshots over HTTP: made, listed, downloaded in parts, verified, deleted, and restored from here and from elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import kinbin
from service_app import App, judged, running_app

SNAPSHOTS = "/v1/collections/photos/snapshots"
TYPE = {"content-type": "application/x-kinbin-snapshot"}


@pytest.fixture
async def photos(app: App) -> App:
    """An application with a collection "photos" of 40 items."""
    await app.put("/v1/collections/photos", {"dim": 3})
    items = [{"id": f"p{n}", "vector": [n + 1, 1, 2], "payload": {"n": n}} for n in range(40)]
    await app.post("/v1/collections/photos/index", {"items": items})
    return app


def drafts(folder: Path) -> list[Path]:
    """What is left of unfinished work below a folder."""
    return list(folder.rglob(".new-*"))


async def download(app: App, identifier: str, **headers: str) -> Any:
    """The answer to a download."""
    return await app.client.get(f"{SNAPSHOTS}/{identifier}", headers=headers)


async def test_a_snapshot_comes_and_goes(photos: App) -> None:
    """It is made, listed, verified, downloaded under its SHA-256, restored beside its collection, and deleted."""
    made = await photos.post(SNAPSHOTS, {}, status=201)
    assert (made["collection"], made["items"]) == ("photos", 40)
    assert await photos.get(SNAPSHOTS) == {"snapshots": [made]}
    assert await photos.post(f"{SNAPSHOTS}/{made['id']}/verify") == {"ok": True, "items": 40, "problems": []}
    whole = await download(photos, made["id"])
    assert (whole.status_code, whole.headers["etag"], whole.headers["content-type"]) == (200, f'"{made["sha256"]}"', TYPE["content-type"])
    assert hashlib.sha256(whole.content).hexdigest() == made["sha256"]
    asked = {"collection": "photos", "snapshot": made["id"], "name": "copy"}
    assert (await photos.post("/v1/restore", asked, status=201))["count"] == 40
    assert (await photos.state())["copy"] == (await photos.state())["photos"]
    assert judged(await photos.client.delete(f"{SNAPSHOTS}/{made['id']}"), 200) == {"deleted": made["id"]}
    assert await photos.get(SNAPSHOTS) == {"snapshots": []}
    kept = [(await photos.post(SNAPSHOTS, {"keep": 2}, status=201))["id"] for _ in range(3)]
    assert [one["id"] for one in (await photos.get(SNAPSHOTS))["snapshots"]] == kept[1:]


async def test_no_body_is_an_empty_one(photos: App) -> None:
    """A snapshot is made without a body, with and without a media type; options in the address are refused all the same."""
    for headers in ({}, {"content-type": "application/json"}):
        assert judged(await photos.client.post(SNAPSHOTS, headers=headers), 201)["items"] == 40
    assert judged(await photos.client.post(f"{SNAPSHOTS}?keep=1"), 422)["code"] == "invalid_field"


async def test_an_upload_is_restored(photos: App, tmp_path: Path) -> None:
    """A file that was downloaded makes a collection anywhere; damaged, cut and foreign ones make none, and nothing of them stays."""
    made = await photos.post(SNAPSHOTS, {}, status=201)
    data = (await download(photos, made["id"])).content

    async def upload(content: Any, name: str, status: int) -> Any:
        return judged(await photos.client.post(f"/v1/restore?name={name}", content=content, headers=TYPE), status)

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 1_000):
            yield data[start : start + 1_000]

    assert (await upload(parts(), "copy", 201))["count"] == 40
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 16
    for content, code in (
        (bytes(flipped), "corrupt_snapshot"),
        (data[:-9], "corrupt_snapshot"),
        (b"", "no_snapshot"),
        (b"PK", "no_snapshot"),
    ):
        assert (await upload(content, "other", 422))["code"] == code
    assert (await upload(data, "photos", 409))["code"] == "collection_exists"
    assert (await upload(data, "../x", 422))["code"] == "bad_name"
    assert await photos.get("/v1/collections") == {"collections": ["copy", "photos"]}
    assert not drafts(tmp_path)


async def test_parts_of_a_download(photos: App) -> None:
    """One range is answered with 206, one beyond the end with 416; what is no single range is answered with everything."""
    made = await photos.post(SNAPSHOTS, {}, status=201)
    data = (await download(photos, made["id"])).content
    for text, part in (("bytes=5-9", data[5:10]), ("bytes=100-", data[100:]), ("bytes=-7", data[-7:])):
        answer = await download(photos, made["id"], range=text)
        assert (answer.status_code, answer.content) == (206, part)
    again = await download(photos, made["id"], **{"range": "bytes=5-9", "if-range": f'"{made["sha256"]}"'})
    assert again.status_code == 206
    other = await download(photos, made["id"], **{"range": "bytes=5-9", "if-range": '"of another"'})
    assert (other.status_code, other.content) == (200, data)
    for text in ("bytes=9-5", "bytes=0-1,3-4", "bytes=-", "rows=1-2", "bytes=a-b", ""):
        answer = await download(photos, made["id"], range=text)
        assert (answer.status_code, len(answer.content)) == (200, len(data)), text
    many = "9" * 5_000
    for text, part in ((f"bytes=5-{many}", data[5:]), (f"bytes=-{many}", data), (f"bytes={'0' * 5_000}7-8", data[7:9])):
        answer = await download(photos, made["id"], range=text)
        assert (answer.status_code, answer.content) == (206, part)
        assert answer.headers["content-range"].endswith(f"/{len(data)}")
    for text in (f"bytes={len(data)}-", "bytes=-0", f"bytes={many}-", f"bytes={many}-{many}"):
        assert judged(await download(photos, made["id"], range=text), 416)["code"] == "range_not_satisfiable"


async def test_a_snapshot_that_is_deleted_meanwhile(photos: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted before its file is open, it is not found; deleted after that, it is downloaded whole."""
    made = await photos.post(SNAPSHOTS, {}, status=201)
    data = (await download(photos, made["id"])).content
    info, path = kinbin.Snapshots.info, kinbin.Snapshots.path

    def deleted_behind(call: Any) -> Any:
        def then(self: kinbin.Snapshots, name: str, id: str) -> Any:
            found = call(self, name, id)
            path(self, name, id).unlink()
            return found

        return then

    with monkeypatch.context() as patched:
        patched.setattr(kinbin.Snapshots, "info", deleted_behind(info))
        whole = await download(photos, made["id"])
        assert (whole.status_code, whole.content) == (200, data)
    made = await photos.post(SNAPSHOTS, {}, status=201)
    monkeypatch.setattr(kinbin.Snapshots, "path", deleted_behind(path))
    assert judged(await download(photos, made["id"]), 404)["code"] == "snapshot_not_found"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("post", "/v1/collections/none/snapshots", {}, 404, "collection_not_found"),
        ("post", SNAPSHOTS, {"keep": 0}, 422, "invalid_field"),
        ("post", SNAPSHOTS, {"kept": 1}, 422, "invalid_field"),
        ("get", f"{SNAPSHOTS}/20260101T000000000Z-000000", None, 404, "snapshot_not_found"),
        ("get", f"{SNAPSHOTS}/..%2f..%2fdata.mdb", None, 404, "not_found"),
        ("delete", f"{SNAPSHOTS}/x", None, 404, "snapshot_not_found"),
        ("post", f"{SNAPSHOTS}/x/verify", None, 404, "snapshot_not_found"),
        ("get", "/v1/collections/A/snapshots", None, 422, "bad_name"),
        ("post", "/v1/restore", {"collection": "photos", "snapshot": "x", "name": "y"}, 404, "snapshot_not_found"),
        ("post", "/v1/restore", {"collection": "photos", "name": "y"}, 422, "invalid_field"),
    ],
)
async def test_what_is_refused(photos: App, method: str, path: str, body: Any, status: int, code: str) -> None:
    """Unknown collections, ids and fields have their status and code, and nothing is made."""
    answer = await photos.client.request(method, path, **({} if body is None else {"json": body}))
    assert judged(answer, status)["code"] == code
    assert await photos.get("/v1/collections") == {"collections": ["photos"]}
    assert await photos.get(SNAPSHOTS) == {"snapshots": []}


async def test_limits_of_uploads(tmp_path: Path) -> None:
    """A body over the limit is refused as soon as that is known, declared or counted; one without a name is refused too."""
    async with running_app(tmp_path / "data", max_restore_bytes=2_000) as app:

        async def parts() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield bytes(1_000)

        for content in (bytes(5_000), parts()):
            answer = await app.client.post("/v1/restore?name=x", content=content, headers=TYPE)
            assert judged(answer, 413)["limit"] == "restore_body_bytes"
        assert judged(await app.client.post("/v1/restore", content=b"", headers=TYPE), 422)["code"] == "invalid_field"
        assert not drafts(tmp_path)


async def test_an_upload_is_judged_before_it_comes(photos: App) -> None:
    """A packed upload, and one under a name that no new collection may have, is refused before its body is read."""
    await photos.put("/v1/aliases/other", {"collection": "photos"}, status=200)
    read: list[int] = []

    async def parts() -> AsyncIterator[bytes]:
        read.append(1)
        yield b"no snapshot"

    for name, more, status, code in (
        ("x", {"content-encoding": "gzip"}, 415, "unsupported_encoding"),
        ("../x", {}, 422, "bad_name"),
        ("photos", {}, 409, "collection_exists"),
        ("other", {}, 409, "alias_conflict"),
    ):
        answer = await photos.client.post("/v1/restore", params={"name": name}, content=parts(), headers={**TYPE, **more})
        refused = judged(answer, status)
        assert refused["code"] == code
        assert "configuration" not in refused["title"]
        assert code != "alias_conflict" or "DELETE /v1/aliases" in refused["detail"]
    assert not read


async def test_a_slow_upload_holds_nothing_up(photos: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an upload comes snapshots are made, and a second upload is refused; work that is done at its end is waited for."""
    made = await photos.post(SNAPSHOTS, {}, status=201)
    data = (await download(photos, made["id"])).content
    coming, rest = asyncio.Event(), asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        coming.set()
        yield data[:100]
        await rest.wait()
        yield data[100:]

    first = asyncio.ensure_future(photos.client.post("/v1/restore?name=copy", content=parts(), headers=TYPE))
    await coming.wait()
    await photos.post(SNAPSHOTS, {}, status=201)
    second = judged(await photos.client.post("/v1/restore?name=copy", content=data, headers=TYPE), 429)
    assert (second["code"], second["limit"]) == ("overloaded", "long_work")
    async with photos.service.long_work():
        rest.set()
        await asyncio.sleep(0.2)
        assert not first.done()
    assert judged(await first, 201)["count"] == 40
    assert not drafts(tmp_path)


async def test_one_at_a_time_beside_queries(photos: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a snapshot is made another is refused with 429 and queries are answered; what was begun ends though its client left."""
    begun, go_on = threading.Event(), threading.Event()
    create = kinbin.Snapshots.create

    def slow(*given: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return create(*given, **named)

    monkeypatch.setattr(kinbin.Snapshots, "create", slow)
    first = asyncio.ensure_future(photos.client.post(SNAPSHOTS, json={}))
    await asyncio.to_thread(begun.wait, 60)
    refused = await photos.post(SNAPSHOTS, {}, status=429)
    assert (refused["code"], refused["limit"]) == ("overloaded", "long_work")
    await photos.post("/v1/collections/photos/query", {"vector": [1, 2, 3], "k": 1})
    first.cancel()
    await asyncio.sleep(0)
    await photos.post(SNAPSHOTS, {}, status=429)
    go_on.set()
    await photos.service._long._idle.wait()
    assert len((await photos.get(SNAPSHOTS))["snapshots"]) == 1
