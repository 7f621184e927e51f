"""The documentation site: its references are complete, its links are rewritten rightly, and the check of what was built finds faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import kinbin
import kinbin_client
from check_site import problems
from rest_reference import rest_reference, type_of
from site_docstrings import one_error_a_line
from site_hooks import COPIED, STANDS_FOR, included, with_site_links
from typescript_reference import typescript_reference

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("page", "module"), [("library.md", kinbin), ("client.md", kinbin_client)])
def test_python_references_name_every_public_name(page: str, module: object) -> None:
    """What a package exports stands on its page, once, and nothing else does."""
    text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    package = getattr(module, "__name__", "")
    shown = re.findall(rf"^::: {package}\.(\w+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted(name for name in getattr(module, "__all__", ()) if not name.startswith("__"))


def test_rest_reference_tells_every_route_parameter_and_schema() -> None:
    """Every route, with its title for the table of contents and its parameters, and every schema with its fields is on the page."""
    api = json.loads((ROOT / "service/openapi.json").read_text(encoding="utf-8"))
    page = rest_reference(api)
    for path, methods in api["paths"].items():
        for method, told in methods.items():
            section = page.split(f'### `{method.upper()} {path}` {{ data-toc-label="')
            assert len(section) == 2, f"{method} {path}"
            assert section[1].startswith(told["summary"]), path
            section = section[1].split("\n### ")
            assert all(f"| `{one['name']}` |" in section[0] for one in told.get("parameters", ())), path
    labels = re.findall(r'data-toc-label="([^"]*)" }\n', page)
    assert len(labels) == len(set(labels)) == sum(map(len, api["paths"].values()))
    for name, schema in api["components"]["schemas"].items():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")
        assert all(f"| `{field}` |" in section[0] for field in schema.get("properties", ())), name


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "integer"}, "integer"),
        ({"$ref": "#/components/schemas/Hit"}, "[Hit](#hit)"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, "array of array of number"),
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"enum": ["auto", "exact"], "type": "string"}, '`"auto"`, `"exact"`'),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        ({}, "anything"),
    ],
)
def test_schemas_are_told_in_words(schema: dict[str, object], told: str) -> None:
    """A schema's type is told in few words, components as links."""
    assert type_of(schema) == told


@pytest.mark.parametrize(
    ("source", "place", "link", "is_now"),
    [
        ("docs/guide/links.md", "guide/links.md", "[b](../benchmarks.md#a)", "[b](../benchmarks.md#a)"),
        ("docs/concepts/bands.md", "concepts/bands.md", "[h](../../index/HASHING.md#1-x)", "[h](../project/hashing.md#1-x)"),
        ("ARCHITECTURE.md", "project/architecture.md", "![q](docs/drawings/query.svg)", "![q](../drawings/query.svg)"),
        ("CONTRIBUTING.md", "project/contributing.md", "[r](docs/reliability.md)", "[r](../reliability.md)"),
        ("docs/benchmarks.md", "benchmarks.md", "[`benchmarks/`](../benchmarks/README.md)", "`benchmarks/` (`benchmarks/README.md`)"),
        ("docs/start.md", "start.md", "[elsewhere](https://example.com/a.md)", "[elsewhere](https://example.com/a.md)"),
        ("docs/start.md", "start.md", "[here](#the-client)", "[here](#the-client)"),
        ("docs/start.md", "start.md", "```text\n[x](../ARCHITECTURE.md)\n```", "```text\n[x](../ARCHITECTURE.md)\n```"),
    ],
)
def test_links_lead_where_the_site_has_their_page(source: str, place: str, link: str, is_now: str) -> None:
    """Links of the repository become links of the site; files that it has not are named; code and other sites are left alone."""
    assert with_site_links(link, source, place) == is_now


def test_pages_that_are_copied_or_stood_for_exist() -> None:
    """Every page that the site takes from outside of `docs` is in the repository, but for what may be missing and is then said to be."""
    missing = [path for path in (*COPIED, *STANDS_FOR) if not (ROOT / path).exists()]
    assert all(path in included(path, "reference/typescript.md") for path in missing)
    assert set(missing) <= {"clients/typescript/README.md"}


@pytest.mark.parametrize(
    ("lines", "entries"),
    [
        (["Gone: x. Full: y."], ["Gone: x.", "Full: y."]),
        (["Gone: x, or of", "another: kind. Full: y.", "Busy: z"], ["Gone: x, or of another: kind.", "Full: y.", "Busy: z"]),
        (["Gone: by the limit Postings: none"], ["Gone: by the limit Postings: none"]),
    ],
)
def test_errors_of_a_docstring_stand_on_lines_of_their_own(lines: list[str], entries: list[str]) -> None:
    """Each error that a docstring names is an entry of the reference, whole, and what stands around the section stays."""
    docstring = "Purpose.\n\nRaises:\n" + "".join(f"    {line}\n" for line in lines) + "\nCost: none."
    kept = "Purpose.\n\nRaises:\n" + "".join(f"    {entry}\n" for entry in entries) + "\nCost: none."
    assert one_error_a_line(docstring) == kept


TYPESCRIPT = {
    "index.ts": 'export { Client, type Options } from "./client.js";\nexport * from "./base.js";\n',
    "client.ts": """/** How it is made. */
export interface Options {
  /** A key. */
  apiKey?: string;
  silent?: boolean;
}

/** Not exported by the front door. */
export type Inner = string;

/** Kept by the module. */
const SECRET = 1;

abstract class Lowest {}

export abstract class Middle extends Lowest {
  /** Made by those below. */
  constructor() { super(); }
  /** Found on the class above it. */
  async query(k: number): Promise<Answer> {
    return answer;
  }
}

/**
 * A service.
 *
 * Usage:
 *     const client = new Client();
 */
export class Client extends Middle {
  /** Ends it. */
  close(): void {
    this.#end();
  }
  /** Hidden. */
  #end(): void {}
  /** Hidden as well. */
  protected halt(): void {}
}
""",
    "base.ts": "/** An answer, of\n * two lines. */\nexport type Answer =\n  | { a: number }\n  | null;\n",
}


def test_typescript_reference_tells_what_the_front_door_exports(tmp_path: Path) -> None:
    """Exported names and their public members are told with comment and declaration, inherited ones too, and nothing else is."""
    for name, text in TYPESCRIPT.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    page = typescript_reference(tmp_path / "index.ts")
    headings = [line.lstrip("# ") for line in page.splitlines() if line.startswith("###")]
    assert headings == ["Client", "Client.close", "Client.query", "Options", "Options.apiKey", "Answer"]
    assert "A service.\n\nUsage:\n\n    const client" in page
    assert "```ts\nasync query(k: number): Promise<Answer>\n```" in page
    assert "```ts\ntype Answer =\n  | { a: number }\n  | null;\n```" in page
    assert "Hidden" not in page


SOUND = {
    "index.html": '<link rel="stylesheet" href="a.css"><a href="sub/page.html#there">x</a><a href="https://example.com">y</a><p id="top">',
    "sub/page.html": '<h1 id="there">There</h1><a href="../index.html">up</a><a href="#there">here</a><img src="../a.png">',
    "a.css": "body { background: url(a.png) }",
    "a.png": "",
}
FAULTS = [
    ("index.html", '<a href="gone.html">', "gone.html leads nowhere"),
    ("sub/page.html", '<a href="../index.html#nothing">', "no such anchor"),
    ("index.html", '<img src="gone.png">', "gone.png leads nowhere"),
    ("index.html", '<script src="https://cdn.example.com/a.js"></script>', "fetches https://cdn.example.com/a.js"),
    ("index.html", '<link rel="preconnect" href="//fonts.example.com">', "fetches //fonts.example.com"),
    ("sub/page.html", "<p style=\"background: url('http://example.com/a.png')\">", "fetches http://example.com/a.png"),
    ("a.css", '@import "https://fonts.example.com/css";', "fetches https://fonts.example.com/css"),
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small built site without faults."""
    for name, text in SOUND.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_sound_site_has_no_problems(site: Path) -> None:
    """Links between pages, to anchors, and to other sites are no problems."""
    assert list(problems(site)) == []


@pytest.mark.parametrize(("name", "fault", "told"), FAULTS)
def test_a_fault_of_a_built_page_is_found(name: str, fault: str, told: str, site: Path) -> None:
    """A dead link, a missing anchor, and anything that is fetched from elsewhere is told, once, with its page."""
    (site / name).write_text(SOUND[name] + fault, encoding="utf-8")
    (found,) = problems(site)
    assert found.startswith(name)
    assert told in found


def test_nothing_built_is_a_fault(tmp_path: Path) -> None:
    """An empty folder does not pass for a site."""
    assert len(list(problems(tmp_path))) == 1


def test_the_front_page_leads_to_every_reference() -> None:
    """The row "look something up" of docs/index.md links every page that the site has under Reference."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("  - Reference:\n")[2].partition("\n  - ")[0]
    pages = re.findall(r": (\S+\.md)", nav)
    row = next(line for line in (ROOT / "docs/index.md").read_text(encoding="utf-8").splitlines() if "look something up" in line)
    assert len(pages) > 3
    assert {page for page in pages if f"]({page})" not in row} == set()
