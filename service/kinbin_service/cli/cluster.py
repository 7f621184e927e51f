"""`kinbin cluster`, `kinbin node`, `kinbin gateway`: Kinbin on several machines.

What they do is kinbin_cluster's, which is loaded by its name: no other command needs its packages.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from kinbin.errors import install
from kinbin_service.cli.commands import Command, Group
from kinbin_service.cli.options import DEFAULT_DATA, DataOption, JsonOption
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, print_json, tell

__all__ = ["cluster_app", "gateway_command", "node_command"]

NatsOption = Annotated[
    str | None,
    typer.Option("--nats", envvar="KINBIN_CLUSTER_NATS", metavar="A,B", help="Addresses of the NATS servers."),
]
HostOption = Annotated[str, typer.Option(envvar="KINBIN_HOST", help="Address to listen on.")]
PortOption = Annotated[int, typer.Option(envvar="KINBIN_PORT", min=0, max=65_535, help="Port to listen on.")]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", envvar="KINBIN_INSECURE", help="Listen beyond this machine without an API key.")
]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done; it goes on without this command, too.")]

cluster_app = typer.Typer(
    cls=Group,
    help="Several machines: nodes and gateways over NATS. Settings: KINBIN_CLUSTER_*.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def node_command(
    name: Annotated[str, typer.Option(envvar="KINBIN_CLUSTER_NODE", help="Name of this node, the same after every restart.")],
    data: DataOption = DEFAULT_DATA,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    address: Annotated[
        str | None,
        typer.Option(
            envvar="KINBIN_CLUSTER_ADDRESS",
            help="Where gateways reach this node; default: HOST:PORT, on this machine where HOST is all addresses.",
        ),
    ] = None,
    nats: NatsOption = None,
    zone: Annotated[str | None, typer.Option(envvar="KINBIN_CLUSTER_ZONE", help="What fails together: a rack, a room.")] = None,
    weight: Annotated[float | None, typer.Option(envvar="KINBIN_CLUSTER_WEIGHT", help="Share of the shards, against others'.")] = None,
) -> None:
    """Serve a node of a cluster: it holds shards, applies what the log brings, and answers gateways.

    Gateways and nodes share a key: KINBIN_CLUSTER_KEY or KINBIN_CLUSTER_KEY_FILE. Restarted, a node goes on where it was.
    """
    with failing_in_one_line():
        _serve(
            "node", {"data_dir": data, "host": host, "port": port},
            {"node": name, "address": address, "nats": nats, "zone": zone, "weight": weight},
        )  # fmt: skip


def gateway_command(
    name: Annotated[str | None, typer.Option(envvar="KINBIN_CLUSTER_NODE", help="Name of this gateway; default: HOST:PORT.")] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    nats: NatsOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Serve a gateway of a cluster: the same REST as `kinbin serve`, for collections that lie on nodes.

    Gateways keep nothing and may be any number. API keys, TLS and limits are set as for `kinbin serve`.
    """
    with failing_in_one_line():
        _serve("gateway", {"host": host, "port": port, "insecure": insecure or None}, {"node": name, "nats": nats})


def _serve(kind: str, service: dict[str, Any], cluster: dict[str, Any]) -> None:
    """Serve with settings of the service and of the cluster: both come to the serving process by its environment."""
    server = _loaded(f"{kind}.server")
    for prefix, given in (("KINBIN_", service), ("KINBIN_CLUSTER_", cluster)):
        os.environ.update({f"{prefix}{name.upper()}": str(value) for name, value in given.items() if value is not None})
    try:
        server.run()
    except ValueError as error:
        raise Failure(str(error), 2) from None


@cluster_app.command("dev", cls=Command)
def dev_command(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where all files go; what is there is taken up again.")] = Path(
        "kinbin-cluster"
    ),
    nodes: Annotated[int, typer.Option(min=1, max=16, help="Nodes.")] = 3,
    gateways: Annotated[int, typer.Option(min=1, max=8, help="Gateways.")] = 1,
    servers: Annotated[int, typer.Option(help="NATS servers: 1, 3 or 5.")] = 3,
    port: Annotated[int, typer.Option(min=1, max=65_000, help="Port of the first gateway; the others follow.")] = 8080,
) -> None:
    """Start a whole cluster on this machine: NATS servers, nodes and gateways on loopback, until Ctrl-C or SIGTERM.

    It shows how a cluster works and serves tests; it protects from nothing, as all of it fails together.
    """
    console = error_console()
    with failing_in_one_line():
        dev = _loaded("dev")
        if servers not in {1, 3, 5}:
            raise Failure("--servers is 1, 3 or 5", 2)
        try:
            cluster = dev.DevCluster(folder, nodes=nodes, gateways=gateways, servers=servers, gateway_port=port)
            tell(console, f"starting {servers} NATS servers, {nodes} nodes, {gateways} gateways; their logs are in {cluster.folder}", "")
            # Whoever ends this program means all of it: a stop of systemd or docker, a closed terminal.
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.default_int_handler)
            with cluster:
                for gateway in cluster.gateways.values():
                    tell(console, f"{gateway.name}: {gateway.address} (the REST API; {gateway.address}/docs)", "bold")
                tell(console, "kinbin cluster status needs: export " + _exported(cluster.environment), "")
                if unused := sorted(name for name in os.environ if name.startswith("KINBIN_") and name not in cluster.environment):
                    tell(console, f"nodes and gateways take none of this shell's {', '.join(unused)}", "")
                pids = ", ".join(f"{part.log.stem} {part.pid}" for part in (*cluster.servers.processes, *cluster.parts))
                tell(console, f"processes: {pids}", "")
                tell(console, "Ctrl-C ends all", "")
                # It is how it is ended: no failure.
                with contextlib.suppress(KeyboardInterrupt):
                    _until_stopped(cluster)
                tell(console, "ending all; files stay", "")
        except (RuntimeError, FileNotFoundError) as error:
            raise Failure(str(error)) from None


def _exported(environment: dict[str, str]) -> str:
    return " ".join(f"{name}={environment[name]}" for name in ("KINBIN_CLUSTER_NATS", "KINBIN_CLUSTER_NATS_REPLICAS"))


def _until_stopped(cluster: Any) -> None:
    """Wait for a signal, and say it when a part ends by itself."""
    ended: set[str] = set()
    while True:
        for part in (*cluster.servers.processes, *cluster.parts):
            if not part.running and part.log.stem not in ended:
                ended.add(part.log.stem)
                tell(error_console(), f"{part.log.stem} has ended: {part.log}", "bold red")
        time.sleep(0.5)


@cluster_app.command("status", cls=Command)
def status_command(nats: NatsOption = None, as_json: JsonOption = False) -> None:
    """Say which nodes live, who holds which shard and how far it is, and what is wrong.

    Exit code 1 when a shard has no replica that answers.
    """
    with failing_in_one_line(as_json):
        told = _asked("status", nats)
        if as_json:
            print_json(told)
        else:
            for line in _lines(told):
                typer.echo(line)
        if not told["answering"]:
            raise typer.Exit(1)


def _lines(told: dict[str, Any]) -> Iterator[str]:
    """Status for people: a line a node, a gateway, a shard."""
    for server, current in sorted(told["servers"].items()):
        yield f"NATS server {server}: {'live' if current else 'SILENT, or behind the others'}"
    for node in told["nodes"]:
        state = "live" if node["live"] else "silent"
        if node["live"] and node["unreached_by"]:
            state = f"NOT REACHED by {', '.join(node['unreached_by'])}"
        more = f", zone {node['zone']}" if node["zone"] else ""
        yield f"node {node['name']}: {state}{', draining' if node['draining'] else ''}{more}, {node['shards']} shards, {node['address']}"
    for gateway in told["gateways"]:
        yield f"gateway {gateway['name']}: live, {gateway['address']}"
    for collection in told["collections"]:
        closed = {"pause": "; writes pause", "kept": "; kept, takes no writes"}.get(collection["closed"], "")
        yield f"collection {collection['name']}: {len(collection['shards'])} shards, {collection['replicas']} replicas of each{closed}"
        for shard in collection["shards"]:
            copies = ", ".join(_copy(copy) for copy in shard["copies"])
            stuck = "" if shard["whole"] else "; lacks a replica that is well"
            if shard["nowhere"]:
                stuck = "; no other node can take it: start one"
            yield f"  shard {shard['shard']}: {'' if shard['answering'] else 'NOBODY ANSWERS; '}{copies}{stuck}"
    for alias, collection in told["aliases"].items():
        yield f"alias {alias}: {collection}"
    for place, found in told["divergences"].items():
        yield f"shard {place}: copies of {', '.join(found['nodes'])} differed at {found['sequence']}, and were ordered anew"
    for found in told["older_files"].values():
        was, told_before = found["sequence"], found["before"]
        yield f"node {found['node']}: its files were at {was} when it had told of {told_before}; it read the rest from the log again"


def _copy(copy: dict[str, Any]) -> str:
    words = [copy["node"]] + [copy["role"]] * (copy["role"] != "replica")
    words.append("silent" if not copy["live"] else copy.get("state") or "not told yet")
    if copy["lag"]:
        words.append(f"{copy['lag']} behind")
    if copy.get("problem"):
        words.append(f"({copy['problem']})")
    return " ".join(words)


@cluster_app.command("drain", cls=Command)
def drain_command(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.")],
    cancel: Annotated[bool, typer.Option("--cancel", help="Let it take shards again.")] = False,
    wait: WaitOption = True,
    nats: NatsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move all shards of a node to others, so that it can be stopped. It answers until others do."""
    with failing_in_one_line(as_json):
        _asked("drain", nats, node, _told_to(as_json), cancel=cancel, wait=wait)
        if as_json:
            print_json({"node": node, "draining": not cancel, "waited": wait and not cancel})


@cluster_app.command("move", cls=Command)
def move_command(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="Collection or alias.")],
    shard: Annotated[int, typer.Argument(metavar="SHARD", min=0, help="Number of the shard.")],
    source: Annotated[str, typer.Option("--from", metavar="NODE", help="Node that has a replica.")],
    target: Annotated[str, typer.Option("--to", metavar="NODE", help="Node that has none.")],
    wait: WaitOption = True,
    nats: NatsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move one replica of a shard to another node. The old one answers until the new one does."""
    with failing_in_one_line(as_json):
        _asked("move", nats, collection, shard, (source, target), _told_to(as_json), wait=wait)
        if as_json:
            print_json({"collection": collection, "shard": shard, "from": source, "to": target, "waited": wait})


@cluster_app.command("balance", cls=Command)
def balance_command(
    by: Annotated[str, typer.Option(metavar="WEIGHT", help="rows, bytes, rate (seconds of work in a second) or replicas.")] = "rows",
    tolerance: Annotated[float, typer.Option(min=0.0, max=1.0, help="A node within this part of its share is left alone.")] = 0.1,
    most: Annotated[int, typer.Option(min=1, max=1_000, help="Moves at most.")] = 20,
    yes: Annotated[bool, typer.Option("--yes", help="Make the moves, one after the other; else they are only told.")] = False,
    nats: NatsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which replicas to move so that nodes are evenly loaded, each by its weight; with --yes move them.

    Shards answer all the while, as with `move`. Broken off, what was moved stays moved.
    """
    with failing_in_one_line(as_json):
        done = _asked("balance", nats, by, _told_to(as_json), module="rebalancing", tolerance=tolerance, most=most, do=yes)
        if as_json:
            print_json(done)
        elif done["moves"] and not yes:
            typer.echo("nothing was moved: --yes moves them")


@cluster_app.command("forget", cls=Command)
def forget_command(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node that is gone for good.")],
    nats: NatsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a node that is gone, and holds nothing any more, out of the registry."""
    with failing_in_one_line(as_json):
        _asked("forget", nats, node)
        if as_json:
            print_json({"node": node, "forgotten": True})
        else:
            typer.echo(f"{node} is forgotten")


@cluster_app.command("check", cls=Command)
def check_command(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="Collection or alias.")],
    seconds: Annotated[float, typer.Option(min=1, help="Longest wait.")] = 60.0,
    nats: NatsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the replicas of each shard at one place of its log, now. Exit code 1 when some differ, or do not tell."""
    with failing_in_one_line(as_json):
        compared = _asked("check", nats, collection, _told_to(as_json), seconds=seconds)
        if as_json:
            print_json({"shards": compared})
        if any(one["divergent"] or one["silent"] for one in compared):
            raise typer.Exit(1)


@cluster_app.command("reshard", cls=Command)
def reshard_command(
    collection: Annotated[str, typer.Argument(metavar="NAME", help="Collection or alias.")],
    shards: Annotated[int | None, typer.Option(min=1, max=256, help="Number of its new shards.")] = None,
    replicas: Annotated[int | None, typer.Option(min=1, max=16, help="Replicas of each; default: as many as it has.")] = None,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="Drop what it was; else it is kept, and takes no writes.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give up one that was broken off: all is as it was.")] = False,
    scratch: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with room for all of its files once.")] = None,
    nats: NatsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cut a collection into other shards: a new one is filled, and takes its name. Its aliases follow.

    It takes writes meanwhile, but for a pause at the end, in which they are refused with 503. Broken off, it is begun again.
    """
    with failing_in_one_line(as_json):
        told = (lambda _: None) if as_json else typer.echo
        if cancel:
            _asked("cancel", nats, collection, told, module="resharding")
            return
        if shards is None:
            raise Failure("--shards says how many there are to be", 2)
        more = {"replicas": replicas, "drop_old": drop_old, "scratch": scratch}
        done = _asked("reshard", nats, collection, shards, told, module="resharding", **more)
        if as_json:
            print_json(done)
        else:
            typer.echo(f"writes were refused for {done['paused_seconds']:.1f} s")


def _told_to(as_json: bool) -> Callable[[str], None]:
    """Who is told of progress: nobody, where what comes out is read by a program."""
    return (lambda _: None) if as_json else typer.echo


def _asked(name: str, nats: str | None, *arguments: Any, module: str = "commands", **options: Any) -> Any:
    """What a function of a module of kinbin_cluster returns."""
    import asyncio  # not by --help of all commands: it takes 40 ms

    commands, settings, errors = _loaded(module), _loaded("settings"), _loaded("errors")
    with _told(errors.ClusterError):
        try:
            chosen = settings.ClusterSettings(**({} if nats is None else {"nats": nats}))
        except ValueError as error:
            raise Failure(str(error), 2) from None
        asked: Coroutine[Any, Any, Any] = getattr(commands, name)(chosen, *arguments, **options)
        return asyncio.run(asked)


@contextmanager
def _told(kind: type[Exception]) -> Iterator[None]:
    """Turn the cluster's errors into failures of one line."""
    try:
        yield
    except kind as error:
        raise Failure(str(error)) from None


def _loaded(module: str) -> Any:
    """A module of the cluster's package. Fails in one line where its packages are not installed."""
    try:
        return importlib.import_module(f"kinbin_cluster.{module}")
    except ModuleNotFoundError as error:
        raise Failure(f"a cluster needs {error.name}: {install('service,cluster')}") from None
