"""Finished cells drawn together: means and spreads over repetitions, at the best C and gamma. Plain data, as the results keep it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from papers.ledger import Finished
from papers.plan import Cell, cells

__all__ = ["Figure", "Summary", "key_of", "summarised"]

Key = tuple[str, str, str, int, int]
"""Paper, set, method, k and b."""


@dataclass(frozen=True)
class Figure:
    """One figure of a table, or one point of a curve."""

    mean: float
    """Test accuracy in per cent."""
    spread: float | None
    """Standard deviation over repetitions, or None of one."""
    count: int
    """Repetitions."""
    gamma: float | None
    cost: float | None
    """The best C, where it is the same for all repetitions."""


@dataclass(frozen=True)
class Summary:
    """Everything that docs/papers.md shows."""

    figures: Mapping[Key, Figure]
    rows: Mapping[str, tuple[int, int, int]]
    """By "paper/set": rows of training and test, features."""
    versions: tuple[str, ...]
    parts: Mapping[str, tuple[int, int]]
    """Cells of the usual plan that are finished, and all of them, by "paper/set table" and "paper/set curves"."""
    seconds: float
    """Of one core, for all cells."""

    def figure(self, paper: str, name: str, method: str, k: int = 0, bits: int = 0) -> Figure | None:
        """A figure, or None where it was not measured."""
        return self.figures.get((paper, name, method, k, bits))

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        figures = [[*key, one.mean, one.spread, one.count, one.gamma, one.cost] for key, one in self.figures.items()]
        return {
            "versions": self.versions,
            "parts": dict(self.parts),
            "seconds": self.seconds,
            "rows": dict(self.rows),
            "figures": sorted(figures, key=lambda line: line[:5]),
        }

    def with_more(self, cells_finished: Mapping[str, Finished]) -> Summary:
        """With what other cells show as well: their figures, but where this one's are of more repetitions."""
        newer = summarised(cells_finished)
        added = summarised({cell.key: one for cell, one in _of_plan(cells_finished) if key_of(cell) not in self.figures})
        better = {key: one for key, one in newer.figures.items() if key not in self.figures or one.count >= self.figures[key].count}
        parts = {}
        for name, (done, planned) in newer.parts.items():
            known = self.parts.get(name, (0, planned))[0] + added.parts[name][0]
            parts[name] = (min(planned, max(done, known)), planned)
        versions = tuple(sorted({*self.versions, *newer.versions}))
        return Summary({**self.figures, **better}, {**self.rows, **newer.rows}, versions, parts, self.seconds + added.seconds)

    @staticmethod
    def of_data(data: Mapping[str, Any]) -> Summary:
        """Of what `as_data` made."""
        return Summary(
            {tuple(line[:5]): Figure(*line[5:]) for line in data["figures"]},
            {name: (rows[0], rows[1], rows[2]) for name, rows in data["rows"].items()},
            tuple(data["versions"]),
            {name: (count[0], count[1]) for name, count in data["parts"].items()},
            data["seconds"],
        )


def key_of(cell: Cell) -> Key:
    """The figure that a cell counts for."""
    return cell.paper, cell.set, cell.method, cell.k, cell.bits


def _of_plan(finished: Mapping[str, Finished]) -> Iterable[tuple[Cell, Finished]]:
    return ((cell, finished[cell.key]) for cell in dict.fromkeys(cells(full=True)) if cell.key in finished)


def summarised(finished: Mapping[str, Finished], plan: Iterable[Cell] | None = None) -> Summary:
    """A summary of the finished cells of a plan: of the whole one unless given."""
    groups: dict[Key, dict[float | None, list[Finished]]] = defaultdict(lambda: defaultdict(list))
    rows, versions, seconds = {}, set(), 0.0
    for cell in dict.fromkeys(cells(full=True) if plan is None else plan):
        one = finished.get(cell.key)
        if one is not None:
            groups[key_of(cell)][cell.gamma].append(one)
            rows[f"{cell.paper}/{cell.set}"] = one.rows
            versions.add(one.by)
            seconds += one.seconds
    parts: dict[str, tuple[int, int]] = {}
    for cell in cells(full=False) if plan is None else plan:
        part = f"{cell.paper}/{cell.set} {'curves' if cell.k else 'table'}"
        done, planned = parts.get(part, (0, 0))
        parts[part] = (done + (cell.key in finished), planned + 1)
    figures = {key: _best_gamma(group, alone=key[3] == 0) for key, group in groups.items()}
    return Summary(figures, rows, tuple(sorted(versions)), parts, round(seconds))


def _best_gamma(group: Mapping[float | None, list[Finished]], alone: bool) -> Figure:
    """The best gamma of those that were repeated most often: one repetition alone is lucky more easily than the mean of three."""
    most = max(len(repetitions) for repetitions in group.values())
    figures = [_figure(gamma, repetitions, alone) for gamma, repetitions in group.items() if len(repetitions) == most]
    return max(figures, key=lambda figure: figure.mean)


def _figure(gamma: float | None, repetitions: list[Finished], alone: bool) -> Figure:
    """Kernel machines: each repetition at its own best C. Linearisations, as in the papers' curves: the mean at each C, then the best."""
    costs = list(repetitions[0].by_cost)
    table = np.array([[one.by_cost[cost] for cost in costs] for one in repetitions])
    best = {one.best[1] for one in repetitions}
    if alone:
        values, cost = table.max(axis=1), best.pop() if len(best) == 1 else None
    else:
        place = int(table.mean(axis=0).argmax())
        values, cost = table[:, place], float(costs[place])
    spread = round(float(values.std(ddof=1)), 3) if len(values) > 1 else None
    return Figure(round(float(values.mean()), 3), spread, len(values), gamma, cost)
