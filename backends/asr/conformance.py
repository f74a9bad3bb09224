"""Conformance test of recognisers of whole recordings, built-in ones and plug-ins."""

import contextlib

import numpy as np

from backends.asr.protocol import HearingRefused, Recogniser
from backends.conformance import check_identity, check_threads, require, strip_marks
from backends.engine import Samples
from data_schemas.units import SAMPLE_RATE_HZ


def check_recogniser(recogniser: Recogniser, samples: Samples, said: str, *, is_repeatable: bool = True) -> None:
    """Checks the promises of `Recogniser`.

    Args:
        samples: a clearly spoken sentence at 24 kHz.
        said: its words.
        is_repeatable: whether the same audio gives the same text, which servers often cannot guarantee.

    Raises:
        PromiseBroken: a promise does not hold.
    """
    check_identity(recogniser)
    n_calls = recogniser.max_calls_in_flight
    require(isinstance(n_calls, int) and n_calls >= 1, "`max_calls_in_flight` is 1 or more")

    def hear() -> str:
        return recogniser.transcribe(samples, SAMPLE_RATE_HZ)

    heard = hear()
    require(isinstance(heard, str), "a transcript is a text")
    require(strip_marks(heard) == strip_marks(said), f"the transcript has the spoken words: {said!r}, not {heard!r}")
    at_48_khz = recogniser.transcribe(np.repeat(samples, 2), 2 * SAMPLE_RATE_HZ)
    require(strip_marks(at_48_khz) == strip_marks(said), "audio at another sample rate has the same transcript")
    for sound in (np.zeros(0, dtype=np.float32), np.zeros(SAMPLE_RATE_HZ, dtype=np.float32)):
        with contextlib.suppress(HearingRefused):  # as good as no transcript
            require(isinstance(recogniser.transcribe(sound, SAMPLE_RATE_HZ), str), "a transcript of silence is text")
    if is_repeatable:
        require(hear() == heard, "the same audio has the same transcript each time")
        check_threads(hear, n_calls, lambda one, other: one == other)
