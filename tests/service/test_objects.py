"""Strings, series, point sets and images over HTTP."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from PIL import Image

import kinbin
from bundled import pictures
from kinbin_service.objects import KEYS
from service_app import App, judged, running_app


def encoded(pixels: Any, form: str = "PNG") -> str:
    """An image as requests carry it."""
    return base64.b64encode(file_of(pixels, form)).decode()


def file_of(pixels: Any, form: str = "PNG") -> bytes:
    """An image as a file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def bomb() -> str:
    """A PNG of a few bytes whose header announces 10^10 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")).decode()


PIXELS = pictures()[:4]
WORDS = ["kitten", "sitting", "mitten", "Straße 🐈"]
CURVES = [[0.5, 1, 2.5, 1], [0.5, 1, 1, 2.5], [3, -1, 1e-35, 0], [0, 0, 0, 7]]
STEPS = [[[0, 1], [1, 2]], [[0, 1], [1, 2], [3, 3]], [[5, 5]], [[0, 0.1], [1, 2]]]
SETS = [[[0, 0.5], [1, 1]], [[0, 0.5]], [[4, 4], [5, 5], [6, 0.1]], [[1, 1], [0, 0.75]]]

KINDS: dict[str, tuple[str, dict[str, Any], list[Any], list[Any]]] = {
    "strings": ("string", {"items": "strings", "distance": "levenshtein"}, WORDS, WORDS),
    "series": ("series", {"items": "series", "distance": "dtw", "parameters": {"window": 0.5}}, CURVES, CURVES),
    "steps": ("series", {"items": "series", "dim": 2}, STEPS, STEPS),
    "equal": ("series", {"items": "series", "distance": "euclidean", "parameters": {"length": 4}}, CURVES, CURVES),
    "points": ("points", {"items": "points", "distance": "modified_hausdorff", "dim": 2}, SETS, SETS),
    "images": ("image", {"items": "images", "parameters": {"levels": 2, "base": "tv"}}, [encoded(one) for one in PIXELS], list(PIXELS)),
}
"""By a name: the key, the configuration, four objects of the wire, and the same as the library takes them."""


async def filled(app: App, name: str) -> str:
    """Make a collection with four objects; their key."""
    key, config, objects, _ = KINDS[name]
    await app.put(f"/v1/collections/{name}", config)
    items = [{"id": f"i{n}", key: one, "payload": {"n": n}} for n, one in enumerate(objects)]
    assert (await app.post(f"/v1/collections/{name}/index", {"items": items}))["indexed"] == 4
    return key


@pytest.mark.parametrize("name", KINDS)
async def test_answers_are_those_of_the_library(app: App, tmp_path: Path, name: str) -> None:
    """Objects, ids, batches, filters and limits are answered as by the library, with distances ascending or scores."""
    key = await filled(app, name)
    _, config, objects, own = KINDS[name]
    with kinbin.open(tmp_path / "library") as db:
        c = db.create_collection("c", **config)
        c.add([f"i{n}" for n in range(4)], own, [{"n": n} for n in range(4)])
        number = "distance" if c.query(own[0]).ascending else "score"
        assert (number == "score") == (name == "images")
        middle = float(c.query(own[0]).scores[1])
        bound: dict[str, Any] = {"max_distance" if number == "distance" else "min_score": middle}
        for body, found in (
            ({key: objects[0]}, c.query(own[0])),
            ({key: objects[1], "k": 2, "mode": "exact"}, c.query(own[1], k=2)),
            ({"id": "i2"}, c.query_id("i2")),
            ({"id": "i2", "include_self": True}, c.query_id("i2", include_self=True)),
            ({key: objects[0], "filter": {"n": {"$gte": 2}}}, c.query(own[0], filter={"n": {"$gte": 2}})),
            ({key: objects[0], **bound}, c.query(own[0], **bound)),
        ):
            answer = await app.post(f"/v1/collections/{name}/query", body)
            assert [hit["id"] for hit in answer["results"]] == found.ids
            assert [hit[number] for hit in answer["results"]] == pytest.approx(found.scores.tolist(), abs=1e-9)
            assert answer["recall_lower_bound"] == found.recall_lower_bound == 1.0
    many = await app.post(f"/v1/collections/{name}/query", {"queries": [{key: one} for one in objects], "k": 2})
    alone = [await app.post(f"/v1/collections/{name}/query", {key: one, "k": 2}) for one in objects]
    assert [one["results"] for one in many["answers"]] == [one["results"] for one in alone]


@pytest.mark.parametrize("name", [name for name in KINDS if name != "images"])
async def test_objects_come_back_as_they_were_sent(app: App, name: str) -> None:
    """get, scroll and include give an object under its own key, its float32 numbers to the bit, and lines are items as well."""
    key = await filled(app, name)
    objects = KINDS[name][2]
    lines = b"\n".join(orjson.dumps({"id": f"l{n}", key: one}) for n, one in enumerate(objects))
    headers = {"content-type": "application/x-ndjson"}
    assert (await app.post(f"/v1/collections/{name}/index", lines, headers=headers))["count"] == 8

    def same(one: Any, other: Any) -> bool:
        return bool(one == other if key == "string" else np.array_equal(np.array(one, np.float32), np.array(other, np.float32)))

    got = await app.post(f"/v1/collections/{name}/get", {"ids": ["i2", "l3", "nobody"]})
    assert got["missing"] == ["nobody"]
    assert [item.keys() for item in got["items"]] == [{"id", key, "payload"}] * 2
    assert all(same(item[key], objects[n]) for item, n in zip(got["items"], (2, 3), strict=True))
    page = await app.post(f"/v1/collections/{name}/scroll", {"limit": 4, "include": ["vector"]})
    assert all(same(item[key], one) for item, one in zip(page["items"], objects, strict=True))
    answer = await app.post(f"/v1/collections/{name}/query", {key: objects[1], "k": 1, "include": ["vector"], "filter": {"n": {"$gte": 0}}})
    assert same(answer["results"][0][key], objects[1])
    assert (await app.post(f"/v1/collections/{name}/delete", {"ids": ["i0"]}))["count"] == 7


async def test_images_come_as_a_form(app: App) -> None:
    """Files of a form are images by their names, or by the ids and payloads of its part `items`; they come back as counts."""
    await filled(app, "images")
    files = [("image", (f"dir/{n}.png", file_of(one))) for n, one in enumerate(PIXELS)]
    path = "/v1/collections/images"
    added = await app.client.post(f"{path}/index?mode=insert", files=files)
    assert added.json()["count"] == 8
    described = [{"id": f"f{n}", "payload": {"form": n}} for n in range(4)]
    added = await app.client.post(f"{path}/index", files=files, data={"items": orjson.dumps(described).decode()})
    assert (added.status_code, added.json()["indexed"]) == (200, 4)
    found = await app.post(f"{path}/query", {"image": encoded(PIXELS[3], "WEBP"), "k": 3, "include": ["payload", "vector"]})
    there = await app.post(f"{path}/query", {"image": encoded(PIXELS[3]), "k": 3, "include": ["payload"]})
    assert {hit["id"]: hit["payload"] for hit in there["results"]} == {"i3": {"n": 3}, "dir/3.png": None, "f3": {"form": 3}}
    assert [hit["score"] for hit in there["results"]] == [1.0] * 3
    assert all(sum(hit["vector"]) == PIXELS[0].shape[0] * PIXELS[0].shape[1] for hit in found["results"])


FORM = {"content-type": "multipart/form-data; boundary=abc"}
HEAD = b'--abc\r\nContent-Disposition: form-data; name="image"'
FORMS: dict[str, tuple[dict[str, str], bytes, int, str, str]] = {
    "no boundary": ({"content-type": "multipart/form-data"}, b"", 400, "bad_multipart", "boundary"),
    "another boundary": (FORM, b"--abd\r\n\r\n--abd--", 400, "bad_multipart", "not whole"),
    "cut": (FORM, HEAD + b'; filename="a"\r\n\r\nxyz', 400, "bad_multipart", "not whole"),
    "no name": (FORM, b"--abc\r\nContent-Disposition: form-data\r\n\r\nx\r\n--abc--", 400, "bad_multipart", "Content-Disposition"),
    "no headers": (FORM, b"--abc\r\nx\r\n--abc--", 400, "bad_multipart", "Content-Disposition"),
    "another field": (FORM, HEAD.replace(b"image", b"file") + b"\r\n\r\nx\r\n--abc--", 400, "bad_multipart", "named image"),
    "a file without a name": (FORM, HEAD + b"\r\n\r\nx\r\n--abc--", 422, "invalid_field", "no id"),
    "no image": (FORM, HEAD + b'; filename="a"\r\n\r\nxyz\r\n--abc--', 422, "bad_object", "PNG, JPEG or WebP"),
    "items for none": (
        FORM,
        HEAD.replace(b"image", b"items") + b'\r\n\r\n[{"id":"a"}]\r\n--abc--',
        422,
        "invalid_field",
        "one for each image",
    ),
}


async def test_forms_are_judged(app: App) -> None:
    """What is no form, is cut, or has other parts than images is refused with what is wrong, and nothing is written."""
    await filled(app, "images")
    for name, (headers, body, status, code, text) in FORMS.items():
        problem = await app.post("/v1/collections/images/index", body, status=status, headers=headers)
        assert problem["code"] == code, name
        assert text in problem["detail"], name
    assert (await app.post("/v1/collections/images/count", {}))["count"] == 4


LARGE: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a bomb": (lambda: base64.b64decode(bomb()), "image_pixels", "at most 50,000,000 pixels"),
    "a large file": (lambda: file_of(PIXELS[0]) + bytes(int(kinbin.LIMITS["image_bytes"].value)), "image_bytes", "33,554,432 bytes"),
}


@pytest.mark.parametrize("name", LARGE)
async def test_forms_with_too_large_images_are_refused(tmp_path: Path, name: str) -> None:
    """A decompression bomb or a file over its limit in a form is refused with limit and place; the good file beside it is not written."""
    make, limit, text = LARGE[name]
    files = [("image", ("good.png", file_of(PIXELS[0]))), ("image", ("bad.png", make()))]
    # As many bytes as a file may have are all that a body may have, unless a server takes more.
    async with running_app(tmp_path, max_index_body_bytes=40 << 20) as app:
        await filled(app, "images")
        for parts in ({}, {"items": b'[{"id":"good"},{"id":"bad"}]'}):
            problem = judged(await app.client.post("/v1/collections/images/index", files=files, data=parts), 422)
            assert (problem["code"], problem["limit"]) == ("over_limit", limit)
            assert text in problem["detail"]
            assert [entry["pointer"] for entry in problem["errors"]] == ["#/items/1/image"]
        assert (await app.state())["images"].keys() == {"i0", "i1", "i2", "i3"}


async def test_forms_over_the_limit_of_bodies_are_refused(app: App) -> None:
    """A form of more bytes than a body may have is refused as such, before its files are looked at, and nothing is written."""
    await filled(app, "images")
    files = [("image", ("good.png", file_of(PIXELS[0]))), ("image", ("bad.png", LARGE["a large file"][0]()))]
    problem = judged(await app.client.post("/v1/collections/images/index", files=files), 413)
    assert (problem["code"], problem["limit"]) == ("body_too_large", "index_body_bytes")
    assert (await app.state())["images"].keys() == {"i0", "i1", "i2", "i3"}


LONG = {name: int(kinbin.LIMITS[name].value) for name in ("string_length", "series_numbers", "points_numbers")}
BAD: dict[str, tuple[str, Any, str, str]] = {
    "a number for a string": ("strings", 5, "bad_object", "a string is expected here"),
    "no string": ("strings", None, "bad_object", "a string is expected here"),
    "an empty string": ("strings", "", "bad_object", "at least one character"),
    "a long string": ("strings", "x" * (LONG["string_length"] + 1), "over_limit", "at most 16384 characters"),
    "an empty series": ("series", [], "bad_object", "at least one step"),
    "a long series": ("series", [1] * (LONG["series_numbers"] + 1), "over_limit", "at most 32768 numbers"),
    "a series of text": ("series", [1, "x" * 100], "bad_object", "a series is a list of numbers"),
    "a series of truth": ("series", [1, True], "bad_object", "a series is a list of numbers"),
    "a huge number": ("series", [1, 1e16], "out_of_range", "between"),
    "a longer series": ("equal", [1, 2, 3, 4, 5], "bad_object", "have 4 steps, this one has 5"),
    "a shorter series": ("equal", [1, 2, 3], "bad_object", "have 4 steps, this one has 3"),
    "a series of other steps": ("steps", [[1, 2, 3]], "dimension_mismatch", "(steps, 2)"),
    "a series without steps": ("steps", [1, 2], "bad_object", "(steps, 2)"),
    "ragged steps": ("steps", [[1, 2], [1, 2, 3]], "bad_object", "lists of 2 and of 3 numbers"),
    "no points": ("points", [], "bad_object", "at least one point"),
    "points without coordinates": ("points", [[], []], "dimension_mismatch", "(points, 2)"),
    "a single point": ("points", [1, 2], "bad_object", "put a single point into a list"),
    "points of unequal dimensions": ("points", [[1, 2], [3]], "bad_object", "lists of 1 and of 2 numbers"),
    "points of three dimensions": ("points", [[1, 2, 3]], "dimension_mismatch", "(points, 2)"),
    "too many points": ("points", [[1, 2]] * (LONG["points_numbers"] // 2 + 1), "over_limit", "at most 32768 numbers"),
    "points that are none": ("points", {"x": 1}, "bad_object", "a point set is a list of points"),
    "no base64": ("images", "not base64!", "bad_object", "in base64"),
    "an image that is a number": ("images", 7, "bad_object", "in base64"),
    "a path of the server": ("images", "/etc/passwd0", "bad_object", "no PNG, JPEG or WebP"),
    "another file": ("images", base64.b64encode(b"GIF89a nothing").decode(), "bad_object", "no PNG, JPEG or WebP"),
    "a cut image": ("images", encoded(PIXELS[0])[:400], "bad_object", "truncated"),
    "a bomb": ("images", bomb(), "over_limit", "50,000,000 pixels"),
    "no bytes": ("images", "", "bad_object", "no PNG, JPEG or WebP"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_bad_objects_are_refused(app: App, kind: str) -> None:
    """A bad object is refused as an item, as a query and as one of many, with code, text and place; nothing of the batch is written."""
    await filled(app, kind)
    for name, (of, bad, code, text) in BAD.items():
        if of == kind:
            await refused(app, kind, name, bad, code, text)
    assert (await app.state())[kind].keys() == {"i0", "i1", "i2", "i3"}


async def refused(app: App, kind: str, name: str, bad: Any, code: str, text: str) -> None:
    """See that one bad object is refused wherever it comes."""
    key, _, objects, _ = KINDS[kind]
    good = objects[0]
    problem: dict[str, Any] = {}
    for path, body, pointer in (
        ("index", {"items": [{"id": "new", key: good}, {"id": "bad", key: bad}]}, f"#/items/1/{key}"),
        ("query", {key: bad}, f"#/{key}"),
        ("query", {"queries": [{key: good}, {key: bad}]}, "#/queries/1"),
    ):
        if path == "query" and bad is None and "queries" not in body:
            continue
        problem = await app.post(f"/v1/collections/{kind}/{path}", body, status=422)
        assert problem["code"] == code, (name, problem)
        assert text in problem["detail"], name
        assert problem["errors"][0]["pointer"].startswith(pointer), name
    assert problem["limit"] == {"a long string": "string_length", "a long series": "series_numbers", "a bomb": "image_pixels"}.get(
        name, "points_numbers" if name == "too many points" else None
    )


RAW: dict[str, tuple[str, bytes, int, str]] = {
    "NaN": ("series", b'{"items":[{"id":"a","series":[1,NaN]}]}', 422, "non_finite"),
    "infinity": ("points", b'{"items":[{"id":"a","points":[[1,1e999]]}]}', 422, "non_finite"),
    "half a pair": ("strings", b'{"items":[{"id":"a","string":"\\ud800"}]}', 422, "bad_string"),
}


async def test_what_json_cannot_hold_is_refused(app: App) -> None:
    """Numbers that are not finite and halves of surrogate pairs are told with their place."""
    for kind, body, status, code in RAW.values():
        key = await filled(app, kind)
        problem = await app.post(f"/v1/collections/{kind}/index", body, status=status)
        assert problem["code"] == code
        assert problem["errors"][0]["pointer"].startswith(f"#/items/0/{key}")


WRONG: dict[str, tuple[str, str, Any, str, str]] = {
    "a vector": ("strings", "index", {"items": [{"id": "a", "vector": [1, 2]}]}, "#/items/0/vector", 'carry "string", not "vector"'),
    "a string": ("series", "index", {"items": [{"id": "a", "string": "x"}]}, "#/items/0/string", 'carry "series", not "string"'),
    "two objects": ("series", "index", {"items": [{"id": "a", "series": [1], "string": "x"}]}, "#/items/0", "alone"),
    "two kinds": ("strings", "index", {"items": [{"id": "a", "string": "x"}, {"id": "b", "series": [1]}]}, "#/items/1", "alone"),
    "a vector too": ("strings", "index", {"items": [{"id": "a", "string": "x", "vector": [1]}]}, "#/items/0", "an item carries one of"),
    "nothing": ("strings", "index", {"items": [{"id": "a", "string": "x"}, {"id": "b"}]}, "#/items/1", "alone"),
    "a query by vector": ("points", "query", {"vector": [1, 2]}, "#/vector", 'carry "points", not "vector"'),
    "a query by string": ("points", "query", {"string": "x"}, "#/string", 'carry "points", not "string"'),
    "queries by vector": ("points", "query", {"queries": [[1, 2]]}, "#/queries/0", 'carry "points", not "vector"'),
    "queries of two kinds": ("points", "query", {"queries": [{"points": [[1, 2]]}, {"string": "x"}]}, "#/queries/1", "alone"),
    "two queries": ("strings", "query", {"string": "x", "id": "i0"}, "#", "exactly one of vector, id and queries"),
    "a score": ("strings", "query", {"string": "x", "min_score": 0.5}, "#/min_score", "max_distance"),
    "a vector with objects elsewhere": ("vectors", "index", {"items": [{"id": "a", "string": "x"}]}, "#/items/0/string", 'carry "vector"'),
    "fields": ("fields", "index", {"items": [{"id": "a", "string": "x"}]}, "#/items/0/string", 'carry "vectors", not "string"'),
}


async def test_wrong_keys_are_refused(app: App) -> None:
    """An item or a query with another key than the collection's is refused and told the right one; nothing is written."""
    for kind in ("strings", "series", "points"):
        await filled(app, kind)
    await app.put("/v1/collections/vectors", {"dim": 2})
    await app.put("/v1/collections/fields", {"fields": {"a": {"dim": 2}}})
    for name, (kind, path, body, pointer, text) in WRONG.items():
        problem = await app.post(f"/v1/collections/{kind}/{path}", body, status=422)
        assert problem["code"] in ("invalid_field", "bad_parameter"), name
        assert problem["errors"][0]["pointer"].startswith(pointer), name
        assert text in problem["detail"], name
    counts = {name: (await app.post(f"/v1/collections/{name}/count", {}))["count"] for name in ("strings", "series", "vectors", "fields")}
    assert counts == {"strings": 4, "series": 4, "vectors": 0, "fields": 0}


CONFIGURATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown kind": ({"items": "sounds"}, "invalid_field", "#/items"),
    "an unknown distance": ({"items": "strings", "distance": "hamming"}, "invalid_field", "#/distance"),
    "a distance of others": ({"items": "strings", "distance": "dtw"}, "bad_parameter", "#/distance"),
    "a kernel of vectors": ({"items": "points", "kernel": "ngmm", "dim": 2}, "bad_parameter", "#/kernel"),
    "a distance of vectors": ({"distance": "levenshtein"}, "bad_parameter", "#/distance"),
    "both names": ({"items": "strings", "distance": "levenshtein", "kernel": "levenshtein"}, "bad_parameter", "#/distance"),
    "points without a dimension": ({"items": "points"}, "bad_parameter", "#/dim"),
    "strings with one": ({"items": "strings", "dim": 3}, "bad_parameter", "#/dim"),
    "a wide window": ({"items": "series", "parameters": {"window": 2}}, "bad_parameter", "#/parameters"),
    "a word for a window": ({"items": "series", "parameters": {"window": "x"}}, "bad_parameter", "#/parameters"),
    "fields of strings": ({"items": "strings", "fields": {"a": {}}}, "bad_parameter", "#/fields"),
}


async def test_configurations_are_judged(app: App) -> None:
    """A kind, distance, dimension or parameter that does not go with the others is refused with its place, and nothing is made."""
    for name, (body, code, pointer) in CONFIGURATIONS.items():
        problem = await app.put("/v1/collections/c", body, status=422)
        assert (problem["code"], problem["errors"][0]["pointer"]) == (code, pointer), (name, problem)
    assert (await app.get("/v1/collections"))["collections"] == []


async def test_collections_tell_their_kind(app: App) -> None:
    """What was created is told, is found alike, and differs from another kind; the short routes take objects once `default` is of them."""
    body = {"items": "series", "distance": "dtw", "parameters": {"window": 0.25}, "dim": 2}
    made = await app.put("/v1/collections/c", body)
    assert (made["items"], made["kernel"], made["parameters"], made["dim"]) == ("series", "dtw", {"window": 0.25}, 2)
    await app.put("/v1/collections/c", body, status=200)
    await app.put("/v1/collections/c", {"items": "strings"}, status=409)
    assert (await app.put("/v1/collections/v", {"dim": 2}))["items"] == "vectors"
    refused = await app.post("/index", {"items": [{"id": "a", "string": "x"}]}, status=404)
    assert "of vectors creates default" in refused["detail"]
    await app.put("/v1/collections/default", {"items": "strings"})
    await app.post("/index", {"items": [{"id": "a", "string": "kitten"}]})
    assert (await app.post("/query", {"string": "sitting"}))["results"] == [{"id": "a", "distance": 3.0}]


def test_keys_are_those_of_the_library() -> None:
    """Every kind of items that the library has travels under the name that the library gives one of them."""
    assert {kind.one: name for name, kind in kinbin.KINDS.items()} == KEYS | {"vector": "vectors"}
