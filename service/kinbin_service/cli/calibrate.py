"""`kinbin calibrate`: what things take on this machine, and a file of it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from kinbin_service.cli.options import JsonOption
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, output_console, print_json, tell

__all__ = ["calibrate_command"]

WriteOption = Annotated[
    Path | None, typer.Option("--write", metavar="FILE", help="Write what was measured to this file, for KINBIN_COSTS; replaces it.")
]


def calibrate_command(write: WriteOption = None, as_json: JsonOption = False) -> None:
    """Measure what things take on this machine: the costs by which ways to answer a query are weighed.

    Takes half a minute to two and 600 MB, on generated data; run it while the machine does nothing else. Nothing is stored without --write.
    A process that finds the file's name in KINBIN_COSTS takes these costs in place of the shipped ones. Answers keep what they
    promise with any costs: they decide by which way a query is answered, not what is true of the answer.
    """
    with failing_in_one_line(as_json):
        if write is not None and (write.is_dir() or not write.parent.is_dir()):
            raise Failure(f"--write {write}: it has to name a file in a directory that is there", kind="usage")
        measured = _measured()
        if write is not None:
            write.write_bytes(orjson.dumps(measured, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        _show(measured, write, as_json)


def _measured() -> dict[str, float]:
    """The costs, to three digits, followed on standard error. Raises Failure if there is none."""
    import kinbin

    console = error_console()
    with kinbin.showing_compilation(console) as progress:
        kinbin.warm_up(progress)
    with console.status("measuring") as status:
        found = kinbin.measure_costs(lambda done, total: status.update(f"measuring: {done} of {total} experiments"))
    if not found:
        raise Failure("no cost could be measured: the machine is too busy")
    return {name: float(f"{ns:.3g}") for name, ns in found.items()}


def _show(measured: dict[str, float], write: Path | None, as_json: bool) -> None:
    """Print every cost, shipped and measured, and what to do with the file."""
    from rich.table import Table

    from kinbin import Costs

    rows = {one.name: _row(one.metadata["text"], getattr(Costs(), one.name), measured.get(one.name)) for one in fields(Costs)}
    left_out = [name for name in rows if name not in measured]
    if as_json:
        print_json({"costs": rows, "not_measured": left_out, "written": None if write is None else str(write)})
        return
    table = Table("cost", "what it is", "shipped", "measured", "ratio", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for name, row in rows.items():
        table.add_row(name, row["text"], *("–" if row[key] is None else f"{row[key]:g}" for key in ("shipped", "measured", "ratio")))
    console = output_console()
    console.print(table)
    tell(console, "Nanoseconds. Ratios count, not times: where all are alike, the shipped costs decide as these do.")
    if left_out:
        tell(console, f"Could not be measured well enough, and keep their shipped values: {', '.join(left_out)}.")
    if write is None:
        tell(console, "Nothing was written: --write FILE keeps the costs, for processes with KINBIN_COSTS=FILE in their environment.")
    else:
        tell(console, f"Wrote {write}: processes with KINBIN_COSTS={write.absolute()} in their environment take these costs.")


def _row(text: str, shipped: float, measured: float | None) -> dict[str, Any]:
    return {"text": text, "shipped": shipped, "measured": measured, "ratio": None if measured is None else round(measured / shipped, 2)}
