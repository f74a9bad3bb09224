"""The flow `train` without a training: it writes that it is at work, and ends when a file says so."""

import time
from pathlib import Path
from typing import Any

from prefect import flow


@flow(name="train", persist_result=False)
def train(config: dict[str, Any]) -> None:
    """Writes the file `begun`, and waits for the file `end`, at most 600 s.

    Args:
        config: `out`: the folder of both files, which is made if it does not exist.
    """
    out = Path(config["out"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "begun").touch()
    until = time.monotonic() + 600
    while not (out / "end").exists() and time.monotonic() < until:
        time.sleep(0.1)
