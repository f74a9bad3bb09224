"""What is said of a chat model's answer: sentence by sentence, so that what cannot be said costs its sentence alone.

Oracles of training, the live server's and the cascade's voice all ask here. A sentence is read with those before it as
what it is about, and with none after it: so it is the same while the answer is still being written.
"""

from typing import Final

from spoken.reader import speak
from spoken.rules.rule import use_topic
from spoken.sentences import split_sentences
from spoken.spoken_text import Unspeakable

MAX_CHARS: Final = 1000
"""Of a sentence: more than a minute of speech, and 0.1 s of work, for which the server's other callers wait."""

_TOLD: Final = 500
"""So many characters before a sentence tell what it is about."""


def speak_sentence(sentence: str, before: str = "") -> str:
    """A sentence as it is said, which ends where the written one does: "by 5 p.m." is "by five in the evening."

    Args:
        sentence: without what is for the eye alone (`spoken.plain_text`).
        before: what was written before it.

    Raises:
        Unspeakable: it cannot be said without garbling it.
    """
    if len(sentence) > MAX_CHARS:
        raise Unspeakable("too_long", f"{sentence[:80]} ... ({len(sentence)} characters)")
    with use_topic(before[-_TOLD:]):
        said = speak(sentence)
    last = sentence.rstrip("\"'”’)] ")[-1:]
    return said + last if last in {".", "?", "!"} and said[-1].isalpha() else said


def speak_answer(answer: str) -> list[str | Unspeakable]:
    """Each sentence of an answer as it is said, or why it is left out.

    Args:
        answer: one paragraph, without what is for the eye alone (`spoken.first_paragraph.strip_paragraph`).
    """
    said: list[str | Unspeakable] = []
    at = 0
    for sentence in split_sentences(answer):
        at = answer.index(sentence, at)
        try:
            said.append(speak_sentence(sentence, answer[max(0, at - _TOLD) : at]))
        except Unspeakable as refusal:
            said.append(refusal)
        at += len(sentence)
    return said
