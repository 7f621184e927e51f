"""`kinbin serve` as a process, imports through it, and the demo."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pytest
import scipy.sparse
from sklearn.datasets import load_digits
from typer.testing import Result

import kinbin
import service_process
from kinbin_client import Client
from kinbin_service import demo
from service_process import Served, until_serving

Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.Popen[str]"]
Items = Callable[..., dict[str, kinbin.Item]]

# On a machine that has never run Kinbin, the first server compiles its kernels.
pytestmark = [pytest.mark.server, pytest.mark.timeout(300), pytest.mark.slow]


class Shown(NamedTuple):
    """What `demo --once` printed, and the database that it left."""

    out: str
    port: int
    data: Path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, spawn_for_all: Spawn) -> Shown:
    """One run of `demo --once` on a new directory, for tests that look at what it did."""
    data = tmp_path_factory.mktemp("shown") / "db"
    port = service_process.free_port()
    process = spawn_for_all("kinbin_service.demo", "--data", data, "--port", port, "--once")
    out, errors = process.communicate(timeout=110)
    assert process.returncode == 0, out + errors
    return Shown(out, port, data)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port of 127.0.0.1 that something listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_import_through_a_service(
    tmp_path: Path, run: Run, served: Served, items: Items, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """--url imports dense and sparse files through a running service, what is stored being the same as without it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    matrix = rng.random((55, 4), dtype=np.float32)
    np.save(tmp_path / "m.npy", matrix)
    told = run("import", tmp_path / "m.npy", "--url", served.address, "--collection", "dense", "--batch", 20, "--json")
    assert told.exit_code == 0, told.stderr
    assert (orjson.loads(told.stdout)["count"], orjson.loads(told.stdout)["compacted"]) == (55, False)
    csr = scipy.sparse.csr_matrix(np.diag(np.arange(1, 6, dtype=np.float32)))
    scipy.sparse.save_npz(tmp_path / "s.npz", csr)
    assert run("import", tmp_path / "s.npz", "--url", served.address, "--collection", "sparse", "--kernel", "minmax").exit_code == 0
    lines = [{"id": "t", "vector": {"tokens": {"red": 2}}, "payload": {"a": [1]}}, {"id": "s", "vector": {"indices": [5], "values": [2]}}]
    (tmp_path / "t.ndjson").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert run("import", tmp_path / "t.ndjson", "--url", served.address, "--collection", "mixed").exit_code == 0
    dense = items("dense", served.data)
    assert np.array_equal(np.array([dense[str(row)].vector for row in range(55)]), matrix)
    sparse = items("sparse", served.data)["3"].vector
    assert isinstance(sparse, kinbin.Sparse)
    assert (np.asarray(sparse.indices).tolist(), np.asarray(sparse.values).tolist()) == ([3], [4.0])
    assert items("mixed", served.data)["t"].payload == {"a": [1]}
    assert list((tmp_path / "state" / "kinbin" / "imports").iterdir()) == []


def test_import_through_a_service_names_bad_rows_and_resumes(
    tmp_path: Path, run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that the service refuses is named by its line, and the import goes on from there once it is corrected."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lines = [orjson.dumps({"id": f"r{row}", "vector": [0, 0] if row == 17 else [1, row]}) for row in range(30)]
    path = tmp_path / "t.ndjson"
    path.write_bytes(b"\n".join(lines))
    command = ("import", path, "--url", served.address, "--collection", "rows", "--batch", 5)
    bad = run(*command)
    assert bad.exit_code == 1
    assert bad.stderr.startswith(f"Error: {path}:18: ")
    path.write_bytes(b"\n".join(lines).replace(b"[0,0]", b"[1,0.5]"))
    good = run(*command, "--json")
    assert f"{path}: continuing after 15 rows" in good.stderr
    assert (orjson.loads(good.stdout)["rows"], orjson.loads(good.stdout)["count"]) == (15, 30)
    differs = run(*command, "--kernel", "gmm")
    assert differs.exit_code == 1
    assert 'collection "rows" is there with kernel ngmm, not gmm' in differs.stderr
    conflict = run(*command, "--mode", "insert")
    assert conflict.exit_code == 1
    assert conflict.stderr.startswith(f"Error: {path}:1: ")
    assert "use --mode upsert" in conflict.stderr


def test_first_batch_that_is_refused_leaves_no_collection(
    tmp_path: Path, run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection is not created for rows that it would not take."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    np.save(tmp_path / "m.npy", np.ones((2, 3)))
    result = run("import", tmp_path / "m.npy", "--url", served.address, "--collection", "refused", "--dim", 5)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path / 'm.npy'}, row 0: ")
    with Client(served.address) as client:
        assert "refused" not in client.collections()


def test_commands_beside_a_running_service(tmp_path: Path, run: Run, served: Served) -> None:
    """Import, query, stats and check work on the files while a service has them open, and the service sees what was imported."""
    np.save(tmp_path / "m.npy", np.random.default_rng(0).random((50, 4)))
    assert run("import", tmp_path / "m.npy", "--data", served.data).exit_code == 0
    with Client(served.address) as client:
        assert client.collection("default").count() == 50
        assert client.query_id("7", k=1, include_self=True).ids == ["7"]
    assert run("query", "--data", served.data, "--id", "7").exit_code == 0
    assert run("stats", "--data", served.data).exit_code == 0
    assert run("check", "--data", served.data).exit_code == 0


def test_serve_on_a_port_in_use(data: Path, run: Run, taken_port: int) -> None:
    """A port that something listens on is told in one line, before a database is made."""
    result = run("serve", "--data", data, "--port", taken_port)
    assert result.exit_code == 3
    advice = "choose another --port (PORT=… with make), or end what listens there"
    expected = f"Error: cannot listen on 127.0.0.1:{taken_port}: Address already in use; {advice}\n"
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
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: --host no.such.host.invalid is not an address of this machine")


def test_serve_on_a_terminal_tells_its_address_and_ends_with_sigterm(data: Path, free_port: int) -> None:
    """On a terminal `kinbin serve` says in a short line where it can be opened, and then each request; SIGTERM ends it with exit code 0."""
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "kinbin_service.cli", "serve", "--data", str(data), "--port", str(free_port)]
    with subprocess.Popen(command, stderr=terminal) as process, os.fdopen(master, encoding="utf-8", errors="replace") as screen:
        os.close(terminal)
        try:
            first = screen.readline().strip()
            address = f"http://127.0.0.1:{free_port}"
            assert first.split(" ", 1)[1] == f"listening: url {address}, docs {address}/docs, data {data}"
            with Client(address) as client:
                client.wait_ready(timeout=100)
                client.limits()
            assert any(" GET /v1/limits 200 " in line for line in iter(screen.readline, ""))
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_demo_once(shown: Shown) -> None:
    """`--once` loads the digits, prints a query with its certificate, addresses and a request to paste, and ends."""
    assert "Added 1,797 handwritten digits" in shown.out
    assert "Added 4,880 pieces of two photographs" in shown.out
    assert f"http://127.0.0.1:{shown.port}/dashboard" in shown.out
    assert "Certificate: mean recall is at least" in shown.out
    assert "score 1.000" in shown.out
    assert f"curl -s http://127.0.0.1:{shown.port}/query" in shown.out
    with kinbin.open(shown.data) as database:
        digits = database.collection("default")
        assert digits.count() == 1_797
        assert digits.count({"digit": 0}) == 178
        photographs = database.collection("photographs")
        (item,) = photographs.get(["patch-0000"])
        assert item is not None
        assert item.payload is not None
        assert item.payload["image"].startswith("data:image/webp;base64,")
        assert photographs.count({"photograph": "flower"}) == 2_440


def test_the_digits_are_those_of_scikit_learn() -> None:
    """They are read without importing it, which takes seconds; they are the same."""
    script = "import sys; from kinbin_service import demo; demo._load_digits(); sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)
    images, shown = load_digits(return_X_y=True)
    read = demo._load_digits()
    assert np.array_equal(read.images, images)
    assert read.shown == shown.tolist()


def asked_from_the_start(process: subprocess.Popen[str], url: str, headers: dict[str, str]) -> list[tuple[int, str | None]]:
    """Statuses, with what the answer says or when to come back, until there is an answer."""
    told: list[tuple[int, str | None]] = []
    deadline = time.monotonic() + 200
    while not told or told[-1][0] == 503:
        assert time.monotonic() < deadline, told
        assert process.poll() is None, process.communicate()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers), timeout=20) as page:
                told.append((page.status, page.read().decode()))
        except urllib.error.HTTPError as error:
            told.append((error.code, error.headers["Retry-After"]))
        except OSError:
            time.sleep(0.01)  # nobody listens yet
    return told


@pytest.mark.parametrize(("number", "key"), [(signal.SIGINT, None), (signal.SIGTERM, "secret-of-the-test")])
def test_demo_serves_until_it_is_ended(
    data: Path, shown: Shown, spawn: Spawn, free_port: int, number: signal.Signals, key: str | None
) -> None:
    """Until Ctrl-C or SIGTERM the demo serves what it printed, and takes its server with it; on a directory that it filled it adds nothing.

    With an API key in the environment, server and client use it, and the request to paste names the variable, not the key. Whoever asks it
    while it starts is told to come back, and from the first answer on finds every digit.
    """
    environment = {} if key is None else {"KINBIN_API_KEY": key}
    if key is None:
        shutil.copytree(shown.data, data)
    process = spawn("kinbin_service.demo", "--data", data, "--port", free_port, **environment)
    address = f"http://127.0.0.1:{free_port}"
    authorization = {} if key is None else {"authorization": f"Bearer {key}"}
    told = asked_from_the_start(process, f"{address}/v1/collections/default/count", {"content-type": "application/json", **authorization})
    assert told[-1] == (200, '{"count":1797}')
    assert set(told[:-1]) <= {(503, "1")}
    printed = until_serving(process)
    text = "".join(printed)
    assert ("Added" in text) == (key is not None)
    assert "Certificate" in text
    assert ("$KINBIN_API_KEY" in text) == (key is not None)
    for line in printed:
        if line.strip().startswith(address):
            with urllib.request.urlopen(urllib.request.Request(line.split()[0], headers=authorization), timeout=20) as page:
                assert page.status == 200
    command = next(line.strip() for line in printed if line.strip().startswith("curl "))
    body = command.partition(" -d '")[2].removesuffix("'").encode()
    request = urllib.request.Request(f"{address}/query", body, {"content-type": "application/json", **authorization})
    with urllib.request.urlopen(request, timeout=20) as page:
        answer = orjson.loads(page.read())
    assert len(answer["results"]) == 5, text
    assert all(hit["payload"]["digit"] != 8 for hit in answer["results"])
    if key is not None:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(f"{address}/query", body, {"content-type": "application/json"}), timeout=20)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "Fatal" not in errors, errors
    assert "secret-of-the-test" not in text + errors
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", free_port)) != 0, "the server outlived the demo"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_server_ends_with_the_demo(data: Path, shown: Shown, spawn: Spawn, free_port: int, number: signal.Signals) -> None:
    """However the demo ends, nothing goes on listening: the next `make run` would find its port taken."""
    shutil.copytree(shown.data, data)
    process = spawn("kinbin_service.demo", "--data", data, "--port", free_port)
    until_serving(process)
    process.send_signal(number)
    process.wait(60)
    deadline = time.monotonic() + 30
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", free_port)) != 0:
                return
        assert time.monotonic() < deadline, "the server outlived the demo"
        time.sleep(0.1)


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
    assert process.returncode == 3
    assert errors.startswith(f"Error: cannot listen on 127.0.0.1:{taken_port}: Address already in use")
    assert errors.count("\n") == 1
