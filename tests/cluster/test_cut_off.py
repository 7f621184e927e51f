"""A server of the log that is cut off from the others, while its clients reach it."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from nats.aio.client import Server

from faults.kinds import cut_server
from faults.links import BOTH
from faults.running import Cluster
from kinbin_cluster.connecting import SUSPECT_SECONDS, Connection, _chosen
from kinbin_cluster.log import Log
from kinbin_cluster.picture import Gateway, Picture
from kinbin_cluster.settings import ClusterSettings


class Client:
    """A client of NATS that is connected to one server, and is told to go to another."""

    is_reconnecting = False

    def __init__(self) -> None:
        self.connected_url = urlparse("nats://127.0.0.1:1")
        self.left = 0

    def jetstream(self, **_: object) -> None:
        """Nobody asks it."""

    async def force_reconnect(self) -> None:
        """Count it."""
        self.left += 1


@pytest.mark.parametrize(("hears", "patience"), [(False, SUSPECT_SECONDS), (True, 2 * SUSPECT_SECONDS)])
async def test_a_server_is_left_sooner_where_nobody_else_is_heard(hears: bool, patience: float) -> None:
    """A connection that hears of the others is not to blame for what no log takes; one that does not is left, and known as suspected."""
    client: Any = Client()
    connection = Connection(client, ClusterSettings())
    connection.hears = lambda: hears
    connection._well = time.monotonic() - patience + 2.0
    await connection.suspect(0.0)
    assert client.left == 0
    connection._well -= 3.0
    await connection.suspect(time.monotonic())
    assert client.left == 0, "what was sent a moment ago says nothing"
    await connection.suspect(0.0)
    await connection.suspect(0.0)
    assert client.left == 1
    assert set(connection._suspected) == {"127.0.0.1:1"}


def test_a_suspected_server_comes_last() -> None:
    """The next server is one that can be reached, and of these the one that was suspected longest ago; who was in vain is waited for."""
    servers = [Server(uri=urlparse(f"nats://127.0.0.1:{port}"), reconnects=tries) for port, tries in ((1, 0), (2, 0), (3, 0), (4, 1))]
    suspected = {"127.0.0.1:1": 5.0, "127.0.0.1:2": 7.0}
    assert [_chosen(servers[at:], suspected)[0].uri.port for at in (0, 1, 3)] == [3, 3, 4]
    assert _chosen(servers[:2], suspected) == (servers[0], 0.0)
    assert _chosen(servers[3:], {})[1] > 0


def test_who_hears_most_of_the_others() -> None:
    """Half of those who told something lately will do; who has long been gone does not count, and nobody at all is no reason to doubt."""
    now = [0.0]
    picture = Picture(3.0, lambda: now[0])
    assert picture.hears_most(2.5)
    for node in ("gone", "a", "b"):
        picture.hear(node, b"{}")
    now[0] = 40.0
    picture.hear("a", b"{}")
    picture.hear("b", b"{}")
    picture.hear_gateway(Gateway("g", "http://g").to_json())
    now[0] = 43.0
    assert not picture.hears_most(2.5)
    picture.hear("a", b"{}")
    assert not picture.hears_most(2.5)
    picture.hear("b", b"{}")
    assert picture.hears_most(2.5)


@pytest.mark.slow
async def test_writes_go_on_by_another_server(tmp_path: Path) -> None:
    """Who is connected to a server that is cut off goes to another one: an edit is acknowledged while the cut lasts."""
    with Cluster(tmp_path, node_count=0, gateway_count=0) as cluster:
        addresses = cluster.nats.addresses.split(",")
        settings = ClusterSettings(nats=cluster.nats.addresses, nats_replicas=3)
        async with await Connection.open(settings, "test", seconds=60) as connection:
            log, uid = Log(connection), secrets.token_hex(6)
            await log.ensure_stream(uid, 0, seconds=60)
            await log.publish(uid, 0, b"1", "m1", time.monotonic() + 60)
            assert connection.client.connected_url is not None
            cut_off = [address.rpartition(":")[2] for address in addresses].index(str(connection.client.connected_url.port))
            cut_server(cluster, cut_off, BOTH)
            published = await log.publish(uid, 0, b"2", "m2", time.monotonic() + 90)
            assert (published.sequence, published.duplicate) == (2, False)
            assert str(connection.client.connected_url.port) != addresses[cut_off].rpartition(":")[2]
