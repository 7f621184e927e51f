"""Turns: a read that takes long lets others go first."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from kinbin_service import admission as admission_module
from kinbin_service.admission import Admission, Cancel
from service_app import eventually


async def never() -> None:
    """A client that stays."""
    await asyncio.Event().wait()


def long(cancel: Cancel, seconds: float, told: list[str], name: str) -> Callable[[], str]:
    """A read that takes so long, without what it lets others go first for, and looks every hundredth of a second."""

    def call() -> str:
        told.append(f"{name} begins")
        left = seconds
        while left > 0:
            if cancel.is_set():
                raise InterruptedError
            began = time.perf_counter()
            time.sleep(0.01)
            left -= time.perf_counter() - began
        told.append(f"{name} ends")
        return name

    return call


async def test_a_long_read_lets_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thread for reads, a short one waits for a turn of the long one, not for its end; long ones take turns."""
    monkeypatch.setattr(admission_module, "_LONGEST_PAUSE_SECONDS", 30.0)
    admission, told = Admission(2, 8, 30.0, read_threads=1), list[str]()
    cancels = [Cancel(), Cancel()]
    both = [
        asyncio.create_task(admission.run(long(cancel, 60.0, told, name), writes=False, gone=never, cancel=cancel))
        for cancel, name in zip(cancels, "ab", strict=True)
    ]
    await eventually(lambda: "b begins" in told)
    for _ in range(3):
        assert await asyncio.wait_for(admission.run(lambda: "short", writes=False, gone=never), 20) == "short"
    assert told == ["a begins", "b begins"]
    for cancel in cancels:
        cancel.set()
    assert [type(error) for error in await asyncio.gather(*both, return_exceptions=True)] == [InterruptedError] * 2
    assert (admission.running, admission.waiting, len(admission._paused)) == (0, 0, 0)
    await admission.close()


async def test_a_read_goes_on_without_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds may be what those wait for that it let go first."""
    monkeypatch.setattr(admission_module, "_LONGEST_PAUSE_SECONDS", 0.3)
    admission, told, cancel, held = Admission(2, 8, 30.0, read_threads=1), list[str](), Cancel(), threading.Event()

    def holding() -> str:
        result = long(cancel, 0.6, told, "a")()
        held.set()
        return result

    first = asyncio.create_task(admission.run(holding, writes=False, gone=never, cancel=cancel))
    await eventually(lambda: bool(told))
    second = asyncio.create_task(admission.run(lambda: held.wait(30), writes=False, gone=never))
    assert await asyncio.wait_for(second, 20) is True
    assert await first == "a"
    assert admission.running == 0
    await admission.close()


async def test_a_paused_read_is_ended_when_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client leaves while another goes first: it ends at its turn."""
    monkeypatch.setattr(admission_module, "_LONGEST_PAUSE_SECONDS", 0.3)
    admission, told, cancel, leaving = Admission(2, 8, 30.0, read_threads=1), list[str](), Cancel(), asyncio.Event()
    first = asyncio.create_task(admission.run(long(cancel, 60.0, told, "a"), writes=False, gone=leaving.wait, cancel=cancel))
    await eventually(lambda: bool(told))
    gate = threading.Event()
    second = asyncio.create_task(admission.run(lambda: gate.wait(30), writes=False, gone=never))
    await eventually(lambda: len(admission._paused) == 1)
    leaving.set()
    with pytest.raises(InterruptedError):
        await asyncio.wait_for(first, 20)
    gate.set()
    assert await second
    assert admission.running == 0
    await admission.close()


async def test_other_threads_of_a_search_wait_for_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in parts lets go once, by the thread that was given to it; the others only look."""
    monkeypatch.setattr(admission_module, "_LONGEST_PAUSE_SECONDS", 30.0)
    admission, cancel, gate = Admission(2, 8, 30.0, read_threads=1), Cancel(), threading.Event()
    looked: list[float] = []

    def parts() -> str:
        time.sleep(0.4)
        assert gate.wait(30)

        def look() -> None:
            began = time.perf_counter()
            cancel.is_set()
            looked.append(time.perf_counter() - began)

        other = threading.Thread(target=look)
        other.start()
        other.join()
        return "done"

    first = asyncio.create_task(admission.run(parts, writes=False, gone=never, cancel=cancel))
    await eventually(lambda: admission.running == 1)
    second = asyncio.create_task(admission.run(lambda: "short", writes=False, gone=never))
    await eventually(lambda: admission.waiting == 1)
    gate.set()
    assert (await first, await second) == ("done", "short")
    assert looked[0] < 10
    await admission.close()
