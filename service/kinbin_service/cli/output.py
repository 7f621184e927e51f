"""What all commands print, and how they fail: one line on standard error and an exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.text import Text

__all__ = ["Failure", "error_console", "failing_in_one_line", "one_line", "print_json", "tell"]


class Failure(Exception):
    """Why a command cannot go on, in one line for people; `code` is its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def failing_in_one_line() -> Iterator[None]:
    """Turn the errors that users can meet into one line on standard error and an exit code; mistakes of the program pass through."""
    try:
        yield
    except KeyboardInterrupt:
        _fail("broken off", 128 + signal.SIGINT)
    except Failure as error:
        _fail(str(error), error.code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(where + (error.strerror or str(error)))
    except Exception as error:
        if not isinstance(error, _known()):
            raise
        _fail(str(error))


def _known() -> tuple[type[Exception], ...]:
    """Errors that users can meet. Asked for when there is one: most commands import little."""
    import kinbin
    from kinbin_service.importing import SourceError, TargetDiffers

    try:
        from kinbin_client.errors import KinbinClientError
    except ModuleNotFoundError:
        return kinbin.KinbinError, SourceError, TargetDiffers
    return kinbin.KinbinError, SourceError, TargetDiffers, KinbinClientError


def _fail(message: str, code: int = 1) -> NoReturn:
    tell(error_console(), f"Error: {one_line(message)}", "bold red")
    raise typer.Exit(code)


def error_console() -> Console:
    """Standard error as it is now."""
    return Console(stderr=True)


def tell(console: Console, line: str, style: str = "") -> None:
    """One line as it is: no markup, no wrapping."""
    console.print(Text(line, style=style), soft_wrap=True)


def one_line(text: str) -> str:
    """A text without its line breaks and indentation."""
    return " ".join(text.split())


def print_json(content: Any) -> None:
    """JSON for programs, on standard output."""
    typer.echo(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2).decode())
