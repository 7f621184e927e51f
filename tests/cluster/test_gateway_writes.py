"""Writes through a gateway against one node: the same edits give the same answers and the same contents."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

from typer.testing import CliRunner

from faults.running import Cluster, until
from kinbin_client import Client, Conflict, InvalidInput
from kinbin_cluster.servers import Process, free_port
from kinbin_service.cli import app

pytestmark = pytest.mark.server
# Unlike each other: a name that is not there is answered with the nearest one, and a gateway knows others than one server.
NAMES = (f"c{random.Random(number).getrandbits(64):x}" for number in itertools.count())
OWN = {"took_ms", "token", "atomic"}
"""What answers of a gateway have of their own, or is different each time."""


@dataclass
class Both:
    """A gateway of a cluster, and one node that is asked the same."""

    gateway: httpx.Client
    one: httpx.Client

    def ask(self, method: str, path: str, content: Any = None, **more: Any) -> tuple[httpx.Response, httpx.Response]:
        """Both answers to the same request; of the same status."""
        body: dict[str, Any] = {"content": content} if isinstance(content, bytes) else {} if content is None else {"json": content}
        found, wanted = (client.request(method, path, **body, **more) for client in (self.gateway, self.one))
        assert found.status_code == wanted.status_code, (found.text, wanted.text)
        return found, wanted

    def same(self, method: str, path: str, content: Any = None, **more: Any) -> dict[str, Any]:
        """The gateway's answer, which says what the node says."""
        found, wanted = (one.json() for one in self.ask(method, path, content, **more))
        if "code" in found:
            assert found == wanted
        else:
            assert {name: value for name, value in found.items() if name not in OWN} == {
                name: value for name, value in wanted.items() if name not in OWN
            }
        return dict(found)

    def contents(self, name: str, token: str = "") -> list[Any]:
        """All items, which are the same in both, read after what a token names."""
        asked = {"limit": 1_000, "include": ["payload", "vector"]}
        headers = {"X-Kinbin-After": token} if token else {}
        found, wanted = (one.json()["items"] for one in self.ask("POST", f"/v1/collections/{name}/scroll", asked, headers=headers))
        assert found == wanted
        return list(found)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A cluster of one server, one node and a gateway, and one node beside it.

    One replica of each shard: a read without a token sees what was written before, as on one node.
    """
    folder = tmp_path_factory.mktemp("writes")
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KINBIN_")}
    environment |= {"KINBIN_DATA_DIR": str(folder / "one"), "KINBIN_PORT": str(port), "KINBIN_ACCESS_LOG": "false"}
    alone = Process([sys.executable, "-m", "kinbin_service"], folder / "one.log", environment)
    alone.start()
    try:
        with (
            Cluster(folder / "cluster", node_count=1, gateway_count=1, servers=1) as cluster,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as one,
            httpx.Client(base_url=cluster.gateways[0].address, timeout=60) as gateway,
        ):
            until(lambda: _ready(one), 100, f"the node beside it does not start: {alone.said()}")
            yield Both(gateway, one)
    finally:
        alone.kill()


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def name(both: Both) -> str:
    """A collection of three numbers in both."""
    made = next(NAMES)
    found, _ = both.ask("PUT", f"/v1/collections/{made}", {"dim": 3})
    assert found.status_code == 201
    return made


def item(identifier: Any, *numbers: float, **more: Any) -> dict[str, Any]:
    """An item of an add."""
    return {"id": identifier, "vector": list(numbers), **more}


@pytest.mark.slow
def test_the_same_edits_give_the_same_contents(both: Both, name: str) -> None:
    """After random upserts, deletes, payloads and patches, by all bodies, both hold the same, and every answer was the same."""
    rng = random.Random(5)
    path = f"/v1/collections/{name}"
    token = ""
    for _ in range(40):
        ids = rng.sample([f"i{number}" for number in range(30)], rng.randint(1, 12))
        items = [item(one, rng.randint(1, 9), rng.randint(0, 9), 0, payload={"n": rng.randint(0, 5), "t": one[-1]}) for one in ids]
        kind = rng.randrange(6)
        if kind == 0:
            found = both.same("POST", f"{path}/delete", {"ids": ids})
        elif kind == 1:
            found = both.same("POST", f"{path}/delete", {"filter": {"n": rng.randint(0, 5)}})
        elif kind == 2:
            lines = b"\n".join(map(orjson.dumps, items))
            found = both.same("POST", f"{path}/index", lines, headers={"Content-Type": "application/x-ndjson"})
        elif kind == 3:
            matrix = _npy(np.array([one["vector"] for one in items], np.float32))
            found = both.same("POST", f"{path}/index", matrix, headers={"Content-Type": "application/x-npy", "X-Kinbin-Ids": ",".join(ids)})
        else:
            found = both.same("POST", f"{path}/index", {"items": items})
        token = found["token"]
        there = [one["id"] for one in both.contents(name, token)]
        if there:
            some = rng.sample(there, min(3, len(there)))
            patches = [{"id": one, "payload": {"n": None, "p": rng.randint(0, 3)}} for one in some]
            token = both.same("POST", f"{path}/payload", {"items": patches, "mode": rng.choice(["merge", "replace"])})["token"]
    assert both.contents(name, token)


def _npy(matrix: Any) -> bytes:
    import io

    out = io.BytesIO()
    np.save(out, matrix)
    return out.getvalue()


def test_what_is_decided_when_it_is_applied(both: Both, name: str) -> None:
    """Insert, update and versions are granted and refused as one node does, with its texts and pointers."""
    path = f"/v1/collections/{name}"
    both.same("POST", f"{path}/index", {"items": [item("a", 1, 2, 3)], "mode": "insert"})
    assert both.same("POST", f"{path}/index", {"items": [item("a", 1, 2, 3)], "mode": "insert"})["code"] == "item_conflict"
    assert both.same("POST", f"{path}/index", {"items": [item("b", 1, 2, 3)], "mode": "update"})["code"] == "item_conflict"
    assert both.same("POST", f"{path}/payload", {"items": [{"id": "b", "payload": {}}]})["code"] == "item_conflict"
    stale = {"items": [item("a", 3, 2, 1, if_version=7)]}
    assert both.same("POST", f"{path}/index", stale)["code"] == "version_conflict"
    for client in (both.gateway, both.one):
        read = client.post(f"{path}/get", json={"ids": ["a"], "include": ["version"]}).json()["items"][0]["version"]
        done = client.post(f"{path}/index", json={"items": [item("a", 3, 2, 1, if_version=read)]})
        assert done.json()["updated"] == 1
        assert client.post(f"{path}/delete", json={"ids": ["a"], "if_versions": [read]}).json()["code"] == "version_conflict"
    both.same("POST", f"{path}/index", {"items": [item("a", 3, 2, 1), item("c", 1, 1, 1, if_version=5)], "on_error": "skip"})


def test_what_is_refused_before_it_is_written(both: Both, name: str) -> None:
    """Items, ids, payloads, filters and options that one node refuses are refused alike, and nothing of the batch is written."""
    path = f"/v1/collections/{name}"
    for where, body in (
        ("index", {"items": [item("a", 1, 2, 3), item("b", 1, 2)]}),
        ("index", {"items": [item("a", 1, 2, 3), item("a", 1, 2, 4)]}),
        ("index", {"items": [item("a", 0, 0, 0)]}),
        ("index", {"items": [{"id": "a", "string": "text"}]}),
        ("index", {"items": [{"id": "", "vector": [1, 2, 3]}]}),
        ("index", {"items": [], "modes": 1}),
        ("delete", {"filter": {"n": {"$no": 1}}}),
        ("delete", {"ids": [""]}),
        ("payload", {"items": [{"id": "a", "payload": {}}, {"id": "a", "payload": {}}]}),
        ("indexes", {"add": {"n": "no kind"}}),
    ):
        assert both.same("POST", f"{path}/{where}", body)["status"] >= 400
    bad = {"items": [{"id": "z", "string": "text"}, item("x", 1, 2, 3), item("y", 0, 0, 0), item("x", 1, 1, 1)], "on_error": "skip"}
    assert both.same("POST", f"{path}/index", bad)["skipped"] == 3
    assert [one["id"] for one in both.contents(name)] == ["x"]
    assert both.same("POST", f"/v1/collections/{name}x/index", {"items": [item("a", 1, 2, 3)]})["code"] == "collection_not_found"


def test_a_write_of_several_shards_is_atomic_in_each(both: Both, name: str) -> None:
    """Where one shard refuses its part the others' are written: the answer is a conflict that says so, and only that part is missing."""
    path = f"/v1/collections/{name}/index"
    both.gateway.post(path, json={"items": [item("i0", 1, 1, 1)]})
    batch = {"items": [item(f"i{number}", 1, 2, 3) for number in range(12)], "mode": "insert"}
    refused = both.gateway.post(path, json=batch)
    assert refused.status_code == 409
    assert "of the write's 3 parts (one a shard) were written" in refused.json()["detail"]
    assert refused.json()["errors"] == [{"pointer": "#/items/0/id", "detail": "conflicts with what is stored"}]
    found = both.gateway.post(f"/v1/collections/{name}/count", json={}).json()["count"]
    assert 1 < found < 12


def test_an_add_with_a_key_is_done_once(both: Both, name: str) -> None:
    """Sent again with its key an add has the same answer and the same made ids, and changes nothing; with other content it is refused."""
    path = f"/v1/collections/{name}/index"
    key = {"Idempotency-Key": "first"}
    body = {"items": [item(f"k{number}", number + 1, 2, 3) for number in range(9)], "mode": "insert"}
    first, again = both.same("POST", path, body, headers=key), both.ask("POST", path, body, headers=key)[0]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert {**again.json(), "took_ms": 0} == {**first, "took_ms": 0}
    other = {"items": [item("k0", 9, 9, 9)]}
    assert both.same("POST", path, other, headers=key)["code"] == "key_reused"
    matrix = {"content": _npy(np.eye(3, dtype=np.float32)), "headers": {"Content-Type": "application/x-npy", "Idempotency-Key": "second"}}
    made = [both.gateway.post(path, **matrix).json()["ids"] for _ in range(2)]  # type: ignore[arg-type]  # of one table
    assert made[0] == made[1]
    assert both.gateway.post(f"/v1/collections/{name}/count", json={}).json()["count"] == 12


def test_lines_stream_into_a_cluster(both: Both, name: str) -> None:
    """A stream of many batches is all there, and its last receipt says so."""
    lines = b"\n".join(orjson.dumps(item(f"s{number}", 1 + number % 7, 2, 3)) for number in range(2_500))
    found, wanted = both.ask("POST", f"/v1/collections/{name}/index?stream=true", lines, headers={"Content-Type": "application/x-ndjson"})
    told = [orjson.loads(one.text.splitlines()[-1]) for one in (found, wanted)]
    assert {**told[0], "took_ms": 0} == {**told[1], "took_ms": 0}
    assert (told[0]["done"], told[0]["indexed"], told[0]["count"]) == (True, 2_500, 2_500)


def test_collections_and_aliases_of_a_cluster(both: Both) -> None:
    """Created, created again, refused where they differ, led to by aliases, dropped: as one node does."""
    name = next(NAMES)
    path = f"/v1/collections/{name}"
    for body in ({"dim": 4}, {"dim": 4}, {"dim": 5}, {"dim": 4, "kernel": "no"}, {"items": "strings"}):
        found, _ = both.ask("PUT", path, body)
        assert found.status_code in (200, 201, 409, 422)
    assert both.gateway.put(path, json={"dim": 4, "cluster": {"shards": 4}}).status_code == 409
    both.same("PUT", f"/v1/aliases/{name}-live", {"collection": name})
    both.same("POST", f"/v1/collections/{name}-live/index", {"items": [{"id": "a", "vector": [1, 2, 3, 4]}]})
    assert both.same("PUT", f"/v1/aliases/{name}-live", {"collection": f"{name}-not"})["code"] == "collection_not_found"
    assert both.same("PUT", f"/v1/aliases/{name}", {"collection": name})["code"] == "alias_conflict"
    assert both.same("DELETE", path)["code"] == "alias_conflict"
    both.same("DELETE", f"/v1/aliases/{name}-live")
    assert both.same("DELETE", f"/v1/aliases/{name}-live")["code"] == "alias_not_found"
    both.same("DELETE", path)
    assert both.same("DELETE", path)["code"] == "collection_not_found"
    both.ask("PUT", path, {"dim": 2})
    both.same("POST", f"{path}/index", {"items": [{"id": "a", "vector": [1, 2]}]})
    assert len(both.contents(name)) == 1


FIELDS: dict[str, Any] = {"colour": {"kernel": "chi2", "dim": 4, "feature_names": ["r", "g", "b", "k"]}, "words": {}}
INDEXES = {"year": "number", "tag": "keyword", "seen": "datetime", "where": "geo"}
CREATES: list[dict[str, Any]] = [
    {},
    {"dim": 3, "indexes": INDEXES},
    {"dim": 4, "kernel": "gmm*acos", "bands": 20, "rows": 3, "seed": 2**64 - 1, "feature_names": ["a", "b", "c", "d"]},
    {"dim": 4, "kernel": "rbf", "parameters": {"gamma": 2.0}, "sampler": "sign"},
    {"kernel": "minmax", "feature_names": {"3": "red"}, "indexes": {}},
    {"items": "strings", "distance": "levenshtein", "indexes": {"year": "number"}},
    {"items": "series", "distance": "dtw", "parameters": {"window": 0.1}, "dim": 3},
    {"items": "points", "distance": "hausdorff", "dim": 2},
    {"items": "images", "kernel": "nested", "parameters": {"levels": 2, "base": "tv", "epsilon": 0.5}},
    {"fields": FIELDS, "seed": 5, "indexes": {}},
    {"fields": FIELDS, "indexes": {"year": "number"}},
    {"fields": FIELDS, "items": "strings"},
    {"fields": FIELDS, "dim": 3},
    {"fields": {"colour": {"kernel": "euclidean"}}},
    {"fields": {}},
    {"dim": 3, "indexes": {"a..b": "number"}},
    {"dim": 3, "seed": 2**64},
    {"dim": 3, "kernel": "chi2", "distance": "levenshtein"},
    {"dim": 3, "parameters": {"gamma": 2.0}},
    {"dim": 3, "feature_names": ["a"]},
    {"items": "objects"},
]
"""What one server takes and refuses, each option once at least."""


@pytest.mark.slow
@pytest.mark.parametrize("body", CREATES, ids=lambda body: "-".join(body) or "plain")
def test_what_one_server_creates_a_gateway_creates(both: Both, body: dict[str, Any]) -> None:
    """Each option has the same effect and the same description, twice as well, and each refusal the same words."""
    path = f"/v1/collections/{next(NAMES)}"
    made = both.ask("PUT", path, body)
    others = [{"dim": 77}, {"fields": {"one": {"dim": 77}}}, {"indexes": {"year": "keyword"}, **body}] if made[0].is_success else []
    for found, wanted in (made, *(both.ask("PUT", path, one) for one in (body, *others))):
        assert _described(found) == _described(wanted)
    if others:
        assert _indexed(both.gateway, path) == _indexed(both.one, path)


def _described(answer: httpx.Response) -> dict[str, Any]:
    """An answer to PUT without what is of one server, or of a cluster."""
    return {name: value for name, value in answer.json().items() if name not in {"cluster", "stats"}}


def _indexed(client: httpx.Client, path: str) -> dict[str, str]:
    """The kinds of the payload indexes that a collection tells of, once they are ready."""

    def told() -> Any:
        return client.get(path).json()["stats"].get("indexes") or {"fields": {}, "ready": True}

    until(lambda: told()["ready"], 60, "the indexes are not ready")
    return {name: one["kind"] for name, one in told()["fields"].items()}


def test_a_collection_lies_as_its_creator_says(both: Both) -> None:
    """Clients and the command line say how many shards and replicas, are told of it, and of what cannot be; nothing is made then."""
    address, name = str(both.gateway.base_url), next(NAMES)
    with Client(address) as client:
        made = client.create_collection(name, dim=2, cluster={"shards": 4, "replicas": 1})
        assert made.info().cluster == {"shards": 4, "replicas": 1}
        client.create_collection(name, dim=2, exist_ok=True)
        for cluster, error, says in (
            ({"shards": 5}, Conflict, "exists with 4 shards of 1 replicas"),
            ({"shards": 257}, InvalidInput, "less than or equal to 256"),
            ({"shards": 0}, InvalidInput, "greater than or equal to 1"),
            ({"replicas": 17}, InvalidInput, "less than or equal to 16"),
            ({"shard": 2}, InvalidInput, "unknown field"),
        ):
            with pytest.raises(error, match=says):
                client.create_collection(name if error is Conflict else f"{name}-not", dim=2, exist_ok=True, cluster=cluster)
    lacking = both.gateway.put(f"/v1/collections/{name}-not", json={"dim": 2, "cluster": {"replicas": 2}})
    assert (lacking.status_code, lacking.json()["code"]) == (503, "shard_unavailable")
    assert "2 replicas need as many nodes, and 1 can take some: start more, or ask for fewer; nothing was created" in lacking.text
    by_line = CliRunner().invoke(app, ["create", f"{name}-line", "--url", address, "--dim", "3", "--shards", "2", "--replicas", "1"])
    assert f"{name}-line: created: kernel ngmm, dimension 3; 2 shards of 1 replicas" in by_line.stdout, by_line.output
    assert f"{name}-not" not in both.gateway.get("/v1/collections").json()["collections"]


def test_filters_ask_the_indexes_of_the_shards(both: Both) -> None:
    """With an index and without one, filters of queries, counts, scrolls, deletes and facets do the same as on one server."""
    for options in ({"indexes": {"n": "number", "t": "keyword"}}, {}):
        name = next(NAMES)
        path = f"/v1/collections/{name}"
        both.ask("PUT", path, {"dim": 3, **options})
        items = [item(f"i{i}", 1 + i, 2, 3 + i % 7, payload={"n": i % 9, "t": [f"t{i % 4}", "all"]}) for i in range(60)]
        both.same("POST", f"{path}/index", {"items": items})
        assert _indexed(both.gateway, path) == options.get("indexes", {})
        for chosen in ({"n": {"$gte": 3, "$lt": 7}}, {"t": "t2"}, {"$or": [{"n": 1}, {"t": "t3"}]}, {"n": {"$exists": False}}):
            found, wanted = both.ask("POST", f"{path}/query", {"vector": [5, 2, 4], "k": 60, "mode": "exact", "filter": chosen})
            scores = [[(one["id"], one["score"]) for one in answer.json()["results"]] for answer in (found, wanted)]
            assert sorted(scores[0]) == sorted(scores[1])
            both.same("POST", f"{path}/count", {"filter": chosen})
            both.same("POST", f"{path}/scroll", {"filter": chosen, "limit": 100})
        both.same("POST", f"{path}/facets", {"field": "t", "filter": {"n": {"$gt": 4}}})
        both.same("POST", f"{path}/delete", {"filter": {"n": {"$lt": 4}}})
        both.contents(name)


@pytest.mark.slow
def test_of_several_that_drop_at_once_one_is_told_that_it_did(both: Both) -> None:
    """The others get 404, or 409 where something else has the name by then; a drop beside a create, or an alias, never fails otherwise."""
    client = both.gateway
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            path, alias = (f"/v1/{kind}/{next(NAMES)}" for kind in ("collections", "aliases"))
            for dropped in (alias, path):
                assert client.put(path, json={"dim": 2, "cluster": {"shards": 1}}).is_success
                assert dropped == path or client.put(alias, json={"collection": path.rsplit("/", 1)[-1]}).is_success
                told = list(pool.map(lambda _, at=dropped: client.delete(at).status_code, range(4)))
                assert sorted(told) == [200, 404, 404, 404]
        name = next(NAMES)
        path, alias = f"/v1/collections/{name}", f"/v1/aliases/{name}-now"
        asked: list[tuple[str, str, Any]] = [
            ("PUT", path, {"dim": 2, "cluster": {"shards": 1}}),
            ("DELETE", path, None),
            ("PUT", alias, {"collection": name}),
            ("DELETE", alias, None),
        ]
        futures = [pool.submit(client.request, *one[:2], json=one[2]) for _ in range(6) for one in asked]
        for future in futures:
            answer = future.result()
            assert answer.status_code in {200, 201, 404, 409}, answer.text
    aliases, names = client.get("/v1/aliases").json()["aliases"], client.get("/v1/collections").json()["collections"]
    assert aliases.get(f"{name}-now", name) == name
    assert f"{name}-now" not in aliases or name in names


def test_indexes_and_limits_of_a_cluster(both: Both, name: str) -> None:
    """Indexes are declared in every shard; a limit of items is shared among them, and one of bytes is refused."""
    path = f"/v1/collections/{name}"
    declared = [one.json()["indexes"]["fields"] for one in both.ask("POST", f"{path}/indexes", {"add": {"n": "number"}})]
    assert [fields["n"]["kind"] for fields in declared] == ["number", "number"]
    again = both.same("POST", f"{path}/indexes", {"add": {"n": "keyword"}})
    assert again["code"] == "bad_parameter"
    assert both.gateway.put(f"{path}/limits", json={"items": 3}).json()["items"] == 3
    full = both.gateway.post(f"{path}/index", json={"items": [item(f"l{number}", 1, 2, 3) for number in range(30)]})
    assert (full.status_code, full.json()["code"], full.json()["limit"]) == (422, "over_limit", "collection_items")
    assert both.gateway.post(f"{path}/count", json={}).json()["count"] == 0
    assert both.gateway.put(f"{path}/limits", json={"bytes": 5}).json()["code"] == "not_in_cluster"


@pytest.mark.slow
def test_objects_and_fields_go_into_a_cluster(both: Both) -> None:
    """Strings, and items of several vectors, are stored as one node stores them."""
    for options, given in (
        ({"items": "strings"}, {"string": "kitten"}),
        ({"items": "series", "dim": 2}, {"series": [[1, 2], [0.5, 3]]}),
        ({"fields": {"colour": {"dim": 2}, "words": {}}}, {"vectors": {"colour": [1, 2], "words": ["a", "b"]}}),
        ({}, {"vector": {"tokens": {"red": 3, "apple": 1.5}}}),
    ):
        name = next(NAMES)
        both.ask("PUT", f"/v1/collections/{name}", options)
        both.same("POST", f"/v1/collections/{name}/index", {"items": [{"id": f"o{number}", **given} for number in range(5)]})
        assert len(both.contents(name)) == 5


def test_the_first_add_makes_the_default_collection(both: Both) -> None:
    """POST /index without a collection creates it as its first vector is; one that is refused leaves none behind."""
    assert both.same("POST", "/index", {"items": [item("a", 0, 0, 0)]})["code"] == "zero_vector"
    assert "default" not in both.gateway.get("/v1/collections").json()["collections"]
    both.same("POST", "/index", {"items": [item("a", 1, 2, 3), item("b", 1, 2, 4)]})
    assert both.same("POST", "/index", {"items": [item("c", 1, 2)]})["code"] == "dimension_mismatch"
    assert len(both.contents("default")) == 2


def test_a_large_add_goes_in_several_messages(both: Both) -> None:
    """What is more than one message of the log for a shard is one add all the same."""
    name = next(NAMES)
    both.gateway.put(f"/v1/collections/{name}", json={"dim": 512})
    matrix = np.random.default_rng(3).random((3_000, 512)).astype(np.float32)
    answer = both.gateway.post(f"/v1/collections/{name}/index", content=_npy(matrix), headers={"Content-Type": "application/x-npy"})
    assert answer.json()["indexed"] == answer.json()["count"] == 3_000
