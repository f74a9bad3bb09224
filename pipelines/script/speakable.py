"""Written text to spoken text: `speak`, by rules alone. What has no sure reading is refused, never guessed.

A scanner goes over the text once; at each place the first rule that fits reads what stands there, so no reading is
ever read again by another rule. Signs are then called by their name from their neighbours.
"""

from pipelines.script.formulas import Token, check_brackets, say_operator, say_times
from pipelines.script.readings import RULES
from pipelines.script.spoken import REASONS, SPOKEN, Spoken, Unspeakable, spoken_words
from pipelines.script.writing import normalise

__all__ = ["REASONS", "SPOKEN", "Spoken", "Unspeakable", "read_aloud", "speak", "spoken_words"]

_MAX_PASSES = 4
_FORMULA_SIGNS = frozenset("\\^_{}∀∃⊃≡∨∧¬∩∪⊂⊆∈→←↔⇒∥∠√∑∫∂∇△⊕⊥|$°′")
_MARK_STRENGTH = ",:;.!?"


def _scan(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        end = at
        for kind, pattern, say in RULES:
            if (match := pattern.match(text, at)) and match.end() > at:
                end = match.end()
                if kind != "nothing":
                    spaces = (at == 0 or text[at - 1] == " ", end == len(text) or text[end] == " ")
                    tokens.append(Token(kind, say(match), match[0], *spaces))
                break
        if end == at:
            raise _no_rule(text, at)
        at = end
    return tokens


def _no_rule(text: str, at: int) -> Unspeakable:
    char, near = text[at], text[max(0, at - 15) : at + 15]
    if char in _FORMULA_SIGNS:
        return Unspeakable("formula", near)
    if char.isascii():
        return Unspeakable("number" if char.isdigit() else "code" if char.isalnum() else "symbol", near)
    return Unspeakable("non_latin" if char.isalpha() else "symbol", near)


def _read(tokens: list[Token], at: int) -> str:
    token = tokens[at]
    if token.kind == "operator":
        return say_operator(tokens, at)
    if token.kind in {"open", "close"}:
        return ","
    return say_times(tokens, at) if token.written == "x" else token.text


def _join(pieces: list[str]) -> str:
    """Words by single spaces; of several marks in a row the strongest, on the word before.

    No mark stands in front of the first word, and only one that ends a sentence after the last.
    """
    words: list[str] = []
    for piece in " ".join(pieces).split():
        if piece not in _MARK_STRENGTH:
            words.append(piece)
        elif words and words[-1][-1] not in _MARK_STRENGTH:
            words[-1] += piece
        elif words and _MARK_STRENGTH.index(piece) > _MARK_STRENGTH.index(words[-1][-1]):
            words[-1] = words[-1][:-1] + piece
    return " ".join(words).rstrip(",:;")


def _pass(text: str) -> str:
    tokens = _scan(normalise(text))
    check_brackets(tokens)
    spoken = _join([_read(tokens, at) for at in range(len(tokens))])
    if not spoken:
        raise Unspeakable("blank", text)
    if SPOKEN.fullmatch(spoken) is None:
        raise Unspeakable("symbol", spoken)
    return spoken


def speak(text: str) -> str:
    """A text as it is said: words and the marks `, . ? ! ; :`, a full match of `SPOKEN`.

    Speaking it again changes nothing. Acronyms stay in capitals ("DNA": the phonemiser spells them); initials with
    dots, and capitals that look like a word to phonemiser or aligner, become single letters ("U S").

    Raises:
        Unspeakable: no sure reading; its reason is one of `REASONS`.
    """
    spoken = _pass(text)
    for _ in range(_MAX_PASSES):
        again = _pass(spoken)
        if again == spoken:
            return spoken
        spoken = again
    raise Unspeakable("code", text)


def read_aloud(text: str) -> Spoken:
    """`speak`, with the written span of each word.

    Raises:
        Unspeakable: as `speak`.
    """
    spoken = speak(text)
    return Spoken(text, spoken, (None,) * len(spoken_words(spoken)))
