from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from simulator.draws import Draw, constant, exponential, of_quantiles, quantile
from simulator.events import SLICE, WINDOW, Clock, Cold, Cores, Process
from simulator.serving import HEDGE_SHARE, HEDGES_SAVED, Client, ClusterModel, Handling, Load, Machine, Outcome, ServerModel, simulated

NOBODY = Client(0.0, 0.0, elsewhere=True)
NOTHING = Handling(0.0)


def one_server(cores: int, rate: float, engine: Draw, queries: int = 40_000, handling: Handling = NOTHING, behind: float = 0.0) -> Outcome:
    """Queries of a server whose engine is the station, with no client and no way."""
    clock = Clock()
    machine = Machine(clock, "server", cores, behind)
    return simulated(clock, [machine], NOBODY, ServerModel(clock, machine, handling, engine).ask, Load(rate, queries, seed=1))


def fanned_out(
    shards: int, engine: Callable[[int, int], Draw], rate: float, queries: int, replicas: int = 1
) -> tuple[Outcome, ClusterModel]:
    """Queries of a gateway that costs nothing, over replicas (by shard and copy) with a machine each."""
    clock = Clock()
    held = [
        [ServerModel(clock, Machine(clock, f"{shard}-{copy}", 64), NOTHING, engine(shard, copy)) for copy in range(replicas)]
        for shard in range(shards)
    ]
    machine = Machine(clock, "gateway", 1)
    gateway = ClusterModel(clock, machine, NOTHING, held)
    return simulated(clock, [machine], NOBODY, gateway.ask, Load(rate, queries, seed=1)), gateway


def mean(values: list[float]) -> float:
    """The arithmetic one."""
    return sum(values) / len(values)


def crommelin(cores: int, offered: float) -> float:
    """The mean wait of M/D/c in units of the service time (Crommelin 1932)."""

    def tail(least: int, of: float) -> float:
        below = sum(math.exp(k * math.log(of) - of - math.lgamma(k + 1)) for k in range(least))
        return max(0.0, 1.0 - below)

    return sum(tail(i * cores, i * offered) - cores / offered * tail(i * cores + 1, i * offered) for i in range(1, 150))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_core_is_m_m_1(load: float) -> None:
    """Random arrivals and times at one core take 1/(μ-λ) in the mean, and its logarithmic tail."""
    seconds = one_server(1, load, exponential(1.0)).seconds
    assert mean(seconds) == pytest.approx(1.0 / (1.0 - load), rel=0.06)
    assert quantile(seconds, 0.99) == pytest.approx(math.log(100.0) / (1.0 - load), rel=0.1)


def test_the_formula_of_m_d_c_is_the_one_of_a_core() -> None:
    """For one core Crommelin's sum is ρ/(2(1-ρ))."""
    assert crommelin(1, 0.7) == pytest.approx(0.7 / 0.6, rel=1e-4)


@pytest.mark.parametrize(("cores", "load"), [(1, 0.7), (2, 0.8), (4, 0.85)])
def test_several_cores_are_m_d_c(cores: int, load: float) -> None:
    """Constant times at c cores wait as long as Crommelin's sum says."""
    seconds = one_server(cores, load * cores, constant(1.0)).seconds
    assert mean(seconds) - 1.0 == pytest.approx(crommelin(cores, load * cores), rel=0.1)


@pytest.mark.parametrize("shards", [1, 3, 10])
def test_the_slowest_shard_decides(shards: int) -> None:
    """The greatest of n exponential times is H(n) in the mean."""
    outcome, _ = fanned_out(shards, lambda *_: exponential(1.0), 0.1, 8_000)
    assert mean(outcome.seconds) == pytest.approx(sum(1.0 / i for i in range(1, shards + 1)), rel=0.05)


def test_nothing_is_lost_and_work_is_conserved() -> None:
    """Every query is answered once, and cores work just as long as queries take."""
    outcome = one_server(2, 1.2, constant(1.0), 5_000, Handling(0.25))
    assert outcome.sent == outcome.answered == 5_000
    assert len(outcome.seconds) == 4_500
    assert min(outcome.seconds) == pytest.approx(1.25)
    assert outcome.used["server"] == pytest.approx(5_000 * 1.25 / (2 * math.ceil(outcome.lasted)), rel=0.01)


def test_the_mean_number_inside_is_rate_times_time() -> None:
    """Little's law: what queries wait together is what was inside, over the time."""
    clock, inside, area, last = Clock(), 0, 0.0, 0.0
    server = ServerModel(clock, Machine(clock, "server", 2), NOTHING, exponential(1.0))
    rng, waited = random.Random(0), 0.0

    def step(by: int) -> None:
        nonlocal inside, area, last
        area += inside * (clock.now - last)
        inside, last = inside + by, clock.now

    def arrive(left: int) -> None:
        began = clock.now
        step(1)

        def done() -> None:
            nonlocal waited
            waited += clock.now - began
            step(-1)

        server.ask(rng, done)
        if left:
            clock.later(rng.expovariate(1.5), lambda: arrive(left - 1))

    arrive(3_000)
    clock.run()
    assert inside == 0
    assert area == pytest.approx(waited)


def test_a_run_is_a_function_of_its_seed() -> None:
    """The same seed gives the same times, another one others."""
    runs = []
    for seed in (1, 1, 2):
        clock = Clock()
        machine = Machine(clock, "server", 2)
        server = ServerModel(clock, machine, Handling(0.1, spread=of_quantiles([0.5, 1.0, 2.0])), exponential(1.0))
        runs.append(simulated(clock, [machine], NOBODY, server.ask, Load(1.0, 500, seed)).seconds)
    assert runs[0] == runs[1] != runs[2]


def test_a_process_does_one_thing_at_a_time() -> None:
    """With cores to spare, handling still follows handling; a core alone bounds what its processes do."""
    clock, ended = Clock(), []
    process = Process(Cores(clock, 8))
    for _ in range(3):
        process.hold(1.0, lambda: ended.append(clock.now))
    clock.run()
    assert ended == [1.0, 2.0, 3.0]
    ended.clear()
    cores = Cores(clock, 1)
    for _ in range(3):
        Process(cores).hold(1.0, lambda: ended.append(clock.now))
    clock.run()
    assert ended == [4.0, 5.0, 6.0]


def test_who_waits_takes_as_long_as_was_measured_in_a_crowd() -> None:
    """Work that waited for its process takes `crowded` times as long, and only that."""
    clock, ended = Clock(), []
    process = Process(Cores(clock, 8), crowded=1.5)
    for _ in range(2):
        process.hold(2.0, lambda: ended.append(clock.now))
    clock.run()
    assert ended == [2.0, 5.0]


def test_work_takes_longer_on_a_machine_that_rests() -> None:
    """Between measured shares it is a straight line, and beyond them it stays."""
    cold = Cold(((0.2, 3.0), (0.3, 1.5), (0.5, 1.0)))
    shares = (0.0, 0.2, 0.25, 0.3, 0.4, 0.5, 0.9)
    assert [cold.at(share) for share in shares] == pytest.approx([3.0, 3.0, 2.25, 1.5, 1.25, 1.0, 1.0])
    assert (Cold().at(0.0), Cold(((0.3, 2.0),)).at(0.0), Cold(((0.3, 2.0),)).at(1.0)) == (1.0, 2.0, 2.0)
    # One core, work of a hundredth of the window: at the first it has rested, in the end it never does.
    clock, ended = Clock(), [0.0]
    process = Process(Cores(clock, 1), cold=Cold(((0.1, 3.0), (0.9, 1.0))))

    def again() -> None:
        ended.append(clock.now)
        if len(ended) < 1_000:
            process.hold(WINDOW / 100, again)

    process.hold(WINDOW / 100, again)
    clock.run()
    took = [later - earlier for earlier, later in itertools.pairwise(ended)]
    assert took[0] == pytest.approx(3 * WINDOW / 100)
    assert took[-1] == pytest.approx(WINDOW / 100)
    assert sorted(took, reverse=True) == pytest.approx(took)
    clock.run(clock.now + 10 * WINDOW)
    begun = clock.now
    process.hold(WINDOW / 100, lambda: ended.append(clock.now))
    clock.run()
    assert ended[-1] - begun == pytest.approx(3 * WINDOW / 100), "it has rested"


def test_background_work_takes_what_is_left() -> None:
    """Beside background work that would fill the core, a query waits for a slice at most, and the core never rests."""
    alone, beside = (one_server(1, 10.0, constant(0.01), 300, behind=share) for share in (0.0, 2.0))
    assert max(b - a for a, b in zip(alone.seconds, beside.seconds, strict=True)) < 3 * SLICE
    assert min(beside.seconds) == pytest.approx(0.01, abs=1e-3)
    assert beside.used["server"] == pytest.approx(1.0, abs=0.02)


def test_a_late_replica_is_asked_twice() -> None:
    """Where one of twenty times is long, the second replica answers, for one request in twenty at most."""
    slow: Draw = lambda rng: 1.0 if rng.random() < 0.03 else 0.001  # noqa: E731
    alone, _ = fanned_out(1, lambda *_: slow, 5.0, 6_000)
    helped, gateway = fanned_out(1, lambda *_: slow, 5.0, 6_000, replicas=2)
    assert quantile(alone.seconds, 0.98) == pytest.approx(1.0, rel=0.01)
    assert quantile(helped.seconds, 0.98) < 0.3
    assert 100 < gateway.hedged <= HEDGES_SAVED + HEDGE_SHARE * 6_000


def test_second_requests_are_rationed() -> None:
    """Where everything is late, at most one in twenty is asked twice."""
    outcome, gateway = fanned_out(1, lambda *_: lambda rng: rng.choice((0.01, 10.0)), 0.5, 2_000, replicas=2)
    assert outcome.answered == 2_000
    assert HEDGES_SAVED <= gateway.hedged <= HEDGES_SAVED + HEDGE_SHARE * 2_000


def test_the_less_loaded_replica_is_asked() -> None:
    """Of two replicas at one core each, both are asked, and waits are far less than at one."""
    clock = Clock()

    def replica(name: str) -> ServerModel:
        return ServerModel(clock, Machine(clock, name, 1), NOTHING, constant(0.02))

    machine = Machine(clock, "gateway", 1)
    gateway = ClusterModel(clock, machine, NOTHING, [[replica("a"), replica("b")]])
    seconds = simulated(clock, [machine], NOBODY, gateway.ask, Load(45.0, 5_000, seed=1)).seconds
    assert mean(seconds) - 0.02 < 0.2 * (mean(one_server(1, 0.9, constant(0.02 / 0.02)).seconds) - 1.0) * 0.02


def test_the_way_and_the_handling_add_up() -> None:
    """A lone query takes the client, the way, the gateway with its part of each shard, the hop, a node and its engine."""
    clock = Clock()
    nodes = [ServerModel(clock, Machine(clock, name, 1), Handling(0.1), constant(0.2), wire=0.01) for name in "ab"]
    machine = Machine(clock, "gateway", 1)
    gateway = ClusterModel(clock, machine, Handling(0.4, each_shard=0.06), [[node] for node in nodes])
    seconds = simulated(clock, [machine], Client(0.02, 0.04), gateway.ask, Load(1e-3, 10)).seconds
    assert seconds == pytest.approx([0.02 + 0.04 + 0.4 + 2 * 0.06 + 0.01 + 0.1 + 0.2] * 9)


def test_draws_have_the_quantiles_they_are_made_of() -> None:
    """A draw is between its quantiles as often as they say; what does not ascend is refused."""
    rng, draw = random.Random(0), of_quantiles([1.0, 2.0, 10.0])
    drawn = [draw(rng) for _ in range(20_000)]
    assert quantile(drawn, 0.5) == pytest.approx(2.0, abs=0.1)
    assert quantile(drawn, 0.75) == pytest.approx(6.0, abs=0.2)
    assert 1.0 <= min(drawn) <= max(drawn) <= 10.0
    for wrong in ([1.0], [2.0, 1.0]):
        with pytest.raises(ValueError, match="ascending"):
            of_quantiles(wrong)


def test_time_does_not_go_back() -> None:
    """Events in the past, and machines without cores, are refused."""
    with pytest.raises(ValueError, match=r"an event -1\.0 s from now"):
        Clock().later(-1.0, lambda: None)
    with pytest.raises(ValueError, match="at least one core, not 0"):
        Cores(Clock(), 0)
