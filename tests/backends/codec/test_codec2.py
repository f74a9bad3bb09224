"""Codec 2: its codebooks, its noise, and what is understood of it."""

import logging
from itertools import pairwise

import numpy as np
import pytest

from backends import registry
from backends.codec import codec2
from backends.codec.codec2 import Codec2, Codec2Options
from backends.codec.conformance import check_codec
from backends.conformance import make_chirps, strip_marks
from backends.engine import Samples
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ
from tests.support.exact_streams import assert_streams_are_exact
from tests.support.spoken_question import WORDS, spoken_question

SOUND = make_chirps(0, 12 * FRAME_N_SAMPLES)


@pytest.fixture(scope="module")
def codec() -> Codec2:
    return Codec2(Codec2Options())


@pytest.mark.parametrize(
    ("bits_per_s", "n_codebooks", "card"),
    [(700, 8, 512), (1200, 12, 512), (1300, 14, 512), (2400, 24, 256), (3200, 28, 1024)],
)
def test_each_mode_keeps_the_promises_of_a_codec(bits_per_s: int, n_codebooks: int, card: int) -> None:
    built = registry.build("codec", "codec2", {"bits_per_s": bits_per_s})
    assert (built.n_codebooks, built.card) == (n_codebooks, card)
    check_codec(built)
    assert_streams_are_exact(built)


def test_codes_of_another_mode_have_another_digest() -> None:
    digests = {Codec2(Codec2Options(bits_per_s=each)).digest for each in (700, 1200, 1300, 2400, 3200)}
    assert len(digests) == 5


def test_the_first_codebooks_hold_the_spectrum_of_each_half_of_a_frame(codec: Codec2) -> None:
    """A change of code 1 is heard 40 ms after one of code 0."""
    codes = codec.encode([SOUND])[0]
    beginnings = []
    for book in (0, 1):
        changed = codes.copy()
        changed[book, 6] = (changed[book, 6] + 256) % 512
        beginnings.append(int(np.flatnonzero(codec.decode(changed) != codec.decode(codes))[0]))
    assert beginnings[0] >= 6 * FRAME_N_SAMPLES
    assert beginnings[1] - beginnings[0] == pytest.approx(FRAME_N_SAMPLES // 2, abs=24)


def test_the_same_codes_sound_the_same_whatever_was_decoded_before(codec: Codec2) -> None:
    hiss = np.random.default_rng(0).normal(0, 0.05, len(SOUND)).astype(np.float32)
    codes = codec.encode([hiss])[0]
    first = codec.decode(codes)
    codec.decode(codec.encode([SOUND])[0])
    assert np.array_equal(codec.decode(codes), first)


def test_frames_of_hiss_are_unlike_each_other(codec: Codec2) -> None:
    hiss = np.random.default_rng(0).normal(0, 0.05, len(SOUND)).astype(np.float32)
    frozen = np.repeat(codec.encode([hiss])[0][:, 5:6], 12, axis=1)
    frames = codec.decode(frozen).reshape(12, FRAME_N_SAMPLES)[2:]
    likeness = [abs(np.corrcoef(one, other)[0, 1]) for one, other in pairwise(frames)]
    assert np.sqrt(np.square(frames).mean()) > 0.001
    assert max(likeness) < 0.5


def test_noise_that_cannot_be_set_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(codec2, "_NOISE", codec2._Noise())
    monkeypatch.setattr(codec2, "_find_writable_memory", lambda address: iter(()))
    with caplog.at_level(logging.WARNING):
        decoded = Codec2(Codec2Options()).decode(np.zeros((12, 3), np.int16))
    assert decoded.shape == (3 * FRAME_N_SAMPLES,)
    assert [each.message for each in caplog.records] == [
        "Codec 2's noise cannot be seeded on this system: the same codes will sound slightly different each time."
    ]


@pytest.mark.parametrize("bits_per_s", [700, 1200, 1300, 2400, 3200])
def test_silence_has_one_code_and_speech_after_it_does_not_know_what_came_before(bits_per_s: int) -> None:
    codec = Codec2(Codec2Options.model_validate({"bits_per_s": bits_per_s}))
    silence, later = np.zeros(4 * FRAME_N_SAMPLES, np.float32), make_chirps(1, 12 * FRAME_N_SAMPLES)
    after = [codec.encode([np.concatenate([before, silence, later])])[0] for before in (SOUND, SOUND[::-1], silence)]
    heard = [codes[:, -14:] for codes in after]  # the second silent frame is the first that is alike
    assert len(np.unique(heard[0][:, :2], axis=1).T) == 1
    assert np.array_equal(heard[0], heard[1][:, -14:])
    assert np.array_equal(heard[0], heard[2])
    decoded = codec.decode(np.tile(codec.silence[:, None], 10))
    assert np.sqrt(np.square(decoded[2 * FRAME_N_SAMPLES :]).mean()) < 10 ** (-60 / 20)


def test_a_code_that_its_codebook_does_not_have_counts_modulo_its_size(codec: Codec2) -> None:
    codes = codec.encode([SOUND])[0]
    beyond = codes.copy()
    beyond[2] += 16  # voicing, of 16 entries
    assert codec.layout.sizes[2] == 16
    assert np.array_equal(codec.decode(beyond), codec.decode(codes))


def test_a_sound_louder_than_can_be_written_is_clipped(codec: Codec2) -> None:
    loud: Samples = np.clip(100 * SOUND, -2, 2)
    assert np.abs(codec.decode(codec.encode([loud])[0])).max() <= 1


@pytest.mark.full
def test_speech_is_understood_after_the_round_trip(codec: Codec2) -> None:
    recogniser = registry.build("asr", "moonshine", {})
    said = codec.decode(codec.encode([spoken_question()])[0])
    assert strip_marks(recogniser.transcribe(said, SAMPLE_RATE_HZ)) == strip_marks(WORDS)


def test_silence_has_the_codes_with_which_token_rows_were_encoded_before() -> None:
    codec = Codec2(Codec2Options())
    assert codec.silence.tolist() == [6, 6, 0, 0, 1, 137, 223, 223, 279, 279, 85, 85]
