"""Which names a server answers to: what keeps a web page of elsewhere from asking a server without a key.

A page may lead its own name to 127.0.0.1 (DNS rebinding) and then ask the server behind it as if it were its own. The browser still
sends the page's name as `Host`, and as `Origin` where it sends one, so these two are compared with the names that are the server's.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers

from kinbin_service.problems import Refusal
from kinbin_service.settings import Settings, is_loopback, is_wildcard

__all__ = ["Hosts"]

# A name or an IPv4 address, or an IPv6 address in brackets; a port may follow.
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s\[\]:/?#@,]+)(?::\d*)?", re.ASCII | re.IGNORECASE)
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#]+)", re.ASCII | re.IGNORECASE)


class Hosts:
    """The names of a server. They are looked at when there is no key, or when some are configured."""

    def __init__(self, settings: Settings) -> None:
        self.checked = not settings.has_keys or bool(settings.hosts)
        self._names = settings.hosts if is_wildcard(settings.host) else settings.hosts | {_plain(settings.host)}

    def check(self, headers: Headers) -> None:
        """Refuse a request to a name that is not the server's (421), and one from a page of elsewhere (403)."""
        if not self.checked:
            return
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._knows(hosts[0]):
            raise Refusal(
                "unknown_host",
                "the header Host names neither this machine's loopback nor a name that was configured: if it is right, set "
                "KINBIN_ALLOWED_HOSTS (kinbin serve --allowed-host) to that name",
            )
        for origin in headers.getlist("origin"):
            found = _ORIGIN.fullmatch(origin)
            if found is None or not self._knows(found["host"]):
                raise Refusal(
                    "foreign_origin",
                    "a web page of another host sent this: if it may, set KINBIN_ALLOWED_HOSTS (kinbin serve --allowed-host) to its host",
                )

    def _knows(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = _plain(found["name"])
        return name in self._names or is_loopback(name)


def _plain(name: str) -> str:
    """A name as it is compared: without brackets, case and a last dot."""
    return name.strip("[]").removesuffix(".").lower()
