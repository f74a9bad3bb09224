"""What pages and files tell of a dataset, without a browser."""

import csv
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from dashboard.pages import sql, tables
from data_schemas.manifest import MANIFEST
from tests.support.dashboards import client_of, dialogues
from tests.support.small_datasets import write_dataset

ROWS = [row for shard in dialogues() for row in shard]


def test_the_list_has_datasets_with_their_figures_and_damaged_ones_with_their_fault(
    client: TestClient, root: Path
) -> None:
    (root / "torn").mkdir()
    (root / "torn" / MANIFEST).write_text("{")
    page = client.get("/").text
    assert '<a href="/datasets/small">small</a>' in page
    assert "16.7 %" in page  # one of six heard words is wrong
    assert "is damaged" in page
    (root / "torn" / MANIFEST).unlink()


def test_a_view_that_holds_nothing_says_what_to_do(client: TestClient) -> None:
    assert "No row matches all the filters" in client.get("/datasets/small/rows?form=nothing").text


def test_a_view_is_saved_whole_with_its_columns(client: TestClient, tmp_path: Path) -> None:
    address = "form=greeting&columns=dialogue_id,duration_s,level&sort=-duration_s"
    wanted = sorted((row for row in ROWS if row.form == "greeting"), key=lambda row: -row.duration_s)
    answer = client.get(f"/datasets/small/rows.csv?{address}")
    assert 'filename="small-dialogues.csv"' in answer.headers["Content-Disposition"]
    told = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["dialogue_id"], float(row["duration_s"]), row["level"]) for row in told] == [
        (row.dialogue_id, row.duration_s, '["0", "5"]') for row in wanted
    ]
    (tmp_path / "it.parquet").write_bytes(client.get(f"/datasets/small/rows.parquet?{address}").content)
    assert pq.read_table(tmp_path / "it.parquet")["dialogue_id"].to_pylist() == [row.dialogue_id for row in wanted]
    assert client.get("/datasets/small/rows.exe").status_code == 400


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("rows.csv", "The table has 5 rows; a file may have 2 at most."),
        ("rejects.parquet", None),
        ("sql/result.csv?query=from range(3)", "The result is too large for a file: at most 2 rows"),
        ("sql/result.parquet?query=from range(3)", "The result is too large for a file: at most 2 rows"),
        ("sql/result.csv?query=from range(2)", None),
    ],
)
def test_a_file_has_all_rows_or_is_an_error_with_a_remedy(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, told: str | None
) -> None:
    monkeypatch.setattr(tables, "N_ROWS_EXPORTED", 2)
    monkeypatch.setattr(sql, "N_ROWS_EXPORTED", 2)
    answer = client.get(f"/datasets/small/{path}", headers={"Sec-Fetch-Site": "none", "Accept": "text/html"})
    if told is None:
        assert (answer.status_code, "Content-Disposition" in answer.headers) == (200, True)
    else:
        assert answer.status_code == 400
        assert told in answer.text
        assert "Go back and " in answer.text


def test_a_dialogue_is_shown_with_the_oracles_that_are_asked_for(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "two", dialogues(), says="a few eggs")
    write_dataset(folder, dialogues(), version="other", says="many hens")
    path = f"/datasets/two/dialogues/{ROWS[0].dialogue_id}"
    with client_of(folder, tmp_path / "cache") as client:
        while (page := client.get(path)).status_code == 202:
            pass
        assert "many hens" in page.text  # the manifest's own version is the last one written
        assert "a few eggs" not in page.text
        assert "a few eggs" in client.get(f"{path}?oracles=default").text
        missing = client.get(f"{path}?oracles=nothing")
        assert missing.status_code == 404
        assert "It has: default, other." in missing.text


def test_what_was_heard_is_shown_beside_or_that_nobody_listened(client: TestClient) -> None:
    page = client.get("/datasets/small/dialogues/mine-3-v0").text
    assert "not checked by a speech recogniser" in page
    heard = client.get(f"/datasets/small/dialogues/{ROWS[0].dialogue_id}").text
    assert "<mark>legs.</mark>" in heard
    assert "1 of 3 words wrong" in heard


def test_while_an_index_is_made_the_page_tells_how_far_it_is_and_comes_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.index.Indexes.open.__defaults__", (0.0,))
    with client_of(root, tmp_path) as client:
        page = client.get("/datasets/small/rows")
        assert page.status_code == 202
        assert page.headers["Refresh"] == "1"
        assert '<progress max="7"' in page.text
