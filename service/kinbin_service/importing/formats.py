"""Which reader a file needs: told by its name, else by its first bytes, unless the user says so."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinbin_service.importing import arrays
from kinbin_service.importing.arrays import open_npy, open_npz
from kinbin_service.importing.batches import ROW_TEMPLATE, Naming, Source, SourceError
from kinbin_service.importing.csv_files import CsvFile, Roles
from kinbin_service.importing.images import SUFFIXES as IMAGES
from kinbin_service.importing.images import ImageFolder
from kinbin_service.importing.ndjson import NdjsonFile
from kinbin_service.importing.svmlight import SvmlightFile
from kinbin_service.importing.texts import TextFile
from kinbin_service.importing.ts_files import TsFile

__all__ = ["FORMATS", "ReadOptions", "brings_ids", "detect", "open_source"]

FORMATS = ("npy", "npz", "csv", "ndjson", "svmlight", "text", "ts")
"""Every format of files that can be imported, by the name --format takes; folders of images are "images"."""

_SUFFIXES = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".text": "text",
    ".ts": "ts",
}
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_SVMLIGHT = re.compile(rb"\s*[^\s:,{\"]+(\s+qid:\d+)?\s+\d+:\S")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a source file; what does not concern its format must be left at the default.

    Two imports of one file with equal options hand over the same items in the same order.
    """

    format: str = "auto"
    id_column: str | None = None
    id_format: str | None = None
    payload_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    feature_columns: tuple[str, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    array: str | None = None
    index_base: int = 0
    string: str | None = None
    thumbnails: bool = False

    def as_json(self) -> dict[str, Any]:
        """The options as JSON holds them."""
        held = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in held.items()}


_OF_FORMAT = {
    "npy": set[str](),
    "npz": {"id_column", "payload_columns", "array"},
    "csv": {"id_column", "payload_columns", "ignore_columns", "feature_columns", "delimiter", "header", "string"},
    "ndjson": {"id_column", "payload_columns"},
    "svmlight": {"payload_columns", "index_base"},
    "text": set(),
    "ts": set(),
    "images": {"thumbnails"},
}
"""The options that mean something to each format, besides `format` and `id_format`."""


def open_source(path: Path, options: ReadOptions, work: Path) -> Source:
    """Open a file for import. `work` is a folder for unpacked arrays. Raises SourceError, OSError."""
    chosen = detect(path, options)
    _refuse_foreign_options(path, chosen, options)
    naming = Naming(options.id_format or ROW_TEMPLATE, path)
    match chosen:
        case "npy":
            return open_npy(path, naming=naming)
        case "npz":
            return open_npz(
                path,
                work,
                naming=naming if options.id_format else None,
                array=options.array,
                id_column=options.id_column,
                payload_columns=options.payload_columns,
            )
        case "csv":
            return CsvFile(
                path,
                naming=naming,
                roles=Roles(options.id_column, options.payload_columns, options.ignore_columns, options.feature_columns, options.string),
                delimiter=options.delimiter,
                header=options.header,
            )
        case "ndjson":
            return NdjsonFile(
                path,
                id_field=options.id_column or "id",
                payload_fields=options.payload_columns,
                naming=naming if options.id_format else None,
            )
        case "text":
            return TextFile(path, naming=naming)
        case "ts":
            return TsFile(path, naming=naming)
        case "images":
            return ImageFolder(path, naming=naming if options.id_format else None, thumbnails=options.thumbnails)
        case _:
            return SvmlightFile(path, naming=naming, payload_columns=options.payload_columns, index_base=options.index_base)


def brings_ids(path: Path, options: ReadOptions) -> bool:
    """Whether the items of a file have ids of their own. Raises SourceError, OSError."""
    if options.id_column is not None or options.id_format is not None:
        return options.id_column is not None
    chosen = detect(path, options)
    return chosen in {"ndjson", "images"} or (chosen == "npz" and arrays.brings_ids(path))


def _refuse_foreign_options(path: Path, chosen: str, options: ReadOptions) -> None:
    """An option that the format would ignore is a misunderstanding, which is better told than hidden."""
    for option in dataclasses.fields(ReadOptions):
        if option.name in {"format", "id_format"} or option.name in _OF_FORMAT[chosen]:
            continue
        if getattr(options, option.name) != option.default:
            named = chosen if chosen == "images" else f"a {chosen} file"
            raise SourceError(path, f"--{option.name.replace('_', '-')} means nothing for {named}: leave it out")
    if options.id_column is not None and options.id_format is not None:
        raise SourceError(path, "ids come from a column or from --id-format, not from both: leave one out")


def detect(path: Path, options: ReadOptions) -> str:
    """The format of a file: as the options say, or found out. Raises SourceError, OSError."""
    if path.is_dir():
        if options.format not in {"auto", "images"}:
            raise SourceError(path, "is a folder: name the files in it")
        return "images"
    if options.format == "images":
        raise SourceError(path, "is no folder: images are imported by the folder that they are in")
    return _found_out(path) if options.format == "auto" else options.format


def _found_out(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(65_536)
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            raise SourceError(path, f"is packed with {name}: unpack it first, so that an interrupted import can go on where it ended")
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    known = _SUFFIXES.get(path.suffix.lower())
    if known is not None:
        return known
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if first.startswith(b"{"):
        return "ndjson"
    if _SVMLIGHT.match(first):
        return "svmlight"
    if path.suffix.lower() == ".txt":
        return "text"
    if path.suffix.lower() in IMAGES:
        raise SourceError(path, f"is an image: images are imported by the folder that they are in, {path.parent}")
    raise SourceError(path, f"cannot tell the format from the name or the first bytes: say --format {'|'.join(FORMATS)}")
