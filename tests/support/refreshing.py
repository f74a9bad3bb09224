"""`kame refresh` in a folder of its own, on doubles, and what a message of it must be: for tests of what goes wrong."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from backends.chat.double import DoubleEngine
from flows.cli.app import app

DOUBLES: dict[str, dict[str, Any]] = {
    "speech": {"tts": "double"},
    "gate": {"asr": "none"},
    "alignment": {"aligner": "double"},
    "chat": {"engine": "double"},
}
ROWS = [
    {"question": f"What is the sum of {n} and two, when it is late?", "answer": f"#### {n + 2}"} for n in range(3, 7)
]
GOOD = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


class Bench:
    """A folder with a good source, settings of doubles, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.file("good.jsonl", GOOD)

    def file(self, name: str, content: bytes) -> Path:
        """Writes a file into the folder, and returns its path."""
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def refresh(self, *typed: object, source: str | None = None, **settings: Any) -> Result:
        """Runs `kame refresh` on doubles in this process, and returns its result.

        Args:
            typed: further arguments of the command.
            source: value of --source; None for the good source.
            settings: sections of the YAML file, which replace those of the doubles.
        """
        file = self.file(
            "my.yaml", yaml.safe_dump({**DOUBLES, "out": str(self.out), "workers": 1, **settings}).encode()
        )
        named = source or f"gsm8k={self.folder / 'good.jsonl'}"
        arguments = ["refresh", "--source", named, "--config", str(file), *map(str, typed)]
        return CliRunner().invoke(app, arguments)

    def state(self) -> dict[str, bytes]:
        """Returns manifest, card and shards by path: what a run that fails must not change."""
        files = [path for path in self.out.rglob("*") if path.is_file()]
        kept = ("dataset.json", "README.md", "data", "oracles", "rejects")
        return {str(p.relative_to(self.out)): p.read_bytes() for p in files if p.relative_to(self.out).parts[0] in kept}

    def refresh_by(self, engine: DoubleEngine, *typed: object, **chat: Any) -> Result:
        """Runs a refresh against a chat model's double that is a server of its own, and returns its result.

        Args:
            typed: further arguments of the command.
            chat: further settings of the section `chat`.
        """
        with engine.serve() as endpoint:
            reached = {"engine": "openai", "base_url": endpoint.base_url, "model": "double", "endpoint": "mine", **chat}
            return self.refresh(*typed, chat=reached)


def assert_one_message(result: Result, exit_code: int, *says: str) -> None:
    """Asserts that the command ended with this exit code and one message `kame: …`, in which all patterns are found."""
    said = [line for line in result.stderr.splitlines() if line.startswith("kame: ")]
    assert result.exit_code == exit_code, f"{result.output}\n{result.exception!r}"
    assert len(said) == 1, result.stderr
    assert "Traceback" not in result.output
    for text in says:
        assert re.search(text, result.stderr), result.stderr
