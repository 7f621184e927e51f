"""What every file of documents offers, whatever its format, and what is refused in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kinbin_service.deduplicating.memory import characters_of
from kinbin_service.importing import SourceError

__all__ = ["BATCH", "MARKS", "Documents", "Fate", "Position", "batched", "no_utf8", "refuse_marks", "too_long", "without_text"]

MARKS = ("cluster", "keep")
"""What is added to documents that are marked: the number of the first of its cluster, and whether it is that one."""
BATCH = 2_000
_BATCH_CHARACTERS = 1 << 22

Fate = tuple[int, bool]
"""The marks of a document."""
Position = list[int]
"""Documents, and bytes (of a file of lines), before the next."""


class Documents(Protocol):
    """A file of documents."""

    total: int
    """Of what progress counts: bytes or rows."""

    def texts(self, position: Position | None, *, mark: bool = False) -> Iterator[tuple[list[str], Position]]:
        """Batches of texts, and where the next begins. position: where to go on; None: at the beginning. mark: they are to be marked.

        Raises:
            SourceError: a document is none, or has fields of the names of marks, as far as that is seen here.
        """
        ...

    def progress(self, position: Position) -> int:
        """How much of `total` lies before a position."""
        ...

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        """The documents that are kept, as they are; mark: all of them, with what became of each."""
        ...


def batched(path: Path, found: Iterable[tuple[str, Position]], longest: int) -> Iterator[tuple[list[str], Position]]:
    """Texts in batches that are neither too many nor too long.

    Raises:
        SourceError: one is longer than `longest`.
    """
    most = min(_BATCH_CHARACTERS, longest)
    texts: list[str] = []
    size = 0
    behind: Position = []
    for text, position in found:
        here = characters_of(text)
        if here > longest:
            raise too_long(path, position[0], f"{here:,} characters", f"{longest:,}")
        if texts and (len(texts) == BATCH or size + here > most):
            yield texts, behind
            texts, size = [], 0
        texts.append(text)
        size += here
        behind = position
    if texts:
        yield texts, behind


def too_long(path: Path, number: int, size: str, most: str) -> SourceError:
    """Of a document, or of the header (number 0), that the memory does not hold."""
    what = f"document {number}" if number else "the header"
    return SourceError(path, f"{what} has {size}, and the memory that is allowed holds {most}: cut it, or raise --memory")


def without_text(path: Path, field: str, number: int) -> SourceError:
    """Of a document that has no text where the others have theirs; the first tells nothing of others."""
    advice = "name the field with --text" if number == 1 else "every document needs one: put an empty string there, or leave it out"
    return SourceError(path, f'document {number} has no string in "{field}": {advice}')


def no_utf8(path: Path, number: int) -> SourceError:
    """Of a document whose bytes are no text."""
    return SourceError(path, f"document {number} is no UTF-8")


def refuse_marks(path: Path, names: Sequence[str] | dict[str, object]) -> None:
    """Raise SourceError where documents have fields of the names of marks."""
    taken = [name for name in MARKS if name in names]
    if taken:
        raise SourceError(path, f'documents have a field "{taken[0]}" already: leave --mark out, or rename it')
