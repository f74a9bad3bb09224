"""A recorded dialogue whose words have been found, as the row of a data shard."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np

from data_schemas.records import Audio, AudioDialogue, Dialogue, DialogueWords, Surroundings, Turn, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ, round_s, samples_to_seconds, seconds_to_samples
from pipelines.audio import Sound, rms_dbfs, to_flac
from pipelines.mixing.timing import CHANNEL, quality_of
from pipelines.recordings.cutting import Piece
from pipelines.recordings.draft import window

AROUND_S: Final = 0.15
"""How far an utterance reaches beyond its first and last word: aligners put edges where phones are sure."""

LEAST_NOISE_DBFS: Final = -60.0
"""A quieter channel is silent where nobody speaks, as `kame check` has it."""

Key = tuple[int, int]


def row_of(dialogue: Dialogue, piece: Piece, words: DialogueWords, sound: Sound) -> AudioDialogue:
    """The row of a dialogue.

    Args:
        words: times from the start of each utterance's window.
        sound: of the dialogue, [n_samples, 2].
    """
    found = {(each.turn_index, each.utterance_index): each.words for each in words.utterances}
    turns = tuple(_timed(turn, piece, found) for turn in dialogue.turns)
    quality = quality_of(sound, turns)
    provenance = replace(dialogue.provenance, aligner=words.aligner, aligner_digest=words.aligner_digest)
    kept = {field.name: getattr(dialogue, field.name) for field in fields(Dialogue)}
    return AudioDialogue(
        **{**kept, "turns": turns, "provenance": provenance},
        n_samples=len(sound),
        sample_rate_hz=SAMPLE_RATE_HZ,
        duration_s=round_s(samples_to_seconds(len(sound))),
        quality=quality,
        surroundings=Surroundings(
            level_dbfs=quality.rms_dbfs_b,
            noise_dbfs=_noise_dbfs(sound, turns),
            room_rt60_s=None,
            is_telephone=False,
        ),
        audio=Audio(bytes=to_flac(sound), path=f"{dialogue.dialogue_id}.flac"),
    )


def _timed(turn: Turn, piece: Piece, found: dict[Key, tuple[WordTiming, ...]]) -> Turn:
    """A turn with its words on the dialogue's clock; its utterances reach a little beyond them."""
    utterances = []
    for index, utterance in enumerate(turn.utterances):
        start, end = window(piece, piece.turns[turn.turn_index][index])
        offset_s, end_s = samples_to_seconds(start), samples_to_seconds(end)
        words = tuple(
            replace(word, start_s=round_s(offset_s + word.start_s), end_s=round_s(offset_s + word.end_s))
            for word in found[turn.turn_index, index]
        )
        utterances.append(
            replace(
                utterance,
                words=words,
                start_s=round_s(max(offset_s, words[0].start_s - AROUND_S)),
                end_s=round_s(min(end_s, words[-1].end_s + AROUND_S)),
            )
        )
    return replace(turn, utterances=tuple(utterances), start_s=utterances[0].start_s, end_s=utterances[-1].end_s)


def _noise_dbfs(sound: Sound, turns: Sequence[Turn]) -> float | None:
    """The level of the caller's channel where the caller says nothing; None where it is silent, or never is."""
    is_quiet = np.ones(len(sound), np.bool_)
    for turn in turns:
        for each in turn.utterances if turn.speaker == "B" else ():
            is_quiet[seconds_to_samples(each.start_s or 0.0) : seconds_to_samples(each.end_s or 0.0)] = False
    if not is_quiet.any():
        return None
    level_dbfs = rms_dbfs(sound[is_quiet, CHANNEL["B"]])
    return level_dbfs if level_dbfs > LEAST_NOISE_DBFS else None
