"""Backups of whole databases: a directory with a snapshot of each collection, and a list of these, of their hashes and of the aliases.

What snapshots promise holds for each file (`snapshots`). The directory has another name until all of it is on disk, so that a backup is
there whole or not at all; the list says what belongs to it, and proves itself and every file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kinbin.collection import Collection
from kinbin.errors import AliasConflict, Closed, CollectionExists, CollectionNotFound, CorruptData, FormatMismatch, InvalidInput
from kinbin.fields.collection import FieldsCollection
from kinbin.parameters import path_of
from kinbin.records import BackupReport, SnapshotInfo
from kinbin.rows.identity import check_name
from kinbin.storage.directories import sync_directory, sync_path
from kinbin.storage.errors import translated

__all__ = ["BackingUp"]

_ANOTHER = "take another backup"
_OTHERS = "take another backup; or restore its other files one by one (`kinbin restore BACKUP/NAME.kinbin NAME`)"
_LIST, _FILE = "backup.json", ".kinbin"
_VERSION = 1

log = logging.getLogger("kinbin.snapshots")


class BackingUp:
    """The backups of a database, which inherits this."""

    def collections(self) -> list[str]:
        """Names of the collections."""
        raise NotImplementedError

    def collection(self, name: str) -> Collection:
        """One of them."""
        raise NotImplementedError

    def drop_collection(self, name: str) -> None:
        """Remove one."""
        raise NotImplementedError

    def aliases(self) -> dict[str, str]:
        """Collections by alias."""
        raise NotImplementedError

    def alias(self, name: str, collection: str) -> None:
        """Let a name lead to a collection."""
        raise NotImplementedError

    def drop_alias(self, name: str) -> None:
        """Remove one of them."""
        raise NotImplementedError

    def restore(self, source: str | os.PathLike[str] | SnapshotInfo, name: str, *, cancel: threading.Event | None = None) -> Collection:
        """Make a collection of a snapshot."""
        raise NotImplementedError

    def backup(self, folder: str | os.PathLike[str], *, cancel: threading.Event | None = None) -> BackupReport:
        """Write a snapshot of every collection, and the aliases, into a new directory, while others read and write.

        Each collection is as it is at one moment, each at a moment of its own, one after the other in the order of their names; the
        aliases are those of the beginning. A collection that is dropped meanwhile is left out, with its aliases.

        Raises:
            InvalidInput: the directory is there. CorruptData: something is damaged. StorageFull, StorageBusy, Closed. Nothing is left then.
        """
        target = path_of(folder, "directory").absolute()
        if target.exists():
            raise InvalidInput.of("bad_parameter", f"{target} is there: a backup is written into a new directory", field="folder")
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        leading = self.aliases()
        made: list[SnapshotInfo] = []
        try:
            with translated():
                target.parent.mkdir(parents=True, exist_ok=True)
                draft.mkdir(mode=0o700)
            for name in self.collections():
                _look(cancel)
                with contextlib.suppress(CollectionNotFound):
                    one: Collection | FieldsCollection = self.collection(name)
                    made.append(one.snapshot(draft / f"{name}{_FILE}", cancel=cancel))
            there = {one.collection for one in made}
            report = BackupReport(tuple(made), {alias: name for alias, name in leading.items() if name in there})
            with translated():
                _write(draft / _LIST, _told(report))
                sync_directory(draft)
                draft.rename(target)
                sync_path(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        log.info("a backup of %d collections was written", len(made))
        return report

    def restore_backup(self, folder: str | os.PathLike[str], *, cancel: threading.Event | None = None) -> BackupReport:
        """Make all collections and aliases of a backup anew, under their names, all or none of them; others that are there stay.

        Each file is held against the list, and proved as `restore` does. A process that is killed leaves the collections that it has
        made: drop them, and begin again. Restore only what you trust: right hashes do not prove who made a backup.

        Raises:
            CollectionExists, AliasConflict: a name is taken. CorruptData: the list or a file is damaged, or missing. FormatMismatch: it is
            no backup, or one of a later version. StorageFull, StorageError.
        """
        source = path_of(folder, "directory")
        report = _read(source)
        known, leading = {one.collection for one in report.collections}, self.aliases()
        taken = sorted(known & ({*self.collections()} | leading.keys()))
        if taken:
            raise CollectionExists(f"{taken[0]!r} is there: a backup is restored where none of its names is taken")
        if clash := sorted(report.aliases.keys() & ({*self.collections()} | leading.keys())):
            raise AliasConflict(f"{clash[0]!r} is there: a backup is restored where none of its names is taken")
        done: list[str] = []
        named: list[str] = []
        try:
            for one in report.collections:
                _look(cancel)
                path = source / f"{one.collection}{_FILE}"
                _prove(path, one)
                self.restore(path, one.collection, cancel=cancel)
                done.append(one.collection)
            for alias, name in report.aliases.items():
                self.alias(alias, name)
                named.append(alias)
        except BaseException:
            for alias in named:
                self.drop_alias(alias)
            for name in done:
                self.drop_collection(name)
            raise
        return report


def _look(cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Closed("it was given up")


def _told(report: BackupReport) -> dict[str, Any]:
    """The list of a backup."""
    listed = [{"name": one.collection, "items": one.items, "bytes": one.bytes, "sha256": one.sha256, "created": one.created}
              for one in report.collections]  # fmt: skip
    return {
        "version": _VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "collections": listed,
        "aliases": report.aliases,
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _write(path: Path, content: dict[str, Any]) -> None:
    with path.open("xb") as file:
        file.write(json.dumps({"kinbin_backup": content, "sha256": _digest(content)}, indent=2).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _read(source: Path) -> BackupReport:
    """What the list of a backup says.

    Raises:
        FormatMismatch, CorruptData.
    """
    try:
        data = json.loads((source / _LIST).read_bytes())
    except FileNotFoundError:
        raise FormatMismatch(f"{source} holds no {_LIST}: it is no backup, or one that was not finished") from None
    except (OSError, ValueError):
        raise CorruptData(f"{source / _LIST} cannot be read", _ANOTHER) from None
    content = data.get("kinbin_backup") if isinstance(data, Mapping) else None
    if not isinstance(content, dict) or data.get("sha256") != _digest(content):
        raise CorruptData(f"{source / _LIST} is damaged: its SHA-256 is another one", _ANOTHER)
    if content.get("version") != _VERSION:
        raise FormatMismatch(f"the backup is of version {content.get('version')!r}, this Kinbin reads {_VERSION}: take a newer one")
    try:
        made = [SnapshotInfo(check_name(one["name"]), None, one["created"], one["items"], one["bytes"], one["sha256"])
                for one in content["collections"]]  # fmt: skip
        return BackupReport(tuple(made), {check_name(alias): check_name(name) for alias, name in content["aliases"].items()})
    except (KeyError, TypeError, AttributeError):
        raise CorruptData(f"{source / _LIST} lacks something that a backup says", _ANOTHER) from None


def _prove(path: Path, told: SnapshotInfo) -> None:
    """Hold a file against what the list says of it."""
    try:
        with path.open("rb") as file:
            right = hashlib.file_digest(file, "sha256").hexdigest() == told.sha256
    except OSError:
        right = False
    if not right:
        raise CorruptData(f"{path.name} of the backup is missing, damaged, or another one; nothing was restored", _OTHERS)
