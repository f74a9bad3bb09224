"""A free run feeds the model its own words, the user's recording, and the oracle as a server would."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import SamplingConfig
from kame_model.evaluate.recall.free_running import FreeRun, FreeRunScript, make_script, plan_batches, run_freely
from kame_model.evaluate.recall.turns import AskedDialogue, find_turns
from kame_model.frames.batch import Example, collate
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, make_oracle_stream
from kame_model.frames.sequence import make_columns
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import Tokenizer
from tests.support.front_ends import CARD, LAYOUT, LED_BY_TEXT, N_CODEBOOKS, TEXT_CARD, audio_of, tiny_front_end
from tests.support.recall_rows import AGAIN, ASKED, make_vocabulary, recall_row

LIKELIEST = SamplingConfig(use_sampling=False)
EVENTS: list[OracleTokenEvent] = [(3, [5, 6, 7, 8]), (5, [9, 10])]


def script(n_frames: int, seed: int, events: list[OracleTokenEvent] | None = None, **fields: object) -> FreeRunScript:
    other = np.random.default_rng(seed).integers(0, CARD, (N_CODEBOOKS, n_frames)).astype(np.int16)
    return FreeRunScript(other, EVENTS if events is None else events, answer_from_frame=6, **fields)  # type: ignore[arg-type]


def foreseen(
    front_end: FrontEnd, given: FreeRunScript, run: FreeRun, oracle: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest next text, and the codes' logits, when the training forward reads what was said and heard."""
    columns = make_columns(run.text, run.own, given.other, TEXT_CARD, front_end.layout)
    example = Example.from_columns(columns, oracle, np.zeros(len(oracle), np.bool_), TEXT_CARD, CARD)
    batch = collate([example])
    with torch.no_grad():
        logits = front_end(batch.columns, batch.oracle)
    return logits.text[0].argmax(-1), audio_of(logits)[0]


@pytest.mark.parametrize("layout", [LAYOUT, LED_BY_TEXT], ids=["Mimi", "text ahead"])
def test_what_is_said_is_what_the_training_forward_foresees_of_it(layout: CodeLayout) -> None:
    front_end = tiny_front_end(layout=layout)
    scripts = [script(20, 1), script(14, 2), script(17, 3, [])]
    runs = run_freely(front_end, scripts, LIKELIEST, seed=0)
    for given, run in zip(scripts, runs, strict=True):
        n_frames = given.other.shape[1]
        text, audio = foreseen(front_end, given, run, make_oracle_stream(given.events, n_frames + 1, TEXT_CARD))
        np.testing.assert_array_equal(run.text, text[:n_frames].numpy())
        for book, delay in enumerate(layout.delays):  # the last frames' stand beside codes that the recording has not
            likeliest = audio[book, :n_frames, : layout.sizes[book]].argmax(-1)
            np.testing.assert_array_equal(run.own[book, : n_frames - delay], likeliest[delay:].numpy())


def words_said(run: FreeRun, start: int) -> list[tuple[int, int]]:
    """Frames and tokens of what is said from a frame on."""
    return [
        (at, int(token))
        for at, token in enumerate(run.text)
        if at >= start and token not in (PADDING_ID, END_OF_PADDING_ID)
    ]


def test_a_correction_comes_so_long_after_the_opening_was_said_in_a_row() -> None:
    front_end = tiny_front_end()
    (alone,) = run_freely(front_end, [script(24, 4)], LIKELIEST, seed=0)
    words = words_said(alone, 6)
    pairs = [[one[1], other[1]] for one, other in pairwise(words)]
    at = next(at for at, each in enumerate(pairs) if at >= 2 and each not in pairs[:at])  # others come before them
    opened_frame = words[at + 1][0]
    given = script(24, 4, opening=pairs[at], correction=[11, 12, 13], correction_after_frames=4)
    never = script(24, 4, opening=[TEXT_CARD - 1] * 3, correction=[11], correction_after_frames=4)
    run, other = run_freely(front_end, [given, never], LIKELIEST, seed=0)
    assert run.correction_frame == opened_frame + 4
    assert other.correction_frame is None, "that answer is never begun"
    events = [*given.events, (run.correction_frame, [11, 12, 13])]
    text, _ = foreseen(front_end, given, run, make_oracle_stream(events, 25, TEXT_CARD))
    np.testing.assert_array_equal(run.text, text[:24].numpy())


def asked_by(tokenizer: Tokenizer, *answers: str) -> list[AskedDialogue]:
    return find_turns(
        [recall_row(at, answer, tokenizer, asked_again=True) for at, answer in enumerate(answers)], tokenizer
    )


def test_oracles_are_right_none_anothers_or_corrected_and_late(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    one, other = asked_by(tokenizer, "five clips", "six clips")
    told = {
        oracle: make_script(one, other if oracle in ("wrong", "corrected") else None, oracle, 0.16, 1.0, tokenizer)
        for oracle in ("right", "none", "wrong", "corrected")
    }
    read = {
        oracle: [(frame, tokenizer.decode(list(tokens))) for frame, tokens in each.events]
        for oracle, each in told.items()
    }
    late = make_script(one, None, "right", 2.0, 1.0, tokenizer, guesses="withdraw")
    assert [tokenizer.decode(list(tokens)) for _, tokens in late.events] == ["", "it is five clips"] * 2
    held = make_script(one, None, "right", 0.16, 1.0, tokenizer, guesses="hold")
    assert [frame for frame, _ in held.events] == [ASKED + 9, AGAIN + 9], "0.7 s after the question's end"
    strange = make_script(one, other, "wrong", 2.0, 1.0, tokenizer, guesses="hold")
    assert [tokenizer.decode(list(tokens)) for _, tokens in strange.events] == ["it is six clips"]
    guess, right, again = (8, "no"), (ASKED + 2, "it is five clips"), (AGAIN + 2, "it is five clips")
    assert read["right"] == [guess, right, (AGAIN - 2, "no"), again]
    assert read["none"] == []
    assert read["wrong"] == read["corrected"] == [guess, (ASKED + 2, "it is six clips")]
    corrected = told["corrected"]
    assert tokenizer.decode(list(corrected.opening)) == "it is six", "to its third word"
    assert tokenizer.decode(list(corrected.correction)) == "it is five clips"
    assert (corrected.answer_from_frame, corrected.correction_after_frames) == (ASKED, 12)
    assert not any(told[oracle].correction for oracle in ("right", "none", "wrong"))


def test_a_wrong_oracle_ends_with_the_question_it_is_told_to(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    (cut,) = find_turns([recall_row(1, "five", tokenizer, cut=True)], tokenizer)
    (other,) = find_turns([recall_row(2, "six", tokenizer)], tokenizer)
    events = make_script(cut, other, "wrong", 0.0, 1.0, tokenizer).events
    assert [frame for frame, _ in events] == [AGAIN - 6, AGAIN], "the turn after the cut"


def test_dialogues_of_like_length_are_run_side_by_side() -> None:
    assert plan_batches([30, 10, 20, 40, 25], 2) == [[1, 2], [4, 0], [3]]


def test_the_same_seed_samples_the_same_and_another_one_otherwise() -> None:
    front_end, scripts = tiny_front_end(), [script(20, 1), script(20, 2)]
    first, again, other = (run_freely(front_end, scripts, SamplingConfig(), seed) for seed in (0, 0, 1))
    assert all(
        (one.text == two.text).all() and (one.own == two.own).all() for one, two in zip(first, again, strict=True)
    )
    assert any((one.text != two.text).any() for one, two in zip(first, other, strict=True))
