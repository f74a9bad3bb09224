"""The quality gate: checks the audio of an utterance with simple rules and with a recogniser before it is kept.

The recogniser does not judge backchannels, since one or two syllables give it no context (of "Mm hmm." by six voices
Moonshine tiny recognised none, of "Okay." four); its verdict would be about itself. They are checked for level,
clipping, length against their letters, and, more strictly than other speech, for the duration of audible sound and for
silence inside.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.asr.protocol import HearingRefused, Recogniser
from backends.engine import Samples
from data_schemas.config import GateConfig
from data_schemas.records import Hearing, Turn, Utterance
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds, seconds_to_samples
from pipelines.audio import measure_rms_dbfs
from pipelines.quality.word_errors import Comparison, compare_transcript, make_hearing
from pipelines.speech.in_flight import EngineThreads
from spoken.spoken_text import split_words

LISTENING_SILENCE_S = 0.25
"""Silence, in seconds, added before and after what a recogniser hears, as it expects."""

_N_LETTERS_SPELT = 4
"""How many letters a capital of an acronym counts as: "D N A" takes as long as "dee en ay"."""

_SLACK_S = 0.6
"""Tolerance in seconds for speech longer than its letters require, and a quarter of it for shorter speech."""

BACKCHANNEL_LEAST_S, BACKCHANNEL_PAUSE_S = 0.2, 0.3
"""Minimum audible sound of a backchannel at speed 1, and maximum silence inside one, in seconds. Kokoro's 28 voices say
those of this pipeline with 0.38 to 1.14 s of sound and no silence longer than 0.1 s (672 takes at three speeds)."""

N_ANSWER_WORDS = 4
"""How many words, from the first one of the answer to at most the end of its sentence, must be heard."""

_ARTICLES = frozenset({"a", "an", "the"})
_FRAME_S = 0.02
_AT_PEAK = 1e-4


@dataclass(frozen=True, slots=True)
class TakeFault:
    """Why an utterance fails: the reject's reason and what was found."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class TakeVerdict:
    """What was heard in one take, if there is a recogniser, and its first fault, if it has one."""

    hearing: Hearing | None
    fault: TakeFault | None


class Gate:
    """Judges single takes.

    Args:
        recogniser: None if only the audio itself is judged.
        threads: limits the recogniser's calls, if dialogues are judged in several threads.
    """

    def __init__(self, config: GateConfig, recogniser: Recogniser | None, threads: EngineThreads | None = None) -> None:
        self.config = config
        self.recogniser = recogniser
        self._threads = threads or EngineThreads()

    def judge(
        self, utterance: Utterance, samples: Samples, speed: float, n_takes: int, answer: range = range(0)
    ) -> TakeVerdict:
        """Judges one take of an utterance; its audio is float32 [n_samples] at 24 kHz, as the engine returned it.

        The recogniser listens only to speech, not to backchannels, and only if the audio itself has no fault.

        Args:
            speed: the speed at which it was spoken.
            n_takes: number of takes of the utterance so far, including this one; stored with what was heard.
            answer: indices of the utterance's words that must be heard, apart from articles (`find_answer_words`).
        """
        fault = self._check_sound(utterance.spoken_text, samples, speed)
        if fault is None and utterance.kind == "backchannel":
            fault = _check_backchannel(utterance.spoken_text, samples, speed)
        if fault is not None or self.recogniser is None or utterance.kind == "backchannel":
            return TakeVerdict(None, fault)
        try:
            with self._threads.call(self.recogniser):
                heard = self.recogniser.transcribe(pad_with_silence(samples), SAMPLE_RATE_HZ)
        except HearingRefused as refusal:
            return TakeVerdict(None, TakeFault("not_heard", refusal.what))
        found = compare_transcript(utterance.spoken_text, heard)
        return TakeVerdict(
            make_hearing(found, heard, n_takes), self._check_hearing(utterance.spoken_text, found, answer)
        )

    def _check_sound(self, text: str, samples: Samples, speed: float) -> TakeFault | None:
        """Returns the first fault of the audio itself: silence, clipping, or a length that does not fit the words."""
        config = self.config
        level_dbfs = measure_rms_dbfs(samples)
        if level_dbfs < config.min_level_dbfs:
            return TakeFault("silent", f"{text!r} is said at {level_dbfs} dBFS")
        if (pause_s := measure_longest_pause_s(samples)) > config.max_pause_s:
            return TakeFault("silent", f"{text!r} has a silence of {pause_s:.2f} s inside")
        if (n_run := measure_longest_clipped_run(samples)) > config.max_clipped_run:
            return TakeFault("clipped", f"{text!r} has {n_run} samples in a row at its peak")
        said_s, n_letters = samples_to_seconds(len(samples)), count_letters(text)
        if said_s > (config.max_letter_s * n_letters + _SLACK_S) / speed:
            return TakeFault("too_long_for_words", f"{text!r} takes {said_s:.2f} s")
        if said_s < (config.min_letter_s * n_letters - _SLACK_S / 4) / speed:
            return TakeFault("too_short_for_words", f"{text!r} takes {said_s:.2f} s")
        return None

    def _check_hearing(self, text: str, found: Comparison, answer: range) -> TakeFault | None:
        """Returns a fault if nothing was heard, too much was misheard, or an essential word is missing; else None."""
        config = self.config
        words = split_words(text)
        is_wrong = (
            not found.heard
            or found.n_misheard > int(config.max_wer * found.n_words)
            or (config.every_number and found.n_numbers_heard < found.n_numbers)
            or found.n_names_heard < config.min_name_recall * found.n_names
            or not found.has_negations
            or any(not found.is_heard[at] and words[at].lower() not in _ARTICLES for at in answer)
        )
        return TakeFault("misheard", f"to be said: {found.said!r}; heard: {found.heard!r}") if is_wrong else None


def _check_backchannel(text: str, samples: Samples, speed: float) -> TakeFault | None:
    """Returns the fault of a backchannel with too little sound or a silence inside; None if it has none."""
    if (sound_s := measure_heard_s(samples)) < BACKCHANNEL_LEAST_S / speed:
        return TakeFault("too_short_for_words", f"{text!r} is heard for {sound_s:.2f} s")
    if (pause_s := measure_longest_pause_s(samples)) > BACKCHANNEL_PAUSE_S:
        return TakeFault("silent", f"{text!r} has a silence of {pause_s:.2f} s inside")
    return None


def find_answer_words(turn: Turn, utterance_index: int) -> range:
    """Returns the indices, within an utterance, of the first words of its turn's answer; empty if it has none of them.

    They are at most `N_ANSWER_WORDS` words, up to the end of a sentence.
    """
    utterance = turn.utterances[utterance_index]
    if turn.answer_word_index is None or utterance.kind != "speech":
        return range(0)
    before = [each.spoken_text for each in turn.utterances[:utterance_index] if each.kind == "speech"]
    n_before = sum(len(split_words(text)) for text in before)
    words = turn.spoken_text.split()  # a spoken text has one space between words, and punctuation is attached to words
    start = turn.answer_word_index
    ends = (at + 1 for at in range(start, len(words)) if words[at][-1] in ".?!")
    end = min(start + N_ANSWER_WORDS, next(ends, len(words)))
    n_own = len(split_words(utterance.spoken_text))
    return range(max(start - n_before, 0), max(min(end - n_before, n_own), 0))


def pad_with_silence(samples: Samples) -> Samples:
    """Returns the samples with a quarter of a second of silence at both ends."""
    return np.pad(samples, seconds_to_samples(LISTENING_SILENCE_S))


def measure_longest_pause_s(samples: Samples) -> float:
    """Returns the duration in seconds of the longest silence between two sounds; 0 if there is none."""
    return float(np.diff(_find_audible_frames(samples)).max(initial=1) - 1) * _FRAME_S


def measure_heard_s(samples: Samples) -> float:
    """Returns the duration in seconds of audible sound, without silence."""
    return len(_find_audible_frames(samples)) * _FRAME_S


def _find_audible_frames(samples: Samples) -> NDArray[np.intp]:
    """Returns the indices of the frames of 20 ms that are not silent: less than 40 dB below the mean power."""
    n_frame = seconds_to_samples(_FRAME_S)
    power = np.square(samples[: len(samples) // n_frame * n_frame].reshape(-1, n_frame)).mean(axis=1)
    return np.flatnonzero(power > power.mean() * 1e-4) if power.size else np.zeros(0, np.intp)


def measure_longest_clipped_run(samples: Samples) -> int:
    """Returns the length of the longest run of samples within 0.01% of the peak, which shows clipping.

    An unclipped tone has one or two such samples, whatever its level; a clipped one has many.
    """
    peak = float(np.abs(samples).max(initial=0.0))
    flat = np.abs(samples) >= peak * (1 - _AT_PEAK)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0)) if peak else 0


def count_letters(text: str) -> int:
    """Returns the number of letters of a spoken text; those of acronyms, which are spelt out, count as four each."""
    return sum(len(word) * (_N_LETTERS_SPELT if _is_spelt(word) else 1) for word in split_words(text))


def _is_spelt(word: str) -> bool:
    """Returns whether a word is spoken letter by letter: it is in capitals, and not "I" or "A"."""
    return word.isupper() and word not in {"I", "A"}
