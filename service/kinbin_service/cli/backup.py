"""`kinbin backup` and `restore-backup`: all collections of a database, and their aliases, in one directory, and made anew of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kinbin
from kinbin_service.cli.options import DEFAULT_DATA, DataOption, JsonOption, existing_database
from kinbin_service.cli.output import failing_in_one_line, print_json

__all__ = ["backup_command", "restore_backup_command"]


def backup_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory for it.")],
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Write a snapshot of every collection, and the aliases, into a new directory, while others read and write.

    Each collection is as it is at one moment, each at a moment of its own. Every record is proved on the way; the directory is there whole
    or not at all. It may run beside a service.
    """
    with failing_in_one_line(as_json), existing_database(data) as database:
        _tell(database.backup(folder), f"written to {folder}", as_json)


def restore_backup_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a backup.")],
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Make all collections and aliases of a backup anew, all or none, on this machine or another; the database is made if it is absent.

    All of it is proved. Restore only backups whose maker you trust: hashes do not prove who made one.
    """
    with failing_in_one_line(as_json), kinbin.open(data) as database:
        _tell(database.restore_backup(folder), f"restored into {data}", as_json)


def _tell(report: kinbin.BackupReport, done: str, as_json: bool) -> None:
    if as_json:
        listed = [
            {"collection": one.collection, "items": one.items, "bytes": one.bytes, "sha256": one.sha256} for one in report.collections
        ]
        print_json({"collections": listed, "aliases": report.aliases})
        return
    for one in report.collections:
        typer.echo(f"{one.collection}: {one.items:,} items in {one.bytes:,} bytes")
    typer.echo(f"{len(report.collections)} collections and {len(report.aliases)} aliases {done}")
