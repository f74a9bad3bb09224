"""What a form may send the server's keys to: hosts, variables and code that a dashboard's operator did not allow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backends.chat.providers import list_provider_hosts
from dashboard.app import create_app
from dashboard.limits import RunLimits
from data_schemas.errors import ConfigError
from tests.support.dashboards import TOKEN
from tests.support.schedulers import KeptScheduler

WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
EVIL = "http://evil.example:9/v1"


@contextmanager
def opened(folder: Path, scheduler: KeptScheduler, *hosts: str) -> Iterator[TestClient]:
    """The pages of a dashboard whose operator allows some hosts."""
    app = create_app([folder], folder / "cache", TOKEN, scheduler=scheduler, allowed_hosts=hosts)
    with TestClient(app, base_url="http://localhost", headers=WITH_TOKEN) as client:
        yield client


REFUSED: tuple[tuple[str, str, dict[str, str | bool]], ...] = (
    ("refresh", "chat.base_url", {"chat.engine": "openai", "chat.provider": "openai", "chat.base_url": EVIL}),
    ("refresh", "chat.base_url", {"chat.base_url": f"http://127.0.0.1/v1,{EVIL}"}),
    ("refresh", "executor", {"executor": "dask://localhost,@evil.example:8786"}),
    ("refresh", "wording.base_url", {"wording": True, "wording.base_url": EVIL}),
    ("refresh", "chat.api_key_env", {"chat.api_key_env": "AWS_SECRET_ACCESS_KEY"}),
    ("refresh", "cache_url", {"cache_url": "postgresql://kame@evil.example/answers"}),
    ("refresh", "cache_url", {"cache_url": "postgresql://kame@localhost,evil.example/answers"}),
    ("refresh", "cache_url", {"cache_url": "postgresql:///answers?host=evil.example"}),
    ("refresh", "executor", {"executor": "dask://evil.example:8786"}),
    ("refresh", "chat.serve_args.0", {"chat.engine": "vllm", "chat.serve_args.0": "--trust-remote-code"}),
    ("refresh", "speech.tts_options.base_url", {"speech.tts_options": f"{{base_url: '{EVIL}', model: m}}"}),
    ("refresh", "gate.asr_options.api_key_env", {"gate.asr_options": "{api_key_env: PGPASSWORD}"}),
    ("evaluate", "judge_url", {"checkpoint": "c", "path": "p", "judge_url": EVIL}),
    ("evaluate", "settings.0", {"checkpoint": "c", "path": "p", "settings.0": f"judge.chat.base_url={EVIL}"}),
    ("evaluate", "settings.0", {"checkpoint": "c", "path": "p", "settings.0": r'judge.chat.base_url="http\x3a//evil"'}),
    ("evaluate", "settings.0", {"checkpoint": "c", "path": "p", "settings.0": "judge.chat.api_key_env=PGPASSWORD"}),
    ("evaluate", "server_settings.0", {"checkpoint": "c", "path": "p", "server_settings.0": "classifier=os:system"}),
    ("serve", "back_ends.0.chat.base_url", {"checkpoint": "c", "back_ends.0.chat.base_url": EVIL}),
    ("serve", "listener.options.url", {"checkpoint": "c", "listener.options": "{url: 'wss://evil.example/listen'}"}),
    ("serve", "classifier", {"checkpoint": "c", "classifier": "os:system"}),
)


@pytest.mark.parametrize(("kind", "path", "values"), REFUSED)
def test_a_form_that_would_send_a_key_elsewhere_is_refused_at_its_field(
    tmp_path: Path, kind: str, path: str, values: dict[str, Any]
) -> None:
    scheduler = KeptScheduler()
    with opened(tmp_path, scheduler) as client:
        faults = client.post(f"/start/{kind}/check", json={"values": values}).json()["faults"]
        assert list(faults) == [path]
        for form in ({"values": values}, {"values": values, "cron": "0 3 * * 1"}):
            answer = client.post(f"/start/{kind}", json=form)
            assert answer.status_code == 400
            assert answer.json()["error"].startswith(f"{path}: ")
    assert (scheduler.started, scheduler.schedules) == ([], [])
    with opened(tmp_path, scheduler, "*") as client:
        assert client.post(f"/start/{kind}", json={"values": values}).status_code == 200


def test_the_message_says_how_to_allow_a_host(tmp_path: Path) -> None:
    form = {"values": {"chat.engine": "openai", "chat.base_url": EVIL, "chat.model": "m"}}
    scheduler = KeptScheduler()
    with opened(tmp_path, scheduler, "gpu-1") as client:
        told = client.post("/start/refresh", json=form).json()["error"]
        assert "Allowed are localhost, gpu-1" in told
        assert "--allow-host evil.example." in told
        assert client.post("/start/refresh/plan", json=form).json()["figures"] == scheduler.planned == []
    with opened(tmp_path, scheduler, "*.example") as client:
        assert client.post("/start/refresh", json=form).status_code == 200


ALLOWED: tuple[dict[str, Any], ...] = (
    {"chat": {"base_url": "https://api.openai.com/v1", "api_key_env": "TEAM_OPENAI_API_KEY"}},
    {"chat": {"base_url": "http://LOCALHOST:8000/v1,http://127.0.0.1:8001/v1,http://[::1]:8002/v1"}},
    {"out": "s3://bucket/corpus", "datasets": ["hf://datasets/owner/name@main/=0.5", "gs://bucket/corpus"]},
    {"cache_url": "postgresql:///answers", "executor": "local"},
    {"cache_url": "postgresql://kame@127.0.0.1:5432/answers?host=/var/run/postgresql"},
    {"care": {"origins": ["https://team.example"]}, "record": {"notice": "See https://team.example/privacy."}},
    {"chat": {"price": {"source": "https://prices.example"}}, "sources": [{"licence": "https://licences.example"}]},
    {"settings": ["modes=[direct]", "no line", "judge.chat.base_url=http://localhost/v1", "a=[*x"], "classifier": None},
)


@pytest.mark.parametrize("settings", ALLOWED)
def test_this_machine_the_providers_and_what_is_not_contacted_are_allowed(settings: dict[str, Any]) -> None:
    assert RunLimits(list_provider_hosts()).find_faults(settings) == {}


@pytest.mark.parametrize(
    "url",
    ["http://localhost.evil.example", "http://localhost:1@evil.example", "http://localhost\t.evil.example/v1",
     "http://localhost\\@evil.example/", "http://evil.example\\localhost", "://evil.example", "http://2130706433/",
     "postgresql://u@localhost%2Cevil.example/d", "postgresql://u@[evil/d", "hf+http://evil.example", "http://\ud800"],
)  # fmt: skip
def test_an_address_that_only_looks_like_this_machine_is_refused(url: str) -> None:
    (fault,) = RunLimits(["api.openai.com"]).find_faults({"chat": {"base_url": url}}).values()
    assert fault.encode()


@pytest.mark.parametrize("host", ["http://gpu-1", "gpu-1:8000", "", "a b"])
def test_what_is_no_host_cannot_be_allowed(host: str) -> None:
    with pytest.raises(ConfigError, match="not the name of a host"):
        RunLimits([host])
