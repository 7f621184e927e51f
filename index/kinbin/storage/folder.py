"""The directory of a database in which its collections lie: which there are, and what a crash left."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from kinbin.errors import StorageError
from kinbin.rows.identity import is_name
from kinbin.storage.datafile import DATA

__all__ = ["holds", "listed", "odd_ones", "refuse_denied", "remove_leftovers", "which"]

_OLD_SECONDS = 3600.0
"""After so long nobody works on a draft of a new collection any more."""


def listed(folder: Path) -> list[str]:
    """The names of all collections, sorted."""
    return sorted(entry.name for entry in folder.iterdir() if is_name(entry.name) and holds(entry))


def odd_ones(folder: Path) -> list[str]:
    """What lies among the collections under a name that none can have, sorted: copies, most often."""
    odd = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(".") and not is_name(entry.name))
    return [name.encode("utf-8", "backslashreplace").decode() for name in odd]


def remove_leftovers(folder: Path) -> None:
    """Remove what a crash left: files of removed collections, and old drafts of new ones."""
    with os.scandir(folder) as entries:
        for entry in entries:
            dropped = entry.name.startswith(".dropped-")
            if not dropped and not entry.name.startswith(".new-"):
                continue
            with suppress(FileNotFoundError):
                if dropped or time.time() - entry.stat().st_mtime > _OLD_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)


def which(folder: Path) -> tuple[int, int] | None:
    """Which directory is at a path, so that one that is made anew is told from it; None: there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_denied(folder: Path) -> None:
    """See that this user may read and write the files of a collection: whether they are damaged cannot be said of others.

    Raises:
        StorageError: it may not.
    """
    for path in (folder, folder / DATA):
        if path.parent.is_dir() and os.access(path, os.F_OK) and not os.access(path, os.R_OK | os.W_OK):
            raise StorageError(f"this user may not read or write {path}, whose content may be whole: it is not removed")


def holds(folder: Path) -> bool:
    """Whether a directory is that of a collection, whose file may be gone. An empty one is free."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        # Whatever is in it: whoever uses it is told, and the others go on.
        return True
