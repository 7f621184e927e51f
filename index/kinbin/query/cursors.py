"""Cursors: pages of one answer, each asked for by where the one before ended.

A cursor holds the commit that was searched, how many items came before, and the last of them. It is signed with a secret of the
collection and the query, so it goes with no other. Nothing is kept between pages: the next one is searched for as deep as it lies,
and begins behind the last item. So in one commit no item comes twice, whatever ranks before the cursor is not returned, and every
process can go on; after another commit the pages would be of two answers, and the cursor is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import orjson

from kinbin.errors import CursorExpired, InvalidInput
from kinbin.limits import limit
from kinbin.options import QueryOptions
from kinbin.records import Answer
from kinbin.rows.rows import Rows

__all__ = ["Cursor", "mark_of", "page_behind"]

_MARK = 16
_NO_PART = frozenset({"k", "cursor", "include", "debug"})
"""Options that may change from page to page."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended."""

    sequence: int
    """Of the commit."""
    answered: int
    score: float
    last: str
    """The id of the last item; empty before the first page."""

    def text(self, mark: bytes) -> str:
        """The opaque cursor."""
        content = orjson.dumps([self.sequence, self.answered, self.score, self.last])
        return base64.urlsafe_b64encode(_signed(content, mark) + content).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, mark: bytes, sequence: int) -> Cursor:
        """The cursor of a text; an empty one begins.

        Raises:
            InvalidInput: it is none, or one of another query. CursorExpired: the collection has changed since.
        """
        if not text:
            return cls(sequence, 0, 0.0, "")
        try:
            data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except (UnicodeEncodeError, ValueError, binascii.Error):
            data = b""
        content = data[_MARK:]
        if len(data) <= _MARK or _signed(content, mark) != data[:_MARK]:
            text = "cursor is the next of an earlier page, unchanged, with the same query and options (k and include may change)"
            raise InvalidInput.of("bad_parameter", text, field="cursor")
        found = cls(*orjson.loads(content))
        if found.sequence != sequence:
            raise CursorExpired("the collection has changed since the page before: begin again")
        return found


def _signed(content: bytes, mark: bytes) -> bytes:
    return hashlib.blake2b(content, key=mark, digest_size=_MARK).digest()


def mark_of(secret: Sequence[object], query: Sequence[Rows], asked: QueryOptions) -> bytes:
    """What signs the cursors of a query. secret: seeds of the collection, and what is said of the query besides."""
    hashed = hashlib.blake2b(repr(tuple(secret)).encode(), digest_size=32)
    for rows in query:
        for part in (rows.indptr, rows.features, rows.values):
            hashed.update(part.tobytes())
    told = {one.name: getattr(asked, one.name) for one in fields(asked) if one.name not in _NO_PART}
    hashed.update(orjson.dumps(told, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=repr))
    return hashed.digest()


def page_behind(cursor: Cursor, find: Callable[[int], Answer], k: int, excluded: set[str]) -> tuple[Answer, list[int], bool]:
    """The search that reaches as far as the next page, the places of its items, and whether there are more behind it.

    Raises:
        InvalidInput: code "over_limit": the page lies too deep.
    """
    if cursor.answered > limit("offset"):
        most = int(limit("offset"))
        raise InvalidInput.of("over_limit", f"cursor: at most {most} items come before a page", field="cursor", limit="offset")
    depth = cursor.answered + k + 1 + len(excluded)
    while True:
        answer = find(depth)
        left = [place for place, identifier in enumerate(answer.ids) if identifier not in excluded]
        left = left[_behind(cursor, answer, left) :]
        # A deeper search may find what one before it missed, which ranks before the cursor.
        if len(left) > k or len(answer.ids) < depth:
            return answer, left[:k], len(left) > k
        depth *= 2


def _behind(cursor: Cursor, answer: Answer, left: Sequence[int]) -> int:
    """How many of the places lie before the page."""
    if not cursor.answered:
        return 0
    for count, place in enumerate(left, 1):
        if answer.ids[place] == cursor.last:
            return count
    scores = answer.scores[list(left)]
    return int(np.count_nonzero(scores <= cursor.score if answer.ascending else scores >= cursor.score))
