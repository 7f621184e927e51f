"""`kinbin delete`: items, by their ids or by a filter."""

from __future__ import annotations

from typing import Annotated

import typer

from kinbin_service.cli.options import DEFAULT_COLLECTION, FilterOption, JsonOption, PlaceDataOption, UrlOption, parsed_json
from kinbin_service.cli.output import failing_in_one_line, print_json
from kinbin_service.cli.place import place

__all__ = ["delete_command"]


def delete_command(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of the items to delete; put -- before ids that begin with -.")
    ] = None,
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to delete from.")] = DEFAULT_COLLECTION,
    condition: FilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete items by id, or all whose payload fits a filter. Ids that are not there are passed over.

    They are in no answer any more once the command is done. `kinbin drop` removes a collection as a whole.
    """
    if bool(ids) == (condition is not None):
        raise typer.BadParameter("give ids or --filter" + (", not both" if ids else ""))
    chosen = {"ids": ids} if ids else {"filter": parsed_json(condition or "", "--filter")}
    with failing_in_one_line(as_json), place(data, url) as there:
        done = there.collection(collection).delete(**chosen)
    if as_json:
        print_json({"collection": collection, "deleted": done.deleted, "count": done.count})
    else:
        absent = len(set(ids or ())) - done.deleted if ids else 0
        passed = f" ({absent:,} of the ids {'was' if absent == 1 else 'were'} not there)" if absent > 0 else ""
        typer.echo(f"{collection}: {done.deleted:,} {'item' if done.deleted == 1 else 'items'} deleted{passed}, {done.count:,} left")
