"""`kinbin facets`: the values of a field of payloads, with how many items have each."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kinbin_service.cli.options import DEFAULT_COLLECTION, FilterOption, JsonOption, PlaceDataOption, UrlOption, parsed_json
from kinbin_service.cli.output import failing_in_one_line, print_json
from kinbin_service.cli.place import place

__all__ = ["facets_command"]


def facets_command(
    field: Annotated[str, typer.Argument(metavar="FIELD", help="A field of payloads; a dot goes into objects.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to count in.")] = DEFAULT_COLLECTION,
    condition: FilterOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Values at most, the most frequent first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Count the values of a field: exact, with an index (`kinbin create --index`) and, more slowly, without one."""
    filter = None if condition is None else parsed_json(condition, "--filter")
    with failing_in_one_line(as_json), place(data, url) as there:
        told = there.collection(collection).facets(field, filter, limit)
    if as_json:
        values = [{"value": one.value, "count": one.count} for one in told.values]
        print_json({"collection": collection, "field": told.field, "values": values, "distinct": told.distinct, "items": told.items})
        return
    width = max((len(f"{one.count:,}") for one in told.values), default=1)
    for one in told.values:
        typer.echo(f"{one.count:>{width},}  {one.value if isinstance(one.value, str) else json.dumps(one.value)}")
    typer.echo(f"{told.distinct:,} different values of {field} in {told.items:,} items")
