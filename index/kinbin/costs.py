"""What things take, in nanoseconds: the one table by which ways are weighed against each other.

Measured with one thread on the machine of docs/benchmarks.md; only the ratios matter. `kinbin calibrate` measures them again on
another machine, and a file of what it found, named by KINBIN_COSTS, takes the place of these when the library is imported.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from kinbin.errors import InvalidInput

__all__ = ["COSTS", "Costs"]

_MOST_NS = 1e9
_SHORT_ROWS, _CACHED_ROWS = 65_536, 524_288
"""Rows whose numbers take two bytes; whose counts fit a core's second-level cache."""


def _cost(ns: float, text: str, measured: str) -> float:
    """A cost: what it is, and how it was measured."""
    value: float = field(default=ns, metadata={"text": text, "measured": measured})
    return value


@dataclass(frozen=True, slots=True)
class Costs:
    """Times in nanoseconds."""

    band: float = _cost(30.0, "a band of a run that is looked up", "bands of a run without postings, by their number")
    posting: float = _cost(1.1, "a posting, where counts lie in the second-level cache", "searches by bands, by postings read")
    far_posting: float = _cost(2.2, "a posting, where they do not (more than 524,288 rows)", "the same of a million rows")
    short_posting: float = _cost(0.75, "a posting of two bytes (65,536 rows at most)", "the same of 32,768 rows")
    hash: float = _cost(0.25, "a hash of a nonzero", "codes of 1,000 rows, by hashes and nonzeros")
    verify: float = _cost(55.0, "a row at random that is scored, besides its nonzeros", "searches by bands, by rows verified")
    scan: float = _cost(8.0, "a row in sequence that is scored, besides its nonzeros", "exact scans, by rows of few nonzeros")
    nonzero: float = _cost(0.4, "a nonzero of a row that is scored", "exact scans, by nonzeros a row")
    wide_nonzero: float = _cost(1.7, "the same where features are looked up by a hash", "the same of sparse rows")
    fresh: float = _cost(4.0, "a fresh row whose keys are compared", "searches of fresh rows by bands")
    fresh_scan: float = _cost(25.0, "a fresh row that is scored", "exact scans of fresh rows")
    walk: float = _cost(3_000.0, "beginning a walk: the code of a query, 64 entries", "walks, by nodes compared: what is left at none")
    node: float = _cost(13.0, "a node that a walk meets, besides comparing its code", "walks, by nodes compared")
    code: float = _cost(0.8, "a code that a scan passes, besides comparing it", "exact scans by codes of several widths")
    scan_line: float = _cost(1.0, "64 bytes of a code that are compared, of eight codes together", "the same, by the bytes of a code")
    line: float = _cost(1.6, "64 bytes of a code alone that are compared", "exact scans under products, by the bytes of a code")
    far_line: float = _cost(7.0, "the same, from memory", "walks over a million rows, by the bytes of a code")
    entry: float = _cost(1.0, "an entry of a packed code that is compared", "exact scans by packed codes, by their entries")

    def posting_of(self, rows: int) -> float:
        """A posting of a run of so many rows."""
        if rows <= _SHORT_ROWS:
            return self.short_posting
        return self.posting if rows <= _CACHED_ROWS else self.far_posting

    @classmethod
    def named(cls, path: str | None) -> Costs:
        """The costs in a JSON file, by name; those that it does not name, and all if there is no file, as they are here.

        Raises:
            InvalidInput: there is no such file, it names what there is not, or a cost is no number above 0; the message says which.
        """
        if not path:
            return cls()
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise _refused(path, f"cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise _refused(path, f"is no JSON ({error})") from None
        known = [one.name for one in fields(cls)]
        if not isinstance(data, dict):
            raise _refused(path, "is no object of costs by name")
        for name, ns in data.items():
            if name not in known:
                raise _refused(path, f"names {name!r}, which is none of {', '.join(known)}")
            if not isinstance(ns, int | float) or isinstance(ns, bool) or not 0.0 < ns < _MOST_NS:
                raise _refused(path, f"gives {name} as {ns!r}: expected nanoseconds, above 0 and below {_MOST_NS:g}")
        return replace(cls(), **{name: float(ns) for name, ns in data.items()})


def _refused(path: str, why: str) -> InvalidInput:
    return InvalidInput.of("bad_parameter", f"the file of costs {path} {why}; kinbin calibrate --write makes one", field="KINBIN_COSTS")


COSTS = Costs.named(os.environ.get("KINBIN_COSTS"))
"""The costs of this process."""
