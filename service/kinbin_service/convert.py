"""Between JSON and the library: vectors in, vectors, items and answers out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import kinbin
from kinbin_service.exact_numbers import exact_numbers
from kinbin_service.problems import Entry, Refusal

__all__ = ["VectorIn", "add_contents", "answer", "batch_answers", "item", "vector_in", "vector_out"]

VectorIn = list[Any] | kinbin.Sparse | kinbin.Tokens
"""A vector as the library takes it: what a list holds is checked by the library."""

FORMS = 'a vector is a list of numbers, {"indices": […], "values": […]}, or {"tokens": {…}}'


def vector_in(raw: Any, pointer: str) -> VectorIn:
    """A vector from its JSON form; refused with bad_vector if it is none of the three."""
    if isinstance(raw, list):
        return raw
    if isinstance(raw, dict):
        if raw.keys() == {"indices", "values"} and isinstance(raw["indices"], list) and isinstance(raw["values"], list):
            return kinbin.Sparse(raw["indices"], raw["values"])
        if raw.keys() == {"tokens"} and isinstance(raw["tokens"], dict):
            return kinbin.Tokens(raw["tokens"])
    raise Refusal("bad_vector", FORMS, [Entry(pointer, FORMS)])


def vector_out(vector: Any) -> Any:
    """The JSON form of a stored vector: an array of numbers, or indices and values."""
    if isinstance(vector, kinbin.Sparse):
        return {"indices": np.asarray(vector.indices), "values": exact_numbers(np.asarray(vector.values))}
    return exact_numbers(vector)


def item(stored: kinbin.Item, include: Sequence[str]) -> dict[str, Any]:
    """The JSON form of a stored item."""
    content: dict[str, Any] = {"id": stored.id}
    if "payload" in include:
        content["payload"] = stored.payload
    if "vector" in include:
        content["vector"] = vector_out(stored.vector)
    return content


def answer(found: kinbin.Answer) -> dict[str, Any]:
    """The JSON form of one answer."""
    return _answer(
        zip(found.ids, found.scores.tolist(), strict=True),
        found.recall_lower_bound, found.no_bound, found.mode, found.candidates, found.verified, found.truncated,
    )  # fmt: skip


def batch_answers(found: kinbin.AnswerBatch) -> list[dict[str, Any]]:
    """The JSON forms of the answers of a batch."""
    bounds = found.recall_lower_bounds.tolist()
    return [
        _answer(
            ((identifier, score) for identifier, score in zip(ids, scores, strict=True) if identifier is not None),
            None if math.isnan(bound) else bound, no_bound, path, candidates, verified, truncated,
        )
        for ids, scores, bound, no_bound, path, candidates, verified, truncated in zip(
            found.ids.tolist(), found.scores.tolist(), bounds, found.no_bounds, found.modes,
            found.candidates.tolist(), found.verified.tolist(), found.truncated, strict=True,
        )
    ]  # fmt: skip


def _answer(
    hits: Iterable[tuple[str, float]],
    bound: float | None,
    no_bound: str | None,
    mode: str,
    candidates: int,
    verified: int,
    truncated: Sequence[str],
) -> dict[str, Any]:
    content: dict[str, Any] = {
        "results": [{"id": identifier, "score": score} for identifier, score in hits],
        "recall_lower_bound": bound,
    }
    if bound is None:
        content["no_bound"] = no_bound
    return {**content, "mode": mode, "candidates": int(candidates), "verified": int(verified), "truncated": list(truncated)}


def add_contents(answers: Iterable[Mapping[str, Any]], collection: kinbin.Collection, include: Sequence[str]) -> None:
    """Put payloads and vectors into the results of answers. An item deleted since it was found keeps null for them."""
    hits = [hit for found in answers for hit in found["results"]]
    ids = list({hit["id"]: None for hit in hits})
    stored: dict[str, kinbin.Item] = {}
    page = int(kinbin.LIMITS["page"].value)
    for start in range(0, len(ids), page):
        stored.update((kept.id, kept) for kept in collection.get(ids[start : start + page], include=tuple(include)) if kept is not None)
    for hit in hits:
        kept = stored.get(hit["id"])
        hit.update(dict.fromkeys(include) if kept is None else {name: value for name, value in item(kept, include).items() if name != "id"})
