"""Check the built documentation site: every link and image leads somewhere, and no page fetches anything from elsewhere.

`make docs-site` runs it on build/site. MkDocs has judged the links of the sources; this judges what browsers are given, so also what
themes, plugins and generated references have written. A link that a reader may follow to another site is no fetch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
FETCHED_BY_CSS = re.compile(r"@import\s+[\"']?([^\"';)\s]+)|url\(\s*[\"']?([^\"')\s]+)")
LINKS_THAT_FETCH_NOTHING = {"canonical", "next", "prev", "alternate"}


@dataclass
class Page(HTMLParser):
    """What a page names: its anchors, the links on it, and what a browser fetches to show it."""

    anchors: set[str] = field(default_factory=set)
    links: list[tuple[int, str]] = field(default_factory=list)
    fetched: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what this element names."""
        given = {name: value or "" for name, value in attrs}
        line = self.getpos()[0]
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        self.fetched += [(line, url) for url in _by_css(given.get("style", ""))]
        if tag == "link" and not LINKS_THAT_FETCH_NOTHING.intersection(given.get("rel", "").split()):
            self.fetched.append((line, given.get("href", "")))
        elif tag in {"script", "img", "iframe", "source", "video", "audio", "embed"} and "src" in given:
            self.fetched.append((line, given["src"]))
        elif tag in {"a", "area"} and given.get("href"):
            self.links.append((line, given["href"]))


def _by_css(text: str) -> Iterator[str]:
    for match in FETCHED_BY_CSS.finditer(text):
        yield match[1] or match[2]


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(site: Path) -> Iterator[str]:
    """Each as "page:line: what is wrong"."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no page was built"
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for line, url in page.fetched:
            if ELSEWHERE.match(url):
                yield f"{name}:{line}: fetches {url}"
        if name == "404.html":
            continue  # Its addresses begin at the root of whatever server shows it.
        for line, link in (*page.links, *page.fetched):
            yield from (f"{name}:{line}: {fault}" for fault in _dead(link, path, pages))
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path.relative_to(site)}: fetches {url}" for url in _by_css(path.read_text(encoding="utf-8")) if ELSEWHERE.match(url))


def _dead(link: str, path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """What is wrong with a link of the page at `path`, unless it leaves the site."""
    if SCHEME.match(link) or link.startswith("//"):
        return
    where, _, anchor = unquote(link).partition("#")
    where = where.partition("?")[0]
    target = (path.parent / where).resolve() if where else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        yield f"{link} leads nowhere"
    elif anchor and target in pages and anchor not in pages[target].anchors:
        yield f"{link}: no such anchor"


def main() -> int:
    """Check the folder that is named; 1 when there are problems."""
    site = Path(sys.argv[1]).resolve()
    found = list(problems(site))
    print("\n".join([*found, f"{len(list(site.rglob('*.html')))} pages: {len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
