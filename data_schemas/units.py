"""Seconds, samples and frames, and the only functions that convert between them.

One frame is 80 ms: 1,920 samples at 24 kHz, 12.5 frames a second (moshi, `SAMPLE_RATE` and `FRAME_RATE` in
moshi/models/loaders.py).
"""

SAMPLE_RATE_HZ = 24_000
FRAME_N_SAMPLES = 1_920
FRAMES_PER_S = 12.5
FRAME_S = 0.08


def seconds_to_samples(time_s: float, sample_rate_hz: int = SAMPLE_RATE_HZ) -> int:
    """Returns a time or duration as a number of samples, rounded to the nearest one."""
    return round(time_s * sample_rate_hz)


def samples_to_seconds(n_samples: int, sample_rate_hz: int = SAMPLE_RATE_HZ) -> float:
    """Returns the duration of this many samples in seconds, which is also the time at which the next sample starts."""
    return n_samples / sample_rate_hz


def round_s(time_s: float) -> float:
    """Rounds a time to whole microseconds, as it is stored, to remove rounding errors of float sums."""
    return round(time_s, 6)


def find_event_frame(time_s: float) -> int:
    """Returns the frame of an oracle event: `int(seconds * 12.5)`, as in kame_finetune."""
    return int(time_s * FRAMES_PER_S)


def find_text_frame(start_s: float) -> int:
    """Returns the frame of a word's first token: `start_s // 0.08`, as in kame_finetune.

    It differs from `find_event_frame`: 0.24 s gives 2 here and 3 there, because 0.24 / 0.08 is just below 3 in floats.
    """
    return int(start_s // FRAME_S)


def count_covering_frames(n_samples: int) -> int:
    """Returns the number of frames that hold `n_samples` samples at 24 kHz, rounded up: the last frame is padded."""
    return -(-n_samples // FRAME_N_SAMPLES)
