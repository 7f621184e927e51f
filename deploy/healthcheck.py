"""Exit 0 when the server in this container is ready for requests; what Docker's HEALTHCHECK runs."""

from __future__ import annotations

import os
import sys
import urllib.request

PORT = os.environ.get("KINBIN_PORT", "8080")

# A proxy that the environment names is for the outside, not for this container.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    opener.open(f"http://127.0.0.1:{PORT}/readyz", timeout=4).close()
except OSError as problem:  # refused, timed out, or an HTTP status that is no success
    sys.exit(f"not ready: {problem}")
