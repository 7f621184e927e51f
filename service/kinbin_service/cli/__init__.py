"""The command line: serve, import, link, query, stats, check. Every command but `serve` works without a server, on the files themselves.

    serve.py         the server                              inspection.py      stats and check: what is stored, and whether it is whole
    import_.py       files into a collection                 service_target.py  … which is behind a running service (--url)
    link.py          its neighbour graph, now                query.py           neighbours of vectors
    options.py       what several commands take              output.py          what all of them print, and how they fail

Results go to standard output, progress and errors to standard error. Exit codes: 0 done; 1 not done, or something is wrong with
the data; 2 the command was not understood; 128 + n ended by signal n (130 for Ctrl-C). Apart from what prints and parses, these
modules import what they need inside the commands, so that `kinbin --help` is quick and that nothing is needed but for the command
that needs it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kinbin_service.cli.import_ import import_command
from kinbin_service.cli.inspection import check_command, stats_command
from kinbin_service.cli.link import link_command
from kinbin_service.cli.query import query_command
from kinbin_service.cli.serve import serve_command

__all__ = ["app"]

app = typer.Typer(
    name="kinbin",
    help="Near neighbours under min-max kernels: exact scores, and a proved lower bound on recall.",
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
    """Near neighbours under min-max kernels: exact scores, and a proved lower bound on recall."""


# In the order of the help.
app.command("serve")(serve_command)
app.command("import")(import_command)
app.command("link")(link_command)
app.command("query")(query_command)
app.command("stats")(stats_command)
app.command("check")(check_command)
