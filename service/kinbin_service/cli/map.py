"""`kinbin map`: a sample of the items in the plane, for a plot."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kinbin_service.cli.meant import FieldOption, config_of, meant
from kinbin_service.cli.options import DEFAULT_COLLECTION, FilterOption, JsonOption, PlaceDataOption, UrlOption, parsed_json
from kinbin_service.cli.output import failing_in_one_line, print_json
from kinbin_service.cli.place import ServicePlace, place

__all__ = ["map_command"]


def map_command(
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to draw.")] = DEFAULT_COLLECTION,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Items that are drawn, at most.")] = 1_000,
    method: Annotated[str, typer.Option(metavar="METHOD", help="kernel_pca or spectral.")] = "kernel_pca",
    fields: Annotated[
        list[str] | None, typer.Option("--payload", metavar="FIELD", help="A field of payloads to print with the points; may be repeated.")
    ] = None,
    field: FieldOption = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the draw.")] = 0,
    condition: FilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lay a sample of the items out in the plane, near items near each other: lines of id, x, y and fields, with tabs.

    It takes scikit-learn: `pip install --find-links dist 'kinbin[features]'`.
    """
    filter = None if condition is None else parsed_json(condition, "--filter")
    more: dict[str, Any] = {"method": method, "fields": fields or [], "seed": seed, "filter": filter}
    with failing_in_one_line(as_json), place(data, url) as there:
        drawn = there.collection(collection)
        more |= meant(config_of(drawn), field, "drawn")
        if field is not None:
            drawn = there.client.fields_collection(collection) if isinstance(there, ServicePlace) else drawn
        found = drawn.map(sample, **more)
    points = [{"id": point.id, "x": point.x, "y": point.y, "payload": point.payload} for point in found.points]
    if as_json:
        about = {"method": found.method, "kernel": found.kernel, "sample": found.sample, "rows": found.rows, "explained": found.explained}
        print_json({"collection": collection, **about, "points": points})
        return
    typer.echo("\t".join(["id", "x", "y", *(fields or [])]))
    for point in found.points:
        typer.echo("\t".join([point.id, f"{point.x:.6g}", f"{point.y:.6g}", *(_text(point.payload, one) for one in fields or [])]))


def _text(payload: dict[str, Any] | None, field: str) -> str:
    """A field of a payload in a line."""
    inner: Any = payload
    for name in field.split("."):
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, str) else "" if inner is None else json.dumps(inner)
