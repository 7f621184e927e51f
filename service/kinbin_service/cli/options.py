"""What several commands take: the database they work on, a collection of it, JSON instead of text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

import kinbin
from kinbin.errors import suggestion
from kinbin_service.cli.output import Failure

__all__ = [
    "DEFAULT_COLLECTION",
    "DEFAULT_DATA",
    "DEFAULT_KERNEL",
    "DISTANCE_NAMES",
    "KERNEL_NAMES",
    "KIND_NAMES",
    "CollectionOption",
    "DataOption",
    "FeatureColumnsOption",
    "FilterOption",
    "Format",
    "FormatOption",
    "IdColumnOption",
    "IgnoreColumnsOption",
    "IndexOption",
    "JsonOption",
    "PayloadColumnsOption",
    "PlaceDataOption",
    "SnapshotsOption",
    "UrlOption",
    "distance_name",
    "existing_database",
    "indexes_of",
    "kernel_and_parameters",
    "kernel_name",
    "kind_name",
    "names_in",
    "number_of",
    "numbers_of",
    "on",
    "parsed_json",
]

_NOT_FINITE = re.compile(r"[\[,:]\s*[+-]?(nan|inf(inity)?)\b", re.IGNORECASE)
"""A number that Python prints, and JSON does not know."""


class Format(StrEnum):
    """Formats of source files."""

    AUTO = "auto"
    NPY = "npy"
    NPZ = "npz"
    CSV = "csv"
    NDJSON = "ndjson"
    SVMLIGHT = "svmlight"
    TEXT = "text"
    TS = "ts"
    IMAGES = "images"


DEFAULT_DATA = Path("kinbin-data")


def on(data: Path) -> str:
    """What a command that is advised needs to find this database: it can be copied as it stands."""
    return "" if data == DEFAULT_DATA else f" --data {shlex.quote(str(data))}"


DEFAULT_COLLECTION = "default"
"""The collection of `POST /index` and `POST /query`."""

DataOption = Annotated[Path, typer.Option("--data", envvar="KINBIN_DATA_DIR", metavar="DIR", help="Directory of the database.")]
PlaceDataOption = Annotated[
    Path | None, typer.Option("--data", envvar="KINBIN_DATA_DIR", metavar="DIR", help="Directory of the database; default kinbin-data.")
]
SnapshotsOption = Annotated[
    Path | None,
    typer.Option(
        "--snapshots", envvar="KINBIN_SNAPSHOTS_DIR", metavar="DIR",
        help="Where the database keeps snapshots; default: `snapshots` in its directory. With --url the service knows.",
    ),
]  # fmt: skip
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="Work through the service at this address instead. Its key is read from KINBIN_API_KEY(_FILE)."
    ),
]
CollectionOption = Annotated[str | None, typer.Option("--collection", metavar="NAME", help="Only this collection; default: all of them.")]
FilterOption = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help='Only items whose payload fits, such as \'{"year": {"$gte": 2020}}\'.')
]
FormatOption = Annotated[Format, typer.Option("--format", help="Format of the files; auto goes by the name, then the first bytes.")]
IdColumnOption = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        "--id-field",
        metavar="NAME",
        help='Where ids are: a CSV column (name, or position from 0), NDJSON field ("id"), npz array.',
    ),
]
PayloadColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="What to keep as payload: CSV columns, NDJSON fields, npz arrays, svmlight label and qid."),
]
IgnoreColumnsOption = Annotated[str | None, typer.Option(metavar="A,B", help="CSV columns to leave out.")]
FeatureColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="CSV columns that are features although their names (id, label, class …) suggest otherwise."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, for programs; errors as well.")]


KERNEL_NAMES = f"One of {', '.join(kinbin.KERNELS)}, a product of two or three, such as gmm*acos, or nested."
"""The kernels, as `kinbin.KERNELS` names them."""
DEFAULT_KERNEL = "ngmm"
KIND_NAMES = f"One of {', '.join(kinbin.KINDS)}."
_INDEX_KIND_NAMES = f"KIND is one of {', '.join(kinbin.INDEX_KINDS)}."
DISTANCE_NAMES = f"One of {', '.join(kinbin.OBJECT_KERNELS)}."
IndexOption = Annotated[
    list[str] | None,
    typer.Option(
        "--index",
        metavar="FIELD:KIND",
        help=f"A field of payloads that filters ask for, as year:number; may be repeated. {_INDEX_KIND_NAMES} "
        "A collection that is there gets it as well.",
    ),
]


def kind_name(name: str) -> str:
    """A kind of items that is known. Raises BadParameter."""
    if name not in kinbin.KINDS:
        raise typer.BadParameter(f"{name} is no kind of items: there are {', '.join(kinbin.KINDS)}")
    return name


def distance_name(name: str | None) -> str | None:
    """A distance of objects that is known. Raises BadParameter."""
    if name is not None and name not in kinbin.OBJECT_KERNELS:
        raise typer.BadParameter(
            f"{name} is no distance of objects: there are {', '.join(kinbin.OBJECT_KERNELS)}{suggestion(name, kinbin.OBJECT_KERNELS)}"
        )
    return name


def kernel_name(name: str | None) -> str | None:
    """A kernel's name that is known; products are judged where they are made. Raises BadParameter."""
    if name is not None and "*" not in name and name not in {"nested", *kinbin.OBJECT_KERNELS, *kinbin.KERNELS}:
        more = f"a product of two or three, such as gmm*acos, or nested{suggestion(name, kinbin.KERNELS)}"
        raise typer.BadParameter(f"{name} is no kernel: there are {', '.join(kinbin.KERNELS)}, {more}")
    return name


def number_of(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE: a number, numbers with commas between them, or a word. Raises BadParameter."""
    name, _, value = text.partition("=")
    try:
        numbers = [float(one) for one in value.split(",")]
    except ValueError:
        if not value.isidentifier():
            raise typer.BadParameter(f"--parameter takes NAME=VALUE, such as gamma=2, not {text}") from None
        return name, value
    return name, numbers if len(numbers) > 1 else numbers[0]


def numbers_of(given: list[str]) -> dict[str, Any] | None:
    """Parameters of a kernel as they were written; None: none were. Raises BadParameter."""
    return dict(map(number_of, given)) or None


def kernel_and_parameters(kernel: str | None, parameters: Mapping[str, Any] | None) -> str:
    """What a collection compares by, for people."""
    from kinbin_service.importing import told_parameters

    return " ".join([f"kernel {kernel}", *([told_parameters(parameters, " ")] if parameters else [])])


def names_in(text: str | None) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


def indexes_of(given: list[str] | None) -> dict[str, str] | None:
    """The payload indexes that were asked for, by field; whoever makes them says what is wrong with a field. Raises BadParameter."""
    split = [one.rpartition(":") for one in given or []]
    for field, _, kind in split:
        if not field or not kind:
            raise typer.BadParameter("--index takes a field and a kind, as year:number")
        if kind not in kinbin.INDEX_KINDS:
            known = ", ".join(kinbin.INDEX_KINDS)
            raise typer.BadParameter(f"{kind} is no kind of index: there are {known}{suggestion(kind, kinbin.INDEX_KINDS)}")
    return {field: kind for field, _, kind in split} or None


_EXAMPLES = {"--vector": "as '[0, 2.5, 1]'", "--filter": """as '{"year": {"$gt": 2010}}'"""}


def parsed_json(text: str, option: str) -> Any:
    """The JSON that an option holds. Raises BadParameter."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if _NOT_FINITE.search(text):
            raise typer.BadParameter(f"{option} has a number that is not finite, which JSON does not know") from None
        advice = _EXAMPLES.get(option, "and text in double ones")
        raise typer.BadParameter(f"{option} is not JSON ({error.msg}, column {error.colno}): put it in single quotes, {advice}") from None


@contextmanager
def existing_database(data: Path, snapshots: Path | None = None) -> Iterator[kinbin.Database]:
    """A database that is there, open for the block, as `kinbin.open` has it: looking at one must not make one. Raises Failure."""
    if not (data / "collections").is_dir():
        raise Failure(f"no database in {data}: --data names its directory; kinbin import and kinbin serve make one")
    with kinbin.open(data, snapshots) as database:
        yield database
