"""Networks of a codec from speech with its phonemes: what they learn, and when there is too little."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from backends.aligner.pocketsphinx import PhoneTiming
from backends.codec.codec2_neural import WEIGHTS, NeuralCodec2, NeuralCodec2Options
from data_schemas.config.codec import NeuralCodecConfig
from data_schemas.errors import DatasetError
from kame_model.codec.neural import NeuralCodecLearnt, learn_networks, serialise_networks
from kame_model.codec.speech import PhoneClip

CONFIG = NeuralCodecConfig(n_steps=400, card=16, prosody_card=8, width=16)
PITCHES_HZ = {"AA": 110.0, "IY": 180.0}


def make_clip(seed: int, n_sounds: int = 30) -> PhoneClip:
    """A clip of two sounds in random order, a fifth of a second each: harmonics below 1 kHz or above 2 kHz."""
    rng, phones, parts = np.random.default_rng(seed), list[PhoneTiming](), list[NDArray[np.float64]]()
    t = np.arange(4_800) / 24_000
    for at in range(n_sounds):
        phone = str(rng.choice(list(PITCHES_HZ)))
        low, high = (1, 9) if phone == "AA" else (12, 20)
        parts.append(np.sin(2 * np.pi * PITCHES_HZ[phone] * np.arange(low, high)[:, None] * t).sum(axis=0) / 40)
        phones.append(PhoneTiming(phone, 0.2 * at, 0.2 * (at + 1)))
    return PhoneClip(np.concatenate(parts).astype(np.float32), phones)


@pytest.fixture(scope="module")
def clips() -> list[PhoneClip]:
    return [make_clip(seed) for seed in range(14)]


@pytest.fixture(scope="module")
def learnt(clips: list[PhoneClip]) -> NeuralCodecLearnt:
    return learn_networks(clips, CONFIG)


@pytest.mark.full
def test_codes_tell_the_phonemes_and_are_decoded_to_their_sound(
    learnt: NeuralCodecLearnt, clips: list[PhoneClip], tmp_path: Path
) -> None:
    assert learnt.phones_right is not None
    assert learnt.phones_right > 0.8
    (tmp_path / WEIGHTS).write_bytes(serialise_networks(learnt))
    codec = NeuralCodec2(NeuralCodec2Options(path=str(tmp_path)))
    assert codec.layout.sizes == (16, 16, 8)
    clip = make_clip(99)
    said = codec.decode(codec.encode([clip.samples])[0])
    delay, brightness = round(0.187 * 24_000), []
    for phone in clip.phones[2:-2]:
        first = round(phone.start_s * 24_000) + delay + 1_200
        power = np.square(np.abs(np.fft.rfft(said[first : first + 2_400])))
        brightness.append(power[150:].sum() / power.sum())  # above 1.5 kHz
    is_bright = np.array([each.phone == "IY" for each in clip.phones[2:-2]])
    assert np.mean(np.array(brightness)[is_bright]) > 2 * np.mean(np.array(brightness)[~is_bright])


@pytest.mark.full
def test_the_same_clips_and_settings_give_the_same_networks(learnt: NeuralCodecLearnt, clips: list[PhoneClip]) -> None:
    assert serialise_networks(learn_networks(clips, CONFIG)) == serialise_networks(learnt)


def test_silence_does_not_show_how_many_phonemes_are_right(clips: list[PhoneClip]) -> None:
    silent = PhoneClip(np.zeros(24_000, np.float32), ())
    assert learn_networks([silent, *clips], CONFIG.model_copy(update={"n_steps": 1})).phones_right is None


def test_too_little_speech_is_told(clips: list[PhoneClip]) -> None:
    with pytest.raises(DatasetError, match="48 s of speech are too little to train a codec"):
        learn_networks(clips[:9], CONFIG)


def test_too_few_frames_with_sound_for_the_prosody_are_told(clips: list[PhoneClip]) -> None:
    pauses = [PhoneClip(np.zeros(24_000 * 61, np.float32), ()), clips[0]]  # the first one is held out
    pauses.insert(0, pauses[0])
    with pytest.raises(DatasetError, match=r"has \d+ frames of 80 ms with sound, too few for 127 entries of prosody"):
        learn_networks(pauses, CONFIG.model_copy(update={"prosody_card": 128}))
