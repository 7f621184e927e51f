"""The shim of shim.c: compiled by the test, loaded into a nursery, and driven from inside its children."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

WRITES, SYNCS, META = 1, 2, 4
"""Operations that can be made to fail: writes of pages, syncs, writes of a meta page."""


def compile_shim(folder: Path) -> Path:
    """The compiled shim.

    Raises:
        NotImplementedError: it cannot be made or used here, with the reason.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux":
        raise NotImplementedError("the shim needs Linux (LD_PRELOAD and /proc)")
    if compiler is None:
        raise NotImplementedError("there is no C compiler to make the shim with")
    target = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wno-nonnull-compare", "-o", str(target), str(source), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise NotImplementedError(f"the shim does not compile here: {done.stderr[-500:]}")
    return target


class Shim:
    """The loaded shim, seen from the process that it stands before."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_calls.restype = ctypes.c_int64

    def record(self, path: str) -> None:
        """Record all writes and syncs of data files from now on."""
        self._library.shim_record(path.encode())

    def note(self, number: int) -> None:
        """Put a number into the record, between what was done before and after."""
        self._library.shim_note(ctypes.c_uint64(number))

    def fail(self, operations: int, *, skip: int, times: int, error: int, partial: bool = False) -> None:
        """Let some calls pass, then make some fail (-1: all) with an errno, or write half and say so."""
        self._library.shim_fail(operations, ctypes.c_int64(skip), ctypes.c_int64(times), error, int(partial))

    def calls(self) -> int:
        """Calls of the kinds that may fail since `fail`; then nothing fails any more."""
        calls = int(self._library.shim_calls())
        self._library.shim_fail(0, ctypes.c_int64(0), ctypes.c_int64(0), 0, 0)
        return calls
