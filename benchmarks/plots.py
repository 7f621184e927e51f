"""Plots of recall against queries a second, as SVG and PNG; the same results give the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["curves"]

COLOURS = ("#000000", "#009e73", "#0072b2", "#56b4e9", "#7f7f7f", "#d55e00", "#e69f00", "#cc79a7", "#8c510a", "#5e3c99", "#999933")
"""After Okabe and Ito (2008), so that they can be told apart without seeing colours well."""
MARKERS = "osD^v<>PX*p"
LEAST_SHOWN = 0.8
"""The plot begins at this recall, or lower where a system's best would not be seen."""
TICKS = (0.1, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 1.0)
_NEARLY_ALL = 1.001
"""The axis is the logarithm of what is missing of this recall: it spreads what is near 1 and still holds 1."""


def _spread_out(recall: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.log(np.maximum(_NEARLY_ALL - recall, 1e-6))


def _drawn_in(place: NDArray[np.float64]) -> NDArray[np.float64]:
    return _NEARLY_ALL - np.exp(-place)


def curves(points: Mapping[str, Sequence[tuple[float, float]]], title: str, path: Path) -> None:
    """Draw (recall, queries/s) of each system's settings, queries/s on a logarithmic axis, into PATH.svg and PATH.png."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "kinbin", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 6.5), layout="constrained")
        axes = figure.add_subplot()
        for (system, settings), colour, marker in zip(points.items(), COLOURS, MARKERS, strict=False):
            recalls, rates = zip(*settings, strict=True)
            width = 2.0 if system.startswith("Kinbin") else 1.0
            axes.plot(recalls, rates, color=colour, marker=marker, markersize=5, linewidth=width, label=system)
        axes.set_yscale("log")
        axes.set_xscale("function", functions=(_spread_out, _drawn_in))
        least = min(LEAST_SHOWN, *(max(settings)[0] - 0.02 for settings in points.values()))
        axes.set_xlim(least, _NEARLY_ALL * 0.9998)
        axes.set_xticks([tick for tick in TICKS if tick >= least], [f"{tick:g}" for tick in TICKS if tick >= least])
        axes.set(xlabel="recall@10", ylabel="queries a second, one thread", title=title)
        axes.grid(visible=True, which="both", linewidth=0.3)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
