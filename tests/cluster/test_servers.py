"""The servers of this machine: ports that stay their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kinbin_cluster import servers

ASK = "import sys\nfrom kinbin_cluster import servers\nservers._PORTS = [int(sys.argv[1])]\nservers.free_port()"


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that was given, and that nothing listens on yet, is given nobody else, here or in another process."""
    port = servers.free_port()
    monkeypatch.setattr(servers, "_PORTS", [port])
    with pytest.raises(OSError, match="no port of loopback is free"):
        servers.free_port()
    asked = subprocess.run([sys.executable, "-c", ASK, str(port)], capture_output=True, text=True, timeout=100, check=False)
    assert "no port of loopback is free" in asked.stderr


def test_ports_are_none_that_connections_take() -> None:
    """A connection of another program never gets the port of a server that is started again."""
    told = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not told.exists():
        pytest.skip("only Linux tells which ports connections are given")
    first, last = map(int, told.read_text(encoding="ascii").split())
    if first < 16_000:
        pytest.skip(f"this system gives connections ports from {first} on")
    assert not set(servers._PORTS) & set(range(first, last + 1))
