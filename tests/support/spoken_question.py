"""Real sentences, each said by Kokoro once a run, for tests of what listens."""

from functools import cache

import numpy as np

from backends.engine import Samples
from backends.tts.kokoro import Kokoro
from data_schemas.units import SAMPLE_RATE_HZ

WORDS = "what is the capital of france"
OTHER_WORDS = "seven green apples fell from the tree"


@cache
def spoken_question(text: str = "What is the capital of France?") -> Samples:
    """Returns a sentence said by Kokoro at 24 kHz, from its first to its last loud sample; the default takes 1.5 s."""
    kokoro = Kokoro()
    said = kokoro.synthesise(text, kokoro.list_voices()[0].name, 1.0).samples
    loud = np.flatnonzero(np.abs(said) > 0.02)
    found: Samples = said[loud[0] : loud[-1]]
    return found


def silence(time_s: float) -> Samples:
    """Returns the sound of a quiet room: noise at -60 dB."""
    return np.random.default_rng(0).normal(0, 1e-3, round(time_s * SAMPLE_RATE_HZ)).astype(np.float32)
