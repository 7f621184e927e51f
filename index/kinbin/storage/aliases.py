"""Other names of collections: one small file, read again when it was replaced, and replaced whole, so that a swap is atomic."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

from kinbin.errors import AliasConflict, AliasNotFound, CorruptData, InvalidInput
from kinbin.limits import limit
from kinbin.storage import format as fmt
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.headers import Fields

__all__ = ["Aliases"]

_WHAT = "the list of aliases"
_ADVICE = "collections are not harmed, and go by their own names; put the file back, or remove it and set the aliases anew: `kinbin alias`"
_Seen = tuple[int, int, int]


class Aliases:
    """The aliases of a database. Thread-safe to read; whoever changes them keeps other processes out meanwhile.

    Visibility: every process sees a change at its next look, which costs a `stat`. Durability: a change is on disk on return.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "aliases"
        self._lock = threading.Lock()
        self._seen: _Seen | None = None
        self._known: dict[str, str] = {}

    def all(self) -> dict[str, str]:
        """Collections by alias.

        Raises:
            CorruptData: the file is damaged.
        """
        with self._lock, translated():
            seen = self._look()
            if seen != self._seen:
                self._known = {} if seen is None else self._read()
                self._seen = seen
            return self._known

    def _read(self) -> dict[str, str]:
        try:
            aliases = Fields(fmt.decode_json(self._path.read_bytes(), _WHAT), _WHAT).object("aliases")
        except CorruptData as error:
            raise CorruptData(f"{error.what}: {self._path}", _ADVICE) from None
        if not all(isinstance(there, str) for there in aliases.values()):
            raise CorruptData(f"{_WHAT} is damaged: {self._path}", _ADVICE)
        return aliases

    def _look(self) -> _Seen | None:
        """What tells one file from the one that replaces it; None: there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def target(self, name: str) -> str:
        """The collection that a name means: its own, if it is no alias."""
        return self.all().get(name, name)

    def put(self, name: str, collection: str) -> None:
        """Let an alias lead to a collection, whatever it led to before."""
        known = self.all()
        if name not in known and len(known) >= limit("aliases"):
            raise InvalidInput.of("over_limit", f"a database has at most {limit('aliases')} aliases", field="name", limit="aliases")
        self._write({**known, name: collection})

    def drop(self, name: str) -> None:
        """Remove an alias.

        Raises:
            AliasNotFound.
        """
        known = dict(self.all())
        if known.pop(name, None) is None:
            raise AliasNotFound(f"no alias is named {name!r}")
        self._write(known)

    def refuse_alias(self, name: str) -> None:
        """Refuse a name that is an alias, where a collection of its own is meant.

        Raises:
            AliasConflict.
        """
        there = self.all().get(name)
        if there is not None:
            raise AliasConflict(f"{name!r} is an alias of {there!r}: drop the alias first, or take another name")

    def refuse_aliased(self, collection: str) -> None:
        """Refuse a collection that aliases lead to.

        Raises:
            AliasConflict.
        """
        leading = sorted(name for name, there in self.all().items() if there == collection)
        if leading:
            more = f" and {len(leading) - 3} more" if len(leading) > 3 else ""
            text = f"the aliases {', '.join(leading[:3])}{more} lead to {collection!r}: swap or drop them first"
            error = AliasConflict(text)
            error.leading = tuple(leading[:3])
            raise error

    def _write(self, aliases: dict[str, str]) -> None:
        draft = self._path.with_name(f".aliases-{secrets.token_hex(8)}")
        with translated():
            try:
                with draft.open("xb") as file:
                    file.write(fmt.encode_json({"aliases": aliases}))
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._path)
                sync_directory(self._path.parent)
            finally:
                draft.unlink(missing_ok=True)
