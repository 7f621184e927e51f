"""Programs of Kinbin as forks of one process that has imported everything and loaded the kernels.

A fresh interpreter takes some three seconds of a processor until it serves. What `popen` starts begins after the imports, and is an
ordinary process from there on: its own environment, arguments, folder, files and signals; it ends as interpreters end. It shares no
memory, lock or file with the test or with others.

What is about the start itself takes `subprocess.Popen`; `FRESH_PROCESSES=1 make test` takes it for all.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

__all__ = ["popen"]

PROGRAMS = ("kinbin_service", "kinbin_service.cli", "kinbin_service.demo", "kinbin_cluster.node", "kinbin_cluster.gateway")
IMPORTED = ("kinbin_service.server", "kinbin_service.cli", "kinbin_cluster.node.server", "kinbin_cluster.gateway.server")
"""What these programs import; of an extra that is not installed nothing."""
READ_AT_IMPORT = (
    "COLUMNS", "FORCE_COLOR", "KINBIN_COSTS", "LD_", "MALLOC_", "NO_COLOR", "NUMBA_", "OMP_", "OPENBLAS_", "PYTHONUNBUFFERED",
    "PYTHONWARNINGS", "TERM", "XDG_CACHE_HOME",
)  # fmt: skip
"""Beginnings of variables that have done their work when a fork begins: programs with other values of them are started fresh."""

_FRESH = bool(os.environ.get("FRESH_PROCESSES"))


def popen(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """What `subprocess.Popen` does, by a fork where the command is `python -m` one of `PROGRAMS`.

    options: those of Popen that tests use: env, stdin, stdout, stderr, text, cwd, start_new_session, pass_fds.
    """
    is_program = [sys.executable, "-m"] == list(command[:2]) and command[2] in PROGRAMS
    environment = {**os.environ} if options.get("env") is None else options["env"]
    if _FRESH or not is_program or _at_import(environment) != _at_import(_Launcher.of_all().environment):
        return subprocess.Popen(command, **options)
    return cast("subprocess.Popen[Any]", _Forked(_Launcher.of_all(), command, {**options, "env": environment}))


def _at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}


class _Forked:
    """The parts of `subprocess.Popen` that tests use."""

    def __init__(self, launcher: _Launcher, command: Sequence[str], options: Mapping[str, Any]) -> None:
        self.args = command
        self.returncode: int | None = None
        self._launcher = launcher
        theirs: list[int] = []
        opened: list[int] = []
        self.stdin, self.stdout, self.stderr = (
            self._stream(options.get(name), number, options.get("text", False), theirs, opened)
            for number, name in enumerate(("stdin", "stdout", "stderr"))
        )
        request = {"module": command[2], "arguments": list(command[3:]), "environment": dict(options["env"]),
                   "folder": os.fspath(options.get("cwd") or Path.cwd()), "session": bool(options.get("start_new_session"))}  # fmt: skip
        try:
            self.pid: int = launcher.ask(request, [*theirs, *options.get("pass_fds", ())])
        finally:
            for descriptor in opened:
                os.close(descriptor)

    @staticmethod
    def _stream(given: Any, number: int, text: bool, theirs: list[int], opened: list[int]) -> IO[Any] | None:
        """Our end of a stream, if it is a pipe. Adds what the program has as this number, and what is closed here once it has it."""
        if given == subprocess.PIPE:
            reading, writing = os.pipe()
            own, other = (writing, reading) if number == 0 else (reading, writing)
            theirs.append(other)
            opened.append(other)
            return os.fdopen(own, ("w" if number == 0 else "r") + ("" if text else "b"))
        if given == subprocess.DEVNULL:
            theirs.append(os.open(os.devnull, os.O_RDWR))
            opened.append(theirs[-1])
        elif given == subprocess.STDOUT:
            theirs.append(theirs[1])
        else:
            theirs.append(number if given is None else given if isinstance(given, int) else given.fileno())
        return None

    def poll(self) -> int | None:
        """Its exit status, minus the signal that ended it; None: it runs."""
        if self.returncode is None:
            status = self._launcher.ask({"ended": self.pid})
            self.returncode = None if status is None else os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.001
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(pause)
            pause = min(0.02, 2 * pause)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """All that it still prints, until its end."""
        if self.stdin is not None:
            self.stdin.close()
        read: dict[int, Any] = {}
        pipes = [(number, pipe) for number, pipe in enumerate((self.stdout, self.stderr)) if pipe is not None and not pipe.closed]
        threads = [threading.Thread(target=lambda number=number, pipe=pipe: read.update({number: pipe.read()})) for number, pipe in pipes]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread, (_, pipe) in zip(threads, pipes, strict=True):
            thread.join()
            pipe.close()
        return read.get(0), read.get(1)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()


class _Launcher:
    """The test's end of the process that forks. It ends with the test process, and all that it forked with it."""

    _one: _Launcher | None = None
    _making = threading.Lock()

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self._asking = threading.Lock()
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._answers = self._socket.makefile("r")
        assert json.loads(self._answers.readline()) == "ready"

    @classmethod
    def of_all(cls) -> _Launcher:
        """The one of this process, started when it is first asked for."""
        with cls._making:
            if cls._one is None:
                cls._one = cls()
                atexit.register(cls._one.close)
            return cls._one

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """Send a request with open files; returns the answer."""
        message = json.dumps(request).encode() + b"\n"
        with self._asking:
            sent = socket.send_fds(self._socket, [message], list(descriptors))
            self._socket.sendall(message[sent:])
            return json.loads(self._answers.readline())

    def close(self) -> None:
        """End it."""
        self._answers.close()
        self._socket.close()
        self._process.wait(60)


def _requests(control: socket.socket) -> Any:
    """Each request with its open files, until the test's end is closed."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65_536, 16)
        while message and not message.endswith(b"\n"):
            message += control.recv(65_536)
        if not message:
            return
        yield json.loads(message), descriptors


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork on request. Returns in each fork, with what it is to run; in this process None, once the test is gone."""
    running: set[int] = set()
    control.sendall(b'"ready"\n')
    for request, descriptors in _requests(control):
        answer: int | None
        if "ended" in request:
            done, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = status if done else None
            running.discard(done)
        else:
            answer = os.fork()
            if answer == 0:
                control.close()
                _take_over(request, descriptors)
                return cast("dict[str, Any]", request)
            running.add(answer)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(json.dumps(answer).encode() + b"\n")
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _take_over(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Give this process the streams, environment, folder and arguments of a program."""
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    for descriptor in set(descriptors[:3]):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    sys.path[1:1] = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place and place not in sys.path]
    sys.argv = [request["module"], *request["arguments"]]


def _load() -> None:
    """Import what programs import, and load the kernels."""
    for module in IMPORTED:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    import kinbin

    kinbin.warm_up()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _load()
    wanted = _serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        # At the top, so that it ends as an interpreter does: exit codes, exceptions and interrupts included.
        runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
