"""A state machine: a collection and a dict, given the same random history, cannot be told apart."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import kinbin
import kinbin.query.plan
import naive
from background import no_background

SEAL_ROWS = 6
"""So few fresh rows are sealed, so that short histories have several runs and merges."""

DIM = 5
LAST = 2**63 - 1

ids = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h", "é", "🦊", "Z", " "])
some_ids = st.lists(ids, min_size=1, max_size=5, unique=True)
values = st.sampled_from([0.0, 1.0, 2.0, 2.5, -1.0])
dense = st.lists(values, min_size=DIM, max_size=DIM).filter(any).map(naive.row)
sparse = (
    st.dictionaries(st.sampled_from([0, 1, 7, 65_536, 2**32, LAST - 1, LAST]), values, min_size=1, max_size=4).map(naive.row).filter(bool)
)
payloads: st.SearchStrategy[Any] = st.one_of(st.none(), st.fixed_dictionaries({"n": st.integers(0, 3)}), st.just({}))
filters = st.one_of(
    st.none(),
    st.builds(lambda n: {"n": {"$gte": n}}, st.integers(0, 4)),
    st.builds(lambda n: {"$not": {"n": n}}, st.integers(0, 3)),
    st.just({"n": {"$exists": False}}),
)
ks = st.sampled_from([1, 2, 3, 20])


class Histories(RuleBasedStateMachine):
    """Adds, replaces, deletes, reads, queries, seals, merges and reopens; every answer is compared with the model's."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kinbin-model-"))
        self.changes = ExitStack()
        self.changes.enter_context(no_background(SEAL_ROWS))
        # Few rows would all be listed at once; so lower levels are listed later, as in large runs.
        patch = self.changes.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(kinbin.query.plan, "collecting_level", lambda *_: 40)

    @initialize(kernel=st.sampled_from(sorted(kinbin.KERNELS)), wide=st.booleans(), seed=st.integers(0, 2**32))
    def create(self, kernel: str, wide: bool, seed: int) -> None:
        """An empty collection and an empty model."""
        self.kernel, self.wide = kernel, wide
        self.model = naive.Items(kernel)
        self.db = kinbin.open(self.folder)
        self.collection = self.db.create_collection("c", kernel=kernel, dim=None if wide else DIM, seed=seed)

    def vector(self, data: st.DataObject) -> dict[int, float]:
        """A vector that the collection takes."""
        row: dict[int, float] = data.draw(sparse if self.wide else dense)
        return row if kinbin.KERNELS[self.kernel].signed else {feature: abs(value) for feature, value in row.items()}

    def batch(self, data: st.DataObject, names: list[str]) -> tuple[list[dict[int, float]], list[Any]]:
        """Vectors and payloads for these ids."""
        return [self.vector(data) for _ in names], [data.draw(payloads) for _ in names]

    # -- writing

    @rule(data=st.data(), names=some_ids)
    def upsert(self, data: st.DataObject, names: list[str]) -> None:
        """Add or replace."""
        rows, contents = self.batch(data, names)
        result = self.collection.add(names, rows, contents)
        assert (result.indexed, result.updated, result.unchanged, result.count) == self.model.add(names, rows, contents)

    @rule(data=st.data(), names=some_ids, mode=st.sampled_from(["insert", "update"]))
    def insert_or_update(self, data: st.DataObject, names: list[str], mode: str) -> None:
        """Either all ids are as the mode wants them, or nothing happens."""
        rows, contents = self.batch(data, names)
        wrong = tuple(name for name in names if (name in self.model.items) == (mode == "insert"))
        if wrong:
            with pytest.raises(kinbin.ItemConflict) as caught:
                self.collection.add(names, rows, contents, mode=mode)
            assert caught.value.ids == wrong
        else:
            result = self.collection.add(names, rows, contents, mode=mode)
            assert (result.indexed, result.updated, result.unchanged, result.count) == self.model.add(names, rows, contents)

    @rule(data=st.data(), name=ids)
    def share_a_vector(self, data: st.DataObject, name: str) -> None:
        """Give an item the very vector of another one."""
        if self.model.items:
            row = self.model.items[data.draw(st.sampled_from(sorted(self.model.items)))].row
            result = self.collection.add([name], [row])
            assert (result.indexed, result.updated, result.unchanged, result.count) == self.model.add([name], [row], [None])

    @rule(data=st.data())
    def add_many(self, data: st.DataObject) -> None:
        """Enough for a run of its own."""
        start = data.draw(st.integers(0, 20))
        names = [f"many {number}" for number in range(start, start + SEAL_ROWS)]
        rows, contents = self.batch(data, names)
        result = self.collection.add(names, rows, contents)
        assert (result.indexed, result.updated, result.unchanged, result.count) == self.model.add(names, rows, contents)

    @rule(names=some_ids)
    def delete(self, names: list[str]) -> None:
        """By id."""
        result = self.collection.delete(names)
        assert (result.deleted, result.count) == self.model.delete(names)

    @rule(condition=filters.filter(bool))
    def delete_by_filter(self, condition: dict[str, Any]) -> None:
        """By filter."""
        result = self.collection.delete(filter=condition)
        assert (result.deleted, result.count) == self.model.delete(list(self.model.matching(condition)))

    # -- background work

    @rule(quiet=st.booleans())
    def upkeep(self, quiet: bool) -> None:
        """One step of sealing or merging."""
        self.collection._upkeep.step(quiet=quiet)

    @rule()
    def compact(self) -> None:
        """All into one run."""
        self.collection.compact()
        stats = self.collection.stats()
        assert (stats["fresh_rows"], stats["dead_rows"], len(stats["runs"])) == (0, 0, min(1, stats["rows"]))

    @rule()
    def reopen(self) -> None:
        """Close and open again."""
        self.db.close()
        self.db = kinbin.open(self.folder)
        self.collection = self.db.collection("c")

    # -- reading

    @rule(data=st.data(), k=ks, condition=filters, least=st.sampled_from([None, None, 0.0, 0.5, 1.0]))
    def query_exactly(self, data: st.DataObject, k: int, condition: Any, least: float | None) -> None:
        """Exact mode, and auto at full target: the model's ranking."""
        query = self.vector(data)
        truth = self.model.truth(query, condition)
        for mode, target in (("exact", 0.9), ("auto", 1.0)):
            if least is not None:
                # What a kernel cannot print is refused.
                least = min(least, kinbin.KERNELS[self.kernel].printed_range[1])
            answer = self.collection.query(query, k=k, filter=condition, min_score=least, mode=mode, target_recall=target)
            assert answer.recall_lower_bound == 1.0
            # An item whose score is min_score but for rounding may be in or out.
            certain = {name: score for name, score in truth.items() if least is None or score >= least + naive.SCORE_ERROR}
            possible = {name: score for name, score in truth.items() if least is None or score >= least - naive.SCORE_ERROR}
            naive.assert_answers(
                answer.ids, answer.scores, {name: possible[name] for name in possible if name in certain or name in answer.ids}, k
            )

    @rule(data=st.data(), k=ks, condition=filters, aim=st.sampled_from([0.3, 0.9, 1.0]))
    def query_bands(self, data: st.DataObject, k: int, condition: Any, aim: float) -> None:
        """What the bands find is true and allowed, and holds all items with the query's own vector."""
        query = self.vector(data)
        truth = self.model.truth(query, condition)
        answer = self.collection.query(query, k=k, filter=condition, mode="bands", target_recall=aim)
        assert len(set(answer.ids)) == len(answer.ids) <= k
        for name, score in zip(answer.ids, answer.scores, strict=True):
            assert abs(score - truth[name]) <= naive.SCORE_ERROR
        same = {name for name in truth if self.model.items[name].row == query}
        assert same <= set(answer.ids) or len(answer.ids) == k
        assert len(answer.ids) == k or answer.no_bound == "fewer than k items were found"

    @rule(name=ids)
    def query_by_id(self, name: str) -> None:
        """By a stored item."""
        if name in self.model.items:
            answer = self.collection.query_id(name, k=4, mode="exact", include_self=True)
            naive.assert_answers(answer.ids, answer.scores, self.model.truth(self.model.items[name].row), 4)
        else:
            with pytest.raises(kinbin.InvalidInput) as caught:
                self.collection.query_id(name)
            assert caught.value.code == "unknown_id"

    @rule(names=st.lists(ids, max_size=4))
    def get(self, names: list[str]) -> None:
        """Vectors and payloads."""
        for name, item in zip(names, self.collection.get(names), strict=True):
            stored = self.model.items.get(name)
            assert (item is None) == (stored is None)
            if item is not None and stored is not None:
                assert item.id == name
                assert item.payload == stored.payload
                assert self.row(item.vector) == stored.row

    def row(self, vector: Any) -> dict[int, float]:
        """A vector of the library as the model has it."""
        if isinstance(vector, kinbin.Sparse):
            return dict(zip(np.asarray(vector.indices).tolist(), np.asarray(vector.values).tolist(), strict=True))
        return {int(feature): float(vector[feature]) for feature in np.flatnonzero(vector)}

    @rule(limit=st.integers(1, 7), condition=filters)
    def scroll(self, limit: int, condition: Any) -> None:
        """All pages together are the items, in order."""
        found: list[kinbin.Item] = []
        after: str | None = None
        while True:
            page = self.collection.scroll(after, limit=limit, filter=condition, include=("vector", "payload"))
            found += page.items
            after = page.next
            if after is None:
                break
        wanted = [(name, self.model.items[name]) for name in self.model.matching(condition)]
        assert [(item.id, self.row(item.vector), item.payload) for item in found] == [(name, one.row, one.payload) for name, one in wanted]
        assert self.collection.count(filter=condition) == len(wanted)

    @invariant()
    def sizes(self) -> None:
        """Items and distinct vectors are as many as the model has."""
        if hasattr(self, "collection"):
            stats = self.collection.stats()
            assert self.collection.count() == stats["count"] == len(self.model.items)
            assert stats["rows"] == self.model.distinct_rows()

    def teardown(self) -> None:
        """The files are sound at the end of every history."""
        try:
            if hasattr(self, "collection"):
                assert self.collection.check().problems == []
                self.db.close()
        finally:
            self.changes.close()
            shutil.rmtree(self.folder)


@pytest.mark.slow
def test_histories() -> None:
    """No history of adds, replaces, deletes, seals, merges and reopens makes an answer differ from the model's."""
    run_state_machine_as_test(Histories, settings=settings(max_examples=min(settings().max_examples, 400), stateful_step_count=50))


@pytest.mark.slow
def test_a_long_history() -> None:
    """Neither do long ones."""
    run_state_machine_as_test(Histories, settings=settings(max_examples=min(settings().max_examples, 400) // 6, stateful_step_count=200))
