"""The commands as a group: what a command line asks for, its help, and the errors of one that is not understood.

A command is made of its function when it is asked for: of forty functions the options take longer to read than most commands run. Help and
errors are plain text. Boxes and colours would take as long again, as what draws them is imported for it.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from textwrap import fill
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from kinbin_service.cli.output import told_as_json
from kinbin_service.cli.panels import panel_of
from kinbin_service.cli.words import runs

__all__ = ["Command", "Commands", "Group", "Maker"]

Maker = Callable[..., None] | typer.Typer
"""What a command is made of: its function, or a group of its own."""

_UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Of writing to standard output: of other files an error tells the name."""
_VALUES = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH"}


# The root of what is wrong with a command line: typer does not export it by its name.
_UsageError: Any = typer.BadParameter.__base__


class Command(TyperCommand):
    """A command whose options are listed under the headings of `panels`."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature of the class above
        """Write what the command does, by paragraphs and points of lists."""
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            for piece in re.split(r"\n(?=- )", paragraph):
                behind = "    " if piece.startswith("- ") else "  "
                formatter.write(fill(" ".join(piece.split()), formatter.width, initial_indent="  ", subsequent_indent=behind) + "\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options by heading, in the order in which they come."""
        under: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            record = _plainly(parameter, *record)
            common = "Arguments" if parameter.param_type_name == "argument" else "Options"
            under.setdefault(panel_of(str(self.name), str(parameter.name)) or common, []).append(record)
        for heading, records in sorted(under.items(), key=lambda one: ("Arguments", "Options").count(one[0]), reverse=True):
            with formatter.section(heading):
                formatter.write_dl(records)


def _plainly(parameter: Any, name: str, about: str) -> tuple[str, str]:
    """What is listed of a parameter: of an argument its name, of an option what stands for its value, without names of Python's types."""
    if parameter.param_type_name == "argument":
        return name.split(" <", maxsplit=1)[0], about
    return re.sub(r"<(?:list\[)?(int|float|str|Path)\b[^>]*>", lambda found: _VALUES[found[1]], name), about


class Group(TyperGroup):
    """A command that has commands of its own: its help tells of each as much as a sentence says."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature of the class above
        """Write the commands, each with the first sentence about it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(command.help or "")) for name, command in self.commands.items()])


class Commands(TyperGroup):
    """All commands, by group. With --json, a command line that is not understood is told in JSON as well."""

    groups: ClassVar[Mapping[str, Mapping[str, Maker]]]
    """The commands by heading, in the order of the help."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Made({name: maker for group in self.groups.values() for name, maker in group.items()})

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature of the class above
        """Write the commands by heading, each with the first sentence about it."""
        for heading, makers in self.groups.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<15}", _first_sentence(_about(maker))) for name, maker in makers.items()])

    def make_context(self, *asked: Any, **more: Any) -> Any:
        """What a command line asks for; help is printed here."""
        try:
            with _reader_may_leave():
                return super().make_context(*asked, **more)
        except _UsageError as error:
            if error.message.startswith("No such option"):
                error.message += ": options go behind the command"
            raise

    def invoke(self, *asked: Any) -> Any:
        """Run a command."""
        try:
            with _reader_may_leave():
                return super().invoke(*asked)
        except _UsageError as error:
            error.message = error.message.replace("Value error, ", "").replace("Input should be", "it should be")
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
        try:
            return self._run(given, prog_name, complete_var, standalone_mode, windows_expand_args, **extra)
        except OSError as error:
            if not standalone_mode or error.filename is not None or error.errno not in _UNWRITTEN:
                raise
            # What was printed could not be written: a full disk behind `> file`.
            _forget_output()
            _told_error("--json" in given, error.strerror or str(error))
            sys.exit(1)

    def _run(self, given: list[str], *asked: Any, **extra: Any) -> Any:
        prog_name, complete_var, standalone_mode, windows_expand_args = asked
        plain = "--json" not in given or not standalone_mode
        run = partial(super().main, given, prog_name, complete_var, windows_expand_args=windows_expand_args, **extra)
        if plain:
            return run(standalone_mode=standalone_mode)
        try:
            code = run(standalone_mode=False)
        except _UsageError as error:
            code = told_as_json("usage", error.format_message(), error.exit_code)
        except typer.Abort:
            code = told_as_json("interrupted", "broken off", 128 + signal.SIGINT)
        sys.exit(code or 0)


class _Made(MutableMapping[str, Any]):
    """Commands by name, each of which is made when it is asked for."""

    def __init__(self, makers: dict[str, Maker]) -> None:
        self._makers: dict[str, Any] = dict(makers)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made_of(name, self._makers[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._makers[name] = self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._makers[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _made_of(name: str, maker: Maker) -> Any:
    if not isinstance(maker, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=Command)(maker)
        return typer.main.get_command(alone)
    group = typer.main.get_command(maker)
    group.name = name
    return group


def _about(maker: Maker) -> str:
    return str(maker.info.help) if isinstance(maker, typer.Typer) else maker.__doc__ or ""


def _first_sentence(about: str) -> str:
    """What is said of a command in a list of several."""
    paragraph = " ".join(about.split("\n\n", maxsplit=1)[0].split())
    sentence, point, _ = paragraph.partition(". ")
    return sentence + point.strip()


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Where nobody reads its output any more a command ends without a word, as other programs do: `kinbin stats | head -1`."""
    try:
        yield
    except (BrokenPipeError, SystemExit) as error:
        # Of a broken pipe rich makes an end with the code 1.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _forget_output()
        raise typer.Exit(128 + signal.SIGPIPE) from None


def _forget_output() -> None:
    """What is buffered yet would fail once more when the interpreter ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told_error(as_json: bool, message: str) -> None:
    if as_json:
        told_as_json("os_error", message, 1)
    else:
        typer.echo(f"Error: {message}", err=True)
