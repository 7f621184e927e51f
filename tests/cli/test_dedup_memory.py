"""kinbin dedup: what --memory promises, whatever the input. The peak of what is no page cache is read from the system, of a process."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import Result

import kinbin
from kinbin_service.deduplicating.memory import characters_of, limited, longest

MB = 256
MOST = longest(MB)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited and told on Linux")


def words(count: int, seed: int = 0) -> str:
    """A text of so many random words, of eight characters and a space."""
    return np.random.default_rng(seed).bytes(4 * count).hex(" ", 4)


def dedup(file: Path, memory: int, *more: str) -> tuple[int, str, float]:
    """Exit code, what was said, and the peak of memory in MB, of a run in a process of its own."""
    command = [sys.executable, "-m", "kinbin_service.cli", "dedup", str(file), "--memory", str(memory), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        peak = 0
        while child.poll() is None:
            for line in Path(f"/proc/{child.pid}/status").read_text(encoding="ascii").splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]))
            time.sleep(0.002)
        assert child.stdout is not None
        return child.returncode, " ".join(child.stdout.read().split()), peak / 1_024


@pytest.mark.slow
@LINUX
def test_pages_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """A page of 80 MB, which is read whole, is refused where 256 MB are allowed, within them; where it fits it is read."""
    file = tmp_path / "a.parquet"
    texts = [words(10_000, seed) for seed in range(1_000)]
    parquet.write_table(pa.table({"text": texts}), file, compression="none", use_dictionary=False)
    code, said, peak = dedup(file, MB)
    assert (code, "row group 0 needs more memory than is allowed: raise --memory" in said) == (1, True), said
    assert peak <= MB
    assert not list(tmp_path.glob("*.dedup.*"))
    code, said, peak = dedup(file, 512)
    assert (code, "1,000 of 1,000 documents are kept" in said) == (0, True), said
    assert peak <= 512


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("other", ["the same", "a dictionary", "another"])
def test_a_small_file_of_large_texts_is_read_in_parts(tmp_path: Path, other: str) -> None:
    """A text that stands 400 times takes a few kilobytes, and 200 MB where rows are read at once: of the texts or of another column."""
    text = words(60_000)
    columns: dict[str, Any] = {"text": ["a b c"] * 400, "page": [text] * 400} if other == "another" else {"text": [text] * 400}
    if other == "a dictionary":
        columns["text"] = pa.array(columns["text"]).dictionary_encode()
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table(columns), file, data_page_size=1 << 30, dictionary_pagesize_limit=1 << 30)
    assert file.stat().st_size < 1 << 20
    code, said, peak = dedup(file, MB, *(["--mark"] if other == "another" else []))
    assert (code, "1 of 400 documents are kept" in said) == (0, True), said
    assert peak <= MB
    if other == "another":
        out = parquet.ParquetFile(tmp_path / "a.dedup.parquet", read_dictionary=["page"]).read()
        assert out.num_rows == 400
        assert all(set(part.dictionary.to_pylist()) == {text} for part in out.column("page").chunks)


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("more", [["--chars", "5", "--segments", "unicode"], ["--words", "1"]])
def test_texts_as_long_as_allowed_fit(tmp_path: Path, more: list[str]) -> None:
    """Texts of the greatest length, whose characters are no ASCII, are cut, hashed and compared within the memory."""
    letters = "".join(map(chr, range(0x430, 0x450)))
    text = "".join(letters[ord(one) % 32] if one != " " else " " for one in words(MOST // 9))
    file = tmp_path / "a.ndjson"
    file.write_bytes(b"\n".join(orjson.dumps({"text": one}) for one in (text, text[:-9] + "ж", text[: len(text) // 3], text)))
    code, said, peak = dedup(file, MB, *more)
    assert (code, "2 of 4 documents are kept" in said) == (0, True), said
    assert peak <= MB


@pytest.mark.slow
@LINUX
def test_characters_that_become_many_are_counted_as_many(tmp_path: Path) -> None:
    """Texts of ﷺ, which are 18 characters each in the normal form, are handed on a few at a time, or refused."""
    file = tmp_path / "a.ndjson"
    file.write_bytes(b"\n".join(orjson.dumps({"text": f"{chr(0xFDFA) * 3_000} {number}"}) for number in range(400)))
    code, said, peak = dedup(file, MB, "--chars", "3")
    assert code == 0, said
    assert peak <= MB
    file.write_bytes(orjson.dumps({"text": chr(0xFDFA) * (MOST // 18 + 1)}))
    code, said, peak = dedup(file, MB)
    assert (code, f"document 1 has {(MOST // 18 + 1) * 18:,} characters, and the memory that is allowed holds {MOST:,}" in said) == (
        1,
        True,
    )
    assert peak <= MB


@pytest.mark.slow
def test_characters_are_counted_in_little_memory() -> None:
    """Of a text whose normal form is hundreds of megabytes, and which is refused by its count."""
    text = chr(0xFDFA) * (2 * MOST // 3) + chr(0x1F600)
    tracemalloc.start()
    try:
        assert characters_of(text) == 2 * MOST // 3 * 18 + 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    assert characters_of("straße" * 50_000) == 7 * 50_000


@pytest.mark.parametrize("form", ["ndjson", "csv", "txt", "parquet"])
def test_a_text_that_is_too_long_is_refused(run: Any, tmp_path: Path, form: str) -> None:
    """By its number, in every format, and before anything is written; with more memory it is taken."""
    file, text = tmp_path / f"a.{form}", "a b " * (MOST // 4 + 1)
    if form == "parquet":
        parquet.write_table(pa.table({"text": ["one", text]}), file)
    elif form == "csv":
        file.write_text(f"text\none\n{text}\n")
    else:
        file.write_bytes(b"\n".join(orjson.dumps({"text": one}) if form == "ndjson" else one.encode() for one in ("one", text)))
    result: Result = run("dedup", file, "--memory", str(MB))
    assert result.exit_code == 1
    assert f"document 2 has {len(text):,} characters, and the memory that is allowed holds" in " ".join(result.stderr.split())
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert run("dedup", file, "--memory", "512").exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.ndjson", b'{"text": "a"}\n{"text": "b", "image": "%s"}' % (b"x" * 2 * MOST), "document 2 has more than"),
        ("a.ndjson", b" " * (2 * MOST + 1), "document 1 has more than"),
        ("a.csv", b"text,more\na,b\nc" + b",d" * MOST, "document 2 has more than"),
        # A row over many short lines.
        ("a.csv", b'text,more\n"' + b"x\n" * (MOST + 1) + b'",b\n', "document 1 has more than"),
        ("a.csv", b"text," + b"d," * MOST, "the header has more than"),
    ],
)
def test_lines_and_rows_that_are_too_long_are_refused(run: Any, tmp_path: Path, name: str, content: bytes, says: str) -> None:
    """Whatever they hold: nothing is parsed that could become too large."""
    (tmp_path / name).write_bytes(content)
    result: Result = run("dedup", tmp_path / name, "--memory", str(MB))
    assert result.exit_code == 1
    assert f"{says} {2 * MOST:,} bytes, and the memory that is allowed holds no more: cut it, or raise --memory" in " ".join(
        result.stderr.split()
    )
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_parquet_goes_on_in_any_group(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off in the middle of a row group, a job goes on behind what it noted; rows are far from alike in length."""
    # In this process other tests' memory is let go of and taken meanwhile: the limit is far from what the job takes.
    texts = [words(20_000 if number % 97 == 0 else 12, number % 700) for number in range(3_000)]
    file, out = tmp_path / "a.parquet", tmp_path / "a.dedup.parquet"
    parquet.write_table(pa.table({"n": range(3_000), "text": texts}), file, row_group_size=400)
    assert run("dedup", file, "--memory", str(4 * MB)).exit_code == 0
    whole = parquet.read_table(out)
    firsts = {text: number for number, text in reversed(list(enumerate(texts)))}
    assert whole.column("n").to_pylist() == sorted(firsts.values())
    out.unlink()
    monkeypatch.setattr("kinbin.duplicates.texts._NOTED_BYTES", 1)
    monkeypatch.setattr("kinbin_service.deduplicating.source.BATCH", 150)
    add, count = kinbin.TextDuplicates.add, 0

    def failing(*given: Any) -> None:
        nonlocal count
        count += 1
        if count % 7 == 0:
            raise KeyboardInterrupt
        add(*given)

    monkeypatch.setattr("kinbin.TextDuplicates.add", failing)
    runs = 1
    while run("dedup", file, "--memory", str(4 * MB)).exit_code and runs < 9:
        runs += 1
    assert 2 < runs < 9
    assert parquet.read_table(out) == whole


LIMITED = f"""
from {limited.__module__} import limited
with limited(1 << 40):
    bytearray(1 << 26)
    print("less")
try:
    with limited(0):
        bytearray(1 << 27)
except MemoryError:
    print("MemoryError")
bytearray(1 << 27)
print("afterwards")
"""


@LINUX
def test_what_asks_for_more_than_the_limit_gets_an_error() -> None:
    """And what asks for less does not; behind it all is as it was. In a process of its own: here threads may let go of maps meanwhile."""
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "less\nMemoryError\nafterwards\n", done.stderr


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize(("size", "more"), [(15, []), (60, ["--mark"])])
def test_large_values_beside_the_texts_fit_or_are_refused(tmp_path: Path, size: int, more: list[str]) -> None:
    """Where a value of another column needs more than is allowed, to be read, copied or written, the file is refused within the memory."""
    file = tmp_path / "a.parquet"
    blobs = [bytes([number]) * (size << 20) for number in range(5)]
    table = pa.table({"text": [f"a{n} b{n} c{n}" for n in range(5)], "blob": blobs})
    parquet.write_table(table, file, row_group_size=1, compression="zstd", use_dictionary=False, write_statistics=False)
    code, said, peak = dedup(file, MB, *more)
    assert code in {0, 1}
    assert code == 0 or "needs more memory than is allowed: raise --memory" in said, said
    assert peak <= MB
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
@LINUX
def test_a_footer_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """What stands at the end of a Parquet file is read whole, too."""
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["a b c"]}).replace_schema_metadata({"k": "v" * (80 << 20)}), file)
    code, said, peak = dedup(file, MB)
    assert (code, "its footer needs more memory than is allowed" in said) == (1, True), said
    assert peak <= MB
