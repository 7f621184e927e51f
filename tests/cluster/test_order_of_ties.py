"""Items with the same score are answered in the order of one server that took the same writes, whichever shards they lie in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinbin
from kinbin_cluster.applying import apply
from kinbin_cluster.gateway.cutting import Part, add_parts, edits_by_id, same_for_all
from kinbin_cluster.gateway.merging import joined_pages, merged, ties
from kinbin_cluster.message import Edit, decoded
from kinbin_cluster.rounds import Known, Round
from kinbin_cluster.shards import shards_of
from kinbin_cluster.verdicts import Verdicts
from kinbin_service.convert import answer as told_by_service
from linked import still

SCORES = (1.0, 2.0, 3.0)
IDS = [f"i{number}" for number in range(14)]
OPTIONS: dict[str, Any] = {"kernel": "minmax", "dim": 1 + len(IDS), "seed": 5}
QUERY = [2.0, *[0.0] * len(IDS)]
NAMES = (f"c{number}" for number in itertools.count())


def vector(identifier: str, score: float) -> list[float]:
    """A vector that no other id has, though its score is one of three."""
    out = [score, *[0.0] * len(IDS)]
    out[1 + IDS.index(identifier)] = 1.0
    return out


@dataclass
class Shard:
    """Two replicas of one shard; the second is behind, and applies in groups of its own."""

    replicas: list[Any]
    verdicts: list[Verdicts] = field(default_factory=lambda: [Verdicts({}), Verdicts({})])
    sequence: int = 0
    late: list[tuple[int, Any]] = field(default_factory=list)

    def hear(self, part: Part) -> dict[str, Any]:
        """Take the next entry of the log; returns the verdict."""
        self.sequence += 1
        entry = self.sequence, decoded(part.messages)
        self.late.append(entry)
        ((_, verdict),) = apply(self.replicas[0], [entry], self.verdicts[0])
        return verdict

    def catch_up(self) -> None:
        """Let the second replica apply all that it has not."""
        if self.late:
            apply(self.replicas[1], self.late, self.verdicts[1])
            self.late = []


class World:
    """A collection of shards, as gateways write to it and read it, and one collection with the same writes."""

    def __init__(self, database: kinbin.Database, shards: int) -> None:
        self.database = database
        self.counter = 0
        self.oracle: Any = self._created()
        self.shards = [self._shard() for _ in range(shards)]
        self.schema = kinbin.Schema(**OPTIONS)

    def _created(self) -> Any:
        return self.database.create_collection(next(NAMES), **OPTIONS)

    def _shard(self) -> Shard:
        return Shard([self._created() for _ in range(2)])

    def publish(self, parts: Sequence[Part], count: int = 0) -> list[dict[str, Any]]:
        """What a gateway does: number, publish, and have the counter pass by what the shards made of it."""
        first, self.counter = self.counter, self.counter + count
        told = [self.shards[part.shard].hear(part.numbered(first) if count else part) for part in parts]
        self.counter = max([self.counter, *(one.get("done", {}).get("next_row", 0) for one in told)])
        return told

    def add(self, items: Sequence[tuple[str, float, Any]], **terms: Any) -> None:
        """Add to both. Terms that refuse some items are only those that decide item by item."""
        ids, vectors, payloads = [one for one, _, _ in items], [vector(one, score) for one, score, _ in items], [one[2] for one in items]
        checked = self.schema.check(ids, vectors, payloads, **terms)
        self.publish(add_parts(checked, len(self.shards), terms), len(ids))
        self.oracle.add(ids, vectors, payloads=payloads, **terms)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete from both."""
        self.publish(edits_by_id(Edit("delete", [one.encode() for one in ids]), len(self.shards)))
        self.oracle.delete(ids)

    def delete_matching(self, filter: Any) -> None:
        """Delete from both what a filter matches."""
        self.publish(same_for_all(Edit("delete_by_filter", filter=filter), len(self.shards)))
        self.oracle.delete(filter=filter)

    def patch(self, ids: Sequence[str], payload: bytes) -> None:
        """Change payloads in both."""
        keys = [one.encode() for one in ids]
        self.publish(edits_by_id(Edit("patch_payload", keys, [payload] * len(keys), positions=range(len(keys))), len(self.shards)))
        self.oracle.patch_payload(ids, [orjson.loads(payload)] * len(ids))

    def restore(self, number: int, folder: Path) -> None:
        """Make the second replica of a shard anew of a snapshot of the first."""
        shard, file = self.shards[number], folder / next(NAMES)
        with shard.replicas[0].pinned() as pinned:
            pinned.snapshot(file)
        self.database.drop_collection(shard.replicas[1].name)
        shard.replicas[1] = self.database.restore(file, next(NAMES))
        shard.late, shard.verdicts[1] = [], Verdicts({})

    def asked(self, replica: int, k: int, offset: int, **options: Any) -> list[tuple[str, float]]:
        """What a gateway answers that asks these replicas."""
        held = [shard.replicas[replica] for shard in self.shards]
        parts = []
        for collection in held:
            asked = kinbin.QueryOptions(k=k + offset, mode="exact", **options)
            parts.append(told_by_service(collection.query(QUERY, options=asked), asked))
        parts = [joined_pages([part]) for part in parts]
        ages: dict[str, int] = {}
        for collection, ids in zip(held, ties(parts, k + offset), strict=True):
            ages |= dict(zip(ids, collection.numbers_of(ids), strict=True))
        return [(one["id"], one["score"]) for one in merged(parts, k, offset, ages)["results"]]

    def see(self, k: int = 20, offset: int = 0, **options: Any) -> None:
        """Both replicas answer what the one collection answers, in its order."""
        for shard in self.shards:
            shard.catch_up()
        found = self.oracle.query(QUERY, k=k, offset=offset, mode="exact", **options)
        wanted = list(zip(found.ids, found.scores.tolist(), strict=True))
        assert self.asked(0, k, offset, **options) == wanted
        assert self.asked(1, k, offset, **options) == wanted

    def copied(self, new: World, pins: Sequence[Any], known: Sequence[Known], begun: Sequence[int]) -> tuple[list[Known], list[int]]:
        """One round into other shards; returns what the next one is told."""
        turn = Round(pins, known, begun)
        for edit in turn.edits():
            new.counter = max(new.counter, self.counter)
            new.publish(edits_by_id(edit, len(new.shards)), 0 if edit.first is None else len(edit.ids))
            self.counter = max(new.counter, self.counter)
        return turn.now, [pinned.next_row for pinned in pins]

    def reshard(self, new: World, between: Sequence[Any] = ()) -> None:
        """The same items in other shards, which are empty, copied in rounds; between them these writes are done to this one."""
        new.oracle = self.oracle
        known: list[Known] = [{} for _ in self.shards]
        begun: list[int] = []
        for write in [*between, None]:
            with ExitStack() as opened:
                pins = [opened.enter_context(shard.replicas[0].pinned()) for shard in self.shards]
                known, begun = self.copied(new, pins, known, begun)
            if write is not None:
                write(self)


class Worlds:
    """Worlds by their number of shards, kept from example to example."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = kinbin.open(folder / "data")
        self._made: dict[tuple[int, str], World] = {}

    def empty(self, shards: int, what: str = "") -> World:
        """One without items, whose rows are numbered on where they were."""
        if (shards, what) not in self._made:
            self._made[shards, what] = World(self.database, shards)
        world = self._made[shards, what]
        world.publish(edits_by_id(Edit("delete", [one.encode() for one in IDS]), shards))
        if not what:
            world.oracle.delete(IDS)
        return world


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """For all examples; nothing happens in the background."""
    with still():
        made = Worlds(tmp_path_factory.mktemp("ties"))
        try:
            yield made
        finally:
            made.database.close()


some_ids = st.lists(st.sampled_from(IDS), min_size=1, max_size=6, unique=True)
items = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from(SCORES), st.sampled_from([None, {"n": 1}, {"n": 2}])),
    min_size=1, max_size=7, unique_by=lambda one: one[0],
)  # fmt: skip
terms = st.sampled_from([{}, {"mode": "insert", "on_error": "skip"}, {"mode": "update", "on_error": "skip"}])
writes = st.one_of(
    st.tuples(st.just("add"), items, terms), st.tuples(st.just("add"), items, terms), st.tuples(st.just("delete"), some_ids),
    st.tuples(st.just("delete_matching"), st.sampled_from([{"n": 1}, {"p": 1}])), st.tuples(st.just("patch"), some_ids),
)  # fmt: skip


def do(world: World, write: Any) -> None:
    """One write; payloads only of items that are there."""
    if write[0] == "add":
        world.add(write[1], **write[2])
    elif write[0] == "patch":
        there = [one for one, row in zip(write[1], world.oracle.numbers_of(write[1]), strict=True) if row is not None]
        if there:
            world.patch(there, b'{"p":1}')
    else:
        getattr(world, write[0])(write[1])


@pytest.mark.slow
@settings(max_examples=10)
@given(data=st.data(), count=st.sampled_from([3, 5]))
def test_the_order_of_one_collection(worlds: Worlds, data: Any, count: int) -> None:
    """After random writes, merges and a restore, pages of every depth are those of one collection, from either replica."""
    world = worlds.empty(count)
    for write in data.draw(st.lists(writes, min_size=2, max_size=9)):
        do(world, write)
        if data.draw(st.integers(0, 5)) == 0:
            world.shards[data.draw(st.integers(0, count - 1))].replicas[0].compact()
        world.see(data.draw(st.integers(1, 9)), data.draw(st.integers(0, 6)))
    world.see(filter={"n": 1})
    world.see(min_score=0.5)
    world.restore(data.draw(st.integers(0, count - 1)), worlds.folder)
    world.see()
    world.add([(one, 2.0, None) for one in data.draw(some_ids)])
    world.see()


@pytest.mark.slow
@settings(max_examples=10)
@given(data=st.data(), counts=st.sampled_from([(3, 5), (5, 3), (3, 1)]))
def test_the_order_is_kept_by_other_shards(worlds: Worlds, data: Any, counts: tuple[int, int]) -> None:
    """Copied into other shards while it is written to, a collection has the order of one that all of it was written to."""
    world, new = worlds.empty(counts[0]), worlds.empty(counts[1], "new")
    for write in data.draw(st.lists(writes, min_size=1, max_size=6)):
        do(world, write)
    between = data.draw(st.lists(writes, max_size=4))
    world.reshard(new, [lambda old, write=write: do(old, write) for write in between])
    new.see()
    new.add([(one, 2.0, None) for one in data.draw(some_ids)])
    new.see()


def test_a_row_that_is_found_late_is_put_in_its_place(worlds: Worlds) -> None:
    """Of two items that come while the shards are pinned one after the other, the younger may be copied by a round before the older."""
    world, new = worlds.empty(3), worlds.empty(5, "late")
    new.oracle = world.oracle
    homes = shards_of([one.encode() for one in IDS], 3).tolist()
    (first, older), (other, younger) = ([one for one, home in zip(IDS, homes, strict=True) if home == shard][:2] for shard in (0, 1))
    world.add([(first, 2.0, None), (other, 2.0, None)])
    with ExitStack() as opened:
        pins = [opened.enter_context(world.shards[0].replicas[0].pinned())]
        world.add([(older, 2.0, None)])
        world.add([(younger, 2.0, None)])
        pins += [opened.enter_context(shard.replicas[0].pinned()) for shard in world.shards[1:]]
        known, begun = world.copied(new, pins, [{}, {}, {}], [])
    assert new.shards[int(shards_of([younger.encode()], 5)[0])].replicas[0].numbers_of([younger]) != [None]
    with ExitStack() as opened:
        world.copied(new, [opened.enter_context(shard.replicas[0].pinned()) for shard in world.shards], known, begun)
    new.see()
