"""What all commands print, and how they fail: one line on standard error, for people or as JSON, and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
import typer

from kinbin_service.cli.words import in_its_words

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Failure", "bands_of", "error_console", "failing_in_one_line", "one_line", "output_console", "print_json", "tell", "told_as_json",
]  # fmt: skip

_ANY_WIDTH = 10_000
EXIT_CODES = {"usage": 2, "over_limit": 3}
"""Exit codes of errors that programs may want to tell from others; 1 is that of all others."""


class Failure(Exception):
    """Why a command cannot go on, in one line for people; `code` is its exit code, `kind` names it for programs."""

    def __init__(self, message: str, code: int | None = None, kind: str = "failed") -> None:
        super().__init__(message)
        self.code = EXIT_CODES.get(kind, 1) if code is None else code
        self.kind = "usage" if code == 2 else "interrupted" if self.code > 128 else kind


@contextmanager
def failing_in_one_line(as_json: bool = False) -> Iterator[None]:
    """Turn the errors that users can meet into one line on standard error and an exit code; mistakes of the program pass through."""
    try:
        yield
    except KeyboardInterrupt:
        _fail("interrupted", "broken off", 128 + signal.SIGINT, as_json)
    except Failure as error:
        _fail(error.kind, str(error), error.code, as_json)
    except BrokenPipeError:
        raise  # the group of commands ends without a word
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail("os_error", where + (error.strerror or str(error)), 1, as_json)
    except Exception as error:
        if not isinstance(error, _known()):
            raise
        kind = getattr(error, "code", None) or "failed"
        _fail(kind, in_its_words(str(error)), EXIT_CODES.get(kind, 1), as_json)


def _known() -> tuple[type[Exception], ...]:
    """Errors that users can meet. Asked for when there is one: most commands import little."""
    import kinbin
    from kinbin_service.importing import SourceError, TargetDiffers

    try:
        from kinbin_client.errors import KinbinClientError
    except ModuleNotFoundError:
        return kinbin.KinbinError, SourceError, TargetDiffers
    return kinbin.KinbinError, SourceError, TargetDiffers, KinbinClientError


def _fail(kind: str, message: str, code: int, as_json: bool) -> NoReturn:
    """End with an error: a line for people, or `{"error": {"code", "message", "exit_code"}}` on one line."""
    if as_json:
        told_as_json(kind, message, code)
    else:
        tell(error_console(), f"Error: {one_line(message)}", "bold red")
    raise typer.Exit(code)


def told_as_json(kind: str, message: str, code: int) -> int:
    """Print an error as JSON; its exit code."""
    typer.echo(orjson.dumps({"error": {"code": kind, "message": one_line(message), "exit_code": code}}).decode(), err=True)
    return code


def output_console() -> Console:
    """Standard output as it is now, for tables. Its end is told by the error that it is, not by an exit code of rich's own."""
    from rich.console import Console

    class Paper(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output")

    # In a pipe or a file nothing is cut, unless a width is asked for.
    return Paper(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _ANY_WIDTH)


def error_console() -> Console:
    """Standard error as it is now."""
    from rich.console import Console

    return Console(stderr=True)


def tell(console: Console, line: str, style: str = "") -> None:
    """One line as it is: no markup, no wrapping."""
    from rich.text import Text

    console.print(Text(line, style=style), soft_wrap=True)


def one_line(text: str) -> str:
    """A text without its line breaks and indentation."""
    return " ".join(text.split())


def bands_of(bands: int, rows: int) -> str:
    """Bands, and the hashes of each, in words."""
    return f"{bands:,} bands of {rows} {'hash' if rows == 1 else 'hashes'} each"


def print_json(content: Any) -> None:
    """JSON for programs, on standard output."""
    typer.echo(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2).decode())
