"""A clock of discrete events, machines with cores, and processes that do one thing at a time.

1. Events happen in the order of their times; of equal times in the order in which they were planned. So a run is a function of its input.
2. A core is held until its work is done. Whoever waits has his turn in order of arrival; background work has it when nobody else waits,
   for a slice at most.
3. A process does one thing at a time (Python's lock), and needs a core for it. What lets go of the lock asks the cores directly.
4. Work takes longer on a machine that rests between: caches are cold, and cores sleep (`Cold`).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["SLICE", "WARM", "WINDOW", "Clock", "Cold", "Cores", "Planned", "Process"]

SLICE = 1e-3
"""Seconds that background work holds a core before it looks whether anybody waits."""

WINDOW = 0.1
"""Seconds over which the work of a machine is seen: an exponential mean."""

Then = Callable[[], Any]


class Cold(NamedTuple):
    """What work takes by the share of a machine's cores that has work, in times of what it takes where parts never rest."""

    points: tuple[tuple[float, float], ...] = ()
    """Pairs of (share, times), ascending in share. Straight lines between; the first and the last hold beyond."""

    def at(self, share: float) -> float:
        """Times so much, where this share of the cores has work."""
        if not self.points or share >= self.points[-1][0]:
            return self.points[-1][1] if self.points else 1.0
        before, value = self.points[0]
        for place, there in self.points:
            if share < place:
                return value if place <= before else value + (there - value) * max(0.0, share - before) / (place - before)
            before, value = place, there
        return value


WARM = Cold()
"""Of work that takes the same at any load."""


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
        self._waiting: deque[tuple[float, Then, Cold]] = deque()
        self._behind: deque[tuple[float, Then]] = deque()
        self._worked = 0.0
        self._seen = 0.0

    @property
    def share(self) -> float:
        """Of the cores, how many had work lately, background work apart."""
        return self._worked * math.exp((self._seen - self.clock.now) / WINDOW) / (WINDOW * self.count)

    def use(self, seconds: float, then: Then, cold: Cold = WARM) -> None:
        """Work for so long, as soon as a core is free. cold: how much longer where the machine rests."""
        self._waiting.append((seconds, then, cold))
        self._give()

    def use_behind(self, seconds: float, then: Then) -> None:
        """The same when nobody else waits, in slices."""
        self._behind.append((seconds, then))
        self._give()

    def _give(self) -> None:
        while self._free and self._waiting:
            seconds, then, cold = self._waiting.popleft()
            seconds *= cold.at(self.share)
            self._worked = self._worked * math.exp((self._seen - self.clock.now) / WINDOW) + seconds
            self._seen = self.clock.now
            self._begin(seconds, then)
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

    crowded: what work takes that had to wait for other work of the process, as a share of what it takes otherwise. cold: of a machine
    that rests.
    """

    def __init__(self, cores: Cores, crowded: float = 1.0, cold: Cold = WARM) -> None:
        self.cores = cores
        self._cold = cold
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
        self.cores.use(seconds, lambda: self._end(then), self._cold)

    def _end(self, then: Then) -> None:
        self._busy = False
        then()
        # What `then` began has the process already.
        if self._waiting and not self._busy:
            self._begin(*self._waiting.popleft())
