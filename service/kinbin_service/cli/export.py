"""`kinbin export`: a collection into a file, which `kinbin import` reads back to the same bits."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbin_service.cli.options import DEFAULT_COLLECTION, FilterOption, JsonOption, PlaceDataOption, UrlOption, parsed_json
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, print_json
from kinbin_service.cli.place import Place, place

if TYPE_CHECKING:
    from kinbin_service.exporting import Exported
    from kinbin_service.exporting.items import Stored

__all__ = ["ExportFormat", "export_command"]


class ExportFormat(StrEnum):
    """Formats of exports."""

    AUTO = "auto"
    NDJSON = "ndjson"
    NPZ = "npz"


def export_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="File to write, .ndjson or .npz; it is replaced when all is written. - is standard output."),
    ],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to export.")] = DEFAULT_COLLECTION,
    file_format: Annotated[ExportFormat, typer.Option("--format", help="Format of the file; auto goes by its name.")] = ExportFormat.AUTO,
    condition: FilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export a collection with ids, vectors and payloads, in the order of ids.

    `kinbin import FILE` reads it back to the same bits. Of sets of tokens features are written, not the tokens: their names are not stored.

    - ndjson: one {"id", "vector", "payload"} a line, as POST /index and kinbin import take them
      (strings, series and point sets under "string", "series" and "points"; of several fields all vectors under "vectors")
    - npz: arrays `vectors` (or a CSR matrix, of a sparse collection), `ids`, `payloads` and `payload_offsets`

    Items are read page by page, in bounded memory; what is written to the collection meanwhile may be in the file or not. A file has
    no room for the kernel: the command that imports it into a collection of the same kind is printed at the end (--json: under "import").
    """
    chosen = _format(file, file_format)
    to_output = str(file) == "-"
    if to_output and as_json:
        raise typer.BadParameter("--json and a FILE of - both take standard output: name a file, or leave --json out")
    condition_parsed = None if condition is None else parsed_json(condition, "--filter")
    with failing_in_one_line(as_json), place(data, url) as there:
        about = there.described(collection)
        key = _key(about["items"])
        if chosen == "npz" and (key != "vector" or "fields" in about):
            held = "items of several fields" if "fields" in about else about["items"]
            raise Failure(f"{collection} holds {held}, which are exported as NDJSON: name a file that ends in .ndjson")
        items = _followed(there, collection, about, condition_parsed)
        if to_output:
            _to_output(items, key)
            return
        from kinbin_service.exporting import export_items

        try:
            done = export_items(items, file, chosen, about["dim"], key)
        except FileNotFoundError as error:
            raise Failure(f"{file}: there is no folder {file.parent} to write it to") from error
    _show(collection, file, chosen, about, done, _where(there.where, url), as_json)


def _key(items: str) -> str:
    """What items of this kind are written under. Images are kept as counts of colours, which are vectors."""
    from kinbin_service.objects import KEYS, VECTOR

    return next((key for key, kind in KEYS.items() if kind == items and kind != "images"), VECTOR)


def _format(file: Path, asked: ExportFormat) -> str:
    """The format to write. Raises BadParameter."""
    if str(file) == "-":
        if asked is ExportFormat.NPZ:
            raise typer.BadParameter("standard output takes ndjson only: an .npz archive needs a file")
        return "ndjson"
    if asked is not ExportFormat.AUTO:
        return asked.value
    known = {".ndjson": "ndjson", ".jsonl": "ndjson", ".npz": "npz"}.get(file.suffix.lower())
    if known is None:
        raise typer.BadParameter(f"cannot tell the format from the name {file.name}: end it with .ndjson or .npz, or say --format")
    return known


def _followed(there: Place, name: str, about: dict[str, Any], condition: Any) -> Iterator[list[Stored]]:
    """The pages of the collection, each of which moves a bar on standard error."""
    from kinbin_service.exporting.items import pages
    from kinbin_service.importing import watch

    with watch(error_console()) as bar:
        bar.start(f"{name}: exporting", about["count"], 0)
        done = 0
        for page in pages(there.collection(name), about["dim"], condition):
            done += len(page)
            yield page
            bar.advance(done, len(page))


def _to_output(items: Iterator[list[Stored]], key: str) -> None:
    from kinbin_service.exporting.ndjson import write_ndjson

    write_ndjson(items, sys.stdout.buffer, key)
    sys.stdout.buffer.flush()


def _written(name: str, value: Any) -> str:
    """A parameter as `--parameter` takes it, to the last digit."""
    return f"{name}={value if isinstance(value, str) else ','.join(map(repr, value)) if isinstance(value, list | tuple) else repr(value)}"


def _show(collection: str, file: Path, chosen: str, about: dict[str, Any], done: Exported, where: str, as_json: bool) -> None:
    if as_json:
        told = {name: about[name] for name in ("kernel", "parameters", "dim")} | {"items": done.items, "bytes": done.bytes}
        told["holds"] = about["items"]
        told |= {"create": _creating(collection, about, where)} if "fields" in about else {}
        told["import"] = _importing(collection, file, about, where)
        print_json({"collection": collection, "file": str(file), "format": chosen, **told})
        return
    typer.echo(f"{collection}: {done.items:,} items written to {file}, {done.bytes:,} bytes")
    if "fields" in about:
        typer.echo(f"Make its like with: {_creating(collection, about, where)}")
    typer.echo(f"Import it with: {_importing(collection, file, about, where)}")


def _creating(collection: str, about: dict[str, Any], where: str) -> str:
    """The command that makes a collection of the same fields."""
    return f"kinbin create {collection} {where}{_fields_of(about['fields'])}"


def _importing(collection: str, file: Path, about: dict[str, Any], where: str) -> str:
    """The command that imports the file into a collection of the same kind."""
    command = f"kinbin import {shlex.quote(str(file))} {where} --collection {collection}"
    if "fields" in about:
        return command
    dim = "" if about["dim"] is None else f" --dim {about['dim']}"
    kernel = shlex.quote(about["kernel"]) + "".join(f" --parameter {_written(name, value)}" for name, value in about["parameters"].items())
    return f"{command} --kernel {kernel}{dim}"


def _fields_of(fields: dict[str, dict[str, Any]]) -> str:
    """The options of `kinbin create` that make these fields."""
    told = ""
    for name, one in fields.items():
        told += f" --field {shlex.quote(':'.join([name, one['kernel'], *(() if one['dim'] is None else (str(one['dim']),))]))}"
        told += "".join(f" --parameter {name}:{_written(key, value)}" for key, value in one["parameters"].items())
    return told


def _where(where: str, url: str | None) -> str:
    """The option that names the place of the collection, to be pasted."""
    return f"{'--data' if url is None else '--url'} {shlex.quote(where)}"
