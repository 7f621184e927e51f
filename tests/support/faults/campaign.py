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
from faults.orders import told_wrong
from faults.running import Cluster, until

__all__ = ["READ_GAP", "SETTINGS", "WRITE_GAP", "Plan", "Report", "campaign", "made"]

WRITE_GAP, READ_GAP = 10.0, 1.0
"""Seconds: what a cluster promises between two acknowledged writes, and between two answers where a replica of each shard lives."""
SHARDS, REPLICAS = 3, 2
SETTINGS = {"KINBIN_CLUSTER_SNAPSHOT_MESSAGES": "400", "KINBIN_CLUSTER_DIGEST_SECONDS": "5", "KINBIN_LOG_LEVEL": "info"}
"""Logs are cut, and replicas compared, many times in a campaign."""
CALM_SECONDS = 3.0


@dataclass
class Happened:
    """One fault."""

    name: str
    write_gap: float
    read_gap: float
    lives: bool
    missed: str = ""
    """Why the moment that it is meant for was not met."""


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
                f"{_missed(some)}"
            )
        lines += [f"  WRONG: {one}" for one in self.wrong[:20]]
        lines.append(f"  refused meanwhile: {'; '.join(self.failures)}")
        return "\n".join(lines)


def _missed(some: Sequence[Happened]) -> str:
    missed = [one for one in some if one.missed]
    return f"; {len(missed)} of them missed their moment ({missed[0].missed})" if missed else ""


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
    turns = -(-plan.count // len(plan.kinds))
    order = [kind for _ in range(turns) for kind in rng.sample(list(plan.kinds), len(plan.kinds))][: plan.count]
    with Cluster(folder, plant=plan.plant, more=SETTINGS) as cluster:
        uid = made(cluster)
        gateways = [gateway.address for gateway in cluster.gateways]
        states: dict[str, list[dict[str, object] | None]] = {}
        for start in range(0, len(order), plan.check_every):
            load = Load(gateways, plan.seed * 1_000 + start, f"r{start}")
            load.start()
            time.sleep(CALM_SECONDS)
            for kind in order[start : start + plan.check_every]:
                if time.monotonic() - began > plan.seconds:
                    break
                report.happened.append(_one(cluster, kind, f"KB-{uid}-{rng.randrange(SHARDS)}", rng, load))
                report.wrong += _too_long(report.happened[-1]) if plan.gaps else []
                told(f"{time.monotonic() - began:.0f} s: {report.happened[-1]}")
            load.stop()
            report.acknowledged += load.acknowledged
            report.failures.append(load.counted())
            states |= load.states()
            wrong = load.violations
            wrong += settled(cluster, uid, SHARDS, gateways, REPLICAS) or checked(cluster, uid, SHARDS, states)
            wrong += told_wrong(cluster, uid)
            report.wrong += wrong
            told(
                f"{time.monotonic() - began:.0f} s: checked, {len(report.wrong)} wrong, {load.acknowledged} acknowledged, {load.counted()}"
            )
            if wrong or (plan.plant and report.wrong) or time.monotonic() - began > plan.seconds:
                break
    return report


def _too_long(one: Happened) -> list[str]:
    """The gaps of a fault that are longer than promised."""
    writes = [f"{one.name}: no write for {one.write_gap:.1f} s"] if one.write_gap > WRITE_GAP else []
    return writes + ([f"{one.name}: no answer for {one.read_gap:.2f} s"] if one.read_gap > READ_GAP else [])


def _one(cluster: Cluster, kind: Kind, stream: str, rng: random.Random, load: Load) -> Happened:
    """One fault, and some calm after it: the gaps count until then."""
    since = load.clock.now
    missed = kind.happen(cluster, stream, rng) or ""
    heal(cluster)
    if not kind.lives:
        since = load.clock.now
        time.sleep(2 * CALM_SECONDS)
    time.sleep(CALM_SECONDS)
    until = load.clock.now
    return Happened(kind.name, load.wrote.longest_gap(since, until), load.read.longest_gap(since, until), kind.lives, missed)
