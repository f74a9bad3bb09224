"""`kame serve`: from what is typed to a configuration, and a server for as long as the command runs."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from data_schemas.config.serving import NO_CHECKPOINT
from data_schemas.errors import ConfigError
from flows import settings
from flows.cli.app import app
from flows.cli.serve import build_serve_config, make_back_end_settings

pytestmark = pytest.mark.full

KAME = Path(sys.executable).with_name("kame")


def settings_in(folder: Path, **more: Any) -> Path:
    """A YAML file of a server with two back-ends."""
    written = {
        "checkpoint": "from-yaml",
        "back_ends": [
            {"name": "fast", "chat": {"engine": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "a"}},
            {"name": "math", "chat": {"engine": "openai", "base_url": "http://127.0.0.1:2/v1", "model": "b"}},
        ],
        "routes": [{"words": ["sum"], "back_end": "math"}],
        **more,
    }
    path = folder / "server.yaml"
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    return path


def test_what_is_typed_goes_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = settings_in(tmp_path, port=9000, limits={"idle_s": 5, "drain_s": 1})
    typed = {
        **make_back_end_settings("http://127.0.0.1:3/v1", None, None, None),
        "port": 0,
        "limits.idle_s": 7,
        "back_ends.1.max_tokens": 96,
        "mode": None,
    }
    config = build_serve_config(file, typed)
    assert (config.checkpoint, config.port, config.mode) == ("from-yaml", 0, "tandem")
    assert (config.limits.idle_s, config.limits.drain_s, config.limits.max_unsent_s) == (7, 1, 2)
    assert [each.chat.base_url for each in config.back_ends] == ["http://127.0.0.1:3/v1", "http://127.0.0.1:2/v1"]
    assert [each.max_tokens for each in config.back_ends] == [64, 96]
    assert config.back_ends[0].chat.model == "a"


def test_without_a_file_one_back_end_is_the_embedded_model_or_the_one_that_is_typed() -> None:
    (embedded,) = build_serve_config(None, {"checkpoint": "c"}).back_ends
    assert (embedded.name, embedded.chat.engine) == ("default", "llamacpp")
    typed = {"checkpoint": "c", **make_back_end_settings("http://127.0.0.1:3/v1", "big", None, "mine.yaml")}
    (called,) = build_serve_config(None, typed).back_ends
    assert (called.chat.engine, called.chat.base_url, called.chat.model) == ("openai", "http://127.0.0.1:3/v1", "big")
    assert called.prompt == "mine.yaml"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"checkpoint": "c", "mode": "duet"}, "mode"),
        ({"checkpoint": "c", "voice": "hers"}, "voice"),
        ({"checkpoint": "c", "port": 70000}, "port"),
        ({"checkpoint": "c", "back_ends.1.name": "other"}, "'1' is not an index of the list, which has 1"),
        ({"checkpoint": "c", "port.number": 1}, "port is a single value"),
        ({"checkpoint": "c", "limits": {"idle": 1}}, "limits.idle"),
        ({"checkpoint": "c", "routes": [{"words": ["a"], "back_end": "none"}]}, "there is no back-end 'none'"),
        ({"checkpoint": "c", "care.certificate": "a.pem"}, "given together"),
        ({"checkpoint": "c", "back_ends.0.chat.base_url": "http://user:secret@host/v1"}, "user, password"),
    ],
)
def test_what_does_not_hold_is_told_with_its_name(typed: dict[str, Any], told: str) -> None:
    if "port.number" in typed:
        typed = {"port": 1, **typed}
    with pytest.raises(ConfigError) as refused:
        build_serve_config(None, typed)
    assert told in str(refused.value)
    assert "secret@" not in str(refused.value)


def test_without_a_checkpoint_the_shipped_one_is_taken_or_it_is_told_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "find_shipped_checkpoint", lambda: None)
    with pytest.raises(ConfigError) as refused:
        build_serve_config(None, {"checkpoint": None, "mode": None})
    for told in ("No checkpoint is given", "kame serve CHECKPOINT", "kame train", "--mode cascade"):
        assert told in str(refused.value)
    assert build_serve_config(None, {"mode": "cascade"}).checkpoint == NO_CHECKPOINT
    monkeypatch.setattr(settings, "find_shipped_checkpoint", lambda: "there/nano")
    for typed in ({}, {"mode": "cascade"}):
        assert build_serve_config(None, typed).checkpoint == "there/nano"
    assert build_serve_config(settings_in(tmp_path), {}).checkpoint == "from-yaml"


def test_a_file_that_is_none_and_a_setting_that_is_none_end_with_2(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("checkpoint: [", encoding="utf-8")
    for options in (["--config", str(tmp_path / "broken.yaml")], ["c", "--set", "port"], ["c", "--set", "prot=1"]):
        done = CliRunner().invoke(app, ["serve", *options])
        assert (done.exit_code, "Traceback" in done.output) == (2, False)


def test_a_port_that_is_taken_is_told_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", "there/is-none", "--port", port])
    assert done.exit_code == 2
    assert f"Cannot listen on 127.0.0.1, port {port}" in done.output


@contextmanager
def served(checkpoint: str, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process of its own, and its URL; its chat model is down."""
    command = [str(KAME), "serve", checkpoint, "--port", "0", "--json", "--llm-url", "http://127.0.0.1:1/v1"]
    command += ["--llm-model", "none", "--max-sessions", "2", "--set", "listener.engine=double", *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, **environment}, **pipes) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told, process.stderr.read() if process.stderr else ""
            yield process, json.loads(told)["url"]
        finally:
            process.kill()


def read_until(process: "subprocess.Popen[str]", told: str) -> None:
    """Reads its error stream until something is told there."""
    assert process.stderr is not None
    while told not in process.stderr.readline():
        assert process.poll() is None


def test_it_serves_until_it_is_told_to_stop_and_those_who_talk_may_finish(checkpoint: str) -> None:
    with served(checkpoint, KAME_SERVE_TOKEN="open sesame") as (process, url):
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert "<title>Talk with KAME</title>" in httpx.get(url).text
        for name in ("talk.js", "session.js", "shown.js", "sound.js", "worklet.js", "talk.css"):
            assert httpx.get(f"{url}/{name}").status_code == 200
        chat, key = f"{url.replace('http', 'ws')}/api/chat", {"Authorization": "Bearer open sesame"}
        with pytest.raises(InvalidStatus) as refused:
            connect(chat)
        assert refused.value.response.status_code == 401
        with connect(chat, additional_headers=key) as socket:
            assert socket.recv() == b"\x00"
            process.send_signal(signal.SIGTERM)
            read_until(process, "new callers are refused; 1 running sessions may continue")
            assert httpx.get(f"{url}/readyz").status_code == 503
            with pytest.raises(InvalidStatus) as late:
                connect(chat, additional_headers=key)
            assert late.value.response.status_code == 503
        _, said = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (0, False)
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_a_second_signal_ends_it_at_once(checkpoint: str) -> None:
    patient = ("--set", "limits.drain_s=3600")
    with served(checkpoint, *patient) as (process, url), connect(f"{url.replace('http', 'ws')}/api/chat") as socket:
        assert socket.recv() == b"\x00"
        process.send_signal(signal.SIGINT)
        read_until(process, "A second signal stops the server now")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (0, False)
