"""What a recogniser heard against what was to be said: word errors, numbers and names, counted fairly.

The one implementation, for the gate that listens and for `benchmarks/wer.py`. What is only another way of writing the
same sounds is no error: capitals, marks and hyphens; digits (read out as the script stage does) and other readings of
one number; words written apart or together ("U S", "per cent"); words that eSpeak NG says alike ("colour", "color";
"four", "for"). Everything else counts, so a rate is the voice's errors and the recogniser's together.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

import jiwer
from rapidfuzz.distance import Levenshtein

from backends.aligner.arpabet import pronounce
from backends.protocols import AlignmentRefused
from data_schemas.records import Hearing
from pipelines.quality.number_words import number_at, value_of
from pipelines.script.speakable import Unspeakable, speak, spoken_words

NAME_SHARE: Final = 1 / 3
"""A name counts as heard where what stands in its place differs in at most this share of its phones, one at least:
recognisers spell names as they like, and nobody can hear a spelling."""

_MOST_JOINED = 5
_SPELLINGS: Final = {"ok": "okay", "mr": "mister", "mrs": "missus", "dr": "doctor", "vs": "versus"}
_SAID_ALIKE: Final = {"to": "two", "an": "a"}
"""Words that differ from another only by stress or for ease ("to" and "two" are one in fluent speech)."""

_MARKED_WORD: Final = re.compile(r"([A-Za-z]+(?:'[A-Za-z]+)*)([,.?!;:]?)")


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a whole number as it is compared; `key` stands for its sound."""

    text: str
    key: str
    is_number: bool = False
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both texts as they were compared, and the counts (those of `Hearing`)."""

    said: str
    heard: str
    n_words: int
    n_word_errors: int
    n_numbers: int
    n_numbers_heard: int
    n_names: int
    n_names_heard: int


def hearing_of(spoken_text: str, heard_text: str, n_takes: int) -> Hearing:
    """The counts of one utterance, as its row stores them; `heard_text` is kept as the recogniser wrote it."""
    found = compare(spoken_text, heard_text)
    return Hearing(
        text=heard_text,
        n_words=found.n_words,
        n_word_errors=found.n_word_errors,
        n_numbers=found.n_numbers,
        n_numbers_heard=found.n_numbers_heard,
        n_names=found.n_names,
        n_names_heard=found.n_names_heard,
        n_takes=n_takes,
    )


def compare(spoken_text: str, heard_text: str) -> Comparison:
    """Counts what was heard of a spoken text.

    A number of several words is one word and is heard where its value is; a name is a capitalised word inside a
    sentence (not one in capitals throughout) and is heard where something that sounds near it stands in its place.
    """
    names = _names(spoken_text)
    said = _tokens(same_writing(spoken_text), names)
    heard = _tokens(same_writing(heard_text), frozenset())
    said, heard = _met(said, heard), _met(heard, said)
    if [each.text for each in said] != [each.text for each in heard]:
        said, heard = _by_sound(said), _by_sound(heard)
    found, places = _aligned(said, heard)
    numbers = [at for at, token in enumerate(said) if token.is_number]
    named = [at for at, token in enumerate(said) if token.is_name]
    return Comparison(
        said=" ".join(each.text for each in said),
        heard=" ".join(each.text for each in heard),
        n_words=len(said),
        n_word_errors=found,
        n_numbers=len(numbers),
        n_numbers_heard=sum(places[at] is None for at in numbers),
        n_names=len(named),
        n_names_heard=sum(_name_heard(said[at], places[at], heard) for at in named),
    )


def same_writing(text: str) -> list[str]:
    """A text's words as they are said, in small letters; digits and signs are read out.

    A token that has no sure reading is kept by itself, so that it counts as an error and not as silence.
    """
    try:
        said = speak(text)
    except Unspeakable:
        said = " ".join(_token(each) for each in text.split())
    words = [word.lower().replace("'", "") for word in spoken_words(said.replace("-", " "))]
    return [_SPELLINGS.get(word, word) for word in words]


def _token(token: str) -> str:
    try:
        return speak(token)
    except Unspeakable:
        return re.sub(r"[^A-Za-z]", "", token) or "unreadable"


def _names(spoken_text: str) -> frozenset[str]:
    """The names among a spoken text's words, in small letters."""
    names = set()
    starts_sentence = True
    for word, mark in _MARKED_WORD.findall(spoken_text):
        plain = word.removesuffix("'s")
        if not starts_sentence and plain[0].isupper() and plain[1:].islower() and plain != "I":
            names.add(word.lower().replace("'", ""))
        starts_sentence = mark in {".", "?", "!"}
    return frozenset(names)


def _tokens(words: Sequence[str], names: frozenset[str]) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(words):
        if n_words := number_at(words, at):
            value = value_of(words[at : at + n_words])
            text = words[at] if n_words == 1 else value
            tokens.append(_Token(text, value, is_number=True))
            at += n_words
        else:
            tokens.append(_Token(words[at], words[at], is_name=words[at] in names))
            at += 1
    return tokens


def _met(tokens: Sequence[_Token], others: Sequence[_Token]) -> list[_Token]:
    """The tokens, with neighbours joined where the others have them as one word ("per cent", "D N A")."""
    wanted = {other.text for other in others} - {token.text for token in tokens}
    met: list[_Token] = []
    at = 0
    while at < len(tokens):
        for n in range(min(_MOST_JOINED, len(tokens) - at), 0, -1):
            group = tokens[at : at + n]
            joined = "".join(each.text for each in group)
            if n == 1 or (joined in wanted and not any(each.is_number for each in group)):
                is_name = any(each.is_name for each in group)
                met.append(group[0] if n == 1 else _Token(joined, joined, is_name=is_name))
                at += n
                break
    return met


def _by_sound(tokens: Sequence[_Token]) -> list[_Token]:
    """The tokens with their phones as key; a number keeps its value, but one of a single word that sounds like another
    word has that one's ("four", "for")."""
    return [
        replace(each, key=_sound(each.text)) if each.text.isalpha() and not _is_ordinal(each) else each
        for each in tokens
    ]


def _is_ordinal(token: _Token) -> bool:
    return token.is_number and token.key.endswith("#")


@lru_cache(maxsize=20_000)
def _sound(word: str) -> str:
    try:
        return pronounce(_SAID_ALIKE.get(word, word)).replace(" ", "_")
    except AlignmentRefused:
        return word


def _aligned(said: Sequence[_Token], heard: Sequence[_Token]) -> tuple[int, list[tuple[int, int] | None]]:
    """Word errors, and for each said token None where it was heard, else the span of heard tokens in its place."""
    if not heard:
        return len(said), [(0, 0)] * len(said)
    result = jiwer.process_words(" ".join(each.key for each in said), " ".join(each.key for each in heard))
    chunks = result.alignments[0]
    places: list[tuple[int, int] | None] = [None] * len(said)
    start = 0
    while start < len(chunks):
        end = start
        while end < len(chunks) and chunks[end].type != "equal":
            end += 1
        if end > start:  # substitutions, deletions and insertions side by side are one place
            span = (chunks[start].hyp_start_idx, chunks[end - 1].hyp_end_idx)
            for at in range(chunks[start].ref_start_idx, chunks[end - 1].ref_end_idx):
                places[at] = span
        start = end + 1
    return result.substitutions + result.deletions + result.insertions, places


def _name_heard(name: _Token, place: tuple[int, int] | None, heard: Sequence[_Token]) -> bool:
    if place is None:
        return True
    wanted = _sound(name.text).split("_")
    most = max(1, int(len(wanted) * NAME_SHARE))
    texts = [each.text for each in heard[slice(*place)]]
    near = [*texts, *(one + other for one, other in pairwise(texts))]
    return any(Levenshtein.distance(wanted, _sound(text).split("_"), score_cutoff=most) <= most for text in near)
