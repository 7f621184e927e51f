"""A little torture of files at each run of the suite; `make torture` is hours of it. Seeds are printed; what harms do is told by class."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinbin
from nursery import Nursery
from torture import campaign
from torture.campaign import GRAVE, REPAIRS, Judge, damage_campaign
from torture.forms import FORMS
from torture.harm import flips, page_harms
from torture.pages import PageMap
from torture.planted import PLANTS, REPAIR_PLANTS
from torture.specimen import GIVEN_UP, Specimen, built_apart

pytestmark = pytest.mark.durability


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Children that use damaged databases."""
    kinbin.warm_up()
    with Nursery() as nursery:
        yield nursery


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_damage_is_always_told(nursery: Nursery, tmp_path: Path, form: str) -> None:
    """No flipped bit and no damaged page leads to a wrong answer, a silent omission, a dead process, a loop or a foreign error."""
    seed = len(FORMS) * random.SystemRandom().randrange(10**6) + list(FORMS).index(form)
    print(f"python -m torture damage --flips 12 --pages 6 --seed {seed}")  # noqa: T201 - shown when the test fails
    tally = damage_campaign(nursery, tmp_path, seed, (12, 6))
    assert [case.line() for case in tally.of(GRAVE)] == []


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("given_up", GIVEN_UP)
def test_repair_saves_what_is_whole_and_says_the_rest(nursery: Nursery, tmp_path: Path, form: str, given_up: str) -> None:
    """Nothing that is saved is wrong or of a commit that was given up, unless that is said; nothing is left out without a word."""
    seed = len(FORMS) * (len(GIVEN_UP) * random.SystemRandom().randrange(10**5) + GIVEN_UP.index(given_up)) + list(FORMS).index(form)
    print(f"python -m torture repairs --flips 8 --pages 12 --seed {seed}")  # noqa: T201 - shown when the test fails
    tally = damage_campaign(nursery, tmp_path, seed, (8, 12), judge=REPAIRS)
    assert [case.line() for case in tally.of(GRAVE)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REPAIR_PLANTS))
def test_a_repair_that_does_wrong_is_told(nursery: Nursery, tmp_path: Path, name: str) -> None:
    """With a bug planted the campaign tells of it, on files that are sound but for a commit that was killed."""
    made = nursery.start(f"{built_apart.__module__}:{built_apart.__name__}", str(tmp_path / "data"), 3, "vector", "killed").receive()
    shutil.copytree(tmp_path / "data", tmp_path / "again")
    assert Judge(nursery, made, REPAIRS).outcome(tmp_path / "again") == ("all saved", "")
    outcome, detail = Judge(nursery, made, "torture.planted:judge_repair_with").outcome(tmp_path / "data", name)
    assert outcome == "silent", detail


@pytest.fixture(scope="module")
def specimens(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Specimen, Path]]:
    """Sound databases, and what they hold, by their form."""
    found = {}
    for form in FORMS:
        path = tmp_path_factory.mktemp(form) / "data"
        found[form] = nursery.start(f"{built_apart.__module__}:{built_apart.__name__}", str(path), 1, form).receive(), path
    return found


@pytest.fixture(scope="module")
def specimen(specimens: dict[str, tuple[Specimen, Path]]) -> tuple[Specimen, Path]:
    """That of one vector an item."""
    return specimens["vector"]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_broken_promise_is_told(
    nursery: Nursery, specimens: dict[str, tuple[Specimen, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    """With a bug planted the campaign tells of just that class, on files that are sound."""
    monkeypatch.setattr(campaign, "LONGEST", 4.0)
    specimen = specimens[form]
    shutil.copytree(specimen[1], tmp_path / "data")
    judge = Judge(nursery, specimen[0], "torture.planted:judge_with")
    outcome, detail = judge.outcome(tmp_path / "data", name)
    assert outcome == name.split(":", maxsplit=1)[0], detail


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_what_is_sound_is_unharmed(nursery: Nursery, specimens: dict[str, tuple[Specimen, Path]], tmp_path: Path, form: str) -> None:
    """A database that nothing was done to is told to be unharmed."""
    specimen = specimens[form]
    shutil.copytree(specimen[1], tmp_path / "data")
    assert Judge(nursery, specimen[0]).outcome(tmp_path / "data") == ("unharmed", "")


def test_harms_are_those_of_their_seed(specimen: tuple[Specimen, Path]) -> None:
    """A seed gives the same harms again, each of which changes the file, and all kinds of pages are hit."""
    data = (specimen[1] / "collections" / "c" / "data.mdb").read_bytes()
    pages = PageMap.of(data)
    harms = flips(pages, random.Random(3), 400) + page_harms(pages, random.Random(3), 60)
    assert harms == flips(pages, random.Random(3), 400) + page_harms(pages, random.Random(3), 60)
    assert sum(harm.done_to(data) != data for harm in harms) >= 450, "pages that are swapped may be equal"
    hit = {harm.where.split(",")[0] for harm in harms if harm.name == "flip"}
    assert hit == set(pages.by_kind())
    assert {"items:branch", "owners:branch", "runs:branch", "items:value", "journal:value", "freelist:leaf", "main:leaf"} <= hit
