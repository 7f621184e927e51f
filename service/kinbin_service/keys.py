"""Who may do what: the keys of a server, what each request needs, and whether its key may.

Judged by the gate before a byte of the body is read. What is not in the tables below needs the role admin, so a new route is closed
until somebody decides who may use it.
"""

from __future__ import annotations

import hmac
import logging
import time

from starlette.datastructures import Headers
from starlette.types import Scope

from kinbin_service.key_file import Key, KeyFileError, digest_of, parse, read
from kinbin_service.problems import Refusal
from kinbin_service.settings import Settings

__all__ = ["KEY", "Keys", "Need", "changes", "check", "needed", "visible"]

KEY = "kinbin.key"
"""Where the scope of a request holds its key, if keys are set."""
SECONDS = 1.0
"""A file of keys is looked at again when a request comes and so much time has passed."""

Need = tuple[str, str | None]
"""The least role, and the collection that is asked for; None: the server."""

OF_SERVER: dict[tuple[str, str], Need] = {
    ("GET", "/metrics"): ("metrics", None),
    ("GET", "/v1/limits"): ("read", None),
    ("GET", "/v1/cluster"): ("read", None),
    ("GET", "/v1/collections"): ("read", None),
    ("POST", "/index"): ("write", "default"),
    ("POST", "/query"): ("read", "default"),
}
OF_COLLECTION = {"GET": "read", "PUT": "admin", "DELETE": "admin"}
"""By the method, of a collection itself."""
BY_WORD = {
    "count": "read", "duplicates": "read", "explain": "read", "facets": "read", "get": "read", "map": "read", "query": "read",
    "recall": "read", "scroll": "read", "tune": "read", "delete": "write", "index": "write", "payload": "write",
}  # fmt: skip
"""By the word behind a collection's name, whatever the method."""
READ_BY_WORD = {"limits": "read"}
"""The same, of GET alone: other methods need what BY_WORD says."""
OF_SNAPSHOTS = {("GET", 5): "backup", ("POST", 5): "backup", ("GET", 6): "backup", ("POST", 7): "backup"}
"""By method and parts of the path: list, make, download, verify. Who makes copies may not remove them: DELETE needs admin."""
FOR_ANY = frozenset({"/v1/collections", "/v1/limits"})
"""Paths of the server that keys of some collections may ask for, too: the list shows them theirs."""

log = logging.getLogger("kinbin.service")


def needed(method: str, path: str) -> Need:
    """What a request needs. path: as routes see it, decoded."""
    if (method, path) in OF_SERVER:
        return OF_SERVER[method, path]
    parts = path.split("/")
    if parts[:3] != ["", "v1", "collections"] or len(parts) < 4:
        return "admin", None
    if len(parts) == 4:
        return OF_COLLECTION.get(method, "admin"), parts[3]
    if parts[4] == "snapshots":
        return OF_SNAPSHOTS.get((method, len(parts)), "admin"), parts[3]
    if len(parts) > 5:
        return "admin", parts[3]
    words = BY_WORD | READ_BY_WORD if method == "GET" else BY_WORD
    return words.get(parts[4], "admin"), parts[3]


def changes(method: str, path: str) -> bool:
    """Whether a request may change what is stored."""
    return method not in {"GET", "HEAD"} and needed(method, path)[0] != "read"


def check(key: Key, method: str, path: str) -> None:
    """Refuse (403) what a key may not do."""
    role, collection = needed(method, path)
    if not key.may(role):
        # What is in no table may be a route of admins, or none at all; a collection itself is one.
        unknown = "there is no such route, or " if role == "admin" and not (collection and path.count("/") == 3) else ""
        raise Refusal("forbidden", f"{unknown}this takes a key of the role {role}; yours has the role {key.role}")
    if key.collections is None or (path in FOR_ANY and collection is None):
        return
    if collection not in key.collections:
        raise Refusal("forbidden", "the key is for some collections, and not for this")


def visible(scope: Scope, names: list[str]) -> list[str]:
    """Of names of collections, those that the key of a request may ask for."""
    key: Key | None = scope.get(KEY)
    return names if key is None or key.collections is None else [name for name in names if name in key.collections]


class Keys:
    """The keys of a server: the single one, and those of the file, which is read again while it is used. For one thread.

    `load` refuses a file that cannot be used. A later edit that cannot be used is logged, and the keys stay; a worker that is started
    meanwhile knows none of the file's, until it is mended.
    """

    def __init__(self, settings: Settings) -> None:
        self._single = () if settings.key is None else (Key("KINBIN_API_KEY", "admin", digest_of(settings.key)),)
        self._path = settings.api_keys_file
        self._of_file: tuple[Key, ...] = ()
        self._seen = ""
        self._trouble: str | None = None
        """What is wrong with the file now."""
        self._read_at = -SECONDS

    def load(self) -> None:
        """Read the file now. KeyFileError if it cannot be used."""
        if self._path is None:
            return
        try:
            text = read(self._path)
            self._of_file, self._seen = parse(text), text
        except KeyFileError as error:
            raise KeyFileError(f"KINBIN_API_KEYS_FILE names {self._path}: {error}") from None
        self._read_at = time.monotonic()

    @property
    def required(self) -> bool:
        """Whether requests need one."""
        return bool(self._single or self._path)

    def of(self, headers: Headers) -> Key:
        """The key that a request carries; 401 if it carries none of them. Takes the same time for any that is wrong.

        The text of the 401 depends on whether one was sent, never on which.
        """
        self._look_again()
        scheme, _, token = headers.get("authorization", "").partition(" ")
        sent = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not sent:
            # Before any comparison: whatever a file holds, nothing is no key.
            raise Refusal("unauthorized", "send the API key as Authorization: Bearer or as X-API-Key")
        given = digest_of(sent)
        found = None
        for key in self._single + self._of_file:
            if hmac.compare_digest(given, key.digest):
                found = key
        if found is None:
            raise Refusal("unauthorized", "the API key that was sent is not known to this server")
        return found

    def _look_again(self) -> None:
        """Read the file anew, if it is time to."""
        if self._path is None or time.monotonic() - self._read_at < SECONDS:
            return
        self._read_at = time.monotonic()
        try:
            text = read(self._path)
            if text == self._seen and self._trouble is None:
                return
            keys = parse(text)
        except KeyFileError as error:
            if str(error) != self._trouble:
                fields = {"file": str(self._path), "reason": str(error)}
                log.warning("the file of keys is not used: the keys stay as they were", extra={"fields": fields})
            self._trouble = str(error)
            return
        if text != self._seen:
            log.info("keys were read", extra={"fields": {"keys": len(keys)}})
        self._of_file, self._seen, self._trouble = keys, text, None
