"""Separates the thoughts of reasoning models (`<think>…</think>`) from their answers, whole or streamed."""

import re
from typing import Final

from data_schemas.errors import UnexpectedThought

SET_THINKS: Final = "If this happens often, set chat.thinks: then nothing is used before its thought has ended."
"""Remedy for a model that thinks although it is not configured to."""

_BEGIN: Final = "<think>"
_END: Final = "</think>"
_WHOLE_END: Final = re.compile(rf"{_END}\s*")


def split_thought(text: str) -> tuple[str, str]:
    """Splits an answer into the thought up to and including `</think>`, and the text after it.

    The opening mark may be in the model's template and not in its output. A thought without an end was cut off, and has
    no answer.
    """
    if (end := _WHOLE_END.search(text)) is not None:
        return text[: end.end()], text[end.end() :]
    return (text, "") if text.lstrip().startswith(_BEGIN) else ("", text)


class ThoughtStream:
    """Splits a streamed answer as `split_thought` does.

    Args:
        is_expected: the model is configured to think, so that nothing is returned before `</think>`. Otherwise
            everything that does not begin with `<think>` is returned at once.

    Attributes:
        has_thought: it contains a mark of thought.
    """

    def __init__(self, *, is_expected: bool) -> None:
        self.has_thought = False
        self._is_expected = is_expected
        self._has_ended = self._has_begun = False  # the thought; the answer
        self._held = ""

    @property
    def is_thinking(self) -> bool:
        """Whether the last piece is thought, as far as is known."""
        return not self._has_ended and (self._is_expected or self.has_thought)

    def feed(self, piece: str) -> str:
        """Adds the next piece, of any length, and returns the new text that is certain by now to be no thought.

        Raises:
            UnexpectedThought: text that was already returned was thought.
        """
        self._held += piece
        if not self._has_ended:
            self._look_for_marks()
        if not self._has_ended and (self.is_thinking or self._may_begin_thought()):
            return ""
        if self._has_ended and not self._has_begun:
            self._held = self._held.lstrip()
        n_sure = len(self._held) if self._has_ended else len(self._held) - _count_begun(self._held)
        said, self._held = self._held[:n_sure], self._held[n_sure:]
        self._has_begun = self._has_begun or bool(said)
        return said

    def finish(self, *, is_cut: bool) -> str:
        """Returns the text that was held back and is no thought, at the end of the answer.

        Args:
            is_cut: the answer reached its token limit, so that an expected thought may have no end.
        """
        is_thought = self.has_thought or (self._is_expected and is_cut)
        return self._held if self._has_ended or not is_thought else ""

    def _look_for_marks(self) -> None:
        """Looks for the marks of a thought in the held text, and removes a thought that has ended.

        Raises:
            UnexpectedThought: text that was already returned was thought.
        """
        before, end, after = self._held.partition(_END)
        if end:
            self.has_thought = self._has_ended = True
            self._held = after
            if self._has_begun:
                raise UnexpectedThought(
                    "The chat model writes its thoughts, and they were taken for its answer.", SET_THINKS
                )
        elif not self._has_begun:
            self.has_thought = before.lstrip().startswith(_BEGIN)

    def _may_begin_thought(self) -> bool:
        """Returns whether the held text may be the beginning of `<think>` before any text of the answer."""
        return not self._has_begun and _BEGIN.startswith(self._held.lstrip())


def _count_begun(text: str) -> int:
    """Returns how many characters at the end of a text may be the beginning of `</think>`."""
    return max(n for n in range(len(_END)) if text.endswith(_END[:n]))
