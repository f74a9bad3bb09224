"""The building blocks of forms: spoken words with their spans, utterances with their placements, turns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from data_schemas.records import Placement, Speaker, Turn, Utterance, WrittenSpan
from spoken.spoken_text import SPOKEN, SpokenText, join_spoken, split_words

AFTER: Final = Placement(rule="after", seconds=None, turn_index=None, word_index=None)
"""After the previous speech; the pause is drawn when the dialogue is mixed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the assistant says in one turn; `answer_word_index` counts in the body (None: it contains no answer)."""

    lead: SpokenText | None
    body: SpokenText
    tail: SpokenText | None
    answer_word_index: int | None


def make_spoken(text: str) -> SpokenText:
    """Makes a spoken text of fixed words, whose written and spoken forms are the same.

    Raises:
        ValueError: it is not in spoken form.
    """
    if SPOKEN.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not in spoken form")
    spans, at = [], 0
    for word in split_words(text):
        start = text.index(word, at)
        at = start + len(word)
        spans.append((start, at))
    return SpokenText(text, text, tuple(spans))


def insert_words(said: SpokenText, word_index: int, text: str) -> SpokenText:
    """Returns the text with spoken words inserted before word `word_index`, without a written form."""
    words = said.text.split()
    return replace(
        said,
        text=" ".join([*words[:word_index], text, *words[word_index:]]),
        spans=(*said.spans[:word_index], *([None] * len(split_words(text))), *said.spans[word_index:]),
    )


def make_user_turn(
    turn_index: int, said: SpokenText, starts: Placement = AFTER, pauses: Mapping[int, float] | None = None
) -> Turn:
    """Makes a turn of the user; `pauses` maps the index of a word to the seconds of silence before it."""
    return _make_turn(turn_index, "B", Reply(None, said, None, None), starts, pauses or {})


def make_assistant_turn(turn_index: int, reply: Reply, starts: Placement = AFTER) -> Turn:
    """Makes a turn of the assistant, as one utterance."""
    return _make_turn(turn_index, "A", reply, starts, {})


def make_backchannel(text: str, over_turn: int, word_index: int, seconds: float) -> Utterance:
    """Makes a backchannel, spoken `seconds` after the end of a word of the other speaker's turn."""
    return _make_utterance(
        "backchannel",
        text,
        (None,) * len(split_words(text)),
        Placement(rule="over", seconds=seconds, turn_index=over_turn, word_index=word_index),
    )


def _split_breaths(said: SpokenText, starts: Placement, pauses: Mapping[int, float]) -> tuple[Utterance, ...]:
    """Splits a text into utterances at its pauses, which map the index of a word to the seconds of silence there."""
    words = said.text.split()
    placements = {0: starts} | {at: replace(AFTER, seconds=seconds) for at, seconds in pauses.items()}
    return tuple(
        _make_utterance("speech", " ".join(words[start:end]), said.spans[start:end], placements[start])
        for start, end in pairwise([*sorted(placements), len(words)])
    )


def _make_utterance(kind: str, text: str, spans: tuple[tuple[int, int] | None, ...], placement: Placement) -> Utterance:
    """Makes an utterance as the script has it: without voice, hearing and times."""
    return Utterance(
        kind=kind,
        spoken_text=text,
        written_spans=tuple(WrittenSpan(start_char=start, end_char=end) for start, end in map(_split_span, spans)),
        placement=placement,
        hearing=None,
        voice=None,
        speed=None,
        start_s=None,
        end_s=None,
        words=(),
    )


def _split_span(span: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Returns start and end of a span; twice None if there is none."""
    return (None, None) if span is None else span


def _make_turn(turn_index: int, speaker: Speaker, reply: Reply, starts: Placement, pauses: Mapping[int, float]) -> Turn:
    """Makes a turn of a reply's lead, body and tail as the script has it: without times.

    Args:
        starts: placement of its first utterance.
        pauses: seconds of silence before a word, by the word's index in the turn.
    """
    whole = join_spoken([part for part in (reply.lead, reply.body, reply.tail) if part is not None])
    at = reply.answer_word_index
    return Turn(
        turn_index=turn_index,
        speaker=speaker,
        written_text=whole.written,
        spoken_text=whole.text,
        lead=reply.lead.text if reply.lead else None,
        body=reply.body.text,
        tail=reply.tail.text if reply.tail else None,
        answer_word_index=None if at is None else at + (reply.lead.n_words if reply.lead else 0),
        keyword_delay_s=None,
        cut_s=None,
        start_s=None,
        end_s=None,
        utterances=_split_breaths(whole, starts, pauses),
    )
