"""`kame publish` and `hf://datasets/…`, against a stand-in of the Hub on this machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from data_schemas import hub as reading
from data_schemas.arrow import from_table
from data_schemas.buckets import Bucket
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.flags import set_flag
from data_schemas.hub import open_dataset
from data_schemas.licences import collect_dataset_licences
from data_schemas.manifest import MANIFEST
from data_schemas.publishing import HubFile, RepositoryContents
from data_schemas.publishing import publish as send
from data_schemas.reader import DatasetReader, read_manifest
from data_schemas.records import AudioDialogue
from data_schemas.store import Store
from flows.cli.app import app
from flows.runs.train import run_front_end
from pipelines.run.mirror import SPOOL, get_work_folder
from tests.support.hub_server import TOKEN, HubServer, environment, forget_commits, hub_server, use_hub
from tests.support.s3_server import s3_server, use_s3
from tests.support.small_datasets import noisy_dialogue, ten_shards, write_dataset

pytestmark = pytest.mark.full

NAME, ADDRESS = "me/eggs", "hf://datasets/me/eggs"
CARD = "---\nconfigs:\n- config_name: default\n---\n# Eggs\n"
SPOKEN = {"tts": "piper", "tts_digest": "d", "voice_a": "en_US-joe-medium", "voice_b": "mine.onnx"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub_server() as found:
        use_hub(found, tmp_path / "cache", monkeypatch)
        yield found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten shards with their oracles."""
    return with_card(write_dataset(tmp_path / "data", ten_shards()))


def with_card(folder: Path) -> Path:
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def kame(*arguments: object) -> Result:
    forget_commits(reading)  # as in a process of its own
    return CliRunner().invoke(app, [str(each) for each in arguments])


def publish(folder: Path | str, *options: str) -> dict[str, int]:
    done = kame("publish", folder, NAME, "--json", *options)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    return {name: told[name] for name in ("n_sent", "n_there", "n_removed")}


def test_what_is_published_is_read_as_it_was_and_the_card_has_its_licences(hub: HubServer, data: Path) -> None:
    assert publish(data) == {"n_sent": 22, "n_there": 0, "n_removed": 0}
    there = DatasetReader(ADDRESS)
    assert there.manifest == read_manifest(Store(str(data)))
    assert list(there.iterate_dialogues()) == list(DatasetReader(str(data)).iterate_dialogues())
    assert hub.repositories["dataset", NAME].private
    card = hub.content(NAME, "README.md").decode()
    assert yaml.safe_load(card.split("---")[1]) == {"configs": [{"config_name": "default"}], "license": "cc0-1.0"}
    assert "| questions of mine | CC0-1.0 |" in card
    assert f"kame train {ADDRESS}" in card


def test_a_dataset_in_a_bucket_is_published_from_its_copy_here_if_that_is_the_same(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "s3://corpora/team/eggs"
    with s3_server("corpora") as (_, url):
        use_s3(url, monkeypatch)
        monkeypatch.setenv(SPOOL, str(tmp_path / "spool"))
        bucket, here = Bucket(address), with_card(write_dataset(Path(get_work_folder(address)), ten_shards()))
        for path in Store(str(here)).list_files(""):
            bucket.upload(path, str(here / path))
        assert publish(address) == {"n_sent": 22, "n_there": 0, "n_removed": 0}
        bucket.put("flags.jsonl", b"{}", None)
        refused = kame("publish", address, NAME)
        assert refused.exit_code == 6
        assert f"flags.jsonl is missing or different in one of them. Run `kame refresh --out {address}`" in " ".join(
            refused.output.split()
        )


def test_only_what_changed_is_sent_and_what_no_longer_belongs_goes(hub: HubServer, data: Path, tmp_path: Path) -> None:
    publish(data)
    n_commits, uploads = len(hub.repositories["dataset", NAME].commits), dict(hub.uploads)
    assert publish(data) == {"n_sent": 0, "n_there": 22, "n_removed": 0}
    assert (len(hub.repositories["dataset", NAME].commits), hub.uploads) == (n_commits, uploads)
    shards = ten_shards()
    shards[3] = [noisy_dialogue(300)]
    hub.uploads.clear()
    changed = with_card(write_dataset(tmp_path / "changed", shards))
    assert publish(changed) == {"n_sent": 3, "n_there": 19, "n_removed": 2}  # its data, its oracles and the manifest
    assert len(hub.uploads) == 3  # the manifest of ten shards is a large file for this hub
    listed = {each.path for each in read_manifest(Store(str(changed))).shards}
    assert hub.names(NAME) == {*listed, ".gitattributes", "README.md", MANIFEST}
    assert list(DatasetReader(ADDRESS).iterate_dialogues()) == list(DatasetReader(str(changed)).iterate_dialogues())


def test_the_manifest_comes_with_the_last_commit(hub: HubServer, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_schemas.publishing.FILES_A_COMMIT", 6)
    publish(data)
    first, *states = [set(files) for _, _, files in hub.repositories["dataset", NAME].commits]
    assert first == {".gitattributes"}
    assert [len(state & {MANIFEST, "README.md"}) for state in states] == [0, 0, 0, 0, 2]


def test_killed_in_the_middle_the_same_command_goes_on(hub: HubServer, data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", "publish", str(data), NAME, "--json"]
    running: list[subprocess.Popen[str]] = []

    def kill(method: str, path: str) -> int | None:
        if method == "PUT" and len(hub.uploads) >= 7 and running:
            os.kill(running.pop().pid, signal.SIGKILL)
        return None

    hub.before = kill
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(hub, tmp_path), **pipes) as killed:  # type: ignore[call-overload]
        running.append(killed)
        assert killed.wait() == -signal.SIGKILL
    assert hub.names(NAME) == {".gitattributes"}
    again = subprocess.run(command, env=environment(hub, tmp_path), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert list(DatasetReader(ADDRESS).iterate_dialogues()) == list(DatasetReader(str(data)).iterate_dialogues())
    assert len(hub.uploads) == 21
    sent_twice = [sha256 for sha256, n in hub.uploads.items() if n > 1]
    assert len(sent_twice) <= 5  # those that were on their way at the kill
    assert TOKEN not in again.stdout + again.stderr


def test_of_two_publishers_one_wins_and_the_other_is_told(hub: HubServer, data: Path, tmp_path: Path) -> None:
    publish(data)
    other = with_card(write_dataset(tmp_path / "other", [[noisy_dialogue(400)]]))

    def come_first(method: str, path: str) -> int | None:
        if "/commit/" in path:
            hub.before = lambda method, path: None
            repository = hub.repositories["dataset", NAME]
            repository.commit("theirs", repository.commits[-1][2] | {"theirs.txt": b"x"})
        return None

    hub.before = come_first
    told = kame("publish", other, NAME)
    assert told.exit_code == 4
    assert "Someone else changed me/eggs during the upload" in told.stderr
    assert read_manifest(open_dataset(ADDRESS)) == read_manifest(Store(str(data)))
    assert publish(other)["n_removed"] == 20
    assert "theirs.txt" in hub.names(NAME)  # nobody's files but ours are removed


def spoken_by(folder: Path, **fields: Any) -> Path:
    """A dataset of one dialogue, whose rows tell these of their licence and voices."""
    row = noisy_dialogue(1)
    told = {name: fields[name] for name in fields.keys() - {"licence"}}
    row = replace(row, licence=fields.get("licence", "MIT"), provenance=replace(row.provenance, **told))
    return with_card(write_dataset(folder, [[row]]))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"licence": "CC-BY-NC-ND-4.0"}, "forbid it: questions of mine (CC-BY-NC-ND-4.0)"),
        ({"licence": None}, "licences are unknown: questions of mine (not stated)"),
        ({"licence": "not stated"}, "licences are unknown: questions of mine (not stated)"),
        (SPOKEN, "licences are unknown: voice mine.onnx of piper (not stated)"),
    ],
)
def test_what_a_licence_forbids_or_leaves_unknown_is_not_published(
    fields: dict[str, str | None], said: str, hub: HubServer, tmp_path: Path
) -> None:
    told = kame("publish", spoken_by(tmp_path / "data", **fields), NAME)
    assert told.exit_code == 2
    assert said in told.stderr
    assert hub.requests == []


def test_a_licence_that_the_files_do_not_tell_can_be_told(hub: HubServer, tmp_path: Path) -> None:
    data = spoken_by(tmp_path / "data", **SPOKEN)
    publish(data, "--licence", "voice mine.onnx of piper=CC-BY-4.0")
    card = hub.content(NAME, "README.md").decode()
    assert yaml.safe_load(card.split("---")[1])["license"] == ["cc-by-4.0", "cc0-1.0", "mit"]


@pytest.mark.parametrize("told", ["questions of mine=CC0-1.0", "voice en_US-joe-medium of piper=MIT", "nothing=MIT"])
def test_what_the_files_tell_is_not_told_otherwise(told: str, hub: HubServer, tmp_path: Path) -> None:
    refused = kame("publish", spoken_by(tmp_path / "data", **SPOKEN), NAME, "--licence", told)
    assert refused.exit_code == 2
    assert "has no such part, or states its licence itself" in refused.stderr


def test_flagged_dialogues_are_not_published(hub: HubServer, data: Path) -> None:
    set_flag(Store(str(data)), "mine-11-v0", "a name")
    told = kame("publish", data, NAME)
    assert told.exit_code == 6
    assert "mine-11-v0" in told.stderr
    assert hub.requests == []


def test_a_repository_of_something_else_is_left_alone(hub: HubServer, data: Path) -> None:
    publish(data)
    hub.repositories["dataset", NAME].commit("another's", {"train.csv": b"a,b", "README.md": b"mine"})
    told = kame("publish", data, NAME)
    assert told.exit_code == 2
    assert "holds other files, such as train.csv" in told.stderr
    assert hub.names(NAME) == {"train.csv", "README.md"}


def test_a_shard_that_is_not_what_was_written_is_not_sent(hub: HubServer, data: Path) -> None:
    oracle = sorted(data.glob("oracles/default/*.parquet"))[-1]
    oracle.write_bytes(oracle.read_bytes()[:-1])
    told = kame("publish", data, NAME)
    assert told.exit_code == 5
    assert f"{oracle.name} has changed since it was written" in told.stderr
    assert MANIFEST not in hub.names(NAME)


def test_without_a_token_nothing_is_asked(hub: HubServer, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    told = kame("publish", data, NAME)
    assert (told.exit_code, hub.requests) == (2, [])
    assert "HF_TOKEN is not set" in told.stderr


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_hub_that_refuses_is_told_without_the_token(status: int, hub: HubServer, data: Path) -> None:
    hub.before = lambda method, path: status if "/commit/" in path else None
    told = kame("publish", data, NAME)
    assert told.exit_code == 4
    assert f"HTTP {status}" in told.stderr
    assert "Run the same command again" in told.stderr
    assert TOKEN not in told.output


def test_a_name_that_is_none_is_refused(hub: HubServer, data: Path) -> None:
    assert kame("publish", data, "eggs").exit_code == 2
    assert kame("publish", data, NAME, "--licence", "mine").exit_code == 2
    assert kame("publish", data / "data", NAME).exit_code == 2


def test_inspect_reads_in_place_and_not_the_sound(hub: HubServer, data: Path) -> None:
    publish(data)
    hub.requests.clear()
    here, there = kame("inspect", data, "--json"), kame("inspect", ADDRESS, "--json")
    assert there.exit_code == 0, there.output
    assert there.stdout == here.stdout
    assert {each.split(" ")[0] for each in hub.requests} <= {"GET", "HEAD", "POST"}
    shown = kame("inspect", ADDRESS)
    assert "mine" in shown.output
    assert not list(Path(os.environ["HF_HOME"]).rglob("*.parquet"))


def test_a_revision_is_read_as_it_was(hub: HubServer, data: Path, tmp_path: Path) -> None:
    publish(data)
    before = hub.repositories["dataset", NAME].head
    publish(with_card(write_dataset(tmp_path / "other", [[noisy_dialogue(400)]])))
    forget_commits(reading)
    assert DatasetReader(f"{ADDRESS}@{before}/").manifest.counts.dialogues == 20
    assert DatasetReader(ADDRESS).manifest.counts.dialogues == 1


def test_offline_what_was_fetched_serves(hub: HubServer, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(data)
    fetched = list(DatasetReader(ADDRESS).iterate_dialogues())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    forget_commits(reading)
    hub.requests.clear()
    assert list(DatasetReader(ADDRESS).iterate_dialogues()) == fetched
    with pytest.raises(ConfigError, match=r"HF_HUB_OFFLINE is set, so hf://datasets/lab/other cannot .* Unset it"):
        DatasetReader("hf://datasets/lab/other")
    assert hub.requests == []


def test_large_files_go_by_xet_where_the_client_has_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xet").mkdir()
    with hub_server(tmp_path / "xet") as hub:
        use_hub(hub, tmp_path / "cache", monkeypatch)
        assert publish(data)["n_sent"] == 22
        assert not hub.uploads
        shards = {each.path: each.sha256 for each in read_manifest(Store(str(data))).shards}
        state = hub.repositories["dataset", NAME].commits[-1][2]
        assert {path: getattr(state[path], "sha256", None) for path in shards} == shards
        assert sum(each.stat().st_size for each in (tmp_path / "xet").rglob("*") if each.is_file()) > 2_000_000
        assert publish(data)["n_sent"] == 0


def test_only_the_oracles_that_are_asked_for_are_fetched(hub: HubServer, data: Path, tmp_path: Path) -> None:
    with_card(write_dataset(data, ten_shards(), version="other", says="some eggs"))
    publish(data)
    store = DatasetReader(ADDRESS, "default").store
    assert len(store.list_files("oracles/default")) == 10
    assert store.list_files("oracles/other") == []
    row = from_table(store.read_table(store.list_files("data")[0]), AudioDialogue)[0]
    assert DatasetReader(ADDRESS, "other").find_oracle(row.dialogue_id) is not None


def test_a_front_end_is_trained_of_it(hub: HubServer, quick_config: FrontEndConfig) -> None:
    (folder,) = quick_config.datasets
    manifest = read_manifest(Store(folder))
    paths = [MANIFEST, *(each.path for each in manifest.shards)]
    files = [HubFile(path, Path(folder) / path) for path in paths]
    send(
        NAME, RepositoryContents("dataset", MANIFEST, [], files, paths.__contains__)
    )  # whatever our samples' licences are
    forget_commits(reading)
    trained = run_front_end(quick_config.model_copy(update={"datasets": [ADDRESS]}))
    assert trained.facts.training.step == 3
    assert trained.facts.training.licences == collect_dataset_licences(DatasetReader(folder))


@pytest.mark.parametrize("address", ["hf://datasets/eggs", "hf://datasets/me/eggs/data", "hf://datasets/../eggs"])
def test_an_address_that_is_none_is_refused(address: str, hub: HubServer) -> None:
    told = kame("inspect", address)
    assert told.exit_code == 2
    assert "Write hf://datasets/owner/name" in told.stderr


def test_a_dataset_that_is_not_there_is_told(hub: HubServer) -> None:
    with pytest.raises(BackendError, match="for hf://datasets/me/eggs failed: HTTP 404"):
        DatasetReader(ADDRESS)
