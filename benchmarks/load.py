"""Load for a server: HTTP requests over many connections from one process, each answer with its status and its time.

A client library would cost as much as the server. Requests are bytes that were made before, and answers are only cut apart.
"""

from __future__ import annotations

import bisect
import multiprocessing
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answered", "Ask", "asked_by", "http_post"]

_RECEIVED = 1 << 18
PATIENCE = 60.0


class Ask(NamedTuple):
    """What one process asks."""

    port: int
    requests: Sequence[bytes]
    """Taken in turn, by all connections together."""
    connections: int
    seconds: float
    rate: float | None = None
    """Requests a second, whether or not they are answered in time; None: each connection asks again when it is answered."""
    due: Sequence[float] | None = None
    """Instead of a rate: seconds from the beginning at which requests are to be sent. They count from then on, sent late or not."""


class Answered(NamedTuple):
    """What came of it: one element for each answer."""

    status: NDArray[np.int64]
    """0: the connection broke."""
    seconds: NDArray[np.float64]
    """From the first byte sent (from when it was due) to the last received."""
    at: NDArray[np.float64]
    """When it was there, since the beginning."""
    processor: NDArray[np.float64] = np.zeros(0)
    """Seconds of processor that each asking process used meanwhile."""

    def of(self, *statuses: int) -> Answered:
        """Those with these statuses."""
        chosen = np.isin(self.status, statuses)
        return Answered(self.status[chosen], self.seconds[chosen], self.at[chosen], self.processor)

    def rate(self, seconds: float) -> float:
        """Answers a second."""
        return len(self.status) / seconds

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share was answered; nan: there are no answers."""
        return float(np.quantile(self.seconds, share)) * 1e3 if len(self.seconds) else float("nan")


def http_post(path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """The bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def asked_by(processes: int, ask: Ask) -> Answered:
    """What so many processes were answered, each asking the same."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(processes)
    answers: Any = context.Queue()
    started = [context.Process(target=_ask, args=(ask, number, together, answers), daemon=True) for number in range(processes)]
    for process in started:
        process.start()
    parts = [answers.get(timeout=ask.seconds + 2 * PATIENCE) for _ in started]
    for process in started:
        process.join()
    return Answered(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _ask(ask: Ask, number: int, together: Any, answers: Any) -> None:
    together.wait(PATIENCE)
    answers.put(tuple(_Asking(ask, number).run()))


@dataclass
class _Connection:
    channel: socket.socket
    began: float = 0.0
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    received: bytearray = field(default_factory=bytearray)
    wanted: int = -1
    """Bytes of the whole answer; -1: its head is not there yet."""
    busy: bool = False


class _Asking:
    """The connections of one process."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self._next = number * len(ask.requests) // 7
        # Those that know of many connections wait for whole milliseconds.
        self._selector = selectors.SelectSelector() if ask.due is not None else selectors.DefaultSelector()
        self._idle: list[_Connection] = []
        self._answers: list[tuple[int, float, float]] = []
        self._begun = 0.0
        for _ in range(ask.connections):
            self._connect()

    def run(self) -> Answered:
        """Ask for a while; what was asked then is still waited for."""
        ask = self._ask
        used = time.process_time()
        self._begun = time.perf_counter()
        end = self._begun + ask.seconds
        sent = busy = 0
        while True:
            now = time.perf_counter()
            due = self._due(now - self._begun, sent)
            while now < end and due > 0 and self._idle:
                self._send(self._idle.pop(), None if ask.due is None else self._begun + ask.due[sent])
                sent, due = sent + 1, due - 1
            busy = ask.connections - len(self._idle)
            if (now >= end and not busy) or now > end + PATIENCE:
                break
            for key, events in self._selector.select(self._pause(sent, busy)):
                self._serve(key.data, events)
        status, seconds, at = (np.array(column) for column in zip(*self._answers, strict=True)) if self._answers else (np.zeros(0),) * 3
        return Answered(status.astype(np.int64), seconds, at, np.array([time.process_time() - used]))

    def _due(self, passed: float, sent: int) -> int:
        """How many requests are to be sent now."""
        ask = self._ask
        if ask.due is not None:
            return bisect.bisect_right(ask.due, passed) - sent
        return ask.connections if ask.rate is None else int(passed * ask.rate) - sent

    def _pause(self, sent: int, busy: int) -> float:
        """Seconds to wait for answers before something else is to be done."""
        if self._ask.due is not None and self._idle and sent < len(self._ask.due):
            return min(1.0, max(0.0, self._begun + self._ask.due[sent] - time.perf_counter()))
        return 0.001 if self._ask.rate is not None or not busy else 1.0

    def _connect(self) -> None:
        channel = socket.create_connection(("127.0.0.1", self._ask.port), timeout=PATIENCE)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.setblocking(False)
        one = _Connection(channel)
        self._selector.register(channel, selectors.EVENT_READ, one)
        self._idle.append(one)

    def _send(self, one: _Connection, due: float | None = None) -> None:
        one.unsent = memoryview(self._ask.requests[self._next % len(self._ask.requests)])
        self._next += 1
        one.began, one.busy = time.perf_counter() if due is None else due, True
        one.received.clear()
        one.wanted = -1
        self._push(one)

    def _push(self, one: _Connection) -> None:
        with suppress(BlockingIOError, ConnectionError):
            one.unsent = one.unsent[one.channel.send(one.unsent) :]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.unsent else 0)
        self._selector.modify(one.channel, wanted, one)

    def _serve(self, one: _Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._push(one)
        if not events & selectors.EVENT_READ:
            return
        try:
            chunk = one.channel.recv(_RECEIVED)
        except ConnectionError:
            chunk = b""
        if not chunk:
            self._ended(one, 0)
            return
        one.received += chunk
        if one.wanted < 0 and (head := one.received.find(b"\r\n\r\n")) >= 0:
            one.wanted = head + 4 + _length(bytes(one.received[:head]))
        if 0 <= one.wanted <= len(one.received):
            self._ended(one, int(one.received[9:12]))

    def _ended(self, one: _Connection, status: int) -> None:
        now = time.perf_counter()
        if one.busy:
            self._answers.append((status, now - one.began, now - self._begun))
        else:  # a connection that was idle for too long
            self._idle.remove(one)
        closing = status == 0 or b"connection: close" in bytes(one.received[: one.wanted]).lower()
        one.busy = False
        if closing:
            self._selector.unregister(one.channel)
            one.channel.close()
            self._connect()
        else:
            self._idle.append(one)


def _length(head: bytes) -> int:
    """What a head says of the length of its body."""
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)
