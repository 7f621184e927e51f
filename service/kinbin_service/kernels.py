"""Getting the library's kernels ready while the service already answers, and telling how far that is."""

from __future__ import annotations

import logging
import multiprocessing
import sys
from collections.abc import Callable
from contextlib import ExitStack

import kinbin

__all__ = ["FIRST", "GROUPS", "Kernels"]

GROUPS = ("small", "bands", "links")
"""The library's groups of kernels, in the order in which they are compiled."""
FIRST = GROUPS[:1]
"""Groups without which the service is not ready."""
_LOG_SECONDS = 10.0

log = logging.getLogger("kinbin.service")


class _Stopped(Exception):
    """The service ends: nobody needs what is still to be compiled."""


class Kernels:
    """What a worker knows of the library's kernels. One thread changes it, any may read."""

    def __init__(self) -> None:
        self.pending: tuple[str, ...] = GROUPS
        """Groups of kernels that are still to be compiled, or at least to be looked for on disk."""
        self._state: kinbin.Compiling | None = None
        self._logged = -_LOG_SECONDS
        self._stopped = False

    def stop(self) -> None:
        """End the warm-up at hand."""
        self._stopped = True

    @property
    def compiling(self) -> bool:
        """Whether kernels are being compiled; loading those that are on disk takes a second or two."""
        state = self._state
        return state is not None and bool(state.pending)

    def count(self) -> str:
        """How many kernels are there, for people; empty if none is compiled."""
        state = self._state
        return f" ({state.done} of {state.total} are compiled)" if state is not None and state.pending else ""

    def warm_up(self, ready: Callable[[], None]) -> None:
        """Load, or compile, all kernels. Calls `ready` when those of small collections are there; what fails after that is logged."""
        with ExitStack() as stack:
            # On a terminal, unless only warnings are wanted there; workers have a log.
            on_terminal = sys.stderr.isatty() and log.isEnabledFor(logging.INFO) and multiprocessing.parent_process() is None
            show = stack.enter_context(kinbin.showing_compilation()) if on_terminal else self._log
            try:
                later = GROUPS[len(FIRST) :]
                kinbin.warm_up(lambda state: self._tell(state, show, later), FIRST)
                self.pending = later
                ready()
                self._rest(show)
            except _Stopped:
                log.info("compiling ended early")

    def _rest(self, show: Callable[[kinbin.Compiling], None]) -> None:
        try:
            kinbin.warm_up(lambda state: self._tell(state, show))
        except _Stopped:
            raise
        except Exception:
            log.exception("the rest of the warm-up failed: kernels are compiled when they are needed")
        self.pending = ()

    def _tell(self, state: kinbin.Compiling, show: Callable[[kinbin.Compiling], None], later: tuple[str, ...] = ()) -> None:
        """Note how far it is; later: groups whose turn has not come."""
        if self._stopped:
            raise _Stopped
        self._state, self.pending = state, state.pending + later
        show(state)

    def _log(self, state: kinbin.Compiling) -> None:
        if state.pending and state.seconds - self._logged >= _LOG_SECONDS:
            self._logged = state.seconds
            fields = {"done": state.done, "total": state.total, "now": state.now, "pending": state.pending}
            log.info("compiling kernels", extra={"fields": fields})
