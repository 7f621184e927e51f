"""Measuring the table of costs again, on the machine at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from kinbin.calibrate.bands import band_costs, far_posting_cost, fresh_costs, posting_cost, short_posting_cost, verify_cost
from kinbin.calibrate.codes import code_costs, entry_cost, far_line_cost, walk_costs
from kinbin.calibrate.fit import Measured
from kinbin.calibrate.rows import hash_cost, scan_costs
from kinbin.costs import Costs

__all__ = ["measure_costs"]

# What an experiment subtracts was measured by one before it.
_EXPERIMENTS = (
    scan_costs, hash_cost, band_costs, posting_cost, far_posting_cost, short_posting_cost, verify_cost, fresh_costs, code_costs,
    entry_cost, walk_costs, far_line_cost,
)  # fmt: skip


def measure_costs(progress: Callable[[int, int], None] | None = None, *, scale: float = 1.0) -> dict[str, float]:
    """Nanoseconds by name, of every cost of `Costs` that could be measured; the others are left out.

    Each is the coefficient of a fit to medians of repeated runs, on generated data, in one thread. It is left out if it is not
    positive, if its quartiles over the runs stay more than 30 % apart when that is repeated, or if it rests on one that was left
    out. progress: told of experiments done, and of how many; what it raises ends the measurement. scale: of the data; below 1
    what is measured fits into caches, and says little.

    Cost: half a minute, two on a machine that is busy with something else; more where kernels have to be compiled. 600 MB.
    """
    measured = Measured(scale)
    for done, experiment in enumerate(_EXPERIMENTS):
        if progress is not None:
            progress(done, len(_EXPERIMENTS))
        experiment(measured)
    if progress is not None:
        progress(len(_EXPERIMENTS), len(_EXPERIMENTS))
    return {one.name: measured.costs[one.name] for one in fields(Costs) if one.name in measured.costs}
