"""The command line in this process (`kinbin`) and as a program of its own (`spawn`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner, Result

import kinbin
import service_process
from kinbin_client import Client
from kinbin_service.cli import app
from linked import still
from service_process import Served, Spawn, spawning

Run = Callable[..., Result]
Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> None:
    """Every kernel is compiled before the first test, if it ever has to be: all processes that tests start load it from the cache."""
    kinbin.warm_up()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where a test's database is, or will be."""
    return tmp_path / "db"


@pytest.fixture
def three(data: Path) -> Path:
    """A database of the collections a, b and c, of 200 items each."""
    with still(), kinbin.open(data) as database:
        for seed, name in enumerate("abc"):
            rows = np.random.default_rng(seed).random((200, 8))
            database.create_collection(name, dim=8).add([f"{name}{i}" for i in range(200)], rows, [{"row": i} for i in range(200)])
    return data


@pytest.fixture
def run() -> Run:
    """Run `kinbin ARGUMENTS` in this process; an exception that gets through fails the test, as users would see a traceback."""

    def call(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def imported(run: Run, data: Path) -> Imported:
    """Run `kinbin import … --collection c` on the test's database; it has to end well; its JSON summary."""

    def call(*arguments: object) -> dict[str, Any]:
        result = run("import", *arguments, "--data", data, "--collection", "c", "--json")
        assert result.exit_code == 0, result.stderr
        parsed: dict[str, Any] = orjson.loads(result.stdout)
        return parsed

    return call


@pytest.fixture
def refused(run: Run, data: Path) -> Refused:
    """Run `kinbin import … --collection c` on the test's database; it has to fail; its one line of error."""

    def call(*arguments: object) -> str:
        result = run("import", *arguments, "--data", data, "--collection", "c")
        assert result.exit_code == 1, result.output
        lines = [line for line in result.stderr.splitlines() if line]
        assert lines[-1].startswith("Error: ")
        assert all(": continuing after" in line or ": starting from" in line for line in lines[:-1] if ": " in line), lines
        return lines[-1].removeprefix("Error: ")

    return call


@pytest.fixture
def items(data: Path) -> Items:
    """Every item of the collection "c" of the test's database (or of others) by id, with vector and payload."""

    def read(collection: str = "c", place: Path = data) -> dict[str, kinbin.Item]:
        with kinbin.open(place) as database:
            found: dict[str, kinbin.Item] = {}
            after = None
            while True:
                page = database.collection(collection).scroll(after=after, limit=1_000, include=("vector", "payload"))
                found.update((item.id, item) for item in page.items)
                if page.next is None:
                    return found
                after = page.next

    return read


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start `python -m MODULE ARGUMENTS` as a process, ended with the test."""
    with spawning() as start:
        yield start


@pytest.fixture(scope="module")
def spawn_for_all() -> Iterator[Spawn]:
    """The same, the process being ended with the last test of the file."""
    with spawning() as start:
        yield start


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Wait until something is true; the test fails when it takes too long."""

    def wait(true: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.005)

    return wait


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, spawn_for_all: Spawn) -> Served:
    """A service that all tests share, started by `kinbin serve`."""
    data = tmp_path_factory.mktemp("served") / "db"
    port = service_process.free_port()
    process = spawn_for_all("kinbin_service.cli", "serve", "--data", data, "--port", port)
    with Client(address := f"http://127.0.0.1:{port}") as client:
        try:
            client.wait_ready(timeout=100)
        except Exception as error:
            process.kill()
            raise AssertionError(process.communicate()) from error
    return Served(address, data)
