"""`kinbin stats` and `kinbin check`: what is stored, and whether it is whole. They change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kinbin_service.cli.options import (
    DEFAULT_DATA,
    CollectionOption,
    DataOption,
    JsonOption,
    PlaceDataOption,
    UrlOption,
    existing_database,
    on,
)
from kinbin_service.cli.output import failing_in_one_line, one_line, output_console, print_json, tell
from kinbin_service.cli.place import DatabasePlace, Place, missing, place

if TYPE_CHECKING:
    import kinbin

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["check_command", "stats_command"]


# ------------------------------------------------------------------------------------------ stats


def stats_command(
    data: PlaceDataOption = None, url: UrlOption = None, collection: CollectionOption = None, as_json: JsonOption = False
) -> None:
    """Show what is stored: items, rows, runs and bytes of every collection, or all about one.

    Without --collection, exit code 1 when one is damaged.
    """
    with failing_in_one_line(as_json), place(data, url) as there:
        if collection is None:
            _overview(there, as_json)
            return
        found = there.collection(collection).stats()
    if as_json:
        print_json(found)
    else:
        _show_stats(collection, found)


_OF_ONE_COLLECTION = ("corrupt_data", "format_mismatch", "storage_error", "storage_busy")
"""Errors that say nothing of the other collections."""


def _overview(there: Place, as_json: bool) -> None:
    """A line about every collection; of damaged ones what is damaged."""
    found: dict[str, dict[str, Any]] = {}
    failed: dict[str, dict[str, str]] = {}
    for name in there.names():
        try:
            found[name] = there.collection(name).stats()
        except Exception as error:
            code = getattr(error, "code", "")
            if code not in _OF_ONE_COLLECTION:
                raise
            failed[name] = {"code": code, "message": str(error)}
    # A service may show a key some of its collections only.
    aliases = _problem_of_aliases(there.database) if isinstance(there, DatabasePlace) else ""
    if as_json:
        print_json(found | {name: {"error": error} for name, error in failed.items()})
    else:
        _show_overview(there.where, found, failed)
    if aliases:
        # A collection may be named so: the JSON has no place for it.
        typer.echo(f"aliases: DAMAGED: {one_line(aliases)}", err=True)
    if failed or aliases:
        raise typer.Exit(1)


def _show_overview(where: str, found: dict[str, dict[str, Any]], failed: dict[str, dict[str, str]]) -> None:
    from rich.table import Table

    if not found and not failed:
        typer.echo(f"{where} holds no collections")
        return
    table = Table("collection", "items", "of", "kernel", "dim", "runs", "size", box=None, pad_edge=False)
    for column in (1, 5, 6):
        table.columns[column].justify = "right"
    for name, about in found.items():
        if "fields" in about:
            fields = about["fields"].values()
            kernels, runs = ", ".join(one["kernel"] for one in fields), sum(len(one["runs"]) for one in fields)
            table.add_row(name, _count(about), "vectors", kernels, f"{len(fields)} fields", str(runs), _size(about["bytes"]))
            continue
        items = about.get("items", "vectors")
        dim = str(about["dim"]) if about["dim"] is not None else "sparse" if items == "vectors" else "–"
        table.add_row(name, _count(about), items, about["kernel"], dim, str(len(about["runs"])), _size(about["bytes"]))
    console = output_console()
    if found:
        console.print(table)
    for name, error in failed.items():
        tell(console, f"{name}: {'DAMAGED' if error['code'] == 'corrupt_data' else 'NOT READ'}", "bold red")
        tell(console, f"  {one_line(error['message'])}")


def _count(about: dict[str, Any]) -> str:
    """Items; in a cluster with the number of shards that nobody tells of, whose items are not among them."""
    missing = sum(shard["stats"] is None for shard in about.get("shards", ()))
    return f"{about['count']:,}" + f" ({missing} shards missing)" * bool(missing)


def _show_stats(name: str, about: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = output_console()
    tell(console, name, "bold")
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in about.items():
        if key in {"runs", "links", "background", "fields", "depths", "shards", "pools"}:
            continue
        table.add_row(f"  {key}", Text(_size(value) if key == "bytes" else _shown(value)))
    console.print(table)
    _show_rows(console, "shards", [_shard(one) for one in about.get("shards", ())])
    if "fields" in about:
        _show_rows(console, "depths of candidates", [{"asked": key, **one} for key, one in about.get("depths", {}).items()])
        for one, stats in about["fields"].items():
            _show_stats(f"{name}, field {one}", stats)
        return
    _show_rows(console, "runs, oldest first", about["runs"])
    links = about.get("links")  # in a cluster each shard has its own
    if links is not None:
        _show_rows(console, "links", [{key: value for key, value in links.items() if key != "calibration"}])
        _show_rows(console, "recall of walks, calibrated", links["calibration"])
    if about.get("pools") is not None:
        _show_pools(console, about["pools"])


def _shown(value: Any) -> str:
    """A value of the statistics, for people."""
    if value is None or (isinstance(value, dict | list) and not value):
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _show_pools(console: Console, pools: dict[str, Any]) -> None:
    """What finds near objects: the index, what its rows are made by, and the recall that was measured of each pool."""
    _show_rows(console, "pool index", [{key: value for key, value in pools.items() if key not in {"settings", "tried", "calibration"}}])
    _show_rows(console, "rows tried", [{"rows": name, "recall": recall} for name, recall in pools["tried"].items()])
    _show_rows(console, "settings", [{"name": name, "value": value} for name, value in pools["settings"].items()])
    measured = pools["calibration"]
    lines = [
        {"pool": pool, "us": us} | {f"recall@{k}": recall[i] for k, recall in measured["recall"].items()}
        for i, (pool, us) in enumerate(zip(measured["pools"], measured["us"], strict=True))
    ]
    _show_rows(console, "recall of pools, calibrated", lines)


def _shard(told: dict[str, Any]) -> dict[str, Any]:
    """A shard of a cluster as a row: items, bytes, and each replica with what it does."""
    stats = told["stats"]
    states = [f"{one['node']} {(one['state'] or 'not told yet') if one['live'] else 'silent'}" for one in told["replicas"]]
    items, size = ("missing", "–") if stats is None else (f"{stats['count']:,}", _size(stats["bytes"]))
    return {
        "shard": told["shard"],
        "items": items,
        "size": size,
        "lag": "–" if told["lag"] is None else told["lag"],
        "replicas": ", ".join(states),
    }


def _show_rows(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """Dictionaries of the same keys as a table; nothing if there are none."""
    from rich.table import Table

    if rows:
        listing = Table(*(key.replace("_", " ") for key in rows[0]), title=f"  {title}", title_justify="left", box=None)
        for row in rows:
            listing.add_row(*map(_shown, row.values()))
        console.print(listing)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} TB"


# ------------------------------------------------------------------------------------------ check


def check_command(data: DataOption = DEFAULT_DATA, collection: CollectionOption = None, as_json: JsonOption = False) -> None:
    """Verify a database: every checksum, every bound, and the postings of every run against its rows.

    Reads everything, changes nothing, and may run beside a service. Exit code 1 when something is wrong.
    """
    with failing_in_one_line(as_json), existing_database(data) as database:
        names = None if collection is None else _name_to_check(database, data, collection)
        # In a process of its own: files may be so damaged that reading them ends it.
        reports = {name: _told(report) for name, report in database.check(names).items()}
        aliases = "" if names else _problem_of_aliases(database)
    bad = [name for name, report in reports.items() if not report["ok"]]
    ok = not (bad or aliases)
    if as_json:
        print_json({"ok": ok, "collections": reports} | ({"aliases": aliases} if aliases else {}))
    else:
        if aliases:
            tell(output_console(), "aliases: DAMAGED", "bold red")
            tell(output_console(), f"  {one_line(aliases)}")
        _show_check(data, reports)
    if not ok:
        raise typer.Exit(1)


def _problem_of_aliases(database: kinbin.Database) -> str:
    """What is wrong with the list of aliases, and which lead to nothing: a collection is not dropped while one leads there. "": nothing."""
    try:
        listed, there = database.aliases(), database.collections()
        gone = [alias for alias, name in listed.items() if name not in there]
        # Both may have been removed between the two looks.
        still = database.aliases() if gone else {}
    except Exception as error:
        if getattr(error, "code", "") != "corrupt_data":
            raise
        return str(error)
    return "; ".join(f"{alias!r} leads to {listed[alias]!r}, which is not there" for alias in gone if still.get(alias) == listed[alias])


def _name_to_check(database: kinbin.Database, data: Path, collection: str) -> list[str]:
    """The named collection, or that of an alias; naming one must not open it, for it may be damaged."""
    names = database.collections()
    target = collection if collection in names else database.aliases().get(collection, collection)
    if target not in names:
        raise missing(collection, str(data), names)
    return [target]


def _told(report: kinbin.CheckReport) -> dict[str, Any]:
    """A report as plain data; without counts, where a collection was too damaged to count."""
    counts = {"items": report.items, "rows": report.rows, "runs": report.runs}
    known = report.ok or any(counts.values())
    told = {"problems": list(report.problems), "checked": report.checked, "advice": report.advice}
    return {"ok": report.ok, **(counts if known else dict.fromkeys(counts)), **told}


def _show_check(data: Path, reports: dict[str, dict[str, Any]]) -> None:
    console = output_console()
    if not reports:
        typer.echo(f"{data} holds no collections")
    for name, report in reports.items():
        if report["ok"]:
            tell(console, f"{name}: ok: {report['items']:,} items, {report['rows']:,} rows, {report['runs']:,} runs")
            continue
        tell(console, f"{name}: {'DAMAGED' if report['checked'] else 'NOT CHECKED'}", "bold red")
        for problem in report["problems"]:
            tell(console, f"  {one_line(problem)}")
        if report["advice"]:
            tell(console, f"  What to do: {one_line(report['advice'])}")
    if any(report["checked"] and not report["ok"] and not report["advice"] for report in reports.values()):
        tell(
            console,
            f"`kinbin repair NAME{on(data)}` saves what is whole into a new collection. "
            "Or restore a snapshot, or import again from the source.",
        )
