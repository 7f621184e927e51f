"""Writes cut by shard: everything is there once, in its shard, and the same write is cut the same way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kinbin
from kinbin_cluster.gateway.cutting import Part, add_parts, derived_ids, edits_by_id, same_for_all
from kinbin_cluster.message import Edit, decoded
from kinbin_cluster.shards import shard_of

SCHEMA = kinbin.Schema(dim=8, seed=1)
IDS = [f"item-{number}" for number in range(60)]


def checked(rng: np.random.Generator) -> kinbin.Checked:
    """Sixty items, every third with a payload."""
    payloads = [{"n": number} if number % 3 == 0 else None for number in range(len(IDS))]
    return SCHEMA.check(IDS, rng.random((len(IDS), 8)), payloads)


def edit_of(part: Part) -> Edit:
    """What a node makes of a part."""
    return decoded(part.messages)


def test_every_item_is_in_its_shard_with_all_that_belongs_to_it(rng: np.random.Generator) -> None:
    """The parts of an add hold each item once, in the shard of its id, with its own row, payload, version and place in the batch."""
    items = checked(rng)
    versions = [None if number % 2 else number for number in range(len(IDS))]
    parts = add_parts(items, 3, {"mode": "update", "if_versions": versions})
    seen = []
    for part in parts:
        edit = edit_of(part)
        assert (edit.op, edit.mode, part.items) == ("add", "update", len(edit.ids))
        for at, key in enumerate(edit.ids):
            place = IDS.index(key.decode())
            seen.append(place)
            assert shard_of(key.decode(), 3) == part.shard
            assert edit.positions is not None
            assert edit.versions is not None
            assert edit.payloads is not None
            assert (edit.positions[at], edit.versions[at], edit.payloads[at]) == (place, versions[place], items.payloads[place])
            for found, wanted in zip(edit.rows[""].row(at), items.rows[""].row(place), strict=True):
                np.testing.assert_array_equal(found, wanted)
            assert edit.rows[""].norms[at] == items.rows[""].norms[place]
    assert sorted(seen) == list(range(len(IDS)))


def test_the_same_write_has_the_same_message_ids_by_its_key(rng: np.random.Generator) -> None:
    """With an idempotency key a write that is sent again meets its own messages, whenever that is; another content, or no key, does not."""
    items = checked(rng)
    again = [add_parts(items, 3, {"idempotency_key": "k"}) for _ in range(2)]
    assert [part.message_id for part in again[0]] == [part.message_id for part in again[1]]
    assert len({part.message_id for part in again[0]}) == 3
    for other in (
        add_parts(items, 3, {"idempotency_key": "l"}),
        add_parts(items, 3, {"idempotency_key": "k", "mode": "insert"}),
        add_parts(items, 3, {}),
        add_parts(replace(items, payloads=[b'{"n":5}'] * len(IDS)), 3, {"idempotency_key": "k"}),
        add_parts(replace(items, rows={"": SCHEMA.check(IDS, rng.random((len(IDS), 8))).rows[""]}), 3, {"idempotency_key": "k"}),
    ):
        assert not {part.message_id for part in other} & {part.message_id for part in again[0]}


def test_made_ids_follow_from_the_key(rng: np.random.Generator) -> None:
    """Ids that a key's add is given are those of the add before with the same content, and no others'."""
    rows = checked(rng).rows
    made = derived_ids("k", rows, len(IDS))
    assert made == derived_ids("k", rows, len(IDS))
    assert made == sorted(set(made))
    assert not set(made) & {*derived_ids("l", rows, len(IDS)), *derived_ids("k", checked(rng).rows, len(IDS))}


def test_what_all_shards_do_goes_to_all_of_them() -> None:
    """An edit without ids is there once for each shard; one of ids for those only that have some."""
    parts = same_for_all(Edit("delete_by_filter", filter={"n": 1}), 4)
    assert [part.shard for part in parts] == [0, 1, 2, 3]
    assert all(edit_of(part).filter == {"n": 1} for part in parts)
    assert len({part.message_id for part in parts}) == 4
    (only,) = edits_by_id(Edit("delete", [b"item-1"]), 4)
    assert (only.shard, edit_of(only).ids) == (shard_of("item-1", 4), [b"item-1"])


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_a_large_write_is_messages_that_the_log_takes(rng: np.random.Generator, shards: int) -> None:
    """What does not fit one message of a shard is several, none of them too large, that are one edit again."""
    schema = kinbin.Schema(dim=512, seed=1)
    ids = [f"large-{number}" for number in range(2_000)]
    items = schema.check(ids, rng.random((len(ids), 512)))
    parts = add_parts(items, shards, {})
    assert max(len(one) for part in parts for one in part.messages) <= 1_000_000
    assert sum(len(part.messages) for part in parts) > shards or shards == 7
    assert sorted(key for part in parts for key in edit_of(part).ids) == sorted(map(str.encode, ids))
