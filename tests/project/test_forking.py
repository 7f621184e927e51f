"""Programs that tests start as forks behave as those that begin as interpreters of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forking import popen
from service_process import ServerProcess

CLI = [sys.executable, "-m", "kinbin_service.cli"]
Popen = Callable[..., subprocess.Popen[Any]]


def told(start: Popen, folder: Path, *arguments: str, **options: Any) -> tuple[int, str, str]:
    """Exit status and streams of a command that runs in a folder."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = start([*CLI, *arguments], cwd=folder, **pipes, **options)
    out, errors = process.communicate(timeout=100)
    return process.wait(), out, errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("create", "c", "--data", "db", "--dim", "2", "--json"), ("stats", "--data", "nowhere"), ("query", "--nonsense")],
    ids=["well", "refused", "misused"],
)
def test_a_fork_is_as_an_interpreter(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A command run as a fork ends with the status, and prints what it prints, in the folder that it is given, as one that is no fork."""
    answers: list[tuple[int, str, str]] = []
    for start in (popen, subprocess.Popen):
        folder = tmp_path / f"{len(answers)}"
        folder.mkdir()
        answers.append(told(start, folder, *arguments))
        assert (folder / "db").exists() == (arguments[0] == "create")
    assert answers[0] == answers[1]


@pytest.mark.server
@pytest.mark.parametrize(("sign", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_fork_ends_by_signals(sign: signal.Signals, status: int, tmp_path: Path) -> None:
    """A server that is a fork ends on SIGTERM by itself, and by SIGKILL at once; its status tells which."""
    with ServerProcess(tmp_path / "data") as server:
        assert type(server.process) is not subprocess.Popen
        assert server.client.get("/livez").status_code == 200
        server.process.send_signal(sign)
        assert server.process.wait(60) == status
        assert server.process.poll() == status


def test_what_is_read_at_imports_starts_an_interpreter(tmp_path: Path) -> None:
    """A program with other values of variables that a fork cannot follow is no fork, nor is any other program."""
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for command, more in (([*CLI, "--help"], {"KINBIN_COSTS": str(tmp_path / "none")}), ([sys.executable, "-c", "pass"], {})):
        with popen(command, env={**os.environ, **more}, **quiet) as process:
            assert type(process) is subprocess.Popen
