"""One file of documents into another without near duplicates; what was broken off goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kinbin
from kinbin_service.deduplicating.files import Documents, Fate

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
    """
    tell = progress or (lambda *_: None)
    if not job.is_read:
        for texts, position in source.texts(job.position):
            job.add(texts, position)
            tell("reading", source.progress(position), source.total)
    check()
    found = job.finish(progress)
    draft = out.with_name(f".{out.name}.part")
    try:
        try:
            source.write(draft, _fates(found.cluster, tell), mark=mark)
        finally:
            # What another file did not agree with is told as what it is.
            check()
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
    return Deduplicated(job.documents, found.kept, found.miss_probability, found.compared)


def _fates(cluster: Any, tell: Progress) -> Iterator[Fate]:
    """Of each document the first of its cluster, and whether it is that."""
    n = len(cluster)
    for start in range(0, n, _SHOWN):
        for number, first in enumerate(cluster[start : start + _SHOWN].tolist(), start):
            yield first, first == number
        tell("writing", min(start + _SHOWN, n), n)
