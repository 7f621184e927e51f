"""A server of the log that is cut off from the others, while its clients reach it."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

from faults.kinds import cut_server
from faults.links import BOTH
from faults.running import Cluster
from kinbin_cluster.connecting import Connection
from kinbin_cluster.log import Log
from kinbin_cluster.settings import ClusterSettings


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
