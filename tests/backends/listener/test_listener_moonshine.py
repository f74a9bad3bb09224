"""Moonshine, live, on real speech."""

import os
import re
from collections.abc import Iterator

import pytest

from backends import registry
from backends.listener.conformance import HeardLog
from backends.listener.moonshine import MoonshineListener
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES
from tests.support.spoken_question import OTHER_WORDS, WORDS, silence, spoken_question

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def recogniser() -> Iterator[MoonshineListener]:
    built = registry.build("listener", "moonshine", {"interval_s": 0.1, "final_timeout_s": 60})
    assert isinstance(built, MoonshineListener)
    yield built
    built.close()


def plain(text: str) -> str:
    return re.sub(r"[^a-z ]", "", text.lower())


def test_words_are_told_before_the_turn_ends_and_all_of_them_after(recogniser: MoonshineListener) -> None:
    told = HeardLog()
    ear = recogniser.listen(told)
    said = spoken_question()
    ear.feed(silence(0.5))
    ear.feed(said[: len(said) // 2])
    partial = told.wait_until(bool)[0]
    assert not partial.is_final
    assert plain(partial.text).startswith("what is")
    ear.feed(said[len(said) // 2 :])
    ear.feed(silence(0.3))
    ear.end_turn()
    assert plain(told.wait_for_finals(1)[0]) == WORDS
    assert ear.failure is None
    ear.close()


def test_two_callers_who_speak_at_once_each_get_their_own_words(recogniser: MoonshineListener) -> None:
    logs, said = [HeardLog(), HeardLog()], [spoken_question(), spoken_question(OTHER_WORDS)]
    ears = [recogniser.listen(log) for log in logs]
    for start in range(0, max(map(len, said)), FRAME_N_SAMPLES):
        for ear, sound in zip(ears, said, strict=True):
            ear.feed(sound[start : start + FRAME_N_SAMPLES])
    for ear in ears:
        ear.feed(silence(0.3))
        ear.end_turn()
    assert [plain(log.wait_for_finals(1)[0]) for log in logs] == [WORDS, OTHER_WORDS]
    partial = [{word for heard in log.all for word in plain(heard.text).split()} for log in logs]
    assert "apples" not in partial[0]
    assert "capital" not in partial[1]
    for ear in ears:
        ear.close()


def test_a_model_that_fails_is_told_by_the_ear(recogniser: MoonshineListener, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> str:
        raise BackendError("Moonshine failed on 9 samples: broken.")

    monkeypatch.setattr(recogniser, "_transcribe", broken)
    told = HeardLog()
    ear = recogniser.listen(told)
    ear.feed(spoken_question())
    ear.end_turn()
    assert told.wait_for_finals(1) == [""]
    assert ear.failure == "Moonshine failed on 9 samples: broken."


def test_the_environment_is_left_as_it_was_and_a_closed_recogniser_takes_no_more_sound() -> None:
    assert "MOONSHINE_ORT_SINGLE_THREAD" not in os.environ
    built = registry.build("listener", "moonshine", {})
    told = HeardLog()
    ear = built.listen(told)
    built.close()
    built.close()
    ear.feed(spoken_question())
    ear.end_turn()
    ear.close()
    assert told.all == []
