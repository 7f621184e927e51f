"""The background threads of a collection: one seals and merges after writes, and once more when they have ended; one links."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from kinbin.errors import KinbinError
from kinbin.search.upkeep import SEAL_ROWS

__all__ = ["Janitor", "LinkThread"]

BACKLOG_ROWS = 8 * SEAL_ROWS
"""Fresh rows beyond which a write waits for sealing."""
QUIET_SECONDS = 2.0
"""Without a write for so long, runs are merged that could wait while rows arrive."""
PATIENCE = 5
"""Quiet times that the links wait for, while writes go on."""
LOW_PRIORITY = 15


class Janitor:
    """Seals and merges one collection: a daemon thread that starts when there may be something to do."""

    def __init__(self, name: str, step: Callable[[bool], bool], backlog: Callable[[], int]) -> None:
        self._name = name
        self._step = step
        self._backlog = backlog
        self._wake = threading.Event()
        self._room = threading.Event()
        self._stop = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._writes = 0

    def look(self) -> None:
        """Look whether there is something to do."""
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._stop:
                    self._thread = threading.Thread(target=self._run, name=f"kinbin-upkeep-{self._name}", daemon=True)
                    self._thread.start()
        self._wake.set()

    def wake(self) -> None:
        """Tell of a write; waits while sealing is far behind, so that fresh rows stay few."""
        self._writes += 1
        self.look()
        deadline = time.monotonic() + 30.0
        while not self._stop and time.monotonic() < deadline and self._is_behind():
            self._room.wait(0.05)

    def _is_behind(self) -> bool:
        try:
            return self._backlog() > BACKLOG_ROWS
        except KinbinError:
            # The write that is told of is on disk: whatever keeps this look from succeeding is not its error.
            return False

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait()
            self._wake.clear()
            try:
                self._work()
            except (KinbinError, OSError, MemoryError):
                # A full disk or a removed collection: the next write tries again, and tells its caller.
                time.sleep(0.5)

    def _work(self) -> None:
        while not self._stop:
            while not self._stop and self._step(False):
                pass
            seen = self._writes
            if self._wake.wait(QUIET_SECONDS) or self._writes != seen:
                self._wake.clear()
                continue
            while not self._stop and self._step(True):
                pass
            return

    def stop(self) -> None:
        """End the thread; waits for the step at hand."""
        self._stop = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(120)


class LinkThread:
    """Links one collection in the background, at low priority: a daemon thread that starts when there may be something to link."""

    def __init__(self, name: str, step: Callable[..., bool], done: Callable[[], None]) -> None:
        self._name = name
        self._step = step
        self._done = done
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Tell of a change."""
        if self._wake.is_set():
            return
        self._wake.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._stop.is_set():
                    self._thread = threading.Thread(target=self._run, name=f"kinbin-links-{self._name}", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # Queries go first. (Where threads have no priority of their own, this one has that of all.)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
        while not self._stop.is_set():
            self._wake.wait()
            # Writes come in many: the links wait for a pause, but not for ever.
            busy = 0
            while self._wake.is_set() and busy < PATIENCE and not self._stop.wait(QUIET_SECONDS):
                self._wake.clear()
                busy += 1
                self._stop.wait(0.1)
            self._wake.clear()
            try:
                while not self._stop.is_set() and not self._step(quiet=busy < PATIENCE):
                    self._stop.wait(QUIET_SECONDS)
                self._done()
            except (KinbinError, OSError, MemoryError):
                self._stop.wait(0.5)

    def stop(self) -> None:
        """End the thread; waits for the slice at hand."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(120)
