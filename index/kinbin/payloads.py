"""Payloads written without their vectors: replaced, or merged with a patch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from kinbin.errors import InvalidInput, Problem
from kinbin.limits import limit
from kinbin.records import PayloadResult
from kinbin.rows.identity import CANONICAL, MOST_PROBLEMS
from kinbin.terms import Known, refuse_conflicts, refuse_versions

__all__ = ["PAYLOAD_MODES", "merged", "write_payloads"]

PAYLOAD_MODES = ("replace", "merge")


class Edit(Protocol):
    """A transaction, as far as payloads go."""

    @property
    def count(self) -> int:
        """Items, as the edits so far leave them."""

    def known(self, ids: list[bytes]) -> list[Known]:
        """Row and payload of each id, as the edits so far leave them."""

    def put_payloads(self, changed: list[tuple[bytes, int, bytes]]) -> None:
        """Replace the payloads of items: (id, row, payload)."""


def write_payloads(edit: Edit, ids: list[bytes], payloads: list[bytes], mode: str, versions: Sequence[int | None] | None) -> PayloadResult:
    """Replace or patch the payloads of items that are there, all or none.

    Raises:
        VersionConflict; ItemConflict: an id is not there. InvalidInput: code "over_limit", a patched payload is too large.
    """
    known = edit.known(ids)
    refuse_versions(ids, known, versions)
    refuse_conflicts(ids, known, "update", "add these items first, or leave them out")
    changed: list[tuple[bytes, int, bytes]] = []
    problems: list[Problem] = []
    for position, (key, payload, old) in enumerate(zip(ids, payloads, known, strict=True)):
        assert old is not None, "conflicts were refused"
        new = payload if mode == "replace" else merged(old[1], payload)
        if len(new) > limit("payload_bytes"):
            text = f"a payload has at most {limit('payload_bytes')} bytes of JSON, with the patch this one has {len(new)}"
            problems.append(Problem("over_limit", text, position, "payload", "payload_bytes"))
        elif new != old[1]:
            changed.append((key, old[0], new))
    if problems:
        raise InvalidInput(problems[:MOST_PROBLEMS])
    edit.put_payloads(changed)
    return PayloadResult(len(changed), len(ids) - len(changed), edit.count)


def merged(payload: bytes, patch: bytes) -> bytes:
    """A payload after a merge patch (RFC 7396), both as canonical JSON; a payload that is not there counts as empty.

    Null removes a member, objects are merged, everything else replaces what was there, lists as a whole.
    """
    if not patch:
        return payload
    return orjson.dumps(_merged(orjson.loads(payload) if payload else {}, orjson.loads(patch)), option=CANONICAL)


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2. Depth is bounded by that of payloads."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = _merged(out.get(name), value)
    return out
