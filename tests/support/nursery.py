"""Real processes for tests to start, talk to and kill, in milliseconds.

A fresh interpreter needs seconds to import numba and to load the kernels. A nursery is one that has done
so and then forks on demand; each child opens its databases after the fork, as it must. The children are
ordinary processes: they share no memory, no lock and no file with the test or with each other.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle  # noqa: F401 - the module registers how connections travel
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE = 60.0
"""Seconds that a test waits for an answer of a child."""


class Child:
    """A process of a nursery; `connection` carries pickled objects both ways."""

    def __init__(self, nursery: Nursery, pid: int, connection: Connection) -> None:
        self.pid = pid
        self.connection = connection
        self._nursery = nursery
        self._status: int | None = None

    def receive(self, seconds: float = PATIENCE) -> Any:
        """The next object that the child sent.

        Raises:
            EOFError: it ended. TimeoutError: it sent nothing.
        """
        if not self.connection.poll(seconds):
            raise TimeoutError(f"process {self.pid} sent nothing for {seconds} seconds")
        return self.connection.recv()

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """What a method gives or raises in a child that runs `serve_database`."""
        self.begin(name, *arguments, **options)
        return self.result()

    def begin(self, name: str, *arguments: Any, **options: Any) -> None:
        """Ask for a call; `result` gives its outcome."""
        self.connection.send((name, arguments, options))

    def result(self, seconds: float = PATIENCE) -> Any:
        """The outcome of the call that was begun."""
        done, outcome = self.receive(seconds)
        if not done:
            raise outcome
        return outcome

    def rest(self) -> list[Any]:
        """Everything that a dead child had sent."""
        out = []
        try:
            while self.connection.poll(0):
                out.append(self.connection.recv())
        except (EOFError, ConnectionResetError):
            pass
        return out

    def kill(self) -> None:
        """End it as a crash does: SIGKILL, now."""
        os.kill(self.pid, 9)
        self.wait()

    def wait(self) -> int:
        """Wait for its end. Returns the exit code, or minus the signal that killed it."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(self._nursery.ask({"wait": self.pid}))
        return self._status

    def close(self) -> None:
        """End it, if it still runs."""
        if self._status is None:
            self.kill()
        self.connection.close()


class Nursery:
    """The test's end of a nursery. Not thread-safe; every child it gives is ended when it is closed."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._socket, other = socket.socketpair()
        with other:
            # The child finds what the test finds: the packages, and the modules of tests/support.
            self._process = subprocess.Popen(
                [sys.executable, "-u", __file__, str(other.fileno())],
                pass_fds=[other.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **(environment or {})},
            )
        self._answers = self._socket.makefile("r")
        self._children: list[Child] = []
        assert json.loads(self._answers.readline()) == "ready"

    def start(self, function: str, *arguments: Any) -> Child:
        """Run `module:function(connection, *arguments)` in a new process."""
        here, there = socket.socketpair()
        with there:
            pid = self.ask({"start": function}, [there.fileno()])
        child = Child(self, pid, Connection(here.detach()))
        self._children.append(child)
        child.connection.send(arguments)
        return child

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """Send a request with open files; returns the answer."""
        socket.send_fds(self._socket, [json.dumps(request).encode() + b"\n"], list(descriptors))
        return json.loads(self._answers.readline())

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end_children()
        self._answers.close()
        self._socket.close()
        self._process.wait(PATIENCE)

    def end_children(self) -> None:
        """End every child that still runs."""
        for child in self._children:
            child.close()
        self._children.clear()


def serve_database(connection: Connection, path: str, name: str) -> None:
    """A child that opens a collection and does what it is asked: methods of the collection, or those of `_SPECIAL`."""
    import kinbin

    database = kinbin.open(path)
    collection = database.collection(name)
    connection.send("open")
    while True:
        try:
            method, arguments, options = connection.recv()
        except EOFError:
            return
        try:
            if method == "end":
                database.close()
                connection.send((True, None))
                return
            if method.startswith("database."):
                outcome = getattr(database, method.removeprefix("database."))(*arguments, **options)
                outcome = None if isinstance(outcome, kinbin.Collection) else outcome
            elif method == "again":
                collection = database.collection(name)
                outcome = None
            elif method == "run":
                outcome = _function(arguments[0])(collection, *arguments[1:], **options)
            else:
                outcome = getattr(collection, method)(*arguments, **options)
            connection.send((True, outcome))
        except Exception as error:  # noqa: BLE001 - it is raised where the call was made
            connection.send((False, error.with_traceback(None)))


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _run(function: str, descriptor: int) -> None:
    """The life of a child."""
    code = 1
    try:
        with Connection(descriptor) as connection:
            _function(function)(connection, *connection.recv())
        code = 0
    except (BrokenPipeError, ConnectionResetError):
        # The test is gone.
        code = 3
    except BaseException:  # noqa: BLE001 - the last frame of the process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(control: socket.socket) -> None:
    """Fork and wait on request, until the test closes its end."""
    control.sendall(b'"ready"\n')
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65_536, 1)
        if not message:
            return
        request = json.loads(message)
        if "start" in request:
            pid = os.fork()
            if pid == 0:
                control.close()
                _run(request["start"], descriptors[0])
            for descriptor in descriptors:
                os.close(descriptor)
            answer = pid
        else:
            _, answer = os.waitpid(request["wait"], 0)
        control.sendall(json.dumps(answer).encode() + b"\n")


def until(condition: Any, seconds: float = 60.0) -> None:
    """Return once a condition holds; fail if that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import kinbin

    kinbin.warm_up()
    with socket.socket(fileno=int(sys.argv[1])) as end:
        _serve(end)
