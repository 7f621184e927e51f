"""When rows are linked: once writes have paused, or after some seconds of writes without a pause."""

from __future__ import annotations

import time

import pytest

from kinbin.upkeep import background
from kinbin.upkeep.background import LinkThread

PAUSE = 0.05


def _thread(patch: pytest.MonkeyPatch, seen: list[bool]) -> LinkThread:
    """A thread whose work is to note whether writes had paused."""
    patch.setattr(background, "QUIET_SECONDS", PAUSE)

    def step(*, quiet: bool) -> bool:
        seen.append(quiet)
        return True

    return LinkThread("test", step, lambda: None)


def test_what_is_due_in_a_pause_is_done_after_writes_that_never_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes end in just the moment in which the thread has lost its patience: it looks again once they have paused."""
    seen: list[bool] = []
    thread = _thread(monkeypatch, seen)
    try:
        deadline = time.monotonic() + 30
        while False not in seen and time.monotonic() < deadline:
            thread.wake()
            time.sleep(PAUSE / 50)
        assert False in seen, "it did not wait for a pause for ever"
        del seen[:]
        # No write any more.
        while True not in seen and time.monotonic() < deadline:
            time.sleep(PAUSE)
        assert True in seen
    finally:
        thread.stop()


def test_writes_that_pause_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few writes, and one look behind them."""
    seen: list[bool] = []
    thread = _thread(monkeypatch, seen)
    try:
        thread.wake()
        deadline = time.monotonic() + 30
        while not seen and time.monotonic() < deadline:
            time.sleep(PAUSE / 10)
        time.sleep(4 * PAUSE)
        assert seen == [True]
    finally:
        thread.stop()
