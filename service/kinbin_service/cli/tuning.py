"""`kinbin tune`, `kinbin recall` and `kinbin rebuild`: what settings would do, what searches find, and other bands."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbin_service.cli.asked import FIELDS
from kinbin_service.cli.meant import FieldOption, config_of, meant
from kinbin_service.cli.options import (
    DEFAULT_COLLECTION,
    DEFAULT_KERNEL,
    KERNEL_NAMES,
    FeatureColumnsOption,
    Format,
    FormatOption,
    IdColumnOption,
    IgnoreColumnsOption,
    JsonOption,
    PayloadColumnsOption,
    PlaceDataOption,
    UrlOption,
    kernel_name,
    names_in,
    numbers_of,
)
from kinbin_service.cli.output import Failure, bands_of, error_console, failing_in_one_line, print_json, tell
from kinbin_service.cli.place import place

if TYPE_CHECKING:
    import kinbin

__all__ = ["rebuild_command", "recall_command", "tune_command"]

_NameOption = Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection.")]
_KOption = Annotated[int, typer.Option("-k", min=1, metavar="N", help="Neighbours of each query, at most 1,000.")]
_TargetOption = Annotated[float, typer.Option("--target-recall", min=0.0, max=1.0, metavar="X", help="The recall that queries ask for.")]
_SeedOption = Annotated[int, typer.Option(min=0, metavar="N", help="Of the draw of rows.")]
_FILE_ROWS = 50_000
_UNHASHED = ("strings", "series", "points")


def tune_command(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Rows that are not stored yet, as kinbin import reads them.")] = None,
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help=f"A stored collection, at first {DEFAULT_COLLECTION}.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Neighbours of each query, at most 100.")] = 10,
    target_recall: _TargetOption = 0.9,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Rows that are drawn, each as a query; at most 5,000.")] = 200,
    seed: _SeedOption = 0,
    field: FieldOption = None,
    choices: Annotated[
        list[str] | None, typer.Option("--choice", metavar="ROWSxBANDS", help="A setting to judge, as 3x128; may be repeated.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", callback=kernel_name, help=f"Of the file; default {DEFAULT_KERNEL}. {KERNEL_NAMES}")
    ] = None,
    parameters: Annotated[list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="Of the kernel.")] = None,
    most: Annotated[
        int | None, typer.Option("--rows", min=2, metavar="N", help=f"Rows of the file that are read; default {_FILE_ROWS:,}.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Link the rows of the file as well, to tell of walks.")] = False,
    file_format: FormatOption = Format.AUTO,
    id_column: IdColumnOption = None,
    payload_columns: PayloadColumnsOption = None,
    ignore_columns: IgnoreColumnsOption = None,
    feature_columns: FeatureColumnsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict recall, work and time of bands of so many hashes, and of walks: of a collection as it is, or of a file before it is imported.

    Nothing is changed. `kinbin rebuild` lays a collection out as was chosen; `kinbin create --rows --bands` makes a new one so.
    """
    columns = {"payload_columns": payload_columns, "ignore_columns": ignore_columns, "feature_columns": feature_columns}
    read: dict[str, Any] = {"id_column": id_column} | {name: names_in(text) for name, text in columns.items()}
    if file_format is not Format.AUTO:
        read["format"] = file_format.value
    of_file = {"--kernel": kernel, "--parameter": parameters, "--rows": most, "--link": link} | {
        f"--{name.replace('_', '-')}": given for name, given in read.items()
    }
    of_stored = {"--collection": collection, "--url": url, "--field": field}
    asked: dict[str, Any] = {"sample": sample, "seed": seed, "choices": _choices(choices)}
    with failing_in_one_line(as_json):
        _refuse_others(file, of_file, of_stored)
        if file is None:
            with place(data, url) as there:
                stored = there.collection(collection or DEFAULT_COLLECTION)
                told = stored.tune(k, target_recall, **asked, **meant(config_of(stored), field, "tuned"))
        else:
            asked |= {"link": link, "kernel": kernel or DEFAULT_KERNEL, "parameters": numbers_of(parameters or [])}
            told = _of_file((file, read, most or _FILE_ROWS), k, target_recall, asked)
    if as_json:
        print_json(_plain(told))
        return
    _show(told, stored=file is None)


def recall_command(
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: _NameOption = DEFAULT_COLLECTION,
    queries: Annotated[int, typer.Option(min=1, metavar="N", help="Stored rows that are drawn, each as a query without itself.")] = 100,
    k: _KOption = 10,
    target_recall: _TargetOption = 0.9,
    modes: Annotated[list[str] | None, typer.Option("--mode", metavar="MODE", help="auto, bands, links or exact; may be repeated.")] = None,
    seed: _SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure the recall of every mode against exact scans, with stored rows as queries."""
    with failing_in_one_line(as_json), place(data, url) as there:
        told = there.collection(collection).recall(queries, k, target_recall, modes=modes or None, seed=seed)
    if as_json:
        print_json(_plain(told))
        return
    typer.echo(f"{told.queries:,} stored rows as queries, k {told.k}, target recall {told.target_recall:g}")
    if all(one.recall is None for one in told.modes):
        typer.echo("nothing to measure: " + ("no row has a neighbour" if told.queries else "there are no rows"))
        return
    typer.echo(f"{'mode':<6} {'recall':>7} {'lowest':>7} {'bound':>7} {'bounded':>8} {'ms':>9}")
    for one in told.modes:
        bound = "none" if one.certificate is None else f"{one.certificate:.3f}"
        typer.echo(f"{one.mode:<6} {one.recall:>7.4f} {one.lowest:>7.2f} {bound:>7} {one.certified:>8.0%} {one.milliseconds:>9.3f}")


def rebuild_command(
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: _NameOption = DEFAULT_COLLECTION,
    rows: Annotated[int | None, typer.Option(min=1, max=8, metavar="N", help="Hashes a band; left out: chosen by Kinbin.")] = None,
    bands: Annotated[int | None, typer.Option(min=1, max=255, metavar="N", help="Bands of a run; left out: chosen by Kinbin.")] = None,
    field: FieldOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lay all rows of a collection out in other bands, while it is read and written. What comes later lies so, too."""
    with failing_in_one_line(as_json), place(data, url) as there:
        stored = there.collection(collection)
        told = stored.rebuild(rows, bands, **meant(config_of(stored), field, "laid out"))
    name = collection if field is None else f"{collection}, field {field}"
    if as_json:
        print_json(_plain(told))
    elif told.rows is None:
        typer.echo(f"{name}: there are no rows")
    else:
        typer.echo(f"{name}: {told.count:,} rows in {bands_of(told.bands, told.rows)}, in {told.seconds:,.1f} s")


def _refuse_others(file: Path | None, of_file: dict[str, Any], of_stored: dict[str, Any]) -> None:
    """Refuse a file that is not there and looks like the name of a collection, and options of what is not tuned. Raises Failure."""
    if file is not None and file.name == str(file) and not file.suffix and not file.exists():
        raise Failure(f"{file}: there is no such file; --collection {file} names a collection", kind="os_error")
    given = [option for option, value in (of_file if file is None else of_stored).items() if value]
    if given and file is None:
        raise Failure(f"{', '.join(given)}: only for a FILE, and none is named", 2)
    if given:
        raise Failure(f"{', '.join(given)}: only for a stored collection, and {file} is a file: leave one of them out", 2)


def _choices(given: list[str] | None) -> list[tuple[int, int]] | None:
    """Settings as they were written. Raises BadParameter."""
    listed = []
    for text in given or ():
        rows, _, bands = text.partition("x")
        if not (rows.isdecimal() and bands.isdecimal()):
            raise typer.BadParameter(f"--choice takes ROWSxBANDS, such as 3x128, not {text}")
        listed.append((int(rows), int(bands)))
    return listed or None


def _of_file(source: tuple[Path, dict[str, Any], int], k: int, target_recall: float, options: dict[str, Any]) -> kinbin.Tuning:
    """What is predicted of the rows of a file. source: it, how its columns are read, and how many rows at most."""
    import kinbin
    from kinbin_service.importing import ReadOptions
    from kinbin_service.importing.first_rows import first_rows

    file, columns, most = source
    found = first_rows(file, ReadOptions(**columns), most)
    if found.items == FIELDS:
        raise Failure(f"{file}: its items have several vectors: import them, and tune a field of the collection (--collection, --field)")
    if found.items in _UNHASHED:
        raise Failure(f"{file}: its rows are {found.items}, which have no bands: there is nothing to tune")
    if not found.whole:
        tell(error_console(), f"{file}: the first {len(found.vectors):,} rows; of more, neighbours are nearer and postings more")
    return kinbin.tune(found.vectors, k, target_recall, items=found.items, dim=found.dim, **options)


def _plain(told: Any) -> Any:
    """A record of the library or the client as plain data."""
    return asdict(told) if is_dataclass(told) and not isinstance(told, type) else told.model_dump()


def _show(told: Any, *, stored: bool) -> None:
    """Print a prediction. stored: of a collection that is there, whose bands are told, too."""
    now = told.current
    typer.echo(f"{told.sample:,} rows drawn, k {told.k}, target recall {told.target_recall:g}")
    if not any(told.similarity_histogram.neighbours):
        typer.echo(f"nothing to predict from: {told.suggested.why.partition(':')[0]}")
        return
    if stored:
        typer.echo(
            f"now {now.rows}x{now.bands} ({now.runs} run{'' if now.runs == 1 else 's'}): "
            f"recall {now.recall:.3f} predicted, {now.measured_recall:.3f} measured; "
            f"{now.microseconds:,.0f} µs predicted, {now.measured_microseconds:,.0f} µs measured"
        )
    typer.echo(f"{'bands':>6} {'recall':>14} {'to scan':>8} {'postings':>10} {'verified':>9} {'bytes/row':>10} {'µs':>8}")
    for one in told.bands:
        mark = "  <- suggested" if (one.rows, one.bands) == (told.suggested.rows, told.suggested.bands) else ""
        typer.echo(
            f"{one.rows}x{one.bands:<4} {one.recall:>7.3f} ±{one.recall_error:.3f} {one.uncertified:>8.1%} {one.postings:>10,.0f} "
            f"{one.verified:>9,.0f} {one.bytes_per_row:>10,.0f} {one.microseconds:>8,.0f}{mark}"
        )
    if (told.suggested.rows, told.suggested.bands) not in {(one.rows, one.bands) for one in told.bands}:
        typer.echo(f"{told.suggested.rows}x{told.suggested.bands}: what is there, and none of the settings above: suggested")
    for walk in told.walks:
        typer.echo(f"walk {walk.width:>4}: recall {walk.recall:.3f}, {walk.microseconds:,.0f} µs")
    why = told.suggested.why if stored else told.suggested.why.partition("; now ")[0].replace("what is there", "what Kinbin chooses")
    typer.echo(f"suggested: {told.suggested.rows}x{told.suggested.bands}: {why}")
