"""Pages of what is stored: items, and snapshots."""

from __future__ import annotations

import subprocess
from typing import Any

import httpx
import orjson
import pytest
from playwright.sync_api import expect

from dashboard_site import Site

pytestmark = pytest.mark.slow


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


def test_a_text_is_told_once(site: Site, look: Any) -> None:
    """The text that stands for an item is not repeated among its payload; the other fields are."""
    address = f"{site.open}/v1/collections/texts"
    assert httpx.put(address, json={}).status_code == 201
    item = {"id": "a", "vector": {"indices": [3], "values": [1]}, "payload": {"lang": "en", "text": "a text longer than the rest"}}
    assert httpx.post(f"{address}/index", json={"items": [item]}).status_code == 200
    page = look().open("c/texts/items")
    expect(page.locator(".item .words")).to_have_text("a text longer than the rest")
    expect(page.locator(".item .told small")).to_have_text("lang: en")


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
    told = page.get_by_label("curl of this request").filter(has_text=sent)
    told.wait_for(state="attached")  # what was opened before the answer came is drawn anew, closed
    page.locator("summary").click()
    told.wait_for()
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


def test_snapshots_are_made_verified_restored_and_deleted(site: Site, look: Any) -> None:
    """Each step of a snapshot's life is done from its page."""
    page = look().open("c/words/snapshots")
    page.locator("summary").click()
    curl = page.get_by_label("curl of this request").inner_text()
    told = subprocess.run(["bash", "-c", curl], capture_output=True, check=True, timeout=20).stdout
    assert orjson.loads(told) == {"snapshots": []}
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
