"""Finished cells, a line each: what a killed run leaves behind is where the next one goes on."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["FILE", "Busy", "Finished", "Ledger", "opened", "read", "written"]

FILE = "cells.jsonl"


class Busy(Exception):
    """Another run writes to the same folder."""


@dataclass(frozen=True)
class Finished:
    """What was measured of a cell."""

    cell: str
    """The key of the cell in the plan."""
    by_cost: dict[str, float]
    """Test accuracy in per cent by C."""
    seconds: float
    """Of one core."""
    rows: tuple[int, int, int]
    """Rows of training and of test, and features of a row before linearisation."""
    by: str
    """The versions it was measured with."""

    @property
    def best(self) -> tuple[float, float]:
        """The best accuracy, and the least C that has it."""
        cost, accuracy = max(self.by_cost.items(), key=lambda one: (one[1], -float(one[0])))
        return accuracy, float(cost)


def read(file: Path) -> tuple[dict[str, Finished], int]:
    """The finished cells of a file by their keys, and the length of its whole lines in bytes.

    A last line without an end is one that was being written when its run was killed: it counts as not written.
    """
    content = file.read_bytes() if file.exists() else b""
    whole = content.rfind(b"\n") + 1
    cells = {}
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            fields: dict[str, Any] = json.loads(line)
            cells[fields["cell"]] = Finished(**{**fields, "rows": tuple(fields["rows"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}, line {number} is no finished cell ({error}); take it out to measure that cell again") from error
    return cells, whole


def written(finished: Finished) -> bytes:
    """The line of a cell."""
    return json.dumps(asdict(finished), ensure_ascii=False).encode() + b"\n"


class Ledger:
    """The file of one folder, open for one run at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / FILE
        self._stream = self.file.open("ab")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._stream.close()
            raise Busy(f"another run writes to {self.file}") from error
        self.cells, whole = read(self.file)
        self._stream.truncate(whole)

    def add(self, finished: Finished) -> None:
        """Append a cell; once this returns it survives a crash of the machine."""
        self._stream.write(written(finished))
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.cells[finished.cell] = finished

    def close(self) -> None:
        """Let another run write."""
        self._stream.close()


@contextmanager
def opened(folder: Path) -> Iterator[Ledger]:
    """The ledger of a folder, closed at the end."""
    ledger = Ledger(folder)
    try:
        yield ledger
    finally:
        ledger.close()
