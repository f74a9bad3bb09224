"""A language is ready when it has a normaliser, a voice and an aligner; else what it lacks is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.aligner.double import DoubleAligner
from backends.tts.double import DoubleTts
from backends.tts.espeak import Espeak
from data_schemas.config import RefreshConfig, SourceConfig, SpeechConfig, SplitConfig
from data_schemas.errors import ConfigError
from pipelines.run.stages import check_languages, list_missing, list_user_voices
from pipelines.sources.items import SourceReading, read_items

OPEN = {"question": "Which good is cheaper?", "options": {"A": "Bread", "B": "Wine"}}
SIX: dict[str, Any] = {
    "id": "40ea",
    "correct_answer": "A",
    "en": OPEN,
    "fr": {"question": "Quel bien est le moins cher ?", "options": {"A": "Le pain", "B": "Le vin"}},
    "zh": {"question": "哪种商品更便宜？", "options": {"A": "面包", "B": "酒"}},
}


def read(folder: Path, languages: list[str], *rows: dict[str, Any]) -> SourceReading:
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    config = SourceConfig(name="hssbench", path=str(folder / "rows.jsonl"), languages=languages)
    return read_items(config, None, SplitConfig())


def test_english_lacks_nothing_and_all_that_another_language_lacks_is_named() -> None:
    assert list_missing("en", [DoubleTts()], DoubleAligner()) == []
    check_languages([SourceConfig(name="gsm8k")], [DoubleTts()], DoubleAligner())
    with pytest.raises(ConfigError, match=r"'fr'.*a normaliser.*a voice of double.*the aligner double"):
        check_languages([SourceConfig(name="hssbench", languages=["en", "fr"])], [DoubleTts()], DoubleAligner())


def test_the_users_engine_needs_a_voice_of_the_language_too() -> None:
    class Frenchman(DoubleTts):
        name = "francais"

        def list_voices(self) -> Any:
            return [replace(voice, language="fr-fr") for voice in super().list_voices()]

    with pytest.raises(ConfigError, match=r"'en': it lacks a voice of francais\. "):
        check_languages([SourceConfig(name="gsm8k")], [DoubleTts(), Frenchman()], DoubleAligner())


def test_users_of_a_run_have_the_voices_of_their_engine() -> None:
    speech = SpeechConfig(tts="double", tts_b="espeak", voice_a="double_b")
    assert list_user_voices(RefreshConfig(speech=speech, out="out")) == [voice.name for voice in Espeak().list_voices()]


def test_languages_of_a_row_are_items_of_one_group_and_split_and_the_rest_is_counted(tmp_path: Path) -> None:
    reading = read(tmp_path, ["en", "fr"], SIX)
    english, french = reading.items
    assert (french.item_id, french.language) == (f"{english.item_id}-fr", "fr")
    assert (french.question, french.answer) == (SIX["fr"]["question"], "Le pain")
    assert (french.group_id, french.split) == (english.group_id, english.split)
    assert reading.n_left == {"zh": 1}
    reading = read(tmp_path, ["en"], SIX, OPEN | {"id": "other", "correct_answer": "B"})
    assert [item.language for item in reading.items] == ["en", "en"]
    assert reading.n_left == {"fr": 1, "zh": 1}
    reading = read(tmp_path, ["en", "fr"], SIX | {"fr": "texte"})
    assert [item.language for item in reading.items] == ["en"]
    assert [(reject.reason, reject.detail) for reject in reading.rejects] == [("wrong_type", "'fr' is not an object")]
