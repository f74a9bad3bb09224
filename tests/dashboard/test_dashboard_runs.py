"""Pages of runs on a scheduler in memory: what they show, what they change, and what they refuse."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from dashboard.app import create_app
from dashboard.runs import KINDS, Blocker, RefusedRunError
from tests.support.dashboards import SCRIPT, TOKEN, write_small
from tests.support.schedulers import RUN, KeptScheduler
from tests.support.training_pages import write_run

WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
FORM = {"values": {"sources.0.name": "gsm8k", "sources.0.path": "a.jsonl", "limit": "3", "out": "data"}}
SETTINGS = {"out": "data", "sources": [{"name": "gsm8k", "path": "a.jsonl"}], "limit": 3}


@pytest.fixture
def scheduler() -> KeptScheduler:
    return KeptScheduler(RUN, replace(RUN, run_id="r2", name=SCRIPT, state="failed", message=f"It broke. {SCRIPT}"))


@pytest.fixture
def client(scheduler: KeptScheduler, tmp_path: Path) -> Iterator[TestClient]:
    (tmp_path / "root").mkdir()
    app = create_app([tmp_path / "root"], tmp_path / "cache", TOKEN, scheduler=scheduler)
    with TestClient(app, base_url="http://localhost", headers={"Accept": "text/html,*/*"}) as client:
        yield client


def test_the_list_shows_state_progress_and_what_it_is_at(client: TestClient) -> None:
    page = client.get("/runs").text
    assert RUN.name in page
    assert '<progress max="100" value="40.0"' in page
    assert "speech gsm8k-train-s0000" in page
    assert "75.0 s" in page
    assert RUN.name not in client.get("/runs?state=failed").text
    assert "No run is of this kind" in client.get("/runs?kind=train").text
    assert client.get("/runs?kind=nothing").status_code == 404


def test_what_runs_hold_is_text(client: TestClient) -> None:
    for path in ("/runs", "/runs/r2"):
        page = client.get(path).text
        assert SCRIPT not in page
        assert "&lt;script&gt;" in page
        assert page.count("<script") == page.count('<script src="/static/') + page.count('<script type="module" src=')


def test_a_run_has_its_settings_and_its_log(client: TestClient) -> None:
    page = client.get("/runs/r1").text
    assert "limit: 3" in page
    assert 'href="/start/refresh?like=r1"' in page
    told = client.get("/runs/r1/log?first=1").json()
    assert [each["text"] for each in told["lines"]] == ["line 1", "line 2"]
    assert client.get("/runs/nothing/log").status_code == 404


def test_a_run_is_cancelled(client: TestClient, scheduler: KeptScheduler) -> None:
    assert client.post("/runs/r1/cancel", headers=WITH_TOKEN).json() == {"url": "/runs/r1"}
    assert scheduler.cancelled == ["r1"]


def test_a_run_that_waits_for_a_server_offers_to_stop_it(client: TestClient, scheduler: KeptScheduler) -> None:
    blockers = [Blocker("s1", f"serve {SCRIPT}", "serve"), Blocker("r1", "train first", "train")]
    late = replace(RUN, run_id="r3", kind="train", state="scheduled", state_name="Late", waits_for="the end of")
    scheduler.runs["r3"] = replace(late, blockers=blockers)
    page = client.get("/runs/r3").text
    assert SCRIPT not in page
    assert page.count('href="/runs/r1"') == page.count('href="/runs/s1"') == 1
    assert page.count('data-then="/runs/r3"') == page.count('data-post="/runs/s1/cancel"') == 1
    assert "/runs/r1/cancel" not in page, "a training ends by itself"


def test_a_form_is_checked_and_starts_a_run(client: TestClient, scheduler: KeptScheduler) -> None:
    wrong: dict[str, Any] = {"values": FORM["values"] | {"limit": "0"}}
    told = client.post("/start/refresh/check", json=wrong, headers=WITH_TOKEN).json()
    assert list(told["faults"]) == ["limit"]
    assert client.post("/start/refresh", json=wrong, headers=WITH_TOKEN).status_code == 400
    assert scheduler.started == []
    assert client.post("/start/refresh", json=FORM, headers=WITH_TOKEN).json() == {"url": "/runs/r1"}
    assert scheduler.started == [("refresh", SETTINGS)]


def test_a_plan_is_shown_before_a_run_is_started(client: TestClient, scheduler: KeptScheduler) -> None:
    wrong: dict[str, Any] = {"values": FORM["values"] | {"limit": "0"}}
    told = client.post("/start/refresh/plan", json=wrong, headers=WITH_TOKEN).json()
    assert (list(told["faults"]), told["figures"], scheduler.planned) == (["limit"], [], [])
    told = client.post("/start/refresh/plan", json=FORM, headers=WITH_TOKEN).json()
    assert scheduler.planned == [("refresh", SETTINGS)]
    assert [each["value"] for each in told["figures"]] == ["1.5 h", "unknown"]
    assert told["figures"][0]["formula"] == "3 × 1,800 s"
    assert scheduler.started == []


def test_the_sample_questions_fill_the_form_of_a_refresh(client: TestClient) -> None:
    address = "/start/refresh?sample=yes"
    assert f'href="{address}"' in client.get("/").text, "nobody has a dataset yet"
    assert f'href="{address}"' in client.get("/start/refresh").text
    assert 'value="samples.jsonl"' in client.get(address).text
    assert "sample=yes" not in client.get("/start/train").text


def test_a_run_is_the_beginning_of_another(client: TestClient) -> None:
    page = client.get("/start/refresh?like=r1").text
    assert 'data-path="sources.0.name"' in page
    assert 'value="gsm8k"' in page


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_form_that_offers_a_plan_where_there_can_be_one(client: TestClient, kind: str) -> None:
    page = client.get(f"/start/{kind}")
    assert page.status_code == 200
    assert " style=" not in page.text
    assert ('id="plan"' in page.text) == (kind in ("refresh", "train"))
    assert client.get("/start/nothing").status_code == 404


def test_a_schedule_is_set_paused_resumed_and_removed(client: TestClient, scheduler: KeptScheduler) -> None:
    cron = FORM | {"cron": "0 3 * * 1", "timezone": "Europe/Zurich"}
    assert client.post("/start/refresh", json=cron, headers=WITH_TOKEN).json() == {"url": "/runs"}
    assert scheduler.started == []
    assert scheduler.schedules[0].settings == SETTINGS
    address = f"/runs/schedules/refresh/{scheduler.schedules[0].schedule_id}"
    for do, text in (("pause", "Resume"), ("resume", "Pause")):
        client.post(address, json={"do": do}, headers=WITH_TOKEN)
        assert f">{text}</button>" in client.get("/runs").text
    client.post(address, json={"do": "remove"}, headers=WITH_TOKEN)
    assert "There are no schedules" in client.get("/runs").text


def test_a_schedule_of_defaults_alone_is_listed(client: TestClient, scheduler: KeptScheduler) -> None:
    scheduler.add_schedule("refresh", {}, "0 3 * * 1", "UTC")
    assert "0 3 * * 1" in client.get("/runs").text


def test_a_training_follows_a_refresh_on_a_schedule(client: TestClient, scheduler: KeptScheduler) -> None:
    training = replace(RUN, run_id="r3", kind="train", name="train nano", settings={"out": "run", "max_steps": 9})
    scheduler.runs["r3"] = training
    assert '<option value="r3">train nano</option>' in client.get("/start/refresh").text
    assert "Then train as" not in client.get("/start/train").text
    cron = FORM | {"cron": "0 3 * * 1", "then": "r3"}
    assert client.post("/start/refresh", json=cron, headers=WITH_TOKEN).status_code == 200
    assert scheduler.trained_after == [("data", training.settings)]
    assert "train on data when it has changed" in client.get("/runs").text
    assert client.post("/start/refresh", json=cron | {"then": "r1"}, headers=WITH_TOKEN).status_code == 400
    assert len(scheduler.schedules) == 1


def test_a_schedule_that_is_refused_changes_no_automation(
    client: TestClient, scheduler: KeptScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RefusedRunError("bad is no cron expression.")

    monkeypatch.setattr(scheduler, "add_schedule", refuse)
    scheduler.runs["r3"] = replace(RUN, run_id="r3", kind="train", name="train nano", settings={"out": "run"})
    cron = FORM | {"cron": "bad", "then": "r3"}
    assert client.post("/start/refresh", json=cron, headers=WITH_TOKEN).status_code == 400
    assert scheduler.trained_after == []


@pytest.mark.parametrize("body", [{"values": {"out": 3}}, {"values": {}, "more": 1}, {"values": []}, []])
def test_what_is_no_form_is_refused(client: TestClient, body: Any) -> None:
    assert client.post("/start/refresh", json=body, headers=WITH_TOKEN).status_code == 422


def test_when_prefect_is_away_the_page_says_so_and_what_to_do(client: TestClient, scheduler: KeptScheduler) -> None:
    scheduler.is_gone = True
    page = client.get("/runs")
    assert page.status_code == 503
    assert "does not answer" in page.text
    assert "kame up" in page.text


def test_without_prefect_the_page_says_how_to_have_it(tmp_path: Path) -> None:
    app = create_app([tmp_path], tmp_path / "cache", TOKEN)
    with TestClient(app, base_url="http://localhost") as client:
        assert "kame up" in client.get("/runs").json()["remedy"]


@pytest.mark.parametrize(
    ("out", "is_there"), [("root/small", True), ("root", False), ("\0", False), ("~nobody/x", False)]
)
def test_a_refresh_leads_to_its_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, is_there: bool
) -> None:
    write_small(tmp_path / "root" / "small")
    monkeypatch.chdir(tmp_path)
    app = create_app(
        [tmp_path / "root"], tmp_path / "cache", scheduler=KeptScheduler(replace(RUN, settings={"out": out}))
    )
    with TestClient(app, base_url="http://localhost", headers={"Accept": "text/html"}) as client:
        page = client.get("/runs/r1")
    assert page.status_code == 200
    assert ('href="/datasets/small"' in page.text) == is_there


def test_a_training_leads_to_its_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "front" / "seed-0" / "run")
    monkeypatch.chdir(tmp_path)
    run = replace(RUN, kind="train", settings={"out": "front"})
    app = create_app([tmp_path], tmp_path / "cache", scheduler=KeptScheduler(run))
    with TestClient(app, base_url="http://localhost", headers={"Accept": "text/html"}) as client:
        assert "/training/runs?run=front~seed-0~run" in client.get("/runs/r1").text
