"""A chat model's answer as it is said, while it is being written.

How a text is said is the affair of a function of whole texts (the pipeline's normaliser: "$5" is "five dollars"), and
what comes later may change how a sign or a number is said: "$5" becomes "$5 million". So words leave at a boundary
between two *plain* words only, ones that the function leaves as they are wherever they stand; and after anything but
words and simple numbers, such as the signs of a formula, nothing leaves before the end. A run of plain words needs no
call of the function, which matters: one takes about 2 ms. Emoji and marks of emphasis are no words and no signs.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from data_schemas.errors import RequestError
from spoken.plain_text import plain_text
from spoken.whisper import UnfitAnswer

Speakable = Callable[[str], str]
"""A whole written text as it is said; may raise anything where it cannot be said."""

_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*[,.?!;:]?")
_SIMPLE = re.compile(
    r"[\"']?(?:[aAI]|[A-Za-z][A-Za-z'’-][A-Za-z.'’-]*|\$?\d+(?:,\d{3})*(?:\.\d+)?(?:%|st|nd|rd|th)?)[\"']?[,.?!;:]?[\"']?"
)
"""Words with their points and hyphens, and numbers that stand alone: no later sign changes how they are said."""

_AMONG = "of 7 * 2 + 1 = 15"
"""What a plain word must bear in its text: a formula, where names of functions and variables are read otherwise."""

_ENDS_SENTENCE = (".", "?", "!")
_LAST_WORD = re.compile(r"\S+$")
_LABEL = re.compile(r"^(?:Assistant|AI)(?: \(\w+\))?: *")
_OTHER_SPEAKER = re.compile(r"(?:^|\s)(?:User|Assistant)(?: \(\w+\))?:(?=\s|$)")


class SpokenStream:
    """One answer: its first line, up to where the model would speak for somebody else.

    What `feed` and `finish` give, joined, is what the function makes of the whole, less what is for the eye alone.

    Attributes:
        is_whole: its end has come, and what is fed from now on is not said.
    """

    def __init__(self, speakable: Speakable) -> None:
        self.is_whole = False
        self._speakable = speakable
        self._written = self._whole_words = ""
        self._tokens: list[str] = []
        self._said = ""
        self._n_said = 0

    def feed(self, delta: str) -> str:
        """Adds the next piece, of any length; returns the words that can now be said, with a space after each."""
        self._written += delta
        answer, self.is_whole = _answer(self._written)
        whole_words = answer if self.is_whole else _LAST_WORD.sub("", answer)
        if whole_words == self._whole_words:
            return ""
        self._whole_words = whole_words
        self._tokens = plain_text(whole_words).split()
        return self._released(self._as_far_as_sure())

    def finish(self) -> str:
        """The rest, at the end of the answer.

        Raises:
            UnfitAnswer: the answer cannot be said, or not as it was begun; what `feed` gave stands.
            RequestError: it is empty.
        """
        answer, _ = _answer(self._written)
        if not answer.strip():
            raise RequestError("The answer is empty.")
        try:
            said = self._speakable(plain_text(answer.strip()))
        except Exception as error:  # the function is another part's
            raise UnfitAnswer(f"The answer cannot be said ({error}).") from error
        if not said.startswith(self._said):
            raise UnfitAnswer("The answer is said otherwise than it was begun.")
        return self._released(said)

    def _as_far_as_sure(self) -> str:
        """The words before the last boundary between two plain ones."""
        if not all(map(_SIMPLE.fullmatch, self._tokens)):
            return self._said
        end = len(self._tokens) - 1
        while end > self._n_said and not (self._is_plain(end) and self._is_plain(end - 1)):
            end -= 1
        if end <= self._n_said:
            return self._said
        if all(map(self._is_plain, range(self._n_said, end))):
            said = " ".join([*filter(None, [self._said]), *self._tokens[self._n_said : end]])
        else:
            said = self._read(end)
        if said != self._said:
            self._n_said = end
        return said

    def _read(self, end: int) -> str:
        """What the function makes of the words before `end`; what was said so far where that is not sure."""
        next_word = self._tokens[end]
        try:
            said = self._speakable(" ".join(self._tokens[: end + 1]))
        except Exception:  # noqa: BLE001 - the whole may be said all the same, and `finish` tells
            return self._said
        last = " " + next_word.rstrip(",;:")
        is_sure = said.endswith(last) and said.startswith(self._said)
        return said.removesuffix(last) if is_sure else self._said

    def _is_plain(self, at: int) -> bool:
        return _is_plain(self._speakable, self._tokens[at])

    def _released(self, said: str) -> str:
        new = said[len(self._said) :].strip()
        self._said = said
        return f"{new} " if new else ""


def _answer(written: str) -> tuple[str, bool]:
    """The first line without its label, and whether more of it can come."""
    line, end, _ = written.lstrip().partition("\n")
    line = _LABEL.sub("", line)
    if other := _OTHER_SPEAKER.search(line):
        return line[: other.start()], True
    return line, bool(end)


@lru_cache(maxsize=50_000)
def _is_plain(speakable: Speakable, token: str) -> bool:
    """Whether a word with its mark is said as it is written, among others that are."""
    if _WORD.fullmatch(token) is None:
        return False
    after = "A total" if token.endswith(_ENDS_SENTENCE) else "a total"
    text = f"so it is {token} {after}"
    try:
        return speakable(f"{text} {_AMONG}").startswith(f"{text} of ")
    except Exception:  # noqa: BLE001 - then it is none
        return False
