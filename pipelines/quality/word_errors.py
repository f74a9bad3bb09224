"""Compares a recogniser's transcript with the spoken text: counts word errors (WER), numbers and names.

This is the one implementation, for the quality gate and for `benchmarks/wer.py`. A different spelling of the same
sounds is not an error: capitals, punctuation and hyphens; digits (read out as the script stage does) and other readings
of one number; words written apart or together ("U S", "per cent"); words that eSpeak NG pronounces alike ("colour",
"color"; "four", "for"); the respelling by which a voice was given a name ("Gerta" for Goethe). Everything else counts,
so a word error rate (WER) contains the errors of both the voice and the recogniser.

In addition it finds what the gate needs: which words were heard, allowing for a recogniser's spelling of names and rare
words, and whether every negation was heard.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import jiwer

from data_schemas.records import Hearing
from pipelines.meaning import NEGATIONS, find_names
from pipelines.quality.respelt import find_respelt_words, normalise_word, restore_spelling
from pipelines.quality.sounds import find_phones, is_spelling_of, sounds_similar
from spoken.number_words import count_number_words, parse_number_words
from spoken.reader import Unspeakable, speak
from spoken.spoken_text import split_words

_LONG_FORMS: Final = {word: f"{word[:-2]} not" for word in NEGATIONS if word.endswith("nt")} | {
    "cant": "can not",
    "cannot": "can not",
    "wont": "will not",
    "its": "it is",
    "thats": "that is",
    "theres": "there is",
    "whats": "what is",
    "lets": "let us",
    "im": "i am",
    "ive": "i have",
    "id": "i would",
    "ill": "i will",
    "youre": "you are",
    "theyre": "they are",
    "were": "we are",
}
"""Expansions of short forms, without apostrophes, since recognisers write either form."""

_MOST_JOINED = 5
_SPELLINGS: Final = {"ok": "okay", "mr": "mister", "mrs": "missus", "dr": "doctor", "vs": "versus"}


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a whole number for comparison; `key` stands for its sound, `spelt` is its respelling for the voice."""

    text: str
    key: str
    is_number: bool = False
    is_name: bool = False
    n_words: int = 1
    spelt: str = ""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Adjacent tokens, from index `at` on, that were not heard as they are, and what was heard in their place."""

    at: int
    said: Sequence[_Token]
    heard: Sequence[_Token]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both texts as they were compared, the counts (as in `Hearing`), and what the quality gate needs.

    `is_heard` holds for each spoken word whether it was heard, in any spelling; `n_misheard` is the number of word
    errors without such spellings; `has_negations` says whether as many words of `NEGATIONS` were heard as were said,
    wherever the texts differ.
    """

    said: str
    heard: str
    n_words: int
    n_word_errors: int
    n_numbers: int
    n_numbers_heard: int
    n_names: int
    n_names_heard: int
    n_misheard: int
    is_heard: tuple[bool, ...]
    has_negations: bool


def make_hearing(found: Comparison, heard_text: str, n_takes: int) -> Hearing:
    """Returns what was heard of one utterance, as a row stores it; `heard_text` is as the recogniser wrote it."""
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


def compare_transcript(spoken_text: str, heard_text: str) -> Comparison:
    """Compares a recogniser's transcript with the text that was spoken, and returns the counts of errors.

    A number of several words counts as one word and is heard if its value is; a name (`find_names`) is heard if
    something that sounds similar is in its place. Both texts are read by the current reader (`get_reader`).
    """
    names = frozenset(map(normalise_word, find_names(spoken_text)))
    respelt = find_respelt_words(spoken_text)
    said = _make_tokens(normalise_words(spoken_text), names, respelt)
    heard = _make_tokens(restore_spelling(normalise_words(heard_text), respelt))
    said, heard = _join_tokens(said, heard), _join_tokens(heard, said)
    if [each.text for each in said] != [each.text for each in heard]:
        said, heard = _key_by_sound(said), _key_by_sound(heard)
    gaps = list(_find_gaps(said, heard))
    gap_of = {gap.at + at: gap for gap in gaps for at in range(len(gap.said))}
    spelt = {gap.at + at for gap in gaps for at in _find_respelt(gap)}
    numbers = [at for at, token in enumerate(said) if token.is_number]
    named = [at for at, token in enumerate(said) if token.is_name]
    return Comparison(
        said=" ".join(each.text for each in said),
        heard=" ".join(each.text for each in heard),
        n_words=len(said),
        n_word_errors=sum(max(len(gap.said), len(gap.heard)) for gap in gaps),
        n_numbers=len(numbers),
        n_numbers_heard=sum(at not in gap_of for at in numbers),
        n_names=len(named),
        n_names_heard=sum(at not in gap_of or _has_similar_sound(said[at], gap_of[at]) for at in named),
        n_misheard=sum(_count_misheard(gap) for gap in gaps),
        is_heard=tuple(at not in gap_of or at in spelt for at, token in enumerate(said) for _ in range(token.n_words)),
        has_negations=all(_count_negations(gap.said) == _count_negations(gap.heard) for gap in gaps),
    )


def normalise_words(text: str) -> list[str]:
    """Returns the words of a text as they are spoken, in lower case; digits and signs are read out.

    A token without an unambiguous reading is kept as it is, so that it counts as an error and not as silence. A capital
    within a word separates two words, as some recognisers join them ("MySequel").
    """
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    try:
        said = speak(text)
    except Unspeakable:
        said = " ".join(_normalise_token(each) for each in text.split())
    words = map(normalise_word, split_words(said.replace("-", " ")))
    return [_SPELLINGS.get(word, word) for word in words]


def _normalise_token(token: str) -> str:
    """Returns a token as it is spoken; its letters if it has no reading, and "unreadable" if it has no letters."""
    try:
        return speak(token)
    except Unspeakable:
        return re.sub(r"[^A-Za-z]", "", token) or "unreadable"


def _make_tokens(
    words: Sequence[str], names: Container[str] = (), spelt: Mapping[str, str] = MappingProxyType({})
) -> list[_Token]:
    """Makes a token of each word or whole number; `names` are marked, and `spelt` has the respellings by word."""
    tokens: list[_Token] = []
    at = 0
    while at < len(words):
        if n_words := count_number_words(words, at):
            value = parse_number_words(words[at : at + n_words])
            text = words[at] if n_words == 1 else value
            tokens.append(_Token(text, value, is_number=True, n_words=n_words))
            at += n_words
        else:
            word = words[at]
            tokens.append(_Token(word, word, is_name=word in names, spelt=spelt.get(word, "").replace(" ", "")))
            at += 1
    return tokens


def _join_tokens(tokens: Sequence[_Token], others: Sequence[_Token]) -> list[_Token]:
    """Returns the tokens, with adjacent ones joined that the other text has as one word ("per cent", "D N A")."""
    wanted = {other.text for other in others} - {token.text for token in tokens}
    met: list[_Token] = []
    at = 0
    while at < len(tokens):
        for n in range(min(_MOST_JOINED, len(tokens) - at), 0, -1):
            group = tokens[at : at + n]
            joined = "".join(each.text for each in group)
            if n == 1 or (joined in wanted and not any(each.is_number for each in group)):
                is_name = any(each.is_name for each in group)
                n_words = sum(each.n_words for each in group)
                met.append(group[0] if n == 1 else _Token(joined, joined, is_name=is_name, n_words=n_words))
                at += n
                break
    return met


def _key_by_sound(tokens: Sequence[_Token]) -> list[_Token]:
    """Returns the tokens with their phones as key.

    A number keeps its value, but a single-word number that sounds like another word has its phones ("four", "for").
    """
    return [
        replace(each, key=find_phones(each.text)) if each.text.isalpha() and not _is_ordinal(each) else each
        for each in tokens
    ]


def _is_ordinal(token: _Token) -> bool:
    """Returns whether a token is an ordinal number, such as "third"."""
    return token.is_number and token.key.endswith("#")


def _find_gaps(said: Sequence[_Token], heard: Sequence[_Token]) -> Iterator[_Gap]:
    """Yields the gaps between two texts, aligned with the fewest word errors; adjacent errors form one gap."""
    if not heard:
        if said:
            yield _Gap(0, said, ())
        return
    result = jiwer.process_words(" ".join(each.key for each in said), " ".join(each.key for each in heard))
    chunks = result.alignments[0]
    start = 0
    while start < len(chunks):
        end = start
        while end < len(chunks) and chunks[end].type != "equal":
            end += 1
        if end > start:
            first, last = chunks[start], chunks[end - 1]
            yield _Gap(
                first.ref_start_idx,
                said[first.ref_start_idx : last.ref_end_idx],
                heard[first.hyp_start_idx : last.hyp_end_idx],
            )
        start = end + 1


def _find_respelt(gap: _Gap) -> list[int]:
    """Returns the indices, within a gap, of the words that were heard but written differently.

    Numbers and negations never are, except as another form of the same words ("don't", "do not").
    """
    whole = "".join(each.text for each in gap.said)
    together = "".join(each.text for each in gap.heard)
    is_name = any(each.is_name for each in gap.said)
    if _expand_short_forms(gap.said) == _expand_short_forms(gap.heard):
        return list(range(len(gap.said)))
    if not any(each.is_number or each.text in NEGATIONS for each in (*gap.said, *gap.heard)) and is_spelling_of(
        whole, together, is_name
    ):
        return list(range(len(gap.said)))
    return [
        at
        for at, token in enumerate(gap.said)
        if not token.is_number
        and token.text not in NEGATIONS
        and any(is_spelling_of(form, text, token.is_name) for form in _list_forms(token) for text in _list_texts(gap))
    ]


def _expand_short_forms(tokens: Sequence[_Token]) -> str:
    """Returns the words of the tokens as one text, with short forms in full ("dont" is "do not")."""
    return " ".join(_LONG_FORMS.get(each.text, each.text) for each in tokens)


def _count_misheard(gap: _Gap) -> int:
    """Returns a gap's word errors without the words that were only spelt differently, perhaps in two pieces."""
    n_spelt = len(_find_respelt(gap))
    if n_spelt == len(gap.said):
        return max(0, len(gap.heard) - 2 * n_spelt)
    return max(len(gap.said), len(gap.heard)) - n_spelt


def _count_negations(tokens: Sequence[_Token]) -> int:
    """Returns how many tokens are words of `NEGATIONS`."""
    return sum(each.text in NEGATIONS for each in tokens)


def _has_similar_sound(name: _Token, gap: _Gap) -> bool:
    """Returns whether anything heard in a gap sounds similar to a name."""
    return any(sounds_similar(form, text) for form in _list_forms(name) for text in _list_texts(gap))


def _list_forms(token: _Token) -> list[str]:
    """Returns a word, and its respelling for the voice if it has one."""
    return [token.text, token.spelt] if token.spelt else [token.text]


def _list_texts(gap: _Gap) -> list[str]:
    """Returns what was heard in a gap: single words and pairs of adjacent words."""
    texts = [each.text for each in gap.heard]
    return [*texts, *(one + other for one, other in pairwise(texts))]
