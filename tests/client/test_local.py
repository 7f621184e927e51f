"""Local mode: what only a client in the same process as its database shows. The scenarios of users run in it, too."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import kinbin
from kinbin.sharing import SHARED
from kinbin_client import AsyncClient, Client, ClientClosed, InvalidArgument, NotFound, Retry, Timeout, Unavailable
from kinbin_client._local import SERVICE
from service_app import HeldDatabase, eventually

ONCE = Retry(attempts=1)


def is_open(path: Path) -> bool:
    """Whether this process has a collection of a database open."""
    return any(path.resolve() in one.parents for one in SHARED._open)


def local_threads() -> list[str]:
    """The threads of local mode that there are."""
    return [thread.name for thread in threading.enumerate() if thread.name == "kinbin-local"]


def test_library_and_client_share_a_directory(local_path: Path) -> None:
    """What a client of a path writes, the library reads in the same process, and the other way around."""
    with Client(path=local_path) as client, kinbin.open(local_path) as database:
        client.add(["a"], [[1, 0, 2]])
        assert database.collection("default").query([1, 0, 2]).ids == ["a"]
        database.collection("default").add(["b"], [[0, 3, 0]])
        assert client.query([0, 3, 0], k=1).ids == ["b"]


async def test_close_releases_the_database(local_path: Path) -> None:
    """After close nothing of the directory is open and no thread is left, and the calls of the client and its handles say so."""
    client = Client(path=str(local_path))
    client.add(["a"], [[1, 0, 2]])
    awaited = AsyncClient(path=local_path)
    assert await awaited.collection("default").count() == 1
    assert is_open(local_path)
    client.close()
    await awaited.close()
    assert not is_open(local_path)
    assert not local_threads()
    with pytest.raises(ClientClosed):
        client.collection("default").count()
    with pytest.raises(ClientClosed):
        await awaited.collections()
    client.close()
    await awaited.close()


def test_one_that_was_never_used_is_closed(local_path: Path) -> None:
    """A client for asyncio opens nothing before its first request, so closing it at once makes no directory."""

    async def unused() -> str:
        async with AsyncClient(path=local_path) as client:
            return repr(client)

    assert asyncio.run(unused()) == f"AsyncClient(path={str(local_path)!r})"
    assert not local_path.exists()


@pytest.mark.parametrize(
    "more", [{"url": "http://kinbin.test"}, {"api_key": "a"}, {"transport": httpx.MockTransport(lambda _: httpx.Response(500))}]
)
def test_path_and_address_exclude_each_other(more: dict[str, Any], local_path: Path) -> None:
    """A client with both is refused, and nothing is opened."""
    for make in (Client, AsyncClient):
        with pytest.raises(InvalidArgument, match="leave out url, api_key and transport"):
            make(path=local_path, **more)
    assert not local_path.exists()


@pytest.mark.parametrize("path", ["", b"data", 3])
def test_path_that_is_none_is_refused(path: Any) -> None:
    """What names no directory is refused when the client is made."""
    with pytest.raises(InvalidArgument, match="path is the directory of a database"):
        AsyncClient(path=path)


async def test_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """A file in the place of a directory is told with its path: at once, or by the first call; and no thread is left."""
    file = tmp_path / "file"
    file.write_text("no directory")
    with pytest.raises(InvalidArgument, match=r"file: no database can be opened here: .+"):
        Client(path=file)
    async with AsyncClient(path=file) as client:
        with pytest.raises(InvalidArgument, match="no database can be opened here"):
            await client.collections()
    assert not local_threads()


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the service is not installed, the error says what to install."""
    monkeypatch.setitem(sys.modules, SERVICE, None)
    for make in (Client, AsyncClient):
        with pytest.raises(InvalidArgument, match=r"pip install --find-links dist 'kinbin\[service,client\]'"):
            make(path=tmp_path / "db")


def test_environment_and_upkeep_are_left_alone(local_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's variables ask no key and set no limit here, and the program's own upkeep stays."""
    monkeypatch.setenv("KINBIN_API_KEY", "a-key")
    monkeypatch.setenv("KINBIN_MAX_BODY_BYTES", "1024")
    monkeypatch.setenv("KINBIN_SEAL_ROWS", "77")
    before = kinbin.set_upkeep(link_rows=123_456)
    try:
        with Client(path=local_path) as client:
            client.add(["a"], [[1, 2]])
            absent = [f"{number:0200d}" for number in range(10)]
            assert client.collection("default").get(absent).missing == absent
        assert kinbin.set_upkeep() == replace(before, link_rows=123_456)
    finally:
        kinbin.set_upkeep(link_rows=before.link_rows)


def held(client: Client | AsyncClient) -> HeldDatabase:
    """The database of a client, which waits from now on."""
    service = client._sender._opened.service()._app.state.service  # type: ignore[union-attr]
    service.database = HeldDatabase(service.database)
    database: HeldDatabase = service.database
    return database


async def test_time_is_limited(local_path: Path) -> None:
    """An answer that does not come within `timeout` is a Timeout of unknown outcome, and the client goes on."""
    with Client(path=local_path) as client:
        client.add(["a"], [[1, 2]])
    with Client(path=local_path, timeout=httpx.Timeout(0.1), retry=ONCE) as client:
        database = held(client)
        with pytest.raises(Timeout) as late:
            client.query([1, 2])
        assert late.value.outcome_unknown
        database.gate.set()
    async with AsyncClient(path=local_path, timeout=10, retry=ONCE) as awaited:
        database = held(awaited)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await awaited.query([1, 2])
        database.gate.set()
        assert (await awaited.query([1, 2])).ids == ["a"]


async def test_closing_ends_what_waits(local_path: Path) -> None:
    """Calls that run or wait when the client is closed end: with their answer, or with ClientClosed."""
    client = Client(path=local_path, retry=ONCE)
    database = held(client)
    with ThreadPoolExecutor(60) as pool:
        asked = [pool.submit(client.query, [1, 2]) for _ in range(50)]
        await eventually(lambda: len(database.begun) >= 2)
        closing = pool.submit(client.close)
        await asyncio.sleep(0.05)
        assert not closing.done()
        database.gate.set()
        closing.result(20)
        ends = [one.exception(20) for one in asked]
    assert all(isinstance(end, NotFound | ClientClosed | Unavailable) for end in ends), ends
    assert any(isinstance(end, ClientClosed) for end in ends)


async def test_closing_waits_for_a_write(local_path: Path) -> None:
    """An add that runs when the client is closed gets its answer, and is stored."""
    client = Client(path=local_path, retry=ONCE)
    rows = client.create_collection("rows", dim=2)
    database = held(client)
    with ThreadPoolExecutor(2) as pool:
        adding = pool.submit(rows.add, ["a"], [[1, 2]])
        await eventually(lambda: database.begun)
        closing = pool.submit(client.close)
        await asyncio.sleep(0.05)
        database.gate.set()
        assert adding.result(20).indexed == 1
        closing.result(20)
    with Client(path=local_path) as again:
        assert again.collection("rows").count() == 1


def test_threads_share_a_client(local_path: Path) -> None:
    """Many threads add and ask at once, and everything is there."""
    with Client(path=local_path) as client, ThreadPoolExecutor(8) as pool:
        client.create_collection("rows", dim=8)
        rows = np.eye(8, dtype=np.float32) + 0.1
        list(pool.map(lambda n: client.collection("rows").add([f"{n}"], rows[[n % 8]] * (n + 1)), range(40)))
        assert client.collection("rows").count() == 40
        found = pool.map(lambda n: client.collection("rows").query(rows[n % 8] * (n + 1), k=1, mode="exact").scores, range(40))
        assert [scores for scores in found if scores != [1.0]] == []


async def test_snapshots_are_uploaded_from_files(local_path: Path, tmp_path: Path) -> None:
    """A snapshot is made, downloaded in parts, and restored from its file, by both clients."""
    with Client(path=local_path) as client:
        client.add(["a", "b"], [[1, 2, 0], [0, 1, 5]])
        made = client.snapshots.create("default")
        file = client.snapshots.download("default", made.id, tmp_path / "one.kinbin")
        assert client.restore(file, "copy").query([1, 2, 0], k=1).ids == ["a"]
    async with AsyncClient(path=local_path) as awaited:
        assert (await (await awaited.restore(file, "again")).query([0, 1, 5], k=1)).ids == ["b"]


FORGETFUL = """
import sys
from kinbin_client import Client
client = Client(path=sys.argv[1])
print(client.add(["a"], [[1, 2]]).count, client.query([1, 2]).ids)
"""


@pytest.mark.slow
def test_program_that_does_not_close_ends(local_path: Path) -> None:
    """A program that forgets to close ends with status 0, says nothing about it, and what it added is there."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", FORGETFUL, str(local_path)], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1 ['a']\n", "")
    with Client(path=local_path) as client:
        assert client.collection("default").count() == 1


def test_service_is_reached_by_name() -> None:
    """The module that is imported by its name is there, with what is called of it."""
    assert callable(importlib.import_module(SERVICE).LocalService)
