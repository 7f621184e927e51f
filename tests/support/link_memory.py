"""Processes that link with little memory, or in files until they are killed."""

from __future__ import annotations

import ctypes
import gc
import resource
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import kinbin
import kinbin.upkeep.drafts
from linked import names, still

__all__ = ["data_bytes", "link_in_files", "link_with_little_memory", "prepare", "take_memory_anew", "take_what_is_free"]

ROWS, SMALL = 60_000, 3_000
DIM = 8
ROOM = 20 << 20
"""What linking may take beyond what the process has. It takes 13 MiB with link_bytes of 1 MiB, in memory 33 (anew) or 40 (extended)."""
_OWN_BYTES = 65_536
"""Arrays of so many bytes are memory of their own, for which the system is asked."""


def data_bytes() -> int:
    """Private memory that this process may write to: what RLIMIT_DATA limits."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1_024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))


def take_memory_anew() -> None:
    """From now on arrays are memory of their own, given back when they are let go of: what was free before would hide what they take."""
    # M_MMAP_THRESHOLD of glibc, which else grows with what is let go of.
    ctypes.CDLL(None).mallopt(-3, _OWN_BYTES)


def take_what_is_free() -> None:
    """Take what lies free in the heap: how much that is depends on what this process, and the one it is a fork of, did before."""
    system = ctypes.CDLL(None)
    system.malloc.restype, system.malloc.argtypes, system.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    size = 1 << 26
    while size >= _OWN_BYTES:
        before = data_bytes()
        taken = system.malloc(size)
        if data_bytes() > before:
            # Nothing of this size was free: the system gave it.
            system.free(taken)
            size //= 2


def prepare(path: Path, steps: str) -> None:
    """A closed database of two collections whose rows are to be linked. steps: "anew", or "extended": most of "c" are linked."""
    rows = np.random.default_rng(3).gamma(0.7, size=(ROWS, DIM)).astype(np.float32) + np.float32(1e-3)

    def grow(collection: kinbin.Collection, first: int, past: int) -> None:
        for start in range(first, past, 10_000):
            stop = min(start + 10_000, past)
            collection.add(names(range(start, stop)), rows[start:stop])
        collection.compact()

    with still(), kinbin.open(path) as database:
        small, collection = (database.create_collection(name, dim=DIM, seed=1, bands=8, rows=1) for name in ("small", "c"))
        grow(small, 0, SMALL)
        if steps == "extended":
            grow(collection, 0, ROWS - 1_000)
            collection.link()
            grow(collection, ROWS - 1_000, ROWS)
        else:
            grow(collection, 0, ROWS)


def link_with_little_memory(connection: Connection, path: str, most: int) -> None:
    """Link all rows of "c" under a limit; sends "linked", or the name of the error."""
    take_memory_anew()
    with still(), kinbin.open(path) as database:
        # So that kernels are loaded: of linking, and of linking more.
        small, collection = database.collection("small"), database.collection("c")
        small.link()
        small.add(["one more"], np.arange(1, DIM + 1, dtype=np.float32)[None])
        small.link()
        assert collection.count() == ROWS
        assert len(collection.query(np.ones(DIM), k=1, mode="exact")) == 1
        gc.collect()
        kinbin.set_upkeep(link_bytes=most)
        take_what_is_free()
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes() + ROOM, resource.RLIM_INFINITY))
        try:
            collection.link()
            links = collection.stats()["links"]
            connection.send("linked" if links["rows"] == ROWS and links["unlinked_rows"] == 0 else str(links))
        except (MemoryError, kinbin.KinbinError) as error:
            connection.send(type(error).__name__)


def link_in_files(connection: Connection, path: str) -> None:
    """Link all in files; sends, when nodes are put in, how many maps of this process are files without a name, and waits for the end."""

    def progress(_done: int, _total: int) -> None:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        connection.send(sum(path in line and line.endswith("(deleted)") for line in maps))
        connection.recv()

    kinbin.upkeep.drafts.LINK_BYTES = 0
    with still(), kinbin.open(path) as database:
        database.collection("c").link(progress)
