"""Why an item scored so, and what the query page tells of tokens, bounds and places."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard_site import answer_of
from kinbin.rows.tokens import token_feature

pytestmark = pytest.mark.slow


def why(page: Page, identifier: str) -> Any:
    """The view of an item of the answer, when it is all there."""
    page.get_by_role("button", name=f"Why? {identifier}", exact=True).click()
    page.locator(".why .snippets").last.wait_for()
    return page.locator(".why")


def test_features_are_told_by_name_or_with_all_their_digits(look: Any) -> None:
    """Tokens of stored items are named by the words of the texts beside them; others keep each digit of their numbers."""
    page = look().open("c/words/query?id=a")
    answer_of(page)
    why(page, "b")
    features = page.get_by_role("table", name="The largest parts").get_by_role("rowheader")
    expect(features).to_have_text(["fox", "red", str(token_feature("blue"))])
    assert token_feature("blue") > 2**53


def test_tokens_without_a_payload_are_told(look: Any) -> None:
    """The card of an item that has no payload says so, and its features with all their digits."""
    page = look().open("c/words/query?id=a")
    answer_of(page)
    told = page.locator(".card").filter(has=page.get_by_text("b", exact=True)).locator(".words").inner_text()
    assert told.startswith("No payload; 2 features: ")
    assert {int(one) for one in re.findall(r"\d{6,}", told)} == {token_feature("blue"), token_feature("fox")}


def test_bars_begin_at_zero(look: Any) -> None:
    """The axis of bars begins at 0, so that lengths compare, where no value is near to it: of items, and of parts of a score."""
    page = look().open("c/scales/query?id=level")
    answer_of(page)
    why(page, "low")
    for chart in (".asked .chart", ".why .chart"):
        page.locator(f"{chart} canvas").first.wait_for()
        told = "one => { const { min, max } = one.plot.scales.y; return [min, max, one.plot.data[1]]; }"
        least, most, values = page.locator(chart).first.evaluate(told)
        assert min(values) > 0.3 * max(values)
        assert least == 0 < max(values) <= most


def test_bars_below_zero_hang_from_it(look: Any) -> None:
    """Of negative values alone the axis ends at 0, and nothing at all has an axis, too."""
    ranges = """async () => {
        const { chart } = await import("/dashboard/charts.js");
        const made = [[-1, -3], [-1, 3], [null, null]].map(values => chart({
            about: "", x: [1, 2], xLabel: "", yLabel: "", series: [{ label: "", values, drawn: "bars" }] }));
        document.querySelector("main").append(...made);
        await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        return made.map(one => [one.plot.scales.y.min, one.plot.scales.y.max]);
    }"""
    below, both, none = look().open("c/words/items").evaluate(ranges)
    assert below[0] < -3
    assert below[1] == 0
    assert both[0] < -1
    assert both[1] > 3
    assert none[0] == 0 < none[1]


def test_a_walk_is_certified_where_somebody_asks(look: Any) -> None:
    """A walk has no bound and says how to get one; with the box ticked its bound is there."""
    page = look().open("c/linked/query?id=patch-0300")
    answer_of(page)
    page.get_by_label("Mode").select_option("links")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".certificate")).to_contain_text("No recall bound")
    page.get_by_label("Certify").check()
    with page.expect_request("**/query") as asked:
        page.get_by_role("button", name="Search").click()
    assert asked.value.post_data_json["certify"] is True
    expect(page.locator(".certificate")).to_contain_text(re.compile(r"Recall bound [01]\.\d{4}"))


def test_the_walk_of_the_view_is_that_of_the_answer(look: Any) -> None:
    """The place is that of the answer, which leaves the asked item out, of a walk for as many as were asked for."""
    page = look().open("c/linked/query?id=patch-0300")
    answer_of(page)
    page.get_by_label("k", exact=True).fill("17")
    page.get_by_label("Mode").select_option("links")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".cards > .card")).to_have_count(17)
    ids, _ = answer_of(page)
    for place in (1, 17):
        view = why(page, ids[place - 1])
        expect(view).to_contain_text(re.compile(rf"A walk for 17, [\d,]+ nodes wide, answers it in place {place}\."))


def test_closing_gives_the_focus_back(look: Any) -> None:
    """With the keyboard alone: the view is closed, and the focus is on the button that opened it."""
    page = look().open("c/photographs/query?id=patch-0300")
    answer_of(page)
    opener = page.get_by_role("button", name=re.compile("^Why")).nth(3)
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Why patch-")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".why h2")).to_have_count(0)
    expect(opener).to_be_focused()
