"""What several commands take: the database they work on, a collection of it, JSON instead of text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinbin_service.cli.output import Failure

if TYPE_CHECKING:
    import kinbin

__all__ = ["DEFAULT_COLLECTION", "DEFAULT_DATA", "CollectionOption", "DataOption", "JsonOption", "existing_database"]

DEFAULT_DATA = Path("kinbin-data")
DEFAULT_COLLECTION = "default"
"""The collection of `POST /index` and `POST /query`."""

DataOption = Annotated[Path, typer.Option("--data", envvar="KINBIN_DATA_DIR", metavar="DIR", help="Directory of the database.")]
CollectionOption = Annotated[str | None, typer.Option("--collection", metavar="NAME", help="Only this collection; default: all of them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, for programs.")]


@contextmanager
def existing_database(data: Path) -> Iterator[kinbin.Database]:
    """A database that is there, open for the block: looking at one must not make one. Raises Failure."""
    import kinbin

    if not (data / "collections").is_dir():
        raise Failure(f"no database in {data}: --data names its directory; kinbin import and kinbin serve make one")
    with kinbin.open(data) as database:
        yield database
