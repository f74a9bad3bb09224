"""What a row claims to have been measured, and the sound under its words, are found out where they are not so."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data_schemas.config import SurroundingsConfig
from data_schemas.records import AudioDialogue, Hearing
from pipelines.audio import decode_flac, measure_rms_dbfs
from tests.support import mixed as made
from tests.support.broken_rows import broken, on_sound, on_utterance, provenance, squeezed

ELSEWHERE = "the sound of an utterance lies around its words"
NOISY = SurroundingsConfig(noise_share=1, snr_min_db=6, snr_max_db=6, room_share=0, telephone_share=0)


def test_noise_on_the_users_channel_is_no_speech_and_hides_nobody() -> None:
    row = made.mixed(made.interrupted(), NOISY)
    assert broken(row) == set()
    assert measure_rms_dbfs(decode_flac(row.flac)[:2_400, 1]) > -50
    quiet = on_sound(lambda sound: sound * np.array([0.01, 1.0], np.float32))(row)
    assert broken(quiet) == {"each speaker is on their own channel"}, "an assistant below the noise is not heard"
    row = made.mixed(made.plain(), NOISY)
    noise = np.resize(decode_flac(row.flac)[:4_000, 1], row.n_samples)  # before anybody speaks
    only_noise = on_sound(lambda sound: np.stack([sound[:, 0], noise], axis=1))(row)
    assert broken(only_noise) == {"each speaker is on their own channel"}


@pytest.mark.parametrize("noise", [0, 1])
@pytest.mark.parametrize("room", [0, 1])
def test_a_users_squeezed_words_are_found_in_any_surroundings(noise: int, room: int) -> None:
    surroundings = SurroundingsConfig(noise_share=noise, snr_min_db=6, snr_max_db=6, room_share=room)
    row = made.mixed(made.plain(), surroundings)
    assert broken(row) == set()
    asked = row.turns[0]
    said = replace(asked.utterances[0], words=tuple(squeezed(asked.utterances[0].words, 0.1)))
    wrong = replace(row, turns=(replace(asked, utterances=(said,)), *row.turns[1:]))
    assert broken(wrong) == {ELSEWHERE}


NONE = {"n_word_errors": 0, "n_numbers": 0, "n_numbers_heard": 0, "n_names": 0, "n_names_heard": 0}
HEARING = Hearing(text="it is as blue as the sky", n_words=7, n_takes=1, **NONE)


def listened_to() -> AudioDialogue:
    one = made.plain()
    asked = replace(HEARING, text="What color has the flag of that old town?", n_words=9)
    return made.mix(one, clips=made.clips_of(one, [asked, HEARING])).outputs[0]


def heard(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    return on_utterance(hearing=replace(HEARING, **changes))


NOT_HEARD = "what a recogniser listened to has a hearing"


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (NOT_HEARD, on_utterance(hearing=None)),
        (NOT_HEARD, provenance(asr=None)),
        ("counts of a hearing are possible", heard(n_takes=0)),
        ("counts of a hearing are possible", heard(n_words=0, n_word_errors=0)),
        ("counts of a hearing are possible", heard(n_words=8)),
        ("counts of a hearing are possible", heard(n_word_errors=-1)),
        ("counts of a hearing are possible", heard(n_word_errors=100)),
        ("counts of a hearing are possible", heard(n_numbers=1, n_numbers_heard=2)),
        ("counts of a hearing are possible", heard(n_names=8)),
        ("counts of a hearing are possible", heard(text="")),
    ],
)
def test_hearings_that_cannot_be_are_found(rule: str, change: Callable[[AudioDialogue], AudioDialogue]) -> None:
    row = listened_to()
    assert broken(row) == set()
    assert row.provenance.asr == "double"
    assert broken(change(row)) == {rule}


def test_a_cut_utterance_keeps_the_hearing_of_all_of_it() -> None:
    one = made.interrupted()
    hearings = [replace(HEARING, n_words=n_words) for n_words in (9, 7, 6, 5)]
    assert broken(made.mix(one, clips=made.clips_of(one, hearings)).outputs[0]) == set()
