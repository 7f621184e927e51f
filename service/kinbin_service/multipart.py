"""multipart/form-data (RFC 7578), as browsers and curl send files: a body that is in memory already, cut at its boundaries.

Of the headers of a part only Content-Disposition is read. Parts are not decoded, and nothing is written to disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from kinbin_service.problems import Refusal

__all__ = ["Part", "parse_parts"]

_BOUNDARY = re.compile(r"""boundary=(?:"([^"\\]{1,70})"|([^\s";,]{1,70}))(?:\s*;|\s*$)""", re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition[ \t]*:[ \t]*form-data[ \t]*;(.*)$", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb';?[ \t]*([a-z]+\*?)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', re.IGNORECASE)
_HEADER_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a form."""

    name: str
    filename: str | None
    """Of a file; None: the part is none."""
    content: bytes


def parse_parts(content_type: str, body: bytes, most: int) -> list[Part]:
    """The parts of a body, in their order; refused with bad_multipart, or with over_limit where there are more than `most`."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise _bad("the header Content-Type names no boundary")
    mark = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    # What stands before the first boundary and behind the last is nobody's.
    pieces = (b"\r\n" + body).split(b"\r\n" + mark, most + 2)
    if len(pieces) < 2 or not any(piece.startswith(b"--") for piece in pieces[1:]):
        if len(pieces) > most + 2:
            raise Refusal("over_limit", f"an add has at most {most - 1:,} items", limit="batch_items")
        raise _bad("the last boundary is missing: the body is not whole, or has another boundary than its Content-Type says")
    parts: list[Part] = []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            break
        parts.append(_part(piece))
    return parts


def _part(piece: bytes) -> Part:
    """A part, from behind its boundary."""
    line, end, rest = piece.partition(b"\r\n")
    if line.strip(b" \t") or not end:
        raise _bad("a boundary is followed by other text on its line")
    headers, end, content = rest.partition(b"\r\n\r\n")
    disposition = None if len(headers) > _HEADER_BYTES or not end else _DISPOSITION.search(headers.replace(b"\r\n", b"\n"))
    if disposition is None:
        raise _bad("a part has no header Content-Disposition: form-data")
    given = {name.lower(): _text(quoted or plain) for name, quoted, plain in _PARAMETER.findall(disposition[1])}
    if b"name" not in given:
        raise _bad("a part has no name")
    extended = given.get(b"filename*", "")
    filename = unquote(extended[7:]) if extended.lower().startswith("utf-8''") else given.get(b"filename")
    return Part(given[b"name"], filename, content)


def _text(value: bytes) -> str:
    """A quoted value: browsers write a quote as %22, others with a backslash."""
    try:
        return re.sub(rb'\\(["\\])', rb"\1", value).replace(b"%22", b'"').decode("utf-8")
    except UnicodeDecodeError:
        raise _bad("the name of a part, or of a file, is not UTF-8") from None


def _bad(text: str) -> Refusal:
    return Refusal("bad_multipart", text)
