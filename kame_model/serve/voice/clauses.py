"""An inner monologue, frame by frame, parted into clauses that text-to-speech says in one go.

Front-ends of ours write words without marks, as the data has them; others write marks too. So a clause ends at a mark,
at a pause, or, where neither comes, before a word: as late as can be while something is still being said, for longer
pieces sound better, and soon where nothing is.
"""

from typing import Final

PAUSE_N_FRAMES: Final = 6
"""Frames without text after which a clause has ended, 0.48 s. In 33 dialogues of Piper 90 % of an answer's words begin
within 6.75 frames of the one before, and what takes longer is mostly "Okay", "Sure" or "one moment"."""

FEWEST_WORDS: Final = 3
"""A clause has so many words before it ends without mark or pause, when there is nothing left to be said: about a
second of speech, in which the next one is written and synthesised."""

MOST_WORDS: Final = 12
"""The longest clause, about 4 s of speech."""

_MARKS: Final = (".", "?", "!", ",", ";", ":", "…", "—")


class Clauses:
    """Takes the text of each frame, and gives back clauses as soon as they are whole."""

    def __init__(self) -> None:
        self._text = ""
        self._n_silent = PAUSE_N_FRAMES
        self._is_abandoned = False

    def feed(self, piece: str, is_dry: bool) -> str:
        """The next frame.

        Args:
            piece: its text, with the space before a word; mostly empty.
            is_dry: nothing of what was written before is left to be said.

        Returns:
            The clause that has ended before this frame; empty: none has.
        """
        self._n_silent = 0 if piece else self._n_silent + 1
        if self._is_abandoned:
            self._is_abandoned = self._n_silent < PAUSE_N_FRAMES
            return ""
        clause = ""
        if piece[:1] in ("", " ") and self._has_ended(is_dry):  # else the last word goes on
            clause, self._text = self._text.strip(), ""
        self._text += piece
        return clause if any(map(str.isalnum, clause)) else ""

    def abandon(self) -> None:
        """Forgets the clause under way, and what is written until the next pause, which goes on with it."""
        self._text = ""
        self._is_abandoned = self._n_silent < PAUSE_N_FRAMES

    def resume(self) -> None:
        """What is written from now on counts, whatever was abandoned."""
        self._is_abandoned = False

    def reset(self) -> None:
        """Forgets everything."""
        self._text, self._n_silent, self._is_abandoned = "", PAUSE_N_FRAMES, False

    def _has_ended(self, is_dry: bool) -> bool:
        """Whether the clause has, if this frame does not go on with its last word."""
        if self._text.endswith(_MARKS) or self._n_silent >= PAUSE_N_FRAMES:
            return True
        n_words = len(self._text.split())
        return self._n_silent == 0 and n_words >= (FEWEST_WORDS if is_dry else MOST_WORDS)
