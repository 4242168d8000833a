"""Asks the driver whether it is alive; exit code 0 if so.

The port is that of `REPUT_METRICS_PORT`, 9464 by default. On Kubernetes the probes ask instead.
"""

import os
import sys
import urllib.error
import urllib.request

_PORT = int(os.environ.get("REPUT_METRICS_PORT", "9464"))

try:
    with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/healthz", timeout=5):
        pass
except (urllib.error.URLError, TimeoutError) as error:
    sys.exit(f"healthcheck: {error}")
