"""A free run feeds the model its own words, the user's recording, and the oracle as a server would."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from data_schemas.config.model import SamplingConfig
from data_schemas.units import FRAMES_PER_S
from kame_model.evaluate.conditions import CORRECTED_AFTER_S, Script, question_end_frame, script_for
from kame_model.evaluate.free_running import FreeRun, run_freely
from kame_model.frames.batch import Example, collate
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, OracleTokens, lay_oracle
from kame_model.frames.sequence import lay_sequence
from kame_model.model.front_end import FrontEnd
from tests.support.front_ends import CARD, N_CODEBOOKS, TEXT_CARD, audio_of, tiny_front_end
from tests.support.made_rows import made_with, make_row

LIKELIEST = SamplingConfig(use_sampling=False)
EVENTS: list[OracleTokenEvent] = [(3, [5, 6, 7, 8]), (5, [9, 10])]


def script(n_frames: int, seed: int, events: list[OracleTokenEvent] | None = None, **fields: object) -> Script:
    other = np.random.default_rng(seed).integers(0, CARD, (N_CODEBOOKS, n_frames)).astype(np.int16)
    return Script(other, EVENTS if events is None else events, answer_from_frame=6, **fields)  # type: ignore[arg-type]


def foreseen(front_end: FrontEnd, given: Script, run: FreeRun, oracle: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest next text and codes, when the training forward reads what was said and heard."""
    columns = lay_sequence(run.text, run.own, given.other, TEXT_CARD, CARD)
    example = Example.of(columns, oracle, np.zeros(len(oracle), np.bool_), TEXT_CARD, CARD)
    batch = collate([example])
    with torch.no_grad():
        logits = front_end(batch.columns, batch.oracle)
    return logits.text[0].argmax(-1), audio_of(logits)[0].argmax(-1)


def test_what_is_said_is_what_the_training_forward_foresees_of_it() -> None:
    front_end = tiny_front_end()
    scripts = [script(20, 1), script(14, 2), script(17, 3, [])]
    runs = run_freely(front_end, scripts, LIKELIEST, seed=0, batch_size=2)
    for given, run in zip(scripts, runs, strict=True):
        n_frames = given.other.shape[1]
        text, audio = foreseen(front_end, given, run, lay_oracle(given.events, n_frames + 1, TEXT_CARD))
        np.testing.assert_array_equal(run.text, text[:n_frames].numpy())
        np.testing.assert_array_equal(run.own[0], audio[0, :n_frames].numpy())
        # A frame later, by the delay; the last frame's stand beside a first code that the recording no longer has.
        np.testing.assert_array_equal(run.own[1:, :-1], audio[1:, 1:n_frames].numpy())


def words_said(run: FreeRun, start: int) -> list[tuple[int, int]]:
    """Frames and tokens of what is said from a frame on."""
    return [
        (at, int(token))
        for at, token in enumerate(run.text)
        if at >= start and token not in (PADDING_ID, END_OF_PADDING_ID)
    ]


def opening_after_a_lead(words: list[tuple[int, int]]) -> tuple[int, list[int]]:
    """The frame of the first of two tokens that are said for the first time, and the two; others come before them."""
    pairs = [[one[1], other[1]] for one, other in pairwise(words)]
    at = next(at for at, each in enumerate(pairs) if at >= 2 and each not in pairs[:at])
    return words[at][0], pairs[at]


def test_a_correction_comes_so_long_after_the_first_word_of_the_answer() -> None:
    front_end = tiny_front_end()
    (alone,) = run_freely(front_end, [script(24, 4)], LIKELIEST, seed=0)
    opened_frame, opening = opening_after_a_lead(words_said(alone, 6))
    given = script(24, 4, opening=opening, correction=[11, 12, 13], correction_after_frames=4)
    (run,) = run_freely(front_end, [given], LIKELIEST, seed=0)
    assert run.answer_frame == words_said(alone, 6)[0][0] < opened_frame
    assert run.correction_frame == opened_frame + 4
    events = [*given.events, (run.correction_frame, [11, 12, 13])]
    text, _ = foreseen(front_end, given, run, lay_oracle(events, 25, TEXT_CARD))
    np.testing.assert_array_equal(run.text, text[:24].numpy())


def test_a_correction_waits_for_the_wrong_answer_that_its_row_tells_and_not_for_a_lead() -> None:
    by, never = made_with(TEXT_CARD, CARD, N_CODEBOOKS), 1000  # frames: when all is over, so that it changes nothing
    row, other, front_end = make_row(0, "test", by), make_row(1, "test", by), tiny_front_end()
    (alone,) = run_freely(front_end, [script_for(row, None, "none", never)], LIKELIEST, seed=0)
    opened_frame, opening = opening_after_a_lead(words_said(alone, question_end_frame(row)))

    def corrected(told: list[int]) -> FreeRun:
        oracle = OracleTokens.pack([question_end_frame(other)], [1.0], [5], [True], [told], [told])
        stranger = replace(other, a=replace(other.a, oracle=oracle))
        return run_freely(front_end, [script_for(row, stranger, "corrected", never)], LIKELIEST, seed=0)[0]

    assert corrected([*opening, 5]).correction_frame == opened_frame + round(CORRECTED_AFTER_S * FRAMES_PER_S)
    assert corrected([TEXT_CARD - 1] * 3).correction_frame is None, "that answer is never begun"


def test_the_same_seed_samples_the_same_and_another_one_otherwise() -> None:
    front_end, scripts = tiny_front_end(), [script(20, 1), script(20, 2)]
    first, again, other = (run_freely(front_end, scripts, SamplingConfig(), seed) for seed in (0, 0, 1))
    assert all(
        (one.text == two.text).all() and (one.own == two.own).all() for one, two in zip(first, again, strict=True)
    )
    assert any((one.text != two.text).any() for one, two in zip(first, other, strict=True))
