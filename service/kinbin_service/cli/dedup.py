"""`kinbin dedup`: a file of documents without its near duplicates. It needs no server and no database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbin_service.cli.options import JsonOption
from kinbin_service.cli.output import Failure, error_console, failing_in_one_line, print_json

if TYPE_CHECKING:
    from kinbin import TextDuplicates
    from kinbin_service.importing.progress import Watch

__all__ = ["dedup_command"]


class Segments(StrEnum):
    """How texts are cut."""

    SPACES = "spaces"
    UNICODE = "unicode"


def dedup_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="Documents: .ndjson, .jsonl, .csv, .tsv, .parquet, .txt (a line each)."
        ),
    ],
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Field or column with the text. Default: text.")] = None,
    words: Annotated[int | None, typer.Option(min=1, metavar="N", help="Compare runs of N words. Default: 3.")] = None,
    chars: Annotated[int | None, typer.Option(min=1, metavar="N", help="Compare runs of N characters instead.")] = None,
    segments: Annotated[
        Segments, typer.Option(help="Cut texts at white space, or by the rules of Unicode (UAX #29; takes kinbin[text]).")
    ] = Segments.SPACES,
    min_score: Annotated[float, typer.Option(metavar="J", help="Jaccard similarity from which two documents are near.")] = 0.8,
    miss: Annotated[float, typer.Option(metavar="P", help="Most probability of a near pair to be overlooked: 1e-9 to below 1.")] = 0.01,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write. Default: FILE with .dedup before its suffix.")] = None,
    mark: Annotated[
        bool, typer.Option("--mark", help="Write all documents, with cluster (number of its first document, from 0) and keep.")
    ] = False,
    memory: Annotated[
        int,
        typer.Option(
            min=256,
            max=1 << 24,
            metavar="MB",
            help="Memory to hold at most, besides the page cache. What does not fit is refused: at 256 a text of 1.4 million characters.",
        ),
    ] = 1_024,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the work. Default: beside the output; removed at the end.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the hashes.")] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, whatever the folder of the work holds.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a file of documents without near duplicates: the first of each cluster stays, as it is.

    Two documents are near whose sets of word (or character) shingles have a Jaccard similarity of --min-score; texts are compared in
    Unicode NFKC, case folded, words without the punctuation around them. --segments unicode finds words where no spaces are (of Chinese
    and Thai single characters), and never cuts an emoji or a letter with its marks. Clusters are what hangs together by near pairs
    (single linkage). Every pair is verified exactly; a near pair is overlooked with probability --miss at most. Documents without a word
    are kept; blank lines (nothing but white space of
    ASCII) are no documents, and are left out.

    Broken off, even by a kill, the same command goes on where it was. The output is replaced when all of it is written.
    """
    if words is not None and chars is not None:
        raise typer.BadParameter("give --words or --chars, not both")
    if text is not None and file.suffix.lower() == ".txt":
        raise typer.BadParameter("a line is a document here: there are no columns to name", param_hint="--text")
    text = text or "text"
    target = _target(file, out)
    folder = work or target.with_name(f"{target.name}.work")
    if not folder.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {folder.parent}", param_hint="--work")
    began = time.perf_counter()
    with failing_in_one_line(as_json):
        import kinbin
        from kinbin_service.deduplicating import deduplicate, documents
        from kinbin_service.importing import watch

        if restart:
            kinbin.TextDuplicates.discard(folder)
        source = documents(file, text, memory)
        said = source_of(file, text)
        about: dict[str, Any] = {"min_score": min_score, "miss": miss, "seed": seed, "memory_mb": memory, "source": said}
        shingler = kinbin.Shingler(words=None if chars is not None else words or 3, characters=chars, segments=segments.value)
        with _begun(folder, shingler=shingler, **about) as job, watch(error_console()) as bar:

            def check() -> None:
                if not file.exists() or source_of(file, text) != said:
                    raise _Changed(f"{file} changed while it was read, and nothing was written: run the command again")

            done = deduplicate(source, job, target, mark=mark, check=check, progress=_Stages(bar, file.name, job))
    seconds = round(time.perf_counter() - began, 2)
    if as_json:
        told = {"documents": done.documents, "kept": done.kept, "miss_probability": done.miss_probability, "compared": done.compared}
        print_json({"file": str(file), "out": str(target), **told, "seconds": seconds})
        return
    typer.echo(
        f"{target}: {done.kept:,} of {done.documents:,} documents are kept{' and marked' if mark else ''}, in {seconds:,} s; "
        f"{done.compared:,} pairs were compared, a near one is overlooked with probability {done.miss_probability:.2g} at most"
    )


def _target(file: Path, out: Path | None) -> Path:
    """The file to write.

    Raises:
        typer.BadParameter: it cannot be.
    """
    target = out or file.with_name(f"{file.stem}.dedup{file.suffix}")
    wrong = None
    if target.suffix.lower() != file.suffix.lower():
        wrong = f"the output has the format of the input: end its name with {file.suffix}"
    elif target.is_dir():
        wrong = "the output is a folder: name a file"
    elif not target.parent.is_dir():
        wrong = f"there is no folder {target.parent}"
    elif target.exists() and target.samefile(file):
        wrong = "the output is the input: name another file"
    if wrong is not None:
        raise typer.BadParameter(wrong, param_hint="--out")
    return target


@contextmanager
def _begun(folder: Path, **about: Any) -> Iterator[TextDuplicates]:
    """The work in a folder, begun or gone on with. It is removed when it is done, is of a file that is no more, or holds nothing yet.

    Raises:
        Failure: the folder holds other work.
    """
    import kinbin
    from kinbin_service.importing import SourceError

    try:
        job = kinbin.TextDuplicates(folder, **about)
    except kinbin.InvalidInput as error:
        if error.problems[0].field != "work":
            raise
        what = "; source is the file, as it was, and --text" if "source" in str(error) else ""
        raise Failure(f"{error}{what}; --restart removes it and begins anew") from None
    with job:
        try:
            yield job
        except _Changed:
            job.remove()
            raise
        except SourceError:
            if job.position is None and not job.is_read:
                job.remove()
            raise
        job.remove()


class _Changed(Failure):
    """The input is not what it was."""


class _Stages:
    """Shows the stages of a job one after the other: reading counts bytes, and the documents that were read beside them."""

    def __init__(self, bar: Watch, name: str, job: TextDuplicates) -> None:
        self._bar, self._name, self._job = bar, name, job
        self._stage, self._seen = "", job.documents

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._stage = stage
            self._seen = self._seen if stage == "reading" else 0
            self._bar.start(f"{self._name}: {stage}", total, 0)
        seen = self._job.documents if stage == "reading" else done
        self._bar.advance(done, seen - self._seen)
        self._seen = seen


def source_of(file: Path, text: str) -> str:
    """What tells this input from others, and from what it was before."""
    about = file.stat()
    return f"{file.resolve()} {text} {about.st_size} {about.st_mtime_ns}"
