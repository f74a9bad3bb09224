"""Oracle writer: turns the streamed answer of a chat model into tokens in a session's oracle queue.

Later text may change how a sign or a number is spoken: "$5" becomes "$5 million". Words of the first sentence are
therefore released only at a boundary between two *plain* words, which are spoken as they are written in any context.
After anything but words and simple numbers, such as the signs of a formula, nothing is released before the end of the
sentence. Plain words need no call of `speak`, which takes about 2 ms. Emoji and marks of emphasis count neither as
words nor as signs.
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
"""Words with punctuation and hyphens, and separate numbers: no later sign changes how they are spoken."""

_AMONG = "of 7 * 2 + 1 = 15"
"""A formula that may follow a plain word without a change to the word; names of functions and variables change."""

_LAST_WORD = re.compile(r"\S+$")


class OracleWriter:
    """Writes one oracle. Creating a writer starts its oracle in the queue; the one created later is the newer.

    The tokens are those of the spoken form of the answer, up to the limit of words, as in training.

    Args:
        queue: of the session.
        tokenizer: the front-end's.
        max_words: the limit, in whole sentences.
        is_held: whether nothing enters the queue before `release`.

    Attributes:
        number: identifies the oracle in its session; increasing.
        n_tokens: the number of tokens put into the queue so far.
        left_out: reasons of skipped sentences; the caller removes those that it has reported.
    """

    def __init__(self, queue: OracleQueue, tokenizer: Tokenizer, max_words: int, *, is_held: bool = False) -> None:
        self.number = queue.start()
        self.n_tokens = 0
        self.left_out: list[UnusableAnswer] = []
        self._queue = queue
        self._spoken = SpokenStream()
        self._filter = OracleTextFilter(max_words)
        self._tokens = tokenizer.stream()
        self._is_overtaken = False
        self._is_held = is_held
        self._held_tokens: list[int] = []
        self._held_words = ""

    @property
    def is_whole(self) -> bool:
        """Whether the oracle is complete, so that further text is ignored."""
        return self._spoken.is_whole or self._filter.is_over

    def write(self, delta: str) -> str:
        """Adds a piece of the answer, of any length; returns the words that entered the queue, none while it is held.

        Raises:
            UnusableAnswer: the answer is a refusal; what is in the queue stays.
        """
        return self._enqueue(self._filter_words(self._spoken.feed(delta)), is_last=False)

    def finish(self, *, is_cut: bool = False) -> str:
        """Ends the answer; returns its last words that entered the queue, none while it is held.

        Args:
            is_cut: the answer reached the token limit: an incomplete last sentence is skipped.

        Raises:
            UnusableAnswer: no sentence of it can be spoken, or it is unusable; what is in the queue stays.
            RequestError: it is empty.
        """
        words = "" if self._filter.is_over else self._filter_words(self._spoken.finish())
        return self._enqueue(words + self._filter.finish(is_cut=is_cut), is_last=True)

    def release(self) -> str:
        """Puts the held tokens into the queue, and later ones directly; returns the words that entered it."""
        self._is_held = False
        words, tokens = self._held_words, self._held_tokens
        self._held_words, self._held_tokens = "", []
        return self._put(words, tokens) if tokens else ""

    def withdraw(self) -> None:
        """Removes the waiting tokens of this oracle from the queue and ends it."""
        self._queue.withdraw(self.number)
        self._is_overtaken = True

    def _filter_words(self, pieces: Iterable[str | UnusableAnswer]) -> str:
        """Returns the words that belong in the oracle; a sentence that cannot be spoken is added to `left_out`."""
        words = ""
        for piece in pieces:
            if isinstance(piece, str):
                words += self._filter.add_words(piece)
            else:
                self._filter.drop_open_sentence()
                self.left_out.append(piece)
        return words

    def _enqueue(self, words: str, *, is_last: bool) -> str:
        """Puts words into the queue, or keeps them while it is held; returns those that entered the queue."""
        if self._is_overtaken or not (words or is_last):
            return ""
        tokens = self._tokens.feed(words) + (self._tokens.finish() if is_last else [])
        if self._is_held:
            self._held_words += words
            self._held_tokens += tokens
            return ""
        return self._put(words, tokens)

    def _put(self, words: str, tokens: list[int]) -> str:
        """Adds tokens to the oracle; returns their words, or nothing if a newer oracle has begun."""
        self._is_overtaken = not self._queue.extend(self.number, tokens)
        if self._is_overtaken:
            return ""
        self.n_tokens += len(tokens)
        return words.strip()


class SpokenStream:
    """The spoken form of one answer, as a stream: its first paragraph with content, up to words of another speaker.

    The joined results of `feed` and `finish` are what `speak_answer` returns for the whole, without what is only for
    the eye. A sentence that cannot be spoken is replaced by the reason; what was already released of it stays. A
    paragraph that announces the next one in unforeseen words is spoken together with it.

    Attributes:
        is_whole: whether the answer is complete, so that further text is ignored.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._before = ""  # an announcement whose words were released
        self._line = self._whole_words = ""
        self._sentence = _Sentence()
        self._start = 0  # its start in the answer
        self._has_begun = self._has_sentence = False  # words, or a whole sentence, were released

    def feed(self, delta: str) -> list[str | UnusableAnswer]:
        """Adds the next piece, of any length; returns the words that can now be spoken, with a space after each, and
        the reason for each sentence that is skipped.
        """
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
        pieces = [*self._finish_sentences(answer)]
        if not self._has_sentence and (early := self._sentence.grow(answer[self._start :])):
            self._has_begun = True
            pieces.append(early)
        return pieces

    def finish(self) -> list[str | UnusableAnswer]:
        """Returns the rest, in the form of `feed`, at the end of the answer.

        Raises:
            UnusableAnswer: no sentence of the answer can be spoken, or it only announces what it would say; what `feed`
                returned stands.
            RequestError: it is empty.
        """
        written = self._before + self._line
        if not written.strip():
            raise RequestError("The answer is empty.")
        answer, _ = cut_own_words(strip_paragraph(written))
        if not self._has_begun and answer.endswith(":"):
            raise UnusableAnswer("The answer only announces what it would say.")
        pieces = [*self._finish_sentences(answer)]
        if answer[self._start :].strip() or not (pieces or self._has_sentence):
            pieces.append(self._speak_rest(answer, len(answer)))
        if not self._has_sentence:
            raise next(piece for piece in pieces if isinstance(piece, UnusableAnswer))
        return pieces

    def _finish_sentences(self, answer: str) -> Iterator[str | UnusableAnswer]:
        """Yields the rest of each sentence that is complete in the answer so far, or the reason why it is skipped."""
        while (end := find_sentence_end(answer, self._start)) is not None:
            yield self._speak_rest(answer, end)

    def _speak_rest(self, answer: str, end: int) -> str | UnusableAnswer:
        """Ends the current sentence at index `end`; returns its rest, or the reason why it is skipped."""
        begun, start = self._sentence, self._start
        self._sentence, self._start = _Sentence(), end
        try:
            words = begun.end(answer[start:end].strip(), answer[:start])
        except Unspeakable as error:
            return UnusableAnswer(f"The answer cannot be said ({error}).")
        if words is None:
            return UnusableAnswer("The rest of the answer contradicts the words that were already spoken.")
        self._has_begun = self._has_sentence = True
        return words


class _Sentence:
    """A sentence that is being written; its words are released as soon as their spoken form is certain."""

    def __init__(self) -> None:
        self._tokens: list[str] = []
        self._n_simple = 0  # leading tokens that are known to be simple
        self._said = ""
        self._n_said = 0

    def may_be_sure(self) -> bool:
        """Returns whether more words may be certain: that is so while all words but the last are simple."""
        settled = max(len(self._tokens) - 1, 0)
        if all(map(_SIMPLE.fullmatch, self._tokens[self._n_simple : settled])):
            self._n_simple = settled
            return True
        return False

    def grow(self, begun: str) -> str:
        """Sets the sentence so far (`begun`); returns the new words that are certain, with a space after each."""
        self._tokens = begun.split()
        return self._take_new_words(self._find_certain_words())

    def end(self, written: str, before: str) -> str | None:
        """Returns the rest of the complete sentence, or None if it contradicts the released words.

        Raises:
            Unspeakable: it cannot be spoken.
        """
        said = speak_sentence(written, before)
        return self._take_new_words(said) if said.startswith(self._said) else None

    def _find_certain_words(self) -> str:
        """Returns the spoken form of the sentence's words before the last boundary between two plain ones."""
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
        """Returns the spoken form of the words before `end`, or of those released so far if that is not certain."""
        next_word = self._tokens[end]
        try:
            said = speak(" ".join(self._tokens[: end + 1]))
        except Unspeakable:  # the whole may still be speakable: `end` decides
            return self._said
        last = " " + next_word.rstrip(",;:")
        is_sure = said.endswith(last) and said.startswith(self._said)
        return said.removesuffix(last) if is_sure else self._said

    def _take_new_words(self, said: str) -> str:
        """Sets the words released so far; returns those that are new, with a space at the end."""
        new = said[len(self._said) :].strip()
        self._said = said
        return f"{new} " if new else ""


@lru_cache(maxsize=50_000)
def _is_plain(token: str) -> bool:
    """Returns whether a word with its punctuation is spoken as it is written, among other such words."""
    if _WORD.fullmatch(token) is None:
        return False
    after = "A total" if token.endswith(ENDS_SENTENCE) else "a total"
    text = f"so it is {token} {after}"
    try:
        return speak(f"{text} {_AMONG}").startswith(f"{text} of ")
    except Unspeakable:
        return False
