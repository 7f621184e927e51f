"""Pages of one answer over all shards.

A cursor holds how many items came before, the last of them, and how far each shard had applied its log. As on one server no item comes
twice in one state, and when a shard has changed since, the cursor is refused (`cursor_expired`): the pages would be of two answers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

import kinbin
from kinbin_cluster.gateway.asking import Query
from kinbin_cluster.gateway.reading import Part, Reading, not_in_cluster
from kinbin_service.problems import OWN_TEXTS, Entry, Refusal
from kinbin_service.replies import encode

__all__ = ["Cursor", "page_of"]

_NO_PART = frozenset({"k", "cursor", "include", "debug"})
"""Fields of a body that may change from page to page."""
_MOST = int(kinbin.LIMITS["offset"].value)
_MARK = 16
_NONE = -1
"""No state of a shard."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended."""

    answered: int
    score: float
    """Or distance."""
    last: str
    applied: Mapping[int, int]
    """By shard."""

    def text(self, mark: bytes) -> str:
        """The opaque cursor."""
        content = orjson.dumps([self.answered, self.score, self.last, sorted(self.applied.items())])
        return base64.urlsafe_b64encode(mark + content).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, mark: bytes) -> Cursor:
        """The cursor of a text; an empty one begins.

        Raises:
            Refusal: it is none, or one of another query.
        """
        if not text:
            return cls(0, 0.0, "", {})
        try:
            data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
            if data[:_MARK] != mark:
                raise ValueError
            answered, score, last, applied = orjson.loads(data[_MARK:])
            numbers = [answered, *chain.from_iterable(applied)]
            if not all(type(one) is int and -1 <= one < 1 << 62 for one in numbers) or answered < 0:
                raise ValueError
            if type(score) not in (int, float) or not isinstance(last, str):
                raise ValueError
            return cls(answered, score, last, dict(applied))
        except (TypeError, ValueError, binascii.Error):
            wrong = "cursor is the next of an earlier page, unchanged, with the same query and options (k and include may change)"
            raise Refusal("bad_parameter", wrong, [Entry("#/cursor", wrong)]) from None


async def page_of(reading: Reading, content: dict[str, Any]) -> dict[str, Any]:
    """The page that a body with `cursor` asks for."""
    if reading.partial:
        raise not_in_cluster("pages of a part of the shards do not go together: leave out allow_partial, or the cursor", "#/cursor")
    if content.get("queries") is not None or not isinstance(content["cursor"], str) or content.get("offset") or content.get("group_by"):
        return await _refused(reading, content)
    text = content.pop("cursor")
    mark = _mark(reading, content)
    cursor = Cursor.read(text, mark)
    if cursor.answered >= _MOST:
        raise Refusal("over_limit", f"cursor: fewer than {_MOST} items come before a page", [Entry("#/cursor", "too deep")], "offset")
    k = content.get("k", 10)
    if type(k) is not int or not 1 <= k <= kinbin.LIMITS["k"].value:
        return await _refused(reading, content)
    reading.token = {shard: max(reading.token.get(shard, 0), cursor.applied.get(shard, 0)) for shard in reading.shards}
    asked = Query.of({**content, "offset": cursor.answered + 1})
    await asked.resolve(reading)
    while True:
        depth = k + asked.content["offset"]
        answer, applied = await _found(reading, asked, cursor)
        behind = _behind(cursor, answer["results"])
        # A deeper search, or another replica's, may find what one before it missed, which ranks before the cursor.
        if len(answer["results"]) > behind + k or len(answer["results"]) < depth or asked.content["offset"] >= _MOST:
            break
        asked.content["offset"] = min(2 * depth, _MOST)
    page = answer["results"][behind : behind + k]
    more = len(answer["results"]) > behind + k
    answer["results"], answer["next"] = page, None
    if more:
        last = page[-1]
        score = last["score"] if "score" in last else last["distance"]
        answer["next"] = Cursor(cursor.answered + len(page), score, last["id"], applied).text(mark)
    return answer


async def _found(reading: Reading, asked: Query, cursor: Cursor) -> tuple[dict[str, Any], dict[int, int]]:
    """All that is nearest, from the first one on, and how far every shard was."""
    bodies = [asked.bodies(shard) for shard in reading.shards]
    pointers = {shard: asked.pointers(counts) for shard, (_, counts) in enumerate(bodies)}
    parts = await reading.ask_all("/query", lambda shard: bodies[shard][0], pointers=pointers)
    applied = _applied(parts, cursor)
    (answer,) = await asked.merge(reading, parts, [bodies[part.shard][1] for part in parts], whole=True)
    return answer, applied


async def _refused(reading: Reading, content: Mapping[str, Any]) -> dict[str, Any]:
    """Let the nodes say what is wrong with a body."""
    await reading.ask_all("/query", encode(content))
    raise not_in_cluster("in a cluster a cursor is of one query alone", "#/cursor")


def _mark(reading: Reading, content: Mapping[str, Any]) -> bytes:
    """What tells the cursors of this query from others'."""
    told = {name: value for name, value in content.items() if name not in _NO_PART}
    text = orjson.dumps([reading.collection.uid, told], option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    return hashlib.blake2b(text, digest_size=_MARK).digest()


def _applied(parts: Sequence[Part], cursor: Cursor) -> dict[int, int]:
    """How far every shard was.

    Raises:
        Refusal: one has changed since the page before, or while it was read.
    """
    found: dict[int, int] = {}
    for part in parts:
        if part.applied is None:
            raise not_in_cluster("the nodes do not say how far they are: pages by cursor need that", "#/cursor")
        before, after = part.applied
        if cursor.answered and (before != after or cursor.applied.get(part.shard) != before):
            raise Refusal("cursor_expired", OWN_TEXTS["cursor_expired"])
        # Of a shard that was written to meanwhile nobody knows which state was read: no page behind this one is of it.
        found[part.shard] = before if before == after else _NONE
    return found


def _behind(cursor: Cursor, hits: Sequence[Mapping[str, Any]]) -> int:
    """How many of the hits lie before the page."""
    if not cursor.answered:
        return 0
    for count, hit in enumerate(hits, 1):
        if hit["id"] == cursor.last:
            return count
    return sum(
        1 for hit in hits if ("score" in hit and hit["score"] >= cursor.score) or hit.get("distance", cursor.score + 1) <= cursor.score
    )
