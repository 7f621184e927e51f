"""`kinbin import`: files into a collection, in a directory of this machine or through a service, merged at the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinbin_service.cli.asked import FIELDS
from kinbin_service.cli.options import (
    DEFAULT_COLLECTION,
    DISTANCE_NAMES,
    KERNEL_NAMES,
    FeatureColumnsOption,
    Format,
    FormatOption,
    IdColumnOption,
    IgnoreColumnsOption,
    IndexOption,
    JsonOption,
    PayloadColumnsOption,
    PlaceDataOption,
    UrlOption,
    distance_name,
    indexes_of,
    kernel_and_parameters,
    kernel_name,
    names_in,
    numbers_of,
)
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, one_line, print_json, tell
from kinbin_service.cli.place import chosen_data
from kinbin_service.cli.service_target import service_target
from kinbin_service.cli.words import given_as

if TYPE_CHECKING:
    from rich.console import Console

    from kinbin_service.importing import Summary, Target

__all__ = ["Mode", "import_command"]

_NOT_MERGED = "all rows are imported, and the next writer merges them"


class Mode(StrEnum):
    """How an add treats ids that are there."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"


def import_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files to import, one after the other; or one folder of images.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to import into; created if absent.")] = DEFAULT_COLLECTION,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="KERNEL", callback=kernel_name, help=f"Kernel of a new collection; default: ngmm, of images nested. {KERNEL_NAMES}"
        ),
    ] = None,
    distance: Annotated[
        str | None,
        typer.Option(metavar="NAME", callback=distance_name, help=f"The same of objects, whose kernels are distances. {DISTANCE_NAMES}"),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the kernel, such as gamma=2, when it is created; may be repeated."),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Dimension, when it is created. Default: the length of dense vectors; sparse ones need none."
        ),
    ] = None,
    index: IndexOption = None,
    file_format: FormatOption = Format.AUTO,
    id_column: IdColumnOption = None,
    id_format: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE", help="Ids for rows without one, from {row} (from 0) and {stem} (of the file name); default: {row}."
        ),
    ] = None,
    payload_columns: PayloadColumnsOption = None,
    ignore_columns: IgnoreColumnsOption = None,
    feature_columns: FeatureColumnsOption = None,
    string: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="CSV column of strings (name, or position from 0): they are the items.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(metavar="CHAR", help="CSV delimiter; default: found in the first line.")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line of a CSV file names the columns; default: found out."),
    ] = None,
    array: Annotated[str | None, typer.Option(metavar="NAME", help="Array of a .npz archive that holds the vectors.")] = None,
    index_base: Annotated[int, typer.Option(min=0, max=1, help="Number of the first feature in svmlight files; it is subtracted.")] = 0,
    thumbnails: Annotated[
        bool, typer.Option("--thumbnails", help="Keep a small picture of each image in its payload, as an address that browsers show.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Rows an add, each one durable transaction.")] = 1_000,
    mode: Annotated[
        Mode, typer.Option(help="Ids that are there are replaced (upsert), refused (insert) or required (update).")
    ] = Mode.UPSERT,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out, and list them, instead of ending at the first one.")
    ] = False,
    bad_rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --skip-bad: append every bad row to this file, as a line of JSON with its reason."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Go on where an interrupted import of the same file ended.")] = True,
    compact: Annotated[
        bool | None,
        typer.Option(
            "--compact/--no-compact",
            help="Merge the collection into one run at the end (default), or leave it to the next writer. Services (--url) merge anyway.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Import files into a collection: .npy, .npz, CSV, NDJSON, svmlight, lines of text, .ts; or a folder of images.

    - npy: a matrix, one vector a row
    - npz: what `kinbin export` wrote, a matrix, or a CSR matrix as scipy.sparse.save_npz writes it
    - csv: numbers, one vector a line, with an optional header; with --string COLUMN, strings
    - ndjson: one {"id", "vector", "payload"} a line, as POST /index takes them; or "string", "series", "points", "image" (base64),
      or "vectors", an object of fields, for a collection that was created with several
    - svmlight: "label index:value ..." lines, sparse
    - text: one string a line; empty lines are left out, and ids count the others
    - ts: time series of the UCR and UEA archives, their classes in the payload
    - a folder: its PNG, JPEG and WebP images, and those of folders below; ids are their paths

    Columns of a CSV file that are not named are features. One whose name (id, label, class …) or whose first cells make that doubtful
    is refused until it is named; with --string, one that is called id and the like. The summary tells what every column became.

    However the import ends early (Ctrl-C, a killed process, a bad row), nothing acknowledged is lost, and the same command goes on
    after the last acknowledged batch. A batch with a bad row is not written at all, unless --skip-bad leaves the row out. Memory is
    bounded by one batch.

    When all files are imported, the collection is merged into one run, so that the first query finds it in order. `kinbin link`
    builds its neighbour graph as well, which a process that serves it would do in the background.
    """
    from kinbin_service.importing import AddOptions, BadRows, ReadOptions, Wanted, import_files

    directory = chosen_data(data, url)
    if url is not None and compact:
        raise typer.BadParameter("--compact merges files of this machine: the service at --url merges by itself")
    if kernel is not None and distance is not None:
        raise typer.BadParameter("--distance is another name for --kernel: give one of them")
    if bad_rows is not None and not skip_bad:
        raise typer.BadParameter("--bad-rows lists what --skip-bad leaves out: say --skip-bad as well")
    delimiter = "\t" if delimiter in {"\\t", "tab"} else delimiter
    if delimiter is not None and len(delimiter) != 1:
        raise typer.BadParameter('--delimiter takes one character, or "tab"')
    missing = next((file for file in files[1:] if not file.suffix and not file.exists()), None)
    if missing is not None:
        raise typer.BadParameter(f"there is no file {missing}: the collection is named by --collection")
    read = ReadOptions(
        format=file_format.value,
        id_column=id_column,
        id_format=id_format,
        payload_columns=names_in(payload_columns),
        ignore_columns=names_in(ignore_columns),
        feature_columns=names_in(feature_columns),
        delimiter=delimiter,
        header=header,
        array=array,
        index_base=index_base,
        thumbnails=thumbnails,
        string=string,
    )
    if distance is not None:
        given_as("kernel", "--distance")
    wanted = Wanted(distance or kernel, dim, numbers_of(parameter or []), indexes=indexes_of(index))
    add = AddOptions(rows=batch, mode=mode.value, wanted=wanted)
    with failing_in_one_line(as_json), _target(url, directory, collection) as (target, folder):
        console = error_console()
        bad = BadRows(bad_rows) if skip_bad else None
        summary = import_files(files, target, folder, read, add, resume=resume, console=console, bad=bad)
        compacted, undone = _finish(target, summary, console, merge=compact is not False)
        _show_bad_rows(summary, bad_rows, console)
        _show_import(target, summary, compacted, as_json)
        if undone is None and summary.bad.count and not summary.rows + summary.skipped:
            undone = Failure(f"nothing was imported: all {summary.bad.count:,} rows are bad")
        if undone is not None:
            raise undone


@contextmanager
def _target(url: str | None, data: Path, name: str) -> Iterator[tuple[Target, Path]]:
    """The collection to import into, and the folder for the states of imports into it."""
    import kinbin
    from kinbin_service.importing import DatabaseTarget

    if url is not None:
        with service_target(url, name) as found:
            yield found
        return
    with kinbin.open(data) as database:
        folder = data / "imports"
        folder.mkdir(exist_ok=True)
        yield DatabaseTarget(database, name), folder


def _finish(target: Target, summary: Summary, console: Console, *, merge: bool) -> tuple[bool, Failure | None]:
    """Merge the collection, once everything is imported; whether that is done, and what the command leaves undone.

    A merge that does not come to its end leaves the collection as it was: complete, in several runs.
    """
    import kinbin
    from kinbin_service.importing import DatabaseTarget

    code = 128 + (summary.stopped_by or signal.SIGINT)
    if not summary.finished:
        return False, Failure(f"stopped after {summary.last_rows:,} rows of {summary.last}; the same command goes on from there", code)
    if not merge or not isinstance(target, DatabaseTarget):
        return False, None
    if summary.stopped_by is not None:
        return False, Failure(f"stopped before merging; {_NOT_MERGED}", code)
    tell(console, f"{target.name}: merging")
    try:
        return target.compact(), None
    except KeyboardInterrupt:
        return False, Failure(f"merging was broken off; {_NOT_MERGED}", code)
    except kinbin.CorruptData as error:
        # Nobody merges what is damaged.
        return False, Failure(f"all rows are imported, and merging failed: {error}")
    except (kinbin.KinbinError, OSError) as error:
        return False, Failure(f"merging failed: {error}; {_NOT_MERGED}")


def _show_bad_rows(summary: Summary, file: Path | None, console: Console) -> None:
    for row in summary.bad.first:
        place = f"{row['file']}:{row['line']}" if "line" in row else f"{row['file']}, row {row['row']}"
        tell(console, f"left out: {place}: {one_line(row['reason'])}")
    rest = summary.bad.count - len(summary.bad.first)
    if rest:
        tell(console, f"left out: {rest:,} more rows; {f'all are in {file}' if file else '--bad-rows FILE lists all'}")


def _show_import(target: Target, summary: Summary, compacted: bool, as_json: bool) -> None:
    added, collection = summary.added, target.name
    kind = target.kind()
    columns = {file: asdict(told) for file, told in summary.columns.items()}
    if as_json:
        print_json(
            {
                "collection": collection,
                "finished": summary.finished,
                "files": summary.files,
                "rows": summary.rows,
                "rows_skipped": summary.skipped,
                "rows_bad": summary.bad.count,
                "empty_lines": summary.empty,
                "bad": summary.bad.first,
                "items": kind and kind.items,
                "kernel": kind and kind.kernel,
                "parameters": kind and dict(kind.parameters or {}),
                "dim": kind and kind.dim,
                "columns": columns,
                "indexed": added.indexed,
                "updated": added.updated,
                "unchanged": added.unchanged,
                "count": added.count,
                "compacted": compacted,
                "seconds": round(summary.seconds, 3),
            }
        )
        return
    rate = f" ({summary.rows / summary.seconds:,.0f} rows/s)" if summary.rows and summary.seconds else ""
    what = f"{added.indexed:,} new, {added.updated:,} replaced, {added.unchanged:,} unchanged"
    total = "" if added.count is None else f"; {added.count:,} items in the collection"
    merged = ", merged into one run" if compacted else ""
    if summary.bad.count:
        what += f", {summary.bad.count:,} bad rows left out"
    if summary.empty:
        what += f", {summary.empty:,} empty {'line' if summary.empty == 1 else 'lines'} left out"
    typer.echo(f"{collection}: {summary.rows:,} rows imported in {summary.seconds:,.1f} s{rate}: {what}{total}{merged}")
    if kind is None:
        typer.echo("no collection was made: there is no row that tells what it would be; kinbin create makes an empty one")
        return
    what = "several fields" if kind.kernel is None else kernel_and_parameters(kind.kernel, kind.parameters)
    shape = "sparse" if kind.dim is None else f"dimension {kind.dim}"
    if kind.items == FIELDS:
        shape = "a vector for each"
    elif kind.items != "vectors":
        shape = kind.items if kind.dim is None else f"{kind.items} of dimension {kind.dim}"
    told = dict.fromkeys(str(columns) for columns in summary.columns.values())
    if len(told) == 1:
        typer.echo(f"{what}, {shape}; {next(iter(told))}")
        return
    typer.echo(f"{what}, {shape}")
    for file, read in summary.columns.items():
        typer.echo(f"  {file}: {read}")
