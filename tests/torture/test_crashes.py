"""A few power failures, kills and failing calls at each run of the suite; `make torture` has all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from nursery import Nursery
from torture.crashes import SOUND, Control, fault_campaign, kill_campaign, power_campaign
from torture.disk import Event, Tree
from torture.story import ACTIONS, STEPS, after

pytestmark = pytest.mark.durability


@pytest.mark.slow
def test_no_power_failure_loses_what_was_acknowledged(watched: Nursery, tmp_path: Path, a_seed: Callable[[], int]) -> None:
    """Files, names and new folders: whatever of the rest is lost, what was acknowledged is there, none by half, and `check` is content."""
    found = power_campaign(watched, tmp_path, a_seed(), 20)
    assert found.wrong == []
    assert found.good >= 12


@pytest.mark.slow
@pytest.mark.parametrize(
    "control", [({"sync": False}, True), ({"metasync": False}, True), ({}, False)], ids=["files", "meta pages", "folders"]
)
def test_power_failures_lose_what_is_not_synced(watched: Nursery, tmp_path: Path, control: Control) -> None:
    """With files, meta pages or folders left unsynced the same failures lose something: finding nothing above means something."""
    assert control != SOUND
    assert power_campaign(watched, tmp_path, 5, 24, control).wrong


def test_no_kill_loses_what_was_acknowledged(watched: Nursery, tmp_path: Path, a_seed: Callable[[], int]) -> None:
    """Killed at some call of any action: nothing that was acknowledged is lost, and nothing is half there."""
    name = random.Random(a_seed()).choice(sorted(ACTIONS))
    print(name)  # noqa: T201 - the same
    found = kill_campaign(watched, tmp_path, {name: ACTIONS[name], "edit": ACTIONS["edit"]}, every=9)
    assert found.wrong == []
    assert found.good or name == "open"


def test_no_failing_call_loses_what_was_acknowledged(watched: Nursery, tmp_path: Path) -> None:
    """A call that fails once is a typed error or none; what was acknowledged stays, and doing it again succeeds without a restart."""
    found = fault_campaign(watched, tmp_path, {"edit": ACTIONS["edit"], "create": ACTIONS["create"]}, every=9)
    assert found.wrong == []
    assert found.good >= 8


def test_the_story_ends_as_it_is_told() -> None:
    """The model of what is stored follows the story: collections come and go, and items are those of the steps."""
    assert after(0) == {}
    assert list(after(len(STEPS))) == ["a", "f", "b"]
    assert len(after(ACTIONS["drop"])["a"]) > 50
    assert "b" in after(ACTIONS["drop"])
    assert "b" not in after(ACTIONS["drop"] + 1)
    assert [STEPS[number][0] for name, number in ACTIONS.items() if name != "open"] == [
        "create",
        "seal",
        "link",
        "drop",
        "merge",
        "edit",
        "create",
        "shrink",
        "snapshot",
    ]


def event(kind: str, path: str, other: str = "", *, offset: int = 0, data: bytes = b"", direct: bool = False) -> Event:
    """One entry of a record."""
    return Event(kind, direct, path, other, offset, data)


def kept(tmp_path: Path, events: list[Event], *, ordered: bool) -> set[tuple[str, bytes]]:
    """What may be on disk after these events: each set of files, as text."""
    out = set()
    for number in range(80):
        tree = Tree("/r")
        for at, one in enumerate(events):
            tree.take(at, one)
        place = tmp_path / f"{ordered}{number}"
        tree.lost(place, random.Random(number), ordered=ordered, last=len(events) - 1)
        files = sorted((str(file.relative_to(place)), file.read_bytes()) for file in place.rglob("*") if file.is_file())
        out.add((repr([name for name, _ in files]), b"|".join(content for _, content in files)))
    return out


@pytest.mark.parametrize("ordered", [False, True])
def test_the_model_of_a_disk(tmp_path: Path, ordered: bool) -> None:
    """A file is there for sure once it and every folder above it were synced; else it may be lost, or be empty."""
    made = [event("d", "/r/new"), event("c", "/r/new/f"), event("w", "/r/new/f", data=b"abc"), event("s", "/r/new/f")]
    assert {names for names, _ in kept(tmp_path / "a", made, ordered=ordered)} == {"[]", "['new/f']"}
    inner = [*made, event("s", "/r/new")]
    assert {names for names, _ in kept(tmp_path / "b", inner, ordered=ordered)} == {"[]", "['new/f']"}
    assert kept(tmp_path / "c", [*inner, event("s", "/r")], ordered=ordered) == {("['new/f']", b"abc")}
    unsynced = [*made[:3], event("s", "/r/new"), event("s", "/r")]
    assert {content for _, content in kept(tmp_path / "d", unsynced, ordered=ordered)} == {b"", b"abc"}
    moved = [*inner, event("s", "/r"), event("m", "/r/new", "/r/old")]
    assert {names for names, _ in kept(tmp_path / "e", moved, ordered=ordered)} == {"['new/f']", "['old/f']"}


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    """Where the model makes its disks."""
    for name in "abcde":
        (tmp_path / name).mkdir()
