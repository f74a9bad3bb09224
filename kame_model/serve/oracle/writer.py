"""From the pieces of a chat model's answer to tokens in a session's oracle queue."""

from kame_model.frames.oracle_stream import OracleQueue
from kame_model.serve.oracle.spoken_stream import Speakable, SpokenStream
from kame_model.text.tokenizer import Tokenizer
from spoken.whisper import Whispered


class OracleWriter:
    """Writes one oracle. Making it announces the oracle to the queue: of two, the one made later is the newer.

    The tokens are those of the answer as it is said, as far as it fits, as training has them.

    Args:
        queue: of the session.
        tokenizer: the front-end's.
        speakable: turns a whole written text into words as they are said.
        max_words: of which whole sentences are taken.
    """

    def __init__(self, queue: OracleQueue, tokenizer: Tokenizer, speakable: Speakable, max_words: int) -> None:
        self._queue = queue
        self._number = queue.start()
        self._spoken = SpokenStream(speakable)
        self._whispered = Whispered(max_words)
        self._tokens = tokenizer.stream()
        self._n_tokens = 0
        self._is_overtaken = False

    @property
    def number(self) -> int:
        """By it a session's oracles are told apart; rises."""
        return self._number

    @property
    def n_tokens(self) -> int:
        """Tokens put into the queue so far."""
        return self._n_tokens

    @property
    def is_whole(self) -> bool:
        """Whether its end has come, and what is written on is not said."""
        return self._spoken.is_whole or self._whispered.is_over

    def write(self, delta: str) -> str:
        """Adds a piece of the answer, of any length; returns the words that went into the queue.

        Raises:
            UnfitAnswer: it refuses to answer.
        """
        return self._queued(self._whispered.feed(self._spoken.feed(delta)), is_last=False)

    def finish(self, *, is_cut: bool = False) -> str:
        """Ends the answer; returns its last words.

        Args:
            is_cut: the chat model might write no more: half a sentence at the end is left out.

        Raises:
            UnfitAnswer: the answer cannot be said, or not as it was begun, or is unfit; what is in the queue stays.
            RequestError: it is empty.
        """
        words = "" if self._whispered.is_over else self._whispered.feed(self._spoken.finish())
        return self._queued(words + self._whispered.finish(is_cut=is_cut), is_last=True)

    def withdraw(self) -> None:
        """Takes out of the queue what still waits there of this oracle; it is over."""
        self._queue.withdraw(self._number)
        self._is_overtaken = True

    def _queued(self, words: str, *, is_last: bool) -> str:
        if self._is_overtaken or not (words or is_last):
            return ""
        tokens = self._tokens.feed(words) + (self._tokens.finish() if is_last else [])
        self._is_overtaken = not self._queue.extend(self._number, tokens)
        if self._is_overtaken:
            return ""
        self._n_tokens += len(tokens)
        return words.strip()
