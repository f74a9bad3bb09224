"""`kame encode` and `kame export kame-finetune`: what they print, and how they fail."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from data_schemas.buckets import Bucket
from data_schemas.store import Store
from flows.cli import encode, export
from tests.support.s3_server import s3_server, use_s3
from tests.support.small_datasets import ten_shards, write_dataset
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full

app = typer.Typer()
app.command("encode")(encode.encode)
app.add_typer(export.app, name="export")


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    data = write_dataset(tmp_path / "dataset", ten_shards(1)[7:])
    (data / "flags.jsonl").write_text(json.dumps({"dialogue_id": "mine-80-v0", "reason": "hiss", "time": "now"}) + "\n")
    tokenizer = make_vocabulary(tmp_path).path
    options = {"--out": tmp_path / "tokens", "--tokenizer": tokenizer, "--codec": "double", "--workers": 1}
    return ["encode", str(data), *(str(each) for pair in options.items() for each in pair)]


def test_encode_and_export_say_what_they_wrote(arguments: list[str], tmp_path: Path) -> None:
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "tokens: 2 rows, 30 frames, 4 oracle events." in told.stdout.replace("\n", "")
    assert "1 flagged dialogues were skipped" in told.stderr
    assert "2 failed oracle events were skipped" in told.stderr
    told = CliRunner().invoke(app, ["export", "kame-finetune", str(tmp_path / "tokens"), str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "1 test, 1 train; 30 frames" in told.stdout
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
    again = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert (again["n_rows"], again["n_flagged"], again["n_failed_events"]) == (2, 1, 2)
    assert again["fingerprint"] == json.loads((tmp_path / "tokens" / "tokens.json").read_text())["fingerprint"]


def test_a_dataset_in_a_bucket_becomes_the_rows_of_one_in_a_folder(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, data, *options = arguments
    assert CliRunner().invoke(app, arguments).exit_code == 0
    with s3_server("corpora") as (_, url):
        use_s3(url, monkeypatch)
        bucket = Bucket("s3://corpora/dataset")
        for path in Store(data).list_files(""):
            bucket.upload(path, f"{data}/{path}")
        told = CliRunner().invoke(app, [command, bucket.address, *options, "--out", str(tmp_path / "from bucket")])
    assert told.exit_code == 0, told.output
    in_folder, from_bucket = Store(str(tmp_path / "tokens")), Store(str(tmp_path / "from bucket"))
    assert from_bucket.list_files("") == in_folder.list_files("")
    for path in in_folder.list_files("", ".parquet"):
        assert from_bucket.read_bytes(path) == in_folder.read_bytes(path)


@pytest.mark.parametrize(
    ("option", "value", "exit_code", "says"),
    [
        ("--codec", "opus", 2, "There is no codec back-end 'opus'"),
        ("--codec-path", "/nowhere", 2, "does not take these options"),
        ("--codec-option", "card=1", 2, "does not take these options: card"),
        ("--oracle-version", "other", 6, "no oracles of version 'other'"),
        ("--window-s", "1e9", 2, "window_s: Input should be less than"),
        ("--tokenizer", "/nowhere.model", 4, "The vocabulary /nowhere.model cannot be read"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], option: str, value: str, exit_code: int, says: str
) -> None:
    told = CliRunner().invoke(app, [*arguments, option, value])
    assert told.exit_code == exit_code
    assert says in told.stderr
    assert "Traceback" not in told.stderr


def test_no_dataset_and_no_token_rows(tmp_path: Path) -> None:
    options = ["--out", str(tmp_path / "tokens"), "--tokenizer", "t.model", "--codec", "double"]
    told = CliRunner().invoke(app, ["encode", str(tmp_path), *options])
    assert (told.exit_code, "is not a dataset" in told.stderr) == (6, True)
    told = CliRunner().invoke(app, ["export", "kame-finetune", str(tmp_path), str(tmp_path / "out")])
    assert (told.exit_code, "holds no token rows" in told.stderr) == (6, True)
