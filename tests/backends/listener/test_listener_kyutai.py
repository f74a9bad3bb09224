"""Kyutai's recogniser on a tiny random model of the same file names and keys as stt-2.6b-en's."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from moshi.models.lm import LMModel
from safetensors.torch import save_file

from backends import registry
from backends.conformance import make_chirps
from backends.engine import Samples
from backends.listener.conformance import HeardLog
from backends.listener.kyutai import KyutaiListener
from backends.listener.kyutai_model import KyutaiModel
from backends.listener.protocol import Heard
from data_schemas.errors import BackendError, ConfigError
from tests.support.codecs import TINY_LAYOUT, tiny_mimi
from tests.support.vocabularies import train_with

pytestmark = pytest.mark.full

torch.set_num_threads(1)
SHAPE: dict[str, Any] = json.loads("""{
    "dep_q": 0, "dim": 32, "existing_text_padding_id": 3, "num_heads": 2, "num_layers": 2, "hidden_scale": 4.125,
    "causal": true, "layer_scale": null, "context": 40, "max_period": 100000.0, "gating": "silu",
    "norm": "rms_norm_f32", "positional_embedding": "rope", "depformer_dim": 16, "depformer_num_heads": 2,
    "depformer_num_layers": 1, "depformer_dim_feedforward": null, "depformer_multi_linear": true,
    "depformer_pos_emb": "none", "depformer_weights_per_step": true
}""")
"""The keys of huggingface.co/kyutai/stt-2.6b-en's config.json, with other sizes; `folder` adds those of the codes."""
OTHER: dict[str, Any] = json.loads("""{
    "conditioners": {}, "cross_attention": false, "model_id": {"sig": "0", "epoch": 0},
    "lm_gen_config": {"temp": 0.0, "temp_text": 0.0, "top_k": 250, "top_k_text": 50},
    "stt_config": {"audio_delay_seconds": 0.5, "audio_silence_prefix_seconds": 0.16}, "model_type": "stt",
    "mimi_name": "mimi-pytorch-e351c8d8@125.safetensors", "mimi_config_name": "mimi.json",
    "tokenizer_name": "tokenizer_en_audio_4000.model"
}""")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stt")
    tiny_mimi(made)
    (made / "mimi.safetensors").rename(made / OTHER["mimi_name"])
    pieces = sentencepiece.SentencePieceProcessor(str(train_with(made / OTHER["tokenizer_name"], vocab_size=400)))
    n_q = TINY_LAYOUT.n_codebooks
    shape = SHAPE | {
        "text_card": pieces.get_piece_size(),
        "card": TINY_LAYOUT.card,
        "n_q": n_q,
        "delays": [0] * (n_q + 1),
    }
    torch.manual_seed(1)
    lm = LMModel(**shape)
    save_file({name: value.clone() for name, value in lm.state_dict().items()}, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps(shape | OTHER))
    return made


Listening = Callable[[int], KyutaiListener]


@pytest.fixture
def listening(folder: Path) -> Iterator[Listening]:
    opened: list[KyutaiListener] = []

    def listen(max_callers: int) -> KyutaiListener:
        built = registry.build("listener", "kyutai", {"path": str(folder), "device": "cpu", "max_callers": max_callers})
        assert isinstance(built, KyutaiListener)
        opened.append(built)
        return built

    yield listen
    for each in opened:
        each.close()


def alone(listening: Listening, sound: Samples) -> list[Heard]:
    told = HeardLog()
    ear = listening(1).listen(told)
    ear.feed(sound)
    ear.end_turn()
    told.wait_for_finals(1)
    return told.all


def test_a_caller_hears_the_same_alone_among_others_and_in_a_slot_that_was_used(listening: Listening) -> None:
    sounds = [make_chirps(seed, 1920 * 8) for seed in range(3)]
    expected = [alone(listening, sound)[-1].text for sound in sounds]
    assert len(set(expected)) == 3  # so that one caller's words in another's turn would be seen
    recogniser = listening(2)
    for first, second in ((0, 1), (2, 0), (1, 2)):
        told = HeardLog(), HeardLog()
        ears = [recogniser.listen(each) for each in told]
        for start in range(0, 1920 * 8, 960):  # interleaved, in pieces that are no frames
            for ear, index in zip(ears, (first, second), strict=True):
                ear.feed(sounds[index][start : start + 960])
        for ear in ears:
            ear.end_turn()
        assert [each.wait_for_finals(1)[0] for each in told] == [expected[first], expected[second]]
        for ear in ears:
            ear.close()


def test_words_are_told_while_they_are_said_and_a_turn_ends_with_all_of_them(listening: Listening) -> None:
    told = HeardLog()
    ear = listening(1).listen(told)
    for _ in range(2):
        ear.feed(make_chirps(5, 1920 * 10))
        ear.end_turn()
    finals = told.wait_for_finals(2)
    first_turn = [each.text for each in told.all[: [each.is_final for each in told.all].index(True) + 1]]
    assert len(first_turn) > 2
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(first_turn))
    assert not finals[1].startswith(finals[0])


def test_no_more_callers_than_slots_and_a_closed_ear_makes_room(listening: Listening) -> None:
    recogniser = listening(1)
    told = HeardLog()
    ear = recogniser.listen(told)
    with pytest.raises(BackendError, match="already serves its maximum of 1 sessions"):
        recogniser.listen(HeardLog())
    ear.feed(make_chirps(0, 1920 * 4))
    ear.close()
    n_told = len(told.all)
    later = HeardLog()
    again = recogniser.listen(later)
    again.feed(make_chirps(1, 1920 * 4))
    again.end_turn()
    assert later.wait_for_finals(1)
    assert len(told.all) == n_told


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_step_that_fails_takes_no_turn_s_end_with_it_and_hearing_goes_on(
    listening: Listening, monkeypatch: pytest.MonkeyPatch, at_the_end: bool
) -> None:
    monkeypatch.setattr("backends.listener.kyutai._RETRY_S", 0.01)
    failed = threading.Event()
    step = KyutaiModel.step

    def failing(self: KyutaiModel, frames: dict[int, Samples], new: list[int]) -> dict[int, int | None]:
        if (at_the_end and frames) or failed.is_set():
            return step(self, frames, new)
        failed.set()  # the first step of all, or the first without a frame: the caller's turn ends in it
        raise RuntimeError("CUDA error: out of memory\nand more")

    recogniser, told = listening(1), HeardLog()
    monkeypatch.setattr(KyutaiModel, "step", failing)
    ear = recogniser.listen(told)
    turns = [make_chirps(seed, 1920 * 6) for seed in (2, 3)]
    for turn in turns:
        ear.feed(turn)
        ear.end_turn()
    finals = told.wait_for_finals(2)
    assert failed.is_set()
    assert ear.failure is None
    assert not finals[1].startswith(finals[0])


def test_an_ear_that_is_too_far_behind_gives_up_its_oldest_sound_and_says_so(
    listening: Listening, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("backends.listener.kyutai._MAX_BEHIND", 10)
    begun, may_step = threading.Semaphore(0), threading.Semaphore(0)
    step = KyutaiModel.step

    def slow(self: KyutaiModel, *arguments: Any) -> dict[int, int | None]:
        begun.release()
        may_step.acquire()
        return step(self, *arguments)

    recogniser, told = listening(1), HeardLog()
    monkeypatch.setattr(KyutaiModel, "step", slow)
    ear = recogniser.listen(told)
    ear.feed(np.zeros(1920, dtype=np.float32))
    ear.end_turn()
    ear.feed(np.zeros(1920 * 20, dtype=np.float32))
    begun.acquire()
    for _ in range(12):  # at half real time
        may_step.release()
        begun.acquire()
        ear.feed(np.zeros(1920 * 2, dtype=np.float32))
        assert "slower than speech" in str(ear.failure)
    ear.end_turn()
    may_step.release(1000)
    assert len(told.wait_for_finals(2)) == 2  # no turn's end was given up
    assert ear.failure is None
    ear.close()
    ear.feed(np.zeros(1920 * 20, dtype=np.float32))
    assert [each.getMessage() for each in caplog.records if "the oldest audio is dropped" in each.getMessage()] == [
        "Kyutai's recogniser is 1 s behind; the oldest audio is dropped."
    ]


def test_what_is_no_recogniser_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(path: Path) -> None:
        registry.build("listener", "kyutai", {"path": str(path), "device": "cpu"})

    with pytest.raises(ConfigError, match="contains no model of Kyutai's"):
        build(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"lacks model\.safetensors, mimi-pytorch"):
        build(tmp_path)
    for name in ("model.safetensors", OTHER["mimi_name"], OTHER["mimi_config_name"], OTHER["tokenizer_name"]):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "hibiki"}))
    with pytest.raises(ConfigError, match="hibiki model, not a speech recogniser"):
        build(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"dim": 48}))
    with pytest.raises(BackendError, match="does not load"):
        build(tmp_path)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repo, file, **more: str(tmp_path / file))
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "hibiki"}))
    with pytest.raises(ConfigError, match=r"kyutai/stt-1b-en_fr is a hibiki model"):  # nothing else was downloaded
        registry.build("listener", "kyutai", {"device": "cpu"})


def test_a_model_that_cannot_be_downloaded_is_told() -> None:
    with pytest.raises(BackendError, match="Cannot download kyutai/stt-1b-en_fr"):
        registry.build("listener", "kyutai", {"device": "cpu"})
