"""Write docs/benchmarks.md and its plots from the saved results: `python benchmarks/report.py`, or `--check` to only compare the text.

The document holds prose and, between a pair of markers for each benchmark, tables that nobody edits by hand.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["BENCHMARKS", "DOCUMENT", "RESULTS", "figure", "paragraphs", "renew", "save", "section", "table"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
BENCHMARKS = (
    "build",
    "defaults",
    "search",
    "peers",
    "margins",
    "cosines",
    "million",
    "mixed",
    "hashing",
    "tune",
    "features",
    "other_sets",
    "kernels",
    "objects",
    "images",
    "series_and_points",
    "payload_index",
    "restart",
    "service",
    "snapshots",
    "cluster",
    "capacity",
    "capacity_check",
    "against",
)
"""In the order in which they run and stand in the document."""
APART = {"millions": "million"}
"""Results that take longer than a run of all, and whose they are: `million.py --rows`."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(figure(cell) for cell in line) + " |" for line in lines)


def figure(value: object, figures: int = 3) -> str:
    """A number as a reader wants it: so many figures, thousands separated; None is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10 ** (figures - 1) else f"{value:#.{figures}g}".rstrip(".")
    raise TypeError(f"a cell is text or a number, not {type(value).__name__}")


def section(saved: dict[str, Any], render: Callable[[dict[str, Any]], str]) -> str:
    """The tables of a result, and what they were measured on."""
    machine, versions = saved["machine"], saved["versions"]
    hardware = f"{machine['processor']} ({machine['instructions']}, {machine['cores']} cores), {machine['memory_gib']} GiB"
    software = f"Python {versions['python']}, kinbin {versions['kinbin']} at {versions['commit']}"
    packages = ", ".join(f"{name} {version}" for name, version in versions.items() if name not in ("kinbin", "commit", "python"))
    stamp = (
        f"{saved['date']}, {hardware}, {machine['system']}, {machine['file_system']}; {software}, {packages}. "
        f"Took {figure(saved['seconds'])} s, in which other programs used {figure(saved['others_cores'])} cores."
    )
    warning = ("**A quick run on little data: its figures mean nothing.**",) if saved["quick"] else ()
    return paragraphs(render(saved["result"]), *warning, stamp)


def paragraphs(*parts: str) -> str:
    """Tables and sentences with a blank line between."""
    return "\n\n".join(parts)


def save(saved: dict[str, Any], folder: Path) -> None:
    """Write a result, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{saved['benchmark']}.json.tmp"
    draft.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(folder / f"{saved['benchmark']}.json")


def replaced(document: str, name: str, text: str) -> str:
    """The document with other text between the markers of a benchmark."""
    begin, end = f"<!-- results of {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    new, count = pattern.subn(lambda _: f"{begin}\n\n{text}\n\n{end}", document)
    if count != 1:
        raise ValueError(f"{DOCUMENT.name} has {count} places for {name}, it needs one: {begin} … {end}")
    return new


def renew(name: str, text: str) -> None:
    """Put a benchmark's section into the document."""
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def written(document: str, results: Path) -> str:
    """The document with the sections of all results of a folder."""
    for name in (*BENCHMARKS, *APART):
        file = results / f"{name}.json"
        if file.exists():
            text = section(json.loads(file.read_text(encoding="utf-8")), importlib.import_module(APART.get(name, name)).render)
        else:
            text = f"Not measured yet: `python benchmarks/{APART.get(name, name)}.py`."
        document = replaced(document, name, text)
    return document


def draw(results: Path) -> None:
    """Draw the plots of all results of a folder, of benchmarks that have some."""
    for name in BENCHMARKS:
        file = results / f"{name}.json"
        plots = getattr(importlib.import_module(name), "draw", None)
        if plots is not None and file.exists():
            plots(json.loads(file.read_text(encoding="utf-8"))["result"])


def main() -> int:
    """Write the document, or compare it; 1 when it differs from the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the document is not what the results say")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    old = DOCUMENT.read_text(encoding="utf-8")
    new = written(old, given.results)
    if given.check:
        print(f"{DOCUMENT.name} {'holds' if new == old else 'does not hold'} what the results say")
        return int(new != old)
    DOCUMENT.write_text(new, encoding="utf-8")
    draw(given.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
