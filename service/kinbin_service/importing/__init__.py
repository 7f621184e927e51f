"""Files into collections: readers of vectors, strings, series and images as streams of batches, and resumable imports of them.

    formats.py    which reader a file needs, and the options of all of them
    arrays.py     .npy and .npz, memory-mapped          csv_files.py, ndjson.py, svmlight.py    text, line by line (lines.py)
    images.py     folders of images                    texts.py, ts_files.py    strings and series
    batches.py    what readers hand over: items that know their row or line
    bad_rows.py   what was left out
    targets.py    where they go                          vectors.py    the forms of one vector
    job.py        one file: read, add, remember          state.py      what is remembered, and when it is trusted
    run.py        all files of a command                 progress.py   what the user sees meanwhile

Memory is bounded by one batch, whatever the size of the file.
"""

from kinbin_service.importing.bad_rows import BadRows
from kinbin_service.importing.batches import Batch, SourceError
from kinbin_service.importing.formats import FORMATS, ReadOptions
from kinbin_service.importing.job import AddOptions
from kinbin_service.importing.progress import watch
from kinbin_service.importing.run import Summary, import_files
from kinbin_service.importing.targets import (
    Added,
    DatabaseTarget,
    Refused,
    Target,
    TargetDiffers,
    Wanted,
    check_alike,
    check_fields,
    told,
    told_parameters,
    try_out,
    vectors_by_field,
)
from kinbin_service.importing.vectors import parse_vector

__all__ = [
    "FORMATS",
    "AddOptions",
    "Added",
    "BadRows",
    "Batch",
    "DatabaseTarget",
    "ReadOptions",
    "Refused",
    "SourceError",
    "Summary",
    "Target",
    "TargetDiffers",
    "Wanted",
    "check_alike",
    "check_fields",
    "import_files",
    "parse_vector",
    "told",
    "told_parameters",
    "try_out",
    "vectors_by_field",
    "watch",
]
