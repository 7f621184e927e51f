from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_cluster.commands import compared_line, digests_at_one
from kinbin_cluster.control import _judged
from kinbin_cluster.digests import divergent, is_judged
from kinbin_cluster.moves import View, nowhere, settled
from kinbin_cluster.picture import Collection, Node, Picture, Shard

ALL = frozenset("abcde")


def first_of(names: str) -> Callable[[tuple[str, ...]], str | None]:
    """Picks the first of these that is not there yet."""
    return lambda held: next((name for name in names if name not in held), None)


def test_nothing_is_done_where_all_is_well() -> None:
    """A shard whose replicas live stays as it is, also when one is away for a short time: only another holds it then."""
    shard = Shard(("a", "b"), holder="a")
    assert settled(shard, View(2, ALL, another=first_of("cde"))) == shard
    away = settled(shard, View(2, ALL - {"a"}, applied={"b": 7}, another=first_of("cde")))
    assert away == Shard(("a", "b"), holder="b")


@pytest.mark.parametrize("why", ["lost", "drained", "moved"])
def test_replica_is_replaced_before_it_goes(why: str) -> None:
    """A replica that is lost, drained or moved is replaced: it answers until another one is live, and then keeps its copy for a while."""
    shard = Shard(("a", "b"), ("c",), ("b",), "b") if why == "moved" else Shard(("a", "b"), holder="b")
    lost = {
        "lost": View(2, ALL - {"b"}, gone=frozenset("b"), another=first_of("cde"), applied={"a": 5}),
        "drained": View(2, ALL, draining=frozenset("b"), another=first_of("cde"), applied={"a": 5, "b": 5}),
        "moved": View(2, ALL, another=first_of("cde"), applied={"a": 5, "b": 5}),
    }[why]
    coming = settled(shard, lost)
    assert (coming.replicas, coming.joining, coming.holder) == (("a", "b"), ("c",), "a")
    assert settled(coming, lost) == coming
    come = settled(coming, View(2, lost.live, lost.gone, lost.draining, {**lost.applied, "c": 5}))
    assert (come.replicas, come.joining) == (("a", "c"), ())
    assert come.leaving == (() if why == "lost" else ("b",))
    assert settled(come, View(2, lost.live, lost.gone, lost.draining, {"a": 5, "c": 5}, frozenset("b"))).leaving == ()


def test_who_comes_back_in_time_stays() -> None:
    """A node that comes back while it is being replaced is kept, and who was to come need not; who has come goes again."""
    coming = Shard(("a", "b"), ("c",), (), "a")
    assert settled(coming, View(2, ALL, applied={"a": 1, "b": 1})) == Shard(("a", "b"), (), (), "a")
    back = settled(Shard(("a", "b"), ("c",), (), "a"), View(2, ALL, applied={"a": 1, "b": 1, "c": 1}))
    assert (back.replicas, back.leaving) == (("a", "b"), ("c",))


def test_without_another_node_all_stays() -> None:
    """Where no other node can take a shard, who is to go goes on answering."""
    shard = Shard(("a", "b"), holder="a")
    stuck = settled(shard, View(2, ALL, draining=frozenset("b")))
    assert (stuck.replicas, stuck.leaving, stuck.holder) == (("a", "b"), ("b",), "a")
    assert settled(shard, View(2, frozenset("a"), gone=frozenset("b"))).replicas == ("a", "b")


NAMES = st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map(tuple)


SHARDS = st.builds(Shard, NAMES.filter(bool), NAMES, NAMES, st.sampled_from("abcde"))
NODES = st.tuples(*[st.frozensets(st.sampled_from("abcde"))] * 5)


@given(SHARDS, st.integers(1, 3), NODES)
def test_steps_are_safe_and_end(shard: Shard, target: int, nodes: tuple[frozenset[str], ...]) -> None:
    """Whatever a record is, a step never leaves it without replicas, takes none out unless enough others stay, and soon nothing changes."""
    live, gone, draining, ready, released = nodes
    gone -= live
    ready &= live
    view = View(target, live, gone, draining, dict.fromkeys(ready, 1), released, first_of("".join(sorted(live - draining - gone))))
    for _ in range(8):
        after = settled(shard, view)
        assert after.replicas
        assert len(set(after.replicas)) == len(after.replicas)
        assert set(after.replicas) <= set(shard.replicas) | ready
        if not set(shard.replicas) <= set(after.replicas):
            assert len([name for name in after.replicas if name not in after.leaving and name not in gone]) >= target
        assert after.holder in after.replicas
        if after == shard:
            return
        shard = after
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("holder", "digests", "wrong"),
    [
        ("a", {"a": "1", "b": "1", "c": "1"}, []),
        ("a", {"a": "1"}, []),
        ("a", {}, []),
        ("a", {"a": "1", "b": "2"}, ["b"]),
        ("b", {"a": "1", "b": "2"}, ["a"]),
        ("a", {"a": "1", "b": "2", "c": "2"}, ["a"]),
        ("a", {"a": "1", "b": "2", "c": "3"}, ["b", "c"]),
        (None, {"a": "1", "b": "2"}, ["b"]),
    ],
)
def test_who_differs_is_found(holder: str | None, digests: dict[str, str], wrong: list[str]) -> None:
    """Copies that differ from most are named; without a majority those that differ from the holder's."""
    assert divergent(holder, digests) == wrong


@pytest.mark.parametrize(
    ("digests", "live", "replicas", "judged"),
    [
        ({"a": "1", "b": "2"}, "ab", 2, True),
        # A bad holder, and the first good one to tell: the third decides.
        ({"a": "1", "b": "2"}, "abc", 3, False),
        ({"a": "1", "b": "2", "c": "2"}, "abc", 3, True),
        ({"a": "1", "b": "1"}, "abc", 3, True),
        ({"a": "1", "b": "2"}, "ab", 3, True),
        ({"a": "1"}, "ab", 2, False),
        ({}, "ab", 2, False),
    ],
)
def test_copies_are_judged_when_enough_have_told(digests: dict[str, str], live: str, replicas: int, judged: bool) -> None:
    """All that live, or a majority of all that there are to be: who tells first is no majority."""
    assert is_judged(digests, live, replicas) == judged


def test_a_holder_that_is_wrong_makes_no_more_snapshots() -> None:
    """A right copy is the holder from then on; and the holder is asked for a snapshot at once: the wrong one is made anew from it."""
    shard = Shard(("a", "b"), holder="a", snapshot_asked=5)
    after = _judged(shard, ["a"], "b", 70)
    assert (after.rebuild, after.holder, after.snapshot_asked) == (("a",), "b", 70)
    same = _judged(shard, ["b"], "a", 70)
    assert (same.rebuild, same.holder, same.snapshot_asked) == (("b",), "a", 70)


@pytest.mark.parametrize(("dead", "draining", "shard", "stuck"), [
    ("", "", Shard(("a", "b")), False),
    ("", "a", Shard(("a", "b")), False),
    ("c", "a", Shard(("a", "b")), True),
    ("c", "", Shard(("a", "b")), False),
    ("", "ac", Shard(("a", "b")), True),
    ("", "a", Shard(("a", "b"), ("c",)), False),
    ("c", "", Shard(("a", "b"), (), ("a",)), True),
])  # fmt: skip
def test_shards_that_nobody_can_take_are_told(dead: str, draining: str, shard: Shard, stuck: bool) -> None:
    """A replica is to leave, and no node that lives, takes shards and has none of it is there: only then it has nowhere to go."""
    picture = Picture(60.0)
    picture.collections["things"] = Collection("things", "u", 1, 2, {}, 0.0)
    picture.shards["u", 0] = shard
    for name in "abc":
        picture.nodes[name] = Node(name, f"http://{name}", draining=name in draining)
        if name not in dead:
            picture.hear(name, b"{}")
    assert nowhere(picture, ("u", 0)) is stuck


def test_one_replica_alone_is_not_told_as_alike() -> None:
    """What `check` says of a shard names the replicas that tell nothing, and calls nothing alike that was compared with nothing."""
    found = {"shard": 0, "digests": {"a": "1"}, "divergent": [], "silent": ["b"]}
    assert compared_line(found) == "shard 0: 1 replica told; nothing from b"
    assert compared_line({**found, "digests": {"a": "1", "b": "1"}, "silent": []}) == "shard 0: 2 replicas alike"
    assert compared_line({**found, "digests": {}, "silent": ["a", "b"]}) == "shard 0: no replica told; nothing from a, b"


def test_digests_are_compared_at_a_later_mark_as_well() -> None:
    """Marks that others put meanwhile hide nothing: replicas are compared where the most of them have told, never at two places."""
    picture = Picture(60.0)
    picture.shards["u", 0] = Shard(("a", "b", "c"))

    def tell(**at: int) -> dict[str, str]:
        for name, sequence in at.items():
            shard = {"applied": 9, "state": "live", "digest": [sequence, f"{name}{sequence}"]}
            picture.hear(name, orjson.dumps({"shards": {"u.0": shard}}))
        return digests_at_one(picture, ("u", 0), 5)

    assert tell(a=4) == {}
    assert tell(a=5, b=5) == {"a": "a5", "b": "b5"}
    assert tell(c=7) == {"a": "a5", "b": "b5"}
    assert tell(b=7) == {"b": "b7", "c": "c7"}
    assert tell(a=7) == {"a": "a7", "b": "b7", "c": "c7"}
