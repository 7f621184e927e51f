"""What walks of each width are expected to find and to take: what calibration measured when the links were built."""

from __future__ import annotations

from kinbin.costs import COSTS
from kinbin.links.widths import CALIBRATED_K
from kinbin.query.plan import LinkPlan
from kinbin.tuning.records import WalkForecast

__all__ = ["walks_of"]


def walks_of(plan: LinkPlan | None, k: int, taking: tuple[float, float]) -> tuple[WalkForecast, ...]:
    """One forecast for each width that was calibrated; none without links. taking: ns that scoring a row, and making an answer, take."""
    if plan is None:
        return ()
    table = plan.links.set.calibration
    compare_ns, row_ns, naming_ns = COSTS.node + plan.links.set.compare_ns, *taking
    begin_ns = COSTS.walk + plan.rest_ns + naming_ns
    recalls = table.recall_for(min(k, CALIBRATED_K[-1])).tolist()
    return tuple(
        WalkForecast(pool, round(recall, 5), round((begin_ns + table.met_at(pool) * compare_ns + pool * row_ns) / 1e3, 2))
        for pool, recall in zip(table.pools.tolist(), recalls, strict=True)
        if pool >= k
    )
