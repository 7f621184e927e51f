"""`make run`: a server with handwritten digits and pieces of photographs, a query with its certificate, and where to look.

    python -m kinbin_service.demo --data ./kinbin-data --host 127.0.0.1 --port 8080 [--once]

The server is a child process in a session of its own: Ctrl-C reaches this program only, which ends the server with SIGTERM, waits
until it has answered what was under way, and passes its exit code on. It ends with this program, however that ends: it reads a pipe of it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.status import Status
from rich.text import Text

from kinbin.errors import install
from kinbin_service.cli.output import Failure, failing_in_one_line
from kinbin_service.cli.query import certificate_line
from kinbin_service.cli.serve import check_port
from kinbin_service.cli.service_target import api_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinbin_client import Client
    from kinbin_client.models import Answer

_SHADES = " ░▒▓█"
_QUERY = 1_796
"""The digit that is asked for: the last one, an 8."""
_SHOWN = 6
_READY_SECONDS = 180.0
"""The first start compiles the kernels."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END_SECONDS = 40.0
"""The server's own time to answer what is under way, and some more."""
_SERVER = """
import contextlib, os, signal, threading
from kinbin.collector import collector_paused
with contextlib.suppress(ImportError):  # `serve` tells what is missing
    with collector_paused():
        import kinbin_service.kernels, kinbin_service.server
    kinbin_service.kernels.kinbin.warm_up(None, kinbin_service.kernels.FIRST)
def end_with_the_demo():
    os.read(0, 1)  # not by sys.stdin: its lock must be free when the interpreter ends
    os.kill(os.getpid(), signal.SIGTERM)
if os.read(0, 1):
    threading.Thread(target=end_with_the_demo, daemon=True).start()
    from kinbin_service.cli import app
    app(prog_name="kinbin")
"""
"""The server's process. It loads its modules and kernels while the demo compiles and fills, waits for a byte before it serves, and ends
when the pipe does that the byte came by."""


@dataclass(frozen=True, slots=True)
class _Digits:
    """scikit-learn's bundled digits: n images of 8 × 8 as rows of 64 values from 0 to 16, and what each shows."""

    images: NDArray[Any]
    shown: list[int]

    @property
    def ids(self) -> list[str]:
        """An id for every image, in order."""
        return [f"digit-{row:04d}" for row in range(len(self.shown))]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the database; created if absent.")] = Path("kinbin-data"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8080,
    once: Annotated[bool, typer.Option("--once", help="End after the printout instead of serving on.")] = False,
) -> None:
    """Serve a database of handwritten digits, and show a query and its answer."""
    console = Console()
    with failing_in_one_line():
        check_port(host, port)
        _check_installed()
        with _ending_on_signals(), _server(data, host, port) as server:
            digits = _compile_and_load()
            # Before the server listens: whoever asks it finds the digits, all of them.
            filled = _fill(console, data, digits)
            _let_serve(server)
            from kinbin_service.settings import reached_at

            address = reached_at(host, port)
            _show(console, address, digits if filled else None, server)
            if filled:
                _add_photographs(console, data)
            _show_addresses(console, address)
            if once:
                return
            _say(console, "\nServing until Ctrl-C.")
            if server.wait() != 0:
                raise Failure(f"the server ended by itself with exit code {server.returncode}")


# ------------------------------------------------------------------------------------------ the server


class _Ended(Exception):
    """A signal asked to end."""


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """For the block, SIGINT, SIGTERM and SIGHUP leave it; that is the usual end of serving, no error."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        raise _Ended

    before = {number: signal.signal(number, end) for number in _ENDS}
    try:
        yield
    except _Ended:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _server(data: Path, host: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server process for the block, ended behind it: SIGTERM, some patience, then SIGKILL to all of its session.

    It serves once it is let (`_let_serve`).
    """
    command = [sys.executable, "-c", _SERVER, "serve", "--data", str(data), "--host", host, "--port", str(port)]
    environment = {"KINBIN_ACCESS_LOG": "false", "KINBIN_LOG_LEVEL": "warning", **os.environ}
    server = subprocess.Popen(command, env=environment, start_new_session=True, stdin=subprocess.PIPE)  # noqa: S603 - this program
    try:
        yield server
    finally:
        for number in _ENDS:
            signal.signal(number, signal.SIG_IGN)  # being ended once is enough: what follows takes a bounded time
        if server.poll() is None:
            server.terminate()
            try:
                server.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _let_serve(server: subprocess.Popen[bytes]) -> None:
    """Tell a server that waits to serve. One that has ended is told of by whoever waits for its answers."""
    assert server.stdin is not None
    with suppress(OSError):
        server.stdin.write(b"\n")
        server.stdin.flush()


def _wait_ready(client: Client, server: subprocess.Popen[bytes], address: str, status: Status) -> None:
    from kinbin_client.errors import Timeout

    deadline = time.monotonic() + _READY_SECONDS
    while True:
        if server.poll() is not None:
            raise Failure(f"the server ended with exit code {server.returncode} before it was ready: see its messages above")
        try:
            client.wait_ready(timeout=1.0)
        except Timeout:
            if time.monotonic() > deadline:
                raise Failure(f"the server was not ready after {_READY_SECONDS:g} s") from None
            status.update(f"Starting the server{_how_far(address)}")
        else:
            return


def _how_far(address: str) -> str:
    """What a server that is not ready says of that; empty if it says nothing yet."""
    try:
        urllib.request.urlopen(f"{address}/readyz", timeout=1.0).close()  # noqa: S310 - the server that was just started
    except urllib.error.HTTPError as error:
        with error:
            return f": {orjson.loads(error.read()).get('detail', '')}"
    except (OSError, ValueError):
        pass
    return ""


# ------------------------------------------------------------------------------------------ the digits


def _check_installed() -> None:
    """See that what the demo needs beside the server is there, before one is started."""
    if find_spec("sklearn") is None:
        raise Failure("the demo's data comes with scikit-learn: pip install scikit-learn")
    if find_spec("kinbin_client") is None:
        raise Failure(f"the demo needs the client: {install('client')}")


def _load_digits() -> _Digits:
    import numpy as np

    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if file.exists():  # to import scikit-learn for it takes two seconds
        table = np.loadtxt(file, delimiter=",")
        return _Digits(table[:, :-1], table[:, -1].astype(int).tolist())
    from sklearn.datasets import load_digits

    images, shown = load_digits(return_X_y=True)
    return _Digits(images, shown.tolist())


def _compile_and_load() -> _Digits:
    """Compile the kernels of small collections, which other processes do, and read the digits meanwhile."""
    import kinbin
    from kinbin_service.kernels import FIRST

    with ThreadPoolExecutor(1) as beside, kinbin.showing_compilation() as show:
        digits = beside.submit(_load_digits)
        kinbin.warm_up(show, FIRST)
        return digits.result()


def _fill(console: Console, data: Path, digits: _Digits) -> bool:
    """Load the digits into "default" if it is empty or was filled by half; whether they are in it."""
    import kinbin
    from kinbin_service.default_collection import NAME, add_to_default

    ids = digits.ids
    with kinbin.open(data) as database:
        if NAME in database.collections() and (collection := database.collection(NAME)).count() > 0:
            first, last = collection.get([ids[0], ids[-1]], include=())
            if first is None:
                return False
            if last is not None:
                return True
        began = time.monotonic()
        add_to_default(database, ids, digits.images, [{"digit": number} for number in digits.shown], {"mode": "upsert", "atomic": True})
        seconds = time.monotonic() - began
        _say(console, f'Added {len(ids):,} handwritten digits (8 × 8 pixels) to the collection "{NAME}" in {seconds:.1f} s.')
    return True


def _add_photographs(console: Console, data: Path) -> None:
    """Put the photographs beside the digits, if they are not there. The server, a process of its own, finds them at its next request."""
    import kinbin
    from kinbin_service import photographs

    with kinbin.open(data) as database:
        if added := photographs.fill(database):
            text = f'\nAdded {added:,} pieces of two photographs (32 × 32 pixels, by colour) to the collection "{photographs.NAME}".'
            _say(console, text)


def _show(console: Console, address: str, digits: _Digits | None, server: subprocess.Popen[bytes]) -> None:
    """Wait for the server, ask it for a digit's neighbours if they are what it holds, and print where to look."""
    from kinbin_client import Client

    with Client(address, api_key=api_key()) as client:
        with console.status("Starting the server") as status:
            _wait_ready(client, server, address, status)
        if digits is None:
            _say(console, 'The collection "default" holds other data: the digits were not loaded.')
        else:
            _show_answer(console, digits, client.query(digits.images[_QUERY], k=_SHOWN))


# ------------------------------------------------------------------------------------------ the printout


def _show_answer(console: Console, digits: _Digits, answer: Answer) -> None:
    rows = {identifier: row for row, identifier in enumerate(digits.ids)}
    _say(console, f"\nThe {_SHOWN} nearest of {digits.ids[_QUERY]} by the kernel ngmm (it finds itself first):\n")
    pictures = []
    for hit in answer:
        row = rows.get(hit.id)
        caption = f"{hit.id}\nscore {hit.score:.3f}"
        picture = _picture(digits.images[row]) if row is not None else Text("?")
        shown = f"{'an' if digits.shown[row] == 8 else 'a'} {digits.shown[row]}" if row is not None else "?"
        pictures.append(Panel(Group(picture, Text(caption, style="dim")), title=shown, width=20))
    console.print(Columns(pictures, padding=(0, 1)))
    line = certificate_line(answer.recall_lower_bound, answer.no_bound, answer.mode, answer.verified, answer.candidates)
    took = "" if answer.took_ms is None else f"; {answer.took_ms:.1f} ms"
    _say(console, f"Certificate: {line}{took}.", "bold")


def _picture(image: NDArray[Any]) -> Text:
    """An image of 8 × 8 pixels from 0 to 16, two characters a pixel."""
    lines = ("".join(_SHADES[min(int(value) * len(_SHADES) // 17, len(_SHADES) - 1)] * 2 for value in row) for row in image.reshape(8, 8))
    return Text("\n".join(lines))


def _show_addresses(console: Console, address: str) -> None:
    """Where to look, and a request to paste."""
    secret = '$(cat "$KINBIN_API_KEY_FILE")' if os.environ.get("KINBIN_API_KEY_FILE") else "$KINBIN_API_KEY"
    key = "" if api_key() is None else f' -H "Authorization: Bearer {secret}"'
    body = orjson.dumps({"id": f"digit-{_QUERY:04d}", "k": 5, "filter": {"digit": {"$ne": 8}}, "include": ["payload"]}).decode()
    console.print()
    for path, what in (
        ("/dashboard", "the dashboard: search the photographs by eye"),
        ("/docs", "the API"),
        ("/openapi.json", "the same for programs"),
        ("/healthz", "health"),
        ("/v1/limits", "limits"),
    ):
        _say(console, f"  {address}{path:<14} {what}")
    _say(console, "\nTry the nearest digits that are no 8:\n")
    _say(console, f"  curl -s {address}/query{key} -H 'content-type: application/json' -d {shlex.quote(body)}")


def _say(console: Console, line: str, style: str = "") -> None:
    """A line as it is: no markup, no wrapping."""
    console.print(Text(line, style=style), soft_wrap=True)


if __name__ == "__main__":
    app()
