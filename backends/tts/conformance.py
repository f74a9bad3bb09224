"""Conformance test of text-to-speech engines, built-in ones and plug-ins."""

import contextlib

import numpy as np

from backends.conformance import check_identity, check_sound, check_threads, require, require_raises
from backends.tts.protocol import Speech, SpeechRefused, TakeRefused, TextToSpeech
from data_schemas.errors import ConfigError
from data_schemas.units import SAMPLE_RATE_HZ

TEXT = "Seven green apples fell."
_OTHER = "Two."
_SLOW, _FAST = 0.8, 1.4


def check_text_to_speech(tts: TextToSpeech, *, is_repeatable: bool = True) -> None:
    """Checks the promises of `TextToSpeech` by synthesising a few short English sentences.

    Args:
        is_repeatable: whether the same arguments give the same samples, which servers often cannot guarantee.

    Raises:
        PromiseBroken: a promise does not hold.
    """
    check_identity(tts)
    voices = _check_voices(tts)
    _check_attributes(tts)
    speech = tts.synthesise(TEXT, voices[0], 1.0)
    check_sound(speech.samples)
    _check_words(speech)
    require(len(speech.samples) < 10 * SAMPLE_RATE_HZ, "four words last less than ten seconds")
    if is_repeatable:
        tts.synthesise(_OTHER, voices[-1], 1.0)
        again = tts.synthesise(TEXT, voices[0], 1.0)
        require(_is_same(speech, again), "the same arguments give the same samples, whatever was said in between")
        check_threads(lambda: tts.synthesise(TEXT, voices[0], 1.0), tts.max_calls_in_flight, _is_same)
        if len(voices) > 1:
            other = tts.synthesise(TEXT, voices[1], 1.0)
            require(not _is_same(speech, other), "another voice sounds different")
    if tts.has_speed:
        slow, fast = (tts.synthesise(TEXT, voices[0], speed).samples for speed in (_SLOW, _FAST))
        require(len(fast) < 0.75 * len(slow), f"speech at speed {_FAST} is shorter than at {_SLOW}")
    with contextlib.suppress(TakeRefused):
        check_sound(tts.synthesise(TEXT, voices[0], 1.0, 1).samples)
    require_raises(ConfigError, lambda: tts.synthesise(TEXT, "no such voice", 1.0), "an unknown voice is a ConfigError")
    for text in ("", "?!"):
        refused = "a text without words is a SpeechRefused"
        require_raises(SpeechRefused, lambda text=text: tts.synthesise(text, voices[0], 1.0), refused)  # type: ignore[misc]


def _check_voices(tts: TextToSpeech) -> list[str]:
    """Checks the list of voices and returns their names."""
    voices = tts.list_voices()
    require(voices, "there is at least one voice")
    names = [voice.name for voice in voices]
    require(len(set(names)) == len(names), "voices have different names")
    require(len({voice.digest for voice in voices}) == len(names), "voices have different digests")
    for voice in voices:
        require(voice.digest and voice.language and voice.licence, f"voice {voice.name} has a language and a licence")
    require([voice.name for voice in tts.list_voices()] == names, "voices have the same order each time")
    return names


def _check_attributes(tts: TextToSpeech) -> None:
    """Checks types and ranges of `has_speed`, `max_chars` and `max_calls_in_flight`."""
    require(isinstance(tts.has_speed, bool), "`has_speed` is True or False")
    is_bound = isinstance(tts.max_chars, int) and tts.max_chars >= len(TEXT)
    require(tts.max_chars is None or is_bound, f"`max_chars` is None, or a number of at least {len(TEXT)}")
    require(
        isinstance(tts.max_calls_in_flight, int) and tts.max_calls_in_flight >= 1, "`max_calls_in_flight` is 1 or more"
    )


def _check_words(speech: Speech) -> None:
    """Checks the times of the words of `TEXT`: none, or one per word, ascending and inside the audio."""
    if not speech.words:
        return
    require([each.word for each in speech.words] == TEXT.rstrip(".").split(), "each word has a time, in order")
    edges = [edge for each in speech.words for edge in (each.start_s, each.end_s)]
    require(edges == sorted(edges) and edges[0] >= 0, "the words' times ascend")
    require(edges[-1] <= len(speech.samples) / SAMPLE_RATE_HZ, "the words' times lie inside the audio")


def _is_same(one: Speech, other: Speech) -> bool:
    """Returns whether both have exactly the same samples."""
    return np.array_equal(one.samples, other.samples)
