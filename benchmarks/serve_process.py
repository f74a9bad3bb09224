"""The real `kame serve` in another process for the duration of a `with` block, and what its callers say."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backends.engine import Samples
from backends.tts.kokoro import Kokoro
from tests.support.runs import RunError
from tests.support.soak_verdict import SENTENCES

_ENDING_S = 60


class RunningServer(NamedTuple):
    """A server that callers can reach at `url`; `log` is the file with its standard error."""

    url: str
    process_id: int
    log: Path


@contextmanager
def run_server(checkpoint: str, settings: Sequence[str], n_descriptors: int | None = None) -> Iterator[RunningServer]:
    """Runs `kame serve` on a free port of this machine for a `with` block, and yields how to reach it.

    Args:
        settings: options for `kame serve --set`.
        n_descriptors: maximum number of open files and connections; with None, that of this process.

    Raises:
        RunError: it does not start, or does not end when it is stopped.
    """
    options = [each for setting in settings for each in ("--set", setting)]
    command = [str(Path(sys.executable).with_name("kame")), "serve", checkpoint, "--port", "0", "--json", *options]
    if n_descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {n_descriptors}; exec "$@"', "sh", *command]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)  # noqa: S603 - our own
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            started = json.loads(first) if first else {}
            if "url" not in started:
                raise RunError(f"The server does not start: {first}{log.read_text(encoding='utf-8')[-2000:]}")
            yield RunningServer(str(started["url"]), process.pid, log)
        finally:
            process.terminate()
            try:
                process.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise RunError(f"The server did not end within {_ENDING_S} s of SIGTERM.") from None


def speak_sentences() -> list[Samples]:
    """Returns the audio of each of `SENTENCES`, spoken by Kokoro."""
    kokoro = Kokoro()
    voice = kokoro.list_voices()[0].name
    return [kokoro.synthesise(each.text, voice, 1.0).samples for each in SENTENCES]
