"""Text normalisation for speech (written text to spoken text) by rules: `speak` and `read_aloud`.

Text without a certain reading is rejected. The lexicon is applied first. Rewritings then normalise the notation, and a
scanner passes over the text once; at each position the first matching rule reads the token. Signs and brackets are then
named according to their neighbours.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final

from spoken.formulas.brackets import read_brackets
from spoken.formulas.signs import read_letter_x, read_sign
from spoken.formulas.tokens import Token, TokenSequence
from spoken.lexicon import Lexicon, load_lexicon
from spoken.rules.rule import NestedFormula, Saying, record_fired_rule
from spoken.rules.table import RULES
from spoken.rules.words import PLAIN, is_plain
from spoken.spoken_text import REASONS, SPOKEN, SpokenText, Unspeakable
from spoken.written.normalise import REWRITINGS, normalise
from spoken.written.traced import Span, TracedText

__all__ = [
    "REASONS",
    "SPOKEN",
    "Reader",
    "SpokenText",
    "Unspeakable",
    "get_reader",
    "read_aloud",
    "speak",
    "use_reader",
]

MAX_CHARS: Final = 5000
"""Maximum length of a text: more than any row has, and half a second of work."""

_MAX_DEPTH = 6
_FORMULA_SIGNS = frozenset("\\^_{}|$°′'<>")
_MARK_STRENGTH = ",:;.!?"

Word = tuple[str, Span]
"""A spoken word with its punctuation, and the span of the text that it was read from."""


class Reader:
    """Reads text aloud with a lexicon.

    Args:
        lexicon: applied before all rules.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon

    def read(self, text: str) -> SpokenText:
        """Returns the spoken form of a written text, which fully matches `SPOKEN`, with the written span of each word.

        Acronyms remain in capitals ("DNA": the phonemiser spells them); initials with dots, and capitals that look like
        a word to phonemiser or aligner, become single letters ("U S").

        Raises:
            Unspeakable: there is no certain reading; its reason is one of `REASONS`.
        """
        if len(text) > MAX_CHARS:
            raise Unspeakable("too_long", f"{text[:80]} ... ({len(text)} characters)")
        held, entries = self.lexicon.replace_entries(TracedText.from_written(text))
        normal = normalise(held)
        words = _attach_marks(_read_words(normal.text, entries))
        if not words:
            raise Unspeakable("blank", text[:200])
        spoken = " ".join(word for word, _ in words)
        if SPOKEN.fullmatch(spoken) is None:
            raise Unspeakable("symbol", spoken[:200])
        return SpokenText(text, spoken, _find_spans(words, normal))


def _make_tokens(text: str, entries: Mapping[str, str], depth: int) -> list[Token]:
    """Splits a normalised text into tokens with their readings, without those that say nothing (quotation marks).

    Args:
        entries: the spoken forms of the lexicon's entries, by the characters that replace them in the text.
        depth: how many formulas the text is nested in.

    Raises:
        Unspeakable: see `_apply_first_rule`.
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        if (said := entries.get(text[at])) is not None:
            kind, end, words = "word", at + 1, said
            if text.startswith("'s", end) and not text[end + 2 : end + 3].isalpha():
                end, words = end + 2, said + "'s"
        else:
            kind, end, words = _apply_first_rule(text, at, entries, depth)
        if kind != "nothing":
            spaces = (at == 0 or text[at - 1] == " ", end == len(text) or text[end] == " ")
            tokens.append(Token(kind, words, text[at:end], at, end, *spaces))
        at = end
    return tokens


def _apply_first_rule(text: str, at: int, entries: Mapping[str, str], depth: int) -> tuple[str, int, str]:
    """Returns the kind, the end and the words of the token at `at`, by the first rule that matches there.

    A plain word is returned unchanged, without trying the rules.

    Raises:
        Unspeakable: no rule matches, or the one that does refuses.
    """
    if (at == 0 or text[at - 1] in ' "(') and (plain := PLAIN.match(text, at)) and is_plain(plain[0]):
        return "word", plain.end(), plain[0]
    for rule in RULES:
        if (match := rule.pattern.match(text, at)) and match.end() > at:
            record_fired_rule(rule.name)
            return rule.kind, match.end(), _resolve_saying(rule.reading(match), entries, depth)
    raise _make_unspeakable(text, at)


def _resolve_saying(saying: Saying, entries: Mapping[str, str], depth: int) -> str:
    """Returns the words of a reading, after reading its nested formulas.

    Raises:
        Unspeakable: a nested formula has no reading, or formulas are nested too deeply.
    """
    if isinstance(saying, str):
        return saying
    if depth >= _MAX_DEPTH:
        raise Unspeakable("formula", str(saying)[:80])
    pieces = []
    for part in saying:
        if isinstance(part, NestedFormula):
            pieces += [word for word, _ in _read_words(part.text, entries, depth + 1)]
        else:
            pieces.append(part)
    return " ".join(pieces)


def _make_unspeakable(text: str, at: int) -> Unspeakable:
    """Returns the error to raise for a character that no rule reads; its reason depends on the kind of character."""
    char, near = text[at], text[max(0, at - 15) : at + 15]
    if char in _FORMULA_SIGNS:
        return Unspeakable("formula", near)
    if char.isascii():
        return Unspeakable("number" if char.isdigit() else "code" if char.isalnum() else "symbol", near)
    return Unspeakable("non_latin" if char.isalpha() else "symbol", near)


def _read_words(text: str, entries: Mapping[str, str], depth: int = 0) -> list[Word]:
    """Returns the spoken words and punctuation marks of a normalised text, each with its span in the text.

    Args:
        entries: the spoken forms of the lexicon's entries, by the characters that replace them in the text.
        depth: number of formulas in which the text is nested; above 0, all of it is read as a formula.

    Raises:
        Unspeakable: a part of the text has no certain reading.
    """
    line = TokenSequence(_make_tokens(text, entries, depth), is_formula=depth > 0)
    brackets = read_brackets(line)
    words: list[Word] = []
    for at, token in enumerate(line.tokens):
        if token.kind == "operator":
            said = read_sign(line, at)
            record_fired_rule(f"{token.text} as {said!r}")
        elif token.kind in {"open", "close"}:
            said = brackets[at]
        else:
            said = read_letter_x(line, at) if token.written == "x" else token.text
        pieces = said.split()
        span = (token.start, token.end)
        words += [(pieces[0], span)] if pieces == [token.written] else [(piece, span) for piece in pieces]
    return words


def _attach_marks(words: list[Word]) -> list[Word]:
    """Returns the words with punctuation marks joined to the word before; of several in a row, the strongest is kept.

    Marks before the first word are dropped; after the last word only one that ends a sentence is kept.
    """
    kept: list[Word] = []
    for piece, span in words:
        if piece not in _MARK_STRENGTH:
            kept.append((piece, span))
        elif kept:
            last, place = kept[-1]
            if last[-1] not in _MARK_STRENGTH:
                kept[-1] = (last + piece, place)
            elif _MARK_STRENGTH.index(piece) > _MARK_STRENGTH.index(last[-1]):
                kept[-1] = (last[:-1] + piece, place)
    if kept:
        kept[-1] = (kept[-1][0].rstrip(",:;"), kept[-1][1])
    return kept


def _find_spans(words: list[Word], normal: TracedText) -> tuple[Span, ...]:
    """Returns the written span of each word."""
    places = {place: normal.find_span(*place) for place in {place for _, place in words}}
    return tuple(places[place] for _, place in words)


def list_rule_names() -> list[str]:
    """Returns the names of all rules as `record_fired_rules` records them; readings of signs are not included."""
    return [each.name for each in (*REWRITINGS, *RULES)]


@cache
def _make_default_reader() -> Reader:
    """Returns the reader with the default lexicon; the same one each time."""
    return Reader(load_lexicon(None))


_IN_USE: ContextVar[Reader | None] = ContextVar("reader in use", default=None)


@contextmanager
def use_reader(reader: Reader) -> Iterator[None]:
    """Makes `read_aloud` and `speak` use this reader, and so its lexicon, inside the `with` block."""
    token = _IN_USE.set(reader)
    try:
        yield
    finally:
        _IN_USE.reset(token)


def get_reader() -> Reader:
    """Returns the current reader: the one set by `use_reader`, or else the default with our own lexicon."""
    return _IN_USE.get() or _make_default_reader()


def read_aloud(text: str) -> SpokenText:
    """Returns the spoken form of a text with written spans, by the current reader (`get_reader`); see `Reader.read`.

    Raises:
        Unspeakable: see `Reader.read`.
    """
    return get_reader().read(text)


def speak(text: str) -> str:
    """Returns the spoken form of a text as a string, by the current reader (`get_reader`).

    Raises:
        Unspeakable: see `Reader.read`.
    """
    return read_aloud(text).text
