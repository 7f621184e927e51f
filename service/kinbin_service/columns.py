"""The answers to many queries as columns: one array a field, in the place of an object for each hit.

A batch of 1,000 queries has 10,000 hits. As objects they take a third of the time of the search to make, and more to read; as columns
a fiftieth. Who asks by `Accept` gets them wherever an answer is ids, scores and what is known about them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

import kinbin

__all__ = ["COLUMNS", "answer_columns", "takes_columns"]

COLUMNS = "application/vnd.kinbin.columns+json"


def takes_columns(request: Request, asked: kinbin.QueryOptions) -> bool:
    """Whether a client names columns in `Accept`, and its options ask for nothing that has no column: contents, groups, pages, debug."""
    if asked.include or asked.group_by is not None or asked.cursor is not None or asked.debug:
        return False
    return _wanted(request.headers.get("accept", ""))


def _wanted(accepted: str) -> bool:
    """Whether a header names the type without the weight 0, which forbids it."""
    for part in accepted.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if name == COLUMNS:
            return not any(parameter.startswith("q=") and not parameter[2:].strip("0.") for parameter in parameters)
    return False


def answer_columns(found: kinbin.AnswerBatch) -> dict[str, Any]:
    """The columns of a batch: see `ColumnsAnswer`. NaN, where there is no bound, becomes null as it is written."""
    there: NDArray[np.bool_] = found.ids != None  # noqa: E711 - element by element
    columns: dict[str, Any] = {
        "counts": there.sum(1),
        "ids": found.ids[there].tolist(),
        "distances" if found.ascending else "scores": found.scores[there],
        "recall_lower_bounds": found.recall_lower_bounds,
        "no_bounds": found.no_bounds,
        "modes": found.modes,
        "candidates": found.candidates,
        "verified": found.verified,
        "truncated": found.truncated,
        "steps": found.steps,
        "out_of_distribution": found.out_of_distribution,
    }
    if found.parts is not None:
        columns["parts"] = {name: scores[there] for name, scores in found.parts.items()}
    return columns
