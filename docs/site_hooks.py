"""Hooks of MkDocs (`mkdocs.yml`): pages that lie outside of `docs`, links that lead there, and the generated REST reference.

A page reads the same in a checkout and on the site, so its links are those of the repository. What the site has as a page is
linked as such; a link to any other file of the repository becomes the file's name.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from check_docs import FENCE
from rest_reference import rest_reference
from typescript_reference import typescript_reference

ROOT = Path(__file__).resolve().parent.parent

COPIED = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "index/FORMAT.md": "project/format.md",
    "index/HASHING.md": "project/hashing.md",
}
"""Pages of the repository outside of `docs`, and where the site has them."""

STANDS_FOR = {
    "README.md": "index.md",
    "clients/python/README.md": "reference/client.md",
    "clients/typescript/README.md": "reference/typescript.md",
}
"""Pages that the site does not copy, and the one that says the same there: it may include them."""

PAGE_OF = COPIED | STANDS_FOR
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside of `docs`."""
    for source, target in COPIED.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """A page with what it includes, its links as the site has them."""
    place = page.file.src_uri
    source = next((path for path, target in COPIED.items() if target == place), f"docs/{place}")
    return INCLUDE.sub(lambda match: included(match[1], place), with_site_links(markdown, source, place))


def included(path: str, place: str) -> str:
    """What stands in the place of `<!-- include: PATH -->`: a document without its title, or the reference that is made of a source."""
    file = ROOT / path
    if not file.exists():
        return f"This checkout has no `{path}`."
    text = file.read_text(encoding="utf-8")
    if path.endswith(".json"):
        return rest_reference(json.loads(text))
    if path.endswith(".ts"):
        return typescript_reference(file)
    return with_site_links(text.partition("\n")[2], path, place)


def with_site_links(text: str, source: str, place: str) -> str:
    """The text of the document `source` with links as the page `place` of the site needs them. Fenced code is left alone."""
    fenced = [match.span() for match in FENCE.finditer(text)]

    def replaced(match: re.Match[str]) -> str:
        in_code = any(begin <= match.start() < end for begin, end in fenced)
        return match.group() if in_code else site_link(match, source, place)

    return LINK.sub(replaced, text)


def site_link(match: re.Match[str], source: str, place: str) -> str:
    """One link of the document `source`, as the page `place` needs it."""
    image, words, target = match.groups()
    path, _, anchor = target.partition("#")
    if re.match(r"[a-z][a-z0-9+.-]*:", target) or not path:
        return match.group()
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if wanted.startswith("docs/"):
        at = wanted.removeprefix("docs/")
    elif wanted in PAGE_OF:
        at = PAGE_OF[wanted]
    else:
        return f"{words} (`{wanted}`)" if words.strip("`") != wanted else f"`{wanted}`"
    relative = posixpath.relpath(at, posixpath.dirname(place) or ".")
    return f"{image}[{words}]({relative}{'#' + anchor if anchor else ''})"


def on_post_page(output: str, **_: Any) -> str:
    """The theme's search is a dialog without a name, which screen readers tell nothing of."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
