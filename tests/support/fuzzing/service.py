"""The service that is asked: a process on a folder of its own, filled again and again, and looked at."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zstandard

from fuzzing.bodies import Asked
from service_process import ServerProcess

__all__ = ["KNOWN", "Answered", "Fuzzed", "items_of"]

KNOWN: Mapping[str, Any] = {
    "photos": {"dim": 3, "indexes": {"year": "number", "tag": "keyword"}},
    "words": {"items": "strings", "distance": "levenshtein"},
    "both": {"fields": {"colour": {"dim": 3}, "words": {}}},
    "default": {"dim": 3},
}
"""The collections that requests name."""
SETTINGS = {"access_log": "false", "search_seconds": 5, "body_seconds": 5, "max_restore_bytes": 1 << 20}

Answered = tuple[int, str, bytes]
"""Status, media type and body of an answer."""


class Fuzzed:
    """The process, and a connection to it."""

    def __init__(self, work: Path) -> None:
        self.server = ServerProcess(work / "data", **SETTINGS)
        self.server.launch()
        self.server.wait_until_ready()
        self._wire = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)

    def ask(self, asked: Asked) -> Answered:
        """The answer to a request; ConnectionError if the service is gone, or lets go of it without one."""
        for again in (False, True):
            try:
                self._wire.putrequest(asked.method, asked.path, skip_accept_encoding=True)
                for name, value in asked.headers.items():
                    self._wire.putheader(name, value.encode("utf-8"))
                self._wire.putheader("content-length", str(len(asked.body)))
                self._wire.endheaders(asked.body)
                answer = self._wire.getresponse()
                return answer.status, answer.headers.get_content_type(), _unpacked(answer.read(), answer.headers.get("content-encoding"))
            except (http.client.HTTPException, ConnectionError):
                # A connection that was closed behind the answer before is no fault; one that is closed at once is.
                self._wire.close()
                if again:
                    raise
        raise AssertionError

    def refill(self) -> None:
        """Drop what requests have made, and fill the known collections as they were."""
        for name in self._get("/v1/collections")["collections"]:
            if name not in KNOWN or self._get(f"/v1/collections/{name}")["count"] > 500:
                self._send("DELETE", f"/v1/collections/{name}")
            else:
                self._send("PUT", f"/v1/collections/{name}/limits", {"items": None, "bytes": None})
        for name, config in KNOWN.items():
            self._send("PUT", f"/v1/collections/{name}", config)
            self._send("POST", f"/v1/collections/{name}/index", {"items": items_of(name)})
        self._send("PUT", "/v1/aliases/live", {"collection": "photos"})

    def snapshots(self) -> list[str]:
        """The ids of the snapshots of a collection."""
        return [one["id"] for one in self._get("/v1/collections/photos/snapshots")["snapshots"]]

    def memory(self) -> int:
        """Bytes that the process holds besides files."""
        status = Path(f"/proc/{self.server.process.pid}/status").read_text(encoding="ascii")
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))

    def alive(self) -> bool:
        """Whether the process that was started still runs."""
        return self.server.process.poll() is None

    def close(self) -> None:
        """End it."""
        self._wire.close()
        self.server.client.close()
        if self.alive():
            self.server.process.terminate()
        self.server.process.communicate(timeout=60)

    def _get(self, path: str) -> Any:
        return json.loads(self._send("GET", path))

    def _send(self, method: str, path: str, content: Any = None) -> bytes:
        body = b"" if content is None else json.dumps(content).encode()
        status, _, answer = self.ask(Asked(method, path, {"content-type": "application/json"} if body else {}, body, None))
        if status >= 500:
            raise ConnectionError(f"{method} {path}: {status} {answer[:300]!r}")
        return answer


def _unpacked(body: bytes, encoding: str | None) -> bytes:
    if encoding is None:
        return body
    return gzip.decompress(body) if encoding == "gzip" else zstandard.ZstdDecompressor().decompressobj().decompress(body)


def items_of(name: str) -> list[dict[str, Any]]:
    """What a known collection holds."""
    if name == "words":
        return [{"id": word, "string": word} for word in ("kitten", "sitting", "mitten", "bit")]
    vectors = [[1.0, n % 7, 3.0] for n in range(60)]
    if name == "both":
        return [{"id": f"i{n}", "vectors": {"colour": one, "words": ["red", f"w{n}"]}} for n, one in enumerate(vectors)]
    return [{"id": f"i{n}", "vector": one, "payload": {"year": 2000 + n % 9, "tag": "abc"[n % 3]}} for n, one in enumerate(vectors)]
