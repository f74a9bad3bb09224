"""The user's side of a realtime conversation: turns as the server detects speech, and what is heard in them."""

from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from kame_model.serve.web.realtime_events import Event, Items, event, new_id, user_item

_MAX_OPEN = 8
"""Turns whose words are still to come; the recogniser has lost older ones."""


@dataclass(slots=True)
class _Turn:
    """One turn of the user's: `told` is what has been told of its words, `before` the words as last heard."""

    item: Event
    start_s: float
    end_s: float | None = None
    told: str = ""
    before: str = ""

    @property
    def item_id(self) -> str:
        """The item's id."""
        return str(self.item["id"])


class UserTurns:
    """From what a session tells to the protocol's events.

    A recogniser changes its mind about the last words, and the protocol's deltas cannot be taken back: only words that
    two successive hearings agree on are told (local agreement), the rest with the final text.

    Args:
        items: the conversation.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._open: deque[_Turn] = deque()  # the oldest first: what is heard is of it until it is final
        self.wants_transcripts = True

    @property
    def is_speaking(self) -> bool:
        """Whether a turn goes on."""
        return bool(self._open) and self._open[-1].end_s is None

    def reset(self) -> None:
        """Forgets turns under way."""
        self._open.clear()

    def started(self, time_s: float) -> list[Event]:
        """The user begins to speak."""
        turn = self._open[-1] if self.is_speaking else self._begin(time_s)  # its words may have come first
        start_ms = round(time_s * 1000)
        return [event("input_audio_buffer.speech_started", audio_start_ms=start_ms, item_id=turn.item_id)]

    def stopped(self, time_s: float) -> list[Event]:
        """The user's turn has ended."""
        if not self.is_speaking:
            return []
        turn = self._open[-1]
        end_ms = round(time_s * 1000)
        told = [event("input_audio_buffer.speech_stopped", audio_end_ms=end_ms, item_id=turn.item_id)]
        return told + self._commit(turn, time_s)

    def heard(self, text: str, is_final: bool, time_s: float) -> list[Event]:
        """The words of the oldest turn whose words are not final."""
        if not self._open:
            if not text:
                return []
            self._begin(time_s)
        turn = self._open[0]
        told = self._words(turn, text, is_final)
        if is_final:
            if turn.end_s is None:
                told += self._commit(turn, time_s)
            told += self._final(turn, text)
            self._open.popleft()
        return told

    def _begin(self, time_s: float) -> _Turn:
        turn = _Turn(user_item(new_id("item")), time_s)
        self._open.append(turn)
        if len(self._open) > _MAX_OPEN:
            self._open.popleft()
        return turn

    def _commit(self, turn: _Turn, time_s: float) -> list[Event]:
        turn.end_s = time_s
        previous_id, added = self._items.add(turn.item)
        return [
            event("input_audio_buffer.committed", item_id=turn.item_id, previous_item_id=previous_id),
            *added,
            event("conversation.item.done", item=dict(turn.item), previous_item_id=previous_id),
        ]

    def _words(self, turn: _Turn, text: str, is_final: bool) -> list[Event]:
        sure = text if is_final else _agreed(turn.before, text)
        turn.before = text
        if len(sure) <= len(turn.told) or not sure.startswith(turn.told):
            return []
        delta, turn.told = sure[len(turn.told) :], sure
        kind = "conversation.item.input_audio_transcription.delta"
        return [event(kind, item_id=turn.item_id, content_index=0, delta=delta)] if self.wants_transcripts else []

    def _final(self, turn: _Turn, text: str) -> list[Event]:
        turn.item["content"][0]["transcript"] = text
        if not self.wants_transcripts:
            return []
        seconds = round(max(0.0, (turn.end_s or 0.0) - turn.start_s), 3)
        return [
            event(
                "conversation.item.input_audio_transcription.completed",
                item_id=turn.item_id,
                content_index=0,
                transcript=text,
                usage={"type": "duration", "seconds": seconds},
            )
        ]


def _agreed(before: str, now: str) -> str:
    """The words that two hearings begin with alike; the last one heard may still grow, and is not among them."""
    words = now.split(" ")
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before.split(" "), words[:-1], strict=False))
    return " ".join(word for word, _ in alike)
