"""`benchmarks.decoded_sound` with the included checkpoint, as a process of its own."""

import json
from pathlib import Path

import pytest

from tests.support.benchmark_runs import ROOT, run_benchmark
from tests.support.made_rows import made_with, make_speech_row
from tests.support.token_rows import write_token_rows


@pytest.mark.slow
def test_a_model_reads_the_text_of_the_recordings_in_its_own_voice(tmp_path: Path) -> None:
    nano = ROOT / "examples" / "checkpoints" / "nano"
    facts = json.loads((nano / "kame.json").read_text())
    digests = {"tokenizer_digest": facts["tokenizer_digest"], "codec_digest": facts["codec"]["digest"]}
    by = made_with(text_card=1500, card=512, n_codebooks=6).model_copy(update=digests)
    validation = [make_speech_row(number, "validation", by) for number in range(4)]
    write_token_rows(tmp_path, [make_speech_row(9, "train", by)], validation, made_with=by)
    told = json.loads(run_benchmark("decoded_sound", nano, tmp_path, "--n", "3", "--json"))
    assert len(told["rows"]) == 3
    assert all(row["read"] == row["text"] != "" for row in told["rows"])
    assert told["heard"][1] == told["recorded"][1] > 0
