"""`kinbin snapshot`, `snapshots` and `restore`: copies of collections, made while these are used, and collections made of copies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kinbin_service.cli.options import JsonOption, PlaceDataOption, SnapshotsOption, UrlOption
from kinbin_service.cli.output import Failure, failing_in_one_line, print_json
from kinbin_service.cli.place import Place, place

__all__ = ["restore_command", "snapshot_command", "snapshots_command"]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The collection.")]
_TOLD = ("id", "collection", "created", "items", "bytes", "sha256", "grown_bytes", "problem")


def _plain(made: Any) -> dict[str, Any]:
    """A snapshot of the library or of the client, as plain data."""
    return {name: getattr(made, name) for name in _TOLD}


def _snapshots(there: Place) -> Any:
    """The snapshots of a database or of a service, whose methods are alike."""
    return there.database.snapshots if hasattr(there, "database") else there.client.snapshots  # type: ignore[attr-defined]


def snapshot_command(
    name: NameArgument,
    data: PlaceDataOption = None,
    url: UrlOption = None,
    snapshots: SnapshotsOption = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Write it to this new file; with --url, fetch it, and keep it as well."),
    ] = None,
    keep: Annotated[int | None, typer.Option(min=1, metavar="N", help="Keep the newest N of this collection, delete older ones.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a snapshot of a collection, as it is at this moment, while others read and write it.

    Without --to it is kept where the database, or the service, keeps its snapshots. Every record is proved on the way: of a damaged
    collection no snapshot is kept.
    """
    with failing_in_one_line(as_json), place(data, url, snapshots=snapshots) as there:
        collection = there.collection(name)
        if to is not None and to.exists():
            raise Failure(f"{to} is there: a snapshot overwrites nothing")
        if to is not None and not to.parent.is_dir():
            raise Failure(f"there is no folder {to.parent}: a snapshot is written into one that is there", kind="os_error")
        if to is not None and url is None:
            if keep is not None:
                raise typer.BadParameter("--keep is about snapshots that the database keeps, --to about one that it does not")
            made = collection.snapshot(to)
        else:
            made = _snapshots(there).create(name, keep)
            if to is not None:
                _snapshots(there).download(name, made.id, to)
    if as_json:
        print_json(_plain(made))
    else:
        where = f"{made.id}{'' if to is None else f', {to}'}" if made.id else str(to)
        typer.echo(f"{name}: {made.items:,} items in {made.bytes:,} bytes: {where}")


def snapshots_command(
    name: NameArgument,
    data: PlaceDataOption = None,
    url: UrlOption = None,
    snapshots: SnapshotsOption = None,
    verify: Annotated[str | None, typer.Option(metavar="ID", help="Read all of this one, and prove every record.")] = None,
    delete: Annotated[str | None, typer.Option(metavar="ID", help="Delete this one.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of a collection, which need not be there any more; verify or delete one. Exit code 1 if one is damaged."""
    if verify is not None and delete is not None:
        raise typer.BadParameter("give --verify or --delete, not both")
    with failing_in_one_line(as_json), place(data, url, snapshots=snapshots) as there:
        kept = _snapshots(there)
        if verify is not None:
            report = kept.verify(name, verify)
            told = {"id": verify, "ok": report.ok, "items": report.items, "problems": list(report.problems)}
            print_json(told) if as_json else typer.echo(f"{verify}: {'sound' if report.ok else '; '.join(report.problems)}")
            raise typer.Exit(0 if report.ok else 1)
        if delete is not None:
            kept.delete(name, delete)
            print_json({"deleted": delete}) if as_json else typer.echo(f"{delete}: deleted")
            return
        listed = kept.list(name)
    if as_json:
        print_json({"snapshots": [_plain(one) for one in listed]})
    else:
        for one in listed:
            typer.echo(f"{one.id}: {f'DAMAGED: {one.problem}' if one.problem else f'{one.items:,} items, {one.bytes:,} bytes'}")
        if not listed:
            typer.echo(f"{name} has no snapshots")
    if any(one.problem for one in listed):
        raise typer.Exit(1)


def restore_command(
    source: Annotated[str, typer.Argument(metavar="FILE|ID", help="The file of a snapshot, or with --from the id of one that is kept.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new collection.")],
    data: PlaceDataOption = None,
    url: UrlOption = None,
    snapshots: SnapshotsOption = None,
    of: Annotated[str | None, typer.Option("--from", metavar="COLLECTION", help="The collection of the kept snapshot.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new collection of a snapshot, on this machine or another. With --url and a file it is uploaded.

    All of it is proved before anything is made. Restore only files whose maker you trust: checksums do not prove who made one.
    """
    with failing_in_one_line(as_json), place(data, url, make=True, snapshots=snapshots) as there:
        target: Any = there.database if hasattr(there, "database") else there.client  # type: ignore[attr-defined]
        found: Any = source
        if of is not None:
            found = next((one for one in _snapshots(there).list(of) if one.id == source), None)
            if found is None:
                raise Failure(f"{of} has no snapshot {source}: `kinbin snapshots {of}` lists them", kind="snapshot_not_found")
        elif not Path(source).exists():
            raise Failure(f"there is no file {source}: the id of a kept snapshot goes with --from COLLECTION", kind="os_error")
        count = target.restore(found, name).count()
    if as_json:
        print_json({"collection": name, "count": count})
    else:
        typer.echo(f"{name}: restored, with {count:,} items")
