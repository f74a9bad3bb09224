"""From the pieces of a chat model's answer to tokens in a session's oracle queue.

What comes later may change how a sign or a number is said: "$5" becomes "$5 million". So words of the first sentence
leave at a boundary between two *plain* words only, ones that are said as they are written wherever they stand; and
after anything but words and simple numbers, such as the signs of a formula, nothing leaves before the sentence's end. A
run of plain words needs no reading of the text, which matters: one takes about 2 ms. Emoji and marks of emphasis are no
words and no signs.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from data_schemas.errors import RequestError
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.text.tokenizer import Tokenizer
from spoken.chat_answers import speak_sentence
from spoken.first_paragraph import cut_own_words, may_announce, says_nothing, strip_paragraph
from spoken.oracle_text import ENDS_SENTENCE, OracleTextFilter, UnusableAnswer
from spoken.plain_text import strip_markdown
from spoken.reader import speak
from spoken.sentences import find_sentence_end
from spoken.spoken_text import Unspeakable

_WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*[,.?!;:]?")
_SIMPLE = re.compile(
    r"[\"']?(?:[aAI]|[A-Za-z][A-Za-z'’-][A-Za-z.'’-]*|\$?\d+(?:,\d{3})*(?:\.\d+)?(?:%|st|nd|rd|th)?)[\"']?[,.?!;:]?[\"']?"
)
"""Words with their points and hyphens, and numbers that stand alone: no later sign changes how they are said."""

_AMONG = "of 7 * 2 + 1 = 15"
"""What a plain word must bear in its text: a formula, where names of functions and variables are read otherwise."""

_LAST_WORD = re.compile(r"\S+$")


class OracleWriter:
    """Writes one oracle. Making it announces the oracle to the queue: of two, the one made later is the newer.

    The tokens are those of the answer as it is said, as far as it fits, as training has them.

    Args:
        queue: of the session.
        tokenizer: the front-end's.
        max_words: of which whole sentences are taken.
        is_held: whether nothing goes into the queue before `release`.

    Attributes:
        number: by it a session's oracles are told apart; rises.
        n_tokens: put into the queue so far.
        left_out: why sentences of it are left out; whoever tells it takes them away.
    """

    def __init__(self, queue: OracleQueue, tokenizer: Tokenizer, max_words: int, *, is_held: bool = False) -> None:
        self.number = queue.start()
        self.n_tokens = 0
        self.left_out: list[UnusableAnswer] = []
        self._queue = queue
        self._spoken = SpokenStream()
        self._whispered = OracleTextFilter(max_words)
        self._tokens = tokenizer.stream()
        self._is_overtaken = False
        self._is_held = is_held
        self._held_tokens: list[int] = []
        self._held_words = ""

    @property
    def is_whole(self) -> bool:
        """Whether its end has come, and what is written on is not said."""
        return self._spoken.is_whole or self._whispered.is_over

    def write(self, delta: str) -> str:
        """Adds a piece of the answer, of any length; returns the words that went into the queue.

        Raises:
            UnusableAnswer: it refuses to answer.
        """
        return self._queued(self._whisper(self._spoken.feed(delta)), is_last=False)

    def finish(self, *, is_cut: bool = False) -> str:
        """Ends the answer; returns its last words.

        Args:
            is_cut: the chat model might write no more: half a sentence at the end is left out.

        Raises:
            UnusableAnswer: no sentence of it can be said, or it is unfit; what is in the queue stays.
            RequestError: it is empty.
        """
        words = "" if self._whispered.is_over else self._whisper(self._spoken.finish())
        return self._queued(words + self._whispered.finish(is_cut=is_cut), is_last=True)

    def release(self) -> str:
        """Puts what was held into the queue, and from now on what is written; returns the words that went there."""
        self._is_held = False
        words, tokens = self._held_words, self._held_tokens
        self._held_words, self._held_tokens = "", []
        return self._put(words, tokens) if tokens else ""

    def withdraw(self) -> None:
        """Takes out of the queue what still waits there of this oracle; it is over."""
        self._queue.withdraw(self.number)
        self._is_overtaken = True

    def _whisper(self, pieces: Iterable[str | UnusableAnswer]) -> str:
        words = ""
        for piece in pieces:
            if isinstance(piece, str):
                words += self._whispered.add_words(piece)
            else:
                self._whispered.drop_open_sentence()
                self.left_out.append(piece)
        return words

    def _queued(self, words: str, *, is_last: bool) -> str:
        if self._is_overtaken or not (words or is_last):
            return ""
        tokens = self._tokens.feed(words) + (self._tokens.finish() if is_last else [])
        if self._is_held:
            self._held_words += words
            self._held_tokens += tokens
            return ""
        return self._put(words, tokens)

    def _put(self, words: str, tokens: list[int]) -> str:
        self._is_overtaken = not self._queue.extend(self.number, tokens)
        if self._is_overtaken:
            return ""
        self.n_tokens += len(tokens)
        return words.strip()


class SpokenStream:
    """One answer: its first paragraph that says something, up to where the model would speak for somebody else.

    The words that `feed` and `finish` give, joined, are what `speak_answer` makes of the whole, less what is for the
    eye alone. Of a sentence that cannot be said they give why instead; what was given of it before stands. A paragraph
    that announces the next one in words that nobody could foresee is said with it.

    Attributes:
        is_whole: its end has come, and what is fed from now on is not said.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._before = ""  # an announcement of which words have left
        self._line = self._whole_words = ""
        self._sentence = _Sentence()
        self._start = 0  # where it begins in the answer
        self._has_begun = self._has_sentence = False  # words have come, a whole sentence of them

    def feed(self, delta: str) -> list[str | UnusableAnswer]:
        """Adds the next piece, of any length; returns the words that can now be said, with a space after each."""
        if self.is_whole:
            return []
        self._line += delta
        while not self.is_whole and "\n" in self._line:
            line, _, rest = self._line.partition("\n")
            if says_nothing(strip_paragraph(line)):
                self._before += f"{line} " if self._has_begun else ""
                self._line = rest
            else:
                self._line, self.is_whole = line, True
        written = self._before + self._line
        whole_words = written if self.is_whole else _LAST_WORD.sub("", written)
        if whole_words == self._whole_words or not self._sentence.may_be_sure():
            return []
        self._whole_words = whole_words
        answer, is_ended = cut_own_words(strip_markdown(whole_words).lstrip().lstrip('"').lstrip())
        self.is_whole |= is_ended
        if not self.is_whole and not self._has_begun and may_announce(answer):
            return []
        pieces = [*self._whole_sentences(answer)]
        if not self._has_sentence and (early := self._sentence.grow(answer[self._start :])):
            self._has_begun = True
            pieces.append(early)
        return pieces

    def finish(self) -> list[str | UnusableAnswer]:
        """The rest, at the end of the answer.

        Raises:
            UnusableAnswer: no sentence of the answer can be said; what `feed` gave stands.
            RequestError: it is empty.
        """
        written = self._before + self._line
        if not written.strip():
            raise RequestError("The answer is empty.")
        answer, _ = cut_own_words(strip_paragraph(written))
        if not self._has_begun and answer.endswith(":"):
            raise UnusableAnswer("The answer only announces what it would say.")
        pieces = [*self._whole_sentences(answer)]
        if answer[self._start :].strip() or not (pieces or self._has_sentence):
            pieces.append(self._say(answer, len(answer)))
        if not self._has_sentence:
            raise next(piece for piece in pieces if isinstance(piece, UnusableAnswer))
        return pieces

    def _whole_sentences(self, answer: str) -> Iterator[str | UnusableAnswer]:
        while (end := find_sentence_end(answer, self._start)) is not None:
            yield self._say(answer, end)

    def _say(self, answer: str, end: int) -> str | UnusableAnswer:
        """The rest of the sentence that ends there, or why it is left out."""
        begun, start = self._sentence, self._start
        self._sentence, self._start = _Sentence(), end
        try:
            words = begun.end(answer[start:end].strip(), answer[:start])
        except Unspeakable as error:
            return UnusableAnswer(f"The answer cannot be said ({error}).")
        if words is None:
            return UnusableAnswer("The answer is said otherwise than it was begun.")
        self._has_begun = self._has_sentence = True
        return words


class _Sentence:
    """A sentence that is being written, of which words leave as soon as it is sure how they are said."""

    def __init__(self) -> None:
        self._tokens: list[str] = []
        self._n_simple = 0  # tokens, from the first on, that are known to be simple
        self._said = ""
        self._n_said = 0

    def may_be_sure(self) -> bool:
        """Whether more of it may be sure: what comes later changes the last word alone, and no sign before it."""
        settled = max(len(self._tokens) - 1, 0)
        if all(map(_SIMPLE.fullmatch, self._tokens[self._n_simple : settled])):
            self._n_simple = settled
            return True
        return False

    def grow(self, begun: str) -> str:
        """The words that can now be said, with a space after each; `begun`: all that is written of it."""
        self._tokens = begun.split()
        return self._released(self._as_far_as_sure())

    def end(self, written: str, before: str) -> str | None:
        """The rest of it, as it is written whole after `before`; None where that is not as it was begun.

        Raises:
            Unspeakable: it cannot be said.
        """
        said = speak_sentence(written, before)
        return self._released(said) if said.startswith(self._said) else None

    def _as_far_as_sure(self) -> str:
        """The words before the last boundary between two plain ones."""
        if not all(map(_SIMPLE.fullmatch, self._tokens[self._n_simple :])):
            return self._said
        end = len(self._tokens) - 1
        while end > self._n_said and not (_is_plain(self._tokens[end]) and _is_plain(self._tokens[end - 1])):
            end -= 1
        if end <= self._n_said:
            return self._said
        if all(map(_is_plain, self._tokens[self._n_said : end])):
            said = " ".join([*filter(None, [self._said]), *self._tokens[self._n_said : end]])
        else:
            said = self._read(end)
        if said != self._said:
            self._n_said = end
        return said

    def _read(self, end: int) -> str:
        """What `speak` makes of the words before `end`; what was said so far where that is not sure."""
        next_word = self._tokens[end]
        try:
            said = speak(" ".join(self._tokens[: end + 1]))
        except Unspeakable:  # the whole may be said all the same, and `end` tells
            return self._said
        last = " " + next_word.rstrip(",;:")
        is_sure = said.endswith(last) and said.startswith(self._said)
        return said.removesuffix(last) if is_sure else self._said

    def _released(self, said: str) -> str:
        new = said[len(self._said) :].strip()
        self._said = said
        return f"{new} " if new else ""


@lru_cache(maxsize=50_000)
def _is_plain(token: str) -> bool:
    """Whether a word with its mark is said as it is written, among others that are."""
    if _WORD.fullmatch(token) is None:
        return False
    after = "A total" if token.endswith(ENDS_SENTENCE) else "a total"
    text = f"so it is {token} {after}"
    try:
        return speak(f"{text} {_AMONG}").startswith(f"{text} of ")
    except Unspeakable:
        return False
