"""Helpers of the conformance tests of all kinds of engines.

Each kind has a test function in `backends/<kind>/conformance.py` for any engine, also for the tests of its authors. It
raises `PromiseBroken`, an `AssertionError`, at the first promise of `protocol.py` that does not hold.
"""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from backends.engine import Engine, Samples
from data_schemas.units import SAMPLE_RATE_HZ

Answer = TypeVar("Answer")


class PromiseBroken(AssertionError):
    """An engine breaks a promise of its protocol; the message says which."""


def require(holds: object, promise: str) -> None:
    """Raises `PromiseBroken` with the text `promise` if `holds` is false."""
    if not holds:
        raise PromiseBroken(promise)


def require_raises(kind: type[Exception], call: Callable[[], object], promise: str) -> None:
    """Requires that a call raises an error of this class."""
    try:
        call()
    except kind:
        return
    except Exception as error:  # whatever an engine raises instead
        raise PromiseBroken(f"{promise}, not {type(error).__name__}: {error}") from error
    raise PromiseBroken(f"{promise}; nothing was raised")


def strip_marks(text: str) -> str:
    """Returns the words of a transcript in lower case, without punctuation except apostrophes, joined by spaces."""
    return " ".join(re.findall(r"[\w']+", text.lower()))


def check_identity(engine: Engine) -> None:
    """Requires that the engine has a name and a digest that do not change."""
    require(isinstance(engine.name, str) and engine.name, "`name` is the engine's name in the registry")
    digest = engine.digest
    require(isinstance(digest, str) and digest, "`digest` is a text that identifies engine and model")
    require(engine.digest == digest, "`digest` stays the same while the engine does")


def check_threads(call: Callable[[], Answer], n_threads: int, is_same: Callable[[Answer, Answer], bool]) -> None:
    """Requires that concurrent calls from other threads return the same as a call in this thread."""
    expected = call()
    with ThreadPoolExecutor(n_threads) as threads:
        found = [each.result() for each in [threads.submit(call) for _ in range(n_threads)]]
    same = all(is_same(each, expected) for each in found)
    require(same, f"{n_threads} concurrent call(s) from other threads return the same")


def check_sound(samples: Any) -> None:
    """Requires mono audio, float32 in [-1, 1], that is not silent."""
    require(isinstance(samples, np.ndarray) and samples.dtype == np.float32, "audio is a float32 array")
    require(samples.ndim == 1 and len(samples), "audio is mono, of shape [n_samples], and not empty")
    require(np.isfinite(samples).all() and np.abs(samples).max() <= 1, "samples are numbers in [-1, 1]")
    require(np.abs(samples).max() > 1e-3, "audio is not silent")


def make_chirps(seed: int, n_samples: int) -> Samples:
    """Makes rising and falling tones with pauses at 24 kHz, [n_samples], about as loud as speech, by the seed."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_samples) / SAMPLE_RATE_HZ
    pitch_hz = 150 + 100 * np.sin(2 * np.pi * rng.uniform(0.5, 2) * t)
    tone = sum(np.sin(2 * np.pi * k * np.cumsum(pitch_hz) / SAMPLE_RATE_HZ) / k for k in range(1, 6))
    pause = np.sin(2 * np.pi * rng.uniform(0.3, 0.8) * t + seed) > -0.5
    return np.asarray(0.05 * tone * pause, dtype=np.float32)
