"""A free run as sound."""

import io

import numpy as np
import soundfile

from backends.codec.protocol import Codec, Codes
from data_schemas.units import SAMPLE_RATE_HZ


def as_stereo_wav(own: Codes, other: Codes, codec: Codec) -> bytes:
    """A 16-bit wav file of both voices as the codec decodes them: left the model, right the user."""
    channels = [np.clip(codec.decode(codes), -1.0, 1.0) for codes in (own, other)]
    n_samples = min(len(channel) for channel in channels)
    sink = io.BytesIO()
    stereo = np.stack([channel[:n_samples] for channel in channels], axis=1)
    soundfile.write(sink, stereo, SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
    return sink.getvalue()
