"""The generated parts of docs/papers.md, from a summary and from nothing else."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from papers.drawing import draw
from papers.features import LINEARISATIONS
from papers.ledger import FILE, read
from papers.plan import BITS, COMPARED, FIGURE_2, FIGURES_4_TO_7, NYSTROEM, SAMPLES
from papers.published import PAPERS
from papers.reasons import REASONS
from papers.sets import DRAWN_FROM, SETS
from papers.summary import Figure, Summary, summarised
from report import table

__all__ = ["DOCUMENT", "RESULT", "TITLES", "parts", "saved", "write", "written"]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "papers.md"
RESULT = ROOT / "benchmarks" / "results" / "papers.json"
AGREES = 1.0
"""Points of accuracy."""
NEAR = 2.0
"""A linearisation has enough samples when it is so near to its kernel machine."""
TITLES: Final = {
    "linear": "linear",
    "rbf": "RBF (γ)",
    "frbf": "fRBF (γ)",
    "gmm": "GMM",
    "ngmm": "NGMM",
    "gint": "GInt",
    "acos": "acos",
    "acos_chi2": "acos-χ²",
    "gmm*acos": "MM-acos",
    "gmm*acos_chi2": "MM-acos-χ²",
}
_KERNEL_OF: Final = {
    "gcws-gmm": "gmm",
    "rff": "rbf",
    "folded-rff": "frbf",
    "signs-gaussian": "acos",
    "signs-cauchy": "acos_chi2",
    "gcws-acos": "gmm*acos",
    "gcws-acos_chi2": "gmm*acos_chi2",
    "nys-gmm": "gmm",
    "nys-rbf": "rbf",
}


def write(folder: Path) -> None:
    """Save the summary of a folder's finished cells, with the figures of before that they do not show; write document and plots from it."""
    cells, _ = read(folder / FILE)
    summary = saved().with_more(cells) if RESULT.exists() else summarised(cells)
    draft = RESULT.with_suffix(".tmp")
    draft.write_text(_lines(summary.as_data()), encoding="utf-8")
    draft.replace(RESULT)
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), summary), encoding="utf-8")
    draw(summary, DOCUMENT.parent / "papers")


def saved() -> Summary:
    """The summary that the document was written from."""
    return Summary.of_data(json.loads(RESULT.read_text(encoding="utf-8")))


def _lines(data: dict[str, object]) -> str:
    """JSON with a figure a line, so that differences can be read."""
    figures = data.pop("figures")
    assert isinstance(figures, list)
    head = json.dumps(data, ensure_ascii=False, indent=1)[:-2]
    body = ",\n".join("  " + json.dumps(figure, ensure_ascii=False) for figure in figures)
    return f'{head},\n "figures": [\n{body}\n ]\n}}\n'


def written(document: str, summary: Summary) -> str:
    """A document with other text between the markers of each part."""
    for name, text in parts(summary).items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        document, count = pattern.subn(functools.partial(_instead, f"{begin}\n\n{text}\n\n{end}"), document)
        if count != 1:
            raise ValueError(f"the document has {count} places for {name}, it needs one: {begin} … {end}")
    return document


def _instead(text: str, _match: re.Match[str]) -> str:
    return text


def parts(summary: Summary) -> dict[str, str]:
    """Text by the name of its markers."""
    return {
        "in short": _short(summary),
        "sets": _sets(summary),
        **{f"table of {paper}": _accuracies(summary, paper) for paper in PAPERS},
        **{f"differences of {paper}": _differences(summary, paper) for paper in PAPERS},
        "figure 2": _figure_2(summary),
        "passing linear": _passing(summary),
        "samples needed": _samples(summary),
        "figures 4 to 7": _curves(summary, "comparison", COMPARED, FIGURES_4_TO_7, SAMPLES["comparison"]),
        "figures of nystroem": _curves(summary, "nystroem", SETS["nystroem"], NYSTROEM, SAMPLES["nystroem"]),
        "run": _run(summary),
    }


def _short(summary: Summary) -> str:
    """An answer to each question of the page."""
    kernels = [(paper, *one) for paper in PAPERS for one in _compared(summary, paper) if one[1] != "linear"]
    known = [one for one in kernels if SETS[one[0]][one[1]].split not in ("random", "balanced", "sampled")]
    answer = "{} of {} accuracies are within a point, of sets with a known split {} of {}; the others are listed with a reason"
    near, near_known = (sum(not _differs(figure, value) for *_, figure, value in found) for found in (kernels, known))
    lines = [
        [
            "Do kernel machines reach what the papers print?",
            answer.format(near, len(kernels), near_known, len(known)),
        ],
        ["Do hashes of NGMM with a linear machine pass a linear machine on the rows, at small k?", _passed(summary)],
        [f"How many samples does a linearisation need, to come within {NEAR:g} points of its kernel?", _enough(summary)],
        ["Which features are best at small k?", _at_small_k(summary)],
    ]
    return table(["question", "answer"], lines).replace("---:", "---")


def _passed(summary: Summary) -> str:
    least = []
    for name in FIGURE_2:
        linear = summary.figure("gint", name, "linear")
        curve = [(k, summary.figure("gint", name, "gcws-ngmm", k, BITS[0])) for k in SAMPLES["gint"]]
        if linear is not None and curve[0][1] is not None:
            least.append(_least(curve, linear.mean))
    counts = [f"{sum(one.isdigit() and int(one) <= k for one in least)} with k = {k}" for k in SAMPLES["gint"]]
    return f"of {len(least)} sets, b = {BITS[0]}: " + ", ".join(counts)


def _needed(summary: Summary, name: str, method: str, bits: int) -> str:
    """The least k that comes near the kernel machine; "> k" if the largest measured does not."""
    machine = summary.figure("comparison", name, _KERNEL_OF[method])
    curve = [(k, summary.figure("comparison", name, method, k, bits)) for k in (*SAMPLES["comparison"], 4096)]
    while curve and curve[-1][1] is None:
        curve.pop()
    if machine is None or not curve:
        return "–"
    least = _least(curve, machine.mean - NEAR)
    return f"> {curve[-1][0]}" if least == "none" else least


def _enough(summary: Summary) -> str:
    few = 256
    counts = []
    for method, bits in FIGURES_4_TO_7.items():
        needed = [one for name in COMPARED if (one := _needed(summary, name, method, bits)) != "–"]
        counts.append(f"{LINEARISATIONS[method].title} on {sum(one.isdigit() and int(one) <= few for one in needed)} of {len(needed)}")
    return f"at most {few} samples suffice {'; '.join(counts)}"


def _at_small_k(summary: Summary) -> str:
    found = []
    for name in SETS["nystroem"]:
        for k in (64, 256):
            points = [
                (LINEARISATIONS[method].title, summary.figure("nystroem", name, method, k, bits)) for method, bits in NYSTROEM.items()
            ]
            if all(figure is not None for _, figure in points):
                found.append(f"{name}, k = {k}: " + ", ".join(f"{title} {_shown(figure)}" for title, figure in points))
    return "; ".join(found) or "not measured"


def _sets(summary: Summary) -> str:
    lines = []
    for paper, rows in SETS.items():
        for name, public in rows.items():
            train, test, features = summary.rows.get(f"{paper}/{name}", (None, None, None))
            split = DRAWN_FROM[public.split]
            lines.append([name, paper, f"`{public.file}.npz`", public.source, train, test, features, split, public.scaling])
    header = ["row of the paper", "paper", "file", "from", "train", "test", "features", "training rows", "scaling"]
    return table(header, lines).replace("---:", "---")


def _shown(figure: Figure | None, digits: int = 1) -> str:
    if figure is None:
        return "–"
    spread = "" if figure.spread is None else f" ± {figure.spread:.{digits}f}"
    return f"{figure.mean:.{digits}f}{spread}"


def _against(figure: Figure | None, paper: float) -> str:
    """Ours, then the paper's; bold where they differ by more than a point."""
    if figure is None:
        return f"– / {paper:.1f}"
    gamma = "" if figure.gamma is None else f" ({figure.gamma:g})"
    text = f"{_shown(figure)}{gamma} / {paper:.1f}"
    return f"**{text}**" if _differs(figure, paper) else text


def _differs(figure: Figure, paper: float) -> bool:
    # As they are printed.
    return abs(round(figure.mean, 1) - round(paper, 1)) > AGREES + 1e-9


def _accuracies(summary: Summary, paper: str) -> str:
    described = PAPERS[paper]
    lines = [
        [name, *(_against(summary.figure(paper, name, method), value) for method, value in zip(described.methods, row, strict=True))]
        for name, row in described.rows.items()
    ]
    return table(["ours / the paper's", *(TITLES[method] for method in described.methods)], lines)


def _compared(summary: Summary, paper: str) -> Iterator[tuple[str, str, Figure, float]]:
    described = PAPERS[paper]
    for name, row in described.rows.items():
        for method, value in zip(described.methods, row, strict=True):
            figure = summary.figure(paper, name, method)
            if figure is not None:
                yield name, method, figure, value


def _differences(summary: Summary, paper: str) -> str:
    """How many figures agree, and a reason for each set that does not."""
    found = list(_compared(summary, paper))
    apart = [one for one in found if _differs(one[2], one[3])]
    kernels = [one for one in found if one[1] != "linear"]
    agreeing = sum(not _differs(one[2], one[3]) for one in kernels)
    text = f"{agreeing} of {len(kernels)} accuracies of kernel machines, and {_linear(found)} of linear ones, agree within a point."
    lines = []
    for name in dict.fromkeys(one[0] for one in apart):
        which = ", ".join(f"{TITLES[method].split()[0]} {figure.mean - value:+.1f}" for of, method, figure, value in apart if of == name)
        lines.append([name, which, REASONS.get((paper, name), "not explained")])
    return text if not lines else f"{text}\n\n" + table(["set", "ours less the paper's", "why"], lines).replace("---:", "---")


def _linear(found: list[tuple[str, str, Figure, float]]) -> str:
    linear = [one for one in found if one[1] == "linear"]
    return f"{sum(not _differs(one[2], one[3]) for one in linear)} of {len(linear)}"


def _figure_2(summary: Summary) -> str:
    header = ["0-bit GCWS of NGMM, b = 8", "linear SVM", *(f"k = {k}" for k in SAMPLES["gint"]), "NGMM SVM", "of GMM, k = 1024", "GMM SVM"]
    lines = []
    for name in FIGURE_2:
        curve = [summary.figure("gint", name, "gcws-ngmm", k, 8) for k in SAMPLES["gint"]]
        of_gmm = summary.figure("gint", name, "gcws-gmm", SAMPLES["gint"][-1], 8)
        machines = [summary.figure("gint", name, method) for method in ("linear", "ngmm", "gmm")]
        lines.append([name, *map(_shown, [machines[0], *curve, machines[1], of_gmm, machines[2]])])
    return table(header, lines)


def _passing(summary: Summary) -> str:
    """The least k whose mean is above that of the linear machine."""
    lines = []
    for name in FIGURE_2:
        linear = summary.figure("gint", name, "linear")
        if linear is None:
            continue
        cells = []
        for method in ("gcws-ngmm", "gcws-gmm"):
            for bits in BITS:
                curve = [(k, summary.figure("gint", name, method, k, bits)) for k in SAMPLES["gint"]]
                cells.append(_least(curve, linear.mean))
        lines.append([name, _shown(linear), *cells])
    header = ["least k that passes it", "linear SVM", *(f"{kernel}, b = {bits}" for kernel in ("NGMM", "GMM") for bits in BITS)]
    return table(header, lines)


def _least(curve: Iterable[tuple[int, Figure | None]], floor: float) -> str:
    """The least k above a floor: "none" if all were measured and none is, a dash if some was not measured before."""
    for k, figure in curve:
        if figure is None:
            return "–"
        if figure.mean > floor:
            return str(k)
    return "none"


def _samples(summary: Summary) -> str:
    lines = [[name, *(_needed(summary, name, method, bits) for method, bits in FIGURES_4_TO_7.items())] for name in COMPARED]
    return table(["set", *(LINEARISATIONS[method].title for method in FIGURES_4_TO_7)], lines)


def _curves(summary: Summary, paper: str, names: Iterable[str], methods: dict[str, int], samples: Iterable[int]) -> str:
    samples = tuple(samples)
    lines = []
    for name in names:
        for method, bits in methods.items():
            curve = [summary.figure(paper, name, method, k, bits) for k in samples]
            lines.append([name, LINEARISATIONS[method].title, *map(_shown, curve), _shown(summary.figure(paper, name, _KERNEL_OF[method]))])
    return table(["set", "linearisation", *(f"k = {k}" for k in samples), "kernel SVM"], lines)


def _run(summary: Summary) -> str:
    """What was measured with what, and which parts of the usual plan were not, or not as often as planned."""
    done, planned = (sum(count[place] for count in summary.parts.values()) for place in (0, 1))
    minutes = summary.seconds / 60
    ran = f"Measured: {done:,} of {planned:,} cells of the usual run; all that is above took {minutes:,.0f} minutes of one core."
    text = f"{ran} With {_grouped(summary.versions)}."
    left = [[*name.split(" "), *count] for name, count in summary.parts.items() if count[0] < count[1]]
    if not left:
        return text
    return f"{text}\n\nNot run yet, or not with every repetition:\n\n" + table(["paper and set", "part", "cells run", "planned"], left)


def _grouped(versions: Iterable[str]) -> str:
    """Versions that differ in the commit only, together."""
    commits: dict[tuple[str, str], list[str]] = {}
    for version in versions:
        library, _, rest = version.partition(" at ")
        commit, _, others = rest.partition(", ")
        commits.setdefault((library, others), []).append(commit)
    return "; ".join(f"{library} at {', '.join(found)}, {others}" for (library, others), found in commits.items())
