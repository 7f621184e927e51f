"""Exit 0 when the server in this container is ready for requests; what Docker's HEALTHCHECK runs."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request

PORT = os.environ.get("KINBIN_PORT", "8080")
SCHEME = "https" if os.environ.get("KINBIN_TLS_CERT_FILE") else "http"

# The certificate is for the name that others ask; nobody sits between this process and its own machine's loopback.
anything = ssl.create_default_context()
anything.check_hostname = False
anything.verify_mode = ssl.CERT_NONE
# A proxy that the environment names is for the outside, not for this container.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=anything))
try:
    opener.open(f"{SCHEME}://127.0.0.1:{PORT}/readyz", timeout=4).close()
except OSError as problem:  # refused, timed out, or an HTTP status that is no success
    sys.exit(f"not ready: {problem}")
