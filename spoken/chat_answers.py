"""Converts a chat model's answer to spoken words, sentence by sentence; unspeakable sentences are left out.

It is used for the oracles of training and of the live server, and for the cascade's voice. The topic of a sentence is
taken from the sentences before it, never from those after it, so the result is the same while the answer is still being
written.
"""

from typing import Final

from spoken.reader import speak
from spoken.rules.rule import use_topic
from spoken.sentences import split_sentences
from spoken.spoken_text import Unspeakable

MAX_CHARS: Final = 1000
"""Maximum characters of a sentence: more than a minute of speech, and 0.1 s of work, during which other callers
wait."""

_TOLD: Final = 500
"""Number of characters before a sentence from which its topic is taken."""


def speak_sentence(sentence: str, before: str = "") -> str:
    """Returns a written sentence in spoken form, with its final mark: "by 5 p.m." is "by five in the evening."

    Args:
        sentence: without Markdown and emoji (`spoken.plain_text`).
        before: the text before it; its last 500 characters help to decide what the sentence is about.

    Raises:
        Unspeakable: it cannot be read aloud correctly.
    """
    if len(sentence) > MAX_CHARS:
        raise Unspeakable("too_long", f"{sentence[:80]} ... ({len(sentence)} characters)")
    with use_topic(before[-_TOLD:]):
        said = speak(sentence)
    last = sentence.rstrip("\"'”’)] ")[-1:]
    return said + last if last in {".", "?", "!"} and said[-1].isalpha() else said


def speak_answer(answer: str) -> list[str | Unspeakable]:
    """Returns, for each sentence of an answer in order, its spoken form or the error why it has none.

    Args:
        answer: one paragraph, without Markdown and emoji (`spoken.first_paragraph.strip_paragraph`).
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
