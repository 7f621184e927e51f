"""What somebody who has read nothing is told: of keys, of tokens that nobody knows, of paths and payloads that are none."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from browser import PHONE, Looked
from dashboard_site import KEY, Site, answer_of

pytestmark = pytest.mark.slow


def test_the_button_says_that_there_is_a_key(site: Site, look: Any) -> None:
    """Once a key is typed the button offers to forget it, on the page where it was asked for; forgotten, it is asked for again."""
    looked = look(site.keyed)
    looked.page.goto(f"{site.keyed}/dashboard")
    button = looked.page.get_by_role("navigation", name="Server").get_by_role("button")
    expect(button).to_have_text("Key")
    looked.page.get_by_text("This server asks for a key.").wait_for()
    looked.give_key(KEY)
    looked.page.get_by_role("link", name="secret").wait_for()
    expect(button).to_have_text("Forget key")
    button.click()
    looked.page.get_by_text("This server asks for a key.").wait_for()
    expect(button).to_have_text("Key")
    looked.wrong = [wrong for wrong in looked.wrong if "401" not in wrong]


def test_a_server_without_keys_asks_for_none(look: Any) -> None:
    """Where requests need no key the dialog says so, and takes one all the same."""
    looked = look()
    page = looked.open()
    button = page.get_by_role("navigation", name="Server").get_by_role("button")
    button.click()
    page.locator("dialog").get_by_text("This server takes requests without a key.").wait_for()
    assert page.get_by_text("This server asks for a key.").count() == 0
    looked.give_key("anything")
    page.get_by_role("link", name="photographs").wait_for()
    expect(button).to_have_text("Forget key")


DRAWN = """() => {
    window.drawn = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
        const size = this.measureText(text), place = this.getTransform();
        const corners = [
            new DOMPoint(x - size.actualBoundingBoxLeft, y - size.actualBoundingBoxAscent),
            new DOMPoint(x + size.actualBoundingBoxRight, y + size.actualBoundingBoxDescent),
        ].map(one => place.transformPoint(one));
        const [xs, ys] = [corners.map(one => one.x), corners.map(one => one.y)];
        drawn.push({ canvas: this.canvas, text: String(text), box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] });
        return fillText.call(this, text, x, y, ...rest);
    };
}"""
OVERLAID = """async ({ heights, most }) => {
    const { chart } = await import("/dashboard/charts.js"), found = [];
    for (const height of heights) {
        drawn.length = 0;
        const series = [{ label: "", values: [most, most / 2, 0], drawn: "bars" }];
        const made = chart({ about: "", x: [1, 2, 3], xLabel: "place", yLabel: "part", places: true, height, series });
        document.querySelector("main").replaceChildren(made);
        await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        const last = [...new Map(drawn.map(one => [`${one.text} ${one.box}`, one])).values()];
        const title = last.filter(one => one.text === "part").at(-1), numbers = last.filter(one => /^[\\d.,]+$/.test(one.text));
        if (!title || numbers.length < 5) throw new Error("nothing was drawn");
        const [left, top, right, bottom] = title.box;
        for (const { text, box } of numbers)
            if (box[0] < right && left < box[2] && box[1] < bottom && top < box[3]) found.push([height, text]);
    }
    return found;
}"""


@pytest.mark.parametrize("how", [{}, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("most", [0.0625, 1.0, 12_345.0])
def test_the_title_of_an_axis_covers_no_number(look: Any, how: dict[str, Any], most: float) -> None:
    """However high a chart is, and however long its numbers, the title of its axis is drawn beside them."""
    page = look(**how).open("c/words/items")
    page.evaluate(DRAWN)
    assert page.evaluate(OVERLAID, {"heights": [130, 150, 180, 200, 280], "most": most}) == []


def asked_by_text(looked: Looked, text: str) -> Any:
    """The query page of words, asked for a text, when its answer is there."""
    page = looked.open("c/words/query?id=a")
    answer_of(page)
    page.get_by_label("a text").check()
    page.get_by_role("textbox", name="Text").fill(text)
    with page.expect_response("**/query"):
        page.get_by_role("button", name="Search").click()
    expect(page.locator(".asked")).to_have_count(0)
    return page


def test_tokens_that_nobody_knows_are_told(look: Any) -> None:
    """Where no item has a token of a text the answer says so, and only there; the input says how it cuts, and how to ask for shingles."""
    looked = look()
    told = "no item that was looked at has a token of the query"
    page = asked_by_text(looked, "harbour crane")
    page.get_by_text(told).wait_for()
    hint = page.get_by_text("A collection of shingles (runs of words) is asked with JSON")
    assert '{"vector": {"tokens": {"the harbour": 1}}}' in hint.inner_text()
    page = asked_by_text(looked, "fox harbour")
    page.locator(".cards .card", has_text="score 0.0000").first.wait_for()
    expect(page.get_by_text(told)).to_have_count(0)


def test_the_console_completes_a_path(site: Site, look: Any) -> None:
    """A path without its first slash, or one with the server's own address, is asked for as it is meant, and the snippets say the same."""
    page = look().open("console")
    for typed in ("v1/collections", " /v1/collections", f"{site.open}/v1/collections"):
        page.get_by_label("Path").fill(typed)
        assert f"'{site.open}/v1/collections'" in page.get_by_label("curl of this request").inner_text()
        assert f'"{site.open}/v1/collections"' in page.get_by_label("Python of this request").inner_text()
        with page.expect_response(f"{site.open}/v1/collections") as answer:
            page.get_by_role("button", name="Send").click()
        assert answer.value.status == 200


@pytest.mark.parametrize("typed", ["https://example.org/", "//example.org/v1", "example.org:80/v1", "\\\\example.org", "127.0.0.1:1/v1"])
def test_the_console_asks_no_other_server(site: Site, look: Any, typed: str) -> None:
    """An address elsewhere is refused in words, in the place of snippets and when it is sent; nothing is asked for."""
    looked = look()
    page = looked.open("console")
    expect(page.locator("#routes option").first).to_be_attached()
    before = len(looked.requested)
    page.get_by_label("Path").fill(typed)
    told = page.get_by_text(f"The console asks this server alone, {site.open}: write a path of it, as /v1/collections.")
    expect(told).to_have_count(1)
    assert page.locator(".snippet").count() == 0
    page.get_by_role("button", name="Send").click()
    expect(told).to_have_count(2)
    assert looked.requested[before:] == []


@pytest.mark.parametrize("typed", ["[1]", '"text"', "5", "true"])
def test_a_payload_is_an_object(look: Any, typed: str) -> None:
    """What is JSON and no object is refused before it is sent, in the words of JSON."""
    looked = look()
    page = looked.open("c/words/items")
    page.get_by_role("button", name="Edit payload of c").click()
    page.get_by_label("JSON", exact=True).fill(typed)
    page.get_by_role("button", name="Save").click()
    page.get_by_text('A payload is a JSON object, as {"year": 2020}, or null.').wait_for()
    assert [url for url in looked.requested if url.endswith("/payload")] == []


def test_strings_have_no_buckets(look: Any) -> None:
    """Strings have no bands, however many there are: the page of buckets says that, and nothing of small collections."""
    page = look().open("c/names/buckets")
    page.get_by_text("Strings under levenshtein have no bands: no hash tells how near two are. So there are no buckets.").wait_for()
    look().open("c/words/buckets").get_by_text("Nothing is sealed into a run yet").wait_for()
