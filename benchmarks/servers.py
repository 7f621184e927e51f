"""Servers in processes of their own, for scripts that measure them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

__all__ = ["PATIENCE", "Server", "serving", "until_ready"]

PATIENCE = 300.0
PAUSE = 0.01


class Server(NamedTuple):
    """A running server; it is killed at the end, if it still runs."""

    process: subprocess.Popen[bytes]
    client: httpx.Client
    port: int
    started: float


@contextmanager
def serving(data: Path, log: Path, **settings: object) -> Iterator[Server]:
    """`kinbin serve` on a data directory. settings: KINBIN_* variables without the prefix."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KINBIN_")}
    environment |= {f"KINBIN_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "kinbin_service.cli", "serve", "--data", str(data), "--port", str(port)]
    with log.open("ab") as output, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0, trust_env=False) as client:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield Server(process, client, port, started)
        except Exception:
            print(log.read_text(errors="replace")[-2_000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until_ready(server: Server) -> None:
    """Return when it answers."""
    give_up = time.monotonic() + PATIENCE
    while server.process.poll() is None and time.monotonic() < give_up:
        try:
            if server.client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(PAUSE)
    raise RuntimeError(f"the server did not come up (exit status {server.process.poll()})")
