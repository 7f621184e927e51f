"""`kinbin compact`: everything merged into one run now, and with `--shrink` disk given back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kinbin_service.cli.options import CollectionOption, JsonOption, PlaceDataOption, UrlOption
from kinbin_service.cli.output import failing_in_one_line, print_json
from kinbin_service.cli.place import place

__all__ = ["compact_command"]


def compact_command(
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: CollectionOption = None,
    shrink: Annotated[bool, typer.Option("--shrink", help="Give disk that nothing uses back as well. Needs free disk for a copy.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Merge a collection into one run now: deleted rows leave the files, whose pages are used again.

    With --shrink what lives is copied into a new file, which takes the place of the old one. It may run beside a service, which goes on;
    writers wait for 6 µs an item. The old file's space is free once every process that has it open has used the collection again.
    """
    with failing_in_one_line(as_json), place(data, url) as there:
        names = [collection] if collection is not None else there.names()
        reports: dict[str, dict[str, Any]] = {}
        for name in names:
            done = there.collection(name).compact(shrink=shrink)
            reports[name] = {"before_bytes": done.before_bytes, "after_bytes": done.after_bytes, "freed_bytes": done.freed_bytes}
            if not as_json:
                typer.echo(f"{name}: {done.before_bytes:,} bytes before, {done.after_bytes:,} after")
    if as_json:
        print_json(reports)
    elif not reports:
        typer.echo(f"{there.where} holds no collections")
