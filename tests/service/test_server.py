"""Real server processes: start, wire, workers, drain and exit."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

import kinbin
from forking import popen
from kinbin_service import server
from kinbin_service.settings import Settings
from nursery import until
from service_process import FreshServer, ServerProcess, free_port, is_worker, worker_pids

pytestmark = [pytest.mark.server, pytest.mark.slow]

KEY = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of one worker with a key and a small limit on bodies, for tests that leave it as it is."""
    with ServerProcess(tmp_path_factory.mktemp("one") / "data", api_key=KEY, max_index_body_bytes=1_048_576) as running:
        yield running


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of two workers."""
    with ServerProcess(tmp_path_factory.mktemp("two") / "data", workers=2) as running:
        yield running


def exchange(port: int, request: bytes, seconds: float = 20) -> bytes:
    """Everything that the server sends to raw bytes, until it closes the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        while chunk := connection.recv(65_536):
            received += chunk
    return received


def test_a_declared_body_over_the_limit_is_refused_unread(one: ServerProcess) -> None:
    """Over the wire: 413 before the key, for a body that never comes, and the connection is closed."""
    answer = exchange(one.port, b"POST /index HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head.lower()
    assert orjson.loads(body)["limit"] == "index_body_bytes"


def test_a_stream_is_answered_while_it_is_sent(one: ServerProcess) -> None:
    """Over the wire: receipts of a stream of lines arrive before its end is sent, and the connection is closed behind the last."""

    def chunk(body: bytes) -> bytes:
        return b"%x\r\n%s\r\n" % (len(body), body)

    lines = b"".join(b'{"id": "s%d", "vector": {"indices": [%d], "values": [1]}}\n' % (n, n) for n in range(2_500))
    head = f"POST /v1/collections/streamed/index?stream=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    httpx.put(
        f"http://127.0.0.1:{one.port}/v1/collections/streamed", json={}, headers={"authorization": f"Bearer {KEY}"}
    ).raise_for_status()
    with socket.create_connection(("127.0.0.1", one.port), timeout=30) as connection:
        connection.sendall(f"{head}Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk(lines))
        received = b""
        while b'"lines":2000' not in received:
            received += connection.recv(65_536)
        connection.sendall(b"0\r\n\r\n")
        while more := connection.recv(65_536):
            received += more
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b'"lines":2500,"indexed":2500,"updated":0,"unchanged":0,"skipped":0,"count":2500,"done":true' in received.replace(b": ", b":")


def test_a_chunked_body_over_the_limit_is_cut_off(one: ServerProcess) -> None:
    """A body in chunks is refused as soon as it passes the limit, however much more would come."""
    lines = ["POST /index HTTP/1.1", "Host: x", f"X-API-Key: {KEY}", "Content-Type: application/json", "Transfer-Encoding: chunked", "", ""]
    request = "\r\n".join(lines).encode()
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", one.port), timeout=20) as connection:
        connection.sendall(request)
        sent = 0
        try:
            while sent < 100 * 65_536:
                connection.sendall(chunk)
                sent += 65_536
        except OSError:
            pass
        received = b""
        try:
            while data := connection.recv(65_536):
                received += data
        except OSError:
            pass
    assert sent < 100 * 65_536 or received.startswith(b"HTTP/1.1 413 ")
    assert one.client.get("/livez").status_code == 200


def test_a_large_refused_body_still_brings_its_answer_to_a_client(one: ServerProcess) -> None:
    """A usual client that sends a body over the limit reads the 413."""
    response = one.client.post("/index", content=b" " * 8_000_000, headers={"content-type": "application/json", "x-api-key": KEY})
    assert response.status_code == 413


def test_a_wrong_key_is_answered_before_the_body_comes(one: ServerProcess) -> None:
    """Over the wire: 401 while the declared body has not been sent, and the connection is closed."""
    answer = exchange(one.port, b"POST /index HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_contradictory_lengths_and_broken_requests_are_400(one: ServerProcess) -> None:
    """A request that could be read in two ways, or in none, is 400."""
    smuggling = b"POST /index HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for request in (smuggling, b"NONSENSE\r\n\r\n", b"POST /index HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"):
        assert exchange(one.port, request).startswith(b"HTTP/1.1 400 ")


def test_the_log_is_json_without_keys_and_query_strings(one: ServerProcess) -> None:
    """Every line of the log of a real server is JSON; neither key nor query string is in it, and line ends stay encoded."""
    one.client.get(f"/v1/limits?api_key={KEY}")
    one.client.get("/v1/collections/a%0aforged?colour=hidden", headers={"x-api-key": KEY})
    until(lambda: any(line["path"] == "/v1/collections/a%0aforged" for line in one.events("request")))
    lines = [orjson.loads(line) for line in one.logged().splitlines()]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert KEY not in one.logged()
    assert "hidden" not in one.logged()


def test_what_one_worker_acknowledged_the_other_finds_at_once(two: ServerProcess) -> None:
    """An item added through one worker is found through every other worker by get, query and count, at once, also on replace and delete."""
    clients = [two.pinned() for _ in range(8)]
    try:
        two.client.put("/v1/collections/shared", json={"dim": 3})
        path = "/v1/collections/shared"
        for turn in range(24):
            writer = clients[turn % len(clients)]
            vector = [1.0, turn, 2.0]
            done = writer.post(f"{path}/index", json={"items": [{"id": "moving", "vector": vector}, {"id": f"i{turn}", "vector": vector}]})
            assert done.status_code == 200, done.text
            for reader in clients:
                found = reader.post(f"{path}/get", json={"ids": ["moving", f"i{turn}"]}).json()
                assert [item["vector"] for item in found["items"]] == [vector, vector]
                assert reader.post(f"{path}/count", json={}).json() == {"count": turn + 2}
            nearest = clients[(turn + 1) % len(clients)].post(f"{path}/query", json={"vector": vector, "k": 2}).json()
            assert {hit["id"] for hit in nearest["results"]} == {"moving", f"i{turn}"}
        assert clients[0].post(f"{path}/delete", json={"ids": ["moving"]}).json()["deleted"] == 1
        for reader in clients:
            assert reader.post(f"{path}/get", json={"ids": ["moving"]}).json()["missing"] == ["moving"]
        served = {client.get("/livez").headers["x-request-id"] for client in clients}
        assert len(served) == len(clients)
    finally:
        for client in clients:
            client.close()


def test_first_adds_at_the_same_time_create_default_once(two: ServerProcess) -> None:
    """When several clients make the first add through both workers at once, one collection results and every item is in it."""
    clients = [two.pinned() for _ in range(8)]
    try:
        for client in clients:
            client.get("/livez")

        def add(number: int) -> int:
            return clients[number].post("/index", json={"items": [{"id": f"i{number}", "vector": [1, number, 2]}]}).status_code

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(add, range(8))) == [200] * 8
        for client in clients:
            assert client.post("/v1/collections/default/count", json={}).json() == {"count": 8}
    finally:
        for client in clients:
            client.close()


def test_both_workers_serve(two: ServerProcess) -> None:
    """Of many connections each of the two workers accepts some: the test above really crosses processes."""
    before = {pid: cpu_ticks(pid) for pid in worker_pids(two.process.pid)}
    assert len(before) == 2

    def ask(_: int) -> None:
        with two.pinned() as client:
            for _ in range(10):
                client.get("/v1/collections")

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(16)))
        if all(cpu_ticks(pid) > ticks for pid, ticks in before.items()):
            return
    pytest.fail("only one worker ever worked")


def told(text: str, name: str) -> float:
    """The value of one sample of /metrics; 0 if it is not there."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_any_worker_tells_the_metrics_of_all(two: ServerProcess) -> None:
    """Requests that different workers answered are one count, whichever worker is asked; both are ready."""
    clients = [two.pinned() for _ in range(6)]
    name = 'kinbin_requests_total{method="GET",route="/v1/limits",status="200"}'
    before = told(clients[0].get("/metrics").text, name)
    for client in clients:
        for _ in range(5):
            assert client.get("/v1/limits").status_code == 200
    deadline = time.monotonic() + 60
    seen: set[tuple[float, float]] = set()
    while seen != {(30.0, 2.0)} and time.monotonic() < deadline:
        texts = [client.get("/metrics").text for client in clients]
        seen = {(told(text, name) - before, told(text, "kinbin_workers_ready")) for text in texts}
    for client in clients:
        client.close()
    assert seen == {(30.0, 2.0)}


def cpu_ticks(pid: int) -> int:
    """Processor time of a process, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_collection_dropped_by_one_worker_is_gone_for_the_other(two: ServerProcess) -> None:
    """Drop, and creation anew with another dimension, are seen by every worker at once."""
    clients = [two.pinned() for _ in range(6)]
    try:
        for turn in range(6):
            dim = turn + 1
            assert clients[turn].put("/v1/collections/phoenix", json={"dim": dim}).status_code == 201
            added = clients[turn - 1].post("/v1/collections/phoenix/index", json={"items": [{"id": "a", "vector": [1] * dim}]})
            assert added.status_code == 200, added.text
            assert [client.get("/v1/collections/phoenix").json()["dim"] for client in clients] == [dim] * 6
            assert clients[turn - 2].delete("/v1/collections/phoenix").status_code == 200
            assert {client.post("/v1/collections/phoenix/query", json={"id": "a"}).status_code for client in clients} == {404}
    finally:
        for client in clients:
            client.close()


def test_a_damaged_collection_is_dropped_for_all_workers(two: ServerProcess) -> None:
    """If that is asked for; the name is free afterwards."""
    path, file = "/v1/collections/harmed", two.data / "collections" / "harmed" / "data.mdb"
    clients = [two.pinned() for _ in range(4)]
    try:
        assert clients[0].put(path, json={"dim": 2}).status_code == 201
        for client in clients:
            assert client.post(f"{path}/index", json={"items": [{"id": "a", "vector": [1, 1]}]}).status_code == 200
        file.unlink()
        for more, status, code in (("", 500, "corrupt_data"), ("?damaged=1", 422, "invalid_field"), ("?harmed=true", 422, "invalid_field")):
            refused = clients[1].delete(path + more)
            assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert clients[1].delete(path + "?damaged=true").json() == {"dropped": "harmed"}
        assert {client.get(path).status_code for client in clients} == {404}
        assert clients[3].put(path, json={"dim": 3}).status_code == 201
        assert {client.get(path).json()["count"] for client in clients} == {0}
        assert clients[0].delete(path + "?damaged=false").status_code == 200
    finally:
        for client in clients:
            client.close()


def test_an_older_copy_of_a_file_under_a_server_is_refused(tmp_path: Path) -> None:
    """By writes and reads, until the file is back: the server alone had it open, and nothing else remembers what was acknowledged."""
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    with ServerProcess(tmp_path / "data") as server:
        client, path = server.client, "/v1/collections/c"
        client.put(path, json={"dim": 2})
        for number in range(4):
            assert client.post(f"{path}/index", json={"items": [{"id": f"{number}", "vector": [1, 1]}]}).status_code == 200
            if not number:
                shutil.copy(file, tmp_path / "older")
        shutil.move(file, tmp_path / "own")
        shutil.copy(tmp_path / "older", file)
        for _ in range(3):
            refused = client.post(f"{path}/index", json={"items": [{"id": "x", "vector": [1, 1]}]})
            assert (refused.status_code, refused.json()["code"]) == (500, "corrupt_data")
            assert "replaced while it was open" in refused.text
            time.sleep(0.15)
            assert client.get(path).json()["code"] == "corrupt_data"
        shutil.move(tmp_path / "own", file)
        time.sleep(0.15)
        assert client.get(path).json()["count"] == 4


def test_a_server_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    """Whatever it was started with: each collection takes four."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    running = FreshServer(tmp_path / "data")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
    try:
        running.launch()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        until(lambda: bool(running.events("listening")), seconds=60)
        assert resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        running.close()


def test_the_port_takes_connections_once_it_is_said_to_listen(tmp_path: Path) -> None:
    """From the line "listening" on no connection is refused: it waits until the service answers."""
    running = FreshServer(tmp_path / "data")
    running.launch()
    try:
        until(lambda: bool(running.events("listening")), seconds=60)
        assert running.client.get("/livez").status_code == 200
    finally:
        running.close()


def test_a_killed_worker_costs_the_requests_that_it_held(two: ServerProcess) -> None:
    """While a killed worker is replaced, no request gets a 503, each client loses one at most, and what was acknowledged is there."""
    clients = 4
    over = threading.Event()
    answers: list[list[int]] = [[] for _ in range(clients)]

    def add(number: int) -> None:
        statuses = answers[number]
        while not over.is_set():
            body = {"items": [{"id": f"{number}-{len(statuses)}", "vector": [1, 2, 3]}]}
            try:
                with two.pinned() as client:
                    statuses.append(client.post("/v1/collections/replaced/index", json=body).status_code)
            except httpx.TransportError:
                statuses.append(0)
            # The new worker needs a processor as well.
            time.sleep(0.02)

    with two.pinned() as client:
        client.put("/v1/collections/replaced", json={"dim": 3})
    ready = len(two.events("ready"))
    with ThreadPoolExecutor(clients) as pool:
        adding = [pool.submit(add, number) for number in range(clients)]
        os.kill(min(worker_pids(two.process.pid)), signal.SIGKILL)
        try:
            two.wait_until_ready(ready + 1)
            # Both answer now; a second worker that did not would be seen by then.
            asked = [len(statuses) for statuses in answers]
            until(lambda: all(len(statuses) > before + 10 for statuses, before in zip(answers, asked, strict=True)))
        finally:
            over.set()
        for one in adding:
            one.result(60)
    assert {status for one in answers for status in one} <= {200, 0}
    assert all(one.count(0) <= 1 for one in answers), answers
    assert len(worker_pids(two.process.pid)) == 2
    stored = {f"{number}-{place}" for number, statuses in enumerate(answers) for place, status in enumerate(statuses) if status == 200}
    for _ in range(8):
        with two.pinned() as client:
            found = client.post("/v1/collections/replaced/get", json={"ids": sorted(stored)[:1_000]}).json()
            assert (len(found["items"]), found["missing"]) == (min(1_000, len(stored)), [])


ADDED, DIM = 2_000, 64


def big_add(number: int) -> bytes:
    """An add that keeps a thread busy for a while."""
    items = [{"id": f"{number}-{row}", "vector": [float((row * 31 + column) % 97 + 1) for column in range(DIM)]} for row in range(ADDED)]
    return orjson.dumps({"items": items})


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_answers_what_is_in_flight_and_exits_with_zero(tmp_path: Path, workers: int) -> None:
    """SIGTERM in the middle of running and queued adds: each is answered, durable, and the exit status is 0."""
    bodies = [big_add(number) for number in range(12)]
    answers: list[httpx.Response | Exception] = []
    sent = threading.Barrier(len(bodies) + 1)
    with ServerProcess(tmp_path / "data", workers=workers, threads=2) as running:
        running.client.put("/v1/collections/default", json={"dim": DIM})
        running.client.close()

        def add(body: bytes) -> None:
            with running.pinned() as client:
                client.get("/livez")
                sent.wait(60)
                try:
                    answers.append(client.post("/index", content=body, headers={"content-type": "application/json"}))
                except httpx.TransportError as error:
                    answers.append(error)

        threads = [threading.Thread(target=add, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        sent.wait(60)
        wait_for_the_first(answers, len(bodies))
        status = running.terminate()
        for thread in threads:
            thread.join(60)
        assert status == 0, running.logged()[-2_000:]
    acknowledged = [answer for answer in answers if isinstance(answer, httpx.Response) and answer.status_code == 200]
    assert len(acknowledged) == len(bodies), [repr(answer) for answer in answers]
    with kinbin.open(tmp_path / "data") as database:
        assert database.collection("default").count() == ADDED * len(bodies)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_port_is_closed_while_a_server_waits(tmp_path: Path, workers: int) -> None:
    """From SIGTERM on connections are refused, and do not wait for nobody; what is not there in time is told, and the status is 0."""
    with ServerProcess(tmp_path / "data", workers=workers, drain_seconds=3) as running:
        running.client.close()
        with socket.create_connection(("127.0.0.1", running.port), 30) as begun:
            begun.sendall(b"POST /index HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            time.sleep(0.3)
            running.process.send_signal(signal.SIGTERM)

            def refused() -> bool:
                try:
                    socket.create_connection(("127.0.0.1", running.port), 5).close()
                except ConnectionRefusedError:
                    return True
                return False

            until(refused)
            assert not select.select([begun], [], [], 0)[0], "the port was open as long as the request was waited for"
            answer = begun.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"outcome_unknown"' in answer
        assert running.process.wait(30) == 0


def wait_for_the_first(answers: list[Any], all_of_them: int) -> None:
    """Return as soon as one add is answered: the others are running or queued by then."""
    until(lambda: bool(answers))
    assert 0 < len(answers) < all_of_them, "the adds were over before the signal: the test shows nothing"


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """After SIGKILL of the parent no worker stays behind on the port or the data."""
    with ServerProcess(tmp_path / "data", workers=2) as running:
        workers = worker_pids(running.process.pid)
        assert len(workers) == 2
        running.process.kill()
        running.process.wait(30)
        until(lambda: not any(is_worker(pid) for pid in workers))
        with socket.create_server(("127.0.0.1", running.port), reuse_port=False):
            pass


def start_and_fail(**settings: str) -> subprocess.CompletedProcess[str]:
    """A server that ends by itself."""
    environment = {**os.environ, **{f"KINBIN_{name.upper()}": value for name, value in settings.items()}}
    with popen(
        [sys.executable, "-m", "kinbin_service"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ended:
        out, errors = ended.communicate(timeout=100)
    return subprocess.CompletedProcess(ended.args, ended.wait(), out, errors)


def test_an_open_address_without_a_key_is_refused(tmp_path: Path) -> None:
    """The server does not start on an address that others can reach without a key, and says what to set."""
    ended = start_and_fail(data_dir=str(tmp_path / "data"), host="0.0.0.0", port=str(free_port()))
    assert ended.returncode != 0
    assert "KINBIN_API_KEY" in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_database_that_cannot_be_opened_ends_the_server(tmp_path: Path, workers: str) -> None:
    """A data directory that cannot be used ends the server with status 3 and a reason in the log, whatever the number of workers."""
    (tmp_path / "file").write_text("this is no directory")
    ended = start_and_fail(data_dir=str(tmp_path / "file"), port=str(free_port()), workers=workers)
    assert ended.returncode == 3, ended.stderr[-2_000:]
    assert "the database cannot be opened" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_workers_that_cannot_start_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a worker of several fails to start, the server ends with status 3, not 0."""

    class FailingWorkers:
        def __init__(self, config: Any, sockets: list[socket.socket]) -> None:
            self.processes = [type("Ended", (), {"exitcode": code}) for code in (-15, 3)]
            for bound in sockets:
                bound.close()

        def run(self) -> None:
            """End as uvicorn's supervisor does."""

    monkeypatch.setattr(server, "Supervisor", FailingWorkers)
    keep_environment(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        server.run(data=tmp_path / "data", port=free_port(), workers=2)
    assert ended.value.code == 3


def keep_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the variables that a server exports in this process restored after the test."""
    for name in Settings().environment():
        monkeypatch.setenv(name, os.environ.get(name, ""))


def test_a_taken_port_ends_the_server(tmp_path: Path) -> None:
    """A port that somebody else listens on ends the server with an error."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = start_and_fail(data_dir=str(tmp_path / "data"), port=str(taken.getsockname()[1]))
    assert ended.returncode == 3
    assert not (tmp_path / "data").exists()


def test_run_takes_arguments_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What the command line gives comes before the environment, and reaches the workers through it; a key that is short is told."""
    monkeypatch.setenv("KINBIN_PORT", "1111")
    monkeypatch.setenv("KINBIN_DATA_DIR", "elsewhere")
    for name in ("KINBIN_HOST", "KINBIN_WORKERS"):
        monkeypatch.setenv(name, "")
    seen: dict[str, Any] = {}

    class NoServer:
        started = True

        def __init__(self, config: Any) -> None:
            seen.update(host=config.host, port=config.port, workers=config.workers)

        def run(self, sockets: list[socket.socket]) -> None:
            seen.update(data=os.environ["KINBIN_DATA_DIR"])
            for bound in sockets:
                bound.close()

    monkeypatch.setattr(server, "DrainingServer", NoServer)
    monkeypatch.setattr(server, "heed_hangups", lambda _: None)
    monkeypatch.setenv("KINBIN_API_KEY", "short")
    keep_environment(monkeypatch)
    port = free_port()
    server.run(data=tmp_path / "mine", host="127.0.0.1", port=port, workers=1)
    assert seen == {"host": "127.0.0.1", "port": port, "workers": 1, "data": str(tmp_path / "mine")}
    assert "the API key is short" in capfd.readouterr().err
    monkeypatch.setenv("KINBIN_API_KEY", "")
    with pytest.raises(ValueError, match="KINBIN_INSECURE"):
        server.run(host="0.0.0.0")
