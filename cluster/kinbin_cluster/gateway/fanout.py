"""One replica of each shard is asked: the least loaded, another one when it is late or fails.

1. First those that live and have their shard live (`Picture.answering`), of these who owes the fewest answers, in turn. Who owes
   answers and has been silent for `SILENT_SECONDS` comes last.
2. A node that cannot be reached, breaks off, or answers that it cannot now (404 of the shard, 429, 500, 503), or that it has another
   key (401): the next one at once.
3. A node that is late: the next one is asked as well, and who answers first counts; the other is broken off. Late is four times what
   answers took lately. Such second requests are at most a twentieth of all: under overload everything is late, and asking twice would
   make it worse.
4. A node that has said nothing for `PROBE_SECONDS` is asked whether it lives (/livez). One that searches says so. One that does not within
   `SILENT_SECONDS` is stopped, or cut off: the next one is asked, however many were.
5. When all were asked and nobody answered, the shard is missing: `None`, or the last refusal, where there is one.

Cost: 0.1 ms of processor for each shard. For one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinbin_cluster.gateway.transport import Exchange, Node, Reply, Request
from kinbin_cluster.measures import Worked
from kinbin_cluster.picture import Picture
from kinbin_cluster.shards import local_name

__all__ = ["Asked", "Fanout"]

LEAST_SECONDS, PROBE_SECONDS, SILENT_SECONDS = 0.03, 0.15, 0.4
_FACTOR = 4.0
_SMOOTH = 0.05
"""The weight of the newest answer in the mean of what answers took."""
_SHARE, _SAVED = 0.05, 20.0
"""Second requests: of all, and how many may be saved up."""
FINAL_503 = frozenset({"search_deadline"})
"""Codes of refusals that another replica would answer no better, in no less time."""
_ELSEWHERE = frozenset({401, 404, 429, 500, 503})


log = logging.getLogger("kinbin.gateway")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to one shard of a collection.

    `request.path` begins behind the collection's name, as "/query", empty for itself; or it is a node's own, as "/cluster/query".
    """

    shard: int
    request: Request


class Fanout:
    """The nodes of a cluster, as one gateway asks them."""

    def __init__(self, picture: Picture, key: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.picture = picture
        self.hedged = 0
        """Second requests that were sent as the first were late."""
        self.elsewhere = 0
        """Requests that were sent again as a node failed."""
        self.work = Worked()
        """What requests to shards came to."""
        self._key = key
        self._tls = tls
        self._nodes: dict[str, Node] = {}
        self._refusing: set[str] = set()
        """Addresses of nodes that have refused the key."""
        self._mean = LEAST_SECONDS
        self._tokens = _SAVED
        self._turn = 0
        self._loop = asyncio.get_running_loop()

    async def ask(self, uid: str, asked: Sequence[Asked], seconds: float) -> list[Reply | None]:
        """The replies to requests to shards, in their order. seconds: until all that is missing counts as such."""
        self._turn += 1
        questions = [_Question(self, uid, one) for one in asked]
        ending = self._loop.call_later(seconds, self._give_up, questions)
        started = time.monotonic()
        try:
            for question in questions:
                question.begin()
            replies = [await question.answered for question in questions]
        finally:
            ending.cancel()
            for question in questions:
                question.end()
        for question, one, reply in zip(questions, asked, replies, strict=True):
            self.work.note((uid, one.shard), "read", question.ended - started, good=reply is not None and not _is_elsewhere(reply))
        return replies

    def _give_up(self, questions: Sequence[_Question]) -> None:
        for question in questions:
            self.work.timeouts += question.give_up()

    async def post(self, address: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes] | None:
        """What a node answers to JSON at any path of its own; None: it cannot be reached, or not within so long."""
        reply = await self.node(address).request(Request("POST", path, body, JSON), seconds)
        return None if reply is None else (reply.status, reply.body)

    def node(self, address: str) -> Node:
        """The node at an address."""
        found = self._nodes.get(address)
        if found is None:
            found = self._nodes[address] = Node(address, self._key, self._tls)
        return found

    def key_refused(self, address: str) -> None:
        """A node has another key: say so, once."""
        if address not in self._refusing:
            self._refusing.add(address)
            log.error("the node at %s refuses the key of this gateway: KINBIN_CLUSTER_KEY has to be the same there and here", address)

    def outstanding(self) -> Mapping[str, int]:
        """By the address of each node, how many answers it owes."""
        return {address: node.outstanding for address, node in self._nodes.items()}

    def close(self) -> None:
        """Close the connections."""
        for node in self._nodes.values():
            node.close()

    def _next(self, uid: str, shard: int, tried: Sequence[Node], *, only_ready: bool) -> Node | None:
        """The node to ask; None: all were. only_ready: none whose copy is still being brought up to its log."""
        best: tuple[bool, bool, int, int] | None = None
        chosen = None
        now = time.monotonic()
        answering = self.picture.answering(uid, shard)
        for place, told in enumerate(answering):
            node = self.node(told.address)
            if node in tried:
                continue
            copy = self.picture.replica(uid, shard, told.name)
            if copy is not None and copy.state == "restoring":
                continue
            ready = copy is not None and copy.state == "live" and self.picture.is_live(told.name)
            if only_ready and not ready:
                continue
            rank = (not ready, node.silent(now) > SILENT_SECONDS, node.outstanding, (place + self._turn) % len(answering))
            if best is None or rank < best:
                best, chosen = rank, node
        return chosen

    def _late(self) -> float:
        """Seconds after which a node counts as late."""
        return max(_FACTOR * self._mean, LEAST_SECONDS)

    def _took(self, seconds: float) -> None:
        self._mean += _SMOOTH * (seconds - self._mean)
        self._tokens = min(self._tokens + _SHARE, _SAVED)

    def _may_hedge(self) -> bool:
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


JSON = (("Content-Type", "application/json"),)


class _Question:
    """One request to one shard, and the replicas that were asked."""

    __slots__ = ("_asked", "_fanout", "_hurried", "_refused", "_request", "_running", "_timer", "_tried", "_uid", "answered", "ended")

    def __init__(self, fanout: Fanout, uid: str, asked: Asked) -> None:
        self._fanout = fanout
        self._uid = uid
        self._asked = asked
        self._request = asked.request
        if not asked.request.path.startswith("/cluster/"):
            self._request = asked.request._replace(path=f"/v1/collections/{local_name(uid, asked.shard)}{asked.request.path}")
        self._tried: list[Node] = []
        self._running: list[Exchange] = []
        self._refused: Reply | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hurried = False
        """Whether it was late once, and there was no second request to spare."""
        self.answered: asyncio.Future[Reply | None] = fanout._loop.create_future()
        self.ended = 0.0
        """When it was, by `time.monotonic`."""

    def begin(self, *, only_ready: bool = False) -> None:
        """Ask the first, or the next, replica; when nobody is left and nobody is awaited, there is no answer.

        only_ready: where another one that lives is merely late, or refuses. A copy that is being made would be the first to answer, with
        what it has so far.
        """
        node = self._fanout._next(self._uid, self._asked.shard, self._tried, only_ready=only_ready)
        if node is None:
            if not self._running and not self.answered.done():
                self.answered.set_result(self._refused)
                self.ended = time.monotonic()
            return
        self._tried.append(node)
        started = time.monotonic()
        exchange = node.start(self._request, lambda reply: self._hear(exchange, node, reply, time.monotonic() - started))
        self._running.append(exchange)
        self._watch(node, started)

    def end(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
        for exchange in self._running:
            exchange.cancel()
        self._running.clear()

    def give_up(self) -> bool:
        """It has taken too long; whether it was not answered before."""
        late = not self.answered.done()
        if late:
            self.answered.set_result(self._refused)
            self.ended = time.monotonic()
        return late

    def _watch(self, node: Node, started: float) -> None:
        """Look after a node when it may be late, or silent."""
        if self._timer is not None:
            self._timer.cancel()
        seconds = min(self._fanout._late(), PROBE_SECONDS) if not self._hurried else PROBE_SECONDS
        self._timer = self._fanout._loop.call_later(seconds, self._look, node, started)

    def _look(self, node: Node, started: float) -> None:
        if self.answered.done():
            return
        now = time.monotonic()
        late = not self._hurried and now - started >= self._fanout._late()
        silent = node.silent(now) >= SILENT_SECONDS
        if silent:
            node.suspect()
        if silent or (late and self._fanout._may_hedge()):
            self._fanout.hedged += 1
            self.begin(only_ready=not silent)
            return
        self._hurried = self._hurried or late
        if node.silent(now) >= PROBE_SECONDS / 2:
            node.probe()
        self._watch(node, started)

    def _hear(self, exchange: Exchange, node: Node, reply: Reply | None, seconds: float) -> None:
        self._running.remove(exchange)
        if self.answered.done():
            return
        if reply is None or _is_elsewhere(reply):
            self._refused = reply or self._refused
            if reply is not None and reply.status == 401:
                self._fanout.key_refused(node.address)
            self._fanout.elsewhere += 1
            self.begin(only_ready=reply is not None)
            return
        self._fanout._took(seconds)
        self.ended = time.monotonic()
        self.answered.set_result(reply)


def _is_elsewhere(reply: Reply) -> bool:
    """Whether it is no answer of the shard: another replica may give one."""
    return reply.status in _ELSEWHERE and not _is_final(reply)


def _is_final(reply: Reply) -> bool:
    """Whether a refusal is what every replica would say."""
    if reply.status == 404:
        return b'"collection_not_found"' not in reply.body
    return reply.status == 503 and any(f'"{code}"'.encode() in reply.body for code in FINAL_503)
