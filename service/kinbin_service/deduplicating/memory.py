"""What a job may hold: the longest text that fits, and a limit that the system keeps.

--memory = the program (80 MB, 128 are allowed) + buffers of `kinbin.TextDuplicates`, or the texts at hand: 96 bytes a character at most
"""

from __future__ import annotations

import ctypes
import resource
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["PER_CHARACTER", "characters_of", "give_back", "limited", "longest"]

_PART = 1 << 16
"""Characters that are brought into the normal form at a time, to count them: of a text that is refused all of it may not fit."""
PER_CHARACTER = 96
"""Bytes that a character of the texts at hand takes at most, cut into runs of characters by the rules of Unicode, and compared: 90."""
_PROGRAM_MB = 128
_MMAP_THRESHOLD = -3
"""A name of malloc.h."""


def longest(memory_mb: int) -> int:
    """The characters of a text that fits: 10,922 a MB."""
    return ((memory_mb - _PROGRAM_MB) << 20) // PER_CHARACTER


def characters_of(text: str) -> int:
    """How many characters are cut: one may be up to 18 in the normal form.

    A mark that is joined to a letter of the part before may count by itself.
    """
    if text.isascii():
        return len(text)
    parts = (text[start : start + _PART] for start in range(0, len(text), _PART))
    return sum(len(unicodedata.normalize("NFKC", part).casefold()) for part in parts)


def give_back() -> None:
    """Have blocks of a megabyte and more given back when they are freed, which glibc keeps otherwise: what is kept no limit sees."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)


@contextmanager
def limited(most: int) -> Iterator[None]:
    """Let this process hold so many bytes at most, page cache left out: what asks the system for more gets a MemoryError. On Linux alone.

    Around what lets go of its memory with one, as pyarrow does. Other libraries end the process, or wait for ever.
    """
    status = _status()
    if status is None:
        yield
        return
    mapped, held = status
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [one for one in (mapped + max(0, most - held), soft, hard) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _status() -> tuple[int, int] | None:
    """What counts for the limit of the system, and what of it is in memory, in bytes."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    mapped, held = (int(status.partition(f"{name}:")[2].split(maxsplit=1)[0]) << 10 for name in ("VmData", "RssAnon"))
    return mapped, held
