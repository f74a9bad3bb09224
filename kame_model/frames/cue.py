"""The cue: the first token of the oracle that a speaker has not said yet.

The longest prefix of the current oracle that occurs, in order, in what was said since it came counts as said; the token
after it is the cue. So errors are corrected: an omitted token remains the cue, and tokens that are repeated or not in
the oracle have no effect. If a new oracle comes while the previous one is being said, and has the same prefix, it
continues at the same place, because back-ends are called repeatedly and mostly give the same answer. Training and
serving process the same positions in the same order.
"""

from collections.abc import Iterable

from kame_model.frames.ids import PADDING_ID


class Cue:
    """Tracks one speaker's oracle and how much of it is said, position by position.

    Args:
        start_id: `text_card`.

    Attributes:
        oracle_tokens: the fed tokens of the current oracle; while a newer one repeats its prefix, those of both.
        n_said: number of these tokens that are said.
    """

    __slots__ = ("_n_fed", "_start_id", "n_said", "oracle_tokens")

    def __init__(self, start_id: int) -> None:
        self._start_id = start_id
        self._n_fed = 0
        self.oracle_tokens: list[int] = []
        self.n_said = 0

    @property
    def token(self) -> int:
        """The first token that is not said; padding if all tokens fed are said."""
        return self.oracle_tokens[self.n_said] if self.n_said < len(self.oracle_tokens) else PADDING_ID

    def feed(self, oracle: int) -> bool:
        """Processes the oracle id of a position; returns whether a new oracle is current, none of which is said.

        A new oracle replaces one that is completely said. Otherwise the old one stays current until a token of the new
        one differs; then the new one is current, from its first token if more than the common prefix was said. Padding
        has no effect.
        """
        if oracle == self._start_id:
            self._n_fed = 0
            if self.n_said < len(self.oracle_tokens):
                return False
            self.oracle_tokens, self.n_said = [], 0
            return True
        if oracle <= PADDING_ID:
            return False
        n_fed, self._n_fed = self._n_fed, self._n_fed + 1
        if n_fed == len(self.oracle_tokens):
            self.oracle_tokens.append(oracle)
        elif oracle != self.oracle_tokens[n_fed]:
            self.oracle_tokens = [*self.oracle_tokens[:n_fed], oracle]
            self.n_said = self.n_said if self.n_said <= n_fed else 0
            return self.n_said == 0
        return False

    def say(self, text: int) -> bool:
        """Processes the text said at a position, after `feed` for that position; returns whether it was the cue."""
        is_cue = text > PADDING_ID and text == self.token
        self.n_said += is_cue
        return is_cue


def compute_cues(text: Iterable[int], oracle: Iterable[int], start_id: int) -> list[int]:
    """Returns the cues of a sequence, one for each of S input positions.

    Args:
        text: [S] the text input of each position, which was said at the position before.
        oracle: [S] the oracle input of each position.
        start_id: `text_card`.
    """
    cue, tokens = Cue(start_id), list[int]()
    for said, fed in zip(text, oracle, strict=True):
        cue.say(said)
        cue.feed(fed)
        tokens.append(cue.token)
    return tokens
