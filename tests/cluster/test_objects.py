from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nats.js.api import StreamConfig

from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import Damaged, LogRefused, NotThere
from kinbin_cluster.objects import CHUNK, Objects
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings


@pytest.mark.parametrize("size", [0, 1, CHUNK, 5 * CHUNK + 3])
async def test_files_come_back(connection: Connection, tmp_path: Path, rng: np.random.Generator, size: int) -> None:
    """A file of any size comes back byte for byte, is listed, is replaced by another of its name, and is gone once it was deleted."""
    objects, name = Objects(connection), f"{secrets.token_hex(6)}.0.{size:016d}"
    for _ in range(2):
        (tmp_path / "from").write_bytes(rng.bytes(size))
        assert await objects.put(name, tmp_path / "from") == size
        assert await objects.get(name, tmp_path / "to") == size
        assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
    assert await objects.names(name[:12]) == [name]
    await objects.delete(name)
    await objects.delete(name)
    assert await objects.names(name[:12]) == []
    with pytest.raises(NotThere):
        await objects.get(name, tmp_path / "to")


async def test_unfinished_and_damaged_files_are_refused(connection: Connection, tmp_path: Path) -> None:
    """What a writer did not end is not there, and what ends with another digest is damaged."""
    objects = Objects(connection)
    await connection.js.add_stream(StreamConfig(name="KO-half", subjects=["ko.half"]))
    with pytest.raises(NotThere):
        await objects.get("half", tmp_path / "to")
    await connection.js.publish("ko.half", b"some")
    with pytest.raises(NotThere):
        await objects.get("half", tmp_path / "to")
    await connection.js.publish("ko.half", b"", headers={"Kinbin-End": "00" * 32})
    with pytest.raises(Damaged):
        await objects.get("half", tmp_path / "to")


async def test_what_could_not_be_stored_to_the_end_leaves_nothing(
    connection: Connection, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is broken off is removed: it would take the room that is wanting, and be tried again under another name."""
    objects, name, sent = Objects(connection), f"{secrets.token_hex(6)}.0.1", []
    (tmp_path / "from").write_bytes(rng.bytes(3 * CHUNK))
    send = objects._send

    async def fails(*arguments: Any) -> None:
        sent.append(arguments)
        if len(sent) == 3:
            raise LogRefused("no room")
        await send(*arguments)

    monkeypatch.setattr(objects, "_send", fails)
    with pytest.raises(LogRefused):
        await objects.put(name, tmp_path / "from")
    assert await objects.names(name[:12]) == []


@pytest.mark.slow
async def test_files_are_stored_while_the_server_is_away(nats_one: NatsServers, tmp_path: Path, rng: np.random.Generator) -> None:
    """A file that is written and read while the server is killed and started again is whole."""
    size = 20 * CHUNK + 17
    (tmp_path / "from").write_bytes(rng.bytes(size))
    async with await Connection.open(ClusterSettings(nats=nats_one.addresses, nats_replicas=1), "test") as connection:
        objects = Objects(connection)
        for work in (objects.put("large", tmp_path / "from"), objects.get("large", tmp_path / "to")):
            task = asyncio.create_task(work)
            await asyncio.sleep(0)
            nats_one.processes[0].kill()
            nats_one.start()
            assert await task == size
    assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
