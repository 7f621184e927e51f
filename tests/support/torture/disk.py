"""The shim of disk.c, and what a disk may hold after the power fails: files, folders and names, each as durable as it was made.

The model. What was written to a file is on disk once the file was synced, or as soon as a write returns that was made with O_DSYNC.
A name in a folder (made, moved or removed) is on disk once the folder was synced, whatever was synced below it. Of everything
else each part came through or not: pages of 4 KiB, torn between sectors of 512 bytes, in any order; changes of a folder in any
order ("posix"), or all changes of names in the order they were made, up to some moment ("ordered"), as journals of file systems do.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Event", "Moment", "Shim", "Tree", "compile_disk", "moments", "read_events"]

PAGE, SECTOR = 4096, 512
KILL, FAIL, SHORT = 1, 2, 3
_HEAD = struct.Struct("<BBHHQQ")


def compile_disk(folder: Path) -> Path:
    """The compiled shim.

    Raises:
        NotImplementedError: it cannot be made or used here, with the reason.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        raise NotImplementedError("the shim needs Linux and a C compiler")
    target, source = folder / "disk.so", Path(__file__).with_name("disk.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wno-nonnull-compare", "-o", str(target), str(source), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise NotImplementedError(f"the shim does not compile here: {done.stderr[-500:]}")
    return target


class Shim:
    """The loaded shim, seen from the process that it stands before."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.disk_calls.restype = self._library.disk_met.restype = ctypes.c_int64

    def watch(self, folder: str, record: str = "") -> None:
        """Look at all calls that change something below a folder; record them in a file."""
        self._library.disk_watch(folder.encode(), record.encode())

    def note(self, number: int) -> None:
        """Put a number into the record."""
        self._library.disk_note(ctypes.c_uint64(number))

    def plan(self, act: int, *, skip: int, times: int = 1, error: int = 0, meant_only: bool = False) -> None:
        """Let some calls pass, then do something to some of them (-1: to all further ones); meant_only: of threads that are `meant`."""
        self._library.disk_plan(act, ctypes.c_int64(skip), ctypes.c_int64(times), error, int(meant_only))

    def mean(self, on: bool = True) -> None:
        """Let the calling thread be one of those that a plan may be for, or let it be none any more."""
        self._library.disk_mean(int(on))

    def met(self) -> int:
        """Calls that something was done to since `plan`."""
        return int(self._library.disk_met())

    def calls(self) -> int:
        """Calls since `plan`; then nothing is done to them any more."""
        calls = int(self._library.disk_calls())
        self._library.disk_plan(0, ctypes.c_int64(0), ctypes.c_int64(0), 0, 0)
        return calls


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a record; see disk.c for its kinds."""

    kind: str
    direct: bool
    path: str
    other: str
    offset: int
    data: bytes


def read_events(path: Path) -> list[Event]:
    """The events of a record, in order."""
    data = path.read_bytes()
    out, at = [], 0
    while at < len(data):
        kind, direct, first, second, offset, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        names = data[at : at + first].decode(), data[at + first : at + first + second].decode()
        at += first + second
        out.append(Event(chr(kind), bool(direct), *names, offset, data[at : at + size]))
        at += size
    return out


@dataclass(eq=False)
class _Node:
    """A file or a folder: what is on disk of it, and what is not yet."""

    folder: bool
    content: bytearray = field(default_factory=bytearray)
    names: dict[str, _Node] = field(default_factory=dict)
    """On disk."""
    now: dict[str, _Node] = field(default_factory=dict)
    """As the process sees them."""
    pending: list[tuple[int, object]] = field(default_factory=list)
    """Writes (an event) or changes of names (a list of (name, node or None)), with the number of the event."""


class Tree:
    """The folder at `root`, which is on disk, and everything that events make below it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.top = _Node(folder=True)

    def _find(self, path: str) -> _Node:
        node = self.top
        for name in self._parts(path):
            node = node.now[name]
        return node

    def _parts(self, path: str) -> list[str]:
        return [part for part in path.removeprefix(self._root).split("/") if part]

    def _parent(self, path: str) -> tuple[_Node, str]:
        *above, name = self._parts(path)
        return self._find("/".join(above)), name

    def take(self, number: int, event: Event) -> None:
        """Let an event happen."""
        if event.kind in "cd":
            self._change(number, self._parent(event.path), _Node(folder=event.kind == "d"))
        elif event.kind in "ur":
            self._change(number, self._parent(event.path), None)
        elif event.kind == "m":
            self._move(number, event)
        elif event.kind == "l":
            self._change(number, self._parent(event.other), self._find(event.path))
        elif event.kind in "wt":
            self._find(event.path).pending.append((number, event))
        elif event.kind == "s":
            self._sync(self._find(event.path))

    @staticmethod
    def _change(number: int, place: tuple[_Node, str], node: _Node | None) -> None:
        parent, name = place
        if node is None:
            parent.now.pop(name)
        else:
            parent.now[name] = node
        parent.pending.append((number, [(name, node)]))

    def _move(self, number: int, event: Event) -> None:
        (parent, name), (target, new) = self._parent(event.path), self._parent(event.other)
        node = parent.now.pop(name)
        target.now[new] = node
        if parent is target:
            # At once: a file system that may lose half a rename is none.
            parent.pending.append((number, [(name, None), (new, node)]))
        else:
            # Between two folders each half may come through alone: worse than what file systems do.
            parent.pending.append((number, [(name, None)]))
            target.pending.append((number, [(new, node)]))

    @staticmethod
    def _sync(node: _Node) -> None:
        for _, change in node.pending:
            if isinstance(change, Event):
                _write(node.content, change, change.data)
            else:
                _rename(node.names, change)
        node.pending.clear()

    def lost(self, target: Path, rng: random.Random, *, ordered: bool, last: int) -> None:
        """Make the folder `target` as the disk may be now, after event number `last`."""
        until = rng.choice((last, last, rng.randrange(-1, last + 1)))
        chance = rng.choice((0.0, 0.5, 0.9, 1.0, rng.random()))

        def make(node: _Node, place: Path) -> None:
            names = dict(node.names)
            for number, change in node.pending:
                if number <= until if ordered else rng.random() < chance:
                    _rename(names, change)
            place.mkdir()
            for name, child in names.items():
                if child.folder:
                    make(child, place / name)
                else:
                    (place / name).write_bytes(_content(child, rng, chance))

        make(self.top, target)


def _rename(names: dict[str, _Node], changes: object) -> None:
    assert isinstance(changes, list)
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _write(content: bytearray, event: Event, data: bytes, skip: int = 0) -> None:
    if event.kind == "t":
        size = event.offset
        del content[size:]
        content.extend(bytes(size - len(content)))
        return
    start = event.offset + skip
    if start > len(content):
        content.extend(bytes(start - len(content)))
    content[start : start + len(data)] = data


def _content(node: _Node, rng: random.Random, chance: float) -> bytes:
    """What may be on disk of a file."""
    content = bytearray(node.content)
    for _, event in node.pending:
        assert isinstance(event, Event)
        if event.direct or event.kind == "t":
            if event.direct or rng.random() < chance:
                _write(content, event, event.data)
            continue
        for start in range(0, len(event.data), PAGE):
            page = event.data[start : start + PAGE]
            if rng.random() < 0.125 * (0.0 < chance < 1.0):
                for sector in range(0, len(page), SECTOR):
                    if rng.random() < 0.5:
                        _write(content, event, page[sector : sector + SECTOR], start + sector)
            elif rng.random() < chance:
                _write(content, event, page, start)
    return bytes(content)


@dataclass(frozen=True, slots=True)
class Moment:
    """When the power failed: what was acknowledged then, and the disk, to be made."""

    acknowledged: int
    tree: Tree
    last: int
    ordered: bool


def moments(events: list[Event], root: str, rng: random.Random, count: int) -> Iterator[Moment]:
    """Moments in the order of time, half of them right after an acknowledgement (a note), half of them with ordered names."""
    notes = [i for i, event in enumerate(events) if event.kind == "n"]
    chosen = sorted(rng.choice(notes) if rng.random() < 0.5 else rng.randrange(len(events)) for _ in range(count))
    tree, acknowledged, position = Tree(root), 0, 0
    for moment in chosen:
        while position <= moment:
            event = events[position]
            if event.kind == "n":
                acknowledged = event.offset
            else:
                tree.take(position, event)
            position += 1
        yield Moment(acknowledged, tree, moment, rng.random() < 0.5)
