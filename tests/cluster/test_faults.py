"""A few faults under load at each run of the suite, and the checker itself; `make torture-cluster` has hours of them."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

from faults import campaign as campaign_module
from faults import checking, kinds, load
from faults.campaign import Plan, campaign
from faults.checking import Items
from faults.controls import CONTROLS
from faults.kinds import KINDS
from faults.load import Clock, Reader, Times, Writer, vector_of
from faults.plants import PLANTS
from faults.running import Cluster
from kinbin_cluster.shards import shard_of

FEW = ("the leader killed", "a node killed", "a gateway killed", "a node cut from the servers", "a gateway cut from the servers")
"""Faults that take no ten seconds, of which a run does two, and then kills everything at once."""


@pytest.mark.slow
@pytest.mark.durability
@pytest.mark.timeout(400)
def test_faults_under_load_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is killed and cut off: what was acknowledged is there, once, replicas are the same, and writes and reads go on after it."""
    monkeypatch.setattr(kinds, "CUT_SECONDS", 3.0)
    monkeypatch.setattr(campaign_module, "CALM_SECONDS", 0.6)
    monkeypatch.setattr(campaign_module, "SETTINGS", campaign_module.SETTINGS | {"KINBIN_CLUSTER_BEAT_SECONDS": "0.1"})
    # Writes are under way most of the time still, and a machine that does other work keeps up.
    monkeypatch.setattr(load, "_PAUSE_SECONDS", 0.08)
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    named = {kind.name: kind for kind in KINDS}
    some = [named[name] for name in random.Random(seed).sample(FEW, 2)]
    report = campaign(tmp_path / "cluster", Plan(seed, 3, [*some, named["everything killed"]], gaps=False))
    assert report.wrong == [], report.table()
    assert report.acknowledged > 0


@pytest.mark.parametrize("kind", [Clock, Reader, Writer])
def test_threads_of_the_load_keep_what_threads_do_themselves(kind: type[threading.Thread]) -> None:
    """No method has the name of one that a thread calls by itself: `_delete`, for one, is called at its end, behind the closed client."""
    theirs = {name for name in vars(threading.Thread) if not name.startswith("__")}
    assert set(vars(kind)) & theirs == {"run"}


def test_each_class_has_a_bug_to_find() -> None:
    """No class of faults is without a planted bug that it has to show, and no bug is planted for nothing."""
    assert set(CONTROLS) == {kind.name for kind in KINDS}
    assert set(CONTROLS.values()) | {"does-not-close"} == set(PLANTS)


# ------------------------------------------------------------------------------------------- the checker


def items_of(states: dict[str, int], shard: int) -> Items:
    """What a sound replica of a shard of two has."""
    return {one: ({"v": v}, tuple(vector_of(one, v)), 1) for one, v in states.items() if shard_of(one, 2) == shard}


STATES = {f"i{number}": number + 1 for number in range(8)}
ALLOWED = {one: [{"v": v}] for one, v in STATES.items()} | {"gone": [None], "open": [None, {"v": 3}]}
FIRST = next(one for one in STATES if shard_of(one, 2) == 0)


def broken(how: str, copy: int, shard: int) -> Items:
    """A replica's items, with something wrong in one of them."""
    items = items_of(STATES, shard)
    if shard or (how == "differs" and not copy):
        return items
    payload, vector, version = items[FIRST]
    changes: dict[str, Items] = {
        "lost": {one: item for one, item in items.items() if one != FIRST},
        "older": items | {FIRST: ({"v": 77}, tuple(vector_of(FIRST, 77)), version)},
        "vector": items | {FIRST: (payload, (*vector[1:], 0.5), version)},
        "differs": items | {FIRST: (payload, vector, version + 1)},
        "invented": items | {next(f"new-{n}" for n in range(99) if shard_of(f"new-{n}", 2) == 0): items[FIRST]},
        "elsewhere": items | {next(one for one in STATES if shard_of(one, 2) == 1): items[FIRST]},
    }
    return changes[how] if how else items


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("", ""), ("lost", "is None, and was acknowledged"), ("older", "and was acknowledged"), ("vector", "another vector"),
        ("differs", "differ in 1 items"), ("invented", "never written"), ("elsewhere", "belong elsewhere"),
    ],
)  # fmt: skip
def test_the_checker_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, how: str, told: str) -> None:
    """Items lost, old, damaged, different in two replicas, invented or in a wrong shard are found; sound ones are not blamed."""

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    copies = [Named("0"), Named("1")]
    monkeypatch.setattr(checking.Spread, "holders", lambda spread, shard: copies)
    monkeypatch.setattr(checking, "contents", lambda cluster, node, uid, shard: broken(how, int(node.name), shard))
    nobody: Cluster = None  # type: ignore[assignment]  # what is read of it is set above
    found = checking.checked(nobody, "uid", 2, ALLOWED)  # type: ignore[arg-type]  # dictionaries of numbers are states
    assert bool(found) == bool(told)
    assert told in " ".join(found)


def test_gaps_count_to_the_ends() -> None:
    """The longest time without a success counts from the beginning, between any two, and to the end."""
    times = Times([1.0, 2.0, 5.0, 6.0])
    assert times.longest_gap(0.0, 7.0) == 3.0
    assert times.longest_gap(-4.0, 7.0) == 5.0
    assert times.longest_gap(4.0, 12.0) == 6.0
