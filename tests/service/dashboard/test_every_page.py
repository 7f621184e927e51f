"""Every page of the dashboard: sound at once, reached by keyboard and address, with and without a key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from playwright.sync_api import expect

from browser import PHONE, WIDE, Looked
from dashboard_site import KEY, Site, answer_of

pytestmark = pytest.mark.slow

TITLES = {
    "": "Collections", "console": "Console", "c/photographs/query": "Query", "c/photographs/scores": "Scores",
    "c/photographs/recall": "Recall", "c/photographs/buckets": "Buckets", "c/photographs/map": "Map",
    "c/photographs/duplicates": "Duplicates", "c/photographs/items": "Items", "c/photographs/snapshots": "Snapshots",
    "c/photographs/console": "Console",
}  # fmt: skip
"""Every page, by its place."""
ASKS = {"c/photographs/scores": "tune", "c/photographs/recall": "recall", "c/photographs/map": "map"}
"""What pages ask for when they are opened."""


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


def test_the_page_of_a_cluster_is_not_of_one_server(look: Any) -> None:
    """Whoever goes to it is told where it is."""
    page = look().open("cluster")
    page.get_by_text("This is one server. Gateways of a cluster have the page Cluster.").wait_for()


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


def test_one_server_has_no_page_of_a_cluster(look: Any) -> None:
    """A server alone shows no link to it, and calls its address no page."""
    looked = look()
    page = looked.open()
    page.get_by_role("navigation", name="Server").get_by_role("link", name="Console").wait_for()
    page = looked.open("cluster")
    page.get_by_role("heading", name="No such page").wait_for()
    assert page.get_by_role("link", name="Cluster", exact=True).count() == 0
