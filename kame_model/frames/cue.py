"""Which token of its oracle a speaker has not said yet.

Of the oracle that counts, the longest beginning that stands in order in what was said since it came is said; the token
after it is the cue. So slips heal: what was left out is still to be said, and what is said again, or is not the
oracle's, changes nothing. Training and serving go through the same positions in the same order.
"""

from collections.abc import Iterable

from kame_model.frames.ids import PADDING_ID


class Cue:
    """One speaker's oracle and how far it is said, position by position.

    Args:
        start_id: `text_card`.

    Attributes:
        told: the tokens of the oracle that counts, as far as they were fed.
        n_said: how many of them are said.
    """

    __slots__ = ("_start_id", "n_said", "told")

    def __init__(self, start_id: int) -> None:
        self._start_id = start_id
        self.told: list[int] = []
        self.n_said = 0

    @property
    def token(self) -> int:
        """The first token that is not said; padding where all that was fed is said."""
        return self.told[self.n_said] if self.n_said < len(self.told) else PADDING_ID

    def feed(self, oracle: int) -> None:
        """Takes what is fed at a position; the start of an oracle takes the place of the one before."""
        if oracle == self._start_id:
            self.told, self.n_said = [], 0
        elif oracle > PADDING_ID:
            self.told.append(oracle)

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
