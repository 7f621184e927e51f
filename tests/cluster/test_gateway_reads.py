"""Reads at a gateway are those of one server with the same items: answers, pages, descriptions, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinbin
from gateway_items import AGED, DIM, IDS, PAYLOADS, ROWS, TIED, UNTIED
from gateway_nodes import Cluster, running_cluster
from kinbin_service.cli import inspection
from kinbin_service.replies import encode


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


def both(cluster: Cluster, name: str, word: str, body: Any) -> tuple[Any, Any]:
    """What the gateway and the one server answer, with 200, without what differs always."""
    answers = [ask("POST", f"/v1/collections/{name}/{word}", body) for ask in (cluster.ask, cluster.ask_one)]
    assert [one.status for one in answers] == [200, 200], answers
    for one in answers:
        one.content.pop("took_ms", None)
    return answers[0].content, answers[1].content


def one_server(cluster: Cluster, name: str, body: Any) -> Any:
    """What the one server alone finds."""
    answer = cluster.ask_one("POST", f"/v1/collections/{name}/query", body)
    assert answer.status == 200, answer
    return answer.content["results"]


def results(answer: Any) -> Any:
    """What was found: of one query, or of many."""
    return [one["results"] for one in answer["answers"]] if "answers" in answer else answer["results"]


def assert_same(ours: Any, theirs: Any) -> None:
    """Scores, or distances, are the same place by place, and so are items with their contents, but for the order of ties and the last."""
    for mine, other in zip(*([of] if "results" in of else of["answers"] for of in (ours, theirs)), strict=True):
        number = "distance" if mine["results"] and "distance" in mine["results"][0] else "score"
        told = [[one[number] for one in of["results"]] for of in (mine, other)]
        assert told[0] == told[1]
        sets = [sorted(encode(one) for one in of["results"] if one[number] != told[0][-1]) for of in (mine, other)]
        assert sets[0] == sets[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, ROWS - 1), st.integers(1, 60), st.integers(0, 60), st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.sampled_from([None, {"year": {"$gte": 2_004}}, {"tag": "even"}, {"year": 1}]), st.lists(st.sampled_from(IDS), max_size=3),
)  # fmt: skip
def test_exact_answers_are_those_of_one_server(
    cluster: Cluster, tied: str, row: int, k: int, offset: int, least: float | None, kept: Any, excluded: list[str]
) -> None:
    """The scores are those of one server, place by place, however many tie; each item has the score that it has there."""
    body = {
        "vector": TIED[row].tolist(),
        "k": k,
        "offset": offset,
        "min_score": least,
        "filter": kept,
        "exclude": excluded,
        "mode": "exact",
    }
    ours, theirs = both(cluster, tied, "query", body)
    assert [one["score"] for one in ours["results"]] == [one["score"] for one in theirs["results"]]
    every = {one["id"]: one["score"] for one in one_server(cluster, tied, {**body, "k": ROWS, "offset": 0})}
    assert all(every[one["id"]] == one["score"] for one in ours["results"])
    assert len({one["id"] for one in ours["results"]}) == len(ours["results"])
    assert (ours["recall_lower_bound"], ours["mode"]) == (1.0, "exact")


V = UNTIED[3].tolist()
QUERIES: dict[str, Any] = {
    "a vector": {"vector": V},
    "with payloads": {"vector": V, "include": ["payload", "vector"]},
    "with fields of payloads": {"vector": V, "include": ["payload.year"], "k": 30},
    "by id": {"id": "i5"},
    "by an integer": {"id": "i5", "include_self": True, "k": 3},
    "from an offset": {"id": "i5", "offset": 7},
    "without some": {"id": "i5", "exclude": ["i6", "i8", "nobody"], "k": 40},
    "filtered": {"id": "i5", "filter": {"year": 2_003}},
    "many vectors": {"queries": [UNTIED[1].tolist(), UNTIED[2].tolist()], "k": 4},
    "many from an offset": {"queries": [UNTIED[1].tolist(), UNTIED[2].tolist()], "k": 4, "offset": 3},
    "many of their own": {
        "queries": [{"id": "i1", "k": 2}, {"vector": V, "filter": {"year": 2_001}}, UNTIED[9].tolist(), {"id": "i2", "include_self": True}],
        "k": 5, "exclude": ["i4"],
    },
    "examples": {"positive": ["i1", V, "i2"], "negative": ["i3"], "k": 6},
    "examples among many": {"queries": [{"positive": ["i1"], "include_self": True}, {"positive": ["i7", "i8"], "offset": 2}]},
    "groups": {"vector": V, "group_by": {"field": "year", "groups": 4, "size": 3}},
    "groups by id": {"id": "i5", "group_by": {"field": "shot", "groups": 9, "size": 9}, "include": ["payload.shot"]},
    "groups, filtered": {"id": "i5", "group_by": {"field": "year", "groups": 2, "size": 40}, "filter": {"tag": "odd"}},
    "groups, filtered as deep as can be": {
        "id": "i5", "group_by": {"field": "year", "groups": 4, "size": 9},
        "filter": {"$not": {"$not": {"$not": {"$not": {"$not": {"$not": {"$and": [{"tag": "odd"}]}}}}}}},
    },
    "groups, filtered by as much as can be": {
        "id": "i5", "group_by": {"field": "year", "groups": 6, "size": 9}, "filter": {"year": {"$in": list(range(1_900, 2_153))}},
    },
    "all excluded that can be": {"id": "i5", "exclude": [f"x{number}" for number in range(1_000)], "k": 40},
    "groups of strings": {"vector": V, "group_by": {"field": "tag"}},
    "nothing": {"vector": V, "filter": {"year": 1}},
    "everything": {"vector": V, "k": 1_000},
}  # fmt: skip


@pytest.mark.parametrize("named", QUERIES)
def test_every_form_of_a_query_finds_what_one_server_finds(cluster: Cluster, untied: str, named: str) -> None:
    """Ids, scores, contents and groups are those of one server, whatever the form of the query."""
    ours, theirs = both(cluster, untied, "query", {"mode": "exact", **QUERIES[named]})
    assert results(ours) == results(theirs)
    assert ours.get("groups") == theirs.get("groups")
    assert ours.keys() == theirs.keys()


A = AGED[3].tolist()
TIES: dict[str, Any] = {
    "a vector": {"vector": A},
    "from an offset": {"vector": A, "k": 7, "offset": 5},
    "by id": {"id": "i5", "k": 33, "offset": 1},
    "a range": {"vector": A, "min_score": 0.5, "k": 90},
    "filtered": {"vector": A, "filter": {"year": {"$gte": 2_003}}, "k": 25},
    "many vectors": {"queries": [row.tolist() for row in AGED[:9]], "k": 6},
    "many of their own": {"queries": [{"id": "i1", "k": 9}, {"vector": A, "filter": {"tag": "odd"}}, {"id": "i2", "offset": 3}], "k": 5},
    "examples": {"positive": ["i1", A], "k": 21},
    "groups": {"vector": A, "group_by": {"field": "year", "groups": 6, "size": 9}},
    "groups, filtered": {"id": "i5", "group_by": {"field": "shot", "groups": 3, "size": 30}, "filter": {"tag": "odd"}},
    "everything": {"vector": A, "k": 1_000},
}


@pytest.fixture(scope="module")
def aged(cluster: Cluster) -> str:
    """A collection where scores tie, and no two vectors are identical; added in parts, with some that changed since."""
    name = cluster.create(kernel="ngmm", dim=DIM, replicas=2)
    for begin in range(0, ROWS, 70):
        some = slice(begin, begin + 70)
        cluster.add(name, IDS[some], AGED[some], PAYLOADS[some])
    cluster.add(name, IDS[40:60], AGED[40:60] * np.float32(2**40), PAYLOADS[40:60])
    return name


@pytest.mark.parametrize("named", TIES)
def test_ties_are_in_the_order_of_one_server(cluster: Cluster, aged: str, named: str) -> None:
    """The oldest row first, over all shards and in every form of a query."""
    ours, theirs = both(cluster, aged, "query", {"mode": "exact", **TIES[named]})
    assert results(ours) == results(theirs)
    assert ours.get("groups") == theirs.get("groups")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(0, ROWS - 1), st.integers(1, 40), st.integers(0, 60))
def test_pages_with_ties_are_those_of_one_server(cluster: Cluster, aged: str, row: int, k: int, offset: int) -> None:
    """Wherever a page begins and ends, and whichever replica is asked, it is that of one server; a cursor goes the same way."""
    body = {"vector": AGED[row].tolist(), "k": k, "mode": "exact"}
    ours, theirs = both(cluster, aged, "query", {**body, "offset": offset})
    assert results(ours) == results(theirs)
    first = cluster.ask("POST", f"/v1/collections/{aged}/query", {**body, "cursor": ""}).content
    second = cluster.ask("POST", f"/v1/collections/{aged}/query", {**body, "cursor": first["next"]}).content
    assert first["results"] + second["results"] == one_server(cluster, aged, {**body, "k": 2 * k})


def test_debug_and_the_short_route(cluster: Cluster, untied: str) -> None:
    """What was done is told with debug; /query is the collection `default`."""
    ours, _ = both(cluster, untied, "query", {"vector": V, "mode": "exact", "debug": True})
    assert ours["debug"]["verified"] == ROWS
    missing = cluster.ask("POST", "/query", {"vector": V})
    assert (missing.status, missing.content["code"]) == (404, "collection_not_found")
    cluster.alias("default", untied)
    assert len(cluster.ask("POST", "/query", {"vector": V}).content["results"]) == 10
    del cluster.picture.aliases["default"]


def test_auto_finds_what_one_server_finds(cluster: Cluster, untied: str) -> None:
    """In mode auto so few items are scanned: the answer is complete, and says so."""
    ours, theirs = both(cluster, untied, "query", {"vector": V})
    assert (ours["results"], ours["recall_lower_bound"]) == (theirs["results"], 1.0)


def test_a_matrix_is_asked_with_options_in_the_address(cluster: Cluster, untied: str, tmp_path: Any) -> None:
    """An .npy body finds what one server finds, from an offset too."""
    np.save(tmp_path / "q.npy", UNTIED[:4])
    more = {"content": (tmp_path / "q.npy").read_bytes(), "headers": {"content-type": "application/x-npy"}}
    exact = "mode=exact&include=payload"
    for address in (f"?k=3&{exact}", f"?k=3&offset=5&{exact}", f"?k=5.0&{exact}", f"?k=12.0&offset=5.0&{exact}", f"?k=%2B4&{exact}"):
        path = f"/v1/collections/{untied}/query{address}"
        ours, theirs = cluster.ask("POST", path, **more), cluster.ask_one("POST", path, **more)
        assert (ours.status, results(ours.content)) == (200, results(theirs.content)), address
    for address in ("?k=5&k=7", "?k=5.5", "?offset=x", "?k=0", "?kk=1"):
        path = f"/v1/collections/{untied}/query{address}"
        ours, theirs = cluster.ask("POST", path, **more), cluster.ask_one("POST", path, **more)
        assert (ours.status, ours.content["code"]) == (theirs.status, theirs.content["code"]) == (422, "invalid_field"), address
    deep = cluster.ask("POST", f"/v1/collections/{untied}/query?k=900&offset=900", **more)
    assert (deep.status, deep.content["code"]) == (501, "not_in_cluster")


def test_offsets_go_deeper_than_a_node_answers_at_once(cluster: Cluster) -> None:
    """k and an offset that are more than a thousand together are asked for in pages: of one vector, of many, and by id."""
    name = cluster.create(kernel="cosine", dim=3)
    vectors = np.random.default_rng(3).normal(size=(2_400, 3)).astype(np.float32)
    cluster.add(name, [f"d{i}" for i in range(2_400)], vectors)
    for body in (
        {"vector": [1, 2, 3], "k": 300, "offset": 1_500},
        {"queries": [[1, 2, 3], [3, 2, 1]], "k": 400, "offset": 900, "exclude": ["d5"]},
        {"queries": [{"id": "d1", "k": 3}, {"id": "d2"}], "k": 20, "offset": 2_000},
    ):
        ours, theirs = both(cluster, name, "query", {"mode": "exact", **body})
        assert results(ours) == results(theirs)
    # Pages of searches that miss different items would repeat some: they are scored exactly, whatever is asked for.
    ours, theirs = both(cluster, name, "query", {"vector": [1, 2, 3], "k": 1_000, "offset": 1_200, "target_recall": 0.5})
    assert results(ours) == results(theirs)
    assert (ours["mode"], ours["recall_lower_bound"]) == ("exact", 1.0)


OBJECTS: dict[str, tuple[dict[str, Any], list[Any], str, Any]] = {
    "strings": ({"items": "strings", "distance": "levenshtein"}, ["kitten", "sitting", "mitten", "bitter", "kit"], "string", "kitchen"),
    "series": (
        {"items": "series", "distance": "dtw"}, [np.arange(i + 3, dtype=np.float64) ** 1.1 for i in range(6)], "series", [0.5, 1.5, 2.25],
    ),
    "points": (
        {"items": "points", "distance": "hausdorff", "dim": 2}, [np.array([[0.0, i], [i * 1.7, 1.0]]) for i in range(6)], "points",
        [[1, 2.5]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("items", OBJECTS)
def test_objects_are_asked_by_value_and_by_id(cluster: Cluster, items: str) -> None:
    """Strings, series and point sets: distances ascend over all shards, and a stored object is asked by what it holds."""
    options, stored, key, asked = OBJECTS[items]
    name = cluster.create(**options)
    cluster.add(name, [f"o{i}" for i in range(len(stored))], stored)
    for body in (
        {key: asked, "k": 4, "include": ["vector"]}, {"id": "o1", "k": 3}, {"positive": ["o1", {key: asked}], "k": 3},
        {"queries": [{key: asked}, {key: asked}], "k": 2},
    ):  # fmt: skip
        ours, theirs = both(cluster, name, "query", {"mode": "exact", **body})
        assert_same(ours, theirs)


def test_items_of_several_fields_are_asked_as_on_one_server(cluster: Cluster) -> None:
    """Fields, weights, products, and a stored item by some of its fields."""
    name = cluster.create(fields={"a": {"kernel": "ngmm", "dim": DIM}, "b": {"kernel": "chi2", "dim": 3}})
    rng = np.random.default_rng(5)
    cluster.add(name, IDS, {"a": UNTIED, "b": rng.random((ROWS, 3)).astype(np.float32)}, PAYLOADS)
    for body in (
        {"vectors": {"a": V, "b": [1, 2, 3]}, "weights": {"a": 0.25, "b": 2.0}}, {"id": "i5"}, {"id": "i5", "fields": ["b"]},
        {"id": "i5", "weights": {"a": 1.0}, "include": ["vector"]}, {"queries": [{"vectors": {"a": V}}, {"vectors": {"a": V}}], "k": 2},
        {"id": "i5", "combine": "product", "offset": 4},
    ):  # fmt: skip
        ours, theirs = both(cluster, name, "query", {"mode": "exact", **body})
        assert results(ours) == results(theirs)
    deep = cluster.ask("POST", f"/v1/collections/{name}/query", {"id": "i5", "k": 600, "offset": 600})
    assert (deep.status, deep.content["code"]) == (501, "not_in_cluster")


def test_sparse_vectors_and_tokens_are_asked_by_id(cluster: Cluster) -> None:
    """What tokens were hashed to is asked by as it is stored."""
    name = cluster.create(kernel="minmax")
    words = ["red", "green", "blue", "dark", "light", "old"]
    cluster.add(name, IDS[:40], [kinbin.Tokens({words[i % 6]: 1.0 + i, words[i % 5]: 2.5, f"w{i}": 0.1}) for i in range(40)])
    for body in ({"id": "i3"}, {"vector": {"tokens": {"red": 2}}, "k": 3}, {"positive": ["i3", "i4"], "k": 5}):
        ours, theirs = both(cluster, name, "query", {"mode": "exact", **body})
        assert_same(ours, theirs)


PAGES: dict[str, dict[str, Any]] = {
    "by id": {"limit": 17},
    "filtered": {"limit": 9, "filter": {"year": {"$gte": 2_005}}, "include": ["vector", "payload", "version"]},
    "by a number": {"limit": 23, "order_by": "year"},
    "by a number, backwards": {"limit": 23, "order_by": "year", "descending": True, "include": []},
    "by a list": {"limit": 40, "order_by": "tag", "include": ["payload.year"]},
    "by what may be null": {"limit": 30, "order_by": "shot", "include": ["payload.deep.n", "vector"]},
    "by a field of an object": {"limit": 50, "order_by": "deep.n", "include": ["payload.deep"]},
    "by a field that is not asked for": {"limit": 50, "order_by": "deep.n", "include": ["payload.year", "payload.deep.m"]},
}


@pytest.mark.parametrize("named", PAGES)
def test_pages_are_those_of_one_server_cursors_too(cluster: Cluster, tied: str, named: str) -> None:
    """Every page has the items, contents and cursor that one server's has, to the last."""
    after = None
    for _ in range(ROWS):
        ours, theirs = both(cluster, tied, "scroll", {**PAGES[named], "after": after})
        # Versions are those of the replica's rows.
        for item in (*ours["items"], *theirs["items"]):
            item.pop("version", None)
        assert ours == theirs
        after = ours["next"]
        if after is None:
            return
    raise AssertionError("there is no last page")


READS: dict[str, tuple[str, Any]] = {
    "count": ("count", {}),
    "count, filtered": ("count", {"filter": {"tag": "x"}}),
    "facets": ("facets", {"field": "year"}),
    "facets of lists": ("facets", {"field": "tag", "filter": {"year": {"$lt": 2_006}}, "limit": 2}),
    "facets with null": ("facets", {"field": "shot"}),
    "get": ("get", {"ids": ["i3", "nobody", "i200", "i3", 5], "include": ["payload", "vector"]}),
    "get nothing": ("get", {"ids": []}),
}


@pytest.mark.parametrize("named", READS)
def test_other_reads_are_those_of_one_server(cluster: Cluster, tied: str, named: str) -> None:
    """Counts, facets and items are told as by one server."""
    ours, theirs = both(cluster, tied, *READS[named])
    assert ours == theirs


def test_facets_of_too_many_values_are_refused(cluster: Cluster) -> None:
    """Where a shard has more values than it tells, facets are refused, as no count would be certain."""
    name = cluster.create(kernel="minmax", dim=2, shards=1)
    cluster.add(name, [f"i{i}" for i in range(1_001)], np.ones((1_001, 2), np.float32), [{"n": i} for i in range(1_001)])
    answer = cluster.ask("POST", f"/v1/collections/{name}/facets", {"field": "n"})
    assert (answer.status, answer.content["code"]) == (501, "not_in_cluster")


def test_explanations_add_up_to_the_score_of_the_query(cluster: Cluster, untied: str) -> None:
    """An item is explained by its own shard, against a vector, or a stored item of this or another shard."""
    for body in ({"id": "i5", "vector": V}, *({"id": "i5", "query_id": f"i{i}"} for i in range(6, 12))):
        ours, theirs = both(cluster, untied, "explain", {**body, "limit": DIM})
        assert (ours["score"], ours["terms"], ours["rest"]) == (theirs["score"], theirs["terms"], theirs["rest"])


def test_a_field_to_explain_is_refused_as_by_one_server(cluster: Cluster) -> None:
    """None of several, one that is not there, and what is no name: in the words of one server, whichever shard holds the query."""
    name = cluster.create(fields={"x": {"dim": 2}, "y": {"dim": 2}})
    cluster.add(name, IDS[:12], {"x": UNTIED[:12, :2], "y": UNTIED[:12, 2:4]})
    path = f"/v1/collections/{name}/explain"
    queries: list[dict[str, Any]] = [{"vector": [1, 2]}, *({"query_id": one} for one in IDS[1:12])]
    wrong: list[dict[str, Any]] = [{}, {"field": "z"}, {"field": ["x"]}, {"field": 1}]
    for field in wrong:
        for query in queries:
            ours, theirs = (ask("POST", path, {"id": IDS[0], **query, **field}) for ask in (cluster.ask, cluster.ask_one))
            assert (ours.status, ours.content["code"], ours.content["errors"]) == (422, theirs.content["code"], theirs.content["errors"])
    told = cluster.ask("POST", path, {"id": IDS[0], "query_id": IDS[1]}).content
    assert "field says which is meant, of x, y" in told["detail"]


BAD: dict[str, tuple[str, Any]] = {
    "no object": ("query", [1]), "no query": ("query", {"k": 3}), "two queries": ("query", {"vector": V, "id": "i1"}),
    "unknown field": ("query", {"vector": V, "kk": 3}), "unknown id": ("query", {"id": "nobody"}),
    "unknown among many": ("query", {"queries": [{"id": "i1"}, {"id": "nobody"}]}),
    "unknown example": ("query", {"positive": ["i1", "nobody"]}),
    "bad id": ("query", {"id": ""}), "bad dimension": ("query", {"vector": [1]}), "bad k": ("query", {"vector": V, "k": 0}),
    "large k": ("query", {"vector": V, "k": 1_001}), "large offset": ("query", {"vector": V, "offset": 10_001}),
    "bad offset": ("query", {"vector": V, "offset": -1}), "bad filter": ("query", {"vector": V, "filter": {"$x": 1}}),
    "bad mode": ("query", {"vector": V, "mode": "guess"}), "self of nobody": ("query", {"vector": V, "include_self": True}),
    "bad group": ("query", {"vector": V, "group_by": {"field": ""}}), "bad cursor": ("query", {"vector": V, "cursor": "x"}),
    "zero": ("query", {"vector": [0.0] * DIM}), "bad dimension, deep": ("query", {"vector": [1], "offset": 2_000}),
    "zero of many, deep": ("query", {"queries": [V, [0.0] * DIM], "offset": 2_000}),
    "bad filter, deep": ("query", {"vector": V, "filter": {"$x": 1}, "offset": 2_000}),
    "bad filter of many, deep": ("query", {"queries": [V, {"vector": V, "filter": {"$x": 1}}], "offset": 2_000}),
    "a string": ("query", {"string": "x"}), "bad limit": ("scroll", {"limit": 0}), "bad after": ("scroll", {"after": "!"}),
    "after of another order": ("scroll", {"after": "aTEw", "order_by": "year"}), "bad ids": ("get", {"ids": ["i1", "", "i2"]}),
    "bad include": ("get", {"ids": ["i1"], "include": ["x"]}), "bad count": ("count", {"filter": {"$x": 1}}),
    "bad facet": ("facets", {"field": "$x"}), "explain nobody": ("explain", {"id": "nobody", "vector": V}),
    "an option that is none, deep": ("query", {"vector": V, "offset": 2_000, "min_scor": 0.9}),
    "a vector beside many, deep": ("query", {"vector": V, "queries": [V], "offset": 2_000}),
    "an offset of groups": ("query", {"vector": V, "group_by": {"field": "tag"}, "offset": 5}),
    **{f"explain by two, {n}": ("explain", {"id": "i1", "query_id": f"i{n}", "vector": V}) for n in (2, 3, 4)},
    "explain nothing": ("explain", {"id": "i1"}), "explain by nobody": ("explain", {"id": "i1", "query_id": "nobody"}),
}  # fmt: skip


@pytest.mark.parametrize("named", BAD)
def test_what_is_wrong_is_refused_as_by_one_server(cluster: Cluster, untied: str, named: str) -> None:
    """Status, code and places of what is wrong are those of one server."""
    word, body = BAD[named]
    ours, theirs = (ask("POST", f"/v1/collections/{untied}/{word}", body) for ask in (cluster.ask, cluster.ask_one))
    places = [[entry["pointer"] for entry in one.content["errors"]] for one in (ours, theirs)]
    assert (ours.status, ours.content["code"], places[0]) == (theirs.status, theirs.content["code"], places[1])
    assert ours.status >= 400


def test_collections_are_listed_and_described(cluster: Cluster, untied: str) -> None:
    """Names, aliases, configuration, counts, limits; of each shard who holds it and how far it is; never the seed."""
    cluster.alias("live", untied)
    assert untied in cluster.ask("GET", "/v1/collections").content["collections"]
    assert cluster.ask("GET", "/v1/aliases").content == {"aliases": {"live": untied}}
    told = cluster.ask("GET", "/v1/collections/live").content
    one = cluster.ask_one("GET", f"/v1/collections/{untied}").content
    assert {name: told[name] for name in one if name != "stats"} == {name: one[name] for name in one if name != "stats"}
    assert [len(shard["replicas"]) for shard in told["stats"]["shards"]] == [2, 2, 2]
    assert told["stats"]["shards"][0]["replicas"][0] == {"node": "n0", "live": True, "state": "live", "applied": 1, "problem": None}
    assert "seed" not in orjson.dumps(told).decode()
    assert cluster.ask("GET", f"/v1/collections/{untied}/limits").content == {"items": None, "bytes": None, "count": ROWS}
    del cluster.picture.aliases["live"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"dim": 3, "feature_names": ["red", "green", "blue"]},
        {"feature_names": {"7": "red"}},
        {"fields": {"a": {"dim": 2, "feature_names": ["x", "y"]}, "b": {"dim": 1}}},
    ],
)
def test_names_of_features_are_told_and_the_same_create_succeeds(cluster: Cluster, options: dict[str, Any]) -> None:
    """A gateway tells the names of features as one server does, and creating alike finds the collection; with others it is refused."""
    name = cluster.create(**options)
    told, one = (ask("GET", f"/v1/collections/{name}").content for ask in (cluster.ask, cluster.ask_one))
    assert [told.get(key) for key in ("feature_names", "fields")] == [one.get(key) for key in ("feature_names", "fields")]
    again = cluster.ask("PUT", f"/v1/collections/{name}", options)
    assert (again.status, again.content.get("feature_names")) == (200, one.get("feature_names"))
    if "fields" not in options:
        other = {**options, "feature_names": {"0": "other"}}
        assert cluster.ask("PUT", f"/v1/collections/{name}", other).content["code"] == "collection_exists"


def test_kinbin_stats_shows_a_cluster(cluster: Cluster, untied: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`kinbin stats` tells collections of a cluster as those of one server, all or one, and of each shard who has it; of fields as well."""
    told = cluster.ask("GET", f"/v1/collections/{untied}").content["stats"]
    one = cluster.ask_one("GET", f"/v1/collections/{untied}").content["stats"]
    alike = ("name", "items", "kernel", "dim", "count", "rows", "dead_rows", "parameters", "sampler")
    assert {key: told[key] for key in alike} == {key: one[key] for key in alike}
    assert told["bytes"] == sum(shard["stats"]["bytes"] for shard in told["shards"])
    fields = cluster.create(fields={"a": {"kernel": "ngmm", "dim": 2}, "b": {"kernel": "minmax", "dim": 3}})
    of_fields = cluster.ask("GET", f"/v1/collections/{fields}").content["stats"]
    shown = {untied: told, fields: of_fields}
    inspection._show_overview("there", shown, {})
    inspection._show_stats(untied, told)
    inspection._show_stats(fields, of_fields)
    lines = capsys.readouterr().out
    assert f"{ROWS:,}" in lines
    assert "ngmm, minmax" in lines
    assert "n0 live, n1 live" in lines
    lacking = told | {"shards": [{**told["shards"][0], "stats": None}, *told["shards"][1:]]}
    inspection._show_overview("there", {untied: lacking}, {})
    assert "(1 shards missing)" in capsys.readouterr().out
