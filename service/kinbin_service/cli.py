"""The command line: serve, import, query, stats, check. Every command but `serve` works without a server, on the files themselves.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done; 1 not done, or something is wrong with
the data; 2 the command was not understood; 128 + n ended by signal n (130 for Ctrl-C). What is imported from elsewhere is imported
inside the commands, so that `kinbin --help` is quick and that nothing is needed but for the command that needs it.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import kinbin
    from kinbin_client import Client
    from kinbin_service.importing import Added, Batch, Summary, Target
    from kinbin_service.importing.vectors import Vector

__all__ = ["Failure", "api_key", "app", "certificate_line", "check_port", "failing_in_one_line", "main"]

DEFAULT_DATA = Path("kinbin-data")
DEFAULT_COLLECTION = "default"
"""The collection of `POST /index` and `POST /query`."""

app = typer.Typer(
    name="kinbin",
    help="Near neighbours under min-max kernels: exact scores, and a proved lower bound on recall with every answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Mode(StrEnum):
    """How an add treats ids that are there."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"


class Format(StrEnum):
    """Formats of source files."""

    AUTO = "auto"
    NPY = "npy"
    NPZ = "npz"
    CSV = "csv"
    NDJSON = "ndjson"
    SVMLIGHT = "svmlight"


class Search(StrEnum):
    """How a query is answered."""

    AUTO = "auto"
    BANDS = "bands"
    EXACT = "exact"


class KernelName(StrEnum):
    """The kernels, as `kinbin.KERNELS` names them."""

    MINMAX = "minmax"
    GMM = "gmm"
    NGMM = "ngmm"
    GINT = "gint"


DataOption = Annotated[Path, typer.Option("--data", envvar="KINBIN_DATA", metavar="DIR", help="Directory of the database.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, for programs.")]

# ------------------------------------------------------------------------------------------ ends and errors


class Failure(Exception):
    """Why a command cannot go on, in one line for people; `code` is its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def _error_console() -> Console:
    return Console(stderr=True)


def _tell(console: Console, line: str, style: str = "") -> None:
    """One line as it is: no markup, no wrapping."""
    console.print(Text(line, style=style), soft_wrap=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def failing_in_one_line() -> Iterator[None]:
    """Turn the errors that users can meet into one line on standard error and an exit code; mistakes of the program pass through."""
    import kinbin
    from kinbin_service.importing import SourceError, TargetDiffers

    known: tuple[type[Exception], ...] = (kinbin.KinbinError, SourceError, TargetDiffers)
    try:
        from kinbin_client.errors import KinbinClientError

        known = (*known, KinbinClientError)
    except ModuleNotFoundError:
        pass
    try:
        yield
    except KeyboardInterrupt:
        _fail("broken off", 128 + signal.SIGINT)
    except Failure as error:
        _fail(str(error), error.code)
    except known as error:
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(where + (error.strerror or str(error)))


def _fail(message: str, code: int = 1) -> NoReturn:
    _tell(_error_console(), f"Error: {_one_line(message)}", "bold red")
    raise typer.Exit(code)


@contextmanager
def _database(data: Path) -> Iterator[kinbin.Database]:
    """A database that is there, open for the block: looking at one must not make one."""
    import kinbin

    if not (data / "collections").is_dir():
        raise Failure(f"no database in {data}: --data names its directory; kinbin import and kinbin serve make one")
    with kinbin.open(data) as database:
        yield database


def _print_json(content: Any) -> None:
    typer.echo(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2).decode())


# ------------------------------------------------------------------------------------------ version, serve


def _version(wanted: bool) -> None:
    if wanted:
        import kinbin

        typer.echo(f"kinbin {kinbin.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Near neighbours under min-max kernels: exact scores, and a proved lower bound on recall with every answer."""


@app.command()
def serve(
    data: DataOption = DEFAULT_DATA,
    host: Annotated[str, typer.Option(envvar="KINBIN_HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(envvar="KINBIN_PORT", min=0, max=65_535, help="Port to listen on; 0 lets the system choose.")] = 8080,
    workers: Annotated[int, typer.Option(envvar="KINBIN_WORKERS", min=1, max=256, help="Server processes; all share the directory.")] = 1,
    insecure: Annotated[
        bool, typer.Option("--insecure", envvar="KINBIN_INSECURE", help="Listen beyond this machine without an API key.")
    ] = False,
) -> None:
    """Serve a database over HTTP: the REST API, with /docs, /healthz and /readyz beside it.

    The directory is created if absent. Without an API key (KINBIN_API_KEY or KINBIN_API_KEY_FILE) the service listens on loopback
    addresses only. SIGTERM and Ctrl-C end it after the requests under way are answered.
    """
    with failing_in_one_line():
        try:
            from kinbin_service.server import run
        except ModuleNotFoundError as error:
            raise Failure(f"the server needs {error.name}: pip install 'kinbin[service]'") from None
        check_port(host, port)
        try:
            run(data=data, host=host, port=port, workers=workers, insecure=insecure)
        except ValueError as error:
            raise Failure(str(error), 2) from None


def check_port(host: str, port: int) -> None:
    """See that the address can be listened on, for a clearer message than the server's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise Failure(f"--host {host} is not an address of this machine ({error.strerror})") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise Failure(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port, or end what listens there") from None


# ------------------------------------------------------------------------------------------ import


def _split(text: str | None) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


@app.command("import")
def import_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to import, one after the other.")],
    data: Annotated[
        Path | None, typer.Option("--data", envvar="KINBIN_DATA", metavar="DIR", help="Directory of the database; default: kinbin-data.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Import through the service at this address instead. Its key is read from KINBIN_API_KEY(_FILE)."),
    ] = None,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to import into; created if absent.")] = DEFAULT_COLLECTION,
    kernel: Annotated[KernelName | None, typer.Option(help="Kernel of the collection, when it is created; default: ngmm.")] = None,
    dim: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Dimension, when it is created. Default: the length of dense vectors; sparse ones need none."
        ),
    ] = None,
    file_format: Annotated[
        Format, typer.Option("--format", help="Format of the files; auto goes by the name, then the first bytes.")
    ] = Format.AUTO,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id-column",
            "--id-field",
            metavar="NAME",
            help='Where ids are: a CSV column (name, or position from 0), NDJSON field ("id"), npz array.',
        ),
    ] = None,
    id_format: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE", help="Ids for rows without one, from {row} (from 0) and {stem} (of the file name); default: {row}."
        ),
    ] = None,
    payload_columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="What to keep as payload: CSV columns, NDJSON fields, npz arrays, svmlight label and qid."),
    ] = None,
    ignore_columns: Annotated[str | None, typer.Option(metavar="A,B", help="CSV columns to leave out.")] = None,
    delimiter: Annotated[str | None, typer.Option(metavar="CHAR", help="CSV delimiter; default: found in the first line.")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line of a CSV file names the columns; default: found out."),
    ] = None,
    array: Annotated[str | None, typer.Option(metavar="NAME", help="Array of a .npz archive that holds the vectors.")] = None,
    index_base: Annotated[int, typer.Option(min=0, max=1, help="Number of the first feature in svmlight files; it is subtracted.")] = 0,
    batch: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Rows an add, each one durable transaction.")] = 1_000,
    mode: Annotated[
        Mode, typer.Option(help="Ids that are there are replaced (upsert), refused (insert) or required (update).")
    ] = Mode.UPSERT,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Go on where an interrupted import of the same file ended.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Import files of vectors into a collection: .npy, .npz, CSV, NDJSON, svmlight.

    - npy: a matrix, one vector a row
    - npz: a matrix, or a CSR matrix as scipy.sparse.save_npz writes it
    - csv: numbers, one vector a line, with an optional header
    - ndjson: one {"id", "vector", "payload"} a line, as POST /index takes them
    - svmlight: "label index:value ..." lines, sparse

    However the import ends early (Ctrl-C, a killed process, a bad row), nothing acknowledged is lost, and the same command goes on
    after the last acknowledged batch. A batch with a bad row is not written at all. Memory is bounded by one batch.
    """
    from kinbin_service.importing import AddOptions, ReadOptions, import_files

    if url is not None and data is not None and str(data) != os.environ.get("KINBIN_DATA"):
        raise typer.BadParameter("give --data or --url, not both")
    delimiter = "\t" if delimiter in {"\\t", "tab"} else delimiter
    if delimiter is not None and len(delimiter) != 1:
        raise typer.BadParameter('--delimiter takes one character, or "tab"')
    read = ReadOptions(
        format=file_format.value,
        id_column=id_column,
        id_format=id_format,
        payload_columns=_split(payload_columns),
        ignore_columns=_split(ignore_columns),
        delimiter=delimiter,
        header=header,
        array=array,
        index_base=index_base,
    )
    add = AddOptions(rows=batch, mode=mode.value, kernel=kernel and kernel.value, dim=dim)
    with failing_in_one_line(), _target(url, data or DEFAULT_DATA, collection) as (target, folder):
        summary = import_files(files, target, folder, read, add, resume=resume, console=_error_console())
        _show_import(collection, summary, as_json)
        if summary.stopped_by is not None:
            message = f"stopped after {summary.last_rows:,} rows of {summary.last}; the same command goes on from there"
            raise Failure(message, 128 + summary.stopped_by)


def _show_import(collection: str, summary: Summary, as_json: bool) -> None:
    added = summary.added
    if as_json:
        _print_json(
            {
                "collection": collection,
                "finished": summary.stopped_by is None,
                "files": summary.files,
                "rows": summary.rows,
                "rows_skipped": summary.skipped,
                "indexed": added.indexed,
                "updated": added.updated,
                "unchanged": added.unchanged,
                "count": added.count,
                "seconds": round(summary.seconds, 3),
            }
        )
        return
    rate = f" ({summary.rows / summary.seconds:,.0f} rows/s)" if summary.rows and summary.seconds else ""
    what = f"{added.indexed:,} new, {added.updated:,} replaced, {added.unchanged:,} unchanged"
    total = "" if added.count is None else f"; {added.count:,} items in the collection"
    typer.echo(f"{collection}: {summary.rows:,} rows imported in {summary.seconds:,.1f} s{rate}: {what}{total}")


@contextmanager
def _target(url: str | None, data: Path, name: str) -> Iterator[tuple[Target, Path]]:
    """The collection to import into, and the folder for the states of imports into it."""
    import kinbin
    from kinbin_service.importing import DatabaseTarget

    if url is None:
        with kinbin.open(data) as database:
            folder = data / "imports"
            folder.mkdir(exist_ok=True)
            yield DatabaseTarget(database, name), folder
        return
    try:
        from kinbin_client import Client
    except ModuleNotFoundError:
        raise Failure("--url needs the client: pip install kinbin-client") from None
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kinbin" / "imports"
    folder.mkdir(parents=True, exist_ok=True)
    with Client(url, api_key=api_key(), timeout=300.0) as client:
        yield _ServiceTarget(client, url, name), folder


def api_key() -> str | None:
    """The key of the service, from where the service itself takes it: never from the command line, which every process can read."""
    file = os.environ.get("KINBIN_API_KEY_FILE")
    return Path(file).read_text(encoding="utf-8").strip() if file else os.environ.get("KINBIN_API_KEY") or None


class _ServiceTarget:
    """A collection behind a running service, as a target of imports. An add may travel in several requests, in order."""

    def __init__(self, client: Client, url: str, name: str) -> None:
        self.place, self.name = url.rstrip("/"), name
        self._client = client
        self._collection = client.collection(name)

    def prepare(self, kernel: str | None, dim: int | None, first: Batch) -> None:
        """Make the collection, or compare the one that is there."""
        from kinbin_client.errors import NotFound
        from kinbin_service.importing import check_alike, try_out

        try:
            info = self._collection.info()
        except NotFound:
            chosen: Any = kernel or "ngmm"
            wanted = first.dim if dim is None else dim
            try_out(first, chosen, wanted)
            self._client.create_collection(self.name, kernel=chosen, dim=wanted)
        else:
            check_alike(self.name, info.kernel or "", info.dim, asked_kernel=kernel, asked_dim=dim)

    def add(self, batch: Batch, mode: str) -> Added:
        """Add a batch."""
        from kinbin_client.errors import Conflict, InvalidArgument, InvalidInput
        from kinbin_service.importing import Added, Refused

        try:
            done = self._collection.add(batch.ids, _for_client(batch.vectors), batch.payloads, mode)  # type: ignore[arg-type]
        except InvalidInput as error:
            raise Refused([(problem.position, problem.detail) for problem in error.errors] or [(None, error.detail)]) from None
        except InvalidArgument as error:
            raise Refused([(error.position, str(error.args[0]))]) from None
        except Conflict as error:
            if error.code != "item_conflict":
                raise
            raise Refused([(None, error.detail)], conflict=True) from None
        return Added(done.indexed, done.updated, done.unchanged, done.count)

    def present(self, ids: Sequence[str]) -> list[bool]:
        """Which of these items are in the collection."""
        from kinbin_client.errors import NotFound

        try:
            there = {item.id for item in self._collection.get(ids, include=()).items}
        except NotFound:
            return [False] * len(ids)
        return [identifier in there for identifier in ids]


def _for_client(vectors: NDArray[Any] | list[Vector]) -> Any:
    """Vectors in the client's own forms."""
    return [_one_for_client(vector) for vector in vectors] if isinstance(vectors, list) else vectors


def _one_for_client(vector: Vector) -> Any:
    import numpy as np

    import kinbin
    import kinbin_client

    if isinstance(vector, kinbin.Sparse):
        return kinbin_client.Sparse(np.asarray(vector.indices).tolist(), np.asarray(vector.values).tolist())
    return kinbin_client.Tokens(vector.counts) if isinstance(vector, kinbin.Tokens) else vector


# ------------------------------------------------------------------------------------------ query


@app.command()
def query(
    data: DataOption = DEFAULT_DATA,
    collection: Annotated[str, typer.Option(metavar="NAME", help="Collection to search.")] = DEFAULT_COLLECTION,
    vector: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='The query: [0.1, 0, 2.5] or {"indices": [3], "values": [1.5]} or {"tokens": {"red": 3}}.'),
    ] = None,
    identifier: Annotated[str | None, typer.Option("--id", metavar="ID", help="Query by the vector of this stored item.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="Q.npy", help="Query by one vector (1-d) or many (2-d, one a row) in a .npy file.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Neighbours to find.")] = 10,
    target_recall: Annotated[float, typer.Option(min=0.0, max=1.0, help="Stop once this recall is proved.")] = 0.9,
    min_score: Annotated[float | None, typer.Option(help="Leave out neighbours that score less.")] = None,
    condition: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help='Only items whose payload fits, such as {"year": {"$gte": 2020}}.')
    ] = None,
    mode: Annotated[Search, typer.Option(help="bands: by the index; exact: a full scan; auto: whichever suits.")] = Search.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Find the nearest items of a vector, of a stored item, or of every row of a file.

    Scores are exact. With each answer comes a proved lower bound on its recall, or the reason why none can be stated.
    """
    import kinbin

    if sum(given is not None for given in (vector, identifier, file)) != 1:
        raise typer.BadParameter("give one of --vector, --id and --file")
    options = {
        "k": k,
        "target_recall": target_recall,
        "min_score": min_score,
        "filter": None if condition is None else _parse_json(condition, "--filter"),
        "mode": mode.value,
    }
    with failing_in_one_line(), _database(data) as database:
        searched = database.collection(collection)
        began = perf_counter()
        try:
            many, answers = _answers(searched, vector, identifier, file, options)
        except kinbin.InvalidInput as error:
            problem = error.problems[0]
            where = f"{file}, row {problem.position}: " if file is not None and problem.position is not None else ""
            raise Failure(where + problem.detail) from None
        took_ms = (perf_counter() - began) * 1_000
        payloads = _payloads(searched, answers)
    if as_json:
        found = [_answer_json(answer, payloads) for answer in answers]
        took = {"took_ms": round(took_ms, 3)}
        _print_json({"answers": found, **took} if many else {**found[0], **took})
        return
    for position, answer in enumerate(answers):
        _show_answer(answer, payloads, f"Query {position}" if many else None)


def _answers(
    collection: kinbin.Collection, vector: str | None, identifier: str | None, file: Path | None, options: dict[str, Any]
) -> tuple[bool, list[kinbin.Answer]]:
    """The answers, and whether there may be many of them."""
    from kinbin_service.importing import parse_vector

    if identifier is not None:
        return False, [collection.query_id(identifier, **options)]
    if file is not None:
        queries = _load_queries(file)
        return (
            (True, list(collection.query_batch(queries, **options)))
            if queries.ndim == 2
            else (False, [collection.query(queries, **options)])
        )
    try:
        parsed = parse_vector(_parse_json(vector or "", "--vector"))
    except ValueError as error:
        raise Failure(f"--vector: {error}", 2) from None
    return False, [collection.query(parsed, **options)]


def _load_queries(file: Path) -> NDArray[Any]:
    import numpy as np

    try:
        with file.open("rb") as opened:
            queries = np.lib.format.read_array(opened, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise Failure(f"{file}: not an array in .npy format ({error})") from None
    if queries.ndim not in {1, 2} or queries.dtype.kind not in "fiub":
        raise Failure(f"{file}: expected one vector (1-d) or a matrix of them (2-d) of real numbers in .npy format")
    return queries if queries.dtype == np.float32 else queries.astype(np.float64)


def _parse_json(text: str, option: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"{option} is not JSON ({error.msg}, column {error.colno}): put it in single quotes") from None


def _payloads(collection: kinbin.Collection, answers: Iterable[kinbin.Answer]) -> dict[str, Any]:
    """The payload of every item in the answers."""
    import kinbin

    ids = list(dict.fromkeys(identifier for answer in answers for identifier in answer.ids))
    page = int(kinbin.LIMITS["page"].value)
    parts = (collection.get(ids[start : start + page], include=("payload",)) for start in range(0, len(ids), page))
    return {item.id: item.payload for part in parts for item in part if item is not None}


def _answer_json(answer: kinbin.Answer, payloads: dict[str, Any]) -> dict[str, Any]:
    """An answer in the form of `POST /query`."""
    results = [
        {"id": identifier, "score": score, "payload": payloads.get(identifier)}
        for identifier, score in zip(answer.ids, answer.scores.tolist(), strict=True)
    ]
    bound: dict[str, Any] = {"recall_lower_bound": answer.recall_lower_bound}
    if answer.recall_lower_bound is None:
        bound["no_bound"] = answer.no_bound
    work = {"mode": answer.mode, "candidates": answer.candidates, "verified": answer.verified, "truncated": answer.truncated}
    return {"results": results, **bound, **work}


def _show_answer(answer: kinbin.Answer, payloads: dict[str, Any], title: str | None) -> None:
    console = Console()
    table = Table("rank", "id", "score", "payload", title=title, title_justify="left", box=None, pad_edge=False)
    table.columns[0].justify = table.columns[2].justify = "right"
    for rank, (identifier, score) in enumerate(zip(answer.ids, answer.scores.tolist(), strict=True), 1):
        payload = payloads.get(identifier)
        shown = "" if payload is None else orjson.dumps(payload).decode()
        table.add_row(str(rank), Text(identifier), f"{score:.6f}", Text(shown, overflow="ellipsis", no_wrap=True))
    console.print(table)
    _tell(console, certificate_line(answer.recall_lower_bound, answer.no_bound, answer.mode, answer.verified, answer.candidates), "dim")
    if answer.truncated:
        _tell(console, f"truncated: {', '.join(answer.truncated)}", "yellow")


def certificate_line(bound: float | None, no_bound: str | None, mode: str, verified: int, candidates: int) -> str:
    """What is known about the completeness of an answer, in words."""
    proved = f"no bound on recall: {no_bound}" if bound is None else f"recall is at least {bound:.3f}, proved"
    return f"{proved}; mode {mode}, {verified:,} of {candidates:,} candidates scored"


# ------------------------------------------------------------------------------------------ stats, check


def _names(database: kinbin.Database, collection: str | None) -> list[str]:
    """The named collection, or all of them. Raises CollectionNotFound."""
    return database.collections() if collection is None else [database.collection(collection).name]


CollectionOption = Annotated[str | None, typer.Option("--collection", metavar="NAME", help="Only this collection; default: all of them.")]


@app.command()
def stats(data: DataOption = DEFAULT_DATA, collection: CollectionOption = None, as_json: JsonOption = False) -> None:
    """Show what is stored: items, rows, runs and bytes of every collection, or all about one."""
    with failing_in_one_line(), _database(data) as database:
        found = {name: database.collection(name).stats() for name in _names(database, collection)}
    if as_json:
        _print_json(found if collection is None else found[collection])
    elif collection is not None:
        _show_stats(collection, found[collection])
    else:
        _show_overview(data, found)


def _show_overview(data: Path, found: dict[str, dict[str, Any]]) -> None:
    if not found:
        typer.echo(f"{data} holds no collections")
        return
    table = Table("collection", "items", "kernel", "dim", "runs", "size", box=None, pad_edge=False)
    for column in (1, 4, 5):
        table.columns[column].justify = "right"
    for name, about in found.items():
        dim = "sparse" if about["dim"] is None else str(about["dim"])
        table.add_row(name, f"{about['count']:,}", about["kernel"], dim, str(len(about["runs"])), _size(about["bytes"]))
    Console().print(table)


def _show_stats(name: str, about: dict[str, Any]) -> None:
    console = Console()
    _tell(console, name, "bold")
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in about.items():
        if key == "runs":
            continue
        shown = _size(value) if key == "bytes" else f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        table.add_row(f"  {key}", Text("–" if value is None else shown))
    console.print(table)
    runs: list[dict[str, Any]] = about["runs"]
    if runs:
        keys = list(runs[0])
        listing = Table(*(key.replace("_", " ") for key in keys), title="  runs, oldest first", title_justify="left", box=None)
        for run in runs:
            listing.add_row(*(str(run.get(key)) for key in keys))
        console.print(listing)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} TB"


@app.command()
def check(data: DataOption = DEFAULT_DATA, collection: CollectionOption = None, as_json: JsonOption = False) -> None:
    """Verify a database: every checksum, every bound, and the postings of every run against its rows.

    Reads everything, changes nothing, and may run beside a service. Exit code 1 when something is wrong.
    """
    with failing_in_one_line(), _database(data) as database:
        names = _names_to_check(database, collection)
        reports = {name: _check_one(database, name) for name in names}
    bad = [name for name, report in reports.items() if not report["ok"]]
    if as_json:
        _print_json({"ok": not bad, "collections": reports})
    else:
        _show_check(data, reports)
    if bad:
        raise typer.Exit(1)


def _names_to_check(database: kinbin.Database, collection: str | None) -> list[str]:
    """The named collection or all of them; naming one must not open it, for it may be damaged."""
    import kinbin

    names = database.collections()
    if collection is None:
        return names
    if collection not in names:
        raise kinbin.CollectionNotFound(f'no collection "{collection}"')
    return [collection]


def _check_one(database: kinbin.Database, name: str) -> dict[str, Any]:
    """The report on one collection; one that is too damaged to open or to read on is reported, too."""
    import kinbin

    try:
        report = database.collection(name).check()
    except kinbin.KinbinError as error:
        return _unreadable(str(error))
    except Exception as error:  # noqa: BLE001 - damage may break any assumption, and the other collections are to be checked all the same
        return _unreadable(f"reading it failed: {type(error).__name__}: {error}")
    return {"ok": report.ok, "items": report.items, "rows": report.rows, "runs": report.runs, "problems": list(report.problems)}


def _unreadable(problem: str) -> dict[str, Any]:
    return {"ok": False, "items": None, "rows": None, "runs": None, "problems": [problem]}


def _show_check(data: Path, reports: dict[str, dict[str, Any]]) -> None:
    console = Console()
    if not reports:
        typer.echo(f"{data} holds no collections")
    for name, report in reports.items():
        if report["ok"]:
            _tell(console, f"{name}: ok: {report['items']:,} items, {report['rows']:,} rows, {report['runs']:,} runs")
            continue
        _tell(console, f"{name}: DAMAGED", "bold red")
        for problem in report["problems"]:
            _tell(console, f"  {_one_line(problem)}")
    if any(not report["ok"] for report in reports.values()):
        _tell(console, "Restore a snapshot, or import the damaged collections again from their source.")


if __name__ == "__main__":
    app()
