"""`kinbin serve`: what can be told before the server starts, and its start."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from kinbin.collector import collector_paused
from kinbin.errors import install
from kinbin_service.cli.options import DEFAULT_DATA, DataOption
from kinbin_service.cli.output import Failure, failing_in_one_line

__all__ = ["check_port", "serve_command"]

_NEVER_SERVED = 3
"""The exit code of a server that never served: its port or its database cannot be had."""


def serve_command(
    data: DataOption = DEFAULT_DATA,
    host: Annotated[str, typer.Option(envvar="KINBIN_HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="KINBIN_PORT", min=0, max=65_535, help="Port to listen on; 0 lets the system choose.")] = 8080,
    workers: Annotated[int, typer.Option(envvar="KINBIN_WORKERS", min=1, max=256, help="Server processes; all share the directory.")] = 1,
    insecure: Annotated[
        bool, typer.Option("--insecure", envvar="KINBIN_INSECURE", help="Listen beyond this machine without an API key.")
    ] = False,
    allowed_hosts: Annotated[
        str | None,
        typer.Option(
            "--allowed-host",
            envvar="KINBIN_ALLOWED_HOSTS",
            metavar="A,B",
            help="Names that requests may be sent to, besides loopback ones and --host; looked at without a key, or when any are set.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log JSON lines on a terminal, too.")] = False,
) -> None:
    """Serve a database over HTTP: the REST API, with /docs, /healthz and /readyz beside it.

    The directory is created if absent. Without API keys (KINBIN_API_KEY, KINBIN_API_KEY_FILE, or KINBIN_API_KEYS_FILE for several
    with roles, which `kinbin key` makes) the service listens on loopback addresses only, and answers only requests that are sent to a
    loopback name, to --host or to an --allowed-host: no web page of elsewhere gets through to it. It logs to standard error, in short
    lines on a terminal and in JSON elsewhere. SIGTERM and Ctrl-C end it after the requests under way are answered.
    """
    with failing_in_one_line():
        check_port(host, port)
        try:
            with collector_paused():
                from kinbin_service.server import run
        except ModuleNotFoundError as error:
            raise Failure(f"the server needs {error.name}: {install('service')}") from None
        try:
            run(
                data=data, host=host, port=port, workers=workers, insecure=insecure, allowed_hosts=allowed_hosts,
                log_format="json" if as_json else None,
            )  # fmt: skip
        except ValueError as error:
            raise Failure(str(error), 2) from None


def check_port(host: str, port: int) -> None:
    """See that the address can be listened on, for a clearer message than the server's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise Failure(f"--host {host} is not an address of this machine ({error.strerror})", _NEVER_SERVED) from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise Failure(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another --port (PORT=… with make), or end what listens there",
                _NEVER_SERVED,
            ) from None
