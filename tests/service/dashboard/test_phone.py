"""Pages in a window of 390 pixels: nothing is cut without a word."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from browser import PHONE
from dashboard_site import answer_of

pytestmark = pytest.mark.slow


def test_charts_fit_into_their_cards(look: Any) -> None:
    """A chart in a card is no wider than the card."""
    page = look(**PHONE).open("c/scales/query?id=low")
    answer_of(page)
    page.locator(".card canvas").first.wait_for()
    edges = "card => [card, card.querySelector('.uplot')].map(one => one.getBoundingClientRect().right)"
    card, chart = page.locator(".card", has=page.locator("canvas")).first.evaluate(edges)
    assert chart <= card


@pytest.mark.parametrize(("place", "caption"), [("", "collections"), ("c/photographs/query?id=patch-0300", "The largest parts")])
def test_tables_say_that_there_is_more(look: Any, place: str, caption: str) -> None:
    """A table that is wider than the window says so where it begins; one that fits does not."""
    for how, hidden in ((PHONE, False), ({}, True)):
        page = look(**how).open(place)
        if place:
            answer_of(page)
            page.get_by_role("button", name="Why?").first.click()
        table = page.get_by_role("region", name=caption)
        table.wait_for()
        hint = table.get_by_text("There are more columns: scroll sideways")
        expect(hint).to_be_hidden() if hidden else expect(hint).to_be_visible()
        table.evaluate("one => { one.scrollLeft = 1000; }")
        if not hidden:
            expect(hint).to_be_in_viewport(ratio=0.99)


def test_a_path_is_seen_whole(look: Any) -> None:
    """The path that stands in the console fits into its field."""
    page = look(**PHONE).open("c/photographs/console")
    wider = page.get_by_label("Path").evaluate("one => one.scrollWidth - one.clientWidth")
    assert wider <= 0


@pytest.mark.parametrize("most", [3, 12_345_678])
def test_titles_of_axes_lie_beside_numbers(look: Any, most: int) -> None:
    """The room of an axis is that of its longest number."""
    page = look(**PHONE).open("c/words/items")
    room = """async most => {
        const { chart } = await import("/dashboard/charts.js");
        const series = [{ label: "", values: [1, most], drawn: "bars" }];
        const made = chart({ about: "", x: [1, 2], xLabel: "run", yLabel: "postings", series });
        document.querySelector("main").append(made);
        await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        const { plot } = made, [, axis] = plot.axes;
        plot.ctx.font = axis.font[0];
        const longest = Math.max(...axis._values.map(one => plot.ctx.measureText(one).width)) / devicePixelRatio;
        return [axis._size, longest + axis.ticks.size + axis.gap];
    }"""
    size, needed = page.evaluate(room, most)
    assert needed <= size <= needed + 8
