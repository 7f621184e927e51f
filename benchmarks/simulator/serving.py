"""The way of a query through one server, or through a gateway and nodes, with arrivals that wait for nobody (Poisson).

    client ─ wire ─ server: handling │ engine │ handling ─ wire ─ client
    client ─ wire ─ gateway: handling, a part for each shard ─ wire ─ a node of each shard, as a server ─ wire ─ gateway ─ wire ─ client

Handling holds Python's lock of its process and a core; the engine holds a core alone. Half of handling lies before the engine, half
behind. The slowest shard decides. As the gateway does (`kinbin_cluster.gateway.fanout`), a replica is chosen by what it owes, and a
second one is asked where the first is late: after four times the mean, 30 ms at least, for one request in twenty, 20 saved up at most.
What the late one does then is done in vain, and is not broken off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simulator.draws import Draw
from simulator.events import WARM, Clock, Cold, Cores, Planned, Process

__all__ = ["Client", "ClusterModel", "Handling", "Load", "Machine", "Outcome", "ServerModel", "simulated"]

LEAST_LATE, LATE_FACTOR, SMOOTH = 0.03, 4.0, 0.05
HEDGE_SHARE, HEDGES_SAVED = 0.05, 20.0
PIECE = 1e-3
"""Seconds of work besides queries that is begun at a time."""

Then = Callable[[], object]
Ask = Callable[[random.Random, Then], None]
"""Begins a query; the call behind it comes when it is answered."""


@dataclass(frozen=True, slots=True)
class Handling:
    """Processor of one process for a query, in seconds: of itself, for each shard, and by how much a single query differs."""

    seconds: float
    each_shard: float = 0.0
    spread: Draw = lambda _: 1.0
    crowded: float = 1.0
    """Times so much where the query had to wait for others: threads take Python's lock from each other, but share system calls."""
    cold: Cold = WARM
    """Of a machine that rests, the engine's work there too."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: its processor for a query, and the time on the way to the server and back that nobody works."""

    seconds: float
    wire: float
    elsewhere: bool = False
    """Whether it has machines of its own, as many as it needs."""
    cold: Cold = WARM


@dataclass(frozen=True, slots=True)
class Load:
    """Queries a second, how many, and the seed of everything random. The first tenth is not counted."""

    rate: float
    queries: int = 20_000
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """What came of it: seconds of each counted query, in the order of their answers; how many were sent and answered; second requests."""

    seconds: list[float] = field(default_factory=list)
    sent: int = 0
    answered: int = 0
    hedged: int = 0
    lasted: float = 0.0
    used: dict[str, float] = field(default_factory=dict)
    """The share of its cores that each machine used."""


class Machine:
    """Cores. behind: the share of one core that background work takes (links, merges), when nobody else wants it."""

    def __init__(self, clock: Clock, name: str, cores: int, behind: float = 0.0) -> None:
        self.name = name
        self.cores = Cores(clock, cores)
        if behind:
            _repeated(clock, PIECE / behind, lambda: self.cores.use_behind(PIECE, _nothing))


def _repeated(clock: Clock, seconds: float, begin: Then) -> None:
    """Call at equal distances, for ever."""

    def again() -> None:
        clock.later(seconds, again)
        begin()

    clock.later(seconds, again)


def _nothing() -> None:
    pass


class ServerModel:
    """One server, or node: a process, and threads for the engine. applying: the share of one core that adds take of the process."""

    def __init__(
        self, clock: Clock, machine: Machine, handling: Handling, engine: Draw, *, wire: float = 0.0, applying: float = 0.0
    ) -> None:
        self._clock = clock
        self._machine = machine
        self._handling = handling
        self._engine = engine
        self._wire = wire
        self._process = Process(machine.cores, handling.crowded, handling.cold)
        self.owed = 0
        if applying:
            _repeated(clock, PIECE / applying, lambda: self._process.hold(PIECE, _nothing))

    def ask(self, rng: random.Random, then: Then) -> None:
        """Answer a query: there, the work, and back."""
        half = self._handling.seconds * self._handling.spread(rng) / 2
        engine = self._engine(rng)
        self.owed += 1

        def back() -> None:
            self.owed -= 1
            self._clock.later(self._wire / 2, then)

        def search() -> None:
            self._machine.cores.use(engine, lambda: self._process.hold(half, back), self._handling.cold)

        self._clock.later(self._wire / 2, lambda: self._process.hold(half, search))


class ClusterModel:
    """A gateway over the replicas of shards. replicas: by shard, who has it."""

    def __init__(self, clock: Clock, machine: Machine, handling: Handling, replicas: Sequence[Sequence[ServerModel]]) -> None:
        self.clock = clock
        self.replicas = replicas
        self.handling = handling
        self.process = Process(machine.cores, handling.crowded, handling.cold)
        self.mean = LEAST_LATE
        self.saved = HEDGES_SAVED
        self.hedged = 0
        self.turn = 0

    def ask(self, rng: random.Random, then: Then) -> None:
        """Answer a query: cut, ask all shards, merge."""
        self.turn += 1
        spread = self.handling.spread(rng)
        own, each = self.handling.seconds * spread / 2, self.handling.each_shard * spread / 2
        left = len(self.replicas)

        def told() -> None:
            nonlocal left
            left -= 1
            if not left:
                self.process.hold(own, then)

        def ask_all() -> None:
            for held in self.replicas:
                _Question(self, held, rng, lambda: self.process.hold(each, told)).begin()

        self.process.hold(own + each * len(self.replicas), ask_all)

    def took(self, seconds: float) -> None:
        """An answer came after so long."""
        self.mean += SMOOTH * (seconds - self.mean)
        self.saved = min(self.saved + HEDGE_SHARE, HEDGES_SAVED)

    def may_hedge(self) -> bool:
        """Whether there is a second request to spare; it is spent."""
        if self.saved < 1.0:
            return False
        self.saved -= 1.0
        self.hedged += 1
        return True

    @property
    def late(self) -> float:
        """Seconds after which a replica counts as late."""
        return max(LATE_FACTOR * self.mean, LEAST_LATE)


class _Question:
    """One shard's part of a query."""

    __slots__ = ("_answered", "_cluster", "_left", "_rng", "_then", "_timer")

    def __init__(self, cluster: ClusterModel, replicas: Sequence[ServerModel], rng: random.Random, then: Then) -> None:
        self._cluster = cluster
        self._left = list(replicas)
        self._rng = rng
        self._then = then
        self._answered = False
        self._timer: Planned | None = None

    def begin(self) -> None:
        """Ask who owes the fewest answers, in turn; the next one as well when that is late."""
        cluster = self._cluster
        count = len(self._left)
        place = min(range(count), key=lambda i: (self._left[i].owed, (i + cluster.turn) % count))
        started = cluster.clock.now
        self._left.pop(place).ask(self._rng, lambda: self._hear(started))
        if self._left:
            self._timer = cluster.clock.later(cluster.late, self._look)

    def _look(self) -> None:
        if not self._answered and self._left and self._cluster.may_hedge():
            self.begin()

    def _hear(self, started: float) -> None:
        if self._answered:
            return
        self._answered = True
        if self._timer is not None:
            self._timer.cancel()
        self._cluster.took(self._cluster.clock.now - started)
        self._then()


def simulated(clock: Clock, machines: Sequence[Machine], client: Client, ask: Ask, load: Load) -> Outcome:
    """Ask as many queries as a load says, at random moments, and wait for all answers. The client works on the first machine."""
    rng = random.Random(load.seed)
    arrivals = random.Random(load.seed + 1)
    outcome = Outcome()
    begun = load.queries // 10
    asking = Process(machines[0].cores, cold=client.cold)
    half, wire = client.seconds / 2, client.wire / 2

    def work(then: Then) -> None:
        if client.elsewhere:
            clock.later(half, then)
        else:
            asking.hold(half, then)

    def arrive() -> None:
        number, due = outcome.sent, clock.now
        outcome.sent += 1
        if outcome.sent < load.queries:
            clock.later(arrivals.expovariate(load.rate), arrive)

        def done() -> None:
            outcome.answered += 1
            outcome.lasted = clock.now
            if number >= begun:
                outcome.seconds.append(clock.now - due)

        def back() -> None:
            clock.later(wire, lambda: work(done))

        work(lambda: clock.later(wire, lambda: ask(rng, back)))

    clock.later(arrivals.expovariate(load.rate), arrive)
    # Background work never ends, so the clock is let go on in steps.
    while outcome.answered < load.queries:
        clock.run(clock.now + 1.0)
    outcome.used = {machine.name: machine.cores.used / (clock.now * machine.cores.count) for machine in machines}
    return outcome
