"""`python -m kinbin_service` serves with the settings of the environment."""

import sys

from kinbin_service.server import run

if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(f"{sys.argv[1]}: python -m kinbin_service takes no arguments, but KINBIN_… of the environment; kinbin serve takes both")
    run()
