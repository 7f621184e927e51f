"""One file of documents into another without near duplicates; what was broken off goes on."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kinbin
from kinbin_service.deduplicating.source import Documents, Fate
from kinbin_service.importing import SourceError

__all__ = ["Deduplicated", "deduplicate"]

_SHOWN = 100_000
"""Documents whose fates are at hand at a time."""

Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """What was done."""

    documents: int
    kept: int
    miss_probability: float
    compared: int


def deduplicate(
    source: Documents, job: kinbin.TextDuplicates, out: Path, *, mark: bool, check: Callable[[], None], progress: Progress | None = None,
) -> Deduplicated:  # fmt: skip
    """Read what is not read yet, find the clusters, and write the file anew, which is there when all of it is.

    check: raises if the source is not what it was when reading began; it is read twice. progress(stage, done, of): "reading", "hashing",
    "comparing", "writing".

    Raises:
        SourceError: the file cannot be read, or another process writes `out`.
    """
    tell = progress or (lambda *_: None)
    if not job.is_read:
        for texts, position in source.texts(job.position, mark=mark):
            job.add(texts, position)
            tell("reading", source.progress(position), source.total)
    check()
    found = job.finish(progress)
    with _draft(out) as draft:
        try:
            source.write(draft, _fates(found.cluster, tell), mark=mark)
        finally:
            # What another file did not agree with is told as what it is.
            check()
        draft.replace(out)
    return Deduplicated(job.documents, found.kept, found.miss_probability, found.compared)


@contextmanager
def _draft(out: Path) -> Iterator[Path]:
    """The file that becomes the output, of one process at a time; what a killed one left of it is forgotten."""
    draft = out.with_name(f".{out.name}.part")
    while True:
        file = draft.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise SourceError(out, "another process writes this output: wait until it is done, or name another") from None
        # Whoever held it may have renamed or removed it meanwhile.
        with suppress(FileNotFoundError):
            if os.path.samestat(draft.stat(), os.fstat(file.fileno())):
                break
        file.close()
    with file:
        try:
            yield draft
        finally:
            with suppress(FileNotFoundError):
                if os.path.samestat(draft.stat(), os.fstat(file.fileno())):
                    draft.unlink()


def _fates(cluster: Any, tell: Progress) -> Iterator[Fate]:
    """Of each document the first of its cluster, and whether it is that."""
    n = len(cluster)
    for start in range(0, n, _SHOWN):
        for number, first in enumerate(cluster[start : start + _SHOWN].tolist(), start):
            yield first, first == number
        tell("writing", min(start + _SHOWN, n), n)
