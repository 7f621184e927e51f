"""The k best so far: three parallel arrays, best first; ties go to the older row."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from kinbin.native.jit import inline

__all__ = ["offer", "reset"]


@inline
def reset(similarities, runs, rows):
    """Empty the list: similarity -1 stands for no answer."""
    for x in range(len(similarities)):
        similarities[x] = -1.0
        runs[x] = -1
        rows[x] = -1


@inline
def offer(similarities, runs, rows, similarity, run, row):
    """Put one row in its place, if it has one and is not there yet. Order: similarity down, then run and row up."""
    last = len(similarities) - 1
    worst = similarities[last]
    if similarity > worst or (similarity == worst and (run, row) < (runs[last], rows[last])):
        for x in range(last + 1):
            if similarities[x] < similarity:
                break
            # A row's score is the same on whatever path it is met.
            if similarities[x] == similarity and runs[x] == run and rows[x] == row:
                return
        p = last
        while p > 0 and (
            similarities[p - 1] < similarity or (similarities[p - 1] == similarity and (runs[p - 1], rows[p - 1]) > (run, row))
        ):
            similarities[p] = similarities[p - 1]
            runs[p] = runs[p - 1]
            rows[p] = rows[p - 1]
            p -= 1
        similarities[p] = similarity
        runs[p] = run
        rows[p] = row
