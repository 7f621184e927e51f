"""Headers for tests: sound ones, and stored ones as JSON, to be damaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinbin.storage import format as fmt
from kinbin.storage.format import Part
from kinbin.storage.headers import Configuration, ContrastHeader, RunHeader
from kinbin.storage.transactions import Reader, Writer

CONFIGURATION = Configuration("ngmm", None, "gcws", None, 2, 2**64 - 1, 1)


def run_header(rows: int = 49) -> RunHeader:
    """The header of a run of so many rows."""
    contrast = ContrastHeader(np.array([[1.5, 2.0], [0.0, 3.5]]), np.array([0.25, 0.5]), 4.25, True)
    return RunHeader(rows, 2, 12, 4, 2, 12, "gcws", contrast)


def header_json(reader: Reader, number: int) -> dict[str, Any]:
    """The header of a run or a link set, as it is stored."""
    data: dict[str, Any] = fmt.decode_json(reader.run_part(number, Part.HEADER, verify=True), "a header")
    return data


def put_header_json(writer: Writer, number: int, data: dict[str, Any]) -> None:
    """Replace it, with a right checksum."""
    writer.put_run_part(number, Part.HEADER, 0, fmt.encode_json(data))
