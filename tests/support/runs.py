"""Whole runs on deterministic doubles, in this process or as the command, and how to tell two of them apart."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import yaml

from data_schemas.config import (
    AlignmentConfig,
    ChatConfig,
    GateConfig,
    OracleConfig,
    PartConfig,
    RefreshConfig,
    SourceConfig,
    SpeechConfig,
)
from pipelines.run.parts import Part, PartRecord

ITEMS = Path(__file__).resolve().parents[2] / "examples" / "items"
ENDING_S = 30.0
"""How long children of a killed run may take to end: at most the 1.5 s of their imports where this was written."""


class RunError(Exception):
    """A run's outcome is not what it should be, or processes of it live on."""


class Silent:
    """Progress that tells nobody."""

    def begin_stage(self, name: str, n_items: int) -> None:
        """Nothing is shown."""

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Nothing is shown."""


def config_on_doubles(out: Path, workers: int = 1, sources: tuple[Path, ...] = ()) -> RefreshConfig:
    """A run on doubles that makes several parts and shards; sources are named by their files' stems."""
    files = sources or tuple(ITEMS / f"{name}.jsonl" for name in ("gsm8k", "mmlu_pro"))
    return RefreshConfig(
        out=str(out),
        sources=[SourceConfig(name=file.stem, path=str(file)) for file in files],
        workers=workers,
        parts=PartConfig(dialogues_per_part=2, parts_per_shard=2),
        speech=SpeechConfig(tts="double"),
        gate=GateConfig(asr="none"),
        alignment=AlignmentConfig(aligner="double"),
        oracle=OracleConfig(interval_s=4.0),  # few events: asking for them takes most of a run on doubles
        chat=ChatConfig(engine="double", max_in_flight=4),  # more would overflow the double's queue of connections
    )


def contents(out: Path) -> dict[str, bytes]:
    """Returns the content of every file of a dataset and its store by name, without what differs between equal runs.

    Left out are `runs/` (times), the lock, and SQLite's file of answers; `answers` has its sorted rows instead.
    """
    files = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
    skipped = ("runs/", ".store/lock", ".store/answers.sqlite")
    held = {name: path.read_bytes() for name, path in files.items() if not name.startswith(skipped)}
    return held | {"answers": repr(answers(out)).encode()}


def answers(out: Path) -> list[tuple[Any, ...]]:
    """The chat model's answers kept in a dataset's store, by key; none where none was asked for."""
    file = out / ".store" / "answers.sqlite"
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT * FROM replies ORDER BY key").fetchall()


def assert_same(found: Path, expected: Path) -> None:
    """Compares two datasets with their stores.

    Raises:
        RunError: the first file that is missing, too many, or differs.
    """
    ours, theirs = contents(found), contents(expected)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            what = "is missing" if name not in ours else "is one too many" if name not in theirs else "differs"
            raise RunError(f"{found}: {name} {what}; compare with {expected}.")


def start_command(config: RefreshConfig, folder: Path) -> subprocess.Popen[str]:
    """Starts `kame refresh` with a configuration, in its own session; all its processes hold the pipe of its output.

    Args:
        folder: where the YAML file of the configuration is written.
    """
    file = folder / f"{Path(config.out).name}.yaml"
    file.write_text(yaml.safe_dump(config.model_dump(mode="json")), encoding="utf-8")
    return subprocess.Popen(
        [Path(sys.executable).with_name("kame"), "refresh", "--json", "--config", str(file)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def assert_all_gone(process: "subprocess.Popen[str]") -> str:
    """Waits until no process of an ended command is left, and returns what they said.

    Raises:
        RunError: some live on; they are ended now.
    """
    with suppress(subprocess.TimeoutExpired):
        said, _ = process.communicate(timeout=ENDING_S)  # until nobody holds the output any more
        _, alive = psutil.wait_procs(_group(process.pid), timeout=ENDING_S)
        if not alive:
            return said
    left = [" ".join(each.cmdline()) for each in _group(process.pid)]
    os.killpg(process.pid, signal.SIGKILL)
    raise RunError(f"{ENDING_S:.0f} s after the command had ended there still ran: {left}")


def _group(group_id: int) -> list[psutil.Process]:
    """The processes of a group, less those that have ended and only wait to be collected."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(process.pid) == group_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
