"""Connections to NATS servers that do not answer."""

from __future__ import annotations

import pytest

from kinbin_cluster import connecting
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import LogUnavailable
from kinbin_cluster.servers import free_port
from kinbin_cluster.settings import ClusterSettings


async def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Before it is given up it is said who does not answer, and for how long that is tried."""
    monkeypatch.setattr(connecting, "TOLD_SECONDS", 0.2)
    address = f"nats://127.0.0.1:{free_port()}"
    with pytest.raises(LogUnavailable, match=address):
        await Connection.open(ClusterSettings(nats=address), "test", seconds=1.2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"no NATS server answers yet at {address}: tried for 1 s more"
    ]
