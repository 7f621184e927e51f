"""Every example of the README and of the pages of the documentation runs as it is written, and prints what the document shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from examples import Example, examples
from service_process import free_port, spawning, until_serving

pytestmark = [pytest.mark.server, pytest.mark.timeout(300), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
EXAMPLES = [example for document in DOCUMENTS for example in examples(document, ROOT)]
TUTORIALS = [document.relative_to(ROOT).as_posix() for document in DOCUMENTS if document.parent.name == "tutorials"]
"""Pages whose examples build on each other; on all others each stands alone."""
ADDRESS = "127.0.0.1:8080"

THINGS = "id,label,year,red,green\na16,fox,2019,1,2\na17,dog,2020,2,1\na18,cat,2021,3,3\n"
"""`things.csv`, which the page of the command line imports."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of what `make run` starts."""
    port = free_port()
    with spawning() as start:
        until_serving(start("kinbin_service.demo", "--data", tmp_path_factory.mktemp("demo") / "db", "--port", port))
        yield f"127.0.0.1:{port}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the file that examples read, and `kinbin` on the path, as in an activated environment."""
    (tmp_path / "things.csv").write_text(THINGS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    return tmp_path


def run(example: Example, capsys: pytest.CaptureFixture[str], address: str = ADDRESS, names: dict[str, object] | None = None) -> None:
    """Run an example, with the demo at another address and among the names of those before it, and check what it prints."""
    code = example.code.replace(ADDRESS, address)
    if example.language == "python":
        names = {} if names is None else names
        names["__name__"] = "__main__"
        exec(compile(code, f"{example.document}:{example.line}", "exec"), names)
        example.check(capsys.readouterr().out)
        return
    if "curl " in code and shutil.which("curl") is None:
        pytest.skip("there is no curl")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert '"error"' not in done.stdout, done.stdout
    example.check(done.stdout)


ALONE = [example for example in EXAMPLES if example.document not in TUTORIALS]


@pytest.mark.parametrize("example", ALONE, ids=lambda example: f"{example.document}:{example.line}")
def test_example(example: Example, request: pytest.FixtureRequest, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pasted, an example ends well, and prints what the document shows of it."""
    address = request.getfixturevalue("demo") if ADDRESS in example.code else ADDRESS
    run(example, capsys, address)


@pytest.mark.parametrize("tutorial", TUTORIALS)
def test_tutorial(tutorial: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The steps of a tutorial, one after the other in one session and folder, end well, and print what the page shows of each."""
    steps = [example for example in EXAMPLES if example.document == tutorial]
    assert steps
    names: dict[str, object] = {}
    for step in steps:
        run(step, capsys, names=names)


GUIDE = [one for one in EXAMPLES if one.document.startswith("docs/guide/") and "kinbin.open(" in one.code and ADDRESS not in one.code]


@pytest.mark.parametrize("pages", [GUIDE, GUIDE[::-1]], ids=["forwards", "backwards"])
def test_pages_of_the_guide_share_a_folder(pages: list[Example], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever pastes the pages of the guide in one folder, in either order, each of them twice, is not stopped by what is there."""
    for example in pages:
        run(example, capsys)
        # A page may tell the second time that nothing is left to do.
        run(replace(example, shown=None), capsys)


def test_all_examples_are_found() -> None:
    """No Python, shell or output of the documents is left out."""
    text = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    for language in ("python", "bash"):
        assert sum(example.language == language for example in EXAMPLES) == text.count(f"```{language}\n") > 1
    assert sum(example.shown is not None for example in EXAMPLES) == text.count("```text\n") + text.count("```json\n") > 2


def written(folder: Path, text: str) -> list[Example]:
    """The examples of a document with this text."""
    (folder / "page.md").write_text(text, encoding="utf-8")
    return examples(folder / "page.md")


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "print([1, 2, 3])"), ("bash", "echo '[1, 2, 3]'")],
)
@pytest.mark.parametrize(("shown", "same"), [("[1, 2, 3]", True), ("[1, ..., 3]", True), ("[1, 2]", False), ("[1, 2, 3]\n4", False)])
def test_another_output_is_found(
    language: str, code: str, shown: str, same: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An output that the document does not show fails, at its line; dots stand for what may vary."""
    (example,) = written(tmp_path, f"# Page\n\n```{language}\n{code}\n```\n\n```text\n{shown}\n```\n")
    if same:
        run(example, capsys)
    else:
        with pytest.raises(AssertionError, match=r"page\.md:3: shown is"):
            run(example, capsys)


@pytest.mark.parametrize("code", ["false", "true | false | true", "cat no-such-file"])
def test_a_command_that_fails_is_found(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shell example whose command does not end well fails."""
    (example,) = written(tmp_path, f"```bash\n{code}\necho done\n```\n")
    with pytest.raises(AssertionError):
        run(example, capsys)


@pytest.mark.parametrize("before", ["", "```python\n1\n```\n\nMuch later:\n\n", "```bash\ntrue\n```\n\n```text\n\n```\n\n"])
def test_an_output_of_nothing_is_found(before: str, tmp_path: Path) -> None:
    """An output that follows no example is refused, so that none goes unchecked."""
    with pytest.raises(ValueError, match=r"page.md:\d+: an output that does not follow"):
        written(tmp_path, f"{before}```text\n1\n```\n")
