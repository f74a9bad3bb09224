"""The gate's rules on the sound itself, whoever listens: level, length, silences, flat tops; of backchannels too."""

import numpy as np
import pytest

from backends.engine import Samples
from data_schemas.config import GateConfig
from pipelines.speech.gate import Gate, measure_longest_clipped_run, measure_longest_pause_s
from tests.support.builders import make_utterance

TEXT = "How much are seven green apples and two pears?"
TONE: Samples = (0.3 * np.sin(np.arange(72_000) / 9)).astype(np.float32)  # 3 s


def pause_inside(samples: Samples) -> Samples:
    return np.concatenate([samples[:36_000], np.zeros(48_000, dtype=np.float32), samples[36_000:]])


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (TONE, None),
        (TONE * 0, "silent"),
        (TONE * 1e-3, "silent"),
        (pause_inside(TONE), "silent"),
        (np.clip(TONE * 2, -0.3, 0.3), "clipped"),
        (np.tile(TONE, 4), "too_long_for_words"),
        (TONE[:12_000], "too_short_for_words"),
    ],
)
def test_sound_that_cannot_be_this_speech_has_a_reason(samples: Samples, reason: str | None) -> None:
    fault = Gate(GateConfig(), None).judge(make_utterance(TEXT), samples, 1.0, 1).fault
    assert (fault.reason if fault else None) == reason


def test_the_limits_of_length_follow_speed_and_spelling() -> None:
    gate = Gate(GateConfig(), None)
    slow = np.tile(TONE, 3)  # 9 s
    assert gate.judge(make_utterance(TEXT), slow, 1.0, 1).fault is not None
    assert gate.judge(make_utterance(TEXT), slow, 0.5, 1).fault is None
    letters = TONE[:40_800]  # 1.7 s
    assert gate.judge(make_utterance("D N A."), letters, 1.0, 1).fault is None
    assert gate.judge(make_utterance("den."), letters, 1.0, 1).fault is not None


def test_pauses_and_flat_tops_are_measured() -> None:
    assert measure_longest_pause_s(pause_inside(TONE)) == pytest.approx(2.0, abs=0.03)
    assert measure_longest_pause_s(np.pad(TONE, 48_000)) == 0, "silence at the ends is no pause"
    flat = np.zeros(100, dtype=np.float32)
    flat[10:17] = 0.5
    assert measure_longest_clipped_run(flat) == 7
    assert measure_longest_clipped_run(np.zeros(100, dtype=np.float32)) == 0


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (TONE[:9_600], None),
        (np.pad(TONE[:9_600], 2_400), None),
        (np.concatenate([TONE[:4_800], np.zeros(4_800, np.float32), TONE[:4_800]]), None),
        (np.pad(TONE[:2_400], 6_000), "too_short_for_words"),
        (np.concatenate([TONE[:4_800], np.zeros(9_600, np.float32), TONE[:4_800]]), "silent"),
        (TONE[:36_000], "too_long_for_words"),
        (TONE[:9_600] * 1e-3, "silent"),
    ],
)
def test_backchannels_are_looked_at(samples: Samples, reason: str | None) -> None:
    fault = Gate(GateConfig(), None).judge(make_utterance("Okay.", kind="backchannel"), samples, 1.0, 1).fault
    assert (fault.reason if fault else None) == reason
