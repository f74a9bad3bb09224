"""eSpeak's word times are those of its own sound: every word has one, and it falls where the sound begins."""

import ctypes

import numpy as np

from backends.tts.espeak import Espeak

TEXT = "Ann's dog ate two apples, and then it slept."


def test_a_word_after_a_pause_starts_where_the_sound_does() -> None:
    speech = Espeak().synthesise("Stop. Top.", "en-us", 1.0)
    start_s = speech.words[1].start_s
    before, after = (round((start_s + shift_s) * 24_000) for shift_s in (-0.1, 0.15))
    pause, word = speech.samples[before : round(start_s * 24_000)], speech.samples[round(start_s * 24_000) : after]
    assert np.abs(pause).max() < 0.02 * np.abs(word).max()


def test_who_else_has_the_library_open_changes_nothing() -> None:
    import espeakng_loader

    engine = Espeak()
    first = engine.synthesise(TEXT, "en-us", 1.0)
    held = ctypes.CDLL(espeakng_loader.get_library_path())
    engine.synthesise("Something else, at another speed.", "en-gb", 1.4)
    assert np.array_equal(engine.synthesise(TEXT, "en-us", 1.0).samples, first.samples)
    assert held._name
