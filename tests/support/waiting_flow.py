"""The flow `train` without a training: it writes that it is at work, and ends when a file says so."""

import time
from pathlib import Path
from typing import Any

from prefect import flow


@flow(name="train", persist_result=False)
def train(config: dict[str, Any]) -> None:
    """Waits.

    Args:
        config: `out`: a folder, in which `begun` is written, and `end` is waited for.
    """
    out = Path(config["out"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "begun").touch()
    until = time.monotonic() + 600
    while not (out / "end").exists() and time.monotonic() < until:
        time.sleep(0.1)
