"""`kinbin link`: the neighbour graph of one collection or of all, built now rather than in the background."""

from __future__ import annotations

import signal
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbin_service.cli.options import DEFAULT_DATA, DataOption, JsonOption, existing_database
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, print_json, tell
from kinbin_service.cli.place import DatabasePlace

if TYPE_CHECKING:
    from rich.console import Console

    import kinbin
    from kinbin_service.importing.progress import Watch

__all__ = ["link_command"]


def link_command(
    data: DataOption = DEFAULT_DATA,
    collections: Annotated[
        list[str] | None, typer.Option("--collection", metavar="NAME", help="Only this collection; may be repeated; default: all of them.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Link every row of a collection now: seal and merge it, and build its neighbour graph.

    A process that serves a collection of 4,096 rows or more links it by itself, some seconds after the last write; this does it at
    once, as after an import. It may run beside a service, and waits while another process links. Rows that are linked already are
    not linked again. However it ends early, the collection is complete and keeps the links it had.
    """
    with failing_in_one_line(as_json), existing_database(data) as database:
        names = list(dict.fromkeys(collections)) if collections else database.collections()
        there = DatabasePlace(database, str(data))
        found = [there.collection(name) for name in names]
        console = error_console()
        reports = {}
        for collection in found:
            try:
                reports[collection.name] = _link(collection, console)
            except KeyboardInterrupt:
                raise Failure(f"linking {collection.name} was broken off; the links it had stay", 128 + signal.SIGINT) from None
            if not as_json:
                _show(collection.name, reports[collection.name])
    if as_json:
        print_json(reports)
    elif not reports:
        typer.echo(f"{data} holds no collections")


def _link(collection: kinbin.Collection, console: Console) -> dict[str, Any]:
    """Link a collection, following it on the console; what came of it."""
    from kinbin_service.importing import watch

    tell(console, f"{collection.name}: merging")
    began = perf_counter()
    if "fields" in collection.stats():
        collection.link()
        seconds = perf_counter() - began
        return {"fields": {name: _reported(one["links"], 0, seconds) for name, one in collection.stats()["fields"].items()}}
    with watch(console) as bar:
        followed = _Followed(bar, collection.name)
        collection.link(progress=followed)
    seconds = perf_counter() - began
    return _reported(collection.stats()["links"], followed.linked, seconds)


def _reported(links: dict[str, Any] | None, new_rows: int, seconds: float) -> dict[str, Any]:
    """What came of linking."""
    report: dict[str, Any] = {"rows": 0 if links is None else links["rows"], "new_rows": new_rows, "seconds": round(seconds, 3)}
    if links is not None:
        report |= {name: links[name] for name in ("code_bytes", "links_per_row", "pool")}
        report["recall"] = _calibrated_recall(links)
    return report


class _Followed:
    """Rows linked, as a bar is told of them: how many there are to link is known with the first call."""

    def __init__(self, bar: Watch, name: str) -> None:
        self._bar, self._name = bar, name
        self._started = False
        self.linked = 0

    def __call__(self, linked: int, to_link: int) -> None:
        if not self._started:
            self._started = True
            self._bar.start(f"{self._name}: linking", to_link, 0)
        self._bar.advance(linked, linked - self.linked)
        self.linked = linked


def _calibrated_recall(links: dict[str, Any]) -> float:
    """The recall of the ten nearest that the pool in use had when it was calibrated (of the widest one below it)."""
    calibration: list[dict[str, Any]] = links["calibration"]
    known = [one for one in calibration if one["pool"] <= links["pool"]] or calibration[:1]
    return float(known[-1]["recall@10"])


def _show(name: str, report: dict[str, Any]) -> None:
    if "fields" in report:
        for field, one in report["fields"].items():
            _show(f"{name}, field {field}", one)
        return
    if not report["rows"]:
        typer.echo(f"{name}: there are no rows to link")
        return
    done = f"{report['rows']:,} rows linked ({report['new_rows']:,} of them new) in {report['seconds']:,.1f} s"
    size = f"{report['code_bytes']} code bytes and {report['links_per_row']:g} links a row"
    typer.echo(f"{name}: {done}: {size}; pool {report['pool']} for target_recall 0.9, recall {report['recall']:.3f} when calibrated")
