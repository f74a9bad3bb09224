"""Degrades the users' audio of token rows: decodes it, adds noise, a room or a telephone channel, and encodes it again.

Token rows contain only codes, so the loss of the codec is added a second time; the channel `recoded` measures that loss
alone. Levels and noise are relative to the decoded audio.
"""

import re
from typing import Final

import numpy as np

from backends.acoustics import Room, filter_telephone_band, make_coloured_noise, put_in_room
from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from data_schemas.config.recall import Channel
from data_schemas.units import FRAME_N_SAMPLES

ROOM: Final = Room(size_m=(5.0, 4.0, 2.6), caller_m=(2.0, 1.8, 1.4), microphone_m=(2.6, 2.1, 1.2), rt60_s=0.5)
"""A living room with bare walls; the microphone is 0.7 m away."""

_NOISE_SLOPE: Final = 1.0
"""Pink noise, as in rooms with ventilation."""

_SPEECH_DB: Final = 30.0
"""Frames within this level of the loudest are speech; the signal-to-noise ratio is relative to their level."""


def degrade_codes(codes: Codes, channel: Channel, codec: Codec, seed: int) -> Codes:
    """Returns a user's codes, int16[n, T], after their audio was degraded by a channel: decoded, changed and encoded.

    Args:
        codes: int16[n, T].
        channel: the kind of degradation; `recoded` changes nothing between decoding and encoding.
        codec: the codec of the codes.
        seed: seed of the noise.
    """
    sound = codec.decode(np.ascontiguousarray(codes))
    if channel == "room":
        sound = put_in_room(sound, ROOM)
    elif channel == "telephone":
        sound = filter_telephone_band(sound)
    elif noise := re.fullmatch(r"noise-(\d+)-db", channel):
        sound = _add_noise(sound, float(noise[1]), seed)
    (heard,) = codec.encode([np.clip(sound, -1.0, 1.0).astype(np.float32)])
    return heard[:, : codes.shape[1]]


def _add_noise(sound: Samples, snr_db: float, seed: int) -> Samples:
    """Adds pink noise at a signal-to-noise ratio relative to the level of speech; digital silence gets no noise."""
    frames = sound[: len(sound) - len(sound) % FRAME_N_SAMPLES].reshape(-1, FRAME_N_SAMPLES)
    powers = np.mean(np.square(frames, dtype=np.float64), axis=1)
    if not powers.any():
        return sound
    speech_power = powers[powers >= powers.max() * 10 ** (-_SPEECH_DB / 10)].mean()
    noise = make_coloured_noise(len(sound), _NOISE_SLOPE, seed)
    gain = np.sqrt(speech_power * 10 ** (-snr_db / 10) / np.mean(np.square(noise, dtype=np.float64)))
    heard: Samples = (sound + noise * gain).astype(np.float32)
    return heard
