"""Headless Chromium on the dashboard of a real server: pages that keep what their console said, and axe-core's findings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

AXE = Path(__file__).resolve().parents[1] / "data/axe-core/axe.min.js"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDE = {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}
"""How pages are looked at: a wide window by day, and a phone at night."""


def found() -> str:
    """The program; skips the test with the reason where there is none."""
    for name in NAMES:
        if (path := shutil.which(name)) is not None:
            return path
    pytest.skip(f"there is no browser to look at the dashboard with: none of {', '.join(NAMES)} is on the PATH (.ci/run fetches one)")


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser for the block."""
    path = found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


class Looked:
    """A page of the dashboard, and everything that went wrong on it."""

    def __init__(self, browser: Browser, address: str, **how: Any) -> None:
        self.address = address
        self.context = browser.new_context(**how)
        self.context.set_default_timeout(30_000)
        self.page: Page = self.context.new_page()
        self._judged = False
        self.wrong: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda told: self.wrong.append(told.text) if told.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))

    def open(self, place: str = "") -> Page:
        """A page of it, when it is there and has its first data. In an open window only the part behind # changes."""
        self.page.goto(f"{self.address}/dashboard#/{place}")
        self.page.wait_for_selector(".page:not([aria-busy])")
        return self.page

    def give_key(self, key: str) -> None:
        """Type the key that the page asks for."""
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Use it").click()
        self.page.wait_for_selector("dialog", state="detached")

    def findings(self) -> list[str]:
        """What axe-core finds that is serious or critical."""
        # As a function's text: the page's policy forbids a script element and eval, and that stays so.
        if not self._judged:
            self.page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')} }}")
            self._judged = True
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['impact']} {one['id']}: {[node['target'] for node in one['nodes']][:3]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def sideways(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider: int = self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        return wider
