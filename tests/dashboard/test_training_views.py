"""The list of training runs, the page of some of them, and what a page is sent while they train."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import filelock
import httpx
import pytest
from fastapi.testclient import TestClient

from dashboard.app import create_app
from dashboard.training import compare_configs, list_runs, summarise
from kame_model.train.logs import METRICS
from kame_model.train.run import train
from tests.support.dashboards import client_of
from tests.support.pages import served
from tests.support.train_runs import tiny_dataset, tiny_run
from tests.support.training_pages import HOSTILE, append, write_free_running, write_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def client(root: Path, tmp_path: Path) -> Iterator[TestClient]:
    with client_of(root, tmp_path / "cache") as client:
        yield client


def age(run: Path) -> None:
    """Makes a run one that has not written for an hour."""
    then = (run / METRICS).stat().st_mtime - 3600
    os.utime(run / METRICS, (then, then))


def test_a_run_of_the_trainer_is_shown_as_it_is(root: Path, client: TestClient, tmp_path: Path) -> None:
    train(tiny_run(root / "out" / "seed-0" / "run", tiny_dataset(tmp_path / "rows")))
    (run,) = list_runs([root])
    summary = summarise(run)
    assert (run.key, summary.state, summary.preset, summary.stage) == (
        "out~seed-0~run",
        "finished",
        "tiny",
        "dialogues",
    )
    assert (summary.trained["step"], summary.max_steps) == (6, 6)
    assert summary.get_right_figure("answer") is not None
    page = client.get("/training").text
    assert f"{summary.get_right_figure('answer'):,.3f}" in page
    assert client.get("/training/runs?run=out~seed-0~run").status_code == 200


def test_runs_are_found_in_what_the_command_writes_and_nowhere_else(root: Path) -> None:
    for path in ("a/b/seed-1/copy", "a/b/seed-1/run", "alone", ".hidden/run", "a/b/c/too-deep"):
        write_run(root / path)
    (root / "export").mkdir()
    (root / "export" / "config.json").write_text("{}")
    (root / "a" / "b" / "seed-2").symlink_to(root / "a" / "b")  # a circle ends
    assert [run.key for run in list_runs([root])] == ["alone", "a~b~seed-1~copy", "a~b~seed-1~run"]


def test_a_run_that_has_not_written_yet_is_there(root: Path, client: TestClient) -> None:
    folder = write_run(root / "run", 0)
    (folder / METRICS).unlink(missing_ok=True)
    with filelock.FileLock(folder / ".lock"):
        assert "none yet" in client.get("/training").text
        assert "Waiting for the first metrics" in client.get("/training/runs?run=run").text


def test_the_newest_lines_are_found_at_the_end_of_a_long_file(root: Path) -> None:
    folder = write_run(root / "run")
    with (folder / METRICS).open("a") as file:
        for step in range(60, 4000):
            file.write(json.dumps({"kind": "train", "step": step, "loss": 1.0, "much": "x" * 200}) + "\n")
        file.write('{"kind": "train", "step": 4000, "lo')
    summary = summarise(list_runs([root])[0])
    assert summary.trained["step"] == 3999
    assert summary.get_right_figure("answer") == 0.5  # 700 kB before the end


def test_only_settings_that_differ_are_compared(root: Path) -> None:
    write_run(root / "one", seed=1, optim={"learning_rate": 0.1, "eps": 1})
    write_run(root / "two", seed=1, optim={"learning_rate": 0.2, "eps": 1}, lora={"rank": 8})
    runs = list_runs([root])
    assert compare_configs(runs) == [("optim.learning_rate", ["0.1", "0.2"]), ("lora.rank", [None, "8"])]
    assert ("seed", ["1"]) in compare_configs(runs[:1])


def test_an_empty_folder_says_what_to_type(root: Path, client: TestClient) -> None:
    assert f"kame train {root}/gsm8k" in client.get("/training").text


def test_a_name_is_text_and_leads_to_its_run(root: Path, client: TestClient) -> None:
    write_run(root / HOSTILE, model={"preset": "<script>window.was_run = true</script>"})
    os.mkdir(os.fsencode(root) + b"/\xff")  # no text, and so no address
    write_run(Path(os.fsdecode(os.fsencode(root) + b"/\xff/run")))
    page = client.get("/training").text
    assert "<img" not in page
    assert "<script>window" not in page
    assert f'href="/training/runs?run={quote(HOSTILE)}"' in page
    shown = client.get("/training/runs", params={"run": HOSTILE})
    assert shown.status_code == 200
    assert "<img" not in shown.text


@pytest.mark.parametrize("config", ["", "[]", "{", "[" * 100_000, '{"config": {"model": 1, "max_steps": "x"}}'])
def test_a_damaged_configuration_hides_nothing_else(root: Path, client: TestClient, config: str) -> None:
    (write_run(root / "run") / "config.json").write_text(config)
    assert "2.500" not in client.get("/training").text  # what the loss of validation was is not the training's
    assert "0.750" in client.get("/training").text
    assert client.get("/training/runs?run=run").status_code == 200


@pytest.mark.parametrize("query", ["run=no", "run=..%2F..%2Fetc", "", "&".join(f"run={n}" for n in range(9))])
@pytest.mark.parametrize("page", ["runs", "events"])
def test_other_addresses_are_refused(root: Path, client: TestClient, page: str, query: str) -> None:
    write_run(root / "run")
    assert client.get(f"/training/{page}?{query}").status_code in (404, 422)


@contextmanager
def following(root: Path, cache: Path, query: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What a page of runs is sent."""
    app = create_app([root], cache)
    with served(app) as url, httpx.stream("GET", f"{url}training/events?{query}", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: "))


def test_a_page_is_sent_lines_as_they_are_written_and_states_as_they_change(root: Path, tmp_path: Path) -> None:
    one, two = write_run(root / "one", is_done=False), write_run(root / "two")
    assert list_runs([root])[0].read_state() == "running"  # it has just written
    age(one)
    with following(root, tmp_path, "run=one&run=two") as told:
        first, second = next(told), next(told)
        assert (first["run"], first["state"], second["run"], second["state"]) == (0, "stopped", 1, "finished")
        lock = filelock.FileLock(one / ".lock")
        lock.acquire()
        assert next(told)["state"] == "running"
        append(one, {"kind": "train", "step": 60, "loss": 1.5}, half='{"kind"')
        assert next(told)["curves"] == {"train": {"step": [60], "loss": [1.5]}}
        (one / "DONE").touch()
        lock.release()
        assert next(told)["state"] == "finished"
        two.rename(tmp_path / "away")  # at once; a folder that is removed is seen half empty
        gone = next(told)
        assert (gone["run"], gone["state"], gone["age_s"]) == (1, "gone", None)


def test_the_page_of_one_run_is_sent_its_texts_of_free_running(root: Path, tmp_path: Path) -> None:
    one, two = write_run(root / "one"), write_run(root / "two")
    write_free_running(one, {40: [HOSTILE, ""]})
    write_free_running(two, {50: ["five"]})
    with following(root, tmp_path, "run=one") as told:
        first = next(told)
        assert first["curves"]
        (step,) = first["free"]["steps"]
        assert (step["step"], [each["turns"][0]["said"] for each in step["dialogues"]]) == (40, [HOSTILE, ""])
        write_free_running(one, {40: ["five"], 50: ["six"]})
        second = next(told)
        assert [each["step"] for each in second["free"]["steps"]] == [50, 40]
        assert "curves" not in second
    with following(root, tmp_path, "run=one&run=two") as told:
        assert "free" not in next(told) | next(told)


def test_a_run_without_texts_of_free_running_says_when_they_come(root: Path, client: TestClient) -> None:
    write_run(root / "one")
    write_run(root / "two")
    assert "keep.free_dialogues" in client.get("/training/runs?run=one").text
    assert 'id="free"' not in client.get("/training/runs?run=one&run=two").text
