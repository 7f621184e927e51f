"""Ports of test servers: no two tests are given the same, in one process or in several."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import service_process
from service_process import free_port

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports that were given are not given again soon, and none is that something listens on."""
    given = [free_port() for _ in range(100)]
    assert len(set(given)) == 100
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        taken = listener.getsockname()[1]
        monkeypatch.setattr(service_process, "_PORTS", itertools.count(taken - service_process._FIRST_PORT))
        assert free_port() != taken


def test_processes_share_no_ports() -> None:
    """Workers of one run have ports of their own."""
    given = []
    for worker in ("gw0", "gw1", "gw11"):
        program = "from service_process import free_port; print(*(free_port() for _ in range(200)))"
        environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "PYTEST_XDIST_WORKER": worker}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True)
        given += done.stdout.split()
    assert len(given) == len(set(given)) == 600
