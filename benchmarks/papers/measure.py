"""The test accuracy of a cell at every C."""

from __future__ import annotations

import time
from functools import cache
from importlib.metadata import version
from pathlib import Path

from papers.features import gram, linearise, takes_negative, unit_length
from papers.ledger import Finished
from papers.machines import Accuracies, kernel_machines, linear_machines
from papers.plan import Cell
from papers.sets import SETS, Part, doubled, load

__all__ = ["COSTS", "measured", "versions"]

COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
ROUNDS_OF_FEATURES = 100
"""Of LIBLINEAR on linearised rows, where 1,000 take minutes for many classes and a large C."""


def measured(cell: Cell, folder: Path, commit: str) -> Finished:
    """Train and test a cell on the data sets of a folder.

    Raises:
        FileNotFoundError: the set is not there.
    """
    start = time.process_time()
    part = load(SETS[cell.paper][cell.set], folder, cell.repetition)
    accuracies = _linear(cell, part) if cell.k or cell.method == "linear" else _kernel(cell, part)
    return Finished(
        cell.key,
        {f"{cost:g}": round(accuracy, 3) for cost, accuracy in accuracies.items()},
        round(time.process_time() - start, 2),
        (part.y.size, part.y_test.size, part.X.shape[1]),
        versions(commit),
    )


def _kernel(cell: Cell, part: Part) -> Accuracies:
    return kernel_machines(gram(cell.method, cell.gamma), part if takes_negative(cell.method) else doubled(part), COSTS)


def _linear(cell: Cell, part: Part) -> Accuracies:
    labels = part.y, part.y_test
    if not cell.k:
        return linear_machines((unit_length(part.X), unit_length(part.X_test)), labels, COSTS)
    features = linearise(cell.method, part, (cell.k, cell.bits), cell.gamma or 1.0, cell.repetition)
    return linear_machines(features, labels, COSTS, ROUNDS_OF_FEATURES)


@cache
def versions(commit: str) -> str:
    """What a figure was measured with."""
    return f"kinbin {version('kinbin')} at {commit}, scikit-learn {version('scikit-learn')}"
