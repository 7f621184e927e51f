"""Answers over several fields, shaped as is asked for: without some ids, from an offset or a cursor on, in groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kinbin.fields.combining import Combination
from kinbin.options import QueryOptions
from kinbin.query.cursors import mark_of
from kinbin.query.shaping import Source, as_batch, shaped
from kinbin.query.times import timed
from kinbin.records import Answer, AnswerBatch
from kinbin.rows.rows import Rows
from kinbin.storage.transactions import Reader

__all__ = ["answers_shaped"]

AskedFor = tuple[Combination, Mapping[str, Rows], Sequence[int]]
"""How fields are combined, what is asked of each, and the seeds of all fields of the collection."""


def answers_shaped(
    reader: Reader,
    find: Callable[[int, Mapping[str, Rows]], AnswerBatch],
    asked_for: AskedFor,
    asked: QueryOptions,
    more: tuple[str | None, threading.Event | None],
) -> AnswerBatch:
    """The answers to m queries, one after the other. find: the k nearest of some. more: the id that the only one is about, and cancel."""
    combination, queries, seeds = asked_for
    own, cancel = more
    each = []
    for i in range(len(next(iter(queries.values())))):
        one = {name: rows.take(np.array([i])) for name, rows in queries.items()}

        def find_one(k: int, one: Mapping[str, Rows] = one) -> Answer:
            began = time.perf_counter()
            answer = find(k, one)[0]
            return timed(answer, "search all fields", began) if asked.debug else answer

        def mark(one: Mapping[str, Rows] = one) -> bytes:
            return mark_of([*seeds, repr(combination)], list(one.values()), asked)

        each.append(shaped(Source(find_one, reader, mark, frozenset([own] if own else []), cancel), asked))
    return as_batch(each, asked.k)
