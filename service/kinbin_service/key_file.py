"""Files of API keys: a key a line, by its SHA-256, with a role. Standard library only, as `kinbin key` reads it without the server.

    # name    role   SHA-256 of the key   collections (all, if none are named)
    grafana   metrics  9f86d081…
    shop      read     60303ae2…            photos,songs

Keys are random texts of 256 bits, made by `new_key`, so a plain hash tells nobody what they are. A rotation is a second line beside the
first, of the same name if one likes, until nobody uses the old key any more.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MAY", "ROLES", "Key", "KeyFileError", "digest_of", "line_of", "new_key", "parse", "read"]

MAY = {
    "metrics": frozenset({"metrics"}), "backup": frozenset({"backup"}), "read": frozenset({"metrics", "read"}),
    "write": frozenset({"metrics", "read", "write"}), "admin": frozenset({"metrics", "backup", "read", "write", "admin"}),
}  # fmt: skip
"""By role, all roles whose work it may do. metrics: GET /metrics and nothing else; backup: make, list, verify, download snapshots, and
nothing else."""
ROLES = tuple(MAY)

MOST_BYTES = 1_048_576
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
BAD_NAME = "a name has up to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or a digit"
BAD_COLLECTIONS = "collections are names in small letters, digits, hyphens and underscores, with commas and no spaces between them"
_DIGEST = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_COLLECTION = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)
_NO_KEYS = frozenset(hashlib.sha256(nothing).digest() for nothing in (b"", b"\n"))
"""What `printf %s "$UNSET" | sha256sum` and `echo "$UNSET" | sha256sum` print."""


class KeyFileError(ValueError):
    """A file of keys that cannot be used. Its text names the line, and repeats nothing of it: it may be a key."""


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of one key."""

    name: str
    """For people: the access log has it."""
    role: str
    digest: bytes
    """SHA-256 of the key."""
    collections: frozenset[str] | None = None
    """The only ones that it may ask for, by the names that stand in the address; None: all."""

    def may(self, role: str) -> bool:
        """Whether it may do what this role may."""
        return role in MAY[self.role]


def new_key() -> str:
    """A new key: 256 random bits."""
    return f"kinbin_{secrets.token_urlsafe(32)}"


def digest_of(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode("latin-1", "replace")).digest()


def line_of(key: str, name: str, role: str, collections: Sequence[str] = ()) -> str:
    """The line of a key. KeyFileError for a name, a role or a collection that a line cannot hold."""
    # Before they are joined: what has a space in it would be taken for more words.
    if not _NAME.fullmatch(name):
        raise KeyFileError(BAD_NAME)
    if not all(_COLLECTION.fullmatch(one) for one in collections):
        raise KeyFileError(BAD_COLLECTIONS)
    line = " ".join([name, role, digest_of(key).hex(), *([",".join(collections)] if collections else [])])
    parse(line)
    return line


def read(path: Path) -> str:
    """The text of a file of keys; KeyFileError, which leaves the file's name to the caller, if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise KeyFileError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KeyFileError("it is no text in UTF-8") from None
    if len(content) > MOST_BYTES:
        raise KeyFileError(f"it is larger than {MOST_BYTES:,} bytes")
    return text


def parse(text: str) -> tuple[Key, ...]:
    """The keys of a file, in its order. KeyFileError for the first line that is none, for a key that is there twice, and for no key."""
    keys: list[Key] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            key = _key(words)
        except KeyFileError as error:
            raise KeyFileError(f"line {number}: {error}") from None
        if any(key.digest == other.digest for other in keys):
            raise KeyFileError(f"line {number}: the same key stands on another line")
        keys.append(key)
    if not keys:
        raise KeyFileError("there is no key in it")
    return tuple(keys)


def _key(words: list[str]) -> Key:
    if not 3 <= len(words) <= 4:
        raise KeyFileError("expected NAME ROLE SHA256 and perhaps COLLECTION,COLLECTION (`kinbin key new` prints such a line)")
    name, role, digest = words[:3]
    if not _NAME.fullmatch(name):
        raise KeyFileError(BAD_NAME)
    if role not in ROLES:
        raise KeyFileError(f"a role is one of {', '.join(ROLES)}")
    if not _DIGEST.fullmatch(digest):
        raise KeyFileError("the third word is the SHA-256 of a key in 64 hexadecimal digits, never the key itself")
    if bytes.fromhex(digest) in _NO_KEYS:
        raise KeyFileError("this is the SHA-256 of no key at all: the text that was hashed is empty")
    collections = words[3].split(",") if len(words) == 4 else []
    if not all(_COLLECTION.fullmatch(one) for one in collections):
        raise KeyFileError(BAD_COLLECTIONS)
    if role == "metrics" and collections:
        raise KeyFileError("a key of the role metrics names no collections: /metrics tells of all, and is closed to keys of some")
    return Key(name, role, bytes.fromhex(digest), frozenset(collections) or None)
