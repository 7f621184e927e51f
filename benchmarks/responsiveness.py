"""How long /livez takes while large bodies arrive: python benchmarks/responsiveness.py [--seconds 20] [--mebibytes 32].

A server of its own is started on an empty folder; one process sends adds, another batches of queries, both as JSON, one after the other,
while /livez is asked every 10 ms. Prints a table of milliseconds.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import orjson

DIM = 512


def request(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, float]:
    """Status of a request over a connection of its own, and its milliseconds."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    started = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
        answer = connection.recv(65_536)
        while connection.recv(1_048_576):
            pass
    return int(answer.split(b" ", 2)[1]), (time.perf_counter() - started) * 1_000


def bodies(mebibytes: int) -> dict[str, bytes]:
    """An add and a batch of queries of nearly so many MiB, by their paths."""
    vectors = np.random.default_rng(0).random((mebibytes * 100, DIM), np.float32).tolist()
    items = [{"id": str(i), "vector": vector, "payload": {"row": i}} for i, vector in enumerate(vectors)]
    return {"/index": orjson.dumps({"items": items}), "/query": orjson.dumps({"queries": vectors, "k": 1, "mode": "links"})}


def send(port: int, path: str, mebibytes: int, stop: Event, sent: object) -> None:
    """Send bodies until told to stop."""
    body = bodies(mebibytes)[path]
    while not stop.is_set():
        status, _ = request(port, "POST", path, body)
        sent.append((path, status))  # type: ignore[attr-defined]  # a list of another process


def measure(port: int, seconds: float) -> list[float]:
    """Milliseconds of /livez, asked every 10 ms."""
    took = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        took.append(request(port, "GET", "/livez")[1])
        time.sleep(0.01)
    return took


def told(name: str, took: list[float]) -> str:
    """A row of the table."""
    at = np.percentile(took, [50, 99, 100])
    return f"| {name} | {len(took)} | {at[0]:.1f} | {at[1]:.1f} | {at[2]:.1f} |"


def main() -> None:
    """Start, measure, end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--mebibytes", type=int, default=32)
    asked = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"KINBIN_DATA_DIR": str(Path(folder) / "data"), "KINBIN_PORT": str(port), "KINBIN_LOG_LEVEL": "warning"}
        server = subprocess.Popen([sys.executable, "-m", "kinbin_service"], env={**os.environ, **settings})
        try:
            run(port, asked.seconds, asked.mebibytes)
        finally:
            server.terminate()
            server.wait(60)


def run(port: int, seconds: float, mebibytes: int) -> None:
    """Wait until the server is ready; measure it alone and under load."""
    while True:
        try:
            if request(port, "GET", "/readyz")[0] == 200:
                break
        except OSError:
            pass
        time.sleep(0.2)
    time.sleep(5)
    print("| /livez | asked | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|")
    print(told("alone", measure(port, seconds / 2)), flush=True)
    context = get_context("spawn")
    with context.Manager() as manager:
        stop, sent = context.Event(), manager.list()
        senders = [context.Process(target=send, args=(port, path, mebibytes, stop, sent)) for path in ("/index", "/query")]
        for sender in senders:
            sender.start()
        while not any(path == "/index" for path, _ in sent) or not len(sent) > 1:
            time.sleep(0.1)
        print(told(f"while bodies of {mebibytes} MiB arrive", measure(port, seconds)))
        stop.set()
        for sender in senders:
            sender.join(60)
        print(f"bodies answered: {sorted(set(sent))}, {len(sent)} in all")


if __name__ == "__main__":
    main()
