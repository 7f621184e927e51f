"""`kinbin explain`: why an item scores what it scores, feature by feature."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbin_service.cli.asked import Asked, by_option, other_kind
from kinbin_service.cli.meant import FieldOption, config_of, meant
from kinbin_service.cli.options import DEFAULT_COLLECTION, JsonOption, PlaceDataOption, UrlOption
from kinbin_service.cli.output import Failure, bands_of, failing_in_one_line, output_console, print_json, tell
from kinbin_service.cli.place import Place, ServicePlace, place
from kinbin_service.cli.service_target import for_client

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["explain_command"]

_DIGITS = 6


def explain_command(
    item: Annotated[str, typer.Argument(metavar="ID", help="The stored item that is explained.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection that it is in.")] = DEFAULT_COLLECTION,
    vector: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='The query: [0.1, 0, 2.5] or {"indices": [3], "values": [1.5]} or {"tokens": {"red": 3}}.'),
    ] = None,
    string: Annotated[str | None, typer.Option(metavar="TEXT", help="The query, in a collection of strings.")] = None,
    series: Annotated[str | None, typer.Option(metavar="JSON", help="The query, in one of series: [0.5, 1] or [[0, 1], [1, 2]].")] = None,
    points: Annotated[str | None, typer.Option(metavar="JSON", help="The query, in one of point sets: [[0, 0.5], [1, 1]].")] = None,
    image: Annotated[Path | None, typer.Option(metavar="FILE", help="The query, in one of images: a PNG, JPEG or WebP file.")] = None,
    query_id: Annotated[str | None, typer.Option("--query-id", metavar="ID", help="Query by the vector of this stored item.")] = None,
    field: FieldOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Terms at most, the greatest first.")] = 20,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name", metavar="TOKEN", help="A token to know by its name, where features have no numbers (no dim); may be repeated."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell why an item scores what it scores with a query: terms that add up to its score, and what bands and links make of the pair."""
    objects = {"vectors": vector, "strings": string, "series": series, "points": points, "images": image}
    given = [kind for kind, one in objects.items() if one is not None]
    if len(given) + (query_id is not None) != 1:
        raise typer.BadParameter("give one of --vector and --query-id, or of --string, --series, --points and --image")
    with failing_in_one_line(as_json):
        query = by_option(given[0], objects[given[0]]) if given else None
        with place(data, url) as there:
            more: dict[str, Any] = {"limit": limit, "feature_names": name or None, "query_id": query_id}
            found = _explained(there, collection, item, query, field, more)
        if as_json:
            print_json(_plain(found))
            return
        _show(found)


def _explained(there: Place, name: str, item: str, asked: Asked | None, field: str | None, more: dict[str, Any]) -> Any:
    """The explanation of the library or of the client."""
    collection = there.collection(name)
    config = config_of(collection)
    more = more | meant(config, field, "explained")
    items = "vectors" if field is not None else config.items
    if asked is not None and items != asked.kind:
        raise other_kind(items, asked.kind)
    query = None if asked is None else asked.queries[0]
    if more["feature_names"]:
        _refuse_names(config if field is None else config.fields.get(field), query)
    if isinstance(there, ServicePlace):
        collection = collection if field is None else there.client.fields_collection(name)
        query = None if query is None else for_client(query)
    return collection.explain(query, id=item, **more)


def _refuse_names(config: Any, query: Any) -> None:
    """See that what is named are tokens. config: of a collection, or of a field; None: there is no such field. Raises Failure."""
    # The client tells of fields by dictionaries, which have a method `items`; their items are vectors.
    dim, items = (
        (config.get("dim"), "vectors") if isinstance(config, dict) else (getattr(config, "dim", None), getattr(config, "items", ""))
    )
    if items not in {"vectors", ""}:
        raise Failure(f"--name is for tokens, and {items} have none")
    if dim is not None or hasattr(query, "dtype"):
        raise Failure("--name is for tokens, and features have numbers here: kinbin create --feature-names names those")


def _plain(found: Any) -> dict[str, Any]:
    """An explanation as plain data, of one form for the library and the client: fields that mean nothing are left out."""
    told: dict[str, Any] = asdict(found) if is_dataclass(found) and not isinstance(found, type) else found.model_dump(exclude={"took_ms"})
    for factor in told["factors"]:
        factor["terms"] = [_said(term) for term in factor["terms"]]
        factor["rest"] = _said(factor["rest"])
        factor["constants"] = [one if isinstance(one, dict) else {"name": one[0], "part": one[1]} for one in factor["constants"]]
    told["bands"] = None if told["bands"] is None else _said(told["bands"])
    return told


def _said(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if value is not None}


def _show(found: Any) -> None:
    console = output_console()
    told = _plain(found)
    word = "distance" if told["ascending"] else "score"
    tell(console, f"{told['id']}: {word} {told['score']:.{_DIGITS}g}, {told['kernel']}: {told['formula']}", "bold")
    for factor in told["factors"]:
        if len(told["factors"]) > 1:
            tell(console, f"{factor['kernel']} {factor['value']:.{_DIGITS}g}: {factor['formula']}", "bold")
        _show_factor(console, factor)
    bands, walk = told["bands"], told["walk"]
    if bands is None:
        tell(console, str(told["no_bound"]))
    else:
        shared = f"{bands['shared']} of {bands_of(bands['bands'], bands['rows'])} are shared"
        tell(console, f"{shared}; such a pair shares one with probability {bands['p_found']:.4f}")
    if walk is not None:
        tell(console, f"walk for {walk['k']}: " + ("not in the answer" if walk["rank"] is None else f"place {walk['rank']}"))


def _show_factor(console: Console, factor: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, side in (("feature", "left"), ("query", "right"), ("item", "right"), ("part", "right")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]  # a word that it knows
    for term in factor["terms"]:
        table.add_row(_named(term), _value(term.get("query")), _value(term.get("item")), _value(term["part"]))
    if factor["rest"]["features"]:
        table.add_row(f"{factor['rest']['features']:,} others", "", "", _value(factor["rest"]["part"]))
    for constant in factor["constants"]:
        table.add_row(constant["name"], "", "", _value(constant["part"]))
    console.print(table)
    if factor["outer"] is not None:
        values = "".join(f", {key}={_value(one)}" for key, one in factor["parameters"].items())
        tell(console, f"{factor['outer']} of x={factor['sum']:.{_DIGITS}g}{values} is {factor['value']:.{_DIGITS}g}")


def _named(term: dict[str, Any]) -> str:
    if "what" in term:
        places = [str(term[key]) for key in ("query_at", "item_at") if key in term]
        return f"{term['what']} {' → '.join(places)}"
    return str(term.get("name") or term.get("feature", ""))


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float | int) else str(value)
