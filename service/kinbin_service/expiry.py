"""When a certificate expires, read from its PEM file: Python's own ssl tells that only of what a peer has sent."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["expiry_of"]

_SEQUENCE, _VERSION, _UTC_TIME, _TIME = 0x30, 0xA0, 0x17, 0x18
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def expiry_of(file: Path) -> float | None:
    """The end of the first certificate of a PEM file, in seconds since 1970; None: there is none that can be read."""
    try:
        text = file.read_text(encoding="ascii", errors="replace")
        start = text.index(_BEGIN)
        return _end_of(ssl.PEM_cert_to_DER_cert(text[start : text.index(_END, start) + len(_END)]))
    except (OSError, ValueError, IndexError):
        return None


def _end_of(der: bytes) -> float:
    """`notAfter` of a certificate (RFC 5280, section 4.1): the second time of the fourth field behind the version."""
    (_, certificate), *_ = _parts(der)
    (_, inner), *_ = _parts(certificate)
    fields = [value for tag, value in _parts(inner) if tag != _VERSION]
    (_, _), (tag, end), *_ = _parts(fields[3])
    if tag not in (_UTC_TIME, _TIME):
        raise ValueError("no time")
    # Two digits of a year are those of 1950 to 2049.
    when = end.decode("ascii") if tag == _TIME else ("19" if end[:2] >= b"50" else "20") + end.decode("ascii")
    return datetime.strptime(when, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _parts(content: bytes) -> list[tuple[int, bytes]]:
    """Tags and values that follow each other (DER)."""
    out, at = [], 0
    while at < len(content):
        tag, size, at = content[at], content[at + 1], at + 2
        if size & 0x80:
            wide = size & 0x7F
            size, at = int.from_bytes(content[at : at + wide], "big"), at + wide
        if at + size > len(content):
            raise ValueError("cut off")
        out.append((tag, content[at : at + size]))
        at += size
    return out
