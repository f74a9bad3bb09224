"""The server's side of the oracle stream: first in, first out, one id for each input position.

The ancestor indexed an oracle's tokens by the frames elapsed and lost some whenever the LLM was slow. Here a token
waits for its turn, and only the start of a newer oracle takes it away.
"""

from collections import deque
from collections.abc import Iterable

from kame_model.frames.ids import PADDING_ID


class OracleQueue:
    """What one session still has to feed.

    For the same events at the same frames it gives what `lay_oracle` lays out: push what came at frame f, then take
    `next()` for position f + 1. An oracle that is still being written comes by `start` and `extend`, and counts as an
    event of the frame in which its first token comes: until then the one before goes on, and if none ever comes nothing
    happened. While its tokens come slower than one a frame, padding fills the gap, which training never shows; that
    takes a back-end slower than 12.5 tokens a second.

    Args:
        start_id: `text_card`.
    """

    def __init__(self, start_id: int) -> None:
        self._start_id = start_id
        self._waiting: deque[int] = deque()
        self._n_announced = 0
        self._fed = 0

    def start(self) -> int:
        """Announces an oracle that will come in pieces; returns its number, by which newer is told from older."""
        self._n_announced += 1
        return self._n_announced

    def extend(self, oracle: int, tokens: Iterable[int]) -> bool:
        """Adds tokens to an oracle; False, and nothing is added, when a newer one has begun: its writing may stop."""
        new = list(tokens)
        if oracle < self._fed:
            return False
        if new and oracle > self._fed:
            self._fed = oracle
            self._waiting.clear()
            self._waiting.append(self._start_id)
        self._waiting.extend(new)
        return True

    def withdraw(self, oracle: int) -> None:
        """Forgets what waits of an oracle, as if it had ended with what was fed; of another one nothing changes."""
        if oracle == self._fed:
            self._waiting.clear()

    def push(self, tokens: Iterable[int]) -> None:
        """A whole oracle, which takes the place of the one before; one without tokens changes nothing."""
        self.extend(self.start(), tokens)

    def next(self) -> int:
        """The id to feed at this input position."""
        return self._waiting.popleft() if self._waiting else PADDING_ID

    def reset(self) -> None:
        """Forgets everything, oracles on their way too, so that the next caller hears nothing of this one's."""
        self._waiting.clear()
        self._fed = self.start()
