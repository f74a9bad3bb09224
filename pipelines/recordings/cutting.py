"""A session's transcript to turns, and a long session to dialogues of a length that can be trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from data_schemas.records import HeardTurn, SaidPiece

PAUSE_S: Final = 1.0
"""A gap between two pieces of the assistant's text after which another utterance begins, seconds."""

WORD_S: Final = 1.0
"""How long the sound of the assistant's last piece may go on after the frame in which its text came, seconds."""

BEFORE_S: Final = {"A": 0.1, "B": 0.4}
"""How much sound before an utterance's time may belong to it, by speaker: the assistant's text comes with its sound,
but who tells that the caller speaks knows a little late."""

QUIET_S: Final = 1.0
"""Nobody speaks for so long where a session is cut."""

AFTER_S: Final = 0.5
"""Sound kept after a dialogue's last utterance, as far as there is some before the next one."""

MOST_S: Final = 120.0
"""Longest dialogue; a session is cut into as few as may be."""


@dataclass(frozen=True, slots=True)
class RoughUtterance:
    """What somebody said in one go; its sound lies within [start_s - BEFORE_S of the speaker, end_s]."""

    speaker: str
    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A dialogue cut out of a session: its sound [start_s, end_s) and its turns, each of one speaker's utterances."""

    start_s: float
    end_s: float
    turns: tuple[tuple[RoughUtterance, ...], ...]

    @property
    def is_exchange(self) -> bool:
        """Whether the assistant speaks after the caller has."""
        speakers = [turn[0].speaker for turn in self.turns]
        return any(pair == ("B", "A") for pair in pairwise(speakers))


def cut(heard: Sequence[HeardTurn], said: Sequence[SaidPiece], duration_s: float) -> list[Piece]:
    """The dialogues of a session, in order; none where nobody spoke.

    Each begins with a turn of the caller (the first with whatever comes first), before which nobody speaks for
    `QUIET_S`; it is longer than `MOST_S` only where there is no such place in it.
    """
    utterances = sorted([*_of_caller(heard), *_of_assistant(said)], key=lambda each: (each.start_s, each.speaker))
    groups: list[list[RoughUtterance]] = []
    for stretch in _stretches(utterances):
        if groups and max(each.end_s for each in stretch) - groups[-1][0].start_s <= MOST_S:
            groups[-1] += stretch
        else:
            groups.append(list(stretch))
    starts_s = [max(0.0, group[0].start_s - BEFORE_S[group[0].speaker]) for group in groups]
    ends_s = [*starts_s, duration_s][1:]
    return [
        Piece(start_s, min(end_s, max(each.end_s for each in group) + AFTER_S), _turns(group))
        for group, start_s, end_s in zip(groups, starts_s, ends_s, strict=True)
    ]


def _of_caller(heard: Sequence[HeardTurn]) -> list[RoughUtterance]:
    return [RoughUtterance("B", turn.text, turn.start_s, turn.end_s) for turn in heard if turn.text.strip()]


def _of_assistant(said: Sequence[SaidPiece]) -> list[RoughUtterance]:
    """Pieces that come in one go, joined."""
    runs: list[list[SaidPiece]] = []
    for piece in said:
        if runs and piece.time_s - runs[-1][-1].time_s <= PAUSE_S:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    joined = [("".join(piece.text for piece in run).strip(), run) for run in runs]
    return [RoughUtterance("A", text, run[0].time_s, run[-1].time_s + WORD_S) for text, run in joined if text]


def _stretches(utterances: Sequence[RoughUtterance]) -> list[list[RoughUtterance]]:
    """Utterances parted wherever a session may be cut."""
    stretches: list[list[RoughUtterance]] = []
    end_s = 0.0
    for each in utterances:
        if not stretches or (each.speaker == "B" and each.start_s - end_s >= QUIET_S):
            stretches.append([])
        stretches[-1].append(each)
        end_s = max(end_s, each.end_s)
    return stretches


def _turns(utterances: Sequence[RoughUtterance]) -> tuple[tuple[RoughUtterance, ...], ...]:
    """One speaker's utterances in a row are a turn."""
    return tuple(tuple(group) for _, group in groupby(utterances, key=lambda each: each.speaker))
