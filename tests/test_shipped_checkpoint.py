"""The checkpoint that ships: its card is that of today's code, and it says its oracle's words and nobody else's."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from backends.conformance import strip_marks
from data_schemas.config.model import SamplingConfig
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ, count_covering_frames
from kame_model.checkpoint.card import render_card
from kame_model.checkpoint.files import CARD, FACTS
from kame_model.checkpoint.kame_json import read_kame_json
from kame_model.checkpoint.load import load_checkpoint
from kame_model.checkpoint.summary import summarise
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.inner_monologue import read_words
from kame_model.model.streaming import FrontEndGen
from tests.support.spoken_question import spoken_question

SHIPPED = Path(__file__).parents[1] / "examples" / "checkpoints" / "nano"
LATE_FRAMES = 9  # of the oracle, after the question's end
SILENCE_S = 9
ANSWERS = ("The answer is forty two dollars.", "It is the treaty of Versailles.")


def test_its_card_is_what_the_code_writes() -> None:
    summary = summarise(SHIPPED)
    card = render_card(read_kame_json(SHIPPED / FACTS), summary.n_weights, summary.n_parameters)
    assert (SHIPPED / CARD).read_text(encoding="utf-8") == card


def answer_question(oracles: Sequence[str]) -> list[list[str]]:
    """Returns the words that the front-end writes for each oracle, asked a real question; an empty one is no oracle."""
    checkpoint = load_checkpoint(SHIPPED)
    codec, tokenizer = checkpoint.load_codec(), checkpoint.load_tokenizer()
    assert codec is not None
    assert tokenizer is not None
    question = spoken_question()
    begin = count_covering_frames(len(question)) + LATE_FRAMES
    n_frames = count_covering_frames(len(question) + SILENCE_S * SAMPLE_RATE_HZ)
    sound = np.zeros((n_frames, FRAME_N_SAMPLES), np.float32)
    sound.reshape(-1)[: len(question)] = question
    fed = torch.full((len(oracles), n_frames), PADDING_ID)
    for row, oracle in enumerate(oracles):
        ids = tokenizer.encode(oracle)
        fed[row, begin : begin + len(ids)] = torch.tensor(ids)
    gen, texts = FrontEndGen(checkpoint.front_end, SamplingConfig(use_sampling=False)), []
    with torch.no_grad(), gen.streaming(len(oracles)), codec.stream(1) as stream:
        for at, frame in enumerate(sound):
            heard = torch.from_numpy(stream.encode_frame(frame[None])).long().expand(len(oracles), -1)
            texts.append(gen.step(heard, fed[:, at]).text.clone())
    return [[word for _, word in read_words(row, tokenizer)] for row in torch.stack(texts, dim=1).numpy()]


@pytest.mark.full
def test_it_says_its_oracles_words_once_and_in_order_and_none_of_them_without_one() -> None:
    *with_oracle, without = answer_question([*ANSWERS, ""])
    for answer, said in zip(ANSWERS, with_oracle, strict=True):
        wanted = strip_marks(answer).split()
        assert [word for word in said if word in wanted] == wanted, said
        assert " ".join(wanted) in " ".join(said)
        assert not {*wanted} & {*without}, without
