"""The papers' figures, as SVG: accuracy against the number of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from papers.features import LINEARISATIONS
from papers.plan import BITS, COMPARED, FIGURE_2, FIGURES_4_TO_7, NYSTROEM, SAMPLES
from papers.sets import SETS
from papers.summary import Summary
from plots import COLOURS, MARKERS

__all__ = ["draw"]

Panel = Callable[[Any, str], None]
_COLUMNS = 4


def draw(summary: Summary, folder: Path) -> None:
    """Write figure-2.svg, figures-4-to-7.svg and nystroem.svg: the same summary gives the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    figure_2, compared, nystroem = _figure_2(summary), _compared(summary), _nystroem(summary)
    _panels(FIGURE_2, figure_2, folder / "figure-2.svg")
    _panels(COMPARED, compared, folder / "figures-4-to-7.svg")
    _panels(tuple(SETS["nystroem"]), nystroem, folder / "nystroem.svg")


def _panels(names: Sequence[str], panel: Panel, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    with mpl.rc_context({"svg.hashsalt": "kinbin", "svg.fonttype": "none", "font.size": 8, "font.sans-serif": ["DejaVu Sans"]}):
        figure = Figure(figsize=(max(3.0 * columns, 7.5), 2.5 * lines + 0.7), layout="constrained")
        for place, name in enumerate(names, 1):
            axes: Any = figure.add_subplot(lines, columns, place)
            # Before there is anything in it: a new scale forgets its ticks.
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
            panel(axes, name)
            # Levels lie at 0 and 1; all other lines at numbers of samples.
            ticks = sorted({int(k) for line in axes.lines for k in line.get_xdata() if k > 1})
            axes.set_xticks(ticks, [str(k) for k in ticks])
            axes.set_title(name)
            axes.grid(visible=True, linewidth=0.3)
            axes.tick_params(bottom=False, left=False)
            axes.locator_params(axis="y", nbins=5)
            if place > len(names) - columns:
                axes.set_xlabel("samples k")
            if place % columns == 1:
                axes.set_ylabel("test accuracy, %")
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
        figure.savefig(path, metadata={"Date": None})


def _curve(axes: Any, points: Sequence[tuple[int, float]], **style: Any) -> None:
    if points:
        axes.plot(*zip(*points, strict=True), linewidth=1.2, markersize=3, **style)


def _points(summary: Summary, key: tuple[str, str, str], samples: Sequence[int], bits: int) -> list[tuple[int, float]]:
    found = ((k, summary.figure(*key, k, bits)) for k in samples)
    return [(k, figure.mean) for k, figure in found if figure is not None]


def _level(axes: Any, summary: Summary, key: tuple[str, str, str], **style: Any) -> None:
    figure = summary.figure(*key)
    if figure is not None:
        axes.axhline(figure.mean, linewidth=1.0, **style)


def _figure_2(summary: Summary) -> Panel:
    def panel(axes: Any, name: str) -> None:
        for bits, colour in zip(BITS, COLOURS[1:], strict=False):
            for method, dashes in (("gcws-ngmm", "-"), ("gcws-gmm", "--")):
                kernel = "NGMM" if method == "gcws-ngmm" else "GMM"
                points = _points(summary, ("gint", name, method), SAMPLES["gint"], bits)
                _curve(axes, points, color=colour, linestyle=dashes, label=f"GCWS of {kernel}, b = {bits}")
        _level(axes, summary, ("gint", name, "linear"), color="#d55e00", linestyle=":", label="linear SVM")
        _level(axes, summary, ("gint", name, "ngmm"), color="#000000", linestyle=":", label="NGMM SVM")

    return panel


def _several(summary: Summary, paper: str, methods: dict[str, int], samples: Sequence[int]) -> Panel:
    def panel(axes: Any, name: str) -> None:
        for (method, bits), colour, marker in zip(methods.items(), COLOURS, MARKERS, strict=False):
            points = _points(summary, (paper, name, method), samples, bits)
            _curve(axes, points, color=colour, marker=marker, label=LINEARISATIONS[method].title)
        _level(axes, summary, (paper, name, "linear"), color="#7f7f7f", linestyle=":", label="linear SVM")
        _level(axes, summary, (paper, name, "gmm"), color="#000000", linestyle=":", label="GMM SVM")

    return panel


def _compared(summary: Summary) -> Panel:
    return _several(summary, "comparison", FIGURES_4_TO_7, (*SAMPLES["comparison"], 4096))


def _nystroem(summary: Summary) -> Panel:
    return _several(summary, "nystroem", NYSTROEM, SAMPLES["nystroem"])
