"""Makes the turns of a row from a placed dialogue, with times on its clock, and measures their speech."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from data_schemas.records import Hearing, Quality, Turn, Utterance, UtteranceClip, WordTiming
from data_schemas.units import round_s, samples_to_seconds, seconds_to_samples
from pipelines.audio import Sound, measure_peak_dbfs, measure_rms_dbfs
from pipelines.mixing.layout import Key, Layout, PlacedUtterance

CHANNEL = {"A": 0, "B": 1}
"""The assistant is on the left channel and the user on the right one, as in moshi-finetune."""


def place_turn(turn: Turn, layout: Layout, clips: Mapping[Key, UtteranceClip]) -> Turn:
    """Returns the turn as it is spoken: with times on the dialogue's clock and without what follows a cut.

    Its own times are those of its speech, without backchannels; they are None if nothing of it is spoken. A cut changes
    neither its written text nor its lead, body and tail.
    """
    said = [
        (each, layout.utterances[turn.turn_index, index], clips[turn.turn_index, index])
        for index, each in enumerate(turn.utterances)
        if (turn.turn_index, index) in layout.utterances
    ]
    utterances = tuple(_place_utterance(*each) for each in said)
    speech = [each for each in utterances if each.kind == "speech"]
    end_s = speech[-1].end_s if speech else None
    turn = _add_keyword_delay(turn, [word for each in speech for word in each.words])
    return replace(
        turn,
        spoken_text=" ".join(each.spoken_text for each in speech),
        utterances=utterances,
        start_s=speech[0].start_s if speech else None,
        end_s=end_s,
        cut_s=end_s if turn.turn_index in layout.cut_turns else None,
    )


def _add_keyword_delay(turn: Turn, words: Sequence[WordTiming]) -> Turn:
    """Returns the turn with its keyword delay: the time from its first word to the first word of the answer.

    If the turn has no answer, or its word is cut off, it has neither a delay nor an `answer_word_index`.
    """
    index = turn.answer_word_index
    if index is None or index >= len(words):
        return replace(turn, answer_word_index=None, keyword_delay_s=None)
    return replace(turn, keyword_delay_s=round_s(words[index].start_s - words[0].start_s))


def _place_utterance(utterance: Utterance, laid: PlacedUtterance, clip: UtteranceClip) -> Utterance:
    """Returns an utterance with its clip's voice and hearing, and times on the dialogue's clock; a cut shortens it."""
    start_s = samples_to_seconds(laid.start)
    n_words = len(laid.words)
    text = " ".join(utterance.spoken_text.split()[:n_words]) if laid.is_cut else utterance.spoken_text
    return replace(
        utterance,
        spoken_text=text,
        written_spans=utterance.written_spans[:n_words],
        hearing=clip.hearing,
        voice=clip.voice,
        speed=clip.speed,
        start_s=round_s(start_s),
        end_s=round_s(samples_to_seconds(laid.end)),
        words=tuple(
            replace(word, start_s=round_s(start_s + word.start_s), end_s=round_s(start_s + word.end_s))
            for word in laid.words
        ),
    )


def measure_quality(sound: Sound, turns: Sequence[Turn]) -> Quality:
    """Measures the quality of a dialogue: levels, and what aligner and recogniser found.

    The levels are those of each speaker while they speak, and the peak of both channels. There are also the aligner's
    mean score over all words (nan without words), and the recogniser's error rate and recalls (None if nothing was
    counted).
    """
    said = [each for turn in turns for each in turn.utterances]
    heard = [each.hearing for each in said if each.hearing is not None]
    return Quality(
        rms_dbfs_a=_measure_level(sound, turns, "A"),
        rms_dbfs_b=_measure_level(sound, turns, "B"),
        peak_dbfs=measure_peak_dbfs(sound),
        mean_word_score=round(float(np.mean([word.score for each in said for word in each.words])), 4),
        wer=_compute_share(heard, "n_word_errors", "n_words"),
        number_recall=_compute_share(heard, "n_numbers_heard", "n_numbers"),
        name_recall=_compute_share(heard, "n_names_heard", "n_names"),
    )


def _compute_share(heard: Sequence[Hearing], part: str, whole: str) -> float | None:
    """Returns the ratio of two summed counts of hearings; None if the denominator is 0."""
    n_part, n_whole = (sum(getattr(each, name) for each in heard) for name in (part, whole))
    return round(n_part / n_whole, 4) if n_whole else None


def _measure_level(sound: Sound, turns: Sequence[Turn], speaker: str) -> float:
    """Returns the speaker's level in dBFS while they speak, without the silence between turns."""
    spoken = [
        sound[seconds_to_samples(each.start_s) : seconds_to_samples(each.end_s), CHANNEL[speaker]]
        for turn in turns
        if turn.speaker == speaker
        for each in turn.utterances
        if each.start_s is not None and each.end_s is not None
    ]
    return measure_rms_dbfs(np.concatenate(spoken)) if spoken else measure_rms_dbfs(np.zeros(0, np.float32))
