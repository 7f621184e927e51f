from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import capacity_check
import capacity_table
import report
from load import Ask, asked_by, http_post
from simulator.draws import quantile
from simulator.plans import Layout, asked_cluster, asked_server, built_cluster, built_server, machines_for, rebuilt, weighed
from simulator.serving import Load
from simulator.times import CROWD, Times, between

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PART = {
    "seconds": 1e-3, "spread": [1.0, 1.0], "crowded": 1.0, "client": 1e-4, "wire": 2e-4, "own": 100e6, "cold": [], "client_cold": [],
}  # fmt: skip


def times(**changes: Any) -> Times:
    """Made-up service times, linear in rows where that makes sums easy."""
    sizes = [
        {
            "rows": rows, "engine": {"auto": [1e-4, 1e-4]}, "linking": rows * (1e-4 if rows <= CROWD else 2e-4), "file": 2_000.0 * rows,
            "own": 100.0 * rows, "live": 1_000.0 * rows, "snapshot_bytes": 1_000.0 * rows, "restore": 1e-5 * rows,
            "filled": 5e-6 * rows,
        }
        for rows in (10_000, 100_000, 200_000)
    ]  # fmt: skip
    adds = {"seconds": 5e-5, "processor": {"client": 1e-5, "gateway": 1e-5, "node": 2e-5, "log": 1e-5}}
    gateway = {**PART, "each_shard": 1e-4, "adds": adds, "linked": 0.0}
    server = {**PART, "adds": {"seconds": 5e-5, "processor": {"client": 1e-5, "server": 4e-5}}, "linked": 0.0}
    log = {"sizes": [[1_000, 600e3], [100_000, 30e6]], "moves": [[1_000, 1.0], [11_000, 2.0]], "carried": {"in": 50e6, "out": 100e6}}
    return Times({"sizes": sizes, "base": 10_000, "server": server, "gateway": gateway, "node": PART, "log": log, **changes})


# ------------------------------------------------------------------------------------- sums


def test_sizes_between_and_beyond_follow_a_power() -> None:
    """Sizes between two follow their line, those beyond the line of least squares, which never falls; one size is refused."""
    points = [(10.0, 5.0), (100.0, 50.0), (1_000.0, 5_000.0)]
    assert [between(points, at) for at in (10.0, 31.6228, 100.0, 1_000.0)] == pytest.approx([5.0, 15.8114, 50.0, 5_000.0], rel=1e-4)
    assert between(points, 10_000.0) == pytest.approx(5_000.0 * 10.0**1.5)
    assert between(points, 1.0) == pytest.approx(5.0 * 10.0**-1.5)
    assert between([(10.0, 5.0), (100.0, 4.0)], 1_000.0) == pytest.approx(4.0)
    with pytest.raises(ValueError, match="two measured sizes"):
        between(points[:1], 10.0)


def test_linking_takes_more_where_walks_are_wider() -> None:
    """Linking is what was measured at each size, grows no faster than n log n beyond, and costs a row more there than before."""
    found = times()
    assert [found.linking(rows) for rows in (10_000, 100_000, 200_000)] == pytest.approx([1.0, 10.0, 40.0])
    each = (40.0 - CROWD * 1e-4) / (200_000 - CROWD)
    more = found.linking(400_000) - found.linking(200_000)
    assert 1.0 < more / (200_000 * each) < math.log(400_000) / math.log(CROWD)


def test_weights_are_sums_over_shards_and_copies() -> None:
    """Files count for every copy, the log once, memory for what a node holds."""
    weight = weighed(times(), 400_000, shards=4, replicas=2, nodes=4, who="node")
    assert weight.files == pytest.approx(2 * 400_000 * 2_000)
    assert weight.log == pytest.approx(4 * 30e6)
    assert weighed(times(), 4_000, shards=4, who="node").log == pytest.approx(4 * 600e3)
    assert weight.own == pytest.approx(100e6 + 200_000 * 100)
    assert weight.linking == pytest.approx(100_000 * 516)
    assert weight.hot == pytest.approx(2 * 100_000 * 400)


def test_files_of_nodes_have_free_pages() -> None:
    """A server that is filled with large adds has hardly any."""
    assert weighed(times(), 200_000).files == pytest.approx(200_000 * 1_000)
    assert weighed(times(), 200_000, who="node").files == pytest.approx(200_000 * 2_000)


def test_a_copy_is_made_of_log_or_snapshot() -> None:
    """The log is replayed as fast as it was; a snapshot is carried by the slower of store and network, then restored."""
    assert rebuilt(times(), 21_000, snapshot=False) == pytest.approx(3.0)
    quick = times(log={"moves": [[1_000, 1.0], [11_000, 1.01]]})
    assert rebuilt(quick, 100_000, snapshot=False) == pytest.approx(0.999 + 1.0), "many rows are made runs of"
    assert rebuilt(times(), 100_000, snapshot=True) == pytest.approx(100e6 / 100e6 + 1.0)
    assert rebuilt(times(), 100_000, snapshot=True, bandwidth=10e6) == pytest.approx(100e6 / 10e6 + 1.0)


def test_links_are_built_with_what_adding_leaves() -> None:
    """A server links while it adds as far as a core is idle; nodes link at the same time, as many as there are cores."""
    built = built_server(times(), 100_000, 2)
    assert built.added == pytest.approx(5.0)
    assert built.linked == pytest.approx(5.0 + (10.0 - 5.0))
    both = built_cluster(times(), 200_000, Layout(2, 1, 2, 2, together=True))
    assert both.added == pytest.approx(200_000 * 4e-5)
    idle = 2.0 - 200_000 * 5e-5 / both.added
    assert both.linked == pytest.approx(both.added + (2 * 10.0 - idle * both.added) / 2)


def test_adds_are_no_faster_than_all_cores() -> None:
    """Where each part works beside the others, what all of them work is shared by the cores."""
    adds = {"seconds": 2e-5, "processor": {"client": 1e-5, "gateway": 1e-5, "node": 2e-5, "log": 1e-5}}
    found = times(gateway={**PART, "each_shard": 1e-4, "adds": adds, "linked": 0.0})
    assert built_cluster(found, 100_000, Layout(2, 1, 2, 2, together=True)).added == pytest.approx(100_000 * 5e-5 / 2)
    assert built_cluster(found, 100_000, Layout(2, 2, 2, 2, together=True)).added == pytest.approx(100_000 * 7e-5 / 2)


def test_merges_of_many_rows_slow_adds_down() -> None:
    """What merges take of each row beyond those of base rows is work of the nodes besides."""
    found = times(base=10_000)
    for size in found.measured["sizes"]:
        size["filled"] = 1e-5 * size["rows"] * (1 if size["rows"] == 10_000 else 5)
    assert found.merging(100_000) == pytest.approx(4e-5)
    assert found.merging(10_000) == 0.0
    assert built_server(found, 100_000, 2).added == pytest.approx(100_000 * max(5e-5, 9e-5 / 2))
    assert built_server(found, 100_000, 1).added == pytest.approx(100_000 * 9e-5)
    assert built_cluster(found, 20_000, Layout(2, 1, 2, 1, together=True)).added == pytest.approx(20_000 * 5e-5)
    assert (
        built_cluster(found, 20_000, Layout(2, 1, 2, 1, together=True)).added
        < built_cluster(found, 200_000, Layout(2, 1, 2, 1, together=True)).added / 10
    )


def test_parts_that_rest_take_longer() -> None:
    """A lone query takes each part's work so many times; that of who asks, of the gateway, of nodes and engine each its own."""
    cold = {"gateway": {**PART, "each_shard": 1e-4, "cold": [[0.1, 2.0], [0.5, 1.0]], "client_cold": [[0.1, 4.0], [0.5, 1.0]]}}
    found = times(**cold, node={**PART, "cold": [[0.1, 3.0], [0.5, 1.0]]})
    outcome = asked_cluster(found, 30_000, Layout(3, 1, 3, 8, together=True), Load(0.01, 20))
    assert outcome.seconds == pytest.approx([4 * 1e-4 + 2e-4 + 2 * (1e-3 + 3e-4) + 2e-4 + 3 * (1e-3 + 1e-4)] * 18)


def test_machines_are_those_of_the_largest_need() -> None:
    """The number of machines is rounded up, of the need that takes most, and one at least."""
    assert machines_for([(10.0, 4.0), (1.0, 1.0)]) == 3
    assert machines_for([(0.0, 4.0)]) == 1
    with pytest.raises(ValueError, match="too small"):
        machines_for([(1.0, 4.0), (1.0, -2.0)])


# ------------------------------------------------------------------------------------ layouts


@pytest.mark.parametrize(("machines", "each"), [(2, 1), (4, 2), (7, 3)])
def test_copies_of_a_shard_lie_on_different_machines(machines: int, each: int) -> None:
    """Replicas are spread evenly over nodes, and those of a shard over machines."""
    layout = Layout(machines * each, 2, machines, 4, each)
    held = [layout.holders(shard) for shard in range(layout.shards)]
    assert all(first // each != second // each for first, second in held)
    counts = [sum(node in pair for pair in held) for node in range(layout.nodes)]
    assert max(counts) - min(counts) <= 1


def test_a_lone_query_of_a_cluster_takes_its_steps() -> None:
    """At a load of nothing a query takes client, ways, gateway, node and engine, one after the other."""
    outcome = asked_cluster(times(), 30_000, Layout(3, 1, 3, 8, together=True), Load(0.01, 20))
    assert outcome.seconds == pytest.approx([1e-4 + 2e-4 + 1e-3 + 3e-4 + 2e-4 + 1e-3 + 1e-4] * 18)
    alone = asked_server(times(), 30_000, 2, Load(0.01, 20))
    assert alone.seconds == pytest.approx([1e-4 + 2e-4 + 1e-3 + 1e-4] * 18)


def test_adds_and_links_make_queries_wait() -> None:
    """Work besides queries makes them slower: adds far more than links, which stand behind."""
    quiet, linking, adding = (
        quantile(asked_cluster(times(), 30_000, layout, Load(100.0, 3_000)).seconds, 0.9)
        for layout in (Layout(1, 1, 1, 2), Layout(1, 1, 1, 2, behind=2.0), Layout(1, 1, 1, 2, applying=0.6))
    )
    assert quiet < linking < adding


# ------------------------------------------------------------------------------------ open load


@contextmanager
def answering() -> Iterator[int]:
    """The port of a server that closes its first connection at once, as one that was idle for too long, and answers all others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ending = threading.Event()

        def answer(channel: socket.socket) -> None:
            with channel:
                while (request := channel.recv(65_536)) and not ending.is_set():
                    channel.sendall(ANSWER * request.count(b"POST "))

        def accept() -> None:
            first = True
            while not ending.is_set():
                channel, _ = server.accept()
                if first:
                    channel.close()
                else:
                    threading.Thread(target=answer, args=(channel,), daemon=True).start()
                first = False

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ending.set()
            socket.create_connection(server.getsockname(), timeout=10).close()
            thread.join(10)


def test_requests_are_sent_when_they_are_due() -> None:
    """Every request that is due is answered once, also where a server closes idle connections, and counts from when it was due."""
    due = [0.2 + 0.002 * i for i in range(100)]
    with answering() as port:
        found = asked_by(1, Ask(port, [http_post("/", b"{}")], 3, 1.0, due=due))
    assert (found.status == 200).all()
    assert len(found.status) == 100
    # An answer is there when it was due and its seconds have passed.
    assert sorted(found.at - found.seconds) == pytest.approx(due, abs=1e-6)
    assert found.processor > 0.0


# ------------------------------------------------------------------------------- saved results


def saved(name: str) -> Any:
    """A saved result; the test is skipped where there is none."""
    file = report.RESULTS / f"{name}.json"
    if not file.exists():
        pytest.skip(f"{file.name} was not measured yet")
    return json.loads(file.read_text(encoding="utf-8"))


def measured() -> Times:
    """The service times that are kept."""
    return Times(saved("capacity")["result"])


def plain(value: Any) -> Any:
    """As JSON brings it back."""
    return json.loads(json.dumps(value))


def test_the_page_has_the_table() -> None:
    """The tables of docs/how-to/sizing.md are those of the saved result."""
    document = capacity_table.DOCUMENT.read_text(encoding="utf-8")
    assert capacity_table.written(document, capacity_table.render(saved("capacity_table"))) == document


def test_the_table_follows_from_the_service_times() -> None:
    """Machines, bytes, times and costs of every line are computed again; of the first the latencies are simulated again."""
    times, table = measured(), saved("capacity_table")
    assert table["assumed"] == plain(capacity_table.ASSUMED)
    for line in table["lines"]:
        again = plain(capacity_table.needed(times, table["assumed"], line, line["rate"]))
        assert {name: line[name] for name in again} == pytest.approx(again)
    first = table["lines"][0]
    again = capacity_table.latency(times, table["assumed"], first, first, first["rate"])
    assert {name: first[name] for name in again} == pytest.approx(again)


def test_what_the_check_foretold_is_what_is_foretold() -> None:
    """The simulator says of the first case what the saved check says that it said."""
    check = saved("capacity_check")["result"]
    case = check["cases"][0]
    again = capacity_check.foretold(measured(), case["who"], case["rows"], check["cores"])
    assert {name: case["foretold"][name] for name in again if name != "queries"} == pytest.approx(
        {name: value for name, value in again.items() if name != "queries"}, rel=1e-4
    )
    for theirs, ours in zip(case["foretold"]["queries"], again["queries"], strict=True):
        assert theirs == pytest.approx(ours, rel=1e-4)


def test_the_check_says_which_errors_are_too_large() -> None:
    """A figure within what is allowed counts as such, another one is marked."""
    queries = [{"rate": 10.0, "p50": 1e-3, "p99": 2e-3}]
    case = {"who": "server", "rows": 1_000, "measured": {"added": 1.0, "queries": queries, "took": 1.0, "others": 0.0}}
    case["foretold"] = {"added": 2.0, "queries": [{"rate": 10.0, "p50": 1.2e-3, "p99": 2e-3}]}
    text = capacity_check.render({"cores": 2, "shards": 3, "nodes": 3, "cases": [case]})
    assert "2 of 3 figures lie within 30%" in text
    assert "| added, s | 1.00 | 2.00 | **+100%** |" in text
    assert "| p50, ms, 10 queries/s | 1.00 | 1.20 | +20% |" in text
