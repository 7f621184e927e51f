"""Support vector machines at the best C, as the papers train them: LIBSVM with precomputed kernels, LIBLINEAR for linear ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from papers.sets import Labels, Matrix, Part

__all__ = ["Accuracies", "kernel_machines", "linear_machines"]

Accuracies = dict[float, float]
"""Test accuracy in per cent by C."""
Gram = Callable[[Matrix, Matrix], Matrix]
BLOCK = 1 << 25
"""Kernel values of test rows that are held at once: 256 MiB."""
ROUNDS = 1000
"""Rounds of LIBLINEAR for one class and C, as in its own programs."""


def kernel_machines(gram: Gram, part: Part, costs: Sequence[float]) -> Accuracies:
    """One `SVC` for each C over the kernel matrix (n, n) of the training rows, tested block by block.

    `gram(rows (a, d), others (b, d))` yields scores (a, b). Memory: n² and `BLOCK` float64. Cost: O(n²) to O(n³) for each C.
    """
    matrix = gram(part.X, part.X)
    machines = {cost: SVC(kernel="precomputed", C=cost, cache_size=1000).fit(matrix, part.y) for cost in costs}
    del matrix
    right = dict.fromkeys(costs, 0)
    step = max(1, BLOCK // part.y.size)
    for start in range(0, part.y_test.size, step):
        block = slice(start, start + step)
        scores = gram(part.X_test[block], part.X)
        for cost, machine in machines.items():
            right[cost] += int((machine.predict(scores) == part.y_test[block]).sum())
    return {cost: 100.0 * count / part.y_test.size for cost, count in right.items()}


def linear_machines(features: tuple[Any, Any], labels: tuple[Labels, Labels], costs: Sequence[float], rounds: int = ROUNDS) -> Accuracies:
    """One `LinearSVC` without intercept for each C over features (n, f) of training and test, dense or CSR.

    The hinge loss is the papers': with the squared one, letters are 6 points above what they print. The tolerance is that of LIBLINEAR's
    own programs. Cost: nonzeros times classes times rounds for each C.
    """
    (X, X_test), (y, y_test) = features, labels
    found = {}
    with warnings.catch_warnings():
        # Large C on rows that no plane divides: LIBLINEAR's programs, too, stop at some round and say so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for cost in costs:
            machine = LinearSVC(C=cost, loss="hinge", tol=0.1, dual=True, fit_intercept=False, max_iter=rounds, random_state=0).fit(X, y)
            found[cost] = 100.0 * float(np.mean(machine.predict(X_test) == y_test))
    return found
