"""Two servers with real data and a browser, for the tests of the dashboard's pages."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

import kinbin
from browser import WIDE, Looked, browsing, found
from kinbin_service import photographs
from service_process import ServerProcess

__all__ = ["KEY", "Servers", "Site", "answer_of", "looking", "picture", "running_servers", "running_site"]

KEY = "secret-of-the-test"


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
    """Photographs with thumbnails (a third of them), the same linked, words and strings."""
    patches = photographs.cut()
    some = slice(0, None, 3)
    with kinbin.open(data) as database:
        pictures = database.create_collection("photographs", dim=512)
        pictures.add(patches.ids[some], patches.histograms[some], payloads=patches.payloads[some])
        pictures.compact()
        linked = database.create_collection("linked", dim=512)
        linked.add(patches.ids[some], patches.histograms[some])
        linked.compact()
        linked.link()
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
        scales = np.vstack([np.arange(1, 51), np.arange(50, 0, -1), 40 + np.arange(50) % 3])
        database.create_collection("scales", dim=50).add(["low", "high", "level"], scales)


class Servers(NamedTuple):
    """Two running servers: one that anybody may ask, and one that asks for a key."""

    open: ServerProcess
    keyed: ServerProcess


@contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    """Both servers with their data, for the block. Skips the test where there is no browser to look at them with."""
    found()
    server, locked = ServerProcess(folder / "open"), ServerProcess(folder / "keyed", api_key=KEY)
    with ExitStack() as ended:
        for one in (locked, server):
            one.launch()
            ended.callback(one.close)
            if one is locked:
                fill(folder / "open")
        locked.wait_until_ready()
        server.wait_until_ready()
        headers = {"x-api-key": KEY}
        assert locked.client.put("/v1/collections/secret", json={"dim": 3}, headers=headers).status_code == 201
        items = [{"id": f"item-{n}", "vector": [n, 1, 2]} for n in range(1, 6)]
        assert locked.client.post("/v1/collections/secret/index", json={"items": items}, headers=headers).status_code == 200
        yield Servers(server, locked)


@contextmanager
def running_site(servers: Servers) -> Iterator[Site]:
    """Both servers with a browser, for the block: as long as it runs, nothing of asyncio runs in this thread."""
    paths = servers.open.client.get("/openapi.json").json()["paths"]
    with browsing() as browser:
        yield Site(f"http://127.0.0.1:{servers.open.port}", f"http://127.0.0.1:{servers.keyed.port}", browser, frozenset(paths))


@contextmanager
def looking(browser: Browser, server: str) -> Iterator[Callable[..., Looked]]:
    """A function that opens a window, on this server unless told otherwise; at the end nothing may have gone wrong in any of them."""
    opened: list[Looked] = []

    def look(address: str = server, **how: Any) -> Looked:
        opened.append(Looked(browser, address, **{**WIDE, **how}))
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


def answer_of(page: Page) -> tuple[list[str], float]:
    """Ids of the answer on the page, and the milliseconds that it took until it was there."""
    took = page.locator(".took")
    took.wait_for()
    return page.locator(".cards .id").all_inner_texts(), float(took.get_attribute("data-milliseconds") or "inf")
