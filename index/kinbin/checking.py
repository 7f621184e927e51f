"""The process in which collections are checked: `python -m kinbin.checking DATABASE NAME ...`, the child of `apart`.

Says one JSON list a line: [kind, collection, content].
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial

from kinbin.apart import PROGRESS, REPORT
from kinbin.database import open as open_database
from kinbin.records import CheckReport

__all__: list[str] = []


def _main(path: str, *names: str) -> None:
    """Check collections in turn."""
    with open_database(path) as database:
        for name in names:
            try:
                report = database.collection(name).check(partial(_say, PROGRESS, name))
            except Exception as error:  # noqa: BLE001 - damage may break any assumption; whoever asked is to be told of it
                report = CheckReport.of(error)
            _say(REPORT, name, asdict(report))


def _say(kind: str, name: str, content: object) -> None:
    sys.stdout.write(json.dumps([kind, name, content]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
