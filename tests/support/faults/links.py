"""Links that can be cut: TCP proxies on loopback, each between one program and one address.

A cut link does as a network does that loses every packet: nothing is forwarded in that direction, connections stay, what was sent
waits, and goes on when the link heals. All proxies are one process of their own (this file), told by lines of JSON what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from typing import Any

__all__ = ["BOTH", "DOWN", "UP", "Link", "Links"]

UP, DOWN = "up", "down"
BOTH = (UP, DOWN)
"""From who opened the connection, and back to it."""
_PIECE = 65_536


class Link:
    """One link, as tests use it."""

    def __init__(self, links: Links, number: int, port: int) -> None:
        self._links = links
        self._number = number
        self.port = port
        """Of the listener."""

    def cut(self, *ways: str) -> None:
        """Forward nothing more in these directions."""
        self._links.ask(["cut", self._number, ways])

    def heal(self) -> None:
        """Forward everything, what waits first."""
        self._links.ask(["heal", self._number])


class Links:
    """All links of a cluster: the process that forwards. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: list[Link] = []
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def ask(self, order: list[Any]) -> int:
        """Have something done; returns when it is."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def to(self, port: int) -> Link:
        """A new link to a port of loopback."""
        link = Link(self, len(self._made), self.ask(["to", port]))
        self._made.append(link)
        return link

    def heal(self) -> None:
        """Heal all links."""
        for link in self._made:
            link.heal()

    def close(self) -> None:
        """Break everything off."""
        self._process.kill()
        self._process.communicate()


class _Proxy:
    """One listener and where it leads to, in the process that forwards."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.open = {way: asyncio.Event() for way in BOTH}
        self.heal()

    def heal(self) -> None:
        """Forward everything."""
        for event in self.open.values():
            event.set()

    async def serve(self) -> int:
        """Listen; the port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.open[UP].wait()
        try:
            there, to_there = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        pumps = [asyncio.create_task(self._pump(reader, to_there, UP)), asyncio.create_task(self._pump(there, writer, DOWN))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            to_there.close()
            writer.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_PIECE):
                await self.open[way].wait()
                target.write(data)
                await target.drain()
            # The end of a connection is a packet like any other.
            await self.open[way].wait()


async def _forward() -> None:
    """Do what the lines say, until they end."""
    loop = asyncio.get_running_loop()
    proxies: list[_Proxy] = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        what, number, *ways = json.loads(line)
        told = 0
        if what == "to":
            proxies.append(_Proxy(number))
            told = await proxies[-1].serve()
        elif what == "heal":
            proxies[number].heal()
        else:
            for way in ways[0]:
                proxies[number].open[way].clear()
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_forward())
