"""`kinbin create` and `kinbin drop`: collections, as a whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from kinbin_service.cli.options import (
    DEFAULT_KERNEL,
    DISTANCE_NAMES,
    KERNEL_NAMES,
    KIND_NAMES,
    IndexOption,
    JsonOption,
    PlaceDataOption,
    UrlOption,
    distance_name,
    indexes_of,
    kernel_and_parameters,
    kernel_name,
    kind_name,
    number_of,
    numbers_of,
)
from kinbin_service.cli.output import Failure, failing_in_one_line, print_json
from kinbin_service.cli.place import Place, place

__all__ = ["create_command", "drop_command"]


def create_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection: a-z, 0-9, _ and -.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    items: Annotated[
        str,
        typer.Option(metavar="KIND", callback=kind_name, help=f"What the items are. {KIND_NAMES}"),
    ] = "vectors",
    distance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", callback=distance_name, help=f"What objects are compared by; default: the first of theirs. {DISTANCE_NAMES}"
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="KERNEL",
            callback=kernel_name,
            help=f'What "near" means: the guide has a table. {DEFAULT_KERNEL}, the default, compares proportions. {KERNEL_NAMES}',
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the kernel, such as gamma=2 or base=chi2 (of a field: colour:gamma=2); may be repeated. "
            "Default: the kernel's own.",
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Length of its vectors; without it, sparse ones of any feature ids, and tokens. Of series and points: their dimensions.",
        ),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(metavar="NAME", help="How hashes are drawn, such as gcws or dart; default: chosen by Kinbin.")
    ] = None,
    bands: Annotated[
        int | None, typer.Option(min=1, metavar="L", help="Bands of the index; default: chosen by Kinbin as it grows.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, metavar="R", help="Hashes a band; default: chosen by Kinbin as it grows.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KERNEL[:DIM]", help="A field, for items of several vectors; once for each. In the place of the above."),
    ] = None,
    index: IndexOption = None,
    feature_names: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Names of features 0, 1, … (without --dim: tokens), for kinbin explain; or @FILE, a line each."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=256, metavar="N", help="At a gateway (--url): parts that its nodes hold; default 3.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=16, metavar="N", help="At a gateway: nodes that hold each part; default 2, or 1 of one node.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create an empty collection. One that is there and alike is left as it is; one that differs is an error.

    `kinbin import` creates its collection by itself: this is for one that is filled in other ways, or has to be of a certain kind.
    The kernel, its parameters, the dimension and the sampler of a collection never change.
    """
    config: dict[str, Any] = {"kernel": kernel, "dim": dim, "sampler": sampler, "bands": bands, "rows": rows}
    config |= {"items": items, "distance": distance, "indexes": indexes_of(index)}
    if feature_names is not None:
        config["feature_names"] = _names(feature_names)
    if spread := {name: number for name, number in (("shards", shards), ("replicas", replicas)) if number is not None}:
        if url is None:
            raise typer.BadParameter("--shards and --replicas are of a cluster: give --url of a gateway; a database of --data is not one")
        config["cluster"] = spread
    with failing_in_one_line(as_json), place(data, url, make=True) as there:
        fields = _fields(field or [])
        own = _parameters(parameter or [], fields)
        made = there.create(name, **config, parameters=own) if not fields else there.create(name, **config, fields=fields)
        about = there.described(name)
    if as_json:
        print_json({"collection": name, "created": made, **about})
        return
    kind = _kind(about)
    if lies := about.get("cluster"):
        kind += f"; {lies['shards']} shards of {lies['replicas']} replicas"
    done = "created" if made else f"is there already, with {about['count']:,} items"
    typer.echo(f"{name}: {done}: {kind}")


def _names(given: str) -> list[str]:
    """Names of features, of a list or of a file with a line for each. Raises BadParameter."""
    if not given.startswith("@"):
        return [name.strip() for name in given.split(",")]
    try:
        return Path(given[1:]).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--feature-names {given}: the file cannot be read: {error}") from None


def _kind(about: dict[str, Any]) -> str:
    """Kernel and dimension of a collection, or of each of its fields."""
    if "fields" in about:
        return "; ".join(f"field {name}: {_kind(one)}" for name, one in about["fields"].items())
    dim = "sparse" if about["dim"] is None else f"dimension {about['dim']}"
    if about.get("items", "vectors") != "vectors":
        dim = about["items"] if about["dim"] is None else f"{about['items']} of dimension {about['dim']}"
    return f"{kernel_and_parameters(about['kernel'], about['parameters'])}, {dim}"


def _fields(given: list[str]) -> dict[str, dict[str, Any]]:
    """Fields as they were written. Raises BadParameter."""
    fields: dict[str, dict[str, Any]] = {}
    for text in given:
        name, *rest = text.split(":")
        if name in fields or not 1 <= len(rest) <= 2 or (len(rest) == 2 and not rest[1].isdecimal()):
            raise typer.BadParameter(f"--field is NAME:KERNEL or NAME:KERNEL:DIM, each name once, not {text!r}")
        fields[name] = {"kernel": rest[0], "dim": int(rest[1]) if len(rest) == 2 else None}
    return fields


def _parameters(given: list[str], fields: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Values by name, of NAME=VALUE. Where there are fields, FIELD:NAME=VALUE, which are put into these. Raises BadParameter."""
    if not fields:
        return numbers_of(given)
    for one in given:
        key, number = number_of(one)
        field, _, own = key.partition(":")
        if field not in fields or not own:
            raise typer.BadParameter(f"with --field, --parameter takes FIELD:NAME=VALUE, such as {next(iter(fields))}:gamma=2, not {one}")
        fields[field].setdefault("parameters", {})[own] = number
    return None


def drop_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where there is no terminal to ask on.")] = False,
    damaged: Annotated[bool, typer.Option("--damaged", help="Also where its files cannot be opened.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Drop a collection: all its items are gone, for every process, and cannot be had back. Asks first."""
    with failing_in_one_line(as_json), place(data, url) as there:
        with _telling_how():
            count = _count_if_any(there, name) if damaged else _count(there, name)
        if not yes:
            _ask(f'Drop "{name}" in {there.where}, with {"all that is left" if count is None else f"{count:,} items"}?')
        with _telling_how():
            there.drop(name, damaged=damaged)
    if as_json:
        print_json({"dropped": name, "items": count})
    else:
        typer.echo(f"{name}: dropped" + ("" if count is None else f", with {count:,} items"))


def _count_if_any(there: Place, name: str) -> int | None:
    """The same; None where it cannot be opened."""
    try:
        return _count(there, name)
    except Exception:  # noqa: BLE001 - whatever hinders it, the files are dropped
        return None


def _count(there: Place, name: str) -> int:
    """How many items a collection has."""
    return int(there.described(name)["count"])


@contextmanager
def _telling_how() -> Iterator[None]:
    """What is damaged is dropped only by an option, which the error then names."""
    try:
        yield
    except Exception as error:
        if getattr(error, "code", "") == "corrupt_data":
            raise Failure(f"{error}; --damaged drops it as it is", kind="corrupt_data") from None
        raise


def _ask(question: str) -> None:
    """Return if the answer is yes. Raises Failure."""
    if not sys.stdin.isatty():
        raise Failure("nothing was dropped: there is no terminal to ask on; say --yes")
    if not typer.confirm(question, err=True):
        raise Failure("nothing was dropped")
