"""Integers as ids over HTTP: the id of their decimal digits, in every body that has an id."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from service_app import App

LARGEST = 2**64 - 1
ITEMS = [{"id": 5, "vector": [0.25, 0, 2.5], "payload": {"n": 1}}, {"id": -7, "vector": [0, 1.5, 2]}, {"id": LARGEST, "vector": [1, 1, 3]}]
AT = "/v1/collections/default"


@pytest.fixture
async def filled(app: App) -> App:
    """A service with three items whose ids came as integers."""
    assert (await app.post("/index", {"items": ITEMS}))["indexed"] == 3
    return app


async def test_integers_are_taken_and_answered_as_strings(filled: App) -> None:
    """Every route that takes an id takes an integer; answers hold strings, which no reader of JSON rounds."""
    got = await filled.post(f"{AT}/get", {"ids": [5, LARGEST, 6], "include": []})
    assert got["items"] == [{"id": "5"}, {"id": str(LARGEST)}]
    assert got["missing"] == ["6"]
    for body in ({"id": 5}, {"positive": [5]}, {"vector": [1, 1, 3], "exclude": [5]}):
        told = await filled.post("/query", body)
        assert [result["id"] for result in told["results"]] == [str(LARGEST), "-7"], body
    each = await filled.post("/query", {"queries": [{"id": 5, "k": 1}]})
    assert each["answers"][0]["results"][0]["id"] == str(LARGEST)
    assert (await filled.post(f"{AT}/payload", {"items": [{"id": 5, "payload": None}]}))["updated"] == 1
    assert (await filled.post(f"{AT}/delete", {"ids": [5, "-7"]}))["count"] == 1


async def test_lines_and_matrices_take_integers(app: App) -> None:
    """A line of NDJSON and the header of a matrix may name items by integers."""
    lines = "".join(json.dumps({"id": i, "vector": [1, 2, i]}) + "\n" for i in (1, 2))
    await app.client.post("/index", content=lines, headers={"content-type": "application/x-ndjson"})
    matrix = io.BytesIO()
    np.save(matrix, np.eye(3, dtype=np.float32))
    headers = {"content-type": "application/x-npy", "x-kinbin-ids": '[2,"3",4]'}
    reply = await app.client.post("/index", content=matrix.getvalue(), headers=headers)
    assert (reply.json()["indexed"], reply.json()["updated"]) == (2, 1)
    assert [item["id"] for item in (await app.post(f"{AT}/scroll", {}))["items"]] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("bad", [5.0, 2**64, True, None, [5]])
async def test_what_is_no_id_is_refused(filled: App, bad: object) -> None:
    """Fractions, integers of more than 64 bits and booleans are no ids: nothing is written."""
    told = await filled.post("/index", {"items": [{"id": bad, "vector": [1, 1, 1]}]}, status=422)
    assert told["errors"][0]["pointer"] == "#/items/0/id"
    await filled.post(f"{AT}/delete", {"ids": [bad]}, status=422)
    assert (await filled.post(f"{AT}/count", {}))["count"] == 3
