"""Rules for measured values of a row: its levels, hearings, and audio positions are measured again and compared."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise

import numpy as np

from data_schemas.records import AudioDialogue, Hearing, Turn, Utterance, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.audio import Sound, measure_peak_dbfs
from pipelines.mixing.timing import CHANNEL, measure_quality
from spoken.spoken_text import split_words

LEVEL_TOLERANCE_DB = 0.05
"""How much 16-bit storage may change a level, in dB: a thousandth at -40 dBFS, and as little at a peak."""

SHARE_TOLERANCE = 1e-3
"""Shares, mean scores and scores of words are stored with four digits."""

BEFORE_WORD_S, AFTER_WORD_S = 0.15, 0.25
"""How far around a word its audio may lie, in seconds: aligners place edges at certain phones, and rooms echo."""

MOST_OUTSIDE = 0.05
"""The largest share of an utterance's energy that may lie outside its words; in Kokoro's speech, timed by pocketsphinx,
none does, even with rooms and noise."""

_MOST_WORDS_OF_TOKEN = 6  # a written token counts as up to so many words: "$5.50" is five, with its cents
SILENT_DBFS = -60.0
"""A channel at or below this level has no speech: utterances are mixed at -40 dBFS or louder (`SpeechConfig`)."""

MOST_BETWEEN = 0.01
"""The largest share of the energy on a recorded assistant's channel that may lie outside utterances: codecs hum."""

_SPEED_MIN, _SPEED_MAX = 0.5, 2.0  # the limits of `SpeechConfig`
_TIME_TOLERANCE_S = 1e-5
_FRAME = seconds_to_samples(0.01)
_LEVELS = ("rms_dbfs_a", "rms_dbfs_b", "peak_dbfs")

BrokenRules = Iterator[tuple[str, str]]
"""Pairs of a broken rule, worded positively ("dialogue ids are unique"), and what was found instead."""


def check_quality(row: AudioDialogue, sound: Sound) -> BrokenRules:
    """Yields a (rule, finding) pair for each figure of quality that the row's audio and hearings do not confirm."""
    if not any(said.words for turn in row.turns for said in turn.utterances):
        return  # reported by the rule that every spoken word is timed
    stored, measured = asdict(row.quality), asdict(measure_quality(sound, row.turns))
    for name, value in measured.items():
        expected, tolerance = stored[name], LEVEL_TOLERANCE_DB if name in _LEVELS else SHARE_TOLERANCE
        is_same = expected == value if None in (expected, value) else abs(expected - value) <= tolerance
        if not is_same:
            yield "quality matches the audio and the hearings", f"{name} is {value}, not {expected}"


def check_hearings(row: AudioDialogue) -> BrokenRules:
    """Yields a (rule, finding) pair for each missing hearing, hearing without a recogniser, and impossible count."""
    for turn in row.turns:
        last = max((at for at, said in enumerate(turn.utterances) if said.kind == "speech"), default=None)
        for at, said in enumerate(turn.utterances):
            where = f"turn {turn.turn_index}"
            is_listened_to = row.provenance.asr is not None and said.kind == "speech"
            if (said.hearing is not None) != is_listened_to:
                yield "what a recogniser listened to has a hearing", f"{where}: by {row.provenance.asr}"
            is_cut = turn.cut_s is not None and at == last  # its hearing covers all of it
            n_words = None if is_cut else len(split_words(said.spoken_text))
            if said.hearing is not None and not _is_consistent(said.hearing, n_words):
                yield "counts of a hearing are possible", f"{where}: {said.hearing}"


def _is_consistent(hearing: Hearing, n_words: int | None) -> bool:
    """Returns whether the counts of a hearing can be true together, and for an utterance of `n_words` spoken words.

    `n_words` is None if it is not known; a hearing may count several words of a number as one.
    """
    most = hearing.n_words if n_words is None else n_words
    n_heard = len(hearing.text.split())
    return (
        0 < hearing.n_words <= most
        and 0 <= hearing.n_numbers_heard <= hearing.n_numbers <= hearing.n_words
        and 0 <= hearing.n_names_heard <= hearing.n_names <= hearing.n_words
        and 0 <= hearing.n_word_errors <= hearing.n_words + _MOST_WORDS_OF_TOKEN * n_heard
        and (n_heard > 0 or hearing.n_word_errors == hearing.n_words)
        and hearing.n_takes >= 1
    )


def check_speakers(row: AudioDialogue) -> BrokenRules:
    """Yields a (rule, finding) pair for each voice that is not its speaker's, and each speed outside the range."""
    voices = {"A": row.provenance.voice_a, "B": row.provenance.voice_b}
    for turn in row.turns:
        for said in turn.utterances:
            if said.voice is None or said.voice != voices.get(turn.speaker, said.voice):
                found = f"turn {turn.turn_index}: {said.voice}, not {voices.get(turn.speaker)}"
                yield "a speaker has the voice recorded in provenance", found
            if said.speed is None or not _SPEED_MIN <= said.speed <= _SPEED_MAX:
                yield f"speed lies between {_SPEED_MIN} and {_SPEED_MAX}", f"turn {turn.turn_index}: {said.speed}"


def check_delay(turn: Turn) -> BrokenRules:
    """Yields a (rule, finding) pair if the keyword delay is not the time from the turn's first word to the answer's."""
    words = [word for said in turn.utterances if said.kind == "speech" for word in said.words]
    index = turn.answer_word_index
    if index is not None and index >= len(words):
        return  # reported by the rule that this word is said
    delay_s = None if index is None else words[index].start_s - words[0].start_s
    told_s = turn.keyword_delay_s
    is_same = told_s == delay_s if told_s is None or delay_s is None else abs(told_s - delay_s) <= _TIME_TOLERANCE_S
    if not is_same:
        yield "a keyword delay is the time of its word", f"turn {turn.turn_index}: {told_s} s, not {delay_s} s"


def check_coverage(row: AudioDialogue, sound: Sound) -> BrokenRules:
    """Yields a (rule, finding) pair for each utterance with more than `MOST_OUTSIDE` of its energy far from its words.

    Then the times are compressed, shifted, or of other audio. A noise floor is subtracted by its stored level.
    """
    noise_dbfs = row.surroundings.noise_dbfs
    floors = {"A": 0.0, "B": 0.0 if noise_dbfs is None else 10 ** (noise_dbfs / 10)}
    for turn in row.turns:
        for said in turn.utterances:
            if turn.speaker not in CHANNEL or not _has_times(said, len(sound)):
                continue  # reported by other rules
            share = _measure_outside(sound[:, CHANNEL[turn.speaker]], said, floors[turn.speaker])
            if share > MOST_OUTSIDE:
                found = f"turn {turn.turn_index}: {share:.0%} of the sound of {said.spoken_text[:40]!r} lies elsewhere"
                yield "the sound of an utterance lies around its words", found


def check_silence(row: AudioDialogue, sound: Sound) -> BrokenRules:
    """Yields a (rule, finding) pair if there is any sound on the assistant's channel while the assistant is silent.

    That channel has no noise or echo.
    """
    between = _silence_utterances(row, sound)
    level_dbfs = measure_peak_dbfs(between)
    if level_dbfs > SILENT_DBFS:
        first_s = float(np.argmax(np.abs(between) > 10 ** (SILENT_DBFS / 20))) / SAMPLE_RATE_HZ
        found = f"{level_dbfs:.0f} dBFS on A's where A says nothing, from {first_s:.2f} s on"
        yield "each speaker is on their own channel", found


def check_recorded_silence(row: AudioDialogue, sound: Sound) -> BrokenRules:
    """Yields a (rule, finding) pair if a recorded assistant's channel has audible sound while the assistant is silent.

    The channel is a model's output: `MOST_BETWEEN` of its energy is allowed there.
    """
    between, whole = (
        float(np.square(each, dtype=np.float64).sum())
        for each in (_silence_utterances(row, sound), sound[:, CHANNEL["A"]])
    )
    if between > MOST_BETWEEN * whole:
        yield (
            "each speaker is on their own channel",
            f"{between / whole:.1%} of the sound on A's lies where A is silent",
        )


def _silence_utterances(row: AudioDialogue, sound: Sound) -> Sound:
    """Returns the assistant's channel with its utterances muted.

    Returns an empty array if there are no utterances, or if their times are invalid, which other rules report.
    """
    said = [each for turn in row.turns if turn.speaker == "A" for each in turn.utterances]
    if not said or not all(_has_times(each, len(sound)) for each in said):
        return np.zeros(0, np.float32)
    between = sound[:, CHANNEL["A"]].copy()
    for each in said:
        between[seconds_to_samples(each.start_s or 0.0) : seconds_to_samples(each.end_s or 0.0)] = 0.0
    return between


def _has_times(said: Utterance, n_samples: int) -> bool:
    """Returns whether an utterance has words, and times that are in order and inside the audio."""
    if said.start_s is None or said.end_s is None or not said.words:
        return False
    edges_s = [said.start_s, *(word.start_s for word in said.words), said.end_s]
    is_ordered = all(one <= other + _TIME_TOLERANCE_S for one, other in pairwise(edges_s))
    return is_ordered and said.start_s < said.end_s <= n_samples / SAMPLE_RATE_HZ + _TIME_TOLERANCE_S


def _measure_outside(channel: Sound, said: Utterance, floor: float) -> float:
    """Returns the share of an utterance's energy, less the noise floor's, that does not lie in or near its words.

    Args:
        floor: power of the noise, relative to full scale.
    """
    start, end = seconds_to_samples(said.start_s or 0.0), seconds_to_samples(said.end_s or 0.0)
    sound = channel[start:end]
    n_frames = len(sound) // _FRAME
    power = np.square(sound[: n_frames * _FRAME].reshape(n_frames, _FRAME), dtype=np.float64).mean(axis=1) - floor
    is_outside = ~_find_frames_near_words(said.words, said.start_s or 0.0, n_frames)
    whole = float(power.sum())
    return float(power[is_outside].sum()) / whole if whole > 0 else 0.0


def _find_frames_near_words(
    words: Sequence[WordTiming], start_s: float, n_frames: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Returns, for each frame of an utterance, whether it lies in or near one of its words; [n_frames]."""
    is_near = np.zeros(n_frames, np.bool_)
    for word in words:
        first = seconds_to_samples(max(word.start_s - start_s - BEFORE_WORD_S, 0.0)) // _FRAME
        is_near[first : seconds_to_samples(word.end_s - start_s + AFTER_WORD_S) // _FRAME + 1] = True
    return is_near
