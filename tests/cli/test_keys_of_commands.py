"""What commands do with a key that may not list everything, through a service that keeps snapshots on another disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_service.key_file import line_of
from service_process import ServerProcess

Run = Callable[..., Result]

pytestmark = pytest.mark.server
KEYS = {"backup": (), "read": (), "write": ("live",)}
"""By role, which is the name and the key of each, too: the collections that it is for; none: all."""


class Kept(NamedTuple):
    """A service with keys, its database, and where that keeps snapshots."""

    url: str
    data: Path
    snapshots: Path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A service of the collection `photos` of three items, with the alias `live`."""
    folder = tmp_path_factory.mktemp("kept")
    with kinbin.open(folder / "data") as database:
        database.create_collection("photos", dim=2).add(["a", "b", "c"], [[1, 2], [2, 1], [1, 1]])
        database.alias("live", "photos")
    keys = folder / "keys"
    keys.write_text("\n".join(line_of(role, role, role, collections) for role, collections in KEYS.items()))
    with ServerProcess(folder / "data", api_keys_file=keys, snapshots_dir=folder / "snaps") as server:
        yield Kept(f"http://127.0.0.1:{server.port}", folder / "data", folder / "snaps")


def test_who_makes_copies_need_not_list_collections(kept: Kept, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of the role backup makes, lists and verifies snapshots; of a collection that is not there the service says so."""
    monkeypatch.setenv("KINBIN_API_KEY", "backup")
    made = orjson.loads(run("snapshot", "photos", "--url", kept.url, "--json").stdout)
    assert made["items"] == 3
    assert run("snapshots", "photos", "--url", kept.url, "--verify", made["id"]).stdout == f"{made['id']}: sound\n"
    missing = run("snapshot", "phots", "--url", kept.url)
    assert (missing.exit_code, "404 collection_not_found" in missing.stderr) == (1, True)


@pytest.mark.parametrize("role", ["read", "write"])
def test_an_alias_is_asked_for_by_keys_that_may_not_list_aliases(kept: Kept, run: Run, monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    """It is found; a name that nothing has is told with what there is, where the key may list that."""
    monkeypatch.setenv("KINBIN_API_KEY", role)
    found = run("query", "live", "--url", kept.url, "--vector", "[1, 2]", "--k", 1, "--json")
    assert found.exit_code == 0, found.stderr
    assert orjson.loads(found.stdout)["results"][0]["id"] == "a"
    missing = run("query", "phots", "--url", kept.url, "--vector", "[1, 2]")
    assert missing.exit_code == 1
    assert ("did you mean 'photos'?" in missing.stderr) == (role == "read")
    assert "role admin" not in missing.stderr


def test_commands_on_files_keep_snapshots_where_the_service_does(
    kept: Kept, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--snapshots, or the service's own variable, says where: what one makes the other lists, and none lies beside the data."""
    named, place = ("--data", kept.data), ("--snapshots", kept.snapshots)
    made = orjson.loads(run("snapshot", "photos", *named, *place, "--json").stdout)
    assert (kept.snapshots / "photos" / f"{made['id']}.kinbin").is_file()
    assert not (kept.data / "snapshots").exists()
    assert "no snapshots" in run("snapshots", "photos", *named).stdout
    monkeypatch.setenv("KINBIN_SNAPSHOTS_DIR", str(kept.snapshots))
    assert made["id"] in run("snapshots", "photos", *named).stdout
    assert run("restore", made["id"], "again", "--from", "photos", *named).stdout == "again: restored, with 3 items\n"
    monkeypatch.setenv("KINBIN_API_KEY", "backup")
    monkeypatch.setenv("KINBIN_SNAPSHOTS_DIR", f"{kept.snapshots}/")
    assert made["id"] in run("snapshots", "photos", "--url", kept.url).stdout
    both = run("snapshots", "photos", "--url", kept.url, "--snapshots", tmp_path)
    assert (both.exit_code, "the service at --url has its own" in " ".join(both.stderr.split())) == (2, True)
