"""Splits an inner monologue, frame by frame, into clauses for text-to-speech.

Our front-ends write words without punctuation, like their training data; others write punctuation, too. A clause
therefore ends at a mark, at a pause, or else before a word: as late as possible while something is still being said,
since longer pieces sound better, and soon if nothing is. It does not end behind a number, which may go on.
"""

from typing import Final

from spoken.number_words import count_number_words

PAUSE_N_FRAMES: Final = 6
"""Frames without text after which a clause has ended, 0.48 s. In 33 dialogues of Piper 90 % of an answer's words begin
within 6.75 frames of the previous one, and longer gaps mostly follow "Okay", "Sure" or "one moment".
"""

FEWEST_WORDS: Final = 3
"""Minimum words of a clause without mark or pause if nothing is left to say: about a second of speech, in which the
next one is written and synthesised.
"""

MOST_WORDS: Final = 12
"""The longest clause, about 4 s of speech. One that ends in a number may be twice as long."""

_MARKS: Final = (".", "?", "!", ",", ";", ":", "…", "—")


class ClauseSplitter:
    """Splits a text that arrives frame by frame into clauses, each as soon as it is complete."""

    def __init__(self) -> None:
        self._text = ""
        self._n_silent = PAUSE_N_FRAMES
        self._is_abandoned = False

    def feed(self, piece: str, is_dry: bool) -> str:
        """Adds the next frame.

        Args:
            piece: its text, with the space before a word; mostly empty.
            is_dry: whether nothing written before is left to be said.

        Returns:
            The clause that ended before this frame; empty if none did, or if it has neither letters nor digits.
        """
        self._n_silent = 0 if piece else self._n_silent + 1
        if self._is_abandoned:
            self._is_abandoned = self._n_silent < PAUSE_N_FRAMES
            return ""
        clause = ""
        if piece[:1] in ("", " ") and self._has_ended(is_dry):  # else the last word continues
            clause, self._text = self._text.strip(), ""
        self._text += piece
        return clause if any(map(str.isalnum, clause)) else ""

    def abandon(self) -> None:
        """Discards the current clause, and its continuation until the next pause."""
        self._text = ""
        self._is_abandoned = self._n_silent < PAUSE_N_FRAMES

    def resume(self) -> None:
        """Accepts text again after `abandon`."""
        self._is_abandoned = False

    def reset(self) -> None:
        """Clears the state."""
        self._text, self._n_silent, self._is_abandoned = "", PAUSE_N_FRAMES, False

    def _has_ended(self, is_dry: bool) -> bool:
        """Returns whether the clause so far has ended, given that this frame does not continue its last word."""
        if self._text.endswith(_MARKS) or self._n_silent >= PAUSE_N_FRAMES:
            return True
        words = self._text.split()
        is_within_number = bool(words) and (words[-1] in ("minus", "point") or count_number_words(words[-1:], 0) > 0)
        fewest = 2 * MOST_WORDS if is_within_number else FEWEST_WORDS if is_dry else MOST_WORDS
        return self._n_silent == 0 and len(words) >= fewest
