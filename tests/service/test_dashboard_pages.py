"""The dashboard in headless Chromium, against real servers with real data: what a person does, and what they must see."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import orjson
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import kinbin
from browser import PHONE, WIDE, Looked, browsing, found
from kinbin_service import photographs
from service_process import ServerProcess

pytestmark = pytest.mark.slow

KEY = "secret-of-the-test"
TITLES = {
    "": "Collections", "console": "Console", "c/photographs/query": "Query", "c/photographs/scores": "Scores",
    "c/photographs/recall": "Recall", "c/photographs/buckets": "Buckets", "c/photographs/map": "Map",
    "c/photographs/duplicates": "Duplicates", "c/photographs/items": "Items", "c/photographs/snapshots": "Snapshots",
    "c/photographs/console": "Console",
}  # fmt: skip
"""Every page, by its place."""
ASKS = {"c/photographs/scores": "tune", "c/photographs/recall": "recall", "c/photographs/map": "map"}
"""What pages ask for when they are opened."""


class Site(NamedTuple):
    """Two running servers, the second of which asks for a key, and a browser."""

    open: str
    keyed: str
    browser: Browser
    routes: frozenset[str]

    def has(self, word: str) -> bool:
        """Whether the server has this route of a collection."""
        return f"/v1/collections/{{name}}/{word}" in self.routes

    def needs(self, word: str) -> None:
        """Skip a test where the server has no such route."""
        if not self.has(word):
            pytest.skip(f"this server has no route {word}")


def fill(data: Path) -> None:
    """Photographs with thumbnails (a third of them), digits, words and strings."""
    patches = photographs.cut()
    some = slice(0, None, 3)
    with kinbin.open(data) as database:
        pictures = database.create_collection("photographs", dim=512)
        pictures.add(patches.ids[some], patches.histograms[some], payloads=patches.payloads[some])
        pictures.compact()
        edited = database.create_collection("edited", dim=512)
        edited.add(patches.ids[:200], patches.histograms[:200], payloads=patches.payloads[:200])
        pictures = database.create_collection("pictures", items="images")
        files = [base64.b64decode(str(one["image"]).split(",")[1]) for one in patches.payloads[:20] if one]
        pictures.add(patches.ids[:20], files, payloads=patches.payloads[:20])
        words = database.create_collection("words")
        words.add(
            ["a", "b", "c"], [["red", "fox"], ["blue", "fox"], ["green", "tree"]], payloads=[{"text": "a red fox"}, None, {"year": 2020}]
        )
        database.create_collection("names", items="strings").add(["a", "b"], ["kitten", "sitting"])
        database.create_collection("empty", dim=3)
        several = database.create_collection("several", fields={"colour": {"dim": 3}, "size": {"dim": 2}})
        several.add(["first", "second"], {"colour": [[1, 2, 3], [3, 2, 1]], "size": [[1, 2], [2, 1]]})
        copies = database.create_collection("copies", dim=32)
        named = [(cluster, f"{cluster:02}-{number:02}") for cluster in range(32) for number in range(12 if cluster == 0 else 2)]
        copies.add([identifier for _, identifier in named], np.eye(32)[[cluster for cluster, _ in named]])
        database.create_collection("scales", dim=50).add(["low", "high"], np.vstack([np.arange(1, 51), np.arange(50, 0, -1)]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Both servers and the browser, started once for all tests of this file."""
    found()
    folder = tmp_path_factory.mktemp("dashboard")
    server, locked = ServerProcess(folder / "open"), ServerProcess(folder / "keyed", api_key=KEY)
    with ExitStack() as ended:
        for one in (locked, server):
            one.launch()
            ended.callback(one.close)
            if one is locked:
                fill(folder / "open")
        browser = ended.enter_context(browsing())
        locked.wait_until_ready()
        server.wait_until_ready()
        headers = {"x-api-key": KEY}
        assert locked.client.put("/v1/collections/secret", json={"dim": 3}, headers=headers).status_code == 201
        items = [{"id": f"item-{n}", "vector": [n, 1, 2]} for n in range(1, 6)]
        assert locked.client.post("/v1/collections/secret/index", json={"items": items}, headers=headers).status_code == 200
        paths = server.client.get("/openapi.json").json()["paths"]
        yield Site(f"http://127.0.0.1:{server.port}", f"http://127.0.0.1:{locked.port}", browser, frozenset(paths))


@pytest.fixture
def look(site: Site) -> Iterator[Any]:
    """A function that opens a window on the open server; at the end nothing may have gone wrong in any of them."""
    opened: list[Looked] = []

    def look(address: str = site.open, **how: Any) -> Looked:
        opened.append(Looked(site.browser, address, **{**WIDE, **how}))
        return opened[-1]

    yield look
    for one in opened:
        assert all(url.startswith((one.address, "data:")) for url in one.requested), "something was fetched from elsewhere"
        one.context.close()
    assert [wrong for one in opened for wrong in one.wrong] == []


def picture(colour: tuple[int, int, int]) -> dict[str, Any]:
    """A picture of one colour, as a file that is chosen."""
    file = io.BytesIO()
    Image.new("RGB", (40, 40), colour).save(file, "PNG")
    return {"name": "picture.png", "mimeType": "image/png", "buffer": file.getvalue()}


@pytest.fixture(scope="module", params=[WIDE, PHONE], ids=["wide and light", "phone and dark"])
def window(request: pytest.FixtureRequest, site: Site) -> Iterator[Looked]:
    """One window that goes from page to page."""
    looked = Looked(site.browser, site.open, **request.param)
    yield looked
    looked.context.close()


@pytest.mark.parametrize("place", TITLES)
def test_every_page_is_sound(site: Site, window: Looked, place: str) -> None:
    """Each page has its heading, nothing serious for axe-core, nothing in the console and nothing beside the window.

    A page whose route the server lacks says so.
    """
    window.wrong.clear()
    page = window.open(place)
    assert page.locator("h1").inner_text() == TITLES[place]
    missing = place in ASKS and not site.has(ASKS[place])
    assert page.locator(".missing").count() == missing
    assert page.locator(".trouble:not(.missing)").all_inner_texts() == []
    assert window.findings() == []
    assert window.sideways() <= 0
    # The browser itself notes the one request that was answered with 404.
    assert [wrong for wrong in window.wrong if not (missing and "404" in wrong)] == []


def test_collections_tell_how_they_are(look: Any) -> None:
    """The first page tells rows, bytes, runs, links, upkeep and failures of each collection."""
    page = look().open()
    row = page.get_by_role("row").filter(has_text="photographs")
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[0] == "vectors, ngmm"
    assert cells[1] == "1,627"
    assert int(cells[4].replace(",", "")) >= 1
    assert re.fullmatch(r"[\d.]+ MiB", cells[3])
    assert re.fullmatch(r"[\d.]+ %", cells[5])
    assert cells[6:] == ["nothing to do", "none"]
    row.get_by_role("link", name="photographs").click()
    page.get_by_role("heading", name="Query", exact=True).wait_for()


def answer_of(page: Page) -> tuple[list[str], float]:
    """Ids of the answer on the page, and the milliseconds that it took until it was there."""
    took = page.locator(".took")
    took.wait_for()
    return page.locator(".cards .id").all_inner_texts(), float(took.get_attribute("data-milliseconds") or "inf")


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
    page.get_by_label("Picture: drop one here, or choose a file").set_input_files(picture((200, 20, 20)))
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


def test_the_curve_follows_the_sliders(look: Any) -> None:
    """The S-curve is 1 - (1 - s^r)^L of the sliders' r and L, by mouse and by keyboard."""
    looked = look()
    page = looked.open("c/photographs/scores")
    for name, value in (("r: hashes a band", 3), ("L: bands", 20)):
        page.get_by_label(name).fill(str(value))
    page.get_by_label("r: hashes a band").press("ArrowRight")
    assert "r = 4 hashes a band and L = 20 bands" in page.locator("output").inner_text()
    drawn = page.evaluate("document.querySelector('.chart').plot.data")
    assert drawn[3] == pytest.approx([1 - (1 - s**4) ** 20 for s in drawn[0]])
    looked.wrong = [wrong for wrong in looked.wrong if "404" not in wrong]


def test_measured_scores_lie_under_the_curve(site: Site, look: Any) -> None:
    """The histograms of pairs and of neighbours are drawn behind the curve, each up to its highest bin, and a setting is suggested."""
    site.needs("tune")
    page = look().open("c/photographs/scores")
    _, pairs, neighbours, curve = page.evaluate("document.querySelector('.chart').plot.data")
    assert max(pairs) == max(neighbours) == 1
    assert np.average(range(len(pairs)), weights=pairs) < np.average(range(len(neighbours)), weights=neighbours)
    assert curve == sorted(curve)
    assert page.get_by_text("Suggested:").count() == 1
    assert page.get_by_role("table", name="What bands would do").get_by_role("row").count() > 10


def test_recall_is_what_the_route_measures(site: Site, look: Any) -> None:
    """Each mode has a row with its measured recall, what was predicted, and the mean bound."""
    site.needs("recall")
    page = look().open("c/photographs/recall")
    measured = httpx.get(f"{site.open}/v1/collections/photographs/recall?queries=100&k=10&seed=0", timeout=60).json()["modes"]
    shown = page.get_by_role("table", name="Measured by mode")
    for one in measured:
        row = shown.get_by_role("row").filter(has=page.get_by_role("rowheader", name=one["mode"], exact=True)).inner_text()
        assert f"{np.floor(one['recall'] * 1_000) / 10:.1f}".removesuffix(".0") in row, (one, row)


def test_the_map_opens_items(site: Site, look: Any) -> None:
    """A click on a point opens its item, and the arrow keys go on to the next in the order of the axis."""
    site.needs("map")
    page = look().open("c/photographs/map")
    place = """(at => {
        const { plot } = document.querySelector(".chart"), [x, ...groups] = plot.data, box = plot.over.getBoundingClientRect();
        const y = groups.map(one => one[at]).find(one => one !== null);
        return [box.left + plot.valToPos(x[at], "x"), box.top + plot.valToPos(y, "y")];
    })"""
    page.mouse.click(*page.evaluate(f"{place}(0)"))
    page.locator(".opened .card img").wait_for()
    first = page.locator(".opened .id").inner_text()
    page.locator(".walked").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".opened .id")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".opened .id")).to_have_text(first)


def test_duplicates_are_shown(site: Site, look: Any) -> None:
    """Clusters are shown with their pictures, their least score and what is kept."""
    site.needs("duplicates")
    page = look().open("c/photographs/duplicates")
    page.get_by_role("button", name="Find").click()
    body = {"min_score": 0.95, "as": "clusters", "limit": 1_000}
    first = httpx.post(f"{site.open}/v1/collections/photographs/duplicates", json=body, timeout=60).json()["clusters"][0]
    group = page.locator(".groups > li").first
    assert f"least score {first['least']:.4f}; keep {first['keep']}" in group.inner_text()
    assert group.locator(".id").all_inner_texts() == first["ids"][:8]
    assert group.locator("img").count() == len(first["ids"][:8])


def test_all_duplicates_can_be_seen(site: Site, look: Any) -> None:
    """What is not shown of a cluster, and of the list, is counted, and a button shows more of it until all is there."""
    site.needs("duplicates")
    page = look().open("c/copies/duplicates")
    page.get_by_role("button", name="Find").click()
    groups = page.locator(".groups > li")
    expect(groups).to_have_count(30)
    page.get_by_text("2 of 32 clusters are hidden.").wait_for()
    group = groups.filter(has_text="12 items,")
    expect(group.locator(".id")).to_have_count(8)
    group.get_by_text("4 of 12 items are hidden.").wait_for()
    group.get_by_role("button", name="More").click()
    expect(group.locator(".id")).to_have_count(12)
    assert group.locator(".id").all_inner_texts() == [f"00-{number:02}" for number in range(12)]
    page.get_by_role("button", name="More").click()
    expect(groups).to_have_count(32)
    assert page.get_by_text("hidden").count() == page.get_by_role("button", name="More").count() == 0


def test_a_dialog_goes_with_its_page(look: Any) -> None:
    """A dialog about an item is closed when another page is gone to by address, and by the browser's back and forward."""
    looked = look()
    page = looked.open("c/words/items")
    for button, go in (
        ("Edit payload of a", lambda: page.goto(f"{looked.address}/dashboard#/c/words/buckets")),
        ("Delete a", page.go_forward),
    ):
        page.get_by_role("button", name=button, exact=True).click()
        page.locator("dialog").wait_for()
        go()
        page.get_by_role("heading", name="Buckets").wait_for()
        expect(page.locator("dialog")).to_have_count(0)
        page.go_back()
    page.get_by_role("heading", name="Items").wait_for()


def test_every_value_has_its_colour_on_the_map(look: Any) -> None:
    """A field of at most 12 values has a colour a value, integers, too; numbers of more values are ranges."""
    page = look().open("c/words/items")
    told = """async count => {
        const { groups } = await import("/dashboard/pages/map.js"), { colour } = await import("/dashboard/charts.js");
        const made = groups(Array.from({ length: 300 }, (_, at) => at % count));
        return [made.map(one => one.label), new Set(made.map((_, at) => colour(at))).size];
    }"""
    for count in (10, 12):
        assert page.evaluate(told, count) == [[str(value) for value in range(count)], count]
    labels, different = page.evaluate(told, 13)
    assert labels[0].startswith("below ")
    assert different == len(labels) == 8


def test_items_are_filtered_edited_and_deleted(site: Site, look: Any) -> None:
    """Pages follow the scroll; a filter, an edited payload and a deleted item are what the server then says."""
    page = look().open("c/edited/items")
    first = page.locator(".item .id").all_inner_texts()
    page.get_by_role("button", name="Next page").click()
    page.get_by_text("page 2").wait_for()
    assert len(first) == 50
    assert set(first).isdisjoint(page.locator(".item .id").all_inner_texts())
    page.get_by_label("Filter (JSON)").fill('{"photograph": "flower"}')
    page.get_by_role("button", name="Show").click()
    expected = httpx.post(f"{site.open}/v1/collections/edited/count", json={"filter": {"photograph": "flower"}}).json()["count"]
    page.get_by_text(f"{expected} items; page 1").wait_for()
    page.get_by_label("Or one id").fill("patch-0003")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("button", name="Edit payload of patch-0003").click()
    page.get_by_label("JSON", exact=True).fill("{")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").filter(has_text="JSON").wait_for()
    page.get_by_label("JSON", exact=True).fill('{"seen": true}')
    page.get_by_label("This", exact=True).select_option("merge")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("The payload of patch-0003 is stored.").wait_for()
    ids = {"ids": ["patch-0003"]}
    stored = httpx.post(f"{site.open}/v1/collections/edited/get", json=ids).json()["items"][0]["payload"]
    assert stored["seen"] is True
    assert "photograph" in stored
    page.get_by_role("button", name="Delete patch-0003").click()
    page.get_by_role("button", name="Cancel").click()
    assert httpx.post(f"{site.open}/v1/collections/edited/get", json=ids).json()["missing"] == []
    page.get_by_role("button", name="Delete patch-0003").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("patch-0003 is deleted.").wait_for()
    assert httpx.post(f"{site.open}/v1/collections/edited/get", json=ids).json()["missing"] == ["patch-0003"]


def made(site: Site, name: str, payloads: dict[str, str]) -> str:
    """The address of a new collection of one item for each payload, which is JSON text."""
    address = f"{site.open}/v1/collections/{name}"
    assert httpx.put(address, json={"dim": 2}).status_code == 201
    items = ", ".join(f'{{"id": "{id_}", "vector": [1, 2], "payload": {payload}}}' for id_, payload in payloads.items())
    headers = {"content-type": "application/json"}
    assert httpx.post(f"{address}/index", content=f'{{"items": [{items}]}}', headers=headers).status_code == 200
    return address


def test_numbers_keep_their_digits(site: Site, look: Any) -> None:
    """Large integers and 1.0 are listed, edited, filtered by and answered with the digits that the server has."""
    payload = '{"10":1.0,"9":9007199254740993,"deep":[[9007199254740995]],"large":12345678901234567890,"year":12345}'
    address = made(site, "digits", {"a": payload})
    body = {"ids": ["a"]}
    before = httpx.post(f"{address}/get", json=body).text
    assert payload in before
    page = look().open("c/digits/items")
    listed = page.locator(".item small").inner_text()
    for told in ("9: 9007199254740993", "large: 12345678901234567890", "deep: [[9007199254740995]]", "year: 12345"):
        assert told in listed
    page.get_by_role("button", name="Edit payload of a").click()
    assert "".join(page.get_by_label("JSON", exact=True).input_value().split()) == payload
    page.get_by_role("button", name="Save").click()
    page.get_by_text("The payload of a is stored.").wait_for()
    assert httpx.post(f"{address}/get", json=body).text == before
    sent = '{"9":9007199254740993}'
    page.get_by_label("Filter (JSON)").fill(sent)
    with page.expect_request("**/scroll") as asked:
        page.get_by_role("button", name="Show").click()
    assert sent in (asked.value.post_data or "")
    # The page says "1 items; page 1" of the answer before, too.
    page.locator("summary").click()
    page.get_by_label("curl of this request").filter(has_text=sent).wait_for()
    assert '{"9": 9007199254740993}' in page.get_by_label("Python of this request").inner_text()
    page = look().open("c/digits/console")
    page.get_by_label("Path").fill("/v1/collections/digits/get")
    page.get_by_label("Body (JSON)").fill('{"ids": ["a"]}')
    page.get_by_role("button", name="Send").click()
    shown = page.get_by_label("Answer").inner_text()
    assert "".join(shown.split()) == before
    assert '\n      "payload": {\n        "10": 1.0,\n' in shown


def test_a_dialog_sends_once(site: Site, look: Any) -> None:
    """Clicks while the request of a dialog runs send nothing more; after an error its button works again."""
    made(site, "once", {"a": "null"})
    page = look().open("c/once/items")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/payload") else None)
    page.get_by_role("button", name="Edit payload of a").click()
    for given in ("{", '{"seen": true}'):
        page.get_by_label("JSON", exact=True).fill(given)
        page.get_by_role("button", name="Save").evaluate("button => { button.focus(); button.click(); button.click(); }")
        if given == "{":
            page.get_by_role("alert").filter(has_text="JSON").wait_for()
            expect(page.get_by_role("button", name="Save")).to_be_focused()
    page.get_by_text("The payload of a is stored.").wait_for()
    assert len(sent) == 1


@pytest.mark.parametrize("place", ["c/%/query", "c/words/%E0%A4%A/x", "c//query", "c/words/nothing", "nothing", "%"])
def test_addresses_that_are_no_page_are_told(look: Any, place: str) -> None:
    """An address that is not understood takes the place of the page before, and says that there is no such page."""
    looked = look()
    looked.open("c/words/items")
    page = looked.open(place)
    page.get_by_role("heading", name="No such page").wait_for()
    page.wait_for_selector(".page:not([aria-busy])")
    page.get_by_role("link", name="All collections").click()
    page.get_by_role("heading", name="Collections").wait_for()


def test_pictures_come_from_this_server_alone(site: Site, look: Any) -> None:
    """A path of this server is a picture; one that a browser reads as another server's address is text, and is not asked for."""
    paths = ["/dashboard/favicon.svg", "//127.0.0.1:9/x.png", "/\\127.0.0.1:9/x.png", "/\t/127.0.0.1:9/x.png", "/\\[/x.png"]
    made(site, "paths", {f"item-{at}": orjson.dumps({"image": path}).decode() for at, path in enumerate(paths)})
    page = look().open("c/paths/items")
    expect(page.locator(".item")).to_have_count(5)
    assert page.locator(".item img").evaluate_all("all => all.map(one => one.getAttribute('src'))") == paths[:1]


def test_an_id_is_opened_with_its_spaces(site: Site, look: Any) -> None:
    """An id that begins and ends with spaces is asked for as it was typed."""
    made(site, "spaces", {" lead trail ": "null", "lead trail": "null"})
    page = look().open("c/spaces/items")
    page.get_by_label("Or one id").fill(" lead trail ")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".item")).to_have_count(1)
    assert page.locator(".item .id").evaluate("one => one.textContent") == " lead trail "


def test_long_values_are_cut_in_the_legend_of_the_map(look: Any) -> None:
    """The legend of a map names a long value by its first 40 characters."""
    made_of = "async values => (await import('./dashboard/pages/map.js')).groups(values).map(one => one.label)"
    assert look().open("c/words/items").evaluate(made_of, ["a" * 41, "b" * 40]) == ["a" * 40 + " …", "b" * 40]


def test_snapshots_are_made_verified_restored_and_deleted(site: Site, look: Any) -> None:
    """Each step of a snapshot's life is done from its page."""
    page = look().open("c/words/snapshots")
    page.get_by_role("button", name="Make a snapshot").click()
    verify = page.get_by_role("button", name="Verify")
    verify.wait_for()
    verify.click()
    page.get_by_text("All 3 items are proved.").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.startswith("words-")
    page.get_by_role("button", name="Restore").click()
    page.get_by_label("Its name").fill("words-again")
    page.locator("dialog button.primary").click()
    page.get_by_text("The collection words-again is there.").wait_for()
    assert httpx.get(f"{site.open}/v1/collections/words-again").json()["count"] == 3
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog button.danger").click()
    page.get_by_text("There are none yet.").wait_for()
    assert httpx.get(f"{site.open}/v1/collections/words/snapshots").json()["snapshots"] == []
    assert httpx.delete(f"{site.open}/v1/collections/words-again").status_code == 200


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


def test_a_key_is_asked_for_and_kept_in_memory_only(site: Site, look: Any) -> None:
    """With keys the page asks for one, says when it is wrong, and keeps it nowhere: a reload asks again, and no snippet holds it."""
    looked = look(site.keyed)
    page = looked.page
    page.goto(f"{site.keyed}/dashboard")
    for given, told in (("wrong", "The server does not take this key."), (KEY, "secret")):
        page.get_by_label("Key", exact=True).fill(given)
        page.get_by_role("button", name="Use it").click()
        page.get_by_text(told).first.wait_for()
    page.get_by_role("link", name="secret").click()
    ids, _ = answer_of(page)
    assert len(ids) == 4
    page.locator("summary").click()
    assert "$KINBIN_API_KEY" in page.get_by_label("curl of this request").inner_text()
    assert KEY not in page.content()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.state])")
    assert kept == orjson.dumps([{}, {}, "", page.url, None]).decode()
    page.reload()
    page.get_by_label("Key", exact=True).wait_for()
    looked.wrong = [wrong for wrong in looked.wrong if "401" not in wrong]


def test_the_keyboard_reaches_everything(look: Any) -> None:
    """From the first Tab on: the content can be skipped to, and a search be done, without a mouse."""
    page = look().open("c/words/query?id=a")
    answer_of(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "From here":
            break
    page.keyboard.press("Enter")
    page.locator(".asked").wait_for()
    assert page.evaluate("document.activeElement.matches('body, button, main')")
    page.get_by_role("link", name="Items").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Items").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"
