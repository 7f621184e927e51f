"""Answers of shards become one answer: order, ties, bounds, groups, facets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_cluster.gateway.merging import first_groups, joined_pages, merged, merged_batch, merged_facets, merged_groups, ties


def part(hits: list[tuple[str, float]], number: str = "score", **more: Any) -> dict[str, Any]:
    """What one shard answers."""
    told = {"recall_lower_bound": 1.0, "mode": "exact", "candidates": 5, "verified": 3, "truncated": [], "steps": ["scan all rows"]}
    return {"results": [{"id": identifier, number: score} for identifier, score in hits], **told, **more}


def ids(answer: dict[str, Any]) -> list[str]:
    """The ids of an answer, in order."""
    return [one["id"] for one in answer["results"]]


SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5 + 2**-53, 1.0]), max_size=12)


@given(st.lists(SCORES, min_size=1, max_size=4), st.integers(1, 15), st.integers(0, 15), st.booleans())
def test_an_answer_is_the_nearest_of_all_shards(shards: list[list[float]], k: int, offset: int, ascending: bool) -> None:
    """Merged are the k + offset nearest of all shards without the first offset, by score, each with its own."""
    number = "distance" if ascending else "score"
    listed = [sorted(scores, reverse=not ascending) for scores in shards]
    parts = [part([(f"{i}-{j}", score) for j, score in enumerate(scores[: k + offset])], number) for i, scores in enumerate(listed)]
    answer = merged(parts, k, offset)
    everything = sorted((score for scores in shards for score in scores), reverse=not ascending)
    assert [one[number] for one in answer["results"]] == everything[offset : offset + k]
    owners = {f"{i}-{j}": score for i, scores in enumerate(listed) for j, score in enumerate(scores)}
    assert all(owners[one["id"]] == one[number] for one in answer["results"])


@given(st.lists(SCORES, min_size=1, max_size=4), st.integers(1, 6))
def test_pages_neither_repeat_nor_leave_out(shards: list[list[float]], k: int) -> None:
    """Pages by offset go through all items once, however many tie, though each is merged of other parts."""
    listed = [sorted(scores, reverse=True) for scores in shards]
    total = sum(map(len, listed))
    seen: list[str] = []
    for offset in range(0, total, k):
        parts = [part([(f"{i}-{j}", score) for j, score in enumerate(scores[: k + offset])]) for i, scores in enumerate(listed)]
        seen += ids(merged(parts, k, offset))
    assert len(seen) == len(set(seen)) == total


AGED = st.lists(st.tuples(st.sampled_from([0.25, 0.5, 0.5 + 2**-53]), st.integers(0, 10**6)), max_size=14, unique_by=lambda one: one[1])


@given(AGED, st.lists(st.integers(0, 3), min_size=14, max_size=14), st.integers(1, 5), st.booleans())
def test_ties_are_in_the_order_of_ages(items: list[tuple[float, int]], homes: list[int], k: int, ascending: bool) -> None:
    """Pages are those of all items by score and age, where only the ages of items are asked for that may tie with another shard's."""
    number, sign = ("distance", 1) if ascending else ("score", -1)
    ordered = sorted(items, key=lambda one: (sign * one[0], one[1]))
    ids_of = {age: str(age) for _, age in ordered}
    home = {age: homes[i] for i, (_, age) in enumerate(items)}
    seen: list[str] = []
    for offset in range(0, len(items), k):
        parts = [part([(ids_of[age], score) for score, age in ordered if home[age] == shard][: k + offset], number) for shard in range(4)]
        asked = ties(parts, k + offset)
        assert all(set(of_part) <= set(ids(one)) for of_part, one in zip(asked, parts, strict=True))
        seen += ids(merged(parts, k, offset, {one: int(one) for of_part in asked for one in of_part}))
    assert seen == [ids_of[age] for _, age in ordered]


def test_ages_are_asked_for_where_scores_do_not_tell() -> None:
    """Not of items whose score one part alone has, nor of those that are too far to be answered; of groups, of all."""
    parts = [part([("a", 0.9), ("b", 0.9), ("c", 0.5)]), part([("d", 0.8), ("e", 0.5)]), part([])]
    assert ties(parts, 3) == [[], [], []]
    assert ties(parts, 4) == ties(parts) == [["c"], ["e"], []]
    assert ties([part([]), part([])], 5) == [[], []]


def test_a_part_keeps_its_order() -> None:
    """Scores that are the same as they are printed, and were not, are left in the order in which their shard has them."""
    parts = [part([("late", 0.5), ("early", 0.5)]), part([("other", 0.5)])]
    assert ids(merged(parts, 3, ages={"late": 9, "early": 1, "other": 5})) == ["other", "late", "early"]


def test_the_bound_is_the_least_and_a_missing_one_says_why() -> None:
    """The bound of a merged answer is the least of the shards'; where one has none, its reason is told."""
    parts = [part([("a", 1.0)], recall_lower_bound=0.95), part([("b", 0.5)], recall_lower_bound=0.9)]
    assert merged(parts, 2)["recall_lower_bound"] == 0.9
    lacking = merged([*parts, part([], recall_lower_bound=None, no_bound="because")], 2)
    assert (lacking["recall_lower_bound"], lacking["no_bound"]) == (None, "because")
    assert "no_bound" not in merged(parts, 2)


def test_work_is_added_up_and_the_weakest_way_is_told() -> None:
    """Candidates and verified add up, steps and caps are told once each, and the mode is exact only where every shard's is."""
    parts = [part([("a", 1.0)]), part([], mode="bands", truncated=["postings"], steps=["bands"], out_of_distribution=True)]
    answer = merged(parts, 1)
    assert (answer["candidates"], answer["verified"], answer["mode"]) == (10, 6, "bands")
    assert (answer["truncated"], answer["steps"], answer["out_of_distribution"]) == (["postings"], ["scan all rows", "bands"], True)
    assert merged([part([]), part([])], 1)["mode"] == "exact"


def test_debug_tells_the_slowest_shard_of_each_step() -> None:
    """What a step took is what it took at the shard where it took longest."""
    told = [{"candidates": 2, "verified": 1, "truncated": [], "steps": [{"step": "scan", "ms": ms}]} for ms in (0.5, 2.0)]
    answer = merged([part([], debug=one) for one in told], 1)
    assert answer["debug"] == {"candidates": 4, "verified": 2, "truncated": [], "steps": [{"step": "scan", "ms": 2.0}]}


def test_many_answers_have_shapes_of_their_own() -> None:
    """Each of many queries is merged with its own k and offset."""
    shard = [part([("a", 0.9), ("b", 0.8)]), part([("c", 0.7), ("d", 0.6)])]
    other = [part([("e", 0.85)]), part([("f", 0.65)])]
    assert [ids(one) for one in merged_batch([shard, other], [(1, 0), (2, 1)])] == [["a"], ["f", "d"]]


def test_pages_of_one_shard_are_joined_in_their_order() -> None:
    """Pages of one shard follow each other, with the least bound."""
    pages = [part([("a", 0.9)]), part([("b", 0.8)], recall_lower_bound=0.5)]
    assert (ids(joined_pages(pages)), joined_pages(pages)["recall_lower_bound"]) == (["a", "b"], 0.5)
    assert joined_pages(pages[:1]) is pages[0]


def group(value: Any, *members: str) -> dict[str, Any]:
    """A group of an answer."""
    return {"value": value, "ids": list(members)}


def test_groups_are_those_whose_nearest_items_are_nearest() -> None:
    """The first groups of all shards are found by their best items, true is not 1, and members come from every shard."""
    one = part([("a", 0.9), ("b", 0.2), ("c", 0.6)], groups=[group(1, "a", "b"), group("x", "c")])
    two = part([("d", 0.8), ("e", 0.7)], groups=[group(True, "d"), group(1, "e")])
    assert [(type(value), value) for value in first_groups([one, two], 2)] == [(int, 1), (bool, True)]
    answer = merged_groups([one, two], [1, True], 2)
    assert answer["groups"] == [{"value": 1, "ids": ["a", "e"]}, {"value": True, "ids": ["d"]}]
    assert ids(answer) == ["a", "e", "d"]


def test_groups_whose_nearest_items_tie_in_one_shard_keep_its_order() -> None:
    """Whichever groups other shards told before; over shards the ages tell."""
    one = part([("a0", 0.5)], groups=[group("a", "a0")])
    two = part([("c1", 0.7), ("a1", 0.7)], groups=[group("c", "c1"), group("a", "a1")])
    assert first_groups([one, two], 9) == ["c", "a"]
    tied = part([("b0", 0.7)], groups=[group("b", "b0")])
    assert first_groups([tied, two], 9, {"c1": 4, "b0": 5, "a1": 6}) == ["c", "b", "a"]
    assert first_groups([tied, two], 2, {"c1": 4, "b0": 9, "a1": 6}) == ["c", "a"]


def test_members_that_are_told_twice_count_once() -> None:
    """A shard that is asked again about a group tells the same items, which are answered once."""
    once = part([("a", 0.9), ("b", 0.8)], groups=[group(1, "a", "b")])
    assert merged_groups([once, once], [1], 3)["groups"] == [{"value": 1, "ids": ["a", "b"]}]


def told_facets(distinct: int, items: int, *values: tuple[Any, int]) -> dict[str, Any]:
    """The facets of one shard."""
    return {"field": "f", "values": [{"value": value, "count": count} for value, count in values], "distinct": distinct, "items": items}


def test_facets_add_up_and_ties_go_by_value() -> None:
    """Counts of a value are added; numbers come before strings, false, true and null; true is not 1."""
    answer = merged_facets([told_facets(3, 9, (1, 4), ("a", 3), (None, 2)), told_facets(2, 5, (True, 3), ("a", 1))], 10)
    assert answer is not None
    assert [(one["value"], one["count"]) for one in answer["values"]] == [(1, 4), ("a", 4), (True, 3), (None, 2)]
    assert (answer["distinct"], answer["items"]) == (4, 14)
    limited = merged_facets([told_facets(2, 3, (1, 2), (2, 1))], 1)
    assert limited is not None
    assert (len(limited["values"]), limited["distinct"]) == (1, 2)


@pytest.mark.parametrize("distinct", [3, 1_000_000])
def test_facets_that_are_not_all_told_are_no_facets(distinct: int) -> None:
    """Where a shard has more values than it told, no count is certain."""
    assert merged_facets([told_facets(2, 3, (1, 2), (2, 1)), told_facets(distinct, 9, (1, 2), (2, 1))], 1) is None
