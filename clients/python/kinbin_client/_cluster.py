"""What a cluster asks of its clients: tokens of writes, which reads wait for, and answers of a part of the shards. No I/O.

A write at a gateway answers with a token, and a read that carries it waits until the shards are as far. One server gives no tokens, and
needs none.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict, TypeVar

from kinbin_client._requests import AFTER_HEADER, Operation, Request

__all__ = [
    "Consistency",
    "Reading",
    "Scrolling",
    "Waiting",
    "after",
    "joined",
    "of_scroll",
    "only_after",
    "reading",
    "reading_request",
    "wants_own",
]

T = TypeVar("T")


class Waiting(TypedDict, total=False):
    """What reads take by name only, of a cluster. `after`: the `token` of a write that the answer has to know."""

    after: str | None


class Reading(Waiting, total=False):
    """The same, where a part of the shards may do. `allow_partial`: the others' answer where nobody answers for some shard."""

    allow_partial: bool


class Scrolling(TypedDict, total=False):
    """The same of scrolls, whose `after` is a cursor: `token` in its place."""

    token: str | None
    allow_partial: bool


class Consistency(TypedDict, total=False):
    """What clients take by name only, for use with a cluster; see `Client`."""

    read_your_writes: bool


def reading(operation: Operation[T], asked: Reading) -> Operation[T]:
    """The operation with what a read asks for. TypeError for an option that there is not."""
    return replace(operation, request=reading_request(operation.request, asked))


def reading_request(request: Request, asked: Reading) -> Request:
    """The same of a request."""
    _refuse_others(asked, Reading)
    waits = after(request, asked.get("after"))
    if not asked.get("allow_partial"):
        return waits
    # Only where it is asked for: one server does not know it.
    assert request.body is not None
    return replace(waits, body=request.body[:-1] + b',"allow_partial":true}')


def only_after(asked: Waiting) -> Reading:
    """What a read asks for whose answer could not say that it is of a part. TypeError for an option that there is not."""
    _refuse_others(asked, Waiting)
    return Reading(after=asked.get("after"))


def of_scroll(asked: Scrolling) -> Reading:
    """What a scroll asks for, as other reads do. TypeError for an option that there is not."""
    _refuse_others(asked, Scrolling)
    return Reading(after=asked.get("token"), allow_partial=asked.get("allow_partial", False))


def wants_own(asked: Consistency) -> bool:
    """Whether the reads of a new client wait for its writes. TypeError for an option that there is not."""
    _refuse_others(asked, Consistency)
    return asked.get("read_your_writes", False)


def _refuse_others(asked: Mapping[str, Any], known: type) -> None:
    for name in asked:
        if name not in known.__annotations__:
            raise TypeError(f"there is no option {name!r} here; beside those of the signature there are {', '.join(known.__annotations__)}")


def after(request: Request, token: str | None) -> Request:
    """The request as one that waits for a token."""
    return request if token is None else replace(request, headers={**request.headers, AFTER_HEADER: token})


def joined(tokens: Iterable[str | None]) -> str | None:
    """One token for several of one collection, later ones last; None if there are none.

    Its form: base64url, without padding, of the JSON [uid, [[shard, sequence], …]]. Of two shapes of a collection, or where a token has
    another form, the last one counts.
    """
    found: str | None = None
    for token in tokens:
        if token is not None:
            found = token if found is None or found == token else _both(found, token)
    return found


def _both(first: str, last: str) -> str:
    (uid, before), (other, since) = _read(first), _read(last)
    if uid is None or uid != other:
        return last
    shards = {shard: max(before.get(shard, 0), since.get(shard, 0)) for shard in {*before, *since}}
    data = json.dumps([uid, sorted([*one] for one in shards.items())], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read(token: str) -> tuple[str | None, dict[int, int]]:
    """The uid of a token's collection, and its sequences by shard; None for what has another form."""
    try:
        uid, pairs = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True))
        shards = {int(shard): int(sequence) for shard, sequence in pairs}
    except (TypeError, ValueError, binascii.Error):
        return None, {}
    return (uid, shards) if isinstance(uid, str) else (None, {})
