"""Progress of an import (or of linking) on standard error: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

__all__ = ["Bar", "LogLines", "Watch", "watch"]

_LOG_SECONDS = 10.0


class Watch(Protocol):
    """Follows an import, or anything else that is done row by row; a context manager around all files of a command."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def start(self, name: str, total: int, done: int) -> None:
        """A file begins (or goes on), `done` of `total` units being behind."""
        ...

    def advance(self, done: int, rows: int) -> None:
        """A batch was acknowledged: `done` units are behind now, `rows` more rows."""
        ...


def watch(console: Console) -> Watch:
    """What suits the console."""
    return Bar(console) if console.is_terminal else LogLines(console)


class _Rows(ProgressColumn):
    """Rows of this run and rows a second."""

    def render(self, task: Task) -> Text:
        rows = task.fields["rows"]
        rate = f"{rows / task.elapsed:,.0f} rows/s" if task.elapsed and rows else "– rows/s"
        return Text(f"{rows:,} rows  {rate}")


class Bar:
    """A progress bar with rows, rate and time left."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            _Rows(),
            TextColumn("time left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None
        self._rows = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def start(self, name: str, total: int, done: int) -> None:
        """Add a bar for a file."""
        self._rows = 0
        self._task = self._progress.add_task(name, total=total, completed=done, rows=0)

    def advance(self, done: int, rows: int) -> None:
        """Move the bar."""
        assert self._task is not None, "start() comes first"
        self._rows += rows
        self._progress.update(self._task, completed=done, rows=self._rows)


class LogLines:
    """One line every ten seconds, for logs and pipes."""

    def __init__(self, console: Console, every: float = _LOG_SECONDS) -> None:
        self._console, self._every = console, every
        self._name, self._total, self._first, self._rows = "", 0, 0, 0
        self._began = self._told = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def start(self, name: str, total: int, done: int) -> None:
        """A file begins."""
        self._name, self._total, self._first, self._rows = name, total, done, 0
        self._began = self._told = time.monotonic()

    def advance(self, done: int, rows: int) -> None:
        """Print a line when the last one is long enough ago."""
        self._rows += rows
        now = time.monotonic()
        if now - self._told < self._every:
            return
        self._told = now
        elapsed = now - self._began
        left = elapsed * (self._total - done) / max(1, done - self._first)
        share = done / self._total if self._total else 1.0
        line = f"{self._name}: {share:.0%}, {self._rows:,} rows, {self._rows / elapsed:,.0f} rows/s, {left:,.0f} s left"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
