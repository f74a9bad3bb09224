"""Small datasets for the dashboard's pages, and an app over them that answers without a socket."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from dashboard.app import create_app
from dashboard.catalog import Catalog, Dataset
from dashboard.index import Index, build_index
from dashboard.runs import Run
from data_schemas.arrow import to_table
from data_schemas.manifest import MANIFEST, REJECTS, Manifest, ShardEntry, make_manifest
from data_schemas.reader import read_manifest
from data_schemas.records import AudioDialogue, Hearing, Reject
from data_schemas.store import Store
from flows.token_rows import EncodedRows
from kame_model.encode.run import encode_dataset
from kame_model.encode.token_dataset import TokenDataset
from tests.support.schedulers import RUN, KeptScheduler
from tests.support.small_datasets import encode_settings, noisy_dialogue, write_dataset

TOKEN = "let-me-flag"
TOKENIZER = Path(__file__).parents[2] / "examples" / "checkpoints" / "nano" / "tokenizer.model"
SCRIPT = "<script>window.was_run = true</script>"
"""What somebody's question may hold; no page may run it."""


def heard(row: AudioDialogue, text: str, n_words: int, n_word_errors: int) -> AudioDialogue:
    """Returns a dialogue with a recogniser's transcript of its answer, and the word error rate of that."""
    hearing = Hearing(
        text=text,
        n_words=n_words,
        n_word_errors=n_word_errors,
        n_numbers=1,
        n_numbers_heard=1,
        n_names=0,
        n_names_heard=0,
        n_takes=1,
    )
    question, answer = row.turns
    answer = replace(answer, utterances=tuple(replace(each, hearing=hearing) for each in answer.utterances))
    quality = replace(row.quality, wer=n_word_errors / n_words)
    return replace(row, turns=(question, answer), quality=quality)


def dialogues() -> list[list[AudioDialogue]]:
    """Three shards: two of training, one of the test split; forms, lengths, voices and hearings differ."""
    train = [
        heard(noisy_dialogue(0), "Well, eighteen legs.", 3, 1),
        heard(replace(noisy_dialogue(1, n_samples=48_000), form="greeting"), "Well eighteen eggs", 3, 0),
    ]
    more = [
        replace(noisy_dialogue(2, n_samples=72_000), question=f"What of this? {SCRIPT}", licence=None),
        replace(noisy_dialogue(3), provenance=replace(noisy_dialogue(3).provenance, voice_b="amy")),
    ]
    return [train, more, [replace(noisy_dialogue(4, "test"), form="greeting", answer="50% of 'all'")]]


def rejects() -> list[Reject]:
    """One refused item and one refused dialogue."""
    return [
        Reject(item_id="mine-8", source="mine", stage="script", reason="formula", detail="x^2"),
        Reject(
            item_id="mine-9",
            dialogue_id="mine-9-v0",
            source="mine",
            stage="speech",
            reason="misheard",
            detail=f"3 takes {SCRIPT}",
        ),
    ]


def write_small(
    folder: Path,
    refused: Sequence[Reject] | None = None,
    shards: Sequence[Sequence[AudioDialogue]] | None = None,
    says: str = "a few eggs",
) -> Path:
    """Writes a dataset of five dialogues, or of those of `shards`, with rejects, and returns its folder.

    Args:
        refused: rejects; None for those of `rejects`.
        says: text of an oracle event of each dialogue.
    """
    write_dataset(folder, dialogues() if shards is None else shards, says=says)
    store = Store(str(folder))
    refused = rejects() if refused is None else refused
    written = store.write_table("rejects/mine-0.parquet", to_table(list(refused), Reject))
    before = read_manifest(store)
    entry = ShardEntry(
        path=written.path,
        kind=REJECTS,
        source="mine",
        n_rows=len(refused),
        n_bytes=written.n_bytes,
        sha256=written.sha256,
    )
    write_manifest(folder, make_manifest([*before.shards, entry], before.counts, before.oracle_version))
    return folder


def encode_small(dataset: Path, out: str = "tokens", **fields: Any) -> TokenDataset:
    """Encodes a dataset by the double codec and the shipped vocabulary to a folder beside it, and opens that folder."""
    encode_dataset(encode_settings(dataset, str(TOKENIZER), out, **fields))
    return TokenDataset(str(dataset.with_name(out)))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replaces the manifest of a dataset."""
    Store(str(folder)).write_bytes(MANIFEST, manifest.model_dump_json().encode())


def opened(folder: Path) -> Dataset:
    """Returns the dataset in a folder, as the dashboard's catalog has it."""
    (found,) = Catalog([folder]).list_datasets()
    assert isinstance(found, Dataset)
    return found


def indexed(folder: Path, file: Path) -> Index:
    """Builds the index of a dataset in a file, and opens it."""
    build_index(opened(folder), file, lambda: None)
    return Index(file)


def client_of(root: Path, cache: Path, token: str | None = TOKEN, runs: Sequence[Run] = (RUN,)) -> TestClient:
    """Returns a browser of the dashboard over a folder, with some runs; errors of the app are answered, not raised."""
    headers = {"Accept": "text/html,*/*"}
    app = create_app([root], cache, token, scheduler=KeptScheduler(*runs), token_rows=EncodedRows())
    return TestClient(app, base_url="http://localhost", headers=headers, raise_server_exceptions=False)


@contextmanager
def indexed_client(root: Path, cache: Path) -> Iterator[TestClient]:
    """Yields a client as `client_of`, once the dataset `small` in the folder is indexed."""
    with client_of(root, cache) as client:
        while client.get("/datasets/small").status_code == 202:
            pass
        yield client
