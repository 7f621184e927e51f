"""Name the tests that failed in the last run: `python tests/support/failed.py MOST` ends with 1 if there are more, or none are noted."""

import json
import sys
from pathlib import Path

NOTED = Path(__file__).parents[2] / ".pytest_cache/v/cache/lastfailed"


def main(most: int) -> int:
    """Print them; 0 if there are some, and at most so many."""
    failed = sorted(json.loads(NOTED.read_text())) if NOTED.exists() else []
    if not failed:
        print("no failed test is noted: the run ended before it could note one", file=sys.stderr)
        return 1
    for one in failed:
        print(f"failed beside others: {one}", file=sys.stderr)
    if len(failed) > most:
        print(f"{len(failed)} failed; more than {most} are not tried again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
