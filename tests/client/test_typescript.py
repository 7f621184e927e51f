"""The TypeScript client: its types, its package, and its own tests, run by Node against a real service."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kinbin_client import Client
from typescript_package import PACKAGE, ROOT, Run

README = (PACKAGE / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide" / "typescript-client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```js\n(.*?)```", README + GUIDE, re.DOTALL)
ERRORS = (PACKAGE / "src" / "errors.ts").read_text(encoding="utf-8")
KEY = "canary-key-4711"


def test_types_are_those_of_the_openapi_file() -> None:
    """The types were generated of the OpenAPI file as it is committed (otherwise: make typescript)."""
    digest = hashlib.sha256((ROOT / "service" / "openapi.json").read_bytes()).hexdigest()
    assert digest in (PACKAGE / "src" / "openapi.ts").read_text(encoding="utf-8").partition("\n")[0]


def test_lock_holds_names_versions_and_hashes_only() -> None:
    """Every package of the lock has a version and a hash, and no address."""
    lock = json.loads((PACKAGE / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    for name, package in packages.items():
        assert package["version"], name
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name
        assert package["dev"], f"{name} would be installed with the package, which has no dependencies"


def test_versions_agree() -> None:
    """The package, its lock and its code have the project's version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    for name in ("package.json", "package-lock.json"):
        assert json.loads((PACKAGE / name).read_text(encoding="utf-8"))["version"] == version
    assert f'VERSION = "{version}"' in (PACKAGE / "src" / "version.ts").read_text(encoding="utf-8")


def test_errors_are_those_of_the_python_client() -> None:
    """Both clients have the same classes of errors, and the README lists all of them (test_errors_alike.py compares the rest)."""
    import kinbin_client.errors

    ours = {name for name, one in vars(kinbin_client.errors).items() if isinstance(one, type) and issubclass(one, Exception)}
    assert set(re.findall(r"^export class (\w+)", ERRORS, re.MULTILINE)) == ours
    for name in ours:
        assert f"`{name}`" in README, name


def test_methods_are_those_of_the_python_client() -> None:
    """Every public method of the Python client is there in camelCase, but for those that Python alone can have."""
    source = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "src").glob("*.ts"))
    methods = set(re.findall(r"^  (?:async )?\*?(\w+)(?:<.*>)?\(", source, re.MULTILINE))
    # Tables are pandas' and pyarrow's; a handle is typed by its payloads, whatever its fields.
    missing = {"add_table", "fields_collection"}
    for handle in (Client, type(Client("http://127.0.0.1:1").collection("a"))):
        for name in (name for name in dir(handle) if not name.startswith("_") and name not in missing):
            camel = re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)
            assert camel in methods or re.search(rf"readonly {camel}\b", source), name


@pytest.mark.slow
@pytest.mark.server
def test_its_own_tests_pass(node: Run, live_url: str) -> None:
    """Every test of the package passes on the built code, against a real service where it needs one."""
    files = sorted(str(path) for path in (PACKAGE / "build").glob("*.test.js"))
    assert len(files) == len(list((PACKAGE / "test").glob("*.test.ts")))
    said = node("node", "--test", "--test-reporter=spec", *files, SERVICE_URL=live_url, SERVICE_KEY=KEY)
    assert re.search(r" pass \d\d", said)
    # The one in a browser needs Chromium.
    browsers = any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    assert f" skipped {0 if browsers else 1}\n" in said


@pytest.fixture(scope="module")
def project(node: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty project into which the packed package was installed, without a network."""
    folder = tmp_path_factory.mktemp("project")
    packed: list[dict[str, Any]] = json.loads(node("npm", "pack", "--ignore-scripts", "--json", "--pack-destination", str(folder)))
    names = {file["path"] for file in packed[0]["files"]}
    assert {"dist/index.js", "dist/index.d.ts", "README.md", "LICENSE", "package.json"} <= names
    assert not {name for name in names if name.startswith(("test/", "build/", "node_modules/"))}
    (folder / "package.json").write_text('{"type": "module", "private": true}', encoding="utf-8")
    node("npm", "install", "--offline", "--no-audit", "--no-fund", f"./{packed[0]['filename']}", cwd=folder)
    assert sorted(path.name for path in (folder / "node_modules").iterdir() if not path.name.startswith(".")) == ["kinbin-client"]
    return folder


def bare(text: str) -> str:
    """A parameter without its type and default."""
    return re.split(r"[?:= ]", text.strip(), maxsplit=1)[0]


def test_signatures_of_the_readme_are_those_of_the_code() -> None:
    """Each call whose parameters the README lists has these, in this order; a mark of interrogation is one that may be left out."""
    source = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "src").glob("*.ts"))
    listed = re.findall(r"`(\w+)\(([\w?, ]+)\)`", "".join(re.findall(r"^\| `.*", README, re.MULTILINE)))
    assert {name for name, _ in listed} >= {"explain", "recall", "tune", "map", "rebuild", "duplicates", "duplicatesStream"}
    for name, told in listed:
        found = re.search(rf"^  (?:async )?\*?{name}(?:<[^(]*>)?\((.*?)\): \w+<", source, re.MULTILINE | re.DOTALL)
        assert found, name
        parameters = [one for one in re.split(r",\s*(?=\w+\??:)", re.sub(r"\{ readonly.*?\}", "Asked", found[1])) if one.strip()]
        wanted = [bare(one) + ("?" if "= " in one else "") for one in parameters]
        assert told.split(", ") == wanted, name


@pytest.mark.slow
def test_what_the_documents_say_installs_it(node: Run, tmp_path: Path) -> None:
    """What the README and the guide say, typed in a project, installs it; `npm ci` alone is left out, as it wants a network."""
    checkout = tmp_path / "path" / "to" / "kinbin"
    left_out = shutil.ignore_patterns("node_modules", "build", "*.tgz")
    shutil.copytree(PACKAGE, checkout / "clients" / "typescript", ignore=left_out)
    (checkout / "dist").mkdir()
    node("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(checkout / "dist"))
    readme = "\n".join(re.findall(r"^    (\(cd .*|npm .*)$", README, re.MULTILINE))
    commands = {"readme": readme, "guide": "\n".join(re.findall(r"`(npm install [^`]*)`", GUIDE))}
    offline = """npm() {
        case $1 in
            ci) ;;
            pack) command npm pack --silent --ignore-scripts ;;
            install) command npm install --offline --no-audit --no-fund "${@:2}" ;;
            *) return 1 ;;
        esac
    }
    set -e
    """
    for name, command in commands.items():
        assert command.count("npm install") == 1, name
        project = tmp_path / name
        project.mkdir()
        (project / "package.json").write_text('{"type": "module", "private": true}', encoding="utf-8")
        (project / "path").symlink_to(tmp_path / "path")
        node("bash", "-c", offline + command, cwd=project)
        assert (project / "node_modules" / "kinbin-client" / "dist" / "index.js").is_file(), name


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number: int, node: Run, project: Path, live_url: str) -> None:
    """Pasted into a file of a project, an example of the README or the guide runs against a real service, and prints something."""
    example = EXAMPLES[number]
    assert '"http://127.0.0.1:8080"' in example
    keyed = example.replace(", { timeout: 10_000", f', {{ apiKey: "{KEY}", timeout: 10_000')
    keyed = keyed.replace('"http://127.0.0.1:8080")', f'"{live_url}", {{ apiKey: "{KEY}" }})').replace("http://127.0.0.1:8080", live_url)
    file = project / f"example-{number}.js"
    file.write_text(keyed, encoding="utf-8")
    with Client(live_url, api_key=KEY) as client:
        if "default" in client.collections():
            client.drop_collection("default")
    assert node("node", file.name, cwd=project)


@pytest.mark.slow
def test_types_reach_a_project_of_node_without_those_of_browsers(node: Run, project: Path) -> None:
    """A strict project compiles against the installed package with the types of Node alone."""
    (project / "use.ts").write_text(
        'import { Client, type Hit } from "kinbin-client";\n'
        'const hits: Hit<{ year: number }>[] = (await new Client().collection<{ year: number }>("a").query([1], { k: 3 })).results;\n'
        "export const year: number | undefined = hits[0]?.payload?.year;\n",
        encoding="utf-8",
    )
    compiler, types = PACKAGE / "node_modules/typescript/bin/tsc", PACKAGE / "node_modules/@types"
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022", "--types", "node"]
    node("node", str(compiler), *options, "--typeRoots", str(types), "use.ts", cwd=project)
