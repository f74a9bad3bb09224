"""What a model that thinks aloud writes before its answer: taken out of whole answers, and while they are written."""

import re
from typing import Final

from data_schemas.errors import UnexpectedThought

SET_THINKS: Final = "If it does so often, set chat.thinks: nothing is then told before its thought has ended."
"""What to do about a model that is not said to think, and has."""

_BEGIN: Final = "<think>"
_END: Final = "</think>"
_WHOLE_END: Final = re.compile(rf"{_END}\s*")


def without_thought(text: str) -> tuple[str, str]:
    """What a model that thinks wrote before its answer, up to `</think>`, and the answer.

    The mark at the beginning may stand in the model's template and not in what it writes. A thought without an end was
    cut off: there is no answer.
    """
    if (end := _WHOLE_END.search(text)) is not None:
        return text[: end.end()], text[end.end() :]
    return (text, "") if text.lstrip().startswith(_BEGIN) else ("", text)


class ThoughtStream:
    """One answer, as `without_thought` has it, while it is being written.

    Args:
        is_expected: the model is known to think, so that nothing of its answer leaves before `</think>`. Of others all
            leaves at once that does not begin with `<think>`.

    Attributes:
        has_thought: there is a mark of thought in it.
    """

    def __init__(self, *, is_expected: bool) -> None:
        self.has_thought = False
        self._is_expected = is_expected
        self._has_ended = self._has_begun = False  # the thought; the answer
        self._held = ""

    @property
    def is_thinking(self) -> bool:
        """Whether what came last is thought, as far as is known."""
        return not self._has_ended and (self._is_expected or self.has_thought)

    def feed(self, piece: str) -> str:
        """Adds the next piece, of any length; returns what of the answer can now be told.

        Raises:
            UnexpectedThought: what was told was thought.
        """
        self._held += piece
        if not self._has_ended:
            self._look_for_marks()
        if not self._has_ended and (self.is_thinking or self._may_begin_thought()):
            return ""
        if self._has_ended and not self._has_begun:
            self._held = self._held.lstrip()
        n_sure = len(self._held) if self._has_ended else len(self._held) - _n_begun(self._held)
        said, self._held = self._held[:n_sure], self._held[n_sure:]
        self._has_begun = self._has_begun or bool(said)
        return said

    def finish(self, *, is_cut: bool) -> str:
        """What was held back and is no thought, at the end of the answer.

        Args:
            is_cut: the model might write no more: a thought that is expected may have no end.
        """
        is_thought = self.has_thought or (self._is_expected and is_cut)
        return self._held if self._has_ended or not is_thought else ""

    def _look_for_marks(self) -> None:
        before, end, after = self._held.partition(_END)
        if end:
            self.has_thought = self._has_ended = True
            self._held = after
            if self._has_begun:
                raise UnexpectedThought(
                    "The chat model thinks aloud, and what it thought was taken for its answer.", SET_THINKS
                )
        elif not self._has_begun:
            self.has_thought = before.lstrip().startswith(_BEGIN)

    def _may_begin_thought(self) -> bool:
        return not self._has_begun and _BEGIN.startswith(self._held.lstrip())


def _n_begun(text: str) -> int:
    """Characters at the end of a text that may be the first ones of `</think>`."""
    return max(n for n in range(len(_END)) if text.endswith(_END[:n]))
