"""The first rows of a file, in memory: what is tried out before it is imported."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinbin_service.importing.batches import Position, SourceError
from kinbin_service.importing.formats import ReadOptions, open_source

__all__ = ["FirstRows", "first_rows"]

_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Vectors or objects of a file, from its beginning."""

    vectors: list[Any]
    items: str
    """What they are, as `kinbin.KINDS` names it."""
    dim: int | None
    """As an import would choose it."""
    whole: bool
    """Whether these are all."""


def first_rows(path: Path, options: ReadOptions, most: int) -> FirstRows:
    """So many rows of a file at most.

    Raises:
        SourceError: a row cannot be read, or there is none. OSError.
    """
    with tempfile.TemporaryDirectory(prefix="kinbin-tune-") as work, closing(open_source(path, options, Path(work))) as source:
        vectors: list[Any] = []
        first = None
        for batch in source.batches(Position(), _AT_ONCE):
            first = first or batch
            vectors.extend(batch.vectors)
            if len(vectors) > most:
                break
    if first is None or not len(first):
        raise SourceError(path, "there is no row in it")
    return FirstRows(vectors[:most], first.items, first.dim, len(vectors) <= most)
