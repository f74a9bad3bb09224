"""Cuts a recorded session into dialogues of a length suitable for training, with turns from its transcript."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from data_schemas.records import HeardTurn, RecordedVoice, SaidPiece

PAUSE_S: Final = 1.0
"""A gap between two pieces of the assistant's text, in seconds, after which a new utterance begins."""

WORD_S: Final = 1.0
"""How long the audio of the assistant's last piece may continue after the frame of its text, in seconds."""

BEFORE_S: Final = {"A": 0.1, "B": 0.4}
"""How much audio before an utterance's time may belong to it, in seconds, by speaker: the assistant's text comes with
its audio, but the caller's speech is detected a little late."""

QUIET_S: Final = 1.0
"""Minimum silence of both speakers, in seconds, where a session is cut."""

AFTER_S: Final = 0.5
"""Seconds of audio kept after a dialogue's last utterance, at most until the next dialogue starts."""

MOST_S: Final = 120.0
"""Maximum duration of a dialogue in seconds; a session is cut into as few as possible."""


@dataclass(frozen=True, slots=True)
class RoughUtterance:
    """A continuous utterance of a speaker; its audio lies within [start_s - BEFORE_S of the speaker, end_s]."""

    speaker: str
    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class CutDialogue:
    """A dialogue cut out of a session.

    It has the audio [start_s, end_s), its turns, each of one speaker's utterances, and the voices of the server: more
    than one if the mode changed during speech.
    """

    start_s: float
    end_s: float
    turns: tuple[tuple[RoughUtterance, ...], ...]
    voices: tuple[RecordedVoice, ...]

    @property
    def is_exchange(self) -> bool:
        """Whether the assistant speaks after the caller."""
        speakers = [turn[0].speaker for turn in self.turns]
        return any(pair == ("B", "A") for pair in pairwise(speakers))


def cut_session(
    heard: Sequence[HeardTurn], said: Sequence[SaidPiece], voices: Sequence[RecordedVoice], duration_s: float
) -> list[CutDialogue]:
    """Cuts a session into dialogues, and returns them in order; empty if nobody spoke.

    Each begins with a turn of the caller after both were silent for `QUIET_S`, the first one and one after a change of
    the server's mode (front-end or cascade) with whatever comes first. It is longer than `MOST_S` only if there is no
    place to cut it. A change of mode starts a new dialogue, unless somebody speaks then: such a dialogue has several
    voices.

    Args:
        heard: what the caller said.
        said: the assistant's text as it was spoken, in order of time.
        voices: the voices of the server in order of time, the first from 0.
    """
    utterances = sorted(
        [*_list_caller_utterances(heard), *_list_assistant_utterances(said)],
        key=lambda each: (each.start_s, each.speaker),
    )
    changes_s = [now.start_s for before, now in pairwise(voices) if before.mode != now.mode]
    groups: list[list[RoughUtterance]] = []
    for stretch in _split_stretches(utterances, changes_s):
        start_s, end_s = groups[-1][0].start_s if groups else 0.0, max(each.end_s for each in stretch)
        is_changed = any(start_s < change_s <= stretch[0].start_s for change_s in changes_s)
        if groups and end_s - start_s <= MOST_S and not is_changed:
            groups[-1] += stretch
        else:
            groups.append(list(stretch))
    starts_s = [
        _find_start(group[0].start_s - BEFORE_S[group[0].speaker], group[0].start_s, changes_s) for group in groups
    ]
    ends_s = [*starts_s, duration_s][1:]
    return [
        _make_piece(group, start_s, end_s, changes_s, voices)
        for group, start_s, end_s in zip(groups, starts_s, ends_s, strict=True)
    ]


def _find_start(start_s: float, first_s: float, changes_s: Sequence[float]) -> float:
    """Returns the start of a dialogue whose first utterance is at `first_s`.

    It is `start_s`, or a change of mode between that and `first_s`; at least 0.
    """
    return max([0.0, start_s, *(change_s for change_s in changes_s if change_s <= first_s)])


def _make_piece(
    group: Sequence[RoughUtterance],
    start_s: float,
    end_s: float,
    changes_s: Sequence[float],
    voices: Sequence[RecordedVoice],
) -> CutDialogue:
    """Makes the dialogue that has these utterances, in order of time, and starts at `start_s`.

    It ends `AFTER_S` after the last one, but not after `end_s` or a change of mode.
    """
    last_s = max(each.end_s for each in group)
    end_s = min([end_s, last_s + AFTER_S, *(change_s for change_s in changes_s if change_s >= last_s)])
    inside = [each for each in voices if each.start_s <= start_s][-1:]
    inside += [each for each in voices if each.start_s in changes_s and start_s < each.start_s < end_s]
    return CutDialogue(start_s, end_s, _group_turns(group), tuple(inside))


def _list_caller_utterances(heard: Sequence[HeardTurn]) -> list[RoughUtterance]:
    """Makes an utterance of each turn of the caller; blank ones are left out."""
    return [RoughUtterance("B", turn.text, turn.start_s, turn.end_s) for turn in heard if turn.text.strip()]


def _list_assistant_utterances(said: Sequence[SaidPiece]) -> list[RoughUtterance]:
    """Makes an utterance of each run of pieces that arrived at most `PAUSE_S` apart; blank ones are left out."""
    runs: list[list[SaidPiece]] = []
    for piece in said:
        if runs and piece.time_s - runs[-1][-1].time_s <= PAUSE_S:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    joined = [("".join(piece.text for piece in run).strip(), run) for run in runs]
    return [RoughUtterance("A", text, run[0].time_s, run[-1].time_s + WORD_S) for text, run in joined if text]


def _split_stretches(utterances: Sequence[RoughUtterance], changes_s: Sequence[float]) -> list[list[RoughUtterance]]:
    """Groups utterances between which a session must not be cut.

    It may be cut before the caller speaks after a silence of `QUIET_S`, and where the mode changed in a pause.
    """
    stretches: list[list[RoughUtterance]] = []
    end_s = 0.0
    for each in utterances:
        is_changed = any(end_s <= change_s <= each.start_s for change_s in changes_s)
        if not stretches or is_changed or (each.speaker == "B" and each.start_s - end_s >= QUIET_S):
            stretches.append([])
        stretches[-1].append(each)
        end_s = max(end_s, each.end_s)
    return stretches


def _group_turns(utterances: Sequence[RoughUtterance]) -> tuple[tuple[RoughUtterance, ...], ...]:
    """Groups utterances into turns: successive ones of the same speaker."""
    return tuple(tuple(group) for _, group in groupby(utterances, key=lambda each: each.speaker))
