"""The command line.

Every command but `serve` and `calibrate` works without a server, on the files themselves (--data), and most work through one (--url).

    serve.py         the server                              inspection.py      stats and check: what is stored, and whether it is whole
    import_.py       files into a collection                 export.py          a collection into a file
    collections.py   create and drop                         delete.py          items, by id or by a filter
    backup.py        a whole database in one directory, and made anew of it
    compact.py       one run, and disk given back
    link.py          the neighbour graph, now                query.py           neighbours of vectors
    calibrate.py     what things take on this machine        recover.py         an older state, deliberately
    repair.py        what is whole, made anew                key.py             API keys for a server's file
    alias.py         other names, and what collections may hold
    snapshots.py     copies, and collections made of them    facets.py         the values of a field
    duplicates.py    near pairs, and clusters of them         dedup.py          a file of documents without its near duplicates
    explain.py       why an item scores what it scores       map.py             a sample in the plane
    place.py         a database or a service, asked alike    service_target.py  imports into a service
    cluster.py       several machines: a node, a gateway, all of it on one machine, and what is asked of it
    tuning.py        settings predicted, recall measured, other bands
    options.py       what several commands take              output.py          what all of them print, and how they fail
    commands.py      the commands as a group, and their help  panels.py          headings of options in the help

Results go to standard output, progress and errors to standard error. With --json, results are one JSON document, and an error is the last
line of standard error: {"error": {"code", "message", "exit_code"}}. Exit codes: 0 done; 1 not done, or something is wrong with
the data; 2 the command was not understood; 3 a limit was passed; 128 + n ended by signal n (130 for Ctrl-C, 141 when
nobody reads the output any more). Apart from what prints
and parses, these modules import what they need inside the commands, so that `kinbin --help` is quick and that nothing is needed
but for the command that needs it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kinbin_service.cli.alias import alias_command, limit_command
from kinbin_service.cli.backup import backup_command, restore_backup_command
from kinbin_service.cli.calibrate import calibrate_command
from kinbin_service.cli.cluster import cluster_app, gateway_command, node_command
from kinbin_service.cli.collections import create_command, drop_command
from kinbin_service.cli.commands import Commands, Maker
from kinbin_service.cli.compact import compact_command
from kinbin_service.cli.dedup import dedup_command
from kinbin_service.cli.delete import delete_command
from kinbin_service.cli.duplicates import duplicates_command
from kinbin_service.cli.explain import explain_command
from kinbin_service.cli.export import export_command
from kinbin_service.cli.facets import facets_command
from kinbin_service.cli.import_ import import_command
from kinbin_service.cli.inspection import check_command, stats_command
from kinbin_service.cli.key import key_app
from kinbin_service.cli.link import link_command
from kinbin_service.cli.map import map_command
from kinbin_service.cli.query import query_command
from kinbin_service.cli.recover import recover_command
from kinbin_service.cli.repair import repair_command
from kinbin_service.cli.serve import serve_command
from kinbin_service.cli.snapshots import restore_command, snapshot_command, snapshots_command
from kinbin_service.cli.tuning import rebuild_command, recall_command, tune_command

__all__ = ["COMMANDS", "app"]

COMMANDS: dict[str, dict[str, Maker]] = {
    "Collections": {
        "create": create_command, "drop": drop_command, "alias": alias_command, "limit": limit_command, "stats": stats_command,
    },
    "Items": {
        "import": import_command, "export": export_command, "delete": delete_command, "facets": facets_command, "dedup": dedup_command,
    },
    "Search": {
        "query": query_command, "duplicates": duplicates_command, "explain": explain_command, "map": map_command,
    },
    "Tuning": {
        "recall": recall_command, "tune": tune_command, "rebuild": rebuild_command, "link": link_command, "compact": compact_command,
        "calibrate": calibrate_command,
    },
    "Copies and repair": {
        "backup": backup_command, "restore-backup": restore_backup_command, "snapshot": snapshot_command, "snapshots": snapshots_command,
        "restore": restore_command, "check": check_command, "recover": recover_command, "repair": repair_command,
    },
    "Server and cluster": {
        "serve": serve_command, "key": key_app, "node": node_command, "gateway": gateway_command, "cluster": cluster_app,
    },
}  # fmt: skip
"""The commands by group, in the order of the help."""


class _All(Commands):
    groups = COMMANDS


app = typer.Typer(
    name="kinbin",
    cls=_All,
    help="Near neighbours of histograms, counts and signed vectors: exact scores, and a proved lower bound on recall.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool | None) -> None:
    if wanted:
        import kinbin

        typer.echo(f"kinbin {kinbin.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = None,
) -> None:
    """Near neighbours of histograms, counts and signed vectors: exact scores, and a proved lower bound on recall."""
