"""The import of all files of one command, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from kinbin_service.importing.bad_rows import BadRows
from kinbin_service.importing.batches import ROW_TEMPLATE, Columns, SourceError
from kinbin_service.importing.formats import ReadOptions, brings_ids, open_source
from kinbin_service.importing.job import AddOptions, ImportJob, Outcome, stopping_on_signals
from kinbin_service.importing.progress import watch
from kinbin_service.importing.targets import Added, Target

__all__ = ["Summary", "import_files"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a command did with its files together."""

    files: int
    """Files finished."""
    rows: int
    """Rows acknowledged in this run."""
    skipped: int
    """Rows that interrupted runs of the same command had imported."""
    empty: int
    """Empty lines of text that this run passed over."""
    added: Added
    seconds: float
    finished: bool
    """Whether all files are imported."""
    stopped_by: int | None
    """The signal that asked to end, even if it came when everything was imported; None if none did."""
    last: Path
    last_rows: int
    """Rows of the last file that are behind, in this run or before."""
    columns: dict[str, Columns]
    """What became of each file's contents."""
    bad: BadRows
    """What was left out in this run."""


def import_files(
    files: Sequence[Path],
    target: Target,
    folder: Path,
    read: ReadOptions,
    add: AddOptions,
    *,
    resume: bool,
    console: Console,
    bad: BadRows | None = None,
) -> Summary:
    """Import files into a collection, keeping in `folder` what is needed to resume; notes and progress go to `console`.

    With `bad`, bad rows are left out and noted there.

    Raises SourceError, TargetDiffers, OSError, and what the target raises when the database or the service fails.
    """
    _check_ids_differ(files, read)
    jobs: list[ImportJob] = []
    outcomes: list[Outcome] = []
    columns: dict[str, Columns] = {}
    with stopping_on_signals() as stop, watch(console) as progress:
        for file in files:
            with closing(open_source(file, read, folder)) as source:
                columns[str(file)] = source.columns
                job = ImportJob(source, target, folder, read.as_json(), add, bad)
                note = job.resume() if resume else None
                if note:
                    console.print(f"{file}: {note}", markup=False, highlight=False, soft_wrap=True)
                outcomes.append(job.run(progress, stop))
            jobs.append(job)
            if not outcomes[-1].finished:
                break
    finished = len(outcomes) == len(files) and outcomes[-1].finished
    if finished:
        for job in jobs:
            job.forget()
    return _summary(files, outcomes, columns, bad or BadRows(), finished, stop.signal)


def _summary(
    files: Sequence[Path], outcomes: Sequence[Outcome], columns: dict[str, Columns], bad: BadRows, finished: bool, stopped_by: int | None
) -> Summary:
    added = Added()
    for outcome in outcomes:
        added = added.plus(outcome.added)
    last = outcomes[-1]
    return Summary(
        files=sum(outcome.finished for outcome in outcomes),
        rows=sum(outcome.rows for outcome in outcomes),
        skipped=sum(outcome.skipped for outcome in outcomes),
        empty=sum(outcome.empty for outcome in outcomes),
        added=added,
        seconds=sum(outcome.seconds for outcome in outcomes),
        finished=finished,
        stopped_by=stopped_by,
        last=files[len(outcomes) - 1],
        last_rows=last.position,
        columns=columns,
        bad=bad,
    )


def _check_ids_differ(files: Sequence[Path], read: ReadOptions) -> None:
    """Refuse several files whose rows would all be numbered from 0: each would replace the items of the one before."""
    folders = [file for file in files if file.is_dir()]
    if len(folders) > 1:
        raise SourceError(folders[1], "ids of images are their paths in the folder: import folders one by one, or the one that they are in")
    template = read.id_format or ROW_TEMPLATE
    numbered = [file for file in files if not brings_ids(file, read)]
    names = {template.replace("{stem}", file.stem) for file in numbered}
    if len(names) == len(numbered):
        return
    advice = "the file names are alike: import them one by one" if "{stem}" in template else 'say --id-format "{stem}-{row}"'
    raise SourceError(
        numbered[1], f"its rows would get the same ids as those of {numbered[0]}, row numbers from 0, and replace them: {advice}"
    )
