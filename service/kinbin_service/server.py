"""Serving: one process, or several workers that share the data directory.

1. The port takes connections from the moment that "listening" is logged; they wait until a process accepts them.
   Workers are spawned; each opens the database itself. Settings reach them as environment variables.
2. SIGTERM and SIGINT stop listening, answer what is in flight, and end with status 0.
3. SIGHUP has the certificate read again, where there is one. Without one it ends a server that was started at a terminal, as one
   does that closes; elsewhere several workers are replaced one by one, and a single one goes on.
4. A worker whose parent has died stops by itself, so that nothing keeps the port or the data.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from uvicorn.supervisors import Multiprocess

import kinbin
from kinbin_service.app import create_app
from kinbin_service.connections import ServingConfig
from kinbin_service.keys import Keys
from kinbin_service.logs import configuration
from kinbin_service.metrics import shared_folder
from kinbin_service.settings import Settings, reached_at
from kinbin_service.tls import Certificate
from kinbin_service.tracing import check_tracing

__all__ = ["check_data", "run", "serve", "spare_the_collector", "worker_app"]

STARTUP_FAILURE = 3
SHORT_KEY = 16
"""Characters: a key that has fewer can be guessed."""
WORKER_SECONDS = 10
"""A worker that does not answer its parent for so long is replaced; parsing the largest body takes a second."""


SWITCH_SECONDS = 0.001

log = logging.getLogger("kinbin.service")


class DrainingServer(uvicorn.Server):
    """A server that ends with status 0 after a signal, having answered what was in flight."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a signal handler
        """Stop serving; a second interrupt stops waiting too. The signal is not raised again after that."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


class Supervisor(Multiprocess):
    """The parent of several workers. With TLS, SIGHUP goes on to all of them, who read the certificate again and serve on."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._at_terminal = _at_terminal()

    def terminate_all(self) -> None:
        """End all workers. First the port: a connection that the system took meanwhile would wait, and be reset."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()

    def handle_hup(self) -> None:
        """Without TLS workers are replaced one by one, as uvicorn does it, unless it is a terminal that closes."""
        if not self.config.is_ssl:
            if self._at_terminal:
                self.should_exit.set()
            else:
                super().handle_hup()
            return
        for process in self.processes:
            # One that is still starting would die of it, and reads the files anyway.
            if process.is_ready(timeout=1) and process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def _at_terminal() -> bool:
    # None: it was closed by whoever started this.
    return sys.stderr is not None and sys.stderr.isatty()


def heed_hangups(server: DrainingServer) -> None:
    """What SIGHUP does to a server of one worker without a certificate: by default it would end at once, whatever is in flight."""
    # Whoever started it with nohup has decided already.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        return
    at_terminal = _at_terminal()

    def heed(number: int, frame: FrameType | None) -> None:
        if at_terminal:
            server.handle_exit(number, frame)
        else:
            log.warning("SIGHUP changes nothing: there is no certificate to be read again")

    signal.signal(signal.SIGHUP, heed)


def run(
    settings: Settings | None = None,
    *,
    data: str | Path | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    insecure: bool | None = None,
    allowed_hosts: str | None = None,
    log_format: str | None = None,
) -> None:
    """Serve until a signal. Arguments that are given come before the environment.

    Raises ValueError for settings that cannot be, naming their variables but no values, for files of keys or certificates that
    cannot be used, or for an address that others can reach without a key. Exits with status 3 when the port or the database cannot
    be had.
    """
    given = {"data_dir": data, "host": host, "port": port, "workers": workers, "insecure": insecure}
    given |= {"allowed_hosts": allowed_hosts, "log_format": log_format}
    try:
        settings = settings or Settings()
        settings = Settings(**{**settings.model_dump(), **{name: value for name, value in given.items() if value is not None}})
    except ValidationError as error:
        raise ValueError("; ".join(_told(one["loc"], one["msg"]) for one in error.errors(include_input=False))) from None
    serve(settings, "kinbin_service.server:worker_app", check_data)


def serve(settings: Settings, app: str, check: Callable[[Settings], object] = bool) -> None:
    """Serve an application until a signal. app: where the function is that makes it from the environment, as "module:function".

    check: called once the port is had and before anything is said to be ready. Raises and exits as `run` does.
    """
    settings.check_exposure()
    settings.check_folders()
    check_tracing(settings)
    # Files that cannot be used end the server here, rather than each worker.
    Keys(settings).load()
    if settings.tls_cert_file is not None:
        Certificate(settings.tls_cert_file, settings.tls_key_file)
    settings.export()
    raise_file_limit()
    config = ServingConfig(settings, app, factory=True, **_uvicorn_options(settings))
    for name, near in Settings.misspelt(os.environ).items():
        log.warning("a variable is no setting", extra={"fields": {"name": name, "meant": near}})
    if settings.key is not None and len(settings.key) < SHORT_KEY:
        log.warning("the API key is short: it can be guessed", extra={"fields": {"characters": len(settings.key), "wanted": SHORT_KEY}})
    listening = config.bind_socket()
    check(settings)
    # Before anything is said to be ready: whoever reads that may connect at once.
    listening.listen(config.backlog)
    address = reached_at(settings.host, listening.getsockname()[1], tls=settings.tls_cert_file is not None)
    log.info("listening", extra={"fields": {"url": address, "docs": f"{address}/docs", "data": str(settings.data_dir)}})
    if settings.workers == 1:
        server = DrainingServer(config)
        if settings.tls_cert_file is None:
            heed_hangups(server)
        server.run(sockets=[listening])
        if not server.started:
            sys.exit(STARTUP_FAILURE)
        return
    supervisor = Supervisor(config, sockets=[listening])
    with shared_folder():
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        sys.exit(STARTUP_FAILURE)


def raise_file_limit() -> None:
    """Let this process, and the workers that it starts, open as many files as the system allows: a collection takes four."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS says that there is no limit, and refuses it.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _told(field: tuple[int | str, ...], message: str) -> str:
    """What is wrong with a setting, by the name of its variable; no field: with several together."""
    where = f"KINBIN_{str(field[0]).upper()}: " if field else ""
    return where + message.removeprefix("Value error, ").replace("Input should", "should")


def check_data(settings: Settings) -> None:
    """End with one line in the log, before any worker is started, when the database cannot be opened."""
    try:
        kinbin.open(settings.data_dir).close()
    except (kinbin.KinbinError, OSError) as error:
        log.critical("the database cannot be opened", extra={"fields": {"data": str(settings.data_dir), "reason": str(error)}})
        sys.exit(STARTUP_FAILURE)


def _uvicorn_options(settings: Settings) -> dict[str, Any]:
    return {
        "host": settings.host,
        "port": settings.port,
        "workers": settings.workers,
        "loop": "auto",
        "ws": "none",
        "lifespan": "on",
        "log_config": configuration(settings.log_level, settings.log_format),
        "access_log": False,  # the gate writes its own, without query strings
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": settings.drain_seconds,
        "timeout_worker_healthcheck": WORKER_SECONDS,
    }


def worker_app() -> FastAPI:
    """The application of a server process, made from its environment."""
    parent, settings = multiprocessing.parent_process(), Settings()
    if parent is not None and settings.tls_cert_file is None and threading.current_thread() is threading.main_thread():
        # A terminal that closes tells every process: the parent says what becomes of it.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if parent is not None:
        threading.Thread(target=_stop_with, args=(parent,), name="kinbin-parent-watch", daemon=True).start()
    # A thread that parses gives way to the event loop after so long; 5 ms, the default, are spent several times in an answer.
    sys.setswitchinterval(SWITCH_SECONDS)
    return create_app(settings, ready=spare_the_collector)


def spare_the_collector() -> None:
    """Take what is loaded by now out of every further garbage collection: it stays, and looking through it stops all threads."""
    gc.collect()
    gc.freeze()


def _stop_with(parent: Any) -> None:
    """Stop this process when its parent has ended."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
