"""The tutorial: all commands of docs/tutorial.md run in order, as printed, in an empty folder that has `examples/`.

Voices and models come from the cache of `make voices` and from the installed packages; nothing is downloaded.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from backends.chat.child_server import find_free_port
from data_schemas.errors import BackendError

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SERVERS = {"dashboard": 8080, "serve": 8998}
"""Commands that run until Ctrl-C, and the port on which each listens in the tutorial."""
SET_UP = ("make install", "source ")
"""Beginnings of commands that create or activate the environment in which this test already runs."""
READY_S = 300
"""A server loads its models first, which takes several times as long on a busy machine."""
STOPPED_BY_CTRL_C = 130


def read_commands() -> list[str]:
    """Returns the commands of the indented blocks, each on one line."""
    blocks = re.findall(r"(?:^    \S.*\n(?:^     +\S.*\n)*)+", TEXT, re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if not line.strip().startswith(SET_UP)]


def list_files(commands: list[str]) -> set[str]:
    """Returns the files and folders that the commands write, and those of them that the text names."""
    written = {found for line in commands for found in re.findall(r"--(?:out|wav) (\S+)", line)}
    named = set(re.findall(r"`([\w.-]+/[\w./-]+)`", TEXT))
    return written | {each for each in named if each.startswith(tuple(f"{folder}/" for folder in written))}


def choose_port(wanted: int) -> int:
    """Returns this port if it is free, and otherwise any free one."""
    try:
        return find_free_port(wanted, "test")
    except BackendError:
        return find_free_port(0, "test")


def run_until_ready(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Starts a server, waits until the page at the address that it prints answers, and stops it with Ctrl-C."""
    port = str(choose_port(SERVERS[words[1]]))
    command = [*words[: words.index("--port")], "--port", port] if "--port" in words else [*words, "--port", port]
    with (
        (folder / "errors.txt").open("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), (folder / "errors.txt").read_text(encoding="utf-8")
            with urllib.request.urlopen(url, timeout=READY_S) as answer:
                assert b"<html" in answer.read()
            process.send_signal(signal.SIGINT)
            code = process.wait(READY_S)
        finally:
            process.kill()
    printed = (folder / "errors.txt").read_text(encoding="utf-8")
    assert code in (0, STOPPED_BY_CTRL_C), f"{shlex.join(command)} ended with {code}:\n{printed}"
    assert "Traceback" not in printed, printed


def test_every_command_is_found() -> None:
    commands = read_commands()
    assert [line for line in commands if not line.startswith("kame ")] == []
    assert len(commands) == len(re.findall(r"^    kame ", TEXT, re.MULTILINE)) >= 9
    assert set(SERVERS) <= {line.split()[1] for line in commands}
    assert not any("\\" in line for line in commands)


@pytest.mark.slow
def test_the_commands_run_in_order(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "250"}
    commands = read_commands()
    for line in commands:
        words = shlex.split(line)
        if words[1] in SERVERS:
            run_until_ready(words, tmp_path, environment)
            continue
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        audio = re.findall(r"^Listen: (\S+)", done.stdout, re.MULTILINE)
        assert (words[1] in ("preview", "talk")) <= bool(audio), f"{line}\n{done.stdout}"
        assert [each for each in audio if not (tmp_path / each).is_file()] == [], line
    files = list_files(commands)
    assert "data/tutorial/rejects" in files
    assert [each for each in sorted(files) if not (tmp_path / each).exists()] == []
    assert [*(tmp_path / "checkpoints").glob("*/model.safetensors")], "the training exports a checkpoint"
