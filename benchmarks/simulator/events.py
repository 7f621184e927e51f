"""A clock of discrete events, machines with cores, and processes that do one thing at a time.

1. Events happen in the order of their times; of equal times in the order in which they were planned. So a run is a function of its input.
2. A core is held until its work is done. Whoever waits has his turn in order of arrival; background work has it when nobody else waits,
   for a slice at most.
3. A process does one thing at a time (Python's lock), and needs a core for it. What lets go of the lock asks the cores directly.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["SLICE", "Clock", "Cores", "Planned", "Process"]

SLICE = 1e-3
"""Seconds that background work holds a core before it looks whether anybody waits."""

Then = Callable[[], Any]


class Planned:
    """An event to come; `cancel` makes it none."""

    __slots__ = ("call",)

    def __init__(self, call: Then) -> None:
        self.call: Then | None = call

    def cancel(self) -> None:
        """It will not happen."""
        self.call = None


class Clock:
    """The time, in seconds, and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, int, Planned]] = []
        self._count = 0

    def later(self, seconds: float, call: Then) -> Planned:
        """Plan a call. Raises ValueError where it would lie in the past."""
        if not seconds >= 0.0:
            raise ValueError(f"an event {seconds} s from now: times are 0 or more")
        event = Planned(call)
        self._count += 1
        heapq.heappush(self._planned, (self.now + seconds, self._count, event))
        return event

    def run(self, until: float = float("inf")) -> None:
        """Let everything happen up to a time; at the end it is that time, or that of the last event."""
        while self._planned and self._planned[0][0] <= until:
            self.now, _, event = heapq.heappop(self._planned)
            if event.call is not None:
                event.call()
        if until != float("inf"):
            self.now = until


class Cores:
    """The cores of one machine."""

    def __init__(self, clock: Clock, count: int) -> None:
        if count < 1:
            raise ValueError(f"a machine has at least one core, not {count}")
        self.clock = clock
        self.count = count
        self.used = 0.0
        """Seconds of all work that was begun."""
        self._free = count
        self._waiting: deque[tuple[float, Then]] = deque()
        self._behind: deque[tuple[float, Then]] = deque()

    def use(self, seconds: float, then: Then) -> None:
        """Work for so long, as soon as a core is free."""
        self._waiting.append((seconds, then))
        self._give()

    def use_behind(self, seconds: float, then: Then) -> None:
        """The same when nobody else waits, in slices."""
        self._behind.append((seconds, then))
        self._give()

    def _give(self) -> None:
        while self._free and self._waiting:
            self._begin(*self._waiting.popleft())
        while self._free and self._behind:
            seconds, then = self._behind.popleft()
            if seconds > SLICE:
                self._begin(SLICE, lambda left=seconds - SLICE, then=then: self._behind.append((left, then)))  # type: ignore[misc]
            else:
                self._begin(seconds, then)

    def _begin(self, seconds: float, then: Then) -> None:
        self._free -= 1
        self.used += seconds
        self.clock.later(seconds, lambda: self._end(then))

    def _end(self, then: Then) -> None:
        self._free += 1
        then()
        self._give()


class Process:
    """A program that does one thing at a time on the cores of a machine.

    crowded: what work takes that had to wait for other work of the process, as a share of what it takes otherwise.
    """

    def __init__(self, cores: Cores, crowded: float = 1.0) -> None:
        self.cores = cores
        self._crowded = crowded
        self._busy = False
        self._waiting: deque[tuple[float, Then]] = deque()

    def hold(self, seconds: float, then: Then) -> None:
        """Work for so long, as soon as the process is free and has a core; `then`, and what it begins, comes before its next work."""
        if not seconds:
            then()
        elif self._busy:
            self._waiting.append((seconds * self._crowded, then))
        else:
            self._begin(seconds, then)

    def _begin(self, seconds: float, then: Then) -> None:
        self._busy = True
        self.cores.use(seconds, lambda: self._end(then))

    def _end(self, then: Then) -> None:
        self._busy = False
        then()
        # What `then` began has the process already.
        if self._waiting and not self._busy:
            self._begin(*self._waiting.popleft())
