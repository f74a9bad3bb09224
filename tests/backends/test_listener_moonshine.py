"""Moonshine, live, on real speech."""

import os
import re
from collections.abc import Iterator

import pytest

from backends import registry
from backends.listener.moonshine import MoonshineListener
from data_schemas.errors import BackendError
from tests.support.listening import Told
from tests.support.spoken_question import WORDS, silence, spoken_question

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
    told = Told()
    ear = recogniser.listen(told)
    said = spoken_question()
    ear.feed(silence(0.5))
    ear.feed(said[: len(said) // 2])
    partial = told.until(bool)[0]
    assert not partial.is_final
    assert plain(partial.text).startswith("what is")
    ear.feed(said[len(said) // 2 :])
    ear.feed(silence(0.3))
    ear.end_turn()
    assert plain(told.finals(1)[0]) == WORDS
    assert ear.failure is None
    ear.close()


def test_callers_are_heard_side_by_side_each_by_its_own_ear(recogniser: MoonshineListener) -> None:
    told = [Told() for _ in range(3)]
    ears = [recogniser.listen(each) for each in told]
    for start in range(0, len(spoken_question()), 4800):
        ears[0].feed(spoken_question()[start : start + 4800])
        ears[1].feed(silence(0.2))
        ears[2].feed(spoken_question()[start : start + 4800] * 0.5)
    for ear in ears:
        ear.end_turn()
    assert [plain(each.finals(1)[0]) for each in told] == [WORDS, "", WORDS]


def test_a_model_that_fails_is_told_by_the_ear(recogniser: MoonshineListener, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> str:
        raise BackendError("Moonshine failed on 9 samples: broken.")

    monkeypatch.setattr(recogniser, "_heard", broken)
    told = Told()
    ear = recogniser.listen(told)
    ear.feed(spoken_question())
    ear.end_turn()
    assert told.finals(1) == [""]
    assert ear.failure == "Moonshine failed on 9 samples: broken."


def test_the_environment_is_left_as_it_was_and_a_closed_recogniser_takes_no_more_sound() -> None:
    assert "MOONSHINE_ORT_SINGLE_THREAD" not in os.environ
    built = registry.build("listener", "moonshine", {})
    told = Told()
    ear = built.listen(told)
    built.close()
    built.close()
    ear.feed(spoken_question())
    ear.end_turn()
    ear.close()
    assert told.all == []
