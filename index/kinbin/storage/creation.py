"""The files of a new store: complete under another name first. And which collection the files of a directory are to be of."""

from __future__ import annotations

import errno
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

import lmdb

from kinbin.storage import format as fmt
from kinbin.storage.addresses import MAP_SIZE
from kinbin.storage.datafile import DATA
from kinbin.storage.directories import sync_directory, sync_path
from kinbin.storage.errors import translated
from kinbin.storage.format import State
from kinbin.storage.headers import CONFIG, Configuration, FieldNames, Identity
from kinbin.storage.lockfile import make_lock_file
from kinbin.storage.lookups import NAMES

__all__ = ["FIELDS", "create_store", "give_name", "is_renamed", "logged_name", "name_of"]

FIELDS = "fields"
"""The directory of a collection in which the stores of its fields lie."""


def create_store(path: Path, configuration: Configuration | FieldNames, fields: Mapping[str, Configuration] | None = None) -> None:
    """Make the files of an empty collection: complete under another name first, then renamed.

    fields: what the stores of its fields are created with, by name.

    Raises:
        FileExistsError: the path exists.
    """
    draft = path.with_name(f".new-{path.name}-{secrets.token_hex(8)}")
    try:
        with translated():
            identity = Identity.new(path.name)
            _write_new(draft, configuration, identity, None if fields else 0)
            for name, one in (fields or {}).items():
                _write_new(draft / FIELDS / name, one, identity.field(name), 0)
            if fields:
                sync_directory(draft / FIELDS)
                sync_directory(draft)
        give_name(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def name_of(path: Path) -> str:
    """The name of the collection whose files lie here; of the store of a field NAME/FIELD."""
    return f"{path.parent.parent.name}/{path.name}" if path.parent.name == FIELDS else path.name


def logged_name(path: Path) -> str:
    """What the log calls the store that lies here: its name, and of one below a collection the collection's before it."""
    owner = path.parent.parent
    return f"{owner.name}/{path.parent.name}/{path.name}" if path.parent.name != FIELDS and (owner / DATA).exists() else name_of(path)


def is_renamed(name: str, before: str) -> bool:
    """Whether files of the one name may go on under the other: those of a field only as the same field, whatever its collection."""
    return name.partition("/")[1:] == before.partition("/")[1:]


def _write_new(path: Path, configuration: Configuration | FieldNames, identity: Identity, rows: int | None) -> None:
    """The files of one empty store. rows: None: its living rows are not counted."""
    path.mkdir(parents=True)
    # Nobody else knows the folder: no locks.
    env = lmdb.open(str(path), map_size=MAP_SIZE, max_dbs=len(NAMES), lock=False)
    try:
        with env.begin(write=True) as txn:
            meta, *_ = [env.open_db(tree, txn) for tree in NAMES]
            txn.put(b"identity", fmt.encode_json(identity.encode()), db=meta)
            for key, data in ((CONFIG, configuration.encode()), (b"manifest", [])):
                txn.put(key, fmt.encode_json(data, fmt.begun(identity.salt, key)), db=meta)
            txn.put(b"state", fmt.encode_state(State(rows=rows, transaction=txn.id(), salt=identity.salt)), db=meta)
    finally:
        env.close()
    # Before the store has its name: whoever makes one may open it, however full the disk gets.
    make_lock_file(path)
    sync_directory(path)


def give_name(draft: Path, path: Path) -> None:
    """Give a finished draft its name, on disk as well."""
    try:
        draft.rename(path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise FileExistsError(path) from None
        with translated():
            raise
    sync_path(path.parent)
