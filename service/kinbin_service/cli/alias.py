"""`kinbin alias` and `kinbin limit`: other names of collections, and what these may hold."""

from __future__ import annotations

from typing import Annotated

import typer

from kinbin_service.cli.options import JsonOption, PlaceDataOption, UrlOption
from kinbin_service.cli.output import failing_in_one_line, print_json
from kinbin_service.cli.place import place

__all__ = ["alias_command", "limit_command"]


def alias_command(
    name: Annotated[str | None, typer.Argument(metavar="ALIAS", help="The other name; without it, all aliases are listed.")] = None,
    collection: Annotated[str | None, typer.Argument(metavar="COLLECTION", help="The collection that it is to lead to.")] = None,
    data: PlaceDataOption = None,
    url: UrlOption = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the alias; its collection stays.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let another name lead to a collection, at once for every process, wherever it led before; or list or drop such names.

    An alias stands for its collection in every command and call that asks for one that is there. `kinbin create` and `kinbin import`
    take names of collections only.
    """
    if (drop and (name is None or collection is not None)) or (not drop and name is not None and collection is None):
        raise typer.BadParameter("give ALIAS and COLLECTION, or ALIAS and --drop, or nothing")
    with failing_in_one_line(as_json), place(data, url) as there:
        if drop and name is not None:
            there.drop_alias(name)
        elif name is not None and collection is not None:
            there.alias(name, collection)
        aliases = there.aliases()
    if as_json:
        print_json({"aliases": aliases})
    elif name is None:
        for one, leads in aliases.items():
            typer.echo(f"{one} -> {leads}")
        if not aliases:
            typer.echo("no aliases")
    else:
        typer.echo(f"{name}: dropped" if drop else f"{name} -> {collection}")


def limit_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    items: Annotated[int | None, typer.Option(min=0, metavar="N", help="At most so many items.")] = None,
    size: Annotated[int | None, typer.Option("--bytes", min=0, metavar="N", help="At most so many bytes on disk.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="As much as there is room for.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show or set what a collection may hold. Adds that would pass a limit are refused; what is there stays.

    A limit that is not given is taken away when another one is set.
    """
    if clear and (items is not None or size is not None):
        raise typer.BadParameter("--clear comes alone")
    with failing_in_one_line(as_json), place(data, url) as there:
        collection = there.collection(name)
        if clear or items is not None or size is not None:
            collection.set_limits(items=items, bytes=size)
        found = collection.limits()
        told = found if isinstance(found, dict) else {"items": found.items, "bytes": found.bytes}
        count = collection.count()
    if as_json:
        print_json({"collection": name, **told, "count": count})
    else:
        most = ", ".join(f"at most {value:,} {what}" for what, value in told.items() if value is not None)
        typer.echo(f"{name}: {most or 'no limits'}; {count:,} items")
