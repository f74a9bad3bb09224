"""The token row on a dialogue's page: that of `kame encode`, of the folders that have one, frame by frame."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from dashboard.app import create_app
from data_schemas.flags import clear_flag, set_flag
from data_schemas.store import Store
from data_schemas.units import find_event_frame, find_text_frame
from kame_model.encode.manifest import MANIFEST
from kame_model.encode.token_dataset import TokenDataset
from tests.support.dashboards import TOKENIZER, dialogues, encode_small, indexed_client, write_small

pytestmark = pytest.mark.full
ROWS = [row for shard in dialogues() for row in shard]
FLAGGED = ROWS[-1].dialogue_id


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenDataset:
    """Token rows beside the dataset that they are made of; one dialogue was flagged when they were made."""
    small = write_small(tmp_path_factory.mktemp("tokens") / "small")
    set_flag(Store(str(small)), FLAGGED, "too loud")
    made = encode_small(small)
    clear_flag(Store(str(small)), FLAGGED)
    return made


@pytest.fixture(scope="module")
def root(tokens: TokenDataset) -> Path:
    return Path(tokens.folder).parent


@pytest.fixture
def spoilt(root: Path, tmp_path: Path) -> Path:
    """A copy of all of it that a test may spoil."""
    return Path(shutil.copytree(root, tmp_path / "root"))


def path_of(dialogue_id: str) -> str:
    return f"/datasets/small/dialogues/{dialogue_id}"


def row_of(client: TestClient, dialogue_id: str, folder: str = "tokens") -> dict[str, Any]:
    answer = client.get(f"{path_of(dialogue_id)}/tokens/{folder}", headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def fault_of(root: Path, cache: Path, dialogue_id: str = ROWS[0].dialogue_id) -> tuple[int, str]:
    with indexed_client(root, cache) as client:
        answer = client.get(f"{path_of(dialogue_id)}/tokens/tokens", headers={"Accept": "application/json"})
        return answer.status_code, f"{answer.json().get('error')} {answer.json().get('remedy')}"


def test_every_frame_is_that_of_the_encoded_row(client: TestClient, tokens: TokenDataset) -> None:
    for number in range(len(tokens)):
        row = tokens[number]
        shown = row_of(client, row.dialogue_id)
        assert (shown["n_frames"], shown["frame_s"], shown["sizes"]) == (row.n_frames, 0.08, [2048] * 8)
        for speaker, encoded in (("A", row.a), ("B", row.b)):
            told = shown["speakers"][speaker]
            assert told["text"] == encoded.text.tolist()
            assert told["codes"] == encoded.codes.tolist()
            assert told["delays"] == [0, 1, 1, 1, 1, 1, 1, 1]
            assert told["answer_frames"] == encoded.answer_mask.nonzero()[0].tolist()


def test_pieces_spell_the_words_that_are_said_from_their_frames_on(client: TestClient) -> None:
    shown = row_of(client, ROWS[0].dialogue_id)
    text = shown["speakers"]["B"]["text"]
    silent = {shown["padding_id"], shown["end_of_padding_id"]}
    pieces = [shown["pieces"][str(each)] for each in text if each not in silent]
    assert "".join(pieces) == " so how many eggs"
    first = next(frame for frame, each in enumerate(text) if each not in silent)
    assert first == find_text_frame(0.1)


def test_an_oracle_is_fed_from_the_frame_in_which_it_comes(client: TestClient) -> None:
    shown = row_of(client, ROWS[0].dialogue_id)
    told = shown["speakers"]["A"]
    first, truth = told["events"]
    assert [first["frame"], truth["frame"]] == [find_event_frame(0.4), find_event_frame(0.64)]
    assert [each["text"] for each in told["events"]] == ["a few eggs", "eighteen eggs"]
    assert (first["level"], truth["level"], truth["is_hint"], truth["is_last"]) == (0, 5, True, True)
    stream = told["oracle"]
    assert [frame for frame, each in enumerate(stream) if each == shown["start_id"]] == [first["frame"], truth["frame"]]
    fed = [shown["pieces"][str(each)] for each in stream[first["frame"] + 1 : truth["frame"]]]
    assert "".join(fed) == " a few eggs"[: len("".join(fed))]
    assert fed
    assert shown["speakers"]["B"]["events"] == []


def test_the_page_offers_all_folders_that_have_the_dialogue_and_no_other(spoilt: Path, tmp_path: Path) -> None:
    encode_small(spoilt / "small", "again", codec_options={"n_codebooks": 3})
    other = write_small(spoilt / "elsewhere" / "other", [], [[ROWS[0], ROWS[2]]])
    encode_small(other)
    (spoilt / "torn").mkdir()
    (spoilt / "torn" / MANIFEST).write_text("{")
    with indexed_client(spoilt, tmp_path / "cache") as client:
        page = client.get(path_of(ROWS[0].dialogue_id)).text
        assert len(row_of(client, ROWS[0].dialogue_id, "again")["sizes"]) == 3
    assert page.count('<option value="again"') == page.count('<option value="tokens"') == 1
    assert "elsewhere" not in page
    assert "Token rows torn cannot be read" in page
    assert "this content of the dataset" in page


def test_rows_of_an_earlier_content_that_have_the_dialogue_say_so(spoilt: Path, tmp_path: Path) -> None:
    write_small(spoilt / "small", [], dialogues(), "something else")
    with indexed_client(spoilt, tmp_path / "cache") as client:
        page = client.get(path_of(ROWS[0].dialogue_id)).text
        assert "another content of the dataset" in page
        assert row_of(client, ROWS[0].dialogue_id)["n_frames"] == 15


def test_a_dialogue_that_was_left_out_says_so(root: Path, tmp_path: Path) -> None:
    code, told = fault_of(root, tmp_path, FLAGGED)
    assert code == 404
    assert "is not in the token rows" in told


@pytest.mark.parametrize("folder", ["nothing", "%2e%2e%2fsmall", "small"])
def test_no_other_folder_is_read(client: TestClient, folder: str) -> None:
    assert client.get(f"{path_of(ROWS[0].dialogue_id)}/tokens/{folder}").status_code == 404


def test_another_vocabulary_than_the_rows_have_is_refused(spoilt: Path, tmp_path: Path) -> None:
    (spoilt / "tokens" / "tokenizer.model").write_bytes(TOKENIZER.read_bytes() + b"\n")
    code, told = fault_of(spoilt, tmp_path / "cache")
    assert code == 500
    assert "Restore the right file" in told or "not a SentencePiece model" in told


def test_a_cut_file_is_told(spoilt: Path, tmp_path: Path) -> None:
    for file in (spoilt / "tokens" / "codes").glob("*.arrow"):
        file.write_bytes(file.read_bytes()[:200])
    code, told = fault_of(spoilt, tmp_path / "cache")
    assert code == 500
    assert "Run `kame encode` again" in told


def test_a_file_outside_the_folder_is_not_read(spoilt: Path, tmp_path: Path) -> None:
    manifest = json.loads((spoilt / "tokens" / MANIFEST).read_text())
    for shard in manifest["shards"]:
        shard["codes"]["path"] = f"../tokens/../../{shard['codes']['path']}"
    (spoilt / "tokens" / MANIFEST).write_text(json.dumps(manifest))
    code, told = fault_of(spoilt, tmp_path / "cache")
    assert code == 500
    assert "which is outside" in told


def test_it_is_kept_for_good_only_under_the_rows_fingerprint(client: TestClient, tokens: TokenDataset) -> None:
    path = f"{path_of(ROWS[0].dialogue_id)}/tokens/tokens"
    assert "immutable" in client.get(f"{path}?of={tokens.fingerprint}").headers["Cache-Control"]
    assert client.get(f"{path}?of=other").headers["Cache-Control"] == "no-cache"


def test_without_any_the_page_says_what_makes_them(tmp_path: Path) -> None:
    write_small(tmp_path / "root" / "small")
    with indexed_client(tmp_path / "root", tmp_path / "cache") as client:
        assert "kame encode makes them" in client.get(path_of(ROWS[0].dialogue_id)).text


def test_a_dashboard_that_reads_none_shows_none(root: Path, tmp_path: Path) -> None:
    with TestClient(create_app([root], tmp_path), base_url="http://localhost") as client:
        while (page := client.get(path_of(ROWS[0].dialogue_id), headers={"Accept": "text/html"})).status_code == 202:
            pass
        assert 'id="tokens"' not in page.text
        assert client.get(f"{path_of(ROWS[0].dialogue_id)}/tokens/tokens").status_code == 404
