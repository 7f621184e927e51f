"""Every check of the documents finds what it is for, and leaves a sound repository alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import check_docs
from check_docs import Repository

SOUND = {
    "README.md": """# A title

See [the map](ARCHITECTURE.md#the-layers) and `make test`.

```python
x = await f()
```

```bash
make test
```
""",
    "ARCHITECTURE.md": """# Map

## The `layers`

`index/kinbin/errors.py`, `errors.py`, `index/` and `index/kinbin/*.py` exist; `a/b` and `/query` are no paths.
""",
    "CHANGELOG.md": "# Changelog\n\n## [1.2.3] - unreleased\n",
    "Makefile": "test:\n\techo\n",
    "pyproject.toml": '[project]\nversion = "1.2.3"\n',
    "clients/python/kinbin_client/_version.py": '__version__ = "1.2.3"\n',
    "deploy/compose.yaml": "    image: kinbin:1.2.3\n      KINBIN_API_KEY: x\n",
    "index/kinbin/errors.py": '"""Errors."""\n',
}

BROKEN: list[tuple[Callable[[Repository], Iterator[str]], str, str, str]] = [
    (check_docs.check_links, "README.md", "[gone](docs/gone.md)", "docs/gone.md"),
    (check_docs.check_links, "README.md", "[map](ARCHITECTURE.md#no-such-heading)", "no-such-heading"),
    (check_docs.check_links, "README.md", "[self]: gone.txt", "gone.txt"),
    (check_docs.check_paths, "ARCHITECTURE.md", "`index/kinbin/gone.py`", "index/kinbin/gone.py"),
    (check_docs.check_paths, "ARCHITECTURE.md", "`gone.py`", "gone.py"),
    (check_docs.check_paths, "ARCHITECTURE.md", "`index/gone/`", "index/gone/"),
    (check_docs.check_fences, "README.md", "```python\ndef f(:\n```", "python"),
    (check_docs.check_fences, "README.md", "```python\n>>> 1 +\n```", "python"),
    (check_docs.check_fences, "README.md", "```bash\nif true\n```", "bash"),
    (check_docs.check_fences, "README.md", '```json\n{"a":…}\n```', "json"),
    (check_docs.check_paragraphs, "README.md", "word " * 81, "a paragraph of 6 lines; at most 5"),
    (check_docs.check_paragraphs, "ARCHITECTURE.md", "- short\n- " + "word " * 161, "a paragraph of 11 lines; at most 10"),
    (check_docs.check_tables, "README.md", "| a | b |\n| `|u|` | 1 |", "a row of 4 cells in a table of 2"),
    (check_docs.check_commands, "README.md", "`make tset`", "make tset"),
    (check_docs.check_commands, "README.md", "```bash\nmake test deploy\n```", "make deploy"),
    (check_docs.check_places, "README.md", "in /" + "home/me/data", "a path of one machine"),
    (check_docs.check_places, "README.md", "pip install --trusted" + "-host mirror kinbin", "download address"),
    (check_docs.check_places, "README.md", "from " + "pypi" + ".org", "names a registry"),
    (check_docs.check_places, "README.md", "https://example.com/x-1.0" + ".whl", "download address"),
    (check_docs.check_settings, "README.md", "KINBIN_" + "NO_SUCH_THING", "no setting"),
]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A small repository in which nothing is wrong."""
    for name, text in SOUND.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


CHECKS_OF_TEXT = [check for check in check_docs.CHECKS if check is not check_docs.check_generated]


@pytest.mark.parametrize("check", CHECKS_OF_TEXT, ids=lambda check: check.__name__)
def test_sound_repository_has_no_problems(sound: Path, check: Callable[[Repository], Iterator[str]]) -> None:
    """A check yields nothing where nothing is wrong."""
    assert list(check(Repository.at(sound))) == []


@pytest.mark.parametrize(("check", "name", "addition", "said"), BROKEN, ids=lambda value: value if isinstance(value, str) else "")
def test_problem_is_found_at_its_line(
    sound: Path, check: Callable[[Repository], Iterator[str]], name: str, addition: str, said: str
) -> None:
    """A check names the file and the line of what is wrong, and says what."""
    path = sound / name
    line = path.read_text(encoding="utf-8").count("\n") + 2
    path.write_text(path.read_text(encoding="utf-8") + "\n" + addition + "\n", encoding="utf-8")
    problems = list(check(Repository.at(sound)))
    assert len(problems) == 1
    assert said in problems[0]
    where, number = problems[0].split(":")[:2]
    assert where == name
    assert line <= int(number) <= line + 1


def test_path_of_the_checkout_is_found(sound: Path) -> None:
    """A file that names the folder in which the repository lies is found, on whatever machine that is."""
    readme = sound / "README.md"
    readme.write_text(f"{readme.read_text(encoding='utf-8')}\nThe data are in {sound.parent}/data.\n", encoding="utf-8")
    (problem,) = check_docs.check_places(Repository.at(sound))
    assert "a path of one machine" in problem


@pytest.mark.parametrize("name", ["clients/python/kinbin_client/_version.py", "CHANGELOG.md", "deploy/compose.yaml"])
def test_versions_agree(sound: Path, name: str) -> None:
    """A file that names another version than pyproject.toml is found."""
    path = sound / name
    path.write_text(path.read_text(encoding="utf-8").replace("1.2.3", "1.2.4"), encoding="utf-8")
    assert [problem.split(":")[0] for problem in check_docs.check_versions(Repository.at(sound))] == [name]


def test_missing_map_is_a_problem(sound: Path) -> None:
    """A repository without ARCHITECTURE.md does not pass for one whose paths all exist."""
    (sound / "ARCHITECTURE.md").unlink()
    assert list(check_docs.check_paths(Repository.at(sound))) != []


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """What the code writes, made once: its documents take a third of a second."""
    return {name: text() for name, text in check_docs.GENERATED.items()}


@pytest.mark.parametrize("name", check_docs.GENERATED)
def test_stale_generated_file_is_found(sound: Path, generated: dict[str, str], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A generated file that the code would not write is found, and so is one that is missing."""
    for path, text in generated.items():
        (sound / path).parent.mkdir(parents=True, exist_ok=True)
        (sound / path).write_text(text, encoding="utf-8")
        monkeypatch.setitem(check_docs.GENERATED, path, partial(str, text))
    assert list(check_docs.check_generated(Repository.at(sound))) == []
    (sound / name).write_text(generated[name].replace("e", "i", 1), encoding="utf-8")
    assert [problem.split(":")[0] for problem in check_docs.check_generated(Repository.at(sound))] == [name]
    (sound / name).unlink()
    assert [problem.split(":")[0] for problem in check_docs.check_generated(Repository.at(sound))] == [name]


def test_ignored_files_are_left_alone(sound: Path) -> None:
    """In a git repository only files that are tracked, or would be, are looked at."""
    subprocess.run(["git", "init", "--quiet", str(sound)], check=True)
    (sound / ".gitignore").write_text("*.tmp\n", encoding="utf-8")
    (sound / "notes.tmp").write_text("in /" + "home/me\n", encoding="utf-8")
    files = Repository.at(sound).files
    assert "notes.tmp" not in files
    assert set(SOUND) < set(files)


def test_repeated_headings_get_numbers() -> None:
    """Anchors are made as code hosts make them: lower case, hyphens, a number from the second on."""
    assert check_docs.anchors("# `a/b` & C\n\n## Two words\n\n## Two words\n\n```\n# not this\n```\n") == {
        "ab--c",
        "two-words",
        "two-words-1",
    }
