"""Shards that move, and collections that are cut into other shards, under load. The command that cuts is killed at each of its steps."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.campaign import REPLICAS, SETTINGS, SHARDS, made
from faults.checking import checked, settled
from faults.load import Load
from faults.orders import leads_to, places_of, settings_of, told_wrong
from faults.running import Cluster
from kinbin_cluster import commands

__all__ = ["Moves", "Reshards", "moves", "reshards"]

STEPS = ("is cut from", "round 1:", "writes pause", "the last round", "items are alike", "what it was")
"""What the command tells at each of its steps: it is killed as it says so. The last one: after its end."""
_CALM_SECONDS, _COMMAND_SECONDS = 2.0, 120.0
Told = Callable[[str], object]


@dataclass
class Moves:
    """What was seen while shards moved."""

    seed: int
    write_gaps: list[float] = field(default_factory=list)
    read_gaps: list[float] = field(default_factory=list)
    failed_reads: int = 0
    acknowledged: int = 0
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For people."""
        gaps = f"write gap at most {max(self.write_gaps, default=0):.2f} s, read gap at most {max(self.read_gaps, default=0):.2f} s"
        return (
            f"seed {self.seed}: {len(self.write_gaps)} moves, {self.failed_reads} reads failed, {gaps}, {self.acknowledged} writes"
            f" acknowledged, {len(self.wrong)} wrong {self.wrong[:3] or ''}"
        )


def moves(folder: Path, seed: int, count: int, told: Told = bool) -> Moves:
    """Move one replica after the other under load, and hold everything against what was acknowledged."""
    rng, report = random.Random(seed), Moves(seed)
    with Cluster(folder, more=SETTINGS) as cluster:
        uid = made(cluster)
        load = Load([gateway.address for gateway in cluster.gateways], seed, "m")
        load.start()
        for number in range(count):
            shard = rng.randrange(SHARDS)
            held = places_of(cluster, uid)[shard]
            source, target = rng.choice(held.replicas), next(node.name for node in cluster.nodes if node.name not in held.nodes)
            time.sleep(_CALM_SECONDS)
            since = load.clock.now
            asyncio.run(commands.move(settings_of(cluster), "faults", shard, (source, target), bool))
            time.sleep(_CALM_SECONDS)
            report.write_gaps.append(load.wrote.longest_gap(since, load.clock.now))
            report.read_gaps.append(load.read.longest_gap(since, load.clock.now))
            told(f"move {number}: write gap {report.write_gaps[-1]:.2f} s, read gap {report.read_gaps[-1]:.2f} s, {load.counted()}")
        report.failed_reads = load.failed_reads()
        load.stop()
        report.acknowledged = load.acknowledged
        report.wrong += load.violations + _held(cluster, uid, SHARDS, load)
    return report


def _held(cluster: Cluster, uid: str, shards: int, load: Load) -> list[str]:
    """What is wrong with a collection after a load."""
    gateways = [gateway.address for gateway in cluster.gateways]
    wrong = settled(cluster, uid, shards, gateways, REPLICAS) or checked(cluster, uid, shards, load.states())
    return wrong + told_wrong(cluster, uid)


# ------------------------------------------------------------------------------------------- other shards


@dataclass
class Reshards:
    """What was seen while a collection was cut into other shards."""

    seed: int
    killed: dict[str, int] = field(default_factory=dict)
    """How often, by step."""
    done: int = 0
    cancelled: int = 0
    acknowledged: int = 0
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For people."""
        killed = ", ".join(f'"{step}" {count}' for step, count in self.killed.items())
        return (
            f"seed {self.seed}: {self.done} done, {self.cancelled} given up, killed at {killed}; {self.acknowledged} writes"
            f" acknowledged, {len(self.wrong)} wrong {self.wrong[:3] or ''}"
        )


def reshards(folder: Path, seed: int, count: int, told: Told = bool, *, plant: str = "") -> Reshards:
    """Cut a collection into other shards under load, again and again; kill the command, and have another one end it or give it up.

    plant: a bug of the command (`faults.plants`).
    """
    rng, report = random.Random(seed), Reshards(seed)
    with Cluster(folder, more=SETTINGS) as cluster:
        made(cluster)
        # Keys of writes are not taken over, so that an insert that comes again would be refused.
        load = Load([gateway.address for gateway in cluster.gateways], seed, "s", inserts=False)
        load.start()
        shards = SHARDS
        for number in range(count):
            time.sleep(_CALM_SECONDS)
            step = STEPS[(seed + number) % len(STEPS)]
            wanted = rng.choice([one for one in range(2, 7) if one != shards])
            met, ended = _command(cluster, ["--shards", str(wanted), "--drop-old"], step, rng.choice([0.0, 0.01, 0.05]), plant)
            if met and ended != 0:
                report.killed[step] = report.killed.get(step, 0) + 1
                shards = _ended(cluster, wanted, rng, report, plant)
            elif ended == 0:
                report.done, shards = report.done + 1, wanted
            told(f"{number}: {report.line()}")
        load.stop()
        report.acknowledged = load.acknowledged
        uid, shards = leads_to(cluster)
        report.wrong += load.violations + _held(cluster, uid, shards, load)
    return report


def _ended(cluster: Cluster, wanted: int, rng: random.Random, report: Reshards, plant: str) -> int:
    """Bring to its end what was killed, or give it up where that is possible. Returns the number of shards then."""
    if rng.random() < 0.4:
        _, code = _command(cluster, ["--cancel"], "", 0.0, plant)
        if code == 0:
            report.cancelled += 1
            return leads_to(cluster)[1]
    _, code = _command(cluster, ["--shards", str(wanted), "--drop-old"], "", 0.0, plant)
    if code:
        report.wrong.append(f"a second run ended with {code}: {(cluster.folder / 'reshard.log').read_text()[-400:]}")
    else:
        report.done += 1
    return leads_to(cluster)[1]


def _command(cluster: Cluster, arguments: list[str], step: str, seconds: float, plant: str) -> tuple[bool, int]:
    """Run the command, and kill it so long after it told of a step. Returns whether it told of it, and its exit code."""
    program = ["-m", "faults.plants", plant, "command"] if plant else ["-c", "from kinbin_service.cli import app; app()"]
    environment = {
        **os.environ, "KINBIN_CLUSTER_NATS": cluster.nats.addresses, "KINBIN_CLUSTER_NATS_REPLICAS": str(cluster.nats.replicas),
        "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    command = [sys.executable, *program, "cluster", "reshard", "faults", *arguments]
    with (cluster.folder / "reshard.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True, start_new_session=True)
        met = False
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            log.flush()
            if step and step in line:
                met = True
                time.sleep(seconds)
                process.kill()
                break
        process.stdout.close()
        return met, process.wait(_COMMAND_SECONDS)
