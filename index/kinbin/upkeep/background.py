"""The background threads of a collection: one seals and merges after writes, and once more when they have ended; one links.

Nothing that is raised ends them. What fails is logged (a warning; its traceback when debugging), counted, shown by
`Collection.stats`, and tried again after pauses that double up to a minute.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kinbin.errors import Closed, CollectionNotFound, KinbinError
from kinbin.upkeep.sealing import SEAL_ROWS

__all__ = ["IndexThread", "LinkThread", "UpkeepThread"]

BACKLOG_ROWS = 8 * SEAL_ROWS
"""Fresh rows beyond which a write waits for sealing."""
CALM_SECONDS = 2e-6
"""For each row that is left to the backlog, so long no write looks how many are fresh: ten processes do not add a row in that time."""
LOOK_PAUSE = 0.02
"""Seconds between two looks while writes come: each of them wakes the thread, and a look takes as long as a small write."""
QUIET_SECONDS = 2.0
"""Without a write for so long, runs are merged that could wait while rows arrive."""
PATIENCE = 5
"""Quiet times that the links wait for, while writes go on."""
LOW_PRIORITY = 15
INDEX_PAUSE = 0.25
"""Seconds between two looks at payload indexes."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before work that failed is tried again."""
_DETAIL_CHARACTERS = 300

log = logging.getLogger("kinbin.upkeep")


class _BackgroundThread:
    """A daemon thread that works when it is woken. It is started when it is first needed, and again should it have ended."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failures = 0
        self._in_a_row = 0
        self._last_failure: dict[str, str] | None = None

    def report(self) -> dict[str, Any]:
        """What failed since the collection was opened in this process, as plain data; in_a_row is 0 after a success."""
        return {"failures": self._failures, "in_a_row": self._in_a_row, "last_failure": self._last_failure}

    def stop(self) -> None:
        """End the thread; waits for the step at hand."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(120)

    def _start(self) -> None:
        """See that the thread runs."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The process has as many threads as it may. The write that asks is on disk: this is not its error.
                self._note(error)
            else:
                self._thread = thread

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self._work()
            except (Closed, CollectionNotFound):
                # There is nothing left to work on.
                continue
            except BaseException as error:  # noqa: BLE001 - whatever it is, rows that come later want to be sealed and linked
                self._stop.wait(self._note(error))
                self._wake.set()
            else:
                self._in_a_row = 0

    def _note(self, error: BaseException) -> float:
        """Log and remember a failure. Returns the seconds to wait before the work is tried again."""
        self._failures += 1
        self._in_a_row += 1
        pause = pause_after(self._in_a_row)
        # An error that cannot be told, or a log that cannot be written, ends the thread no more than the failure itself.
        with contextlib.suppress(BaseException):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._last_failure = {"time": now, "error": type(error).__name__, "detail": ""}
            # What a file name or a foreign text may hold is no UTF-8.
            detail = str(error)[:_DETAIL_CHARACTERS].encode("utf-8", "backslashreplace").decode()
            self._last_failure = self._last_failure | {"detail": detail}
            log.warning("%s failed (%s: %s); it is tried again in %g s", self._name, type(error).__name__, detail, pause)
            log.debug("%s failed here", self._name, exc_info=error)
        return pause

    def _work(self) -> None:
        """Do what is due."""
        raise NotImplementedError


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30)))


class UpkeepThread(_BackgroundThread):
    """Seals and merges one collection when there may be something to do."""

    def __init__(self, name: str, step: Callable[[bool], bool], backlog: Callable[[], int]) -> None:
        super().__init__(f"kinbin-upkeep-{name}")
        self._step = step
        self._backlog = backlog
        self._writes = 0
        self._calm_until = 0.0
        self._fails_in_quiet = False
        """Whether what is done in quiet times failed the last time."""

    def look(self) -> None:
        """Look whether there is something to do."""
        self._start()
        if not self._wake.is_set():
            # Who was told before and has not looked yet sees what there is now.
            self._wake.set()

    def wake(self) -> None:
        """Tell of a write; waits while sealing is far behind, so that fresh rows stay few."""
        self._writes += 1
        self.look()
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline and self._is_behind() and not self._stop.wait(0.05):
            pass

    def _is_behind(self) -> bool:
        if time.monotonic() < self._calm_until:
            return False
        try:
            left = BACKLOG_ROWS - self._backlog()
        except KinbinError:
            # The write that is told of is on disk: whatever keeps this look from succeeding is not its error.
            return False
        self._calm_until = time.monotonic() + CALM_SECONDS * max(0, left)
        return left < 0

    def _work(self) -> None:
        while not self._stop.is_set():
            while not self._stop.is_set() and self._step(False):
                pass
            if not self._fails_in_quiet:
                # Writes may go on for days: what succeeds now has succeeded.
                self._in_a_row = 0
            seen = self._writes
            if self._wake.wait(QUIET_SECONDS) or self._writes != seen:
                self._stop.wait(LOOK_PAUSE)
                self._wake.clear()
                continue
            self._fails_in_quiet = True
            while not self._stop.is_set() and self._step(True):
                pass
            self._fails_in_quiet = False
            return


class LinkThread(_BackgroundThread):
    """Links one collection, at low priority, when there may be something to link."""

    def __init__(self, name: str, step: Callable[..., bool], done: Callable[[], None]) -> None:
        super().__init__(f"kinbin-links-{name}")
        self._step = step
        self._done = done

    def wake(self) -> None:
        """Tell of a change."""
        self._wake.set()
        self._start()

    def _work(self) -> None:
        _give_way()
        # Writes come in many: the links wait for a pause, but not for ever.
        busy = 0
        self._wake.set()
        while self._wake.is_set() and busy < PATIENCE and not self._stop.wait(QUIET_SECONDS):
            self._wake.clear()
            busy += 1
            self._stop.wait(0.1)
        self._wake.clear()
        quiet = busy < PATIENCE
        while not self._stop.is_set() and not self._step(quiet=quiet):
            self._stop.wait(QUIET_SECONDS)
        self._done()
        if not quiet:
            # Writes may have ended just now, and nothing else tells of what is due once they have.
            self._wake.set()


class IndexThread(_BackgroundThread):
    """Builds and saves the payload indexes of one collection, at low priority."""

    def __init__(self, name: str, step: Callable[[], bool]) -> None:
        super().__init__(f"kinbin-indexes-{name}")
        self._step = step

    def wake(self) -> None:
        """Tell of a change."""
        self._wake.set()
        self._start()

    def _work(self) -> None:
        _give_way()
        while not self._stop.is_set() and not self._step():
            # Another process is at it.
            self._stop.wait(0.1)
        # Writes come in many, and each wakes it.
        self._stop.wait(INDEX_PAUSE)


def _give_way() -> None:
    """Let queries go first: the calling thread has low priority from now on."""
    if sys.platform == "linux":
        # Elsewhere threads have no priority of their own, or it is not set by this number.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
