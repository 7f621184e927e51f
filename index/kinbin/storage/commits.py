"""Who is told how long commits took: what a service measures of its disk, without a look into the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kinbin.errors import InvalidInput

__all__ = ["tell_of_commit", "watch_commits"]

log = logging.getLogger("kinbin.storage")

_lock = threading.Lock()
_watchers: tuple[Callable[[float], object], ...] = ()


def watch_commits(watcher: Callable[[float], object]) -> Callable[[], None]:
    """Call watcher(seconds) after each commit of this process, of any collection, upkeep's included. Returns what ends that.

    seconds: what writing and syncing the transaction took, without what was done inside of it. The call comes when the commit is
    on disk, in the thread that made it, which holds the writer: it has to be quick. What it raises is logged, and changes nothing.
    """
    if not callable(watcher):
        raise InvalidInput.of("bad_parameter", f"watcher is a function of seconds, not {type(watcher).__name__}", field="watcher")
    global _watchers  # noqa: PLW0603 - commits are the process's, and are told without a lock
    with _lock:
        _watchers = (*_watchers, watcher)

    def stop() -> None:
        global _watchers  # noqa: PLW0603
        with _lock:
            _watchers = tuple(one for one in _watchers if one is not watcher)

    return stop


def tell_of_commit(seconds: float) -> None:
    """Tell every watcher."""
    for watcher in _watchers:
        try:
            watcher(seconds)
        except Exception:
            # What is on disk is on disk: whoever counts it may fail without that being the writer's error.
            log.exception("a watcher of commits failed")
