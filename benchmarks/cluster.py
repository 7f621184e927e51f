"""A cluster on this machine against one server: single queries through a gateway, what is found, and durable adds.

Three NATS servers, three nodes, two gateways, the server and the load share all cores: a cluster of three machines has three times as many.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import SPREAD, K, Options, all_cores, data_set, ids_of, latencies, run, spread, workspace
from kinbin_client import Client
from kinbin_cluster.dev import DevCluster
from report import paragraphs, table
from running_parts import Parts, wait_until_linked
from servers import serving, until_ready

NAME = "histograms"
PATH = f"/v1/collections/{NAME}"
SHARDS = 3
GATEWAYS = 2
WRITERS = (1, 4)
SETTLED = 60.0
QUIET = {"KINBIN_ACCESS_LOG": "false"}

Ask = Callable[[int], bytes]


def measure(options: Options) -> dict[str, Any]:
    """The same rows in both, both asked in turn."""
    all_cores()
    data = data_set("cifar10_rgbhist512")
    rows, queries = (_shapes(data[part]) for part in ("X_train", "X_test"))
    rows, queries = rows[: options.pick(50_000, 3_000)], queries[: options.pick(1_000, 200)]
    found: dict[str, Any] = {"rows": len(rows), "dim": rows.shape[1], "shards": SHARDS}
    with (
        workspace(options) as folder,
        DevCluster(folder / "cluster", gateways=GATEWAYS, extra=QUIET) as cluster,
        serving(folder / "one", folder / "one.log", access_log="false") as server,
    ):
        until_ready(server)
        addresses = {"gateway": cluster.address, "one server": f"http://127.0.0.1:{server.port}"}
        gateways = [one.address for one in cluster.gateways.values()]
        found["adds"] = {
            f"{copies} of each shard, {_clients(writers)}": _adds(gateways, rows, (copies, writers), options)
            for copies in (1, 2)
            for writers in WRITERS
        }
        for name, address in addresses.items():
            _fill(name, address, rows)
        auto, exact = ({name: _asker(address, queries, mode) for name, address in addresses.items()} for mode in ("auto", "exact"))
        found["found"] = _found(auto, exact, min(len(queries), options.pick(200, 50)))
        found["us"] = latencies(auto, options.pick(2_000, 400), loop=20)
    return found


def _shapes(counts: NDArray[Any]) -> NDArray[np.float32]:
    values = counts.astype(np.float32)
    return np.ascontiguousarray(values / values.sum(1, keepdims=True))


def _create(address: str, name: str, dim: int, copies: int | None) -> None:
    body: dict[str, Any] = {"dim": dim} | ({} if copies is None else {"cluster": {"shards": SHARDS, "replicas": copies}})
    wire = _wire(address)
    wire.request("PUT", f"/v1/collections/{name}", json.dumps(body), {"content-type": "application/json"})
    answer = wire.getresponse()
    text = answer.read()
    wire.close()
    if answer.status != 201:
        raise RuntimeError(f"the collection was not made: {text[:500]!r}")


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


def _adds(gateways: Sequence[str], rows: NDArray[Any], how: tuple[int, int], options: Options) -> dict[str, float]:
    """Rows a second of durable adds through the client, in its own batches. how: copies of each shard, and clients at once."""
    rates = []
    for turn in range(options.rounds(3)):
        name = f"added-{'-'.join(map(str, how))}-{turn}"
        _create(gateways[0], name, rows.shape[1], how[0])
        _until(partial(_known, gateways, name), "a gateway does not know the collection")
        rates.append(len(rows) / _added(gateways, name, rows, how[1]))
        with Client(gateways[0]) as client:
            # The replica that is asked may be behind the one that told of the add.
            _until(partial(_complete, client, name, len(rows)), "items are missing")
            client.drop_collection(name)
    return spread(rates)


def _added(gateways: Sequence[str], name: str, rows: NDArray[Any], writers: int) -> float:
    """Seconds until all rows are added: by so many clients at once, each by one of the gateways, and each a part of the rows."""
    edges = np.linspace(0, len(rows), writers + 1).astype(int).tolist()

    def write(number: int) -> None:
        begin, end = edges[number], edges[number + 1]
        with Client(gateways[number % len(gateways)]) as client:
            client.collection(name).add(ids_of(begin, end), rows[begin:end])

    with ThreadPoolExecutor(writers) as pool:
        started = time.perf_counter()
        list(pool.map(write, range(writers)))
        return time.perf_counter() - started


def _known(gateways: Sequence[str], name: str) -> bool:
    for address in gateways:
        with Client(address) as client:
            if name not in client.collections():
                return False
    return True


def _complete(client: Client, name: str, count: int) -> bool:
    return client.collection(name).count() == count


def _until(holds: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + SETTLED
    while not holds():
        if time.monotonic() > give_up:
            raise RuntimeError(what)
        time.sleep(0.01)


def _fill(name: str, address: str, rows: NDArray[Any]) -> None:
    """Add all rows, and wait until those that are to be linked are."""
    _create(address, NAME, rows.shape[1], 1 if name == "gateway" else None)
    with Client(address) as client:
        client.collection(NAME).add(ids_of(0, len(rows)), rows)
    wait_until_linked(Parts(address, {}, {}), len(rows), NAME)


def _wire(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", int(address.rsplit(":", 1)[1]), timeout=60)


def _asker(address: str, queries: NDArray[Any], mode: str) -> Ask:
    """Asks for the neighbours of one query, by a bare HTTP client."""
    wire = _wire(address)
    bodies = [json.dumps({"vector": [float(str(value)) for value in query], "k": K, "mode": mode}).encode() for query in queries]

    def ask(i: int) -> bytes:
        wire.request("POST", f"{PATH}/query", bodies[i % len(bodies)], {"content-type": "application/json"})
        return wire.getresponse().read()

    return ask


def _found(auto: dict[str, Ask], exact: dict[str, Ask], count: int) -> dict[str, Any]:
    """Recall at K of both in mode auto, and how many exact answers are the same."""
    gateway, server = ([_hits(exact[name](i)) for i in range(count)] for name in ("gateway", "one server"))
    pairs = list(zip(gateway, server, strict=True))
    same_scores = sum([score for _, score in ours] == [score for _, score in theirs] for ours, theirs in pairs)
    same_ids = sum(_above_the_last(ours) == _above_the_last(theirs) for ours, theirs in pairs)
    recall = {
        name: float(np.mean([sum(score >= server[i][-1][1] for _, score in _hits(ask(i))) / K for i in range(count)]))
        for name, ask in auto.items()
    }
    return {"queries": count, "same scores": same_scores, "same ids": same_ids, "recall": recall}


def _above_the_last(hits: Sequence[tuple[str, float]]) -> set[str]:
    """The ids but for those that tie with the last, whose place others may take."""
    return {one for one, score in hits if score > hits[-1][1]}


def _hits(answer: bytes) -> list[tuple[str, float]]:
    return [(one["id"], one["score"]) for one in json.loads(answer)["results"]]


def render(result: dict[str, Any]) -> str:
    """Two tables and what was found."""
    us, found = result["us"], result["found"]
    lines: Sequence[Sequence[object]] = [
        (name, us[name]["p50"] / 1e3, us[name]["p99"] / 1e3, found["recall"][name], us[name]["p50"] / us["one server"]["p50"])
        for name in ("one server", "gateway")
    ]
    adds = [(name, *(rates[which] for which in SPREAD)) for name, rates in result["adds"].items()]
    return paragraphs(
        f"{result['rows']:,} histograms of {result['dim']} numbers, {result['shards']} shards; 3 NATS servers, every write synced.",
        table((f"one query, k = {K}", "p50, ms", "p99, ms", "recall", "times one server"), lines),
        f"Of {found['queries']} exact answers {found['same scores']} have the same scores, {found['same ids']} the same ids.",
        table(("durable adds through a gateway, rows a second", *SPREAD), adds),
    )


if __name__ == "__main__":
    run("cluster", measure, render)
