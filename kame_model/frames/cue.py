"""Which token of its oracle a speaker has not said yet.

Of the oracle that counts, the longest beginning that stands in order in what was said since it came is said; the token
after it is the cue. So slips heal: what was left out is still to be said, and what is said again, or is not the
oracle's, changes nothing. An oracle that comes while the one before is being said, and begins like it, goes on where
that one was: back-ends are asked again and again, and mostly answer the same. Training and serving go through the same
positions in the same order.
"""

from collections.abc import Iterable

from kame_model.frames.ids import PADDING_ID


class Cue:
    """One speaker's oracle and how far it is said, position by position.

    Args:
        start_id: `text_card`.

    Attributes:
        told: the tokens of the oracle that counts, as far as they were fed; while a newer one repeats its beginning,
            those of both.
        n_said: how many of them are said.
    """

    __slots__ = ("_n_fed", "_start_id", "n_said", "told")

    def __init__(self, start_id: int) -> None:
        self._start_id = start_id
        self._n_fed = 0
        self.told: list[int] = []
        self.n_said = 0

    @property
    def token(self) -> int:
        """The first token that is not said; padding where all that was fed is said."""
        return self.told[self.n_said] if self.n_said < len(self.told) else PADDING_ID

    def feed(self, oracle: int) -> bool:
        """Takes what is fed at a position; whether another oracle counts from here, none of which is said.

        The start of one takes the place of one that is wholly said. Otherwise that goes on until a token of the newer
        one differs, and from there the newer one counts: from its first token, where more than what both begin with
        was said.
        """
        if oracle == self._start_id:
            self._n_fed = 0
            if self.n_said < len(self.told):
                return False
            self.told, self.n_said = [], 0
            return True
        if oracle <= PADDING_ID:
            return False
        n_fed, self._n_fed = self._n_fed, self._n_fed + 1
        if n_fed == len(self.told):
            self.told.append(oracle)
        elif oracle != self.told[n_fed]:
            self.told = [*self.told[:n_fed], oracle]
            self.n_said = self.n_said if self.n_said <= n_fed else 0
            return self.n_said == 0
        return False

    def say(self, text: int) -> bool:
        """Takes what is said at a position, after what was fed there; whether it was the cue."""
        is_cue = text > PADDING_ID and text == self.token
        self.n_said += is_cue
        return is_cue


def lay_cues(text: Iterable[int], oracle: Iterable[int], start_id: int) -> list[int]:
    """The cues of a sequence, one at each of S input positions.

    Args:
        text: [S] the text that each position reads: what was said at the position before.
        oracle: [S] what is fed there.
        start_id: `text_card`.
    """
    cue, tokens = Cue(start_id), list[int]()
    for said, fed in zip(text, oracle, strict=True):
        cue.say(said)
        cue.feed(fed)
        tokens.append(cue.token)
    return tokens
