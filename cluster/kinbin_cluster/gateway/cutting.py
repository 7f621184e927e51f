"""A write cut by shard: the edit of each shard, its messages, and the id that they are published by.

The same write is cut the same way by every gateway, so that it meets its own messages when it is sent again.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_cluster.message import Edit, encoded, numbered
from kinbin_cluster.shards import shards_of

__all__ = ["Part", "add_parts", "derived_ids", "edits_by_id", "parts_of", "same_for_all"]

_PERSON = b"kinbin.write"
_IDS_PERSON = b"kinbin.ids"


@dataclass(frozen=True, slots=True)
class Part:
    """What one shard gets of a write."""

    shard: int
    messages: list[bytes]
    message_id: str
    """The servers append what has it once in two minutes. With an idempotency key it is of that and the content, else it is new."""
    items: int
    keyed: bool = False
    """Whether the shard keeps what came of it, by an idempotency key."""

    def numbered(self, first: int) -> Part:
        """The same part of an add, whose batch has its rows numbered from `first` on."""
        return replace(self, messages=numbered(self.messages, first))

    def again(self) -> Part:
        """The same part, to be appended once more whatever the servers remember: it does nothing where its key is known."""
        assert self.keyed, "it would be done twice"
        return replace(self, message_id=secrets.token_hex(16))


def add_parts(checked: kinbin.Checked, shards: int, terms: Mapping[str, Any]) -> list[Part]:
    """The parts of an add, by shard; they are still to be numbered.

    terms: as `Collection.add` takes them: mode, on_error, if_versions, idempotency_key. Positions of problems stay those of the batch.
    """
    versions = terms.get("if_versions")
    edit = Edit(
        "add", checked.ids, checked.payloads if any(checked.payloads) else None, checked.rows, terms.get("mode", "upsert"),
        terms.get("on_error", "reject"), None if versions is None else [versions[at] for at in checked.positions],
        list(checked.positions), terms.get("idempotency_key"), first=0,
    )  # fmt: skip
    return edits_by_id(edit, shards)


def edits_by_id(edit: Edit, shards: int) -> list[Part]:
    """The parts of an edit of items, each with those that belong to its shard; shards without any get none."""
    home = shards_of(edit.ids, shards)
    present = np.unique(home).tolist()
    if len(present) == 1:
        return parts_of({present[0]: edit})
    return parts_of({shard: _of_shard(edit, np.flatnonzero(home == shard)) for shard in present})


def same_for_all(edit: Edit, shards: int) -> list[Part]:
    """The parts of an edit that is the same for all shards."""
    return parts_of(dict.fromkeys(range(shards), edit))


def parts_of(edits: Mapping[int, Edit]) -> list[Part]:
    """The parts of edits by shard: packed, with ids and one time."""
    now = time.time()
    return [_part(shard, edit, now) for shard, edit in edits.items()]


def derived_ids(key: str, rows: Mapping[str, kinbin.Rows], count: int) -> list[str]:
    """Ids for `count` items that came without any, but with an idempotency key: the same for the same add, however often it is sent.

    rows: of those that are good.
    """
    found = hashlib.blake2b(key.encode(), digest_size=16, person=_IDS_PERSON)
    _feed_rows(found, rows)
    beginning = found.hexdigest()
    return [f"{beginning[:12]}-{beginning[12:]}-{number:06d}" for number in range(count)]


def _of_shard(edit: Edit, which: NDArray[np.int64]) -> Edit:
    """Some of an edit's items."""
    listed = which.tolist()
    return replace(
        edit,
        ids=[edit.ids[i] for i in listed],
        payloads=None if edit.payloads is None else [edit.payloads[i] for i in listed],
        rows={name: rows.take(which) for name, rows in edit.rows.items()},
        versions=None if edit.versions is None else [edit.versions[i] for i in listed],
        positions=listed if edit.positions is None else [edit.positions[i] for i in listed],
    )


def _part(shard: int, edit: Edit, now: float) -> Part:
    message_id = secrets.token_hex(16) if edit.idempotency_key is None else _digest(edit)
    return Part(shard, encoded(replace(edit, now=now)), message_id, len(edit.ids), edit.idempotency_key is not None)


def _digest(edit: Edit) -> str:
    """Of an edit's key and content, without its time."""
    lengths = [(len(key), len(payload)) for key, payload in zip(edit.ids, edit.payloads or [b""] * len(edit.ids), strict=True)]
    terms: Sequence[Any] = edit.idempotency_key, edit.op, edit.mode, edit.on_error, edit.versions, edit.positions
    found = hashlib.blake2b(repr(terms).encode(), digest_size=16, person=_PERSON)
    found.update(np.array(lengths, "<i8").tobytes())
    for text in (*edit.ids, *(edit.payloads or ())):
        found.update(text)
    _feed_rows(found, edit.rows)
    return found.hexdigest()


def _feed_rows(found: hashlib.blake2b, rows: Mapping[str, kinbin.Rows]) -> None:
    for name, one in sorted(rows.items()):
        found.update(name.encode() + b"\0" + len(one).to_bytes(8, "little"))
        found.update(one.indptr.astype("<i8").tobytes())
        found.update(one.features.astype("<u8").tobytes())
        found.update(one.values.astype("<f4").tobytes())
