"""Forced alignment with pocketsphinx: the embedded aligner (English, CPU, model in the wheel).

50 to 85 times faster than the speech lasts, on one core. `python -m benchmarks.timing` compares its word starts with
those of synthesisers that report their own.
"""

import math
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from backends.aligner.arpabet import pronounce
from backends.aligner.protocol import AlignmentRefused, check_order
from backends.engine import INSTALL_SPEECH, Samples
from data_schemas import ids
from data_schemas.errors import BackendError
from data_schemas.records import WordTiming
from data_schemas.units import samples_to_seconds

_RECIPE = 2
"""Version of this file's processing of audio and scores; raise it when times or scores change."""

_ENGINE = ("pocketsphinx", "soxr", "phonemizer", "espeakng-loader")
"""Packages whose versions can change the times: search and acoustic model, resampling, unknown words' sounds (two)."""

_MODEL_RATE_HZ = 16_000
_FRAMES_PER_S = 100  # pocketsphinx's `frate`
_PADS_N_FRAMES = (10, 20, 30)
"""Silence around the audio, which the search needs: more of it if a word is not found, or is found in the silence, like
some that begin with the first sample. Which length works depends on chance, so several are tried."""

_NOISE_SIGMA = 5e-4  # -66 dBFS: digital silence is unlike anything the model was trained on
_NOISE_SEED = 20_240_501
_SCORE_SCALE = 1 << 10  # pocketsphinx divides log likelihoods by 2 ** SENSCR_SHIFT (hmm.h) before it adds them up
_BEAMS = {"beam": 1e-80, "wbeam": 1e-60, "pbeam": 1e-80}  # wide: a lost path would be a lost dialogue
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_one_at_a_time = threading.Lock()  # a decoder has the state of one audio


class PhoneTiming(NamedTuple):
    """A phoneme in ARPAbet without stress, or `SIL`, and its time in the audio."""

    phone: str
    start_s: float
    end_s: float


class PocketsphinxAligner:
    """Aligns known English words to clean speech; one decoder per process, loaded on first use.

    A word's `score` is its mean log likelihood per 10 ms frame, in nats relative to the frame's best-fitting state: 0
    is perfect; right words in Kokoro's speech have a median of -1 and 1% below -6, wrong ones are around -4 to -12.
    """

    name = "pocketsphinx"
    languages = ("en",)
    prefers_own_times = False

    @property
    def digest(self) -> str:
        """Digest of the engine versions (acoustic model and dictionary are in the engine's wheel) and `_RECIPE`."""
        return ids.digest("pocketsphinx", _RECIPE, [[name, version(name)] for name in _ENGINE])

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Returns one timing per word, in order, without overlap, inside the audio, in steps of 10 ms.

        A word that the dictionary lacks is searched as eSpeak NG pronounces it; a word in capitals, which may be an
        acronym, in both pronunciations. Earlier calls do not change the result.

        Raises:
            AlignmentRefused: the words are not found, or one of them is not a word.
            TimesRefused: a word is found only outside the audio.
            BackendError: pocketsphinx does not load.
        """
        if not words:
            return []
        *short, longest = _PADS_N_FRAMES
        for n_pad in short:
            with suppress(AlignmentRefused):
                return _align_padded(samples, sample_rate_hz, words, n_pad)
        return _align_padded(samples, sample_rate_hz, words, longest)


def align_phones(samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[PhoneTiming]:
    """Returns the timings of all phonemes and silences of known words, in order, in steps of 10 ms.

    The audio is searched with 0.1 s of silence added at both ends, so that the first silence may start before 0 s and
    the last one end after the audio.

    Raises:
        AlignmentRefused: the words are not found, or one of them is not a word.
        BackendError: pocketsphinx does not load.
    """
    n_pad = _PADS_N_FRAMES[0]
    pcm = _to_pcm(samples, sample_rate_hz, n_pad)
    with _one_at_a_time:
        decoder = _load_decoder()
        segments = _find_segments(decoder, pcm, words)
        if segments is None or len(segments) != len(words):
            raise AlignmentRefused(f"not all words are found in the audio of {' '.join(words)[:80]!r}")
        decoder.set_alignment()  # the words that were just found, with their phonemes
        _search(decoder, pcm)
        phones = [phone for word in decoder.get_alignment() for phone in word]
    return [
        PhoneTiming(
            each.name, (each.start - n_pad) / _FRAMES_PER_S, (each.start + each.duration - n_pad) / _FRAMES_PER_S
        )
        for each in phones
    ]


def _align_padded(samples: Samples, sample_rate_hz: int, words: Sequence[str], n_pad: int) -> list[WordTiming]:
    """Aligns the words with `n_pad` frames of silence at both ends; times count from the start of the audio itself.

    Raises:
        AlignmentRefused, TimesRefused, BackendError: as `PocketsphinxAligner.align`.
    """
    pcm = _to_pcm(samples, sample_rate_hz, n_pad)
    with _one_at_a_time:
        decoder = _load_decoder()
        segments = _find_segments(decoder, pcm, words)
    if segments is None or len(segments) != len(words):
        n_found = "none" if segments is None else str(len(segments))
        raise AlignmentRefused(f"{n_found} of {len(words)} words found in the audio of {' '.join(words)[:80]!r}")
    duration_s = samples_to_seconds(len(samples), sample_rate_hz)
    timings = [_make_timing(word, segment, n_pad, duration_s) for word, segment in zip(words, segments, strict=True)]
    check_order(timings, duration_s)  # words found in the added silence have no time inside the audio
    return timings


def _add_to_dictionary(decoder: Any, word: str) -> str:
    """Returns the word's key in the decoder's dictionary, and adds the word if it is missing or in capitals.

    Our keys end in `~`, so that a word added for one text is never taken for the dictionary's own word by the next;
    only keys that occur in a text are searched.

    Raises:
        AlignmentRefused: it is not a word, or has no pronunciation.
    """
    written = word.replace("’", "'").strip("'")
    if not _WORD.fullmatch(written):
        raise AlignmentRefused(f"{word!r} is not a word: letters and apostrophes are")
    phones = decoder.lookup_word(written.lower())
    may_be_spelt_out = len(written) > 1 and written.isupper()  # US is not us, NASA is nasa: the audio decides
    if phones is not None and not may_be_spelt_out:
        return written.lower()
    key = f"{written}~"
    if decoder.lookup_word(key) is None:
        decoder.add_word(key, pronounce(written), True)
        if phones is not None:
            decoder.add_word(f"{key}(2)", phones, True)
    return key


def _to_pcm(samples: Samples, sample_rate_hz: int, n_pad: int) -> bytes:
    """Converts audio to 16-bit PCM at 16 kHz, with `n_pad` frames of silence at both ends and a little fixed noise."""
    import soxr

    n_silent = n_pad * _MODEL_RATE_HZ // _FRAMES_PER_S
    sound = np.pad(soxr.resample(samples, sample_rate_hz, _MODEL_RATE_HZ), n_silent)
    sound = sound + np.random.default_rng(_NOISE_SEED).normal(0, _NOISE_SIGMA, sound.size)
    pcm: bytes = (np.clip(sound, -1, 1) * 32_767).astype("<i2").tobytes()
    return pcm


def _find_segments(decoder: Any, pcm: bytes, words: Sequence[str]) -> list[Any] | None:
    """Returns the decoder's segments that are words, or None if the search reached no end.

    Raises:
        AlignmentRefused: one of the words is not a word, or has no pronunciation.
    """
    text = " ".join(_add_to_dictionary(decoder, word) for word in words)
    decoder.reinit_feat()  # resets the last audio's noise statistics, which would shift this one's frames
    decoder.set_align_text(text)
    _search(decoder, pcm)
    if decoder.hyp() is None:
        return None
    return [segment for segment in decoder.seg() if segment.word[0] not in "<[("]


def _search(decoder: Any, pcm: bytes) -> None:
    """Runs the search that is set in the decoder, of words or phonemes, over the audio; the decoder has the result."""
    decoder.start_utt()
    decoder.process_raw(pcm, full_utt=True)
    decoder.end_utt()


def _make_timing(word: str, segment: Any, n_pad: int, duration_s: float) -> WordTiming:
    """Makes a word's timing in seconds of the audio without its padding, clipped to the audio."""
    first_frame, end_frame = segment.start_frame, segment.end_frame + 1
    start_s, end_s = (min(max((frame - n_pad) / _FRAMES_PER_S, 0.0), duration_s) for frame in (first_frame, end_frame))
    return WordTiming(
        word=word,
        start_s=start_s,
        end_s=end_s,
        score=math.log(segment.ascore) * _SCORE_SCALE / (end_frame - first_frame),
        method=PocketsphinxAligner.name,
    )


@cache
def _load_decoder() -> Any:
    """Loads the decoder, once per process; raises BackendError if it does not load."""
    from pocketsphinx import Config, Decoder

    try:
        return Decoder(
            Config(lm=None, samprate=_MODEL_RATE_HZ, bestpath=False, cmn="batch", loglevel="FATAL", **_BEAMS)
        )
    except (RuntimeError, OSError) as error:
        raise BackendError(f"pocketsphinx does not load: {error}.", INSTALL_SPEECH) from error
