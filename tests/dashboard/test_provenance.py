"""Where the pieces of a dialogue came from, on its page: what its rows record, its oracles, prompts and runs."""

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.dashboards import SCRIPT, dialogues, opened, write_small

ROW = dialogues()[0][0]
RUN = "20260102T030405-abcdef"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small(tmp_path_factory.mktemp("provenance") / "small")
    (folder / "prompts" / "default").mkdir(parents=True)
    (folder / "prompts" / "default" / "none.yaml").write_text(f"system: Guess what comes. {SCRIPT}\n")
    (folder / "runs").mkdir()
    told = {
        "run_id": RUN,
        "started_at": "2026-01-02T03:04:05+00:00",
        "outcome": "done",
        "seconds": {"speech": 12.5},
        "versions": {"kame-pipeline": "9.8.7", "numpy": "2.0.2"},
        "configuration": {"sources": [{"name": "mine"}], "seed": 7},
        "chat": {"n_requests": 12},
    }
    (folder / "runs" / f"{RUN}.json").write_text(json.dumps(told))
    other = told | {"run_id": "20260101T000000-123456", "configuration": {"sources": [{"name": "theirs"}]}}
    (folder / "runs" / "20260101T000000-123456.json").write_text(json.dumps(other))
    (folder / "runs" / "20251231T000000-bad000.json").write_text("{")
    return folder.parent


@pytest.fixture(scope="module")
def page(client: TestClient) -> str:
    return client.get(f"/datasets/small/dialogues/{ROW.dialogue_id}").text


def test_every_digest_and_fingerprint_of_the_row_is_told(root: Path, page: str) -> None:
    by = ROW.provenance
    for value in (by.script_method, by.tts, by.tts_digest, by.voice_a, by.voice_b, by.aligner_digest, ROW.group_id):
        assert value is None or f"<dd>{value}</dd>" in page
    dataset = opened(root / "small")
    (shard,) = [each for each in dataset.manifest.select_kind("data") if each.path in page]
    assert shard.sha256 in page
    assert dataset.manifest.fingerprint in page


def test_every_utterance_has_its_voice_takes_and_place(page: str) -> None:
    assert '<th scope="row">B 0.0</th>' in page
    assert '<th scope="row">A 1.0</th>' in page
    assert ROW.turns[1].utterances[0].placement.rule in page


def test_what_wrote_the_oracles_is_told_with_the_text_of_its_prompts(page: str) -> None:
    for told in ("<dt>Simulator</dt><dd>random</dd>", "<dt>Levels begin at r</dt><dd>0.5, 0.65, 0.8, 0.95</dd>",
                 "<dt>Maximum requests per turn</dt><dd>8</dd>", "<dt>Words</dt><dd>1 to 30</dd>"):  # fmt: skip
        assert told in page
    assert "Guess what comes. &lt;script&gt;" in page
    assert SCRIPT not in page


def test_prompts_outside_the_dataset_are_not_read(root: Path, tmp_path: Path) -> None:
    from dashboard.provenance import read_prompts
    from data_schemas.errors import DatasetError

    (root / "secret.yaml").write_text("secret")
    with pytest.raises(DatasetError, match="outside"):
        read_prompts(opened(root / "small"), "..", "../../secret")
    assert read_prompts(opened(root / "small"), "default", "other") is None


def test_runs_with_its_source_are_linked_and_damaged_ones_named(client: TestClient, page: str) -> None:
    assert f'href="/datasets/small/runs/{RUN}"' in page
    assert "kame-pipeline 9.8.7, done" in page
    assert "123456" not in page, "a run of another source"
    assert "The record of this run is damaged" in page
    told = client.get(f"/datasets/small/runs/{RUN}").text
    for each in ("The run was completed.", "<dt>numpy</dt><dd>2.0.2</dd>", "<dt>speech</dt><dd>12.5</dd>", "seed: 7"):
        assert each in told
    assert client.get("/datasets/small/runs/nothing").status_code == 404
    assert client.get("/datasets/small/runs/20251231T000000-bad000").status_code == 500
