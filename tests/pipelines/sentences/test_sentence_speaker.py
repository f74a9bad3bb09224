"""Sentences to clean speech with word times; on doubles, and with the voice that tells its own times."""

from pathlib import Path
from typing import Any

import pytest

from data_schemas.config.speech_rows import SentenceKind
from data_schemas.errors import ConfigError
from pipelines.sentences.corpus import Sentence
from pipelines.sentences.speaker import SentenceSpeaker
from spoken.spoken_text import split_words
from tests.support.sentences import speech_config


def sentence(written: str, number: int = 0, kind: SentenceKind = "sentence") -> Sentence:
    place = f"speech-0-{number}"
    return Sentence(
        sentence_id=place, kind=kind, split="train", source="mine", item_id="mine-1", about="", written=written
    )


def speaker(tmp_path: Path, **changes: Any) -> SentenceSpeaker:
    return SentenceSpeaker(speech_config(tmp_path, **changes))


def test_what_is_said_has_its_words_times_and_who_said_it(tmp_path: Path) -> None:
    ((said, sound),), rejects = speaker(tmp_path).say([sentence("it costs $12 in all")])
    assert not rejects
    assert said.spoken_text == "It costs twelve dollars in all."
    assert [each.word for each in said.words] == split_words(said.spoken_text)
    assert (said.sentence_id, said.kind, said.item_id, said.voice) == ("speech-0-0", "sentence", "mine-1", "double_a")
    assert said.words[-1].end_s == pytest.approx(len(sound) / 24_000, abs=0.001)
    assert 0.95 <= said.speed <= 1.1


def test_what_cannot_be_said_is_refused_with_its_reason_and_the_rest_is_said(tmp_path: Path) -> None:
    texts = ["Look at <b>that</b> x_{i}.", "Yes.", "She has six pens.", "He went to to the lake.", "one " * 26]
    said, rejects = speaker(tmp_path).say([sentence(text, number) for number, text in enumerate(texts)])
    assert [each.spoken_text for each, _ in said] == ["She has six pens."]
    assert [(each.dialogue_id, each.stage) for each in rejects] == [(f"speech-0-{n}", "sentence") for n in (0, 1, 3, 4)]
    assert [each.reason for each in rejects][1:] == ["wrong_length", "broken_text", "wrong_length"]
    assert {each.item_id for each in rejects} == {"mine-1"}


def test_words_that_are_not_found_are_refused(tmp_path: Path) -> None:
    made = speaker(tmp_path, speech={"tts": "espeak"}, alignment={"aligner": "double"})
    said, rejects = made.say([sentence("She has six pens.")])
    assert not said
    assert [(each.stage, each.reason) for each in rejects] == [("alignment", "words_not_found")]


def test_the_synthesisers_own_times_are_taken(tmp_path: Path) -> None:
    made = speaker(tmp_path, speech={"tts": "espeak"}, alignment={"aligner": "synthesiser"})
    ((said, _),), _ = made.say([sentence("She has six pens.")])
    assert {each.method for each in said.words} == {"espeak"}
    assert [each.start_s for each in said.words] == sorted(each.start_s for each in said.words)


def test_random_words_are_not_taken_for_broken_text(tmp_path: Path) -> None:
    said, _ = speaker(tmp_path).say([sentence("Table table of of pens.", kind="words")])
    assert len(said) == 1


def test_the_digest_is_of_voice_and_reading(tmp_path: Path) -> None:
    base = speaker(tmp_path)
    assert base.digest == speaker(tmp_path).digest
    assert base.digest != speaker(tmp_path, speech={"tts": "double", "voice_a": "double_b"}).digest
    assert base.digest != speaker(tmp_path, speech={"tts": "double", "speed_max": 1.2}).digest
    with pytest.raises(ConfigError, match="no voice nobody"):
        speaker(tmp_path, speech={"tts": "double", "voice_a": "nobody"})
