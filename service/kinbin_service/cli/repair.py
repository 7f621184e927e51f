"""`kinbin repair`: what is whole of a damaged collection, made anew beside it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

import kinbin
from kinbin_service.cli.options import DEFAULT_DATA, DataOption, JsonOption, existing_database, on
from kinbin_service.cli.output import failing_in_one_line, one_line, output_console, print_json, tell

__all__ = ["repair_command"]

_SHOWN = 20
"""Ids that are listed for people; `--json` lists a thousand."""


def repair_command(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="The damaged collection. Its files stay as they are.")],
    data: DataOption = DEFAULT_DATA,
    into: Annotated[str | None, typer.Option("--into", metavar="NEW", help="Name of the new collection; default NAME-repaired.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Save what is whole of a damaged collection into a new one, and list what is lost.

    Every item whose vector is proved by its checksum is taken over; all else is made anew. Nothing may write to the collection
    meanwhile. Exit code 1 when something is lost, or may be.
    """
    with failing_in_one_line(as_json), existing_database(data) as database:
        report = database.repair(collection, into)
        meant = database.aliases().get(collection)
    if as_json:
        print_json(asdict(report))
    else:
        _show(report, collection, meant, on(data))
    if report.lost or report.bare or report.problems:
        raise typer.Exit(1)


def _show(report: kinbin.RepairReport, name: str, meant: str | None, on_data: str) -> None:
    """meant: the collection, where its name is an alias."""
    console = output_console()
    if report.stored == report.items:
        saved = f"all {report.items:,}"
    else:
        saved = f"{report.items:,}" if report.stored is None else f"{report.items:,} of {report.stored:,}"
    tell(console, f"{report.name}: {saved} items saved of {name}, which stays as it is")
    _list(console, "items are lost: no checksum proves their vectors", report.lost, report.lost_ids)
    _list(console, "items have lost their payload, if they had one", report.bare, report.bare_ids)
    for problem in report.problems:
        tell(console, f"  {one_line(problem)}")
    if not (report.lost or report.bare or report.problems):
        tell(console, "  nothing that repair reads of it is damaged: unless something else told of damage, this copy is not needed")
    drop, alias = f"`kinbin drop {meant or name} --damaged{on_data}`", f"`kinbin alias {name} {report.name}{on_data}`"
    # A name is free for an alias when the collection is gone; a collection can go when no alias leads to it.
    tell(console, f"Then: {drop}, and {alias}" if meant is None else f"Then: {alias}, and {drop}")


def _list(console: Any, what: str, count: int, ids: list[str]) -> None:
    if count:
        tell(console, f"  {count:,} {what}:", "bold red")
        tell(console, f"    {one_line(', '.join(ids[:_SHOWN]))}{' …' if count > _SHOWN else ''}")
