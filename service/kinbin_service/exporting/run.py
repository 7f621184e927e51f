"""An export as a whole: a file that is complete under its name, or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kinbin_service.exporting.items import Stored
from kinbin_service.exporting.ndjson import write_ndjson
from kinbin_service.exporting.npz import write_npz
from kinbin_service.objects import VECTOR

__all__ = ["FORMATS", "Exported", "export_items"]

FORMATS = ("ndjson", "npz")


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    items: int
    bytes: int


def export_items(pages: Iterable[list[Stored]], path: Path, form: str, dim: int | None, key: str = VECTOR) -> Exported:
    """Write items to a file, which takes its name (and another file's place) when it is complete and on disk.

    key: what objects are written under.

    Raises OSError, and what reading the items raises; then nothing is left behind.
    """
    with _replacing(path) as file:
        items = write_ndjson(pages, file, key) if form == "ndjson" else write_npz(pages, file, dim, path.parent)
        file.flush()
        size = os.fstat(file.fileno()).st_size
    return Exported(items, size)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path`, which replaces it if the block ends well."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
