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

Results go to standard output, progress and errors to standard error. With --json, results are one JSON document, and an error is the last
line of standard error: {"error": {"code", "message", "exit_code"}}. Exit codes: 0 done; 1 not done, or something is wrong with
the data; 2 the command was not understood; 3 a limit was passed; 128 + n ended by signal n (130 for Ctrl-C). Apart from what prints
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
from kinbin_service.cli.output import Commands
from kinbin_service.cli.query import query_command
from kinbin_service.cli.recover import recover_command
from kinbin_service.cli.repair import repair_command
from kinbin_service.cli.serve import serve_command
from kinbin_service.cli.snapshots import restore_command, snapshot_command, snapshots_command
from kinbin_service.cli.tuning import rebuild_command, recall_command, tune_command

__all__ = ["app"]

app = typer.Typer(
    name="kinbin",
    cls=Commands,
    help="Near neighbours of histograms, counts and signed vectors: exact scores, and a proved lower bound on recall.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        import kinbin

        typer.echo(f"kinbin {kinbin.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Near neighbours of histograms, counts and signed vectors: exact scores, and a proved lower bound on recall."""


# In the order of the help.
app.command("serve")(serve_command)
app.command("create")(create_command)
app.command("import")(import_command)
app.command("query")(query_command)
app.command("duplicates")(duplicates_command)
app.command("explain")(explain_command)
app.command("map")(map_command)
app.command("dedup")(dedup_command)
app.command("export")(export_command)
app.command("facets")(facets_command)
app.command("recall")(recall_command)
app.command("tune")(tune_command)
app.command("rebuild")(rebuild_command)
app.command("delete")(delete_command)
app.command("drop")(drop_command)
app.command("alias")(alias_command)
app.command("limit")(limit_command)
app.command("link")(link_command)
app.command("compact")(compact_command)
app.command("backup")(backup_command)
app.command("restore-backup")(restore_backup_command)
app.command("snapshot")(snapshot_command)
app.command("snapshots")(snapshots_command)
app.command("restore")(restore_command)
app.command("stats")(stats_command)
app.command("check")(check_command)
app.command("recover")(recover_command)
app.command("repair")(repair_command)
app.command("calibrate")(calibrate_command)
app.add_typer(key_app, name="key")
app.command("node")(node_command)
app.command("gateway")(gateway_command)
app.add_typer(cluster_app, name="cluster")
