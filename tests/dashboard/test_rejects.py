"""What people see of a refused item: why, what was written and tried, and the sound that the work folder still has."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from data_schemas.records import AudioDialogue, Dialogue, DialogueClips, Reject
from tests.support.dashboards import SCRIPT, dialogues, indexed_client, write_small
from tests.support.small_datasets import noisy_dialogue
from tests.support.work_folders import PART, SOUND, make_clips, make_written, put_members, put_output

MIXED = replace(noisy_dialogue(7), dialogue_id="mine-7-v0", item_id="mine-7")


def reject(number: int, stage: str, reason: str, detail: str, dialogue: bool = True) -> Reject:
    name = f"mine-{number}"
    return Reject(
        item_id=name,
        dialogue_id=f"{name}-v0" if dialogue else None,
        source="mine",
        stage=stage,
        reason=reason,
        detail=detail,
    )


REJECTS = [
    reject(3, "oracle", "no_words", "nobody answered"),
    reject(5, "script", "formula", f"x^2 {SCRIPT}", dialogue=False),
    reject(6, "speech", "misheard", "to be said: 'ten'; heard: 'tin'"),
    reject(7, "flags", "flagged", "too loud"),
    reject(8, "mixing", "no_place", "the words of turn 1 are too few"),
    reject(9, "items", "no_answer", "row 9 has none", dialogue=False),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small(tmp_path_factory.mktemp("refused") / "small", REJECTS, dialogues())
    put_members(folder, (3, 5, 6, 7, 8))
    put_output(folder, "wording", [make_written(6), make_written(7), make_written(8)], Dialogue)
    put_output(
        folder,
        "wording",
        [make_written(6, "An older text?"), *(make_written(each) for each in range(20, 24))],
        Dialogue,
        60,
    )
    put_output(folder, "speech", [make_clips(7), make_clips(8)], DialogueClips)
    put_output(folder, "mixing", [MIXED], AudioDialogue)
    (folder / "runs").mkdir()
    gate = {"max_takes": 4, "max_voices": 2}
    told = {"run_id": "20260101T000000-abcdef", "configuration": {"sources": [{"name": "mine"}], "gate": gate}}
    (folder / "runs" / "20260101T000000-abcdef.json").write_text(json.dumps(told))
    return folder.parent


def page_of(client: TestClient, number: int) -> str:
    answer = client.get(f"/datasets/small/refused?item=mine-{number}")
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_table_of_rejects_links_to_each_item(client: TestClient) -> None:
    table = client.get("/datasets/small/rejects").text
    for each in REJECTS:
        assert f'href="/datasets/small/refused?item={each.item_id}"' in table


def test_a_dialogue_that_no_voice_said_well_has_its_text_and_what_was_tried(client: TestClient) -> None:
    page = page_of(client, 6)
    assert "heard: &#39;tin&#39;" in page
    assert "<dd>10.</dd>" in page
    assert "<dd>Ten.</dd>" in page
    assert "So how many?" in page
    assert "An older text?" not in page
    assert "up to 4 times" in page
    assert "up to 2 voices" in page
    assert "no take of an utterance passed the checks" in page
    assert "<audio" not in page


def test_a_dialogue_that_was_said_and_found_no_place_is_heard_utterance_by_utterance(client: TestClient) -> None:
    page = page_of(client, 8)
    assert page.count("<audio") == 2
    assert "amy, speed 0.95" in page
    sound = client.get("/datasets/small/refused/sound?dialogue=mine-8-v0&turn=1&utterance=0")
    assert (sound.content, sound.headers["Content-Type"]) == (SOUND, "audio/flac")
    part = client.get(
        "/datasets/small/refused/sound?dialogue=mine-8-v0&turn=1&utterance=0", headers={"Range": "bytes=0-9"}
    )
    assert (part.status_code, part.content) == (206, SOUND[:10])


def test_a_flagged_dialogue_is_heard_whole(client: TestClient) -> None:
    page = page_of(client, 7)
    assert page.count("<audio") == 1
    assert client.get("/datasets/small/refused/sound?dialogue=mine-7-v0").content == MIXED.flac


def test_an_item_that_was_refused_before_speech_says_that_there_is_no_sound(client: TestClient) -> None:
    page = page_of(client, 5)
    assert "rejected before any speech was made" in page
    assert "How many?" in page
    assert SCRIPT not in page
    assert "x^2 &lt;script&gt;" in page
    assert "Its question is not known" in page_of(client, 9)


def test_a_dialogue_without_oracles_is_linked(client: TestClient) -> None:
    page = page_of(client, 3)
    assert "is nevertheless in the dataset" in page
    assert 'href="/datasets/small/dialogues/mine-3-v0"' in page
    assert "has been deleted" not in page


@pytest.mark.parametrize(
    "query",
    [
        "?item=nothing",
        "/sound?dialogue=nothing",
        "/sound?dialogue=mine-6-v0",
        "/sound?dialogue=mine-8-v0&turn=7",
        "/sound?dialogue=mine-9-v0",
    ],
)
def test_what_is_not_there_is_a_404(client: TestClient, query: str) -> None:
    assert client.get(f"/datasets/small/refused{query}").status_code == 404


def test_where_the_work_folder_is_gone_or_damaged_the_page_says_so(root: Path, tmp_path: Path) -> None:
    small = Path(shutil.copytree(root, tmp_path / "root")) / "small"
    with indexed_client(small.parent, tmp_path / "cache") as client:
        for file in (small / ".store" / "parts" / PART).glob("speech-*.parquet"):
            file.write_bytes(b"PAR1 no more")
        assert "cannot be read" in page_of(client, 8)
        shutil.rmtree(small / ".store" / "parts")
        page = page_of(client, 8)
        assert "(.store/parts) is missing" in page
        assert "Its text has been deleted" in page


def test_a_part_outside_the_dataset_is_not_read(root: Path, tmp_path: Path) -> None:
    small = Path(shutil.copytree(root, tmp_path / "root")) / "small"
    put_members(small, (8,), "../../../x")
    shutil.copytree(small / ".store" / "parts" / PART, tmp_path / "root" / "x")
    with indexed_client(small.parent, tmp_path / "cache") as client:
        assert "which is outside" in page_of(client, 8)
        assert client.get("/datasets/small/refused/sound?dialogue=mine-8-v0&turn=1").status_code == 500
