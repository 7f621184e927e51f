"""Compiling in processes of their own, side by side: numba compiles under one lock, and the code reaches all processes by way of the disk.

One process at a time, of all that share a folder of code, runs such a pool; the others see what it finishes. Its lock dies with it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import kinbin.native.specialisations
from kinbin.native.machine_code import lock_byte, lock_file, writable_folder
from kinbin.native.specialisations import Specialisation, known

__all__ = ["Compiling", "compile_missing"]

_MOST_PROCESSES = 8
_TELL_SECONDS = 0.25
_POOL_BYTE = 0
"""Of the lock file; kernels have the others."""
_BOOT = "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from kinbin.compiling import work; work()"


@dataclass(frozen=True, slots=True)
class Compiling:
    """How far a warm-up is."""

    done: int
    """Kernels whose code is there."""
    total: int
    now: tuple[str, ...]
    """Kernels that are being compiled by this process's pool."""
    pending: tuple[str, ...]
    """Groups that lack a kernel."""
    share: float
    """0 to 1: of the time that compiling all of them takes."""
    seconds: float
    """Since the warm-up began."""


Progress = Callable[[Compiling], None]


class _Count:
    """What is there of the wanted kernels."""

    def __init__(self, wanted: Sequence[Specialisation], progress: Progress | None) -> None:
        self._wanted = wanted
        self._progress = progress
        self._began = time.monotonic()
        self.missing = list(wanted)
        self.look()

    def look(self) -> bool:
        """Look again on disk; whether something is missing.

        Inner kernels are missed only by outer ones that are: code that came with the package has them in it.
        """
        self.missing = [one for one in self.missing if not one.is_ready()]
        groups = {one.group for one in self.missing if not one.inner}
        self.missing = [one for one in self.missing if one.group in groups]
        return bool(self.missing)

    def tell(self, now: Sequence[str] = ()) -> None:
        """Tell how far it is. What progress raises ends the warm-up."""
        if self._progress is None:
            return
        all_seconds = sum(one.seconds for one in self._wanted)
        left = sum(one.seconds for one in self.missing)
        pending = tuple(dict.fromkeys(one.group for one in self.missing))
        share = 1.0 - left / all_seconds if left else 1.0
        done = len(self._wanted) - len(self.missing)
        self._progress(Compiling(done, len(self._wanted), tuple(now), pending, share, time.monotonic() - self._began))


def compile_missing(groups: Sequence[str], progress: Progress | None) -> None:
    """Compile what lacks code of these groups, the first group first, and of each what takes longest.

    Returns when it is there, or when no process could be started or no folder be written: callers compile what they need then.
    """
    wanted = [one for one in known() if one.group in groups]
    folder = writable_folder(Path(kinbin.native.specialisations.__file__).parent)
    count = _Count(wanted, progress)
    count.tell()
    while folder is not None and count.missing:
        with lock_file(folder) as descriptor:
            if lock_byte(descriptor, _POOL_BYTE):
                if count.look():
                    _run(count)
                return
        time.sleep(_TELL_SECONDS)
        count.look()
        count.tell()


def _run(count: _Count) -> None:
    """Compile what is missing; kernels whose process fails are left out."""
    order = list(dict.fromkeys(one.group for one in known()))
    tasks: queue.SimpleQueue[Specialisation] = queue.SimpleQueue()
    for one in sorted(count.missing, key=lambda one: (order.index(one.group), -one.seconds)):
        tasks.put(one)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes: list[_Process] = []
    try:
        for _ in range(min(cores, _MOST_PROCESSES, len(count.missing))):
            with contextlib.suppress(OSError):
                processes.append(_Process(tasks))
        while any(process.is_alive() for process in processes):
            processes[0].join(_TELL_SECONDS)
            processes.sort(key=lambda process: not process.is_alive())
            done = {one for process in processes for one in process.done}
            count.missing = [one for one in count.missing if one not in done]
            count.tell([process.now for process in processes if process.now])
    finally:
        for process in processes:
            process.end()
    count.look()
    count.tell()


class _Process(threading.Thread):
    """A process that compiles, and the thread that hands it one kernel after the other."""

    def __init__(self, tasks: queue.SimpleQueue[Specialisation]) -> None:
        super().__init__(name="kinbin-compile", daemon=True)
        self._tasks = tasks
        self.now = ""
        self.done: list[Specialisation] = []
        # A session of its own: Ctrl-C is for the process that waits. When that one dies, the pipe ends, and so does the child.
        self._child = subprocess.Popen(  # noqa: S603 - this interpreter, this package
            [sys.executable, "-c", _BOOT.format(path=sys.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            # Numba colours each of the refusals by which it chooses among overloads, which nobody reads.
            env=os.environ | {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"},
        )  # fmt: skip
        self.start()

    def run(self) -> None:
        """Hand out kernels until there are none, or the process has died."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        places = {one: place for place, one in enumerate(known())}
        with contextlib.suppress(queue.Empty, OSError, ValueError):
            while True:
                task = self._tasks.get_nowait()
                self.now = task.kernel.strip("_")
                self._child.stdin.write(f"{places[task]}\n")
                self._child.stdin.flush()
                if not self._child.stdout.readline():
                    break
                self.done.append(task)
        self.now = ""

    def end(self) -> None:
        """End the process; a kernel that it is compiling is lost."""
        self._child.kill()
        self._child.wait()
        self.join()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
