"""The files of the dashboard: what they are served with, and that they need nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kinbin_service.dashboard import ASSETS, CONTENT_SECURITY_POLICY, PATHS
from kinbin_service.settings import Settings
from service_app import App, problem, running_app

ROOT = Path(__file__).resolve().parents[2]
OWN = sorted(path for path in PATHS if "/vendor/" not in path)
MODULES = [path for path in OWN if path.endswith(".js")]


async def test_the_page_and_its_files_are_served_strictly(app: App) -> None:
    """Every file comes with its type and a policy that allows this server's own files alone: nothing inline, nothing from elsewhere."""
    for path in sorted(PATHS):
        response = await app.client.get(path)
        assert response.status_code == 200, path
        assert response.headers["content-type"] == f"{ASSETS[path].media_type}; charset=utf-8" or path.endswith(".svg")
        assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-cache"
    rules = dict(rule.split(" ", 1) for rule in CONTENT_SECURITY_POLICY.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["img-src"] == "'self' data:"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


class Elements(HTMLParser):
    """What a strict policy would refuse of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.named: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        names = dict(attrs)
        if tag == "style" or "style" in names or (tag == "script" and not names.get("src")) or any(name.startswith("on") for name in names):
            self.inline.append(tag)
        self.named += [address for name in ("src", "href") if (address := names.get(name)) and not address.startswith("#")]


def test_the_page_has_nothing_inline() -> None:
    """The page names files that are there, and has no script, style or handler of its own."""
    read = Elements()
    read.feed(ASSETS["/dashboard"].content.decode())
    assert read.inline == []
    assert {f"/{address}" for address in read.named} <= PATHS
    assert len(read.named) > 3


def test_modules_import_only_each_other() -> None:
    """Every module that is imported is one of the files, and is imported by somebody; nothing names an address elsewhere."""
    imported: set[str] = {"/dashboard/app.js"}
    for path in MODULES:
        text = ASSETS[path].content.decode()
        base = path.rsplit("/", 1)[0]
        for named in re.findall(r'(?:from|import)\s*\(?"([^"]+)"', text):
            assert named.startswith("."), (path, named)
            parts: list[str] = []
            for part in f"{base}/{named}".split("/"):
                parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
            imported.add("/".join(parts))
        assert "innerHTML" not in text
        assert not re.search(r"https?://(?!www\.w3\.org)", text), path
    lazily = {path for path in MODULES if path.startswith("/dashboard/pages/")}
    assert imported <= PATHS
    assert set(MODULES) - lazily <= imported


@pytest.mark.parametrize(
    "path", ["/dashboard/", "/dashboard/index.html", "/dashboard/../app.py", "/dashboard/%2e%2e/app.py", "/dashboard/nothing.js"]
)
async def test_nothing_else_is_served(app: App, path: str) -> None:
    """A path that names no file of the page is 404: none leads out of its folder."""
    response = await app.client.get(path)
    assert response.status_code == 404
    assert problem(response)["code"] == "not_found"


async def test_a_browser_that_has_a_file_is_told_so(app: App) -> None:
    """A file that did not change is not sent again; one that did is."""
    tag = (await app.client.get("/dashboard/app.js")).headers["etag"]
    again = await app.client.get("/dashboard/app.js", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert (await app.client.get("/dashboard/app.js", headers={"if-none-match": '"another"'})).status_code == 200
    assert len({asset.tag for asset in ASSETS.values()}) == len(ASSETS)


async def test_the_page_needs_no_key_and_holds_no_data(tmp_path: Path) -> None:
    """A browser gets the page without a key, as it cannot send one before; what the page shows it asks routes for that need one."""
    async with running_app(tmp_path / "data", api_key="secret-of-the-test") as app:
        for path in sorted(PATHS):
            assert (await app.client.get(path)).status_code == 200, path
        assert (await app.client.get("/dashboard/nothing.js")).status_code == 401
        assert (await app.client.get("/v1/collections")).status_code == 401
    assert Settings().api_key is None


@pytest.mark.parametrize("folder", ["service/kinbin_service/dashboard/static/vendor", "tests/data/axe-core"])
def test_what_others_wrote_is_what_is_noted(folder: str) -> None:
    """Vendored files are unchanged, come with their licence, and their version and digests are written down."""
    noted = (ROOT / folder / "VENDORED.txt").read_text(encoding="utf-8")
    digests = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", noted, re.MULTILINE)}
    files = {path.name for path in (ROOT / folder).iterdir()} - {"VENDORED.txt", "LICENSE.txt"}
    assert files == digests.keys()
    assert any("LICENSE" in path.name for path in (ROOT / folder).iterdir())
    for name, digest in digests.items():
        assert hashlib.sha256((ROOT / folder / name).read_bytes()).hexdigest() == digest, name
