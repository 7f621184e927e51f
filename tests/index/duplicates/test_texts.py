"""Near duplicates among texts: shingles, min-wise hashes, and clusters against all pairs."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinbin
from kinbin.duplicates import buckets, identical, work
from kinbin.duplicates.minhash import MinHash

WORDS = [f"{chr(97 + n % 26)}{n}" for n in range(3_000)]
TEXT = st.text(
    st.sampled_from(list("abAB cC.,!(\t\n\x1c_-é ßﬁＡ\u2003\u00a0·1²世'\u0301\u200d\U0001f1e9\U0001f1ea\U0001f469")), max_size=40
)


def sets_of(texts: Sequence[str], segments: str = "spaces", **size: int) -> list[set[str]]:
    """The distinct shingles by the specification; empty where there are none."""
    found: list[set[str]] = []
    for text in texts:
        try:
            found.append(set(kinbin.shingles(text, segments=segments, **size)))
        except kinbin.InvalidInput:
            found.append(set())
    return found


@pytest.mark.parametrize("segments", ["spaces", "unicode"])
@given(texts=st.lists(TEXT, max_size=6), what=st.sampled_from(["words", "characters"]), length=st.integers(1, 4))
def test_shingles_are_those_of_the_specification(segments: str, texts: list[str], what: str, length: int) -> None:
    """Sets of features are as large as the sets of shingles, and share as many, whatever the texts hold and however they are cut."""
    size = {what: length}
    rows = kinbin.Shingler(segments=segments, **size).rows(texts)
    wanted = sets_of(texts, segments, **size)
    features = [set(rows.row(i)[0].tolist()) for i in range(len(texts))]
    assert [len(one) for one in features] == [len(one) for one in wanted]
    for i in range(len(texts)):
        assert list(rows.row(i)[0]) == sorted(features[i])
        for j in range(i):
            assert len(features[i] & features[j]) == len(wanted[i] & wanted[j])


def test_hashes_agree_as_often_as_sets_are_similar(rng: np.random.Generator) -> None:
    """Two sets agree in a hash with the probability of their Jaccard similarity, and hashes do not depend on each other."""
    rows = kinbin.Shingler(words=1).rows([" ".join(WORDS[:60]), " ".join(WORDS[20:80]), " ".join(WORDS[55:115])])
    shares = []
    for seed in range(40):
        codes = MinHash(seed).codes(rows, 8, 64)
        shares.append([(codes[0] == codes[1]).mean(), (codes[0] == codes[2]).mean(), ((codes[0] == codes[1]).sum(axis=0) == 8).mean()])
    near, far, bands = np.mean(shares, axis=0)
    assert near == pytest.approx(0.5, abs=0.02)
    assert far == pytest.approx(5 / 115, abs=0.01)
    assert bands == pytest.approx(0.5**8, abs=0.006)


def planted(rng: np.random.Generator, count: int) -> list[str]:
    """Texts of 30 words, and as many in which up to 4 are others; some twice, some empty."""
    base = rng.integers(0, len(WORDS), (count, 30))
    copies = base.copy()
    for n, row in enumerate(copies):
        row[rng.choice(30, n % 5, replace=False)] = rng.integers(0, len(WORDS), n % 5)
    texts = [" ".join(WORDS[word] for word in row) for row in np.concatenate([base, copies])]
    return [*texts, *texts[:20], "", "...", " "]


def clusters_of(texts: Sequence[str], folder: Path, **asked: float) -> NDArray[np.uint32]:
    """Of each text the first of its cluster."""
    with kinbin.TextDuplicates(folder, shingler=kinbin.Shingler(words=3), **asked) as job:  # type: ignore[arg-type]  # numbers
        job.add(texts)
        return np.array(job.finish().cluster)


def components(texts: Sequence[str], least: float) -> NDArray[np.int64]:
    """The same by comparing all pairs."""
    sets = sets_of(texts, words=3)
    first = np.arange(len(texts))
    for i in range(len(texts)):
        for j in range(i):
            if sets[i] and sets[j] and len(sets[i] & sets[j]) >= least * len(sets[i] | sets[j]) and first[i] != first[j]:
                first[first == max(first[i], first[j])] = min(first[i], first[j])
    return first


@pytest.mark.parametrize("least", [0.5, 0.7, 0.95])
def test_clusters_are_those_of_all_pairs(rng: np.random.Generator, tmp_path: Path, least: float) -> None:
    """With a tiny miss clusters are those of all pairs; with a larger one they are parts of them, as many as stated."""
    texts = planted(rng, 150)
    truth = components(texts, least)
    np.testing.assert_array_equal(clusters_of(texts, tmp_path / "sure", min_score=least, miss=1e-9), truth)
    found = clusters_of(texts, tmp_path / "quick", min_score=least, miss=0.2)
    np.testing.assert_array_equal(truth[found], truth)
    joined, wanted = (found != np.arange(len(texts))).sum(), (truth != np.arange(len(texts))).sum()
    assert joined >= 0.8 * wanted - 4 * np.sqrt(0.16 * wanted)


def test_a_small_memory_changes_nothing(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys sorted in parts, bands cut, equal texts found in parts and rows read one by one give the same clusters."""
    texts = planted(rng, 150)
    wanted = clusters_of(texts, tmp_path / "one", min_score=0.6, miss=0.01)
    monkeypatch.setattr(buckets, "_BUFFER_ROWS", 16)
    monkeypatch.setattr(identical, "_SORTED", 50)
    with kinbin.TextDuplicates(tmp_path / "two", shingler=kinbin.Shingler(words=3), min_score=0.6, miss=0.01) as job:
        job._budget = type(job._budget)(places=8, keys=0, row_bytes=1, zeros=job._budget.zeros)
        for start in range(0, len(texts), 7):
            job.add(texts[start : start + 7])
        np.testing.assert_array_equal(job.finish().cluster, wanted)


def test_the_same_text_thousands_of_times_is_one(tmp_path: Path) -> None:
    """Equal sets are never compared; texts without a word are all kept."""
    texts = ["One two, three four!", "one TWO three four"] * 5_000 + [""] * 10
    with kinbin.TextDuplicates(tmp_path / "work", shingler=kinbin.Shingler(words=2)) as job:
        job.add(texts)
        found = job.finish()
        assert found.compared == 0
        assert found.kept == 11
        assert found.cluster.tolist() == [0] * 10_000 + list(range(10_000, 10_010))


def test_sets_of_the_same_hash_are_held_against_each_other() -> None:
    """Records are equal byte by byte, not by their hash."""
    records = np.array([1, 2, 3, 1, 2, 3, 1, 2, 4, 1, 2, 3], np.uint8)
    out = np.zeros(6, np.uint32)
    ends = np.array([3, 6, 6, 9, 12, 12], np.uint64)
    # As files that are mapped to be read are: other types would be other machine code.
    for array in (records, ends):
        array.flags.writeable = False
    identical.note_first(records, ends, np.zeros(6, np.uint64), out)
    assert out.tolist() == [0, 0, 2, 3, 0, 5]


@pytest.mark.parametrize("segments", ["spaces", "unicode"])
def test_work_goes_on_where_it_was(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segments: str) -> None:
    """What was noted stays, what was written behind it is forgotten, and another job or another process is refused."""
    texts = planted(rng, 100)
    wanted = clusters_of(texts, tmp_path / "whole")
    shingler = kinbin.Shingler(words=3, segments=segments)
    with kinbin.TextDuplicates(tmp_path / "work", shingler=shingler) as job:
        job.add(texts[:100])
        job._note(["here"])
        job.add(texts[100:120])
        with pytest.raises(kinbin.InvalidInput, match="another process works"):
            kinbin.TextDuplicates(tmp_path / "work", shingler=shingler)
    with pytest.raises(kinbin.InvalidInput, match=r"another job \(min_score\)"):
        kinbin.TextDuplicates(tmp_path / "work", shingler=shingler, min_score=0.9)
    with kinbin.TextDuplicates(tmp_path / "work", shingler=shingler) as job:
        assert (job.documents, job.position) == (100, ["here"])
        job.add(texts[job.documents :])
        np.testing.assert_array_equal(job.finish().cluster, wanted)
        with pytest.raises(kinbin.InvalidInput, match="have been added"):
            job.add(["more"])
    monkeypatch.setattr(work.Work, "_file", None)
    with kinbin.TextDuplicates(tmp_path / "work", shingler=shingler) as job:
        assert job.is_read
        monkeypatch.undo()
        np.testing.assert_array_equal(job.finish().cluster, wanted)
        job.remove()
    assert not (tmp_path / "work").exists()


def test_work_that_was_cut_otherwise_is_another_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work goes on with the same segments only, and with the same version of what cuts them; at spaces its notes are as ever."""
    spaces, unicode = kinbin.Shingler(words=3), kinbin.Shingler(words=3, segments="unicode")
    kinbin.TextDuplicates(tmp_path / "spaces", shingler=spaces).close()
    kinbin.TextDuplicates(tmp_path / "unicode", shingler=unicode).close()
    job = {"format": 1, "words": 3, "characters": None, "min_score": 0.8, "miss": 0.01, "seed": 0, "source": ""}
    assert (tmp_path / "spaces" / "job.json").read_bytes() == orjson.dumps({"job": job})
    for folder, other in (("spaces", unicode), ("unicode", spaces)):
        with pytest.raises(kinbin.InvalidInput, match=r"another job \(segments\)"):
            kinbin.TextDuplicates(tmp_path / folder, shingler=other)
    kinbin.TextDuplicates(tmp_path / "unicode", shingler=unicode).close()
    monkeypatch.setattr("kinbin.duplicates.shingling.version", lambda _: "99.0")
    with pytest.raises(kinbin.InvalidInput, match=r"another job \(segments\)"):
        kinbin.TextDuplicates(tmp_path / "unicode", shingler=unicode)
    kinbin.TextDuplicates(tmp_path / "spaces", shingler=spaces).close()


def break_off_removal(job: kinbin.TextDuplicates, stopped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the work of a job, until so many files are gone: the process might be killed there."""
    unlink, done = Path.unlink, iter(range(stopped))

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.exists() and next(done, None) is None:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with suppress(KeyboardInterrupt):
        job.remove()
    job.close()
    monkeypatch.undo()


@pytest.mark.parametrize("stopped", range(9))
def test_work_whose_removal_was_broken_off_is_nobody_elses(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: int
) -> None:
    """Whatever files a killed removal left, another job is refused, or begins with nothing of them."""
    shingler, texts = kinbin.Shingler(words=3), planted(rng, 20)
    job = kinbin.TextDuplicates(tmp_path / "work", shingler=shingler, source="one")
    job.add(texts)
    job.finish()
    break_off_removal(job, stopped, monkeypatch)
    others = [f"{n} differs from {n + 1} in all" for n in range(4)]
    told: AbstractContextManager[Any] = nullcontext()
    if (tmp_path / "work" / "job.json").exists():
        told = pytest.raises(kinbin.InvalidInput, match="another job")
    with told, kinbin.TextDuplicates(tmp_path / "work", shingler=shingler, source="other") as job:
        job.add(others)
        assert job.finish().cluster.tolist() == [0, 1, 2, 3]
    kinbin.TextDuplicates.discard(tmp_path / "work")
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("stopped", range(10))
def test_work_whose_removal_was_broken_off_is_done_anew(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: int
) -> None:
    """Whatever files a killed removal left, the same job finds what it found before."""
    shingler, texts = kinbin.Shingler(words=3), planted(rng, 20)
    job = kinbin.TextDuplicates(tmp_path / "work", shingler=shingler)
    job.add(texts)
    wanted = np.array(job.finish().cluster)
    break_off_removal(job, stopped, monkeypatch)
    with kinbin.TextDuplicates(tmp_path / "work", shingler=shingler) as job:
        if not job.is_read:
            job.add(texts[job.documents :])
        np.testing.assert_array_equal(job.finish().cluster, wanted)


@pytest.mark.parametrize("name", ["records.bin", "ends.bin", "content.bin"])
def test_work_that_lacks_what_was_noted_is_refused(rng: np.random.Generator, tmp_path: Path, name: str) -> None:
    """A file that is shorter than its notes say is not taken for one that ends in zeros."""
    shingler, texts = kinbin.Shingler(words=3), planted(rng, 20)
    with kinbin.TextDuplicates(tmp_path / "work", shingler=shingler) as job:
        job.add(texts)
        job.finish()
    os.truncate(tmp_path / "work" / name, (tmp_path / "work" / name).stat().st_size - 1)
    with pytest.raises(kinbin.InvalidInput, match=f"lacks a part of '{name}'") as refused:
        kinbin.TextDuplicates(tmp_path / "work", shingler=shingler)
    assert refused.value.problems[0].field == "work"
    kinbin.TextDuplicates.discard(tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_full_disk_is_told_and_work_goes_on(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk has no room for the files of a stage it ends with StorageFull, not with a signal; later it goes on."""
    texts = planted(rng, 50)
    wanted = clusters_of(texts, tmp_path / "whole")

    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with kinbin.TextDuplicates(tmp_path / "work", shingler=kinbin.Shingler(words=3)) as job:
        job.add(texts)
        monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
        with pytest.raises(kinbin.StorageFull):
            job.finish()
        monkeypatch.undo()
        np.testing.assert_array_equal(job.finish().cluster, wanted)


def test_bad_parameters_are_refused(tmp_path: Path) -> None:
    """What is malformed is told with its name, and no folder is made."""
    shingler = kinbin.Shingler(characters=5)
    for asked, text in [
        ({"min_score": 0.0}, "min_score is a similarity"),
        ({"miss": 0.0}, "miss is a probability"),
        ({"memory_mb": 10}, "memory is 256 MB"),
    ]:
        with pytest.raises(kinbin.InvalidInput, match=text):
            kinbin.TextDuplicates(tmp_path / "work", shingler=shingler, **asked)  # type: ignore[arg-type]  # the mistake under test
    for size in ({}, {"words": 1, "characters": 1}, {"words": 0}):
        with pytest.raises(kinbin.InvalidInput):
            kinbin.Shingler(**size)  # type: ignore[arg-type]  # the mistake under test
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("texts", "says"),
    [("hello", "texts are a list"), ([1, 2], "texts are strings, not int"), (["a", None], "texts are strings, not NoneType")],
)
def test_what_is_no_text_is_refused(tmp_path: Path, texts: Any, says: str) -> None:
    """Before anything is written: what was added stays, and goes on."""
    with kinbin.TextDuplicates(tmp_path / "work", shingler=kinbin.Shingler(words=1)) as job:
        job.add(["one"])
        with pytest.raises(kinbin.InvalidInput, match=says):
            job.add(texts)
        job.add(["one"])
        assert job.finish().cluster.tolist() == [0, 0]


def test_what_is_no_shingler_is_refused(tmp_path: Path) -> None:
    """And no folder is made."""
    wrong: Any = 3
    with pytest.raises(kinbin.InvalidInput, match=r"such as Shingler\(words=3\), not int"):
        kinbin.TextDuplicates(tmp_path / "work", shingler=wrong)
    assert not (tmp_path / "work").exists()
