"""The dashboard: one page of plain modules at /dashboard, which asks this very server, and nothing from elsewhere.

The page itself holds no data, so it needs no key; what it shows it asks the routes under /v1 for, with the key that somebody typed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response

__all__ = ["ASSETS", "CONTENT_SECURITY_POLICY", "PATHS", "answer"]

FOLDER = Path(__file__).with_name("static")

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    # Thumbnails of payloads may stand in them as data: addresses.
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    # No text becomes HTML or a program.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
CONTENT_SECURITY_POLICY = "; ".join(f"{name} {allowed}" for name, allowed in POLICY.items())

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # A browser asks again after an upgrade, and is told in a line that nothing changed.
    "Cache-Control": "no-cache",
}

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


class Asset(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str
    tag: str


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


ASSETS: dict[str, Asset] = {
    "/dashboard" if path.name == "index.html" else f"/dashboard/{path.relative_to(FOLDER).as_posix()}": _read(path)
    for path in sorted(FOLDER.rglob("*"))
    if path.suffix in TYPES
}
"""By path: read once, some 250 kB. What is not in it is not served, so no path leads out of the folder."""

PATHS = frozenset(ASSETS)


def answer(path: str, headers: Headers) -> Response | None:
    """A file of the page; 304 without it for a browser that has it; None: there is no such file."""
    asset = ASSETS.get(path)
    if asset is None:
        return None
    told = {**HEADERS, "ETag": asset.tag}
    # A tag of an answer that was packed on the way comes back marked as weak by some proxies.
    if asset.tag in headers.get("if-none-match", "").replace("W/", ""):
        return Response(None, 304, told)
    return Response(asset.content, 200, told, media_type=asset.media_type)
