"""Who asks questions aloud: by which voices, and how often each question is synthesised."""

from pathlib import Path

import numpy as np
import pytest

from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech
from data_schemas.config.serving import CascadeConfig
from data_schemas.errors import ConfigError
from kame_model.evaluate.calls.asking_voices import AskingVoices


def test_voices_are_not_the_assistants_and_say_each_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []
    synthesise = DoubleTts.synthesise

    def counting(self: DoubleTts, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        said.append((voice, text))
        return synthesise(self, text, voice, speed, take)

    monkeypatch.setattr(DoubleTts, "synthesise", counting)
    voices = AskingVoices("double", {}, [], CascadeConfig(tts="double"), str(tmp_path))
    assert voices.names == ["double_b", "double_c"]
    drawn = [voices.draw(seed, "q1") for seed in range(20)]
    assert set(drawn) == {"double_b", "double_c"}
    assert drawn == [voices.draw(seed, "q1") for seed in range(20)]
    first = voices.say("What is light?", drawn[0])
    for voice in drawn:
        assert np.array_equal(voices.say("What is light?", voice), first) == (voice == drawn[0])
    assert sorted(said) == [("double_b", "What is light?"), ("double_c", "What is light?")]


def test_voices_may_be_named_and_limited(tmp_path: Path) -> None:
    other, out = CascadeConfig(tts="other"), str(tmp_path)
    assert AskingVoices("double", {}, [], other, out).names == ["double_a", "double_b", "double_c"]
    assert AskingVoices("double", {}, [], other, out, n_most=2).names == ["double_a", "double_b"]
    assert AskingVoices("double", {}, ["double_c"], CascadeConfig(tts="double"), out).names == ["double_c"]
    with pytest.raises(ConfigError, match="no voice nobody"):
        AskingVoices("double", {}, ["nobody"], other, out)
