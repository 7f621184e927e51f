"""`kinbin serve` as a process, imports through it, and the demo."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
import scipy.sparse
from typer.testing import Result

import kinbin
from kinbin_client import Client

Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.Popen[str]"]
Items = Callable[..., dict[str, kinbin.Item]]

# On a machine that has never run Kinbin, the first server compiles its kernels.
pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]


@pytest.fixture
def served(data: Path, spawn: Spawn, free_port: int) -> str:
    """The address of a service on the test's database, started by `kinbin serve`."""
    process = spawn("kinbin_service.cli", "serve", "--data", data, "--port", free_port)
    address = f"http://127.0.0.1:{free_port}"
    with Client(address) as client:
        try:
            client.wait_ready(timeout=100)
        except Exception as error:
            process.kill()
            raise AssertionError(process.communicate()) from error
    return address


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port of 127.0.0.1 that something listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_import_through_a_service(
    tmp_path: Path, run: Run, served: str, items: Items, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """--url imports dense and sparse files through a running service, what is stored being the same as without it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    matrix = rng.random((55, 4), dtype=np.float32)
    np.save(tmp_path / "m.npy", matrix)
    told = run("import", tmp_path / "m.npy", "--url", served, "--collection", "dense", "--batch", 20, "--json")
    assert told.exit_code == 0, told.stderr
    assert orjson.loads(told.stdout)["count"] == 55
    csr = scipy.sparse.csr_matrix(np.diag(np.arange(1, 6, dtype=np.float32)))
    scipy.sparse.save_npz(tmp_path / "s.npz", csr)
    assert run("import", tmp_path / "s.npz", "--url", served, "--collection", "sparse", "--kernel", "minmax").exit_code == 0
    lines = [{"id": "t", "vector": {"tokens": {"red": 2}}, "payload": {"a": [1]}}, {"id": "s", "vector": {"indices": [5], "values": [2]}}]
    (tmp_path / "t.ndjson").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert run("import", tmp_path / "t.ndjson", "--url", served, "--collection", "mixed").exit_code == 0
    dense = items("dense")
    assert np.array_equal(np.array([dense[str(row)].vector for row in range(55)]), matrix)
    sparse = items("sparse")["3"].vector
    assert isinstance(sparse, kinbin.Sparse)
    assert (np.asarray(sparse.indices).tolist(), np.asarray(sparse.values).tolist()) == ([3], [4.0])
    assert items("mixed")["t"].payload == {"a": [1]}
    assert list((tmp_path / "state" / "kinbin" / "imports").iterdir()) == []


def test_import_through_a_service_names_bad_rows_and_resumes(
    tmp_path: Path, run: Run, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that the service refuses is named by its line, and the import goes on from there once it is corrected."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lines = [orjson.dumps({"id": f"r{row}", "vector": [0, 0] if row == 17 else [1, row]}) for row in range(30)]
    path = tmp_path / "t.ndjson"
    path.write_bytes(b"\n".join(lines))
    command = ("import", path, "--url", served, "--collection", "c", "--batch", 5)
    bad = run(*command)
    assert bad.exit_code == 1
    assert bad.stderr.startswith(f"Error: {path}:18: ")
    path.write_bytes(b"\n".join(lines).replace(b"[0,0]", b"[1,0.5]"))
    good = run(*command, "--json")
    assert f"{path}: continuing after 15 rows" in good.stderr
    assert (orjson.loads(good.stdout)["rows"], orjson.loads(good.stdout)["count"]) == (15, 30)
    differs = run(*command, "--kernel", "gmm")
    assert differs.exit_code == 1
    assert 'collection "c" is there with kernel ngmm, not gmm' in differs.stderr
    conflict = run(*command, "--mode", "insert")
    assert conflict.exit_code == 1
    assert conflict.stderr.startswith(f"Error: {path}:1: ")
    assert "use --mode upsert" in conflict.stderr


def test_first_batch_that_is_refused_leaves_no_collection(tmp_path: Path, run: Run, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection is not created for rows that it would not take."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    np.save(tmp_path / "m.npy", np.ones((2, 3)))
    result = run("import", tmp_path / "m.npy", "--url", served, "--collection", "c", "--dim", 5)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path / 'm.npy'}, row 0: ")
    with Client(served) as client:
        assert "c" not in client.collections()


def test_commands_beside_a_running_service(tmp_path: Path, run: Run, served: str, data: Path) -> None:
    """Import, query, stats and check work on the files while a service has them open, and the service sees what was imported."""
    np.save(tmp_path / "m.npy", np.random.default_rng(0).random((50, 4)))
    assert run("import", tmp_path / "m.npy", "--data", data).exit_code == 0
    with Client(served) as client:
        assert client.collection("default").count() == 50
        assert client.query_id("7", k=1).ids == ["7"]
    assert run("query", "--data", data, "--id", "7").exit_code == 0
    assert run("stats", "--data", data).exit_code == 0
    assert run("check", "--data", data).exit_code == 0


def test_serve_on_a_port_in_use(data: Path, run: Run, taken_port: int) -> None:
    """A port that something listens on is told in one line, before a database is made."""
    result = run("serve", "--data", data, "--port", taken_port)
    assert result.exit_code == 1
    expected = f"Error: cannot listen on 127.0.0.1:{taken_port}: Address already in use; choose another --port, or end what listens there\n"
    assert result.stderr == expected
    assert not data.exists()


def test_serve_beyond_this_machine_needs_a_key(data: Path, run: Run, free_port: int) -> None:
    """Without a key and without --insecure, an address that others reach is refused in one line."""
    result = run("serve", "--data", data, "--host", "0.0.0.0", "--port", free_port)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: without an API key the service listens on loopback addresses only")
    assert result.stderr.count("\n") == 1


def test_serve_on_an_address_that_is_none(data: Path, run: Run) -> None:
    """A host that is no address of this machine is told in one line."""
    result = run("serve", "--data", data, "--host", "no.such.host.invalid")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: --host no.such.host.invalid is not an address of this machine")


def test_serve_ends_with_sigterm(data: Path, spawn: Spawn, free_port: int) -> None:
    """SIGTERM ends `kinbin serve` with exit code 0."""
    process = spawn("kinbin_service.cli", "serve", "--data", data, "--port", free_port)
    with Client(f"http://127.0.0.1:{free_port}") as client:
        client.wait_ready(timeout=100)
    process.send_signal(signal.SIGTERM)
    assert process.wait(40) == 0


def test_demo_once(data: Path, spawn: Spawn, free_port: int) -> None:
    """`--once` loads the digits, prints a query with its certificate, addresses and a request to paste, and ends; again is quick."""
    arguments = ("--data", data, "--port", free_port, "--once")
    out, errors = (first := spawn("kinbin_service.demo", *arguments)).communicate(timeout=110)
    assert first.returncode == 0, out + errors
    assert "Added 1,797 handwritten digits" in out
    assert "Certificate: recall is at least" in out
    assert "score 1.000" in out
    assert f"curl -s http://127.0.0.1:{free_port}/query" in out
    with kinbin.open(data) as database:
        digits = database.collection("default")
        assert digits.count() == 1_797
        assert digits.count({"digit": 0}) == 178
    out, errors = (second := spawn("kinbin_service.demo", *arguments)).communicate(timeout=110)
    assert second.returncode == 0, out + errors
    assert "Added" not in out
    assert "Certificate" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_serves_until_it_is_ended(data: Path, spawn: Spawn, free_port: int, number: signal.Signals) -> None:
    """The demo serves what it printed until Ctrl-C or SIGTERM, and takes its server with it."""
    process = spawn("kinbin_service.demo", "--data", data, "--port", free_port)
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line)
        if line.startswith("Serving until Ctrl-C"):
            break
    text = "".join(printed)
    address = f"http://127.0.0.1:{free_port}"
    for line in printed:
        if line.strip().startswith(address):
            with urllib.request.urlopen(line.split()[0], timeout=20) as page:
                assert page.status == 200
    command = next(line.strip() for line in printed if line.strip().startswith("curl "))
    body = command.partition(" -d '")[2].removesuffix("'").encode()
    request = urllib.request.Request(f"{address}/query", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as page:
        answer = orjson.loads(page.read())
    assert len(answer["results"]) == 5, text
    assert all(hit["payload"]["digit"] != 8 for hit in answer["results"])
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", free_port)) != 0, "the server outlived the demo"


def test_demo_leaves_other_data_alone(tmp_path: Path, data: Path, run: Run, spawn: Spawn, free_port: int) -> None:
    """A collection "default" that holds something else is served, and nothing is added to it."""
    np.save(tmp_path / "m.npy", np.ones((3, 2)))
    assert run("import", tmp_path / "m.npy", "--data", data).exit_code == 0
    process = spawn("kinbin_service.demo", "--data", data, "--port", free_port, "--once")
    out, errors = process.communicate(timeout=110)
    assert process.returncode == 0, out + errors
    assert 'The collection "default" holds other data: the digits were not loaded.' in out
    with kinbin.open(data) as database:
        assert database.collection("default").count() == 3


def test_demo_on_a_port_in_use(data: Path, spawn: Spawn, taken_port: int) -> None:
    """A port in use is told in one line, without starting a server."""
    process = spawn("kinbin_service.demo", "--data", data, "--port", taken_port, "--once")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.startswith(f"Error: cannot listen on 127.0.0.1:{taken_port}: Address already in use")
    assert errors.count("\n") == 1


def test_demo_with_a_key(data: Path, spawn: Spawn, free_port: int) -> None:
    """With an API key in the environment, server and client use it, and the request to paste names the variable, not the key."""
    process = spawn("kinbin_service.demo", "--data", data, "--port", free_port, "--once", KINBIN_API_KEY="secret-of-the-test")
    out, errors = process.communicate(timeout=110)
    assert process.returncode == 0, out + errors
    assert "$KINBIN_API_KEY" in out
    assert "secret-of-the-test" not in out + errors
    assert os.environ.get("KINBIN_API_KEY") is None
