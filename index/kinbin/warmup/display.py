"""What people see while kernels are compiled: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kinbin.warmup.pool import Compiling

__all__ = ["showing_compilation"]

_LINE_SECONDS = 10.0


@contextmanager
def showing_compilation(console: Console | None = None) -> Iterator[Callable[[Compiling], None]]:
    """A `progress` for `warm_up` that shows it, for the block: a bar on a terminal, lines elsewhere, nothing if nothing is compiled.

    console: standard error if None.
    """
    console = Console(stderr=True) if console is None else console
    display = _Bar(console) if console.is_terminal else _Lines(console)
    try:
        yield display
    finally:
        display.end()


def _now(state: Compiling) -> str:
    return f" ({', '.join(state.now)})" if state.now else ""


def _end(state: Compiling) -> str:
    return f"Compiled the kernels in {state.seconds:.0f} s: the next start takes their code from disk."


class _Bar:
    """A bar, and what is being compiled."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("Compiling"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self._task: TaskID | None = None
        self._console = console
        self._last: Compiling | None = None

    def __call__(self, state: Compiling) -> None:
        """Show a state."""
        if self._task is None and not state.pending:
            return
        fields: dict[str, Any] = {"count": f"{state.done} of {state.total} kernels", "now": ", ".join(state.now)}
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, **fields)
        self._bar.update(self._task, completed=state.share, **fields)
        self._last = state

    def end(self) -> None:
        """Take the bar away, and say how long it took."""
        self._bar.stop()
        if self._last is not None and not self._last.pending:
            self._console.print(_end(self._last), soft_wrap=True, highlight=False)


class _Lines:
    """A line at the start, every ten seconds, and at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: float | None = None

    def __call__(self, state: Compiling) -> None:
        """Show a state."""
        if self._told is None:
            if state.pending:
                self._tell(state)
        elif state.pending and state.seconds - self._told >= _LINE_SECONDS:
            self._tell(state)
        elif not state.pending and self._told >= 0.0:
            self._console.print(
                f"Compiled the kernels in {state.seconds:.0f} s: the next start takes their code from disk.", soft_wrap=True
            )
            self._told = -1.0

    def _tell(self, state: Compiling) -> None:
        self._told = state.seconds
        line = f"Compiling kernels: {state.done} of {state.total} are there, {state.seconds:.0f} s{_now(state)}"
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def end(self) -> None:
        """Nothing to take away."""
