"""`benchmarks.reference`: what it needs is told, and the tools of a checkout are run on the same dialogues."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.benchmark_runs import run_benchmark
from tests.support.small_datasets import ten_shards, write_dataset

pytestmark = pytest.mark.full

DOUBLES = {
    # the interface of kame_finetune's tools, and none of their work
    "tools/oracle_generation.py": """
def words_from_word_transcript(records):
    return [(each["word"], each["start"], each["end"], each["speaker"]) for each in records]

def merge_word_streams(words):
    return words

class OracleGenerator:
    def __init__(self, *, target_channel):
        assert target_channel == 0

    def generate_requests(self, words):
        yield from words
""",
    "tools/tokenize_text.py": """
def tokenize_and_pad_text(*, word_transcript, text_padding_id, end_of_text_padding_id, text_tokenizer, **_):
    assert all(set(each) == {"speaker", "word", "start", "end"} for each in word_transcript)
    return [text_padding_id]
""",
    "utils/data.py": """
import numpy as np

def preprocess_function(examples, *, delays, initial_token_ids, padding_token_ids, max_length, **_):
    (a,), (b,) = examples["A"], examples["B"]
    streams = np.concatenate([np.array(a), np.array(b)[1:]])
    n_rows, n_frames = streams.shape
    columns = np.tile(np.array(padding_token_ids)[:, None], (1, n_frames + 2))
    for row, delay in enumerate(delays):
        columns[row, : 1 + delay] = initial_token_ids[row]
        columns[row, 1 + delay : 1 + delay + n_frames] = streams[row]
    return {"streams": [columns]}
""",
}


def test_without_a_checkout_it_says_that_it_needs_one(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no checkout of kame_finetune: tools/oracle_generation.py is missing"):
        run_benchmark("reference", str(tmp_path), "--checkout", str(tmp_path))


def test_the_tools_of_a_checkout_get_the_same_dialogues(tmp_path: Path) -> None:
    for name, text in DOUBLES.items():
        file = tmp_path / "checkout" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    dialogues = [each for shard in ten_shards() for each in shard]
    write_dataset(tmp_path / "data", ten_shards())
    typed = [
        "--checkout",
        str(tmp_path / "checkout"),
        "--python",
        sys.executable,
        "--n",
        "4",
        "--rounds",
        "1",
        "--json",
    ]
    figures = json.loads(run_benchmark("reference", str(tmp_path / "data"), *typed))
    n_words = sum(
        len(utterance.words) for each in dialogues[:4] for turn in each.turns for utterance in turn.utterances
    )
    assert figures["dialogues"] == 4
    assert figures["requests"]["theirs"] == n_words
    assert 0 < figures["text_frames"]["different"] < figures["text_frames"]["all"]
    assert figures["columns"] == {"different": 0, "dialogues": 4}
    assert all(each > 0 for times in (figures["ours_s"], figures["theirs_s"]) for each in times.values())
