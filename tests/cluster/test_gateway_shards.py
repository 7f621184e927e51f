"""What reads at a gateway have that one server's have not: pages over shards, tokens, missing shards, other replicas, refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from starlette.routing import Match

from gateway_items import DIM, IDS, PAYLOADS, ROWS, TIED, UNTIED
from gateway_nodes import Cluster, running_cluster
from kinbin.storage.transactions import Reader
from kinbin_cluster.gateway.app import create_app
from kinbin_cluster.gateway.tokens import Token
from kinbin_cluster.gateway.transport import Request
from kinbin_cluster.settings import ClusterSettings
from kinbin_cluster.shards import shard_of
from kinbin_service.openapi import COMMITTED
from kinbin_service.settings import Settings
from service_app import eventually

V = UNTIED[3].tolist()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, a gateway, and one server with the same items."""
    with running_cluster(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def tied(cluster: Cluster) -> str:
    """A collection where scores tie."""
    name = cluster.create(kernel="ngmm", dim=DIM)
    cluster.add(name, IDS, TIED, PAYLOADS)
    return name


@pytest.fixture(scope="module")
def untied(cluster: Cluster) -> str:
    """A collection where no scores tie."""
    name = cluster.create(kernel="ngmm", dim=DIM, replicas=2)
    cluster.add(name, IDS, UNTIED, PAYLOADS)
    return name


def test_pages_of_one_answer_and_their_end(cluster: Cluster, tied: str) -> None:
    """Pages by cursor go through the whole answer once, in its order; the last has no next."""
    seen: list[tuple[str, float]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = cluster.ask("POST", f"/v1/collections/{tied}/query", {"id": "i5", "k": 37, "mode": "exact", "cursor": cursor}).content
        seen += [(one["id"], one["score"]) for one in answer["results"]]
        cursor = answer["next"]
    assert len(seen) == len(set(seen)) == ROWS - 1
    assert [score for _, score in seen] == sorted((score for _, score in seen), reverse=True)


def test_a_cursor_goes_with_its_query_and_its_state_alone(cluster: Cluster, tied: str) -> None:
    """A cursor with another query is refused, and so is one whose shards have changed since."""
    path, body = f"/v1/collections/{tied}/query", {"vector": TIED[1].tolist(), "k": 5, "cursor": ""}
    cursor = cluster.ask("POST", path, body).content["next"]
    assert cluster.ask("POST", path, {**body, "k": 9, "include": ["payload"], "cursor": cursor}).status == 200
    other = cluster.ask("POST", path, {**body, "vector": TIED[2].tolist(), "cursor": cursor})
    assert (other.status, other.content["code"]) == (422, "bad_parameter")
    cluster.nodes["n1"].applied += 1
    late = cluster.ask("POST", path, {**body, "cursor": cursor})
    assert (late.status, late.content["code"]) == (409, "cursor_expired")


def token(cluster: Cluster, name: str, **sequences: int) -> dict[str, str]:
    """The header of a read after a write."""
    uid = cluster.picture.collections[name].uid
    return {"X-Kinbin-After": Token(uid, {int(shard[1:]): sequence for shard, sequence in sequences.items()}).text()}


def asked(cluster: Cluster, node: str) -> list[tuple[str, str | None]]:
    """What a node was asked. Whether it lives is asked where it is slow, as the machine may be."""
    return [one for one in cluster.nodes[node].seen if one[0] != "/livez"]


def test_a_token_tells_each_shard_how_far_it_has_to_be(cluster: Cluster, tied: str) -> None:
    """Every kind of read hands on to a shard the sequence that the token has for it, and to the others none."""
    uid = cluster.picture.collections[tied].uid
    headers = token(cluster, tied, s0=5, s2=77)
    for word, body in (("query", {"queries": [V]}), ("count", {}), ("get", {"ids": IDS}), ("scroll", {}), ("facets", {"field": "year"})):
        for node in cluster.nodes.values():
            node.seen.clear()
        assert cluster.ask("POST", f"/v1/collections/{tied}/{word}", body, headers=headers).status == 200
        seen = {one for name in cluster.nodes for one in asked(cluster, name)}
        assert {(f"/v1/collections/c{uid}-{shard}/{word}", after) for shard, after in ((0, "5"), (1, None), (2, "77"))} <= seen
        assert {after for path, after in seen if path.startswith(f"/v1/collections/c{uid}-0/")} == {"5"}


def test_the_short_way_of_a_query_takes_the_token_too(cluster: Cluster, tied: str) -> None:
    """A query of one vector goes to the nodes' own route, with what each shard has to have applied."""
    for node in cluster.nodes.values():
        node.seen.clear()
    assert cluster.ask("POST", f"/v1/collections/{tied}/query", {"vector": V}, headers=token(cluster, tied, s0=5, s2=77)).status == 200
    seen = [[one for one in asked(cluster, name) if one[0] == "/cluster/query"] for name in ("n0", "n1", "n2")]
    assert seen == [[("/cluster/query", told)] for told in ("5", None, "77")]


def test_ties_of_the_short_way_need_no_second_question(cluster: Cluster, tied: str) -> None:
    """Answers of the short way tell the numbers of rows; where one does not, as a node of before, all who tie are asked for theirs."""
    body = {"vector": TIED[5].tolist(), "k": 40, "mode": "exact"}
    for node in cluster.nodes.values():
        node.seen.clear()
    quick = cluster.ask("POST", f"/v1/collections/{tied}/query", body).content["results"]
    assert len({one["score"] for one in quick}) < len(quick), "there are ties"
    assert all("rows" not in one for one in quick)
    assert {path for name in cluster.nodes for path, _ in asked(cluster, name)} == {"/cluster/query"}
    plain = cluster.ask("POST", f"/v1/collections/{tied}/query", body | {"offset": 0}).content["results"]
    assert "/cluster/rows" in {path for name in cluster.nodes for path, _ in asked(cluster, name)}
    assert quick == plain


@pytest.mark.parametrize("wrong", ["x", "!", "W10", "WyJ4IixbXV0"])
def test_what_is_no_token_of_the_collection_is_refused(cluster: Cluster, tied: str, untied: str, wrong: str) -> None:
    """Neither garbage nor a token of another collection is taken for one."""
    path = f"/v1/collections/{tied}/count"
    for headers in ({"X-Kinbin-After": wrong}, token(cluster, untied, s0=1)):
        answer = cluster.ask("POST", path, {}, headers=headers)
        assert (answer.status, answer.content["code"]) == (422, "bad_parameter")


def lose(cluster: Cluster, node: str) -> Any:
    """Let a node answer for no shard."""
    stand_in = cluster.nodes[node]
    stand_in.fails = lambda path: (404, "collection_not_found")
    return stand_in


def test_a_shard_that_nobody_answers_for_is_told(cluster: Cluster, tied: str) -> None:
    """Without a shard reads are refused with 503, or answered in part where that is allowed, with no bound and the shard named."""
    lost = lose(cluster, "n1")
    try:
        for word, body in (("query", {"vector": TIED[1].tolist(), "mode": "exact"}), ("count", {}), ("scroll", {}), ("get", {"ids": IDS})):
            path = f"/v1/collections/{tied}/{word}"
            refused = cluster.ask("POST", path, body)
            assert (refused.status, refused.content["code"]) == (503, "shard_unavailable")
            assert "take what there is with allow_partial" in refused.content["detail"]
            part = cluster.ask("POST", path, {**body, "allow_partial": True})
            assert (part.status, part.content["partial"], part.content["shards_missing"]) == (200, True, [1])
        answer = cluster.ask(
            "POST", f"/v1/collections/{tied}/query", {"vector": TIED[1].tolist(), "k": ROWS, "allow_partial": True}
        ).content
        assert {shard_of(one["id"], 3) for one in answer["results"]} == {0, 2}
        assert (answer["recall_lower_bound"], answer["no_bound"]) == (None, "shards are missing: see shards_missing")
        own = next(one for one in IDS if shard_of(one, 3) == 1)
        refused = cluster.ask("POST", f"/v1/collections/{tied}/query", {"id": own, "allow_partial": True})
        assert refused.status == 503
        # What was asked for is no advice, nor is what would not help.
        assert refused.content["detail"] == "no node answers for shard 1 of 3; try again"
    finally:
        lost.fails = lambda _: None
    whole = cluster.ask("POST", f"/v1/collections/{tied}/count", {"allow_partial": True}).content
    assert whole == {"count": ROWS}
    bad = cluster.ask("POST", f"/v1/collections/{tied}/count", {"allow_partial": 1})
    assert (bad.status, bad.content["code"]) == (422, "invalid_field")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "unauthorized"),
        (404, "collection_not_found"),
        (503, "not_ready"),
        (503, "lagging"),
        (429, "overloaded"),
        (500, "corrupt_data"),
    ],
)
def test_another_replica_answers_in_the_place_of_one_that_cannot(cluster: Cluster, untied: str, status: int, code: str) -> None:
    """Whatever keeps one replica from answering, another one is asked at once."""
    cluster.nodes["n2"].fails = lambda _: (status, code)
    try:
        for _ in range(4):
            assert cluster.ask("POST", f"/v1/collections/{untied}/count", {}).content == {"count": ROWS}
    finally:
        cluster.nodes["n2"].fails = lambda _: None


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (503, "lagging", "lagging"),
        (429, "overloaded", "overloaded"),
        (503, "stopping", "shard_unavailable"),
        (503, "search_deadline", "search_deadline"),
    ],
)
def test_what_all_replicas_refuse_is_refused(cluster: Cluster, untied: str, status: int, code: str, told: str) -> None:
    """When no replica answers, the client hears why, where that is for it to know."""
    for node in cluster.nodes.values():
        node.fails = lambda _: (status, code)
    try:
        answer = cluster.ask("POST", f"/v1/collections/{untied}/count", {})
        assert (answer.status, answer.content["code"]) == (status, told)
    finally:
        for node in cluster.nodes.values():
            node.fails = lambda _: None


def test_a_node_that_is_silent_holds_nobody_up(cluster: Cluster, untied: str) -> None:
    """While a node takes requests and answers none, another replica answers in its place, and it is asked again once it answers."""
    node, fanout = cluster.nodes["n0"], cluster.gateway.fanout
    reached = cluster.reached("n0")
    # None to spare: what is late is waited for, what is silent is not.
    fanout._tokens = 0.0
    cluster.run(_set(node.held, on=False))
    try:
        for _ in range(3):
            assert cluster.ask("POST", f"/v1/collections/{untied}/count", {}).content == {"count": ROWS}
        assert fanout.hedged > 0
        assert reached.silent(time.monotonic()) > 0
    finally:
        cluster.run(_set(node.held, on=True))
    cluster.run(eventually(lambda: not reached.outstanding))


def test_a_search_that_takes_long_is_not_made_twice(cluster: Cluster, untied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that searches for long is asked whether it lives, and waited for as long as it says so."""
    node, fanout = cluster.nodes["n0"], cluster.gateway.fanout
    reached = cluster.reached("n0")
    # A machine that is busy elsewhere may not answer within the usual time.
    monkeypatch.setattr("kinbin_cluster.gateway.fanout.SILENT_SECONDS", 60.0)
    fanout._tokens, hedged = 0.0, fanout.hedged
    node.seen.clear()
    node.holds = lambda path: path != "/livez"
    cluster.run(_set(node.held, on=False))
    try:
        waiting = [cluster.begin("POST", f"/v1/collections/{untied}/count", {}) for _ in range(2)]
        cluster.run(eventually(lambda: any(path.endswith("/count") for path, _ in node.seen)))
        begun, silent = time.monotonic(), reached.silent
        cluster.run(eventually(lambda: sum(path == "/livez" for path, _ in node.seen) >= 2))
        # It was heard of since: for less than that time it is silent.
        cluster.run(eventually(lambda: silent(now := time.monotonic()) < now - begun))
        assert fanout.hedged == hedged
    finally:
        cluster.run(_set(node.held, on=True))
        node.holds = lambda _: True
    assert [one.result(60).content for one in waiting] == [{"count": ROWS}] * 2


def test_a_silent_node_stays_silent_when_its_clients_give_up(cluster: Cluster, untied: str) -> None:
    """Those who left before a node counted as silent leave it so: it is not asked first again before it has said something."""
    node, reached = cluster.nodes["n0"], cluster.reached("n0")
    cluster.run(_set(node.held, on=False))
    try:
        cluster.run(_given_up(cluster, reached))
        assert reached.silent(time.monotonic()) > 0
    finally:
        cluster.run(_set(node.held, on=True))
    cluster.run(eventually(lambda: not reached.outstanding and not reached.silent(time.monotonic())))


async def _given_up(cluster: Cluster, reached: Any) -> None:
    waiting = asyncio.ensure_future(reached.request(Request("POST", "/v1/collections/x/count", b"{}"), 60.0))
    await eventually(lambda: ("/v1/collections/x/count", None) in cluster.nodes["n0"].seen)
    waiting.cancel()
    await asyncio.wait({waiting})


async def _set(event: Any, *, on: bool) -> None:
    if on:
        event.set()
    else:
        event.clear()


def test_a_node_that_cannot_be_reached_holds_nobody_up(cluster: Cluster, untied: str) -> None:
    """A node whose port nobody listens on is passed over, and nothing is left waiting for it."""
    told = cluster.picture.nodes["n1"]
    cluster.picture.nodes["n1"] = type(told)("n1", "http://127.0.0.1:9")
    try:
        for _ in range(4):
            assert cluster.ask("POST", f"/v1/collections/{untied}/count", {}).content == {"count": ROWS}
    finally:
        cluster.picture.nodes["n1"] = told
    cluster.run(eventually(lambda: set(cluster.gateway.fanout.outstanding().values()) == {0}))


def test_a_cluster_answers_every_route_of_one_server() -> None:
    """Each operation of the contract is answered or refused by the gateway; none is unknown to it."""
    app = create_app(Settings(), ClusterSettings())
    for path, methods in orjson.loads(COMMITTED.read_bytes())["paths"].items():
        for method in methods:
            scope = {"type": "http", "method": method.upper(), "path": path.replace("{name}", "a").replace("{id}", "b"), "headers": []}
            assert any(route.matches(scope)[0] is Match.FULL for route in app.router.routes), (method, path)


@pytest.mark.parametrize("word", ["duplicates", "tune", "recall", "rebuild", "map", "snapshots"])
def test_what_a_cluster_does_not_offer_says_so(cluster: Cluster, tied: str, word: str) -> None:
    """It is refused with 501 and what to do instead, never answered in part."""
    answer = cluster.ask("POST", f"/v1/collections/{tied}/{word}", {"min_score": 0.9})
    assert (answer.status, answer.content["code"]) == (501, "not_in_cluster")
    assert answer.content["detail"]


@pytest.mark.parametrize(
    "body", [{"queries": [{"id": "i1", "cursor": ""}]}, {"queries": [V], "group_by": {"field": "year"}}, {"queries": [V], "cursor": ""}]
)
def test_shapes_of_many_queries_are_refused(cluster: Cluster, untied: str, body: Any) -> None:
    """Pages and groups are of one query alone, and many that ask for them are told so."""
    answer = cluster.ask("POST", f"/v1/collections/{untied}/query", body)
    assert (answer.status, answer.content["code"]) == (501, "not_in_cluster")


def test_health_and_metrics_tell_of_the_cluster(cluster: Cluster, tied: str) -> None:
    """Health tells how many nodes live; the metrics tell of nodes, lag, shards without an answer, and requests by route."""
    assert cluster.ask("GET", "/readyz").content["nodes"] == 3
    cluster.ask("POST", f"/v1/collections/{tied}/query", {"id": "i5"})
    text = cluster.ask("GET", "/metrics").content
    assert 'kinbin_cluster_node_live{node="n0"} 1.0' in text
    assert "kinbin_cluster_shards_unanswered 0.0" in text
    assert 'kinbin_requests_total{method="POST",route="/v1/collections/{name}/query",status="200"}' in text
    assert 'kinbin_cluster_lag_messages{node="n2"} 0.0' in text


def test_keys_and_places_are_those_of_one_server(tmp_path: Any) -> None:
    """A gateway with a key answers nobody without it, and no more requests at once than it has places for."""
    with running_cluster(tmp_path, 1, api_key="secret") as keyed:
        name = keyed.create(kernel="ngmm", dim=DIM, shards=2)
        keyed.add(name, IDS[:20], UNTIED[:20])
        path = f"/v1/collections/{name}/count"
        assert keyed.ask("POST", path, {}).status == 401
        assert keyed.ask("POST", path, {}, headers={"X-API-Key": "secret"}).content == {"count": 20}
        keyed.gateway.admission.most = 0
        answer = keyed.ask("POST", path, {}, headers={"X-API-Key": "secret"})
        assert (answer.status, answer.content["code"]) == (429, "overloaded")
        assert keyed.ask("GET", "/readyz").status == 200


def test_a_gateway_without_nodes_is_not_ready(tmp_path: Any) -> None:
    """It says why: none has joined, or those that did are silent; with the first that lives it is ready. It is alive all the while."""
    with running_cluster(tmp_path, 1) as alone:
        held = dict(alone.picture.nodes)
        for nodes, reason in (({}, "no node has joined yet"), (held, "has told of itself lately: n0")):
            alone.picture.nodes = nodes
            refused = alone.ask("GET", "/readyz")
            assert (refused.status, refused.content["code"]) == (503, "not_ready")
            assert reason in refused.content["detail"]
            assert alone.ask("GET", "/livez").content["status"] == "starting"
        alone.beat()
        assert (alone.ask("GET", "/readyz").content["status"], alone.ask("GET", "/livez").content["status"]) == ("ready", "ready")


def test_replicas_are_asked_in_turn(cluster: Cluster, untied: str) -> None:
    """Where none owes an answer, the replicas of a shard take turns."""
    uid = cluster.picture.collections[untied].uid
    for node in cluster.nodes.values():
        node.seen.clear()
    for _ in range(6):
        assert cluster.ask("POST", f"/v1/collections/{untied}/count", {}).status == 200
    asked = {name: sum(path.startswith(f"/v1/collections/c{uid}-0/") for path, _ in node.seen) for name, node in cluster.nodes.items()}
    assert (asked["n0"] > 1, asked["n1"] > 1, asked["n2"]) == (True, True, 0)


def test_filters_are_judged_by_the_indexes_of_the_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an index that is ready no node reads the payloads of items that a filter asks for; without one they all do."""
    names = [cluster.create(kernel="ngmm", dim=DIM, indexes=kinds) for kinds in ({"n": "number"}, None)]
    for name in names:
        cluster.add(name, IDS, UNTIED, [{"n": row % 10} for row in range(ROWS)])
    cluster.run(eventually(lambda: _ready(cluster, names[0]), 60.0))
    read: list[str] = []
    plain = Reader.all_items

    def all_items(self: Reader) -> Any:
        read.append("payloads")
        return plain(self)

    monkeypatch.setattr(Reader, "all_items", all_items)
    for name, times in zip(names, (0, 3), strict=True):
        found = cluster.ask("POST", f"/v1/collections/{name}/query", {"vector": V, "k": ROWS, "mode": "exact", "filter": {"n": 3}}).content
        assert len(found["results"]) == ROWS // 10
        assert len(read) == times


def _ready(cluster: Cluster, name: str) -> bool:
    """Whether the indexes of a collection are built on every node."""
    uid = cluster.picture.collections[name].uid
    told = [database.collection(one).stats()["indexes"] for database in cluster.databases.values() for one in database.collections()
            if uid in one]  # fmt: skip
    return all(one["ready"] for one in told)
