"""The container image and its compose file keep what they promise: no root, no writable files, no stale health."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
ENTRYPOINT = ROOT / "deploy/entrypoint"
HEALTHCHECK = ROOT / "deploy/healthcheck.py"


@pytest.fixture
def compose() -> dict[str, Any]:
    """The one service of the compose file."""
    document = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    service: dict[str, Any] = document["services"]["kinbin"]
    return service


def test_container_is_confined(compose: dict[str, Any]) -> None:
    """The compose file grants nothing that the server does not need."""
    assert compose["read_only"] is True
    assert compose["cap_drop"] == ["ALL"]
    assert compose["security_opt"] == ["no-new-privileges:true"]
    assert [mount.split(":")[0] for mount in compose["tmpfs"]] == ["/tmp"]
    assert compose["volumes"] == ["data:/data"]
    assert all(port.startswith("127.0.0.1:") for port in compose["ports"])
    assert {"mem_limit", "cpus", "pids_limit"} <= compose.keys()
    assert "privileged" not in compose


def test_container_stops_later_than_the_server_drains(compose: dict[str, Any]) -> None:
    """A stop leaves the server the time that it takes to answer running requests."""
    from kinbin_service.settings import Settings

    assert int(compose["stop_grace_period"].removesuffix("s")) > Settings.model_fields["drain_seconds"].default


def test_compose_and_image_check_health_alike(compose: dict[str, Any]) -> None:
    """Both run the script that the image holds."""
    assert compose["healthcheck"]["test"] == ["CMD", "python3", "/opt/kinbin/bin/healthcheck.py"]
    assert 'CMD ["python3", "/opt/kinbin/bin/healthcheck.py"]' in DOCKERFILE


def test_image_runs_as_a_numbered_user() -> None:
    """The last user of the image is a number that is not root's, so that an orchestrator can tell."""
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "10001:10001"


def test_image_installs_by_hash_only() -> None:
    """No line of the Dockerfile installs a package that no hash pins."""
    for command in re.findall(r"pip install[^&\n]*", DOCKERFILE):
        assert "--require-hashes" in command or "--no-index" in command


def test_everything_copied_reaches_the_build() -> None:
    """What the Dockerfile copies is let through by .dockerignore, and exists."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")]
    sources = [word for words in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in words.split()[:-1]]
    assert sources
    assert sorted(sources) == sorted(allowed)
    assert [source for source in sources if not (ROOT / source).exists()] == []


# ------------------------------------------------------------------------------------------- entrypoint


def test_entrypoint_gives_its_place_and_its_status_to_the_command() -> None:
    """The command takes over the process (so that signals reach it), its exit status is the container's, its files are its user's."""
    command = [str(ENTRYPOINT), "sh", "-c", "umask; tr '\\0' ' ' < /proc/$$/cmdline; exit 7"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert answer.returncode == 7
    assert answer.stdout.splitlines()[0] == "0077"
    assert "entrypoint" not in answer.stdout


def test_image_holds_machine_code() -> None:
    """The image is built with the kernels' code in its package, where servers find it without a folder that they may write."""
    assert re.search(r"^RUN python3 -m kinbin\.warmup --ship", DOCKERFILE, re.MULTILINE)


# ------------------------------------------------------------------------------------------ healthcheck


class Answer(BaseHTTPRequestHandler):
    """Answers /readyz with the status that the server object holds."""

    def do_GET(self) -> None:
        """Answer."""
        status = self.server.status if self.path == "/readyz" else 404  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server on a free port of 127.0.0.1."""
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run_healthcheck(port: int) -> int:
    """Its exit status, with a proxy in the environment that leads nowhere."""
    environment = os.environ | {"KINBIN_PORT": str(port), "http_proxy": "http://127.0.0.1:1"}
    return subprocess.run([sys.executable, HEALTHCHECK], env=environment, capture_output=True, check=False, timeout=30).returncode


@pytest.mark.parametrize(("status", "expected"), [(200, 0), (503, 1), (404, 1)])
def test_healthcheck_follows_readiness(server: HTTPServer, status: int, expected: int) -> None:
    """Only a server that says it is ready is healthy."""
    server.status = status  # type: ignore[attr-defined]
    assert run_healthcheck(server.server_port) == expected


def test_healthcheck_fails_when_nothing_listens(free_port: int) -> None:
    """A server that is gone is not healthy."""
    assert run_healthcheck(free_port) == 1
