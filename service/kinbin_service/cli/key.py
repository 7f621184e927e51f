"""`kinbin key`: API keys for the file that a server reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinbin_service.cli.commands import Command, Group
from kinbin_service.cli.options import JsonOption
from kinbin_service.cli.output import Failure, failing_in_one_line, print_json
from kinbin_service.key_file import ROLES, KeyFileError, line_of, new_key, parse, read

__all__ = ["key_app"]

key_app = typer.Typer(
    cls=Group,
    help="API keys for the file that KINBIN_API_KEYS_FILE names.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@key_app.command("new", cls=Command)
def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is: the access log has it.")],
    role: Annotated[str, typer.Option(help=f"What it may do: {', '.join(ROLES)}. write may read, too, and admin everything.")] = "read",
    collections: Annotated[str, typer.Option(metavar="A,B", help="The only collections that it may ask for; all without it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Print a new key, and the line of it for the file.

    The key itself is kept nowhere: give it to whoever asks with it. The line holds its SHA-256 only. Servers read their file again when
    it changes. To rotate a key, add the line of the new one, and take the old one's away when nobody uses it any more.
    """
    with failing_in_one_line(as_json):
        only = [one for one in collections.split(",") if one]
        key = new_key()
        try:
            line = line_of(key, name, role, only)
        except KeyFileError as error:
            raise Failure(str(error).removeprefix("line 1: "), 2) from None
    if as_json:
        print_json({"key": key, "line": line})
    else:
        typer.echo(f"key:   {key}")
        typer.echo(f"line:  {line}")


@key_app.command("check", cls=Command)
def check_command(file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of keys.")], as_json: JsonOption = False) -> None:
    """Say which keys a file holds, or what is wrong with it (exit code 1)."""
    with failing_in_one_line(as_json):
        try:
            keys = parse(read(file))
        except KeyFileError as error:
            raise Failure(f"{file}: {error}") from None
    listed = [{"name": key.name, "role": key.role, "collections": sorted(key.collections or ())} for key in keys]
    if as_json:
        print_json({"keys": listed})
    else:
        for one in listed:
            typer.echo(f"{one['name']}  {one['role']}  {', '.join(one['collections']) or 'all collections'}")
