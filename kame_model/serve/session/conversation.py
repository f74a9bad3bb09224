"""A session's conversation: its history of turns, in the form in which the training data presents it to a chat model.

Of the assistant's words only those count that were said, not those that were planned. What it says while the user still
speaks, after a pause of its own, begins the answer to that turn and enters the history when the turn has ended; before
a pause it still belongs to the previous answer.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kame_model.serve.oracle.prompts import Prompt
from spoken.conversation import ASSISTANT, USER, Message, format_history_line

PAUSE_S: Final = 1.0
"""A silence of the assistant after which its next words are another turn, seconds."""

MAX_TURN_CHARS: Final = 1_500
"""Only the end of a longer turn is used: about 300 words, two minutes of speech."""

MAX_HISTORY_CHARS: Final = 3_000
"""Limit of all turns before the user's: about 750 tokens, so that prompt and answer fit a context of 2,048."""

_ENDS: Final = (".", "?", "!")


@dataclass(slots=True)
class _Turn:
    """One turn of a speaker (`role`) in the pieces in which it was said."""

    role: str
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its words with single spaces; of a long turn only the end."""
        return _keep_end(" ".join("".join(self.pieces).split()))

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        if len(self.pieces) > MAX_TURN_CHARS:  # of an assistant that never stops
            self.pieces = ["".join(self.pieces)[-MAX_TURN_CHARS:]]


class Conversation:
    """The turns of one session, without those that are too old to be in a request.

    Args:
        max_turns: the number of turns before the user's last one that a request contains.
        clock_s: the session's clock, seconds (frames stepped * 0.08), which shows pauses of the assistant.
    """

    def __init__(self, max_turns: int, clock_s: Callable[[], float]) -> None:
        self._max_turns = max_turns
        self._clock_s = clock_s
        self.reset()

    def reset(self) -> None:
        """Clears the conversation."""
        self._before: deque[_Turn] = deque(maxlen=self._max_turns)
        self._user = ""
        self._earlier = ""
        self._is_speaking = False
        self._answer: _Turn | None = None
        self._said_at_s = float("-inf")

    @property
    def heard(self) -> str:
        """The words of the user's turn so far, or of the last one; of many only the end; empty before the first."""
        return _keep_end(f"{self._earlier} {self._user}".strip())

    @property
    def is_finished(self) -> bool:
        """Whether no turn of the user is in progress: the last one has ended, or there was none."""
        return not self._is_speaking

    @property
    def awaits_answer(self) -> bool:
        """Whether the user's last turn has ended and nothing has been said to it."""
        return self.is_finished and self._answer is None and bool(self.heard)

    def add_user_text(self, text: str, is_final: bool = False) -> None:
        """Replaces the text of the user's turn so far by the recogniser's newest one.

        A turn that follows another turn of the user, with nothing said between them, continues it. An empty text begins
        no turn.
        """
        text = " ".join(text.split())
        if not self._is_speaking:
            if not text:
                return  # noise
            self._begin_turn()
        self._user = text
        self._is_speaking = not is_final

    def add_assistant_text(self, piece: str) -> None:
        """Adds a piece of what the assistant says, with its spaces; a blank one begins no answer.

        Soon after the last piece, while the user speaks, it belongs to the turn that the user interrupts.
        """
        if not piece.strip() and self._answer is None:
            return
        now_s = self._clock_s()
        goes_on = now_s - self._said_at_s <= PAUSE_S
        if piece.strip():
            self._said_at_s = now_s
        if self._is_speaking and self._answer is None and goes_on and self._is_last(ASSISTANT):
            self._before[-1].add(piece)
            return
        if self._answer is None:
            self._answer = _Turn(ASSISTANT)
        self._answer.add(piece)

    def make_messages(self, prompt: Prompt, *, as_finished: bool = False) -> list[Message]:
        """Returns the messages that request an answer to the user's turn.

        Args:
            prompt: how they are written.
            as_finished: whether the turn is presented as finished, though the user may continue.
        """
        return prompt.make_messages(self._format_history(), self.heard, is_finished=self.is_finished or as_finished)

    def _begin_turn(self) -> None:
        """Begins a turn of the user: the last one and its answer become history; one without an answer is continued."""
        if self._answer is None:  # the user continues after a pause
            self._earlier = self.heard
            return
        if self.heard:
            self._before.append(_Turn(USER, [self.heard]))
        self._before.append(self._answer)
        self._answer, self._earlier, self._user = None, "", ""

    def _is_last(self, role: str) -> bool:
        """Returns whether the last turn of the history is of this role."""
        return bool(self._before) and self._before[-1].role == role

    def _format_history(self) -> list[str]:
        """Returns one line for each turn before the user's, oldest first, without those beyond `MAX_HISTORY_CHARS`."""
        lines: list[str] = []
        n_chars = 0
        for turn in reversed(self._before):
            is_whole = turn.role == USER or turn.text.endswith(_ENDS)
            n_chars += len(turn.text)
            if n_chars > MAX_HISTORY_CHARS:
                break
            lines.append(format_history_line(turn.role, turn.text, is_whole=is_whole))
        return lines[::-1]


def _keep_end(text: str) -> str:
    """Returns a text unchanged if it is short enough, otherwise the whole words in its last `MAX_TURN_CHARS`.

    If no word begins there, because the last one is longer, it returns all the characters.
    """
    if len(text) <= MAX_TURN_CHARS:
        return text
    end = text[-MAX_TURN_CHARS:]
    return end.partition(" ")[2] or end
