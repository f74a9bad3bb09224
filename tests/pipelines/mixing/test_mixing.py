"""Clips to one clock and two channels: gaps, sound, words, and what a row says of itself; on the doubles' speech."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.config import MixingConfig, SurroundingsConfig
from data_schemas.records import Dialogue, Hearing
from pipelines.mixing.stage import MixingStage
from pipelines.quality.dialogue_rules import check_dialogue
from tests.support import mixed as made
from tests.support.builders import make_dialogue, make_turn, make_utterance
from tests.support.mixed import after, answer, at, mix, mixed


@settings(max_examples=20)
@given(least=st.floats(0, 2), more=st.floats(0, 2), after_s=st.floats(0, 2), seed=st.integers(0, 2**40))
def test_gaps_are_in_their_bounds(least: float, more: float, after_s: float, seed: int) -> None:
    most = least + more
    config = MixingConfig(before_min_s=least, before_max_s=most, gap_min_s=least, gap_max_s=most, after_s=after_s)
    (row,) = mix(made.plain(), config, seed=seed).outputs
    (user_s, user_end_s), (own_s, own_end_s) = (at(turn.start_s, turn.end_s) for turn in row.turns)
    assert least - 1e-4 <= user_s <= most + 1e-4
    assert least - 1e-4 <= own_s - user_end_s <= most + 1e-4
    assert row.duration_s - own_end_s == pytest.approx(after_s, abs=1e-4)


def test_two_breaths_of_a_question_are_as_far_apart_as_the_script_says() -> None:
    breaths = [make_utterance("What colour has,"), make_utterance("the flag of that town?", placement=after(1.25))]
    row = mixed(make_dialogue(make_turn(0, "B", breaths), answer()))
    one, other = row.turns[0].utterances
    first_end_s, second_s = at(one.end_s, other.start_s)
    assert second_s - first_end_s == pytest.approx(1.25, abs=1e-4)
    assert (row.turns[0].start_s, row.turns[0].end_s) == (one.start_s, other.end_s)


FORMS = [made.plain(), made.early_start(), made.interrupted(), made.backchannelled()]


@pytest.mark.parametrize("dialogue", FORMS)
def test_no_form_breaks_a_rule_of_check(dialogue: Dialogue) -> None:
    assert list(check_dialogue(mixed(dialogue))) == []


def test_a_row_says_who_spoke_how_loud_and_what_was_heard() -> None:
    row = mixed(made.plain(), seed=7)
    by = row.provenance
    assert (by.tts, by.aligner, by.voice_a, by.voice_b, by.seed) == ("double", "double", "double_a", "double_b", 7)
    assert row.quality.rms_dbfs_a == pytest.approx(-27.0, abs=0.1)
    assert row.quality.rms_dbfs_b == pytest.approx(-27.0, abs=0.1)
    assert (row.quality.wer, row.quality.number_recall, row.quality.name_recall) == (None, None, None)
    dialogue = made.plain()
    none = {"text": "", "n_names": 0, "n_names_heard": 0, "n_takes": 1}
    counted = ({"n_words": 9, "n_word_errors": 1, "n_numbers": 3, "n_numbers_heard": 3},
               {"n_words": 1, "n_word_errors": 1, "n_numbers": 1, "n_numbers_heard": 0})  # fmt: skip
    hearings = [Hearing(**none, **counts) for counts in counted]  # type: ignore[arg-type]
    (row,) = mix(dialogue, clips=made.clips_of(dialogue, hearings)).outputs
    assert [turn.utterances[0].hearing for turn in row.turns] == hearings
    assert (row.quality.wer, row.quality.number_recall, row.quality.name_recall) == (0.2, 0.75, None)


def test_the_mix_depends_on_its_seed_and_on_nothing_else() -> None:
    all_of_it = SurroundingsConfig(noise_share=1, room_share=1, telephone_share=1, rt60_max_s=0.2)
    random.seed(1)
    one = mixed(made.interrupted(), all_of_it)
    random.seed(2)
    np.random.seed(2)
    state = str(np.random.get_state())
    assert mixed(made.interrupted(), all_of_it) == one
    assert str(np.random.get_state()) == state
    assert mixed(made.interrupted(), all_of_it, seed=1).flac != one.flac


def test_the_rest_of_a_batch_is_mixed_and_what_makes_files_is_part_of_the_identity() -> None:
    refused, fine = made.early_start(0.5, "Well"), made.plain()
    stage = MixingStage(MixingConfig(), made.CLEAN, 0)
    clips = [made.clips_of(each) for each in (refused, fine)]
    batch = zip((refused, fine), clips, strict=True)
    result = stage.run([(each, said, made.words_of(each, said)) for each, said in batch])
    assert (len(result.rejects), result.outputs) == (1, [mixed(fine)])
    assert set(stage.get_fingerprint_fields()["made_with"]) == {"pyroomacoustics", "scipy", "soundfile"}
