"""`benchmarks.decoded_sound` with the included checkpoint, as a process of its own."""

import json
from pathlib import Path

import pytest

from kame_model.checkpoint.files import FACTS
from kame_model.checkpoint.kame_json import read_kame_json
from tests.support.benchmark_runs import ROOT, run_benchmark
from tests.support.made_rows import made_with, make_speech_row
from tests.support.token_rows import write_token_rows


@pytest.mark.slow
def test_a_model_reads_the_text_of_the_recordings_in_its_own_voice(tmp_path: Path) -> None:
    nano = ROOT / "examples" / "checkpoints" / "nano"
    facts = read_kame_json(nano / FACTS)
    assert facts.codec is not None
    assert facts.layout is not None
    digests, layout = {"tokenizer_digest": facts.tokenizer_digest, "codec_digest": facts.codec.digest}, facts.layout
    plain = made_with(text_card=1500, card=min(layout.sizes), n_codebooks=layout.n_codebooks)
    validation = [make_speech_row(number, "validation", plain) for number in range(4)]
    by = plain.model_copy(update=digests | {"layout": layout})
    write_token_rows(tmp_path, [make_speech_row(9, "train", plain)], validation, made_with=by)
    told = json.loads(run_benchmark("decoded_sound", nano, tmp_path, "--n", "3", "--json"))
    assert len(told["rows"]) == 3
    assert all(row["read"] == row["text"] != "" for row in told["rows"])
    assert told["heard"][1] == told["recorded"][1] > 0
