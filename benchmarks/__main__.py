"""Run benchmarks one after the other, each in a process of its own: `python -m benchmarks [NAME ...] [OPTION ...]`."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

import report  # noqa: E402 - the scripts are programs, and so is this: their folder is where they import from


def main() -> int:
    """Run the named ones, or all; options go to each of them. 1 when one failed, 2 for a name that is none."""
    given = sys.argv[1:]
    names = list(itertools.takewhile(lambda argument: not argument.startswith("-"), given))
    rest = given[len(names) :]
    if not set(names) <= set(report.BENCHMARKS):
        print(f"benchmarks are {', '.join(report.BENCHMARKS)}; options come after their names", file=sys.stderr)
        return 2
    failed = []
    for name in names or report.BENCHMARKS:
        print(f"\n## {name}\n", flush=True)
        if subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *rest], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
