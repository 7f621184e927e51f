"""Snapshots through the client: the library's calls, downloads part by part, uploads from a file; blocking and awaited alike."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import kinbin
import kinbin_client
from kinbin_client import snapshots as client_snapshots
from service_app import App, running_app, warm_up_once


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """An application with a collection "photos" of 30 items."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    async with running_app(tmp_path / "data") as running:
        running.service.database.create_collection("photos", dim=3).add([f"p{n}" for n in range(30)], [[n + 1, 1, 2] for n in range(30)])
        yield running


def names(folder: Path) -> set[str]:
    """What lies in a folder."""
    return {entry.name for entry in folder.iterdir()}


def drafts(folder: Path) -> set[str]:
    """What is left of downloads that did not end."""
    return {name for name in names(folder) if name.startswith(".")}


def forwarding(app: App) -> httpx.MockTransport:
    """What sends requests to an application, from any thread."""
    loop = asyncio.get_running_loop()

    async def answered(request: httpx.Request, content: bytes) -> httpx.Response:
        answer = await app.client.request(request.method, request.url, content=content, headers=request.headers)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def forward(request: httpx.Request) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(answered(request, request.read()), loop).result(30)

    return httpx.MockTransport(forward)


async def test_all_of_it_blocking(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made, listed, verified, fetched in many parts, restored from here and from a file, and deleted."""
    monkeypatch.setattr(client_snapshots, "_PART_BYTES", 700)
    transport = forwarding(app)
    file = tmp_path / "photos.kinbin"

    def use() -> None:
        with kinbin_client.Client("http://localhost", transport=transport) as client:
            made = client.snapshots.create("photos")
            assert client.snapshots.list("photos") == [made]
            assert client.snapshots.verify("photos", made.id).ok
            assert client.snapshots.download("photos", made.id, file) == file
            assert hashlib.sha256(file.read_bytes()).hexdigest() == made.sha256
            assert client.restore(made, "copy").count() == client.restore(file, "other").count() == 30
            with pytest.raises(kinbin_client.Conflict):
                client.restore(file, "photos")
            with pytest.raises(kinbin_client.InvalidArgument, match="overwrites nothing"):
                client.snapshots.download("photos", made.id, file)
            with pytest.raises(kinbin_client.InvalidArgument, match="no file"):
                client.restore(tmp_path / "none", "x")
            client.snapshots.delete("photos", made.id)
            with pytest.raises(kinbin_client.NotFound):
                client.snapshots.verify("photos", made.id)
            (tmp_path / "bad").write_bytes(file.read_bytes()[:-1])
            with pytest.raises(kinbin_client.InvalidInput, match="cut off"):
                client.restore(tmp_path / "bad", "x")

    await asyncio.to_thread(use)
    assert not drafts(tmp_path)


async def test_all_of_it_awaited(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on the event loop; a part that is another file's ends the download, and nothing is left of it."""
    monkeypatch.setattr(client_snapshots, "_PART_BYTES", 700)

    async def forward(request: httpx.Request) -> httpx.Response:
        answer = await app.client.request(request.method, request.url, content=await request.aread(), headers=request.headers)
        headers = dict(answer.headers)
        if request.headers.get("range", "").startswith("bytes=1400-") and (tmp_path / "swap").exists():
            headers["etag"] = '"another"'
        return httpx.Response(answer.status_code, headers=headers, content=answer.content)

    async with kinbin_client.AsyncClient("http://localhost", transport=httpx.MockTransport(forward)) as client:
        made = await client.snapshots.create("photos", keep=1)
        assert await client.snapshots.list("photos") == [made]
        assert (await client.snapshots.verify("photos", made.id)).ok
        file = await client.snapshots.download("photos", made.id, tmp_path / "photos.kinbin")
        assert await (await client.restore(file, "other")).count() == 30
        assert await (await client.restore(made, "copy")).count() == 30
        (tmp_path / "swap").touch()
        with pytest.raises(kinbin_client.UnexpectedResponse, match="part"):
            await client.snapshots.download("photos", made.id, tmp_path / "again")
        assert "again" not in names(tmp_path)
        assert not drafts(tmp_path)
        await client.snapshots.delete("photos", made.id)


@pytest.mark.parametrize("name", ["create", "list", "delete", "verify"])
def test_methods_are_called_alike(name: str) -> None:
    """The library's snapshots and both clients' have the same parameters with the same defaults."""
    owners = (kinbin.Snapshots, kinbin_client.Snapshots, kinbin_client.AsyncSnapshots)
    listed = [
        [(one.name, one.default) for one in inspect.signature(getattr(owner, name)).parameters.values() if one.name != "cancel"]
        for owner in owners
    ]
    assert listed[0] == listed[1] == listed[2]
