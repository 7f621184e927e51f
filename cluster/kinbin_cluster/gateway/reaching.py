"""Whether nodes that tell that they live can be asked: an address that is wrong, another certificate, a firewall.

A node lives by what it tells through NATS, which says nothing of the way from here to it. So each one is asked every other second
(/livez), and what a gateway does not reach it tells with its own beat. Where no gateway reaches a node, its copies count as not answering,
and it is given no others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from kinbin_cluster.gateway.fanout import Fanout
from kinbin_cluster.gateway.transport import Request
from kinbin_cluster.picture import Node

__all__ = ["Reaching"]

LOOK_SECONDS, SECONDS = 2.0, 2.0
"""Between two looks at all nodes; longest wait for one."""
FAILURES = 3
"""In a row, before it is said: a node that is busy for a moment is reached again."""

log = logging.getLogger("kinbin.gateway")


class Reaching:
    """Belongs to the gateway's event loop. `await run()` for as long as it runs."""

    def __init__(self, fanout: Fanout) -> None:
        self._fanout = fanout
        self._failures: Counter[str] = Counter()

    @property
    def unreached(self) -> tuple[str, ...]:
        """The nodes that live and are not reached, by name."""
        return tuple(sorted(name for name, failures in self._failures.items() if failures >= FAILURES))

    async def run(self) -> None:
        """Look, again and again."""
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("a look at the nodes has failed")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Ask each node that lives, once."""
        live = self._fanout.picture.live()
        for name in self._failures.keys() - {node.name for node in live}:
            del self._failures[name]
        await asyncio.gather(*map(self._ask, live))

    async def _ask(self, node: Node) -> None:
        reply = await self._fanout.node(node.address).request(Request("GET", "/livez"), SECONDS)
        if reply is not None and reply.status == 200:
            if self._failures.pop(node.name, 0) >= FAILURES:
                log.warning("node %s is reached again at %s", node.name, node.address)
            return
        self._failures[node.name] += 1
        if self._failures[node.name] == FAILURES:
            log.error(
                "node %s tells that it lives, and is not reached at %s: see its --address, its certificate, and what lies between",
                node.name,
                node.address,
            )
