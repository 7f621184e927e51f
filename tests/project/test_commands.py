"""The menu of commands is complete, and CI runs what people run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make with no variables of an outer make."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_menu_has_every_command() -> None:
    """`make` alone prints the menu, and the documented commands are in it."""
    menu = re.findall(r"^  make (\S+) +\S", make().stdout, re.MULTILINE)
    assert menu == TARGETS
    assert {"run", "serve", "check", "test", "bench", "docs", "lock", "image", "clean", "help"} <= set(menu)


@pytest.mark.parametrize("target", TARGETS)
def test_command_has_a_recipe_that_make_understands(target: str, tmp_path: Path) -> None:
    """Every command can be planned from scratch: no prerequisite is missing."""
    answer = make("--dry-run", target, f"VENV={tmp_path}/none")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()


def test_set_up_installs_by_hash_and_makes_no_download_of_its_own(tmp_path: Path) -> None:
    """Packages come from the lock with their hashes as wheels; the project itself is built with no index at all."""
    plan = make("--dry-run", "test", f"VENV={tmp_path}/none").stdout
    (packages,) = (line for line in plan.splitlines() if "install" in line and "-r requirements-dev.lock" in line)
    (project,) = (line for line in plan.splitlines() if "--editable" in line)
    assert {"--require-hashes", "--only-binary", "--no-deps"} <= set(packages.split())
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(project.split())


def test_ci_runs_the_commands_that_people_run() -> None:
    """`.ci/run` can be executed, and is `make check test`, with a part of what is slow; a few failures are tried again."""
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").rstrip().endswith("\nmake test || make test-again")
    assert "\nmake check\n" in script.read_text(encoding="utf-8")
    assert "\nmake test-slow " in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("script", [".ci/run", "deploy/build-image", "deploy/entrypoint"])
def test_script_is_a_shell_script(script: str) -> None:
    """The scripts parse, and stop at the first error."""
    path = ROOT / script
    assert os.access(path, os.X_OK)
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^set -e", text, re.MULTILINE)
    shell = "bash" if "bash" in text.splitlines()[0] else "sh"
    assert subprocess.run([shell, "-n", path], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_image_is_built_by_the_chosen_engine(engine: str, tmp_path: Path) -> None:
    """`make image ENGINE=…` calls that engine with the tag, and in a format that keeps the health check."""
    stand_in = tmp_path / engine
    stand_in.write_text('#!/bin/sh\necho "$0 $@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ENGINE": engine}
    command = [str(ROOT / "deploy/build-image"), "kinbin:test", "--no-cache"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"/{engine} " in answer.stdout
    assert " --tag kinbin:test --no-cache ." in answer.stdout
    assert engine == "docker" or " --format docker " in answer.stdout
