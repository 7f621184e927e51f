"""What a query may say besides what it is about: each option does over REST what it does in the library, and its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service_app import App

N = 40
IDS = [f"i{number:02d}" for number in range(N)]
VECTORS = np.random.default_rng(3).gamma(0.5, 1, (N, 4)) + 0.01
CANARY = "canary-3c1d"


@pytest.fixture
async def filled(app: App) -> App:
    """An application with items in `default`."""
    items = [
        {"id": name, "vector": vector.tolist(), "payload": {"n": n, "shot": f"s{n % 7}"}}
        for n, (name, vector) in enumerate(zip(IDS, VECTORS, strict=True))
    ]
    await app.post("/index", {"items": items})
    return app


def ids(answer: dict[str, Any]) -> list[str]:
    """The ids of an answer."""
    return [hit["id"] for hit in answer["results"]]


async def test_a_query_by_id_leaves_the_item_out(filled: App) -> None:
    """The item itself is answered with include_self only, and excluded items never are."""
    whole = ids(await filled.post("/query", {"vector": VECTORS[5].tolist(), "k": N}))
    assert ids(await filled.post("/query", {"id": "i05", "k": N})) == [name for name in whole if name != "i05"]
    assert ids(await filled.post("/query", {"id": "i05", "k": N, "include_self": True})) == whole
    left = ids(await filled.post("/query", {"id": "i05", "k": 5, "exclude": [whole[2], "nobody"]}))
    assert left == [name for name in whole if name not in {"i05", whole[2]}][:5]


async def test_pages_by_offset(filled: App) -> None:
    """An offset leaves out so many of the nearest, of one query, of many, and of a matrix."""
    whole = ids(await filled.post("/query", {"vector": VECTORS[5].tolist(), "k": N}))
    page = {"k": 10, "offset": 10}
    assert ids(await filled.post("/query", {"vector": VECTORS[5].tolist(), **page})) == whole[10:20]
    many = await filled.post("/query", {"queries": VECTORS[5:7].tolist(), **page, "exclude": [whole[0]]})
    assert ids(many["answers"][0]) == whole[11:21]


IDS_TEXT = "exclude is a list of ids, each a string that is not empty"
REFUSED: dict[str, tuple[dict[str, Any], str, str, str, str | None]] = {
    "exclude that is a string": ({"exclude": CANARY}, "invalid_field", "#/exclude", IDS_TEXT, None),
    "an exclusion of numbers": ({"exclude": [7]}, "invalid_field", "#/exclude/0", IDS_TEXT, None),
    "an empty exclusion": ({"exclude": [""]}, "bad_parameter", "#/exclude", IDS_TEXT, None),
    "too many exclusions": ({"exclude": ["a"] * 1_001}, "over_limit", "#/exclude", "exclude: at most 1000", "exclude"),
    "include_self as text": ({"include_self": "yes"}, "invalid_field", "#/include_self", "include_self is true or false", None),
    "include_self of a vector": ({"include_self": True}, "invalid_field", "#", "include_self comes with id", None),
    "an offset below none": ({"offset": -1}, "invalid_field", "#/offset", "offset is a whole number from 0 on", None),
    "an offset that is true": ({"offset": True}, "invalid_field", "#/offset", "offset is a whole number from 0 on", None),
    "too large an offset": ({"offset": 10_001}, "over_limit", "#/offset", "offset: at most 10000", "offset"),
}


@pytest.mark.parametrize("label", REFUSED)
async def test_bad_options_are_refused(label: str, filled: App) -> None:
    """Each is answered with its code, place, text and limit, and nothing of what was sent."""
    body, code, pointer, detail, limit = REFUSED[label]
    refused = await filled.post("/query", {"vector": [1, 2, 3, 4], **body}, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"], refused["limit"]) == (code, pointer, limit)
    assert detail in refused["detail"]
    assert CANARY not in str(refused)


@pytest.mark.parametrize("option", ["exclude", "include_self"])
async def test_a_matrix_takes_no_ids(option: str, filled: App) -> None:
    """Ids have no place in an address: as a parameter they are unknown."""
    response = await filled.client.post(f"/query?{option}=a", content=b"", headers={"content-type": "application/x-npy"})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_field")
