"""`kinbin recover`: an older state of a collection that opening refuses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer

import kinbin
from kinbin_service.cli.options import DEFAULT_DATA, DataOption, JsonOption, existing_database, on
from kinbin_service.cli.output import failing_in_one_line, print_json

__all__ = ["recover_command"]


def recover_command(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="The collection; of one with fields also NAME/FIELD.")],
    data: DataOption = DEFAULT_DATA,
    transaction: Annotated[int | None, typer.Option(help="The state to go on with; without it the states are listed.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Take an older state of a collection whose last one is not known any more. What came after it is lost.

    Stop the service first. Without --transaction the sound states are listed, and nothing is changed. The file as it was stays beside
    the new one, as data.mdb.damaged. Exit code 1 if no state is sound.
    """
    with failing_in_one_line(as_json), existing_database(data) as database:
        states = database.recoverable(collection)
        if transaction is not None:
            database.recover(collection, transaction)
        whole, _, field = collection.partition("/")
        fields = [] if field else database.stores_of_fields(whole)
        items: list[kinbin.Recoverable] = []
        meant = whole if whole in database.collections() else database.aliases().get(whole, whole)
        whose = f"{meant}/{field}" if field else meant
        # Of files that are damaged nothing is said here.
        with suppress(kinbin.StorageError):
            items = database.recoverable(whole)[:1] if field else []
    if as_json:
        print_json({"collection": collection, "states": [asdict(state) for state in states], "taken": transaction})
    elif transaction is not None:
        for other in _others([state for state in states if state.transaction == transaction], whose):
            typer.echo(f"THESE WERE THE FILES OF {other!r}: what is in them is {collection} now")
        typer.echo(f"{collection} goes on with transaction {transaction}; run `kinbin check{on(data)}`")
        typer.echo("the file as it was lies beside, as data.mdb.damaged: put in the place of data.mdb it undoes this")
    else:
        for state in states:
            typer.echo(_line(state, bool(field)))
        for other in _others(states, whose):
            typer.echo(f"THESE ARE THE FILES OF {other!r}: put them back, unless they are to go on as {collection}")
        if states:
            back = f"`kinbin recover {collection}{on(data)} --transaction N` goes back to one"
            typer.echo(f"{back}; `kinbin repair {whole}{on(data)}` may save more, and changes nothing here")
        if not states:
            typer.echo(f"{collection} has no sound state: `kinbin repair {whole}{on(data)}` may save something; else restore a snapshot")
    if fields and not as_json:
        typer.echo(f"This is the file of the items alone. Each field has one of its own, looked at by its name: {', '.join(fields)}")
        typer.echo(f"`kinbin check --collection {collection}{on(data)}` says which of them is damaged. What goes together is of one commit")
    if items and not as_json:
        now = f"{whole} is at commit {items[0].commits:,}, of {items[0].items:,} items"
        typer.echo(f"This is the file of one field. {now}, and is refused where one of them has no row here")
    if not states:
        raise typer.Exit(1)


def _others(states: list[kinbin.Recoverable], whose: str) -> list[str]:
    """Of which collections besides the one that is meant states are, by what they say."""
    return sorted({state.collection for state in states if state.collection not in (None, whose)})


def _line(state: kinbin.Recoverable, of_field: bool) -> str:
    """A state in one line."""
    if not of_field:
        return f"transaction {state.transaction}: commit {state.commits:,}, {state.items:,} items"
    last = state.written_for or 0
    before = f"{last - 1:,} or " if last else ""
    return f"transaction {state.transaction}: goes with the items of commit {before}{last:,}"
