"""Answers to many queries as columns: the same as those in objects, for who asks."""

from __future__ import annotations

import io
from itertools import accumulate
from typing import Any

import httpx
import numpy as np
import pytest

from kinbin_service.schemas.answers import ColumnsAnswer
from service_app import App

COLUMNS = "application/vnd.kinbin.columns+json"
ASKED = {"accept": f"{COLUMNS}, application/json"}
ITEMS = [{"id": f"i{n}", "vector": [1, n, 3], "payload": {"n": n}} for n in range(9)]
BOTH = {"vectors": {"a": [1, 2, 3], "b": [1, 1]}}
QUERIES = [[1, 2, 3], [1, 8, 3], [5, 0, 0]]


@pytest.fixture
async def filled(app: App) -> App:
    """A collection of vectors."""
    await app.post("/index", {"items": ITEMS})
    return app


async def fill_others(app: App) -> None:
    """Collections of strings, and of items with two vectors."""
    await app.put("/v1/collections/words", {"items": "strings", "distance": "levenshtein"})
    words = ["kitten", "sitting", "mitten", "bit"]
    await app.post("/v1/collections/words/index", {"items": [{"id": word, "string": word} for word in words]})
    await app.put("/v1/collections/both", {"fields": {"a": {"dim": 3}, "b": {"dim": 2}}})
    both = [{"id": f"i{n}", "vectors": {"a": [1, n, 3], "b": [n, 1]}} for n in range(5)]
    await app.post("/v1/collections/both/index", {"items": both})


def in_objects(columns: dict[str, Any]) -> dict[str, Any]:
    """What columns say, written as objects, from the documented meaning of each column."""
    number = "scores" if columns.get("scores") is not None else "distances"
    hits: list[dict[str, Any]] = [{"id": one, number[:-1]: score} for one, score in zip(columns["ids"], columns[number], strict=True)]
    for name, scores in (columns.get("parts") or {}).items():
        for hit, score in zip(hits, scores, strict=True):
            hit.setdefault("parts", {})[name] = score
    answers = []
    for i, (count, end) in enumerate(zip(columns["counts"], accumulate(columns["counts"]), strict=True)):
        bound = columns["recall_lower_bounds"][i]
        answer = {"results": hits[end - count : end], "recall_lower_bound": bound}
        answer |= {} if bound is not None else {"no_bound": columns["no_bounds"][i]}
        answer |= {"mode": columns["modes"][i], "candidates": columns["candidates"][i], "verified": columns["verified"][i]}
        answer |= {"truncated": columns["truncated"][i], "steps": columns["steps"][i]}
        answers.append(answer | ({"out_of_distribution": True} if columns["out_of_distribution"][i] else {}))
    return {"answers": answers}


async def asked(app: App, path: str, body: dict[str, Any], accept: str) -> httpx.Response:
    """The answer to a body."""
    answer = await app.client.post(path, json=body, headers={"accept": accept})
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query", {"queries": QUERIES, "k": 4}),
        ("/query", {"queries": QUERIES, "k": 20, "mode": "bands"}),
        ("/query", {"queries": QUERIES, "k": 4, "mode": "exact", "min_score": 0.9}),
        ("/query", {"queries": QUERIES, "k": 3, "filter": {"n": {"$gte": 5}}, "offset": 1, "exclude": ["i8"]}),
        ("/query", {"queries": QUERIES[:1], "k": 3, "filter": {"n": 99}}),
        ("/v1/collections/words/query", {"queries": [{"string": "sitten"}, {"string": "zzzzzzzz"}], "k": 2, "max_distance": 4}),
        ("/v1/collections/both/query", {"queries": [BOTH, BOTH], "k": 7, "weights": {"a": 2.0, "b": 1.0}}),
    ],
)
async def test_columns_say_what_objects_say(filled: App, path: str, body: dict[str, Any]) -> None:
    """Every value of an answer in objects stands in the columns, and nothing else, in the documented form."""
    if path != "/query":
        await fill_others(filled)
    columns = await asked(filled, path, body, ASKED["accept"])
    assert columns.headers["content-type"] == COLUMNS
    ColumnsAnswer.model_validate(columns.json(), strict=True)
    objects = (await asked(filled, path, body, "application/json")).json()
    assert any(answer["results"] for answer in objects["answers"]) == (body.get("filter") != {"n": 99})
    assert in_objects(columns.json())["answers"] == objects["answers"]


async def test_a_matrix_is_answered_in_columns(filled: App) -> None:
    """A body of .npy gets them as well."""
    stream = io.BytesIO()
    np.save(stream, np.array(QUERIES, np.float32))
    headers = {"content-type": "application/x-npy", **ASKED}
    answer = await filled.client.post("/query?k=2&mode=exact", content=stream.getvalue(), headers=headers)
    assert answer.headers["content-type"] == COLUMNS
    assert answer.json()["counts"] == [2, 2, 2]
    assert answer.json()["ids"][::2] == ["i2", "i8", "i0"]


@pytest.mark.parametrize(
    ("accept", "body"),
    [
        ("*/*", {"queries": QUERIES}),
        (f"{COLUMNS};q=0.0, application/json", {"queries": QUERIES}),
        (ASKED["accept"], {"queries": QUERIES, "include": ["payload"]}),
        (ASKED["accept"], {"queries": QUERIES, "debug": True}),
        (ASKED["accept"], {"queries": QUERIES[:1], "group_by": {"field": "n", "groups": 2, "size": 1}}),
        (ASKED["accept"], {"queries": [{"id": "i1"}, {"vector": [1, 2, 3], "k": 2}]}),
        (ASKED["accept"], {"vector": [1, 2, 3]}),
    ],
)
async def test_objects_come_where_columns_are_not_wanted_or_not_enough(filled: App, accept: str, body: dict[str, Any]) -> None:
    """Who does not name columns, refuses them, or asks for what has no column, gets the answer in objects."""
    answer = await asked(filled, "/query", body, accept)
    assert answer.headers["content-type"] == "application/json"
    assert "counts" not in answer.json()


async def test_answers_in_columns_are_counted_as_others_are(filled: App) -> None:
    """The metric of answers counts each by its mode, and whether it was certified, in either form."""
    body = {"queries": QUERIES, "k": 2, "mode": "exact"}

    async def certified() -> float:
        text = (await filled.client.get("/metrics")).text
        lines = [line for line in text.splitlines() if line.startswith("kinbin_answers_total") and "exact" in line and "certified" in line]
        return sum(float(line.split()[-1]) for line in lines)

    before = await certified()
    await asked(filled, "/query", body, ASKED["accept"])
    between = await certified()
    await asked(filled, "/query", body, "application/json")
    assert (between - before, await certified() - between) == (3, 3)
