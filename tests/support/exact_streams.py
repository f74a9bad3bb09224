"""Codecs that do everything frame by frame."""

import numpy as np

from backends.codec.conformance import encode_and_decode_streamed
from backends.codec.protocol import Codec
from backends.conformance import make_chirps
from data_schemas.units import FRAME_N_SAMPLES


def assert_streams_are_exact(codec: Codec) -> None:
    """Asserts that streamed codes and audio are those of the whole recording, to the last bit."""
    sounds = np.stack([make_chirps(seed, 40 * FRAME_N_SAMPLES) for seed in range(3)])
    codes, decoded = encode_and_decode_streamed(codec, sounds)
    assert np.array_equal(codes, np.stack(codec.encode(list(sounds))))
    assert np.array_equal(decoded, np.stack([codec.decode(each) for each in codes]))
