"""Prefect flows, runs without Prefect, and the command `kame`."""

import os

# Prefect reads these when it is imported, which nobody but the modules of this package does.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
