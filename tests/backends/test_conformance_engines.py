"""The engines that come with the product keep the promises of their kinds."""

from pathlib import Path

import pytest

from backends import registry
from backends.aligner.conformance import check_aligner
from backends.asr.conformance import check_recogniser
from backends.chat.conformance import check_chat_engine
from backends.chat.llamacpp import LlamaCppEngine
from backends.codec.conformance import check_codec
from backends.listener.conformance import check_streaming_recogniser
from backends.tts.conformance import check_text_to_speech
from data_schemas.config import ChatConfig
from tests.support.codecs import tiny_mimi
from tests.support.spoken_question import WORDS, spoken_question

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", ["kokoro", "espeak"])
def test_text_to_speech(name: str) -> None:
    check_text_to_speech(registry.build("tts", name, {}))


@pytest.mark.parametrize("name", ["pocketsphinx", "synthesiser"])
def test_aligners(name: str) -> None:
    check_aligner(registry.build("aligner", name, {}), spoken_question(), WORDS.split())


def test_the_recogniser() -> None:
    check_recogniser(registry.build("asr", "moonshine", {}), spoken_question(), WORDS)


def test_the_streaming_recogniser() -> None:
    built = registry.build("listener", "moonshine", {"interval_s": 0.1, "final_timeout_s": 60})
    check_streaming_recogniser(built, spoken_question(), WORDS, n_callers=3)


def test_the_codec(tmp_path: Path) -> None:
    check_codec(tiny_mimi(tmp_path))


def test_the_chat_model() -> None:
    check_chat_engine(LlamaCppEngine(ChatConfig(n_slots=2, n_context=512)))
