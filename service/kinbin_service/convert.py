"""Between JSON and the library: vectors in, vectors, items and answers out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_service.exact_numbers import exact_numbers
from kinbin_service.objects import VECTOR, object_in, object_out
from kinbin_service.problems import Entry, Refusal

__all__ = ["VectorIn", "answer", "batch_answers", "carried", "item", "vector_in", "vector_out", "vectors_in"]

VectorIn = list[Any] | NDArray[np.float64] | kinbin.Sparse | kinbin.Tokens
"""A vector as the library takes it: what a list holds is checked by the library. Arrays come from large bodies."""

FORMS = 'a vector is a list of numbers, a list of strings, {"indices": […], "values": […]}, or {"tokens": {…} or […]}'


def vector_in(raw: Any, pointer: str) -> VectorIn:
    """A vector from its JSON form; refused with bad_vector if it is none of them."""
    if isinstance(raw, list | np.ndarray):
        return raw
    if isinstance(raw, dict):
        if raw.keys() == {"indices", "values"} and isinstance(raw["indices"], list) and isinstance(raw["values"], list):
            return kinbin.Sparse(raw["indices"], raw["values"])
        if raw.keys() == {"tokens"} and isinstance(raw["tokens"], dict | list):
            return kinbin.Tokens(raw["tokens"])
    raise Refusal("bad_vector", FORMS, [Entry(pointer, FORMS)])


def carried(key: str, raw: Any, pointer: str) -> Any:
    """What an item or a query carries under this key, as the library takes it; refused with bad_vector or bad_object."""
    if key == VECTOR:
        return vector_in(raw, pointer)
    try:
        return object_in(key, raw)
    except ValueError as error:
        raise Refusal("bad_object", str(error), [Entry(pointer, str(error))]) from None


def vectors_in(given: Sequence[Any], pointers: str) -> dict[str, list[VectorIn]]:
    """Vectors of several fields: of each, by its name, one for every item or query. pointers: with {} for the position.

    They are refused where one is no mapping, or has other fields than the first.
    """
    out: dict[str, list[VectorIn]] = {}
    for position, raw in enumerate(given):
        pointer = pointers.format(position)
        if not isinstance(raw, dict) or not raw:
            text = 'vectors are an object of field to vector, as {"colour": [0.1, 0, 2.5]}'
            raise Refusal("bad_vector", text, [Entry(pointer, text)])
        if position and raw.keys() != out.keys():
            lacking, extra = [name for name in out if name not in raw], [name for name in raw if name not in out]
            text = f"this one lacks {', '.join(lacking)}" if lacking else f"the first has no {', '.join(extra)}"
            text += ": all have the same fields"
            raise Refusal("bad_vector", text, [Entry(pointer, text)])
        for name, vector in raw.items():
            out.setdefault(name, []).append(vector_in(vector, f"{pointer}/{name}"))
    return out


def vector_out(vector: Any) -> Any:
    """The JSON form of a stored vector: an array of numbers, or indices and values."""
    if isinstance(vector, kinbin.Sparse):
        return {"indices": np.asarray(vector.indices), "values": exact_numbers(np.asarray(vector.values))}
    return exact_numbers(vector)


def item(stored: kinbin.Item, include: Sequence[str], key: str = VECTOR) -> dict[str, Any]:
    """The JSON form of a stored item. key: under which objects travel, if it is one."""
    content: dict[str, Any] = {"id": stored.id}
    if any(name.startswith("payload") for name in include):
        content["payload"] = stored.payload
    if "vector" in include and stored.vectors is not None:
        content["vectors"] = {name: vector_out(vector) for name, vector in stored.vectors.items()}
    elif "vector" in include and stored.object is not None:
        content[key] = object_out(stored.object)
    elif "vector" in include:
        content["vector"] = vector_out(stored.vector)
    if "version" in include:
        content["version"] = stored.version
    return content


def answer(found: kinbin.Answer, asked: kinbin.QueryOptions, key: str = VECTOR) -> dict[str, Any]:
    """The JSON form of one answer, with what was asked for. key: see `item`."""
    hits = zip(found.ids, found.scores.tolist(), strict=True)
    number = "distance" if found.ascending else "score"
    work = _work(found.mode, found.candidates, found.verified, found.truncated, found.steps, far=found.out_of_distribution)
    contents = _contents(found.items or (), tuple(asked.include), key)
    content = _answer(number, hits, contents, found.recall_lower_bound, found.no_bound, work, _parts(found.parts))
    return content | _shape(found, asked) if asked.is_shaped else content


def batch_answers(found: kinbin.AnswerBatch, asked: kinbin.QueryOptions, key: str = VECTOR) -> list[dict[str, Any]]:
    """The JSON forms of the answers of a batch, with what was asked for. key: see `item`."""
    if asked.is_shaped:
        return [answer(one, asked, key) for one in found]
    contents = _contents((found.items or {}).values(), tuple(asked.include), key)
    works = (
        _work(mode, candidates, verified, truncated, steps, far=far)
        for mode, candidates, verified, truncated, steps, far in zip(
            found.modes, found.candidates.tolist(), found.verified.tolist(), found.truncated, found.steps,
            found.out_of_distribution.tolist(), strict=True,
        )
    )  # fmt: skip
    answers = zip(found.ids.tolist(), found.scores.tolist(), found.recall_lower_bounds.tolist(), found.no_bounds, works, strict=True)
    return [
        _answer(
            "distance" if found.ascending else "score",
            ((identifier, score) for identifier, score in zip(ids, scores, strict=True) if identifier is not None),
            contents,
            None if math.isnan(bound) else bound,
            no_bound,
            work,
            _parts(None if found.parts is None else {name: scores[i] for name, scores in found.parts.items()}),
        )
        for i, (ids, scores, bound, no_bound, work) in enumerate(answers)
    ]


def _shape(found: kinbin.Answer, asked: kinbin.QueryOptions) -> dict[str, Any]:
    """What is only there when it is asked for: groups, the cursor of the next page, and what was done."""
    shape: dict[str, Any] = {}
    if found.groups is not None:
        shape["groups"] = [{"value": group.value, "ids": group.ids} for group in found.groups]
    if asked.cursor is not None:
        shape["next"] = found.next
    if asked.debug:
        steps = [{"step": step, "ms": round(ms, 4)} for step, ms in found.times or ()]
        shape["debug"] = {
            "candidates": found.candidates,
            "verified": found.verified,
            "truncated": list(found.truncated),
            "steps": steps,
        }
    return shape


def _parts(found: Mapping[str, Any] | None) -> list[dict[str, float]] | None:
    """The scores of fields, hit by hit."""
    if found is None:
        return None
    return [dict(zip(found, scores, strict=True)) for scores in zip(*(scores.tolist() for scores in found.values()), strict=True)]


def _contents(items: Iterable[kinbin.Item], include: Sequence[str], key: str) -> dict[str, dict[str, Any]]:
    """What is included of each item, by id."""
    return {stored.id: {name: value for name, value in item(stored, include, key).items() if name != "id"} for stored in items}


def _work(
    mode: str, candidates: int, verified: int, truncated: Sequence[str], steps: Sequence[str], *, far: bool
) -> dict[str, Any]:  # fmt: skip
    """How an answer was found."""
    work: dict[str, Any] = {
        "mode": mode,
        "candidates": candidates,
        "verified": verified,
        "truncated": list(truncated),
        "steps": list(steps),
    }
    if far:
        work["out_of_distribution"] = True
    return work


def _answer(
    number: str,
    hits: Iterable[tuple[str, float]],
    contents: Mapping[str, Mapping[str, Any]],
    bound: float | None,
    no_bound: str | None,
    work: dict[str, Any],
    parts: Sequence[Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """number: what a score is called. parts: of the score of each hit, where there are fields."""
    if contents:
        results = [{"id": identifier, number: score, **contents[identifier]} for identifier, score in hits]
    else:
        results = [{"id": identifier, number: score} for identifier, score in hits]
    # Those of a batch are padded.
    for result, of in zip(results, parts or (), strict=False):
        result["parts"] = of
    content: dict[str, Any] = {"results": results, "recall_lower_bound": bound}
    if bound is None:
        content["no_bound"] = no_bound
    return content | work
