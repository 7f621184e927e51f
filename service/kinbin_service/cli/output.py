"""What all commands print, and how they fail: one line on standard error, for people or as JSON, and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from kinbin_service.cli.panels import panel_of
from kinbin_service.cli.words import in_its_words, runs

__all__ = ["Commands", "Failure", "bands_of", "error_console", "failing_in_one_line", "one_line", "output_console", "print_json", "tell"]


# The root of what is wrong with a command line: typer does not export it by its name.
_UsageError: Any = typer.BadParameter.__base__


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
        raise  # `Commands.invoke` ends without a word
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
        _told(kind, message, code)
    else:
        tell(error_console(), f"Error: {one_line(message)}", "bold red")
    raise typer.Exit(code)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Where nobody reads its output any more a command ends without a word, as other programs do: `kinbin stats | head -1`."""
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:
        # Of a broken pipe rich makes an end with the code 1.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        with suppress(OSError, ValueError):
            # What is buffered yet would fail once more when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from None


class Commands(TyperGroup):
    """The commands. With --json, a command line that is not understood is told in JSON as well."""

    def get_command(self, *asked: Any) -> Any:
        """A command; its options come under the headings of `panels`."""
        found: Any = super().get_command(*asked)
        for option in getattr(found, "params", ()):
            if panel := panel_of(str(found.name), str(option.name)):
                option.rich_help_panel = panel
        return found

    def make_context(self, *asked: Any, **more: Any) -> Any:
        """What a command line asks for; help is printed here."""
        with _reader_may_leave():
            return super().make_context(*asked, **more)

    def invoke(self, *asked: Any) -> Any:
        """Run a command."""
        try:
            with _reader_may_leave():
                return super().invoke(*asked)
        except _UsageError as error:
            own = {one.name: one for one in getattr(getattr(error.ctx, "command", None), "params", ())}
            names = own.get("collection") or own.get("collections")
            if error.message.startswith("Got unexpected extra argument") and names is not None:
                error.message += f": the collection is given by {names.opts[0]}"
            raise

    def resolve_command(self, *asked: Any) -> Any:
        """The command that a line asks for; errors are told in its words."""
        found = super().resolve_command(*asked)
        runs(found[1])
        return found

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line."""
        given = list(sys.argv[1:] if args is None else args)
        plain = "--json" not in given or not standalone_mode
        run = partial(super().main, given, prog_name, complete_var, windows_expand_args=windows_expand_args, **extra)
        if plain:
            return run(standalone_mode=standalone_mode)
        try:
            code = run(standalone_mode=False)
        except _UsageError as error:
            code = _told("usage", error.format_message(), error.exit_code)
        except typer.Abort:
            code = _told("interrupted", "broken off", 128 + signal.SIGINT)
        sys.exit(code or 0)


def _told(kind: str, message: str, code: int) -> int:
    """Print an error as JSON; its exit code."""
    typer.echo(orjson.dumps({"error": {"code": kind, "message": one_line(message), "exit_code": code}}).decode(), err=True)
    return code


class _Paper(Console):
    """Standard output, whose end is told by the error that it is, and not by an exit code of rich's own."""

    def on_broken_pipe(self) -> None:
        """Nobody reads any more."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads the output")


def output_console() -> Console:
    """Standard output as it is now, for tables."""
    return _Paper()


def error_console() -> Console:
    """Standard error as it is now."""
    return Console(stderr=True)


def tell(console: Console, line: str, style: str = "") -> None:
    """One line as it is: no markup, no wrapping."""
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
