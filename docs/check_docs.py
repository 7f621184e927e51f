"""Check that the documents say what the repository holds. `make docs-check` runs it; `--write` renews generated files.

Every check yields problems as "path:line: what is wrong"; no problems is success. The files looked at are
those that git tracks or would track, so that nothing ignored is ever reported.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drawings import DRAWINGS

ROOT = Path(__file__).resolve().parent.parent
IGNORED_FOLDERS = {".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)|^ *\[[^\]]+\]: *(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
FILE_NAME = re.compile(r"^[\w.-]+\.(?:py|md|toml|json|yaml|yml|lock|txt|html|css|js|ini|cfg|bin)$")
PATH_NAME = re.compile(r"^\.?[\w][\w.*-]*(?:/[\w.*-]+)*/?$")
MAKE_TARGET = re.compile(r"\bmake ((?:[a-z][a-z-]*\b(?!=) ?)+)")
SETTING = re.compile(r"\bKINBIN_[A-Z_]+\b")

# Paths of somebody's machine: folders of people and mounted disks, and wherever this very checkout lies.
# The first group keeps addresses and longer paths out.
PERSONAL_PATH = re.compile(r"(?:^|[^A-Za-z0-9_.~/-])/(?:home|media|mnt|root|Users|Volumes)/")
# Packages are named by name, version and hash; which index serves them is every machine's own configuration.
# (Joined here, so that this file does not hold what it looks for.)
REGISTRY_HOSTS = tuple(
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
)
DOWNLOAD = re.compile(r"--(?:extra-)?index-url[ =]\S|--trusted-host[ =]\S|https?://[^\s\"']+\.(?:whl|tgz|tar\.gz|deb)\b")


@dataclass(frozen=True)
class Repository:
    """A folder and the files in it that are under version control, or would be."""

    root: Path
    files: tuple[str, ...]
    """Paths relative to the root, with slashes, sorted."""

    @classmethod
    def at(cls, root: Path) -> Repository:
        """Ask git for the files; without git (an unpacked archive) take every file outside of caches."""
        command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False) if (root / ".git").exists() else None
        if answer is not None and answer.returncode == 0:
            names = [name for name in answer.stdout.split("\0") if name and (root / name).is_file()]
        else:
            paths = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
            names = [path.as_posix() for path in paths if not IGNORED_FOLDERS.intersection(path.parts)]
        return cls(root, tuple(sorted(names)))

    def text(self, name: str) -> str:
        """A file's text, or nothing for a binary file."""
        content = (self.root / name).read_bytes()
        return "" if b"\0" in content[:8192] else content.decode("utf-8", errors="replace")

    def documents(self) -> Iterator[tuple[str, str]]:
        """Name and text of every Markdown file."""
        for name in self.files:
            if name.endswith(".md"):
                yield name, self.text(name)

    def holds(self, path: str) -> bool:
        """Whether a path, given from the root or from any folder, names a file or a folder."""
        if "*" in path:
            return any(self.root.glob(path))
        wanted = path.strip("/")
        return any(f"/{name}/".find(f"/{wanted}/") >= 0 for name in self.files)


def line_of(text: str, offset: int) -> int:
    """The number of the line at an offset."""
    return text.count("\n", 0, offset) + 1


def without_code(text: str) -> str:
    """Blank out fenced and inline code, keeping every offset."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return CODE_SPAN.sub(blank, FENCE.sub(blank, text))


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown page offers, made from its headings as code hosts make them."""
    seen: dict[str, int] = {}
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(slug if count == 0 else f"{slug}-{count}")
    return found


def check_links(repository: Repository) -> Iterator[str]:
    """Links between files lead somewhere, with their anchors."""
    for name, text in repository.documents():
        for match in LINK.finditer(without_code(text)):
            link = match.group(1) or match.group(2)
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (repository.root / name).parent / path if path else repository.root / name
            where = f"{name}:{line_of(text, match.start())}"
            if not target.exists():
                yield f"{where}: link to {link}, which does not exist"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                yield f"{where}: link to {link}, but no heading makes that anchor"


def check_paths(repository: Repository) -> Iterator[str]:
    """Every path in backticks in ARCHITECTURE.md exists."""
    name = "ARCHITECTURE.md"
    if name not in repository.files:
        yield f"{name}:1: missing"
        return
    text = repository.text(name)
    folders = {path.split("/")[0] for path in repository.files if "/" in path}
    for match in CODE_SPAN.finditer(FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence.group()), text)):
        path = match.group(1)
        is_path = PATH_NAME.match(path) and (path.endswith("/") or ("/" in path and path.split("/")[0] in folders))
        if (is_path or FILE_NAME.match(path.rsplit("/", 1)[-1])) and not path.startswith("/") and not repository.holds(path):
            yield f"{name}:{line_of(text, match.start())}: names `{path}`, which does not exist"


def parse_python(code: str) -> None:
    """Raise SyntaxError unless the code, or the statements of a doctest, parse."""
    lines = code.splitlines()
    if any(line.startswith(">>> ") for line in lines):
        code = "\n".join(line[4:] if line.startswith((">>> ", "... ")) else "" for line in lines)
    compile(code, "<fence>", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def parse_shell(code: str) -> None:
    """Raise ValueError unless bash takes the code for a script."""
    answer = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ValueError(answer.stderr.strip().splitlines()[0])


PARSERS: dict[str, Callable[[str], object]] = {
    "python": parse_python,
    "bash": parse_shell,
    "sh": parse_shell,
    "json": json.loads,
    "toml": tomllib.loads,
}


def check_fences(repository: Repository) -> Iterator[str]:
    """Code fences marked with a language are of that language (an abridged one is marked text)."""
    for name, text in repository.documents():
        for match in FENCE.finditer(text):
            parse = PARSERS.get(match["language"])
            if parse is None:
                continue
            try:
                parse(textwrap.dedent(match["body"]))
            except (SyntaxError, ValueError) as problem:
                yield f"{name}:{line_of(text, match.start())}: {match['language']} that does not parse: {problem}"


LONGEST = {"README.md": 5, "ARCHITECTURE.md": 10, "docs/guide/": 8, "docs/tutorials/": 6, "docs/concepts/": 6, "docs/how-to/": 6}
"""Lines that a paragraph, or an item of a list, has at most, on a page or on those of a folder. Tables are none."""
LINE_LENGTH = 80
PARAGRAPH = re.compile(r"(?:^(?!\s*$| {4}|\||#|<!--)[^\n]*(?:\n|$))+", re.MULTILINE)
ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.) )")


def check_paragraphs(repository: Repository) -> Iterator[str]:
    """Paragraphs of the pages that people read first are short, in lines of 80 characters as they are read (links without addresses)."""
    for name, text in repository.documents():
        most = next((lines for start, lines in LONGEST.items() if name.startswith(start)), None)
        if most is None:
            continue
        prose = FENCE.sub(lambda fence: re.sub(r"[^\n]", "", fence.group()), text)
        for block in PARAGRAPH.finditer(prose):
            at = block.start()
            for item in ITEM.split(block.group()):
                read = " ".join(re.sub(r"\]\([^)]*\)", "]", item).split())
                lines = -(-len(read) // LINE_LENGTH)
                if lines > most:
                    yield f"{name}:{line_of(prose, at)}: a paragraph of {lines} lines; at most {most}"
                at += len(item) + 1


CELL_END = re.compile(r"(?<!\\)\|")


def check_tables(repository: Repository) -> Iterator[str]:
    """No row of a table has more cells than its head: a `|` that is meant as text is escaped, in code, too."""
    for name, text in repository.documents():
        head = 0
        for number, line in enumerate(FENCE.sub(lambda fence: re.sub(r"[^\n]", "", fence.group()), text).splitlines(), 1):
            cells = len(CELL_END.findall(line)) - 1 if line.startswith("|") else 0
            head = (head or cells) if cells else 0
            if cells > head:
                yield f"{name}:{number}: a row of {cells} cells in a table of {head}; a | of a text is written \\|"


def check_commands(repository: Repository) -> Iterator[str]:
    """Every `make target` that a document names is in the Makefile."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", repository.text("Makefile"), re.MULTILINE))
    for name, text in repository.documents():
        code = [match for pattern in (FENCE, CODE_SPAN) for match in pattern.finditer(text)]
        for match in code:
            for command in MAKE_TARGET.finditer(match.group()):
                for target in command.group(1).split():
                    if target not in targets:
                        yield f"{name}:{line_of(text, match.start() + command.start())}: make {target} is not in the Makefile"


def check_versions(repository: Repository) -> Iterator[str]:
    """The changelog, the compose file and every `__version__` name the version of pyproject.toml."""
    version = tomllib.loads(repository.text("pyproject.toml"))["project"]["version"]
    modules = [name for name in repository.files if name.endswith(".py") and name.startswith(("index/", "service/", "clients/"))]
    places = [
        ("CHANGELOG.md", r"^## \[(\d[^\]]*)\]", True),
        ("deploy/compose.yaml", r"^ *image: kinbin:(\S+)", True),
        *((name, r'^__version__ = "(.*)"', False) for name in modules),
    ]
    for name, pattern, required in places:
        found = re.search(pattern, repository.text(name), re.MULTILINE)
        if (found is None and required) or (found is not None and found[1] != version):
            yield f"{name}:1: names version {found[1] if found else None}, pyproject.toml {version}"


def machine_path(root: Path) -> re.Pattern[str]:
    """What finds a path of somebody's machine, if only of the one that this runs on: where the repository lies counts, too."""
    above = root.parent.as_posix()
    # A folder right below / may be anybody's: a container has its sources in /src, and its data in /data.
    return re.compile(f"{PERSONAL_PATH.pattern}|{re.escape(above)}/") if above.count("/") > 1 else PERSONAL_PATH


def check_places(repository: Repository) -> Iterator[str]:
    """No file names a path of somebody's machine, a package index or a download address."""
    of_a_machine = machine_path(repository.root)
    for name in repository.files:
        for number, line in enumerate(repository.text(name).splitlines(), 1):
            if not name.endswith(".lock") and of_a_machine.search(line):
                yield f"{name}:{number}: a path of one machine: {line.strip()[:80]}"
            for host in REGISTRY_HOSTS:
                if host in line:
                    yield f"{name}:{number}: names a registry: {host}"
            if DOWNLOAD.search(line):
                yield f"{name}:{number}: a download address: {line.strip()[:80]}"


def check_settings(repository: Repository) -> Iterator[str]:
    """Every KINBIN_ variable that a document or the deployment names is a setting of the server, of a cluster or of the library."""
    from kinbin_cluster.settings import ClusterSettings
    from kinbin_service.settings import Settings

    # KINBIN_DATA is where tests and benchmarks find their data sets.
    known = {f"KINBIN_{name.upper()}" for name in Settings.model_fields} | {"KINBIN_COSTS", "KINBIN_DATA"}
    known |= {f"KINBIN_CLUSTER_{name.upper()}" for name in ClusterSettings.model_fields}
    for name in repository.files:
        if name.endswith(".md") or name.startswith("deploy/") or name == "Dockerfile":
            text = repository.text(name)
            for match in SETTING.finditer(text):
                if match.group() not in known:
                    yield f"{name}:{line_of(text, match.start())}: {match.group()} is no setting"


def openapi_text() -> str:
    """The API's description as the code makes it."""
    from kinbin_service.app import create_app
    from kinbin_service.openapi import text
    from kinbin_service.settings import Settings

    return text(create_app(Settings())).decode()


def reference_text() -> str:
    """The tables of kernels, limits, settings and errors as the code makes them."""
    from reference import reference

    return reference()


GENERATED: dict[str, Callable[[], str]] = {"docs/reference.md": reference_text, "service/openapi.json": openapi_text, **DRAWINGS}


def check_generated(repository: Repository) -> Iterator[str]:
    """Every committed file that the code can write is what the code writes."""
    for name, text in GENERATED.items():
        if name not in repository.files or repository.text(name) != text():
            yield f"{name}:1: is not what the code makes; run make docs and look at the difference"


CHECKS: tuple[Callable[[Repository], Iterator[str]], ...] = (
    check_links,
    check_paths,
    check_fences,
    check_paragraphs,
    check_tables,
    check_commands,
    check_versions,
    check_places,
    check_settings,
    check_generated,
)


def main() -> int:
    """Run every check; 1 when there are problems."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write generated files anew first")
    if parser.parse_args().write:
        for name, text in GENERATED.items():
            (ROOT / name).write_text(text(), encoding="utf-8")
    repository = Repository.at(ROOT)
    problems = [problem for check in CHECKS for problem in check(repository)]
    for problem in problems:
        print(problem)
    print(f"{len(CHECKS)} checks on {len(repository.files)} files: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
