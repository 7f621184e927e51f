"""The page that asks for near neighbours, and the console: what a person asks, and what they must see."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from PIL import Image
from playwright.sync_api import expect

from dashboard_site import Site, answer_of, picture

pytestmark = pytest.mark.slow


def test_queries_by_id_by_picture_and_by_json(site: Site, look: Any) -> None:
    """Each way to ask gives what the route gives, with thumbnails, scores and the certificate."""
    page = look().open("c/photographs/query?id=patch-0300")
    answer_of(page)
    page.get_by_label("k", exact=True).fill("5")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".cards > .card")).to_have_count(5)
    ids, _ = answer_of(page)
    body = {"id": "patch-0300", "k": 5}
    expected = httpx.post(f"{site.open}/v1/collections/photographs/query", json=body).json()
    assert ids == [hit["id"] for hit in expected["results"]]
    assert f"score {expected['results'][0]['score']:.4f}" in page.locator(".card").first.inner_text()
    assert f"Recall bound {expected['recall_lower_bound']:.4f}" in page.locator(".certificate").inner_text()
    assert page.locator(".card img.thumbnail").count() == 5
    assert page.evaluate("[...document.querySelectorAll('img.thumbnail')].every(one => one.naturalWidth === 32)")
    page.get_by_role("radio", name="JSON").check()
    page.get_by_label("Body of the query").fill(orjson.dumps(body | {"k": 3, "include": ["payload"]}).decode())
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".cards > .card")).to_have_count(3)
    assert answer_of(page)[0] == ids[:3]
    page.get_by_label("a picture").check()
    page.get_by_label("Picture: drop one onto the page, or choose a file").set_input_files(picture((200, 20, 20)))
    expect(page.locator(".cards > .card")).to_have_count(5)
    histogram = [0.0] * 512
    histogram[(200 // 32 * 8 + 20 // 32) * 8 + 20 // 32] = 1_024.0
    expected = httpx.post(f"{site.open}/v1/collections/photographs/query", json={"vector": histogram, "k": 5}).json()
    assert answer_of(page)[0] == [hit["id"] for hit in expected["results"]]


def test_a_picture_is_dropped_on_pictures(look: Any) -> None:
    """A picture that is dropped onto a collection of pictures is asked for as it is, and finds itself."""
    page = look().open("c/pictures/query")
    page.get_by_label("a picture").check()
    given = page.locator(".drop")
    given.wait_for()
    page.evaluate(
        """async () => {
            const page = await (await fetch("v1/collections/pictures/get", {method: "POST", headers: {"content-type": "application/json"},
                body: JSON.stringify({ids: ["patch-0007"], include: ["payload"]})})).json();
            const bytes = Uint8Array.from(atob(page.items[0].payload.image.split(",")[1]), one => one.charCodeAt(0));
            const data = new DataTransfer();
            data.items.add(new File([bytes], "picture.webp", {type: "image/webp"}));
            document.querySelector(".drop").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
        }"""
    )
    page.locator(".card", has_text="score 1.0000").wait_for()
    assert answer_of(page)[0][0] == "patch-0007"


def test_queries_one_after_the_other(look: Any) -> None:
    """Each search answers for what the form says then, and tells how long it took."""
    page = look().open("c/photographs/query?id=patch-0300")
    for number in range(3):
        page.get_by_label("Id").fill(f"patch-{3 * number:04d}")
        page.get_by_role("button", name="Search").click()
        page.locator(".asked b", has_text=f"patch-{3 * number:04d}").wait_for()
        found, milliseconds = answer_of(page)
        assert found
        assert milliseconds > 0


def test_queries_by_text_and_answers_as_text_and_bars(look: Any) -> None:
    """Words are counted in lower case, strings are asked for as they are; answers without pictures are text, or bars of their values."""
    page = look().open("c/words/query")
    page.get_by_label("a text").check()
    page.get_by_role("textbox", name="Text").fill("Red RED fox!")
    page.get_by_role("button", name="Search").click()
    page.locator(".cards .words", has_text="a red fox").wait_for()
    assert answer_of(page)[0][0] == "a"
    page.locator("summary").click()
    assert '"tokens":{"red":2,"fox":1}' in page.get_by_label("curl of this request").inner_text()
    page = look().open("c/names/query")
    page.get_by_label("a text").check()
    page.get_by_role("textbox", name="Text").fill("smitten")
    page.get_by_role("button", name="Search").click()
    page.locator(".cards .words", has_text="kitten").first.wait_for()
    assert answer_of(page)[0][0] == "a"
    page = look().open("c/scales/query?id=low")
    page.locator(".card canvas").first.wait_for()
    assert page.get_by_role("img", name="50 values of high").count() == 1


@pytest.mark.parametrize("name", ["photographs", "words", "several", "pictures"])
def test_bodies_that_stand_there_work(look: Any, name: str) -> None:
    """The JSON that the query page and the console begin with names a stored item, and is answered with 200."""
    page = look().open(f"c/{name}/query")
    answer_of(page)
    page.get_by_role("radio", name="JSON").check()
    body = orjson.loads(page.get_by_label("Body of the query").input_value())
    with page.expect_response(re.compile("/query$")) as answer:
        page.get_by_role("button", name="Search").click()
    assert answer.value.status == 200
    assert answer.value.request.post_data_json == body
    page = look().open(f"c/{name}/console")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("200,").wait_for()


def test_an_empty_collection_says_so(look: Any) -> None:
    """Where there is no item to begin with, the query page says so, and so do the bodies that stand there."""
    page = look().open("c/empty/query")
    page.get_by_text("The collection is empty.").wait_for()
    page.get_by_role("radio", name="JSON").check()
    assert "the collection is empty" in page.get_by_label("Body of the query").input_value()
    assert "the collection is empty" in look().open("c/empty/console").get_by_label("Body (JSON)").input_value()


def test_the_first_query_shows_something(site: Site, look: Any) -> None:
    """Of the first items the one of the largest picture is asked for: one that is not of one colour."""
    page = look().open("c/photographs/query")
    answer_of(page)
    scroll = {"limit": 24, "include": ["payload"]}
    items = httpx.post(f"{site.open}/v1/collections/photographs/scroll", json=scroll).json()["items"]
    largest = max(items, key=lambda item: len(item["payload"]["image"]))
    assert page.locator(".asked b").inner_text() == largest["id"]
    file = io.BytesIO(base64.b64decode(largest["payload"]["image"].split(",")[1]))
    assert np.asarray(Image.open(file).convert("L")).std() > 25


def test_a_failed_query_says_why(look: Any) -> None:
    """What the server refuses is said with its code, and a body that is no JSON is told before it is sent."""
    looked = look()
    page = looked.open("c/photographs/query")
    page.get_by_label("Filter (JSON)").fill("{")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("This is no JSON").wait_for()
    page.get_by_label("Filter (JSON)").fill('{"year": {"$near": 1}}')
    page.get_by_role("button", name="Search").click()
    page.get_by_text("422 bad_filter").wait_for()
    page.goto(f"{looked.address}/dashboard#/c/nowhere/query")
    page.get_by_text("404 collection_not_found").wait_for()
    # The browser itself notes each of the two refusals.
    assert len(looked.wrong) == 2
    looked.wrong.clear()


@pytest.mark.parametrize("body", ["[1, 2, 3]", "3", "null"])
def test_a_body_that_is_no_object_is_told_what_one_is(look: Any, body: str) -> None:
    """JSON that is no object is no query: an example of one is shown, and nothing is sent."""
    looked = look()
    page = looked.open("c/photographs/query")
    answer_of(page)
    page.get_by_role("radio", name="JSON").check()
    page.get_by_label("Body of the query").fill(body)
    sent = len(looked.requested)
    page.get_by_role("button", name="Search").click()
    assert page.locator(".trouble").inner_text() == 'A query is an object, such as {"vector": [1, 2, 3]}, or {"id": "a", "k": 3}.'
    assert len(looked.requested) == sent


def test_what_is_wrong_is_said_once(look: Any) -> None:
    """A message that the errors of a body repeat stands there once, with the places that it is about."""
    looked = look()
    page = looked.open("c/photographs/query")
    answer_of(page)
    page.get_by_role("radio", name="JSON").check()
    for body, pointers in (('{"one": 1}', []), ('{"vector": [1]}', ["#/vector"])):
        page.get_by_label("Body of the query").fill(body)
        with page.expect_response("**/query") as answer:
            page.get_by_role("button", name="Search").click()
        page.locator(".trouble p", has_text=answer.value.json()["detail"]).wait_for()
        assert page.locator(".trouble li").all_inner_texts() == pointers
    assert len(looked.wrong) == 2
    looked.wrong.clear()


def test_steps_are_told_as_a_sentence(look: Any) -> None:
    """What was done for an answer begins with a capital letter and ends with one full stop."""
    page = look().open("c/scales/query?id=low")
    answer_of(page)
    assert re.search(r" scored exactly\. [A-Z][^.]*\.$", page.locator(".certificate .hint").inner_text())


def test_why_an_item_scored_so(site: Site, look: Any) -> None:
    """The explain view shows parts that add up to the score, bands and walk; or says that the server has no such route."""
    looked = look()
    page = looked.open("c/photographs/query?id=patch-0300")
    page.get_by_role("button", name="Why?").first.click()
    page.get_by_role("heading", name="Why patch-").wait_for()
    if not site.has("explain"):
        page.locator(".why .missing").wait_for()
        looked.wrong.clear()
        return
    page.get_by_role("table", name="The largest parts").wait_for()
    score = page.locator(".card").first.inner_text()
    told = page.locator(".why").inner_text()
    assert f"Score {float(re.search(r'score ([0-9.]+)', score)[1]):.3f}"[:10] in told  # type: ignore[index]
    assert re.search(r"bands of \d+ hash", told)
    assert looked.findings() == []


def test_the_console_shows_requests_that_work(look: Any) -> None:
    """The console sends what it says, and the curl and the Python that it shows give the same ids."""
    page = look().open("c/photographs/console")
    body = '{"id": "patch-0300", "k": 4, "filter": {"photograph": "flower"}}'
    page.get_by_label("Body (JSON)").fill(body)
    page.get_by_role("button", name="Send").click()
    page.get_by_text("200,").wait_for()
    ids = [hit["id"] for hit in orjson.loads(page.get_by_label("Answer").inner_text())["results"]]
    assert len(ids) == 4
    curl = page.get_by_label("curl of this request").inner_text()
    told = subprocess.run(["bash", "-c", curl], capture_output=True, check=True, timeout=20).stdout
    assert [hit["id"] for hit in orjson.loads(told)["results"]] == ids
    python = page.get_by_label("Python of this request").inner_text()
    assert "collection.query_id(" in python
    told = subprocess.run([sys.executable, "-c", python], capture_output=True, check=True, timeout=20).stdout
    assert re.findall(r"patch-\d+", told.decode()) == ids
    page.get_by_label("Path").fill("/v1/collections/photographs/indexes")
    assert "httpx.request" in page.get_by_label("Python of this request").inner_text()
