"""The terms of an add: the options that travel with each of its requests, and the key that lets it be sent again."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypedDict

from kinbin_client.errors import InvalidArgument

__all__ = ["AddMode", "AddTerms", "Asked", "OnError", "Versions"]

AddMode: TypeAlias = Literal["insert", "update", "upsert"]
OnError: TypeAlias = Literal["reject", "skip"]
Versions: TypeAlias = Sequence[int | None]
"""That stored items must have: a version, 0 for an item that must not be there, None where that does not matter."""
KEY_HEADER = "idempotency-key"
_LONGEST_KEY = 240
"""The service takes 255 characters, of which the number of the request takes some."""


class Asked(TypedDict, total=False):
    """What adds take by name only."""

    on_error: OnError
    if_versions: Versions | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class AddTerms:
    """Of a whole add; every request of it has a key of its own, made of the one of the add."""

    mode: AddMode = "upsert"
    on_error: OnError = "reject"
    if_versions: Versions | None = None
    idempotency_key: str | None = None

    def checked(self, items: int) -> AddTerms:
        """The same for so many items, with a key if an add of this mode could not be sent again without; InvalidArgument if they misfit."""
        key, versions = self.idempotency_key, self.if_versions
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
            raise InvalidArgument(f"an idempotency key is a string of 1 to {_LONGEST_KEY} printable ASCII characters", code="bad_parameter")
        if versions is not None and (isinstance(versions, str | bytes) or len(versions) != items):
            raise InvalidArgument("if_versions is a list with a version, 0 (not there) or None for each id", code="bad_parameter")
        for name in ("mode", "on_error"):
            if not isinstance(getattr(self, name), str):
                raise InvalidArgument(f"{name} is a string, not {type(getattr(self, name)).__name__}", code="bad_parameter")
        if key is None and (self.mode != "upsert" or versions is not None):
            return replace(self, idempotency_key=secrets.token_hex(16))
        return self

    def fields(self) -> dict[str, Any]:
        """What bodies, or addresses, say of them."""
        return {"mode": self.mode} | ({"on_error": self.on_error} if self.on_error != "reject" else {})

    def headers(self, request: int) -> Mapping[str, str]:
        """Of the request of this number, from 0 on."""
        key = self.idempotency_key
        return {} if key is None else {KEY_HEADER: f"{key}-{request}" if request else key}
