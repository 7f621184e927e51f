"""The locks are complete, consistent, up to date with pyproject.toml, and name no place to download from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ["requirements.lock", "requirements-demo.lock", "requirements-dev.lock", "requirements-bench.lock"]
PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==([0-9][A-Za-z0-9.+!]*)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PROJECT["dependency-groups"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
SERVER = PROJECT["project"]["dependencies"] + EXTRAS["service"] + EXTRAS["cluster"] + EXTRAS["images"] + EXTRAS["text"] + GROUPS["server"]
FEATURES = EXTRAS["features"]
TRACES = EXTRAS["traces"]
WANTED = {
    "requirements.lock": SERVER,
    "requirements-demo.lock": SERVER + GROUPS["demo"],
    "requirements-dev.lock": SERVER + FEATURES + TRACES + GROUPS["demo"] + GROUPS["dev"] + GROUPS["docs"],
    "requirements-bench.lock": SERVER + FEATURES + TRACES + GROUPS["demo"] + GROUPS["bench"],
}


def pins(lock: str) -> dict[str, str]:
    """Version by name."""
    found = {}
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        if match := PIN.match(line):
            assert match[1] not in found, f"{lock} holds two versions of {match[1]}"
            found[match[1]] = match[2]
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_holds_names_versions_and_hashes_only(lock: str) -> None:
    """Every line is a pin or a hash, and every pin has a hash."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not (PIN.match(line) or HASH.match(line))] == []
    after_pins = [following for line, following in zip(lines, [*lines[1:], ""], strict=True) if PIN.match(line)]
    assert after_pins
    assert all(HASH.match(line) for line in after_pins)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_meets_every_declared_requirement(lock: str) -> None:
    """A requirement that pyproject.toml declares is in the lock in a version that it allows."""
    held = pins(lock)
    for text in WANTED[lock]:
        requirement = Requirement(text)
        assert held.get(canonicalize_name(requirement.name), "nothing") in requirement.specifier, f"{text}: run make lock"


@pytest.mark.parametrize(("smaller", "larger"), [(LOCKS[0], LOCKS[1]), (LOCKS[1], LOCKS[2]), (LOCKS[1], LOCKS[3])])
def test_larger_lock_holds_the_smaller_one(smaller: str, larger: str) -> None:
    """What is tested and measured is what is run: the same versions, to the last one."""
    held = pins(larger)
    assert {name: held.get(name) for name in pins(smaller)} == pins(smaller)


def test_client_needs_nothing_that_the_server_lock_lacks() -> None:
    """The client installs next to the server without a download of its own."""
    client = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text(encoding="utf-8"))
    held = pins("requirements.lock")
    for text in client["project"]["dependencies"]:
        requirement = Requirement(text)
        assert held.get(canonicalize_name(requirement.name), "nothing") in requirement.specifier, text
