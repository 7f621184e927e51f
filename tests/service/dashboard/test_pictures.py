"""Pictures that are dropped onto the dashboard: where, how they are read, and what is shown of them."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from bundled import digits
from dashboard_site import Site, picture
from kinbin_service import photographs

pytestmark = pytest.mark.slow

DROP = """([selector, name, type, encoded]) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(encoded), one => one.charCodeAt(0))], name, { type }));
    const dropped = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
    document.querySelector(selector).dispatchEvent(dropped);
    return dropped.defaultPrevented;
}"""


def drop(page: Page, content: bytes, name: str = "picture.png", kind: str = "image/png", on: str = "main") -> bool:
    """Drop a file onto an element of the page; whether the browser is kept from opening it."""
    prevented: bool = page.evaluate(DROP, [on, name, kind, base64.b64encode(content).decode()])
    return prevented


def png(pixels: Any) -> bytes:
    """A picture file of these pixels."""
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def read_twice(site: Site) -> dict[str, list[bytes]]:
    """Two collections of 64 features, and pictures of their first items: digits of 8 × 8 grey values, and colours of 4 levels each."""
    ink = digits()["X_train"][:200]
    patches = photographs.cut(40)
    levels = (patches.pixels // 64).astype(np.int64) @ np.array([16, 4, 1])
    colours = np.array([np.bincount(one.ravel(), minlength=64) for one in levels])
    for name, rows in (("grey", ink), ("colours", colours)):
        address = f"{site.open}/v1/collections/{name}"
        assert httpx.put(address, json={"dim": 64}).status_code == 201
        items = [{"id": f"{name}-{at:03}", "vector": row.tolist()} for at, row in enumerate(rows)]
        assert httpx.post(f"{address}/index", json={"items": items}, timeout=60).status_code == 200
    sheets = [255 - np.kron(row.reshape(8, 8), np.ones((25, 25))) * 15.9 for row in ink[:5]]
    return {"grey": [png(sheet) for sheet in sheets], "colours": [png(one) for one in patches.pixels[:5]]}


@pytest.mark.parametrize(("name", "read"), [("grey", "8 × 8 grey values"), ("colours", "a colour histogram")])
def test_a_picture_is_read_as_what_is_stored(look: Any, read_twice: dict[str, list[bytes]], name: str, read: str) -> None:
    """Where 64 features may be grey values or colours, that reading is taken which finds the nearer item; both are told."""
    page = look().open(f"c/{name}/query")
    for at, content in enumerate(read_twice[name]):
        assert drop(page, content)
        expect(page.locator(".cards .id").first).to_have_text(f"{name}-{at:03}")
        expect(page.locator(".drop p")).to_contain_text(f"Read as {read}")
    assert page.locator(".drop p").inner_text().count("a nearest item of score") == 2


def test_the_reading_can_be_chosen(look: Any, read_twice: dict[str, list[bytes]]) -> None:
    """Another reading of the same picture is asked for as soon as somebody chooses it."""
    page = look().open("c/grey/query")
    drop(page, read_twice["grey"][0])
    expect(page.locator(".cards .id").first).to_have_text("grey-000")
    with page.expect_request("**/query") as asked:
        page.get_by_label("Read as").select_option("colours 4")
    assert sum(asked.value.post_data_json["vector"]) == 32 * 32
    expect(page.locator(".drop p")).to_have_text("")


def test_a_white_sheet_is_no_query_of_grey_values(look: Any, read_twice: dict[str, list[bytes]]) -> None:
    """A picture without ink has one reading only, and no request is refused."""
    page = look().open("c/grey/query")
    drop(page, png(np.full((20, 20), 255)))
    expect(page.locator(".drop p")).to_contain_text("Read as a colour histogram")


def test_no_file_takes_the_place_of_the_page(look: Any) -> None:
    """A file that is dropped anywhere on any page is not opened by the browser."""
    looked = look()
    for place in ("", "c/words/items", "c/words/query", "c/pictures/query"):
        page = looked.open(place)
        for on in ("body", "main", "header"):
            assert drop(page, picture((9, 9, 9))["buffer"], on=on), (place, on)


def test_a_picture_is_taken_anywhere(site: Site, look: Any) -> None:
    """A picture that is dropped beside everything switches the form to pictures, is asked for, and is shown as what was asked for."""
    stored = httpx.post(f"{site.open}/v1/collections/pictures/get", json={"ids": ["patch-0007"], "include": ["payload"]}).json()
    content = stored["items"][0]["payload"]["image"].split(",")[1]
    page = look().open("c/pictures/query")
    drop(page, base64.b64decode(content), "picture.webp", "image/webp", on="header")
    page.locator(".card", has_text="score 1.0000").wait_for()
    expect(page.get_by_role("radio", name="a picture")).to_be_checked()
    assert page.locator(".cards .id").first.inner_text() == "patch-0007"
    expect(page.locator(".asked")).to_contain_text("Asked for: the query")
    shown = page.locator(".asked img")
    assert shown.get_attribute("src").endswith(content)
    assert shown.evaluate("one => one.decode().then(() => one.naturalWidth)") == 32


def test_what_cannot_be_asked_for_is_said(look: Any) -> None:
    """A picture for a collection of tokens, a file that is no picture, and no picture at all are each said as that."""
    page = look().open("c/words/query")
    drop(page, picture((9, 9, 9))["buffer"])
    page.get_by_text("This collection cannot be asked by a picture.").wait_for()
    page = look().open("c/photographs/query")
    drop(page, b"hello", "told.txt", "text/plain")
    page.get_by_text("told.txt is no picture that this browser reads.").wait_for()
    page = look().open("c/photographs/query")
    page.get_by_role("radio", name="a picture").check()
    page.get_by_role("button", name="Search").click()
    page.get_by_text("Choose a picture, or drop one onto the page.").wait_for()
