"""`kame dashboard`: it tells its address, answers there, and says what is wrong."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from flows.cli.app import app
from tests.support.dashboards import write_small

pytestmark = pytest.mark.full
KAME = Path(sys.executable).with_name("kame")


def test_it_serves_at_the_address_that_it_prints_and_ends_when_told(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    environ = {**os.environ, "KAME_CACHE": str(tmp_path / "cache"), "SECRET": "s"}
    command = [str(KAME), "dashboard", str(tmp_path / "root"), "--port", "0", "--token-env", "SECRET", "--json"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = json.loads(process.stdout.readline())["url"]
        with urllib.request.urlopen(f"{url}healthz", timeout=60) as answer:
            assert json.load(answer)["status"] == "ok"
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = answer.read().decode()
        process.terminate()
        errors = process.stderr.read()
    assert "kame refresh" in page, "an empty folder says what to type"
    assert "read-only" not in page
    assert (errors, process.returncode) == ("kame: stopped.\n", 130)


def test_inspect_opens_the_page_of_one_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = write_small(tmp_path / "small set")
    opened: list[str] = []
    answers: list[str] = []

    def serve(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        with TestClient(server.config.app, base_url="http://localhost") as client:  # type: ignore[arg-type]
            path = opened[0].partition(str(sockets[0].getsockname()[1]))[2]
            while (answer := client.get(path, headers={"Accept": "text/html"})).status_code == 202:
                pass
            answers.append(answer.text)

    monkeypatch.setenv("KAME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("uvicorn.Server.run", serve)
    result = CliRunner().invoke(app, ["inspect", str(small), "--open", "--dialogue", "mine-1-v0"])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == opened[0]
    assert "<h1>mine-1-v0</h1>" in answers[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["{root}/nothing"], "is not a folder"),
        (["{root}", "--token-env", "NOT_SET"], "NOT_SET is not set"),
        (["{root}", "--token-env", "EMPTY"], "token is empty"),
        (["{root}", "--host", "192.0.2.1"], "Cannot listen on 192.0.2.1"),
        (["{root}", "--host", "no.such.name.invalid"], "Cannot listen"),
    ],
)
def test_what_is_wrong_is_told_in_one_message(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("KAME_CACHE", str(tmp_path))
    if "no.such.name.invalid" in options:
        monkeypatch.setattr("socket.create_server", _no_such_name)
    result = CliRunner().invoke(app, ["dashboard", *(each.format(root=tmp_path) for each in options)])
    assert result.exit_code == 2
    assert told in result.stderr


def _no_such_name(*_: object, **__: object) -> None:
    raise socket.gaierror(-2, "Name or service not known")
