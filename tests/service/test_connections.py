"""Connections: their number, slow and endless heads of requests, TLS, and certificates that are read again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from kinbin_service import connections, server
from kinbin_service.connections import HEAD_BYTES, ServingConfig
from kinbin_service.settings import Settings
from kinbin_service.tls import Certificate
from self_signed import make_certificate
from service_app import eventually
from service_process import free_port

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


seen: list[bytes] = []
"""Names of the headers of the last request for /read, once its body was read."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers "ok" to everything, after half a second if it is asked for /slow, and after the body if for /read."""
    if scope["type"] == "http":
        if scope["path"] == "/read":
            while (message := await receive()).get("more_body"):
                pass
            if message["type"] == "http.disconnect":
                return
            seen[:] = [name for name, _ in scope["headers"]]
        await asyncio.sleep(0.5 if scope["path"] == "/slow" else 0)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[int]:
    """The port of a server in this process with these settings."""
    config = ServingConfig(Settings(**settings), app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)  # type: ignore[arg-type]
    listening = socket.create_server(("127.0.0.1", 0))
    running = server.DrainingServer(config)
    task = asyncio.create_task(running.serve(sockets=[listening]))
    await eventually(lambda: running.started)
    try:
        yield listening.getsockname()[1]
    finally:
        running.should_exit = True
        await task


@asynccontextmanager
async def opened(port: int, number: int = 1) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Connections, closed at the end of the block."""
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(number)]
    try:
        yield made
    finally:
        for _, writer in made:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in made), return_exceptions=True)


async def answered(reader: asyncio.StreamReader) -> None:
    """Wait for the answer "ok"."""
    assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\nok"), 20)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """What arrives until the server closes."""
    return await asyncio.wait_for(reader.read(), 20)


def judged(answer: bytes, status: int, code: str) -> None:
    """See that an answer is a whole problem document."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert f"content-length: {len(body)}".encode() in head
    assert (orjson.loads(body)["code"], orjson.loads(body)["status"]) == (code, status)


async def test_connections_over_the_limit_are_told_so() -> None:
    """One more than may be open is 503 with Retry-After and closed; the others go on, and one that ends makes room."""
    async with serving(max_connections=2) as port, opened(port, 2) as held:
        for reader, writer in held:
            writer.write(GET)
            await answered(reader)
        before = connections.closed["too_many_connections"]
        async with opened(port) as [(reader, _)]:
            answer = await until_closed(reader)
        judged(answer, 503, "too_many_connections")
        assert b"retry-after: 1" in answer
        assert connections.closed["too_many_connections"] == before + 1
        held[0][1].close()
        await eventually(lambda: connections.opened() == 1)
        async with opened(port) as [(reader, writer)]:
            writer.write(GET)
            await answered(reader)


async def test_a_head_that_takes_too_long_ends_the_connection() -> None:
    """A head that comes byte by byte is 408, on a first and on a later request; a connection that says nothing is closed without a word."""
    async with serving(header_seconds=1.0) as port, opened(port, 3) as [(silent, _), (slow, writer), (later, second)]:
        second.write(GET)
        await answered(later)
        writer.write(b"GET / HTTP/1.1\r\nHo")
        second.write(b"GET / HT")
        assert await until_closed(silent) == b""
        for reader in (slow, later):
            judged(await until_closed(reader), 408, "head_timeout")


async def test_answers_may_take_longer_than_heads() -> None:
    """The time for a head ends with the head: a slow answer is given, even while half of the next request is there."""
    async with serving(header_seconds=0.15) as port, opened(port) as [(reader, writer)]:
        writer.write(GET.replace(b"/ ", b"/slow ") + b"GET / HT")
        await answered(reader)


async def test_an_endless_head_is_431() -> None:
    """Headers beyond the limit are refused while they come; those within it are taken, and bodies do not count."""
    async with serving() as port, opened(port, 2) as [(endless, first), (reader, writer)]:
        first.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * (HEAD_BYTES + 10))
        judged(await until_closed(endless), 431, "head_too_large")
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * (HEAD_BYTES // 2) + b"\r\n\r\n")
        await answered(reader)
        body = b"b" * (2 * HEAD_BYTES)
        writer.write(f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await answered(reader)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"a" * (HEAD_BYTES + 10) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: " * 5_000 + b"y\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"a" * (HEAD_BYTES + 10) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["header", "headers", "address"],
)
async def test_a_whole_head_that_is_too_large_is_431(head: bytes) -> None:
    """One header, many, or an address beyond the limit are refused though their end has come, on a first and on a later request."""
    async with serving() as port, opened(port, 2) as [(first, writer), (later, second)]:
        writer.write(head)
        judged(await until_closed(first), 431, "head_too_large")
        second.write(GET)
        await answered(later)
        second.write(head)
        judged(await until_closed(later), 431, "head_too_large")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Name: \x7f\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_a_problem_document(sent: bytes) -> None:
    """A request that cannot be read is a whole 400 as every error is, and its connection is closed; others go on."""
    async with serving() as port, opened(port, 2) as [(reader, writer), (other, asking)]:
        writer.write(sent)
        judged(await until_closed(reader), 400, "bad_request")
        asking.write(GET)
        await answered(other)


@pytest.mark.parametrize("trailer", [b"a:b\r\n", b"a: " + b"b" * 1_000 + b"\r\n", b"a"], ids=["short", "long", "one"])
async def test_endless_trailers_are_431(trailer: bytes) -> None:
    """Trailers of a chunked body have the limit of a head, however they are cut, and are not kept meanwhile."""
    async with serving() as port, opened(port) as [(reader, writer)]:
        writer.write(b"POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n")
        before = connections.closed["head_too_large"]
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(trailer * (10_000 // len(trailer)))
                await writer.drain()
                await asyncio.sleep(0.001)
        await eventually(lambda: connections.closed["head_too_large"] == before + 1)
        with contextlib.suppress(ConnectionError):
            judged(await until_closed(reader), 431, "head_too_large")


async def test_an_endless_extension_of_a_chunk_is_431() -> None:
    """What is written behind the length of a chunk has the limit of a head."""
    async with serving() as port, opened(port) as [(_, writer)]:
        before = connections.closed["head_too_large"]
        writer.write(b"POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;")
        writer.write(b"x" * 1_000_000)
        await eventually(lambda: connections.closed["head_too_large"] == before + 1)


async def test_trailers_are_no_headers() -> None:
    """A few trailers are taken and left out; chunks of any number count as body, and the connection serves on."""
    async with serving() as port, opened(port) as [(reader, writer)]:
        for _ in range(2):
            writer.write(b"POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"1\r\na\r\n" * 40_000 + b"0\r\nHost: other\r\nAuthorization: none\r\n\r\n")
            await answered(reader)
    assert seen == [b"host", b"transfer-encoding"]


# ------------------------------------------------------------------------------------------ TLS


def shown(port: int) -> str:
    """The certificate that a new connection is shown, in PEM; one request is answered over it."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 20) as plain, trusting.wrap_socket(plain) as wrapped:
        wrapped.sendall(GET)
        assert b"200" in wrapped.recv(1_000)
        encoded = wrapped.getpeercert(binary_form=True)
        assert encoded is not None
        return ssl.DER_cert_to_PEM_cert(encoded).strip()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The files that a server reads, with the certificate "first" in them."""
    certificate, key = make_certificate(tmp_path, "first")
    return Path(shutil.copy(certificate, tmp_path / "served.pem")), Path(shutil.copy(key, tmp_path / "served.key"))


async def test_a_certificate_is_read_again_at_sighup(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """SIGHUP shows a new certificate, of another kind of key too, to new connections; a bad pair keeps the old one."""
    previous = signal.getsignal(signal.SIGHUP)
    try:
        async with serving(tls_cert_file=files[0], tls_key_file=files[1]) as port:
            assert await asyncio.to_thread(shown, port) == (tmp_path / "first.pem").read_text().strip()
            certificate, key = make_certificate(tmp_path, "second", kind="rsa")
            shutil.copy(certificate, files[0])
            os.kill(os.getpid(), signal.SIGHUP)
            assert await asyncio.to_thread(shown, port) == (tmp_path / "first.pem").read_text().strip()
            shutil.copy(key, files[1])
            os.kill(os.getpid(), signal.SIGHUP)
            assert await asyncio.to_thread(shown, port) == certificate.read_text().strip()
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_files_that_are_no_certificate_are_told(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """A missing file, a wrong one, a key of another certificate and an encrypted key are refused with the file's name."""
    _, other = make_certificate(tmp_path, "other")
    (tmp_path / "text").write_text("no key")
    encrypted = tmp_path / "encrypted"
    subprocess.run(["openssl", "ec", "-in", files[1], "-aes128", "-passout", "pass:x", "-out", encrypted], check=True, capture_output=True)
    for key, told in (
        (tmp_path / "none", "KINBIN_TLS_KEY_FILE names .*none, which cannot be read: No such file"),
        (tmp_path / "text", "KINBIN_TLS_KEY_FILE names .*text, which holds no private key in PEM"),
        (None, r"KINBIN_TLS_CERT_FILE names .*served\.pem, which holds no private key: set KINBIN_TLS_KEY_FILE"),
        (other, "cannot be used for TLS: KEY_VALUES_MISMATCH"),
        (encrypted, "the key for TLS is encrypted"),
    ):
        with pytest.raises(ValueError, match=told):
            Certificate(files[0], key)
        with pytest.raises(ValueError, match=told):
            server.run(Settings(data_dir=tmp_path / "data", tls_cert_file=files[0], tls_key_file=key, port=free_port()))
    with pytest.raises(ValueError, match=r"KINBIN_TLS_CERT_FILE names .*text, which holds no certificate"):
        Certificate(tmp_path / "text", files[1])
    with pytest.raises(ValueError, match="KINBIN_TLS_KEY_FILE is of no use without"):
        Settings(tls_key_file=other)


WORKERS = """
import sys
from kinbin_service.connections import ServingConfig
from kinbin_service.settings import Settings

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

if __name__ == "__main__":
    from kinbin_service.server import Supervisor  # workers need nothing of the library

    settings = Settings(tls_cert_file=sys.argv[1])
    more = {"workers": 2, "lifespan": "off", "timeout_worker_healthcheck": 60}
    config = ServingConfig(settings, "serve:app", port=int(sys.argv[2]), **more)
    Supervisor(config, sockets=[config.bind_socket()]).run()
"""


@pytest.mark.slow
def test_sighup_reaches_every_worker(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """The parent passes SIGHUP on: all workers show the new certificate, and none was replaced."""
    script, port = tmp_path / "serve.py", free_port()
    # Certificate and key in one file: a worker that starts while two are being replaced reads a pair that does not fit, and dies.
    served = files[0]
    served.write_bytes(served.read_bytes() + files[1].read_bytes())
    script.write_text(WORKERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, str(script), str(served), str(port)],
        env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 100
        while shown_or_none(port) is None:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        children = workers_of(process.pid)
        certificate, key = make_certificate(tmp_path, "second")
        renewed = tmp_path / "renewed.pem"
        renewed.write_bytes(certificate.read_bytes() + key.read_bytes())
        renewed.replace(served)
        # A worker that is still starting is passed over, as it reads the new files.
        seen: list[str | None] = []
        while seen != [certificate.read_text().strip()] * 12:
            assert time.monotonic() < deadline
            process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
            seen = [shown_or_none(port) for _ in range(12)]
        assert len(children) == 2
        assert workers_of(process.pid) == children
    finally:
        process.terminate()
        process.communicate(timeout=30)


def shown_or_none(port: int) -> str | None:
    """The certificate that is shown; None if nobody listens yet."""
    try:
        return shown(port)
    except OSError:
        return None


def workers_of(pid: int) -> set[int]:
    """The processes that a parent has spawned to serve."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return {child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


@pytest.mark.slow
@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize(
    ("behind", "status"),
    [
        (b"\x00 no HTTP\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * (2 * HEAD_BYTES) + b"\r\n\r\n", b"431"),
    ],
    ids=["no HTTP", "a bad head", "a large head"],
)  # fmt: skip
async def test_what_is_refused_behind_requests_is_told_behind_their_answers(behind: bytes, status: bytes, before: int) -> None:
    """Of requests that came together each has its own answer, in order; the refusal of the last is none of the first one's."""
    async with serving() as port, opened(port) as [(reader, writer)]:
        writer.write(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" * before + behind)
        told = await asyncio.wait_for(reader.read(), 10)
    answers = told.split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200"] * before + [status]
    assert all(answer.endswith(b"ok") for answer in answers[:before])


@pytest.mark.slow
@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize("bad", [b"zz\r\n", b"0\r\ncontent-length: 3\r\n\r\n", b"1\r\nxx\r\n"])
async def test_a_bad_body_behind_requests_is_told_behind_their_answers(bad: bytes, before: int) -> None:
    """A request whose body goes bad is refused after the whole ones before it are answered, though all came in one read."""
    chunked = b"POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving() as port, opened(port) as [(reader, writer)]:
        writer.write(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" * before + chunked + bad)
        told = await asyncio.wait_for(reader.read(), 10)
    assert [answer[:3] for answer in told.split(b"HTTP/1.1 ")[1:]] == [b"200"] * before + [b"400"]
