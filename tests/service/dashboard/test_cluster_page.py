"""The page of a cluster against a real one: two nodes, of which one goes away and comes back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from browser import PHONE, WIDE, Looked, browsing
from dashboard_site import looking

pytest.importorskip("nats", reason="the extra cluster is not installed")

from kinbin_cluster.dev import DevCluster

pytestmark = [pytest.mark.slow, pytest.mark.server]
LONG = 90_000
"""Milliseconds in which something has to come about."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for this file."""
    with browsing() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """One NATS server, two nodes in two zones, a gateway, and a collection of three shards with two replicas."""
    extra = {"KINBIN_CLUSTER_LOST_SECONDS": "3"}
    folder = tmp_path_factory.mktemp("cluster-page")
    made = DevCluster(folder, nodes=0, servers=1, extra=extra)
    for name, zone in (("node-0", "east"), ("node-1", "west")):
        made.add_node(name, zone)
    with made as cluster:
        wanted = {"dim": 2, "cluster": {"shards": 3, "replicas": 2}}
        deadline = time.monotonic() + LONG / 1_000
        while httpx.put(f"{cluster.address}/v1/collections/things", json=wanted, timeout=30).status_code not in {200, 201}:
            assert time.monotonic() < deadline, "the nodes are not known to the gateway"
            time.sleep(0.1)
        items = [{"id": f"i{number}", "vector": [number, 1]} for number in range(40)]
        assert httpx.post(f"{cluster.address}/v1/collections/things/index", json={"items": items}, timeout=60).status_code == 200
        yield cluster


@pytest.fixture
def look(browser: Browser, cluster: DevCluster) -> Iterator[Callable[..., Looked]]:
    """A function that opens a window on the gateway; at the end nothing may have gone wrong in any of them."""
    with looking(browser, cluster.address) as opened:
        yield opened


def well(page: Page) -> None:
    """Wait until all is told as well."""
    page.get_by_text("Every shard has all of its replicas.").wait_for(timeout=LONG)


def region(page: Page, name: str) -> Any:
    """The table of this caption."""
    return page.get_by_role("region", name=name)


@pytest.mark.parametrize("how", [WIDE, PHONE], ids=["wide and light", "phone and dark"])
def test_nodes_and_shards_are_shown(look: Any, how: dict[str, Any]) -> None:
    """Nodes with state, zone, shards, items and disk, shards with holder and copies; sound for axe-core, and not wider than its window."""
    looked = look(**how)
    page = looked.open("cluster")
    well(page)
    assert page.locator("h1").inner_text() == "Cluster"
    east = region(page, "2 nodes").get_by_role("row").filter(has_text="node-0")
    expect(east.get_by_role("cell").nth(3)).to_have_text("40", timeout=LONG)
    expect(east).to_contain_text("iB (", timeout=LONG)
    cells = east.get_by_role("cell").all_inner_texts()
    assert cells[:4] == ["live", "east", "3", "40"]
    assert re.fullmatch(r"[\d.]+ \wiB \([\d.]+ %\)", cells[-1])
    shards = region(page, "3 of 3 shards")
    expect(shards.get_by_role("row")).to_have_count(4)
    for row in shards.get_by_role("row").all()[1:]:
        expect(row).to_contain_text("well", timeout=LONG)
        assert len(re.findall(r"node-\d: live", row.inner_text())) == 2
        assert row.inner_text().count("holder") == 1
    assert looked.findings() == []
    assert looked.sideways() <= 0
    page.get_by_role("link", name="things").first.click()
    page.get_by_role("heading", name="Query", exact=True).wait_for()


def test_a_node_that_goes_is_seen_without_a_reload(look: Any, cluster: DevCluster) -> None:
    """What is missing is said as soon as a node is silent, in words and not by colour alone, and that it is well when it is back."""
    page = look().open("cluster")
    well(page)
    cluster.nodes["node-1"].kill()
    page.get_by_text("3 replicas are missing.").wait_for(timeout=LONG)
    shards = region(page, "3 of 3 shards")
    expect(shards.get_by_text("lacks 1 of 2")).to_have_count(3)
    expect(region(page, "2 nodes").get_by_role("row").filter(has_text="node-1")).to_contain_text("silent")
    page.get_by_label("Only shards that are not well").check()
    expect(region(page, "3 of 3 shards")).to_have_count(1)
    cluster.nodes["node-1"].start()
    cluster.nodes["node-1"].wait()
    well(page)
    expect(region(page, "0 of 3 shards")).to_have_count(1, timeout=LONG)


def test_moves_are_told_while_they_last(look: Any, cluster: DevCluster) -> None:
    """A shard that a node joins is under way, with the node's name; a cluster that is being cut into other shards says so."""
    page = look().open("cluster")
    well(page)
    told = httpx.get(f"{cluster.address}/v1/cluster", timeout=30).json()
    copies = told["collections"][0]["shards"][0]["copies"]
    # A node that has just come back may not have told yet how far it is.
    for copy in copies:
        copy["applied"] = 10
    copies.append({**copies[0], "node": "node-9", "role": "joining", "state": "replaying", "applied": 5, "problem": None})
    told["collections"][0]["shards"][0]["state"] = "moving"
    told["reshards"] = [{"name": "things", "into": "things-to-6-shards", "shards": 6, "state": "copying"}]
    page.route("**/v1/cluster", lambda route: route.fulfill(json=told))
    page.get_by_text(re.compile(r"Shard 0 of things comes to node-9: replaying, [\d.]+ % of the log\.")).wait_for(timeout=LONG)
    page.get_by_text("things is cut into 6 shards: things-to-6-shards is filled.").wait_for(timeout=LONG)
    page.unroute_all(behavior="ignoreErrors")
    well(page)
    expect(page.get_by_text("Under way")).to_have_count(0, timeout=LONG)


def test_a_gateway_that_cannot_be_reached_is_said_and_asked_again(look: Any) -> None:
    """While the gateway does not answer the page says so beside what it knew, and goes on when it does."""
    looked = look()
    page = looked.open("cluster")
    well(page)
    page.route("**/v1/cluster", lambda route: route.abort())
    page.get_by_text("The server was not reached").wait_for(timeout=LONG)
    expect(region(page, "3 of 3 shards")).to_have_count(1)
    page.unroute_all(behavior="ignoreErrors")
    well(page)
    looked.wrong = [wrong for wrong in looked.wrong if "ERR_FAILED" not in wrong]


def test_the_keyboard_reaches_the_page_and_keeps_its_place(look: Any) -> None:
    """The link is there to tab to, tables can be scrolled by keys, and a refresh leaves the focus where it is."""
    page = look().open()
    link = page.get_by_role("navigation", name="Server").get_by_role("link", name="Cluster")
    link.wait_for(timeout=LONG)
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Cluster").wait_for()
    well(page)
    region(page, "3 of 3 shards").focus()
    with page.expect_response("**/v1/cluster", timeout=LONG):
        pass
    with page.expect_response("**/v1/cluster", timeout=LONG):
        pass
    assert page.evaluate("document.activeElement.getAttribute('role')") == "region"
