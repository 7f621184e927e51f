"""Faults one after the other under load, and what is found after every few of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from faults.checking import checked, settled
from faults.kinds import KINDS, Kind, heal
from faults.load import DIM, Load
from faults.running import Cluster, until

__all__ = ["READ_GAP", "WRITE_GAP", "Plan", "Report", "campaign", "made"]

WRITE_GAP, READ_GAP = 10.0, 1.0
"""Seconds: what a cluster promises between two acknowledged writes, and between two answers where a replica of each shard lives."""
SHARDS, REPLICAS = 3, 2
_CALM_SECONDS = 3.0


@dataclass
class Happened:
    """One fault."""

    name: str
    write_gap: float
    read_gap: float
    lives: bool


@dataclass
class Report:
    """What a campaign found."""

    seed: int
    happened: list[Happened] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    acknowledged: int = 0
    failures: list[str] = field(default_factory=list)

    def table(self) -> str:
        """For people."""
        lines = [f"seed {self.seed}: {len(self.happened)} faults, {self.acknowledged} writes acknowledged, {len(self.wrong)} wrong"]
        for name in dict.fromkeys(one.name for one in self.happened):
            some = [one for one in self.happened if one.name == name]
            writes, reads = sorted(one.write_gap for one in some), sorted(one.read_gap for one in some)
            lines.append(
                f"  {name}: {len(some)} times, write gap {_middle(writes):.1f} s, at most {writes[-1]:.1f}; "
                f"read gap {_middle(reads):.2f} s, at most {reads[-1]:.2f}{'' if some[0].lives else ' (since everything ran again)'}"
            )
        lines += [f"  WRONG: {one}" for one in self.wrong[:20]]
        lines.append(f"  refused meanwhile: {'; '.join(self.failures)}")
        return "\n".join(lines)


def _middle(values: Sequence[float]) -> float:
    return values[len(values) // 2]


def made(cluster: Cluster, seconds: float = 60.0) -> str:
    """Create the collection; its uid."""
    path = f"{cluster.gateways[0].address}/v1/collections/faults"
    asked = {"dim": DIM, "cluster": {"shards": SHARDS, "replicas": REPLICAS}}
    until(lambda: httpx.put(path, json=asked, timeout=60).is_success, seconds, "no collection can be made")
    # The answer to a write has a token, which begins with the uid.
    from kinbin_cluster.gateway.tokens import Token

    tokens: list[str] = []

    def written() -> bool:
        response = httpx.post(f"{path}/delete", json={"ids": ["nobody"]}, timeout=60)
        tokens.extend([response.json()["token"]] if response.is_success else [])
        return response.is_success

    until(written, seconds, "no write goes through")
    return Token.read(tokens[0]).uid


@dataclass(frozen=True)
class Plan:
    """What a campaign does."""

    seed: int
    count: int
    kinds: Sequence[Kind] = KINDS
    """In turn, in a random order."""
    plant: str = ""
    """A bug to be planted in all programs."""
    check_every: int = 8
    seconds: float = 1e9
    """Begin no other fault after so long."""
    gaps: bool = True
    """Whether gaps that are longer than promised are wrong."""


def campaign(folder: Path, plan: Plan, told: Callable[[str], object] = bool) -> Report:
    """Do faults to a new cluster below a folder. told: each of them, as it is over."""
    rng = random.Random(plan.seed)
    report = Report(plan.seed)
    began = time.monotonic()
    more = {"KINBIN_CLUSTER_SNAPSHOT_MESSAGES": "400", "KINBIN_LOG_LEVEL": "info"}
    turns = -(-plan.count // len(plan.kinds))
    order = [kind for _ in range(turns) for kind in rng.sample(list(plan.kinds), len(plan.kinds))][: plan.count]
    with Cluster(folder, plant=plan.plant, more=more) as cluster:
        uid = made(cluster)
        gateways = [gateway.address for gateway in cluster.gateways]
        states: dict[str, list[dict[str, object] | None]] = {}
        for start in range(0, len(order), plan.check_every):
            load = Load(gateways, plan.seed * 1_000 + start, f"r{start}")
            load.start()
            time.sleep(_CALM_SECONDS)
            for kind in order[start : start + plan.check_every]:
                if time.monotonic() - began > plan.seconds:
                    break
                report.happened.append(_one(cluster, kind, f"KB-{uid}-{rng.randrange(SHARDS)}", rng, load))
                told(f"{time.monotonic() - began:.0f} s: {report.happened[-1]}")
            load.stop()
            report.acknowledged += load.acknowledged
            report.failures.append(load.counted())
            states |= load.states()
            report.wrong += load.violations
            report.wrong += settled(cluster, uid, SHARDS, gateways, REPLICAS) or checked(cluster, uid, SHARDS, states)
            told(
                f"{time.monotonic() - began:.0f} s: checked, {len(report.wrong)} wrong, {load.acknowledged} acknowledged, {load.counted()}"
            )
            if report.wrong or time.monotonic() - began > plan.seconds:
                break
    if plan.gaps:
        report.wrong += [f"{one.name}: no write for {one.write_gap:.1f} s" for one in report.happened if one.write_gap > WRITE_GAP]
        report.wrong += [f"{one.name}: no answer for {one.read_gap:.2f} s" for one in report.happened if one.read_gap > READ_GAP]
    return report


def _one(cluster: Cluster, kind: Kind, stream: str, rng: random.Random, load: Load) -> Happened:
    """One fault, and some calm after it: the gaps count until then."""
    since = load.clock.now
    kind.happen(cluster, stream, rng)
    heal(cluster)
    if not kind.lives:
        since = load.clock.now
        time.sleep(2 * _CALM_SECONDS)
    time.sleep(_CALM_SECONDS)
    until = load.clock.now
    return Happened(kind.name, load.wrote.longest_gap(since, until), load.read.longest_gap(since, until), kind.lives)
