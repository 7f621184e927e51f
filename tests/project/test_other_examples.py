"""Blocks of the documents besides Python and shell: requests, commands, files, indented lines are run, or named with the reason why not."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml

from check_docs import FENCE, line_of
from examples import OUTPUT, RUN
from kinbin_client import Client
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.cli import app
from kinbin_service.key_file import parse
from kinbin_service.settings import Settings
from service_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
CLUSTER = "docs/how-to/cluster-operations.md"
INDENTED = re.compile(r"(?:^(?: {4,}\S.*)\n?)+", re.MULTILINE)

NOT_RUN = {
    (CLUSTER, "make wheel"): "installs a wheel and starts a cluster until Ctrl-C; the blocks behind it run on such a one",
    (CLUSTER, "sed -i"): "three machines with certificates; options of its commands are looked at",
    (CLUSTER, "kubectl create"): "needs Kubernetes; test_chart.py renders the chart",
    (CLUSTER, "helm template"): "needs Kubernetes; test_chart.py renders the chart",
    ("docs/guide/typescript-client.md", "import {"): "runs in tests/client/test_typescript.py",
    (
        "docs/guide/snapshots.md",
        "#!/bin/sh",
    ): "a job of cron with places of a machine; its command is in tests/cli/test_keys_of_commands.py",
    ("docs/concepts/bands.md", "P["): "a formula",
    ("docs/concepts/recall-bound.md", "P["): "a formula",
    ("docs/guide/images.md", "k(T)"): "a formula",
    ("docs/guide/queries.md", "score ="): "a formula",
}
"""By page and first words."""
LINES_NOT_RUN = {
    "kill": "ends a program that the test has not started",
    "pip": "installs",
    "export": "the address of a cluster that the test has started in another way",
    "GATEWAY=": "the same",
}
"""Lines of blocks that run otherwise, by their first words."""


@dataclass(frozen=True)
class Block:
    """One that is neither Python nor shell, nor the output of such."""

    document: str
    line: int
    language: str
    body: str

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        return next((why for (page, words), why in NOT_RUN.items() if page == self.document and self.body.startswith(words)), None)


def blocks(text: str, document: str) -> Iterator[Block]:
    """All fences in other languages, and all indented lines outside of fences and lists."""
    for fence in FENCE.finditer(text):
        if fence["language"] not in (*RUN, *OUTPUT):
            yield Block(document, line_of(text, fence.start()), fence["language"], fence["body"])
    plain = FENCE.sub(lambda fence: "." + "\n" * fence[0].count("\n"), text)
    for lines in INDENTED.finditer(plain):
        before = plain[: lines.start()].rstrip("\n").rpartition("\n")[2]
        if not re.match(r" *([-*+]|\d+\.) | +\S", before):
            yield Block(document, line_of(plain, lines.start()), "indented", "".join(line.strip() + "\n" for line in lines[0].splitlines()))


ALL = [one for page in DOCUMENTS for one in blocks(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())]
LEFT = [one for one in ALL if one.reason is None]


def of(language: str, document: str | None = None) -> pytest.MarkDecorator:
    """The blocks of a language that run."""
    found = [one for one in LEFT if one.language == language and document in (None, one.document)]
    return pytest.mark.parametrize("block", found, ids=lambda one: f"{one.document}:{one.line}")


RUNS = {("http", "docs/guide/cluster.md"), ("console", CLUSTER), ("ini", "docs/operations.md"), ("yaml", "docs/operations.md")}
RUNS |= {("jsonc", "docs/guide/queries.md"), ("ini", CLUSTER)}


def test_every_block_is_run_or_named_with_its_reason() -> None:
    """A block that no test here runs is in NOT_RUN, and NOT_RUN has no others."""
    unknown = [one for one in LEFT if (one.language, one.document) not in RUNS and not (one.language == "indented" and made(one))]
    assert unknown == []
    assert {
        (page, words) for page, words in NOT_RUN if not any(one.document == page and one.body.startswith(words) for one in ALL)
    } == set()
    assert {language for language, _ in RUNS} | {"indented", "js", "sh"} == {one.language for one in ALL}


@pytest.mark.parametrize("text", ["```sql\nselect 1\n```\n", "Words:\n\n    rm -r things\n", "    curl example.org\n"])
def test_a_block_of_another_kind_is_found(text: str) -> None:
    """A page with a block that nobody knows has one that is not run."""
    (one,) = blocks(text, "docs/page.md")
    assert one.reason is None
    assert (one.language, one.document) not in RUNS
    assert not made(one)


def made(block: Block) -> list[list[str]]:
    """The commands of make of a block in which there are no others that could be run; empty if there are."""
    split = [shlex.split(line, comments=True) for line in block.body.splitlines()]
    commands = [[word for word in words if word] for words in split if words and words[0] not in LINES_NOT_RUN]
    return commands if all("make" in words and all("=" in one for one in words[: words.index("make")]) for words in commands) else []


@pytest.mark.parametrize("block", [one for one in LEFT if one.language == "indented"], ids=lambda one: f"{one.document}:{one.line}")
def test_indented_commands_of_make_are_known_to_it(block: Block) -> None:
    """make finds the targets, by a run that does nothing."""
    for words in made(block):
        # What follows with spaces before it says what the command does.
        target = words[words.index("make") + 1]
        done = subprocess.run(["make", "-n", "-C", ROOT, target], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


@of("ini")
def test_a_file_is_read(block: Block) -> None:
    """What reads files of keys takes the one that is shown, its hashes written out; variables of a cluster are settings."""
    if block.document == CLUSTER:
        names = {line.partition("=")[0] for line in block.body.splitlines() if not line.startswith("#")}
        known = {f"KINBIN_{name.upper()}" for name in Settings.model_fields}
        assert names <= known | {f"KINBIN_CLUSTER_{name.upper()}" for name in ClusterSettings.model_fields}
        return
    keys = parse(re.sub(r"([0-9a-f]{16})…", r"\g<1>" + "0" * 48, block.body))
    assert [(key.name, key.role) for key in keys] == [("grafana", "metrics"), ("shop", "write")]


@of("yaml")
def test_a_configuration_of_prometheus_is_read(block: Block) -> None:
    """YAML that is shown is a list of jobs, which promtool takes where it is there."""
    jobs = yaml.safe_load(block.body)
    assert [job["job_name"] for job in jobs] == ["kinbin"]
    assert jobs[0]["relabel_configs"][0]["action"] == "keep"


@of("jsonc")
@pytest.mark.server
def test_columns_that_are_shown_are_those_of_an_answer(block: Block, live: str) -> None:
    """Each field that is shown is one of the answer in columns, of the same kind."""
    with Client(live) as client:
        client.create_collection("columns", dim=2).add(["a"], [[1, 2]])
    asked = {"queries": [[1, 2]], "k": 2}
    answer = httpx.post(
        f"{live}/v1/collections/columns/query", json=asked, headers={"accept": "application/vnd.kinbin.columns+json"}
    ).json()
    shown = json.loads(block.body)
    del shown["…"]
    assert {name: type(value) for name, value in shown.items()} == {name: type(answer[name]) for name in shown}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one server."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "db") as server:
        server.wait_until_ready()
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What `kinbin cluster dev` starts: three nodes, a gateway, and one NATS server, which is enough where no server is lost."""
    dev = pytest.importorskip("kinbin_cluster.dev", reason="the extra cluster is not installed")
    if shutil.which("nats-server", path=str(ROOT / ".venv/bin")) is None and shutil.which("nats-server") is None:
        pytest.skip("there is no nats-server")
    with dev.DevCluster(tmp_path_factory.mktemp("cluster"), nodes=3, servers=1) as started:
        yield started


def asked(body: str) -> Iterator[tuple[str, str, dict[str, str], str, str]]:
    """Requests of a block: method, path, headers, body, and the answer that is shown, or nothing."""
    for part in re.split(r"\n(?=(?:GET|PUT|POST|DELETE) )", body.strip()):
        request, _, answer = part.partition("\n\n")
        head, *lines = request.splitlines()
        method, path = head.split()
        headers = dict(line.split(": ", 1) for line in lines if not line.startswith("{"))
        yield method, path, headers, "".join(line for line in lines if line.startswith("{")), answer.strip()


LACKING = {"partial", "shards_missing", "no_bound"}
"""Fields of an answer that lacks shards, which needs nodes that died: test_faults.py has them."""


@of("http")
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_requests_are_answered_as_shown(block: Block, cluster: Any) -> None:
    """A gateway answers what is shown, with the status and at least the fields of the answer that is shown."""
    with Client(cluster.address) as client:
        if "photos" in client.collections():
            client.drop_collection("photos")
        if "PUT" not in block.body:
            client.create_collection("photos", dim=3)
    token = ""
    for method, path, headers, body, shown in asked(block.body):
        sent = {name: token if value.endswith("…") else value for name, value in headers.items()}
        answer = httpx.request(
            method, cluster.address + path, content=body, headers={"content-type": "application/json", **sent}, timeout=60
        )
        assert answer.status_code == int(shown.partition(" ")[0] or (201 if method == "PUT" else 200)), answer.text
        fields = set(re.findall(r'"(\w+)":', shown))
        assert fields - LACKING <= answer.json().keys()
        token = answer.json().get("token", token)


@of("console", CLUSTER)
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commands_of_a_cluster_end_well(block: Block, cluster: Any, tmp_path: Path) -> None:
    """Against a cluster of `kinbin cluster dev` commands end with 0, but for lines that are named with their reason."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    with Client(cluster.address) as client:
        if "reshard" in block.body and "photos" not in client.collections():
            client.create_collection("photos", dim=3)
    lines = [line for line in block.body.splitlines() if not line.startswith(tuple(LINES_NOT_RUN))]
    path = f"{ROOT / '.venv/bin'}:/usr/local/bin:/usr/bin:/bin"
    environment = {**cluster.environment, "PATH": path, "GATEWAY": cluster.address, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    script = "\n".join(lines)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"code"' not in done.stdout, done.stdout


COMMANDS = sorted(
    {
        (one.document, line.strip())
        for one in ALL
        for line in re.findall(r"(?<!install )(?<!template )\bkinbin [^\n|\\]*", one.body)
        if one.language == "console"
    }
)


@pytest.mark.parametrize("command", [line for _, line in COMMANDS])
def test_commands_have_the_options_that_they_are_given(command: str) -> None:
    """Each `kinbin` of a block, run or not, is a command that there is, with options that it has."""
    for one in re.split(r"&&|#", command):
        words = shlex.split(one.replace("…", "x"))
        if words[:1] != ["kinbin"] or len(words) == 1:
            continue
        group: Any = typer.main.get_command(app)
        arguments = words[1:]
        while hasattr(group, "commands"):
            assert arguments[0] in group.commands, f"kinbin has no command {arguments[0]}"
            group, arguments = group.commands[arguments[0]], arguments[1:]
        known = {name for option in group.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        assert {word for word in arguments if word.startswith("--")} <= known
