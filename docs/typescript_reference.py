"""The reference of the TypeScript client, in Markdown, from the comments of its sources (`clients/typescript/src`).

It reads what `index.ts` exports, by the conventions of these sources: a comment `/** … */` stands right above what it tells of. That
begins at the start of a line, or two spaces into it where it is a member of a class or an interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

EXPORT = re.compile(r'^export (?:type )?(?:\*|\{(?P<names>[^}]*)\}) from "\./(?P<module>[\w.-]+)\.js";', re.MULTILINE)
DECLARED = re.compile(r"export (?:declare )?(?:abstract )?(?P<kind>class|interface|type|function|const) (?P<name>\w+)")
MEMBER = re.compile(r"(?:(?:readonly|async|override|static|get|abstract) )*\*?(?P<name>[A-Za-z_]\w*)\??\s*(?=[(<:;=])")
EXTENDS = re.compile(r"\bextends (\w+)")
SECTIONS = {"class": "Classes", "function": "Functions", "const": "Constants", "interface": "Types", "type": "Types"}


@dataclass(frozen=True)
class Told:
    """A declaration, and its comment, which may be empty."""

    comment: str
    signature: str


@dataclass(frozen=True)
class Declaration:
    """What a module declares under a name, and the members of it that have a comment."""

    kind: str
    name: str
    told: Told
    members: list[Told]


def _markdown(comment: str) -> str:
    """A comment without its stars, with an empty line above its code."""
    plain = "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment.strip().splitlines())
    return re.sub(r"(?m)^(?! {4})(.+)\n(?= {4})", r"\1\n\n", plain)


def _signature(lines: list[str]) -> str:
    """The declaration that begins these lines, without its body; of a type all of it."""
    first = lines[0].strip() if lines else ""
    if re.match(r"export type\b", first):
        end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    else:
        end = next((i for i, line in enumerate(lines) if line.rstrip().endswith(("{", ";", "}"))), 0) + 1
    code = "\n".join(line.rstrip() for line in lines[:end]).strip()
    return code.removeprefix("export ").removesuffix("{").strip()


def declarations(text: str) -> Iterator[Declaration]:
    """What a source declares for others, with comments and members; what it keeps for itself is passed over."""
    lines = text.splitlines()
    comment, begun, current = "", None, None
    for number, line in enumerate(lines):
        if line.lstrip().startswith("/**"):
            begun = number
        if begun is not None:
            if "*/" in line:
                comment, begun = _markdown("\n".join(lines[begun : number + 1]).strip().removeprefix("/**").removesuffix("*/")), None
            continue
        told = Told(comment, _signature(lines[number:]))
        comment = ""
        if re.match(r"[a-z]", line):
            if current is not None:
                yield current
            declared = DECLARED.match(line)
            current = None if declared is None else Declaration(declared["kind"], declared["name"], told, [])
        elif current is not None and told.comment and re.match(r" {2}(?!private |protected )\w", line) and MEMBER.match(told.signature):
            current.members.append(told)
    if current is not None:
        yield current


def _entry(declaration: Declaration, hidden: dict[str, Declaration]) -> Iterator[str]:
    """A declaration's section: its own members, then those of the classes that it extends and nobody can name."""
    yield from (f"### {declaration.name}", "", declaration.told.comment, "", "```ts", declaration.told.signature, "```", "")
    one: Declaration | None = declaration
    while one is not None:
        for member in one.members:
            matched = MEMBER.match(member.signature)
            assert matched is not None
            if matched["name"] == "constructor" and one is not declaration:
                continue
            yield from (f"#### {declaration.name}.{matched['name']}", "", member.comment, "", "```ts", member.signature, "```", "")
        base = EXTENDS.findall(one.told.signature)
        one = hidden.get(base[-1]) if base else None


def typescript_reference(index: Path) -> str:
    """Everything that the front door `index` exports and a comment tells of, by kind, in the order of the sources."""
    by_module = {path.stem: list(declarations(path.read_text(encoding="utf-8"))) for path in sorted(index.parent.glob("*.ts"))}
    exported: dict[str, Declaration] = {}
    for match in EXPORT.finditer(index.read_text(encoding="utf-8")):
        names = None if match["names"] is None else {name.split()[-1] for name in match["names"].split(",") if name.strip()}
        exported |= {one.name: one for one in by_module.get(match["module"], []) if names is None or one.name in names}
    hidden = {one.name: one for listed in by_module.values() for one in listed if one.name not in exported}
    sections: dict[str, list[str]] = {name: [] for name in dict.fromkeys(SECTIONS.values())}
    for one in exported.values():
        if one.told.comment or one.members:
            sections[SECTIONS[one.kind]] += _entry(one, hidden)
    return "\n".join(line for name, lines in sections.items() if lines for line in (f"## {name}", "", *lines))
