"""What a collection tells of itself through the client: the library's words, blocking and awaited."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import kinbin
from kinbin_client import AsyncClient, Client, InvalidArgument, InvalidInput, NotFound


def plain(found: Any) -> dict[str, Any]:
    """An explanation of the library or of the client as plain data."""
    told: dict[str, Any] = asdict(found) if isinstance(found, kinbin.Explanation) else found.model_dump(exclude={"took_ms"})
    for factor in told["factors"]:
        factor["constants"] = [tuple(one.values()) if isinstance(one, dict) else one for one in factor["constants"]]
        factor["terms"], factor["cells"] = list(factor["terms"]), list(factor["cells"])
    told["factors"] = list(told["factors"])
    if told["bands"] is not None and told["bands"]["s_curve"] is not None:
        told["bands"]["s_curve"] = list(told["bands"]["s_curve"])
    return told


CASES: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any]]] = {
    "tokens": ({"kernel": "minmax"}, [{"red": 3, "apple": 1}, {"red": 1, "pie": 2}], {"feature_names": ["pie"], "s_curve": True}),
    "a product": ({"kernel": "gmm*acos", "dim": 3}, [[1, 2, 0.5], [2, 1, 0]], {"limit": 1, "feature_names": {0: "red"}}),
    "strings": ({"items": "strings"}, ["kitten", "sitting"], {"k": 3}),
    "series": ({"items": "series", "kernel": "dtw"}, [[0.5, 1, 2], [1.0, 2.0]], {}),
    "the same": ({"kernel": "cosine", "dim": 2}, [[0.1, 0.3], [0.1, 0.3]], {}),
}


@pytest.mark.parametrize("case", CASES)
async def test_explanations_are_the_librarys(case: str, local_path: Path) -> None:
    """What the library explains, both clients explain: by a vector or object, and by the id of a stored one."""
    made, items, more = CASES[case]
    with Client(path=local_path) as client, kinbin.open(local_path) as database:
        client.create_collection("c", **made)
        collection = client.collection("c")
        collection.add(["a", "b"], items)
        there = database.collection("c")
        score = there.explain(items[0], id="b").score
        for about in ({"query": items[0]}, {"query_id": "a"}):
            assert plain(collection.explain(id="b", **about, **more)) == plain(there.explain(id="b", **about, **more))
    async with AsyncClient(path=local_path) as awaited:
        assert (await awaited.collection("c").explain(items[0], id="b", **more)).score == score


@pytest.mark.parametrize("names", [["red", "blue"], {0: "red", 1: "blue"}])
async def test_names_are_declared(names: Any, local_path: Path) -> None:
    """Both clients declare names of features with a collection or a field, and read them again."""
    told = {0: "red", 1: "blue"}
    with Client(path=local_path) as client:
        made = client.create_collection("c", dim=2, feature_names=names)
        made.add(["a"], [[2, 1]])
        assert made.info().feature_names == told
        assert [term.name for term in made.explain([1, 1], id="a").factors[0].terms] == ["red", "blue"]
        client.create_collection("f", fields={"x": {"dim": 2, "feature_names": names}})
        assert client.collection("f").info().fields["x"]["feature_names"] == {"0": "red", "1": "blue"}  # type: ignore[index]
        assert client.create_collection("bare", dim=2).info().feature_names is None
    async with AsyncClient(path=local_path) as awaited:
        assert (await (await awaited.create_collection("d", dim=2, feature_names=names)).info()).feature_names == told


async def test_maps_are_the_librarys(local_path: Path) -> None:
    """What the library draws, both clients draw, of a collection and of a field."""
    with Client(path=local_path) as client, kinbin.open(local_path) as database:
        client.create_collection("c", kernel="chi2", dim=2)
        client.collection("c").add([f"{i}" for i in range(8)], [[1, i] for i in range(8)], [{"label": i % 2} for i in range(8)])
        drawn = client.collection("c").map(6, method="spectral", fields=("label",), seed=3, filter={"label": {"$gte": 0}})
        told = database.collection("c").map(6, method="spectral", fields=("label",), seed=3)
        assert [(point.id, point.payload) for point in drawn.points] == [(point.id, point.payload) for point in told.points]
        assert [point.x for point in drawn.points] == pytest.approx([point.x for point in told.points], abs=1e-7)
        client.create_collection("f", fields={"x": {"dim": 2}, "y": {"dim": 2}})
        client.fields_collection("f").add(["a", "b"], {"x": [[1, 3], [3, 1]], "y": [[0, 1], [1, 1]]})
        assert client.fields_collection("f").map(field="x").sample == 2
        with pytest.raises(InvalidInput, match="at most 2000"):
            client.collection("c").map(2_001)
        with pytest.raises(InvalidArgument):
            client.collection("c").map(fields="label")
    async with AsyncClient(path=local_path) as awaited:
        assert (await awaited.collection("c").map(fields=["label"])).sample == 8


def test_a_field_is_explained(local_path: Path) -> None:
    """Of several fields the one that is named; a collection of several without a name is refused, as is an item that is not there."""
    with Client(path=local_path) as client:
        client.create_collection("c", fields={"x": {"kernel": "chi2", "dim": 2}, "y": {"dim": 2}})
        pictures = client.fields_collection("c")
        pictures.add(["a"], {"x": [[1, 3]], "y": [[0, 1]]})
        told = pictures.explain([1, 3], id="a", field="x")
        assert (told.kernel, told.score) == ("chi2", 1.0)
        with pytest.raises(InvalidInput, match="field says which"):
            pictures.explain(query_id="a", id="a")
        with pytest.raises(NotFound, match="the id that was given"):
            pictures.explain(query_id="a", id="b", field="x")
