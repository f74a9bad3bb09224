"""The gate: what an utterance's sound must pass before it is kept; a recogniser listens, and simple rules look.

Backchannels are only looked at: a recogniser has no context for one or two syllables (of "Mm hmm." by six voices
Moonshine tiny got none right, of "Okay." four), so its verdict would be about itself. What is checked of them instead:
level, flat tops, the length against their letters, and, more strictly than of other speech, how long they are heard at
all and that no silence lies inside.
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
from pipelines.quality.hearing import Comparison, compare, make_hearing
from pipelines.speech.in_flight import InFlight
from spoken.spoken_text import split_words

LISTENING_SILENCE_S = 0.25
"""Silence put before and after what a recogniser hears, as it is used to."""

_N_LETTERS_SPELT = 4
"""What a capital of an acronym counts as, in letters: "D N A" takes as long as "dee en ay"."""

_SLACK_S = 0.6
"""Speech may be this much longer than its letters ask, and a quarter of it shorter: margins, and short utterances."""

BACKCHANNEL_LEAST_S, BACKCHANNEL_PAUSE_S = 0.2, 0.3
"""Least sound of a backchannel at speed 1, and longest silence inside one. Kokoro's 28 voices say ours with 0.38 to
1.14 s of sound and no silence longer than 0.1 s (672 takes at three speeds)."""

N_ANSWER_WORDS = 4
"""How many words from the first that bears the answer on must be heard, at most; the sentence's end is one too."""

_ARTICLES = frozenset({"a", "an", "the"})
_FRAME_S = 0.02
_AT_PEAK = 1e-4


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an utterance does not pass: the reject's reason and what was found."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was heard of one take, where somebody listened, and its first fault, if it has one."""

    hearing: Hearing | None
    fault: Fault | None


class Gate:
    """Judges single takes.

    Args:
        recogniser: who listens; None: only the sound itself is judged.
        in_flight: what its calls are counted by, where dialogues are judged in several threads.
    """

    def __init__(self, config: GateConfig, recogniser: Recogniser | None, in_flight: InFlight | None = None) -> None:
        self.config = config
        self.recogniser = recogniser
        self._in_flight = in_flight or InFlight()

    def judge(
        self, utterance: Utterance, samples: Samples, speed: float, n_takes: int, answer: range = range(0)
    ) -> Verdict:
        """The verdict on one take, float32 [n_samples] at 24 kHz as the engine gave it.

        Args:
            speed: how fast it was said.
            n_takes: how often the utterance has been said, this take included; stored with what was heard.
            answer: indices of the utterance's words that bear the answer (`answer_words`).
        """
        fault = self._check_sound(utterance.spoken_text, samples, speed)
        if fault is None and utterance.kind == "backchannel":
            fault = _check_backchannel(utterance.spoken_text, samples, speed)
        if fault is not None or self.recogniser is None or utterance.kind == "backchannel":
            return Verdict(None, fault)
        try:
            with self._in_flight.call(self.recogniser):
                heard = self.recogniser.transcribe(pad_with_silence(samples), SAMPLE_RATE_HZ)
        except HearingRefused as refusal:
            return Verdict(None, Fault("not_heard", refusal.what))
        found = compare(utterance.spoken_text, heard)
        return Verdict(make_hearing(found, heard, n_takes), self._check_hearing(utterance.spoken_text, found, answer))

    def _check_sound(self, text: str, samples: Samples, speed: float) -> Fault | None:
        config = self.config
        level_dbfs = measure_rms_dbfs(samples)
        if level_dbfs < config.min_level_dbfs:
            return Fault("silent", f"{text!r} is said at {level_dbfs} dBFS")
        if (pause_s := measure_longest_pause_s(samples)) > config.max_pause_s:
            return Fault("silent", f"{text!r} has a silence of {pause_s:.2f} s inside")
        if (n_run := measure_longest_clipped_run(samples)) > config.max_clipped_run:
            return Fault("clipped", f"{text!r} has {n_run} samples in a row at its peak")
        said_s, n_letters = samples_to_seconds(len(samples)), count_letters(text)
        if said_s > (config.max_letter_s * n_letters + _SLACK_S) / speed:
            return Fault("too_long_for_words", f"{text!r} takes {said_s:.2f} s")
        if said_s < (config.min_letter_s * n_letters - _SLACK_S / 4) / speed:
            return Fault("too_short_for_words", f"{text!r} takes {said_s:.2f} s")
        return None

    def _check_hearing(self, text: str, found: Comparison, answer: range) -> Fault | None:
        """Nothing heard, too much heard otherwise, or one of the words that everything hangs on."""
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
        return Fault("misheard", f"to be said: {found.said!r}; heard: {found.heard!r}") if is_wrong else None


def _check_backchannel(text: str, samples: Samples, speed: float) -> Fault | None:
    """What may be wrong with a backchannel that would not be noticed in longer speech."""
    if (sound_s := measure_heard_s(samples)) < BACKCHANNEL_LEAST_S / speed:
        return Fault("too_short_for_words", f"{text!r} is heard for {sound_s:.2f} s")
    if (pause_s := measure_longest_pause_s(samples)) > BACKCHANNEL_PAUSE_S:
        return Fault("silent", f"{text!r} has a silence of {pause_s:.2f} s inside")
    return None


def answer_words(turn: Turn, utterance_index: int) -> range:
    """Which words of an utterance bear its turn's answer: the first that does and the few after it in its sentence."""
    utterance = turn.utterances[utterance_index]
    if turn.answer_word_index is None or utterance.kind != "speech":
        return range(0)
    before = [each.spoken_text for each in turn.utterances[:utterance_index] if each.kind == "speech"]
    n_before = sum(len(split_words(text)) for text in before)
    words = turn.spoken_text.split()  # a spoken text has one space between words, and marks stand on words
    start = turn.answer_word_index
    ends = (at + 1 for at in range(start, len(words)) if words[at][-1] in ".?!")
    end = min(start + N_ANSWER_WORDS, next(ends, len(words)))
    n_own = len(split_words(utterance.spoken_text))
    return range(max(start - n_before, 0), max(min(end - n_before, n_own), 0))


def pad_with_silence(samples: Samples) -> Samples:
    """The sound with a quarter of a second of silence at both ends."""
    return np.pad(samples, seconds_to_samples(LISTENING_SILENCE_S))


def measure_longest_pause_s(samples: Samples) -> float:
    """The longest silence between two sounds."""
    return float(np.diff(_find_audible_frames(samples)).max(initial=1) - 1) * _FRAME_S


def measure_heard_s(samples: Samples) -> float:
    """How long something is to be heard, silences inside and around left out."""
    return len(_find_audible_frames(samples)) * _FRAME_S


def _find_audible_frames(samples: Samples) -> NDArray[np.intp]:
    """Which frames of 20 ms are no silence: at most 40 dB below the whole."""
    n_frame = seconds_to_samples(_FRAME_S)
    power = np.square(samples[: len(samples) // n_frame * n_frame].reshape(-1, n_frame)).mean(axis=1)
    return np.flatnonzero(power > power.mean() * 1e-4) if power.size else np.zeros(0, np.intp)


def measure_longest_clipped_run(samples: Samples) -> int:
    """The most samples in a row within 0.01% of the sound's greatest amplitude: a flat top.

    A tone up to full scale has one or two there, whatever its level; where the level was cut, there are many.
    """
    peak = float(np.abs(samples).max(initial=0.0))
    flat = np.abs(samples) >= peak * (1 - _AT_PEAK)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0)) if peak else 0


def count_letters(text: str) -> int:
    """Letters of a spoken text, those that are named one by one counted as several."""
    return sum(len(word) * (_N_LETTERS_SPELT if _is_spelt(word) else 1) for word in split_words(text))


def _is_spelt(word: str) -> bool:
    return word.isupper() and word not in {"I", "A"}
