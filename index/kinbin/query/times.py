"""How long the steps of a search took, for whoever asks with `debug`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from kinbin.records import Answer

__all__ = ["timed", "told_times"]

Times = Sequence[tuple[str, float]]


def told_times(answer: Answer, steps: Times | None, began: float) -> Answer:
    """The answer with what its steps took; what is left of the time since `began` (`perf_counter`) went to plans, filters and ids."""
    whole = (time.perf_counter() - began) * 1e3
    noted = tuple(steps or ())
    rest = max(0.0, whole - sum(ms for _, ms in noted))
    return replace(answer, times=(*noted, ("plan, filter and names", rest)))


def timed(answer: Answer, what: str, began: float) -> Answer:
    """The answer with one step more, which has lasted since `began`."""
    return replace(answer, times=(*(answer.times or ()), (what, (time.perf_counter() - began) * 1e3)))
