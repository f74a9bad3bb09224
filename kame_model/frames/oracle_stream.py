"""The oracle stream: a dialogue's oracle events as tokens, and their input positions.

An event at frame f puts the start id (`text_card`) at input position f + 1, where text token f is, and one token at
each position after it; position 0 is the initial column and has no oracle. The start of an event discards the rest of
the previous one. `make_oracle_stream` does this for a whole dialogue in training, `OracleQueue` position by position in
the server.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from data_schemas.guesses import TURN_END_SILENCE_S, Guesses
from data_schemas.units import FRAME_S
from kame_model.frames.ids import PADDING_ID

TURN_END_FRAMES: Final = round(TURN_END_SILENCE_S / FRAME_S)
"""Number of frames from the end of a question until a server knows that it has ended."""

TokenSequence = Sequence[int] | NDArray[np.int32]

OracleTokenEvent = tuple[int, TokenSequence]
"""The frame at which an oracle arrives, and its tokens without the start id."""


@dataclass(frozen=True, slots=True, eq=False)
class OracleTokens:
    """One speaker's oracle events as tokens, before augmentation; E events sorted by frame.

    The columns are those of kame_finetune's rows (`X_oracle_…`), with ragged ones as values and offsets for storage
    and memory mapping; `level` is an addition.

    Attributes:
        frame: int32[E], `units.find_event_frame` of the event's time.
        ratio: float32[E], share of the words of the user's turn that were heard, 0 to 1.
        level: int8[E], hint level 0 to 5.
        skip_forbid: bool[E], the last event of its run, which training never skips.
        pred_values: int32, tokens of the predictions, concatenated.
        pred_offsets: int32[E + 1], start of each event in `pred_values`; the last is the total number.
        hint_values: int32, tokens of the true answer, for events that had it as hint.
        hint_offsets: int32[E + 1].
    """

    frame: NDArray[np.int32]
    ratio: NDArray[np.float32]
    level: NDArray[np.int8]
    skip_forbid: NDArray[np.bool_]
    pred_values: NDArray[np.int32]
    pred_offsets: NDArray[np.int32]
    hint_values: NDArray[np.int32]
    hint_offsets: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def pack(
        cls,
        frame: Sequence[int],
        ratio: Sequence[float],
        level: Sequence[int],
        skip_forbid: Sequence[bool],
        preds: Sequence[Sequence[int]],
        hints: Sequence[Sequence[int]],
    ) -> Self:
        """Makes an `OracleTokens` from lists with one entry per event; an entry of `hints` is empty without a hint.

        Raises:
            ValueError: if the lists differ in length, or the frames are not sorted.
        """
        if len({len(each) for each in (frame, ratio, level, skip_forbid, preds, hints)}) != 1:
            raise ValueError("each event must have a frame, ratio, level, skip_forbid, prediction and hint")
        if any(later < earlier for earlier, later in pairwise(frame)):
            raise ValueError(f"events must be sorted by frame, not {list(frame)}")
        return cls(
            np.asarray(frame, np.int32),
            np.asarray(ratio, np.float32),
            np.asarray(level, np.int8),
            np.asarray(skip_forbid, np.bool_),
            *_pack(preds),
            *_pack(hints),
        )

    def get_pred(self, event: int) -> NDArray[np.int32]:
        """Returns the tokens of an event's prediction."""
        return self.pred_values[self.pred_offsets[event] : self.pred_offsets[event + 1]]

    def get_hint(self, event: int) -> NDArray[np.int32]:
        """Returns the tokens of an event's hint; empty if it had none."""
        return self.hint_values[self.hint_offsets[event] : self.hint_offsets[event + 1]]

    def get_fed(self, event: int) -> NDArray[np.int32]:
        """Returns the tokens to feed: the hint, if it exists and the whole question was heard, else the prediction."""
        hint = self.get_hint(event)
        return hint if self.ratio[event] >= 1 and len(hint) else self.get_pred(event)

    def list_events(
        self,
        delay_frames: int = 0,
        guesses: Guesses = "feed",
        turn_end_frames: int = TURN_END_FRAMES,
        n_events: int | None = None,
    ) -> list[OracleTokenEvent]:
        """Returns the events with the tokens to feed, without augmentation, as in validation and serving.

        Where guesses are held, two kinds of events are left out: guesses whose whole question is answered later, and
        answers to a whole question that would be fed after the frame of the next event, because the user has spoken
        again by then and the server has cancelled them.

        Args:
            delay_frames: delay of the back-end, equal for all events.
            guesses: how the server treats answers to the unfinished question.
            turn_end_frames: frames from the end of a question to the time when the server knows that it has ended.
            n_events: only so many events, from the first one on; None: all.
        """
        asked: list[int] = self.frame[:n_events].tolist()
        fed = ((event, frame + delay_frames, self.get_fed(event)) for event, frame in enumerate(asked))
        events = [self.apply_guesses(*each, guesses, turn_end_frames) for each in fed]
        is_cancelled = (self.ratio[: len(asked)] >= 1) & (guesses == "hold")
        until = np.where(is_cancelled, [*asked[1:], np.inf], np.inf)
        return [event for event, last in zip(events, until, strict=True) if event is not None and event[0] <= last]

    def apply_guesses(
        self,
        event: int,
        frame: int,
        tokens: TokenSequence,
        guesses: Guesses,
        turn_end_frames: int = TURN_END_FRAMES,
    ) -> OracleTokenEvent | None:
        """Returns an event as it is fed by a server that treats answers to an unfinished question by `guesses`.

        Args:
            event: its number.
            frame: frame at which its answer arrives.
            tokens: the tokens of the answer.
            guesses, turn_end_frames: as for `list_events`.

        Returns:
            The frame from which it is fed, and the tokens that are fed (none: it has no effect); None if it is held and
            the whole question is answered later.
        """
        question_end = self._find_question_end(event)
        if guesses == "feed" or question_end is None:
            return frame, tokens
        turn_end = question_end + turn_end_frames
        if self.ratio[event] >= 1:
            return (max(frame, turn_end) if guesses == "hold" else frame), tokens
        return None if guesses == "hold" else (frame, tokens[: max(0, turn_end - frame - 1)])

    def _find_question_end(self, event: int) -> int | None:
        """Returns the frame of the first event, from this one on, that has heard a whole question; None without one."""
        whole = np.flatnonzero(self.ratio[event:] >= 1)
        return int(self.frame[event + whole[0]]) if len(whole) else None


def _pack(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Concatenates lists; returns all values, and the offset of each list in them, with the total number last."""
    offsets = np.cumsum([0, *(len(each) for each in lists)], dtype=np.int32)
    values = np.fromiter((token for each in lists for token in each), np.int32, count=int(offsets[-1]))
    return values, offsets


def make_oracle_stream(events: Iterable[OracleTokenEvent], n_positions: int, start_id: int) -> NDArray[np.int32]:
    """Returns the oracle stream of a sequence.

    Args:
        events: in the order in which they come. An event without tokens has no effect. Of two events at one frame, the
            later one is used. An event that starts outside the positions (in another chunk) has no effect.
        n_positions: input positions S; T + 1 for a dialogue of T frames.
        start_id: `text_card`.

    Returns:
        int32[S], `PADDING_ID` where nothing is fed.
    """
    stream = np.full(n_positions, PADDING_ID, np.int32)
    for frame, tokens in sorted(events, key=lambda event: event[0]):
        position = frame + 1
        if len(tokens) == 0 or not 0 <= position < n_positions:
            continue
        stream[position] = start_id
        stream[position + 1 :] = PADDING_ID
        fed = stream[position + 1 : position + 1 + len(tokens)]
        fed[:] = tokens[: len(fed)]
    return stream


class OracleQueue:
    """Queue of oracle tokens of one session in a server: first in, first out, one id per input position.

    The original KAME server indexed tokens by elapsed frames and lost some whenever the LLM was slow. Here tokens wait
    in the queue, and only the start of a newer oracle discards them.

    For the same events at the same frames, the queue feeds what `make_oracle_stream` returns: `push` the oracle that
    arrived at frame f, then call `pop` for position f + 1. An oracle that is still being written is added by `start`
    and `extend`; it counts as an event of the frame of its first token. Until then the previous one continues, and if
    no token ever arrives it has no effect. If its tokens arrive more slowly than one a frame, the gaps are filled with
    padding (a back-end with less than 12.5 tokens a second, or one whose next sentence is incomplete); training uses
    this queue to make its gaps.

    Args:
        start_id: `text_card`.
    """

    def __init__(self, start_id: int) -> None:
        self._start_id = start_id
        self._waiting: deque[int] = deque()
        self._n_announced = 0
        self._fed = 0

    def start(self) -> int:
        """Announces an oracle that will be streamed; returns its number, which increases with each oracle."""
        self._n_announced += 1
        return self._n_announced

    def extend(self, oracle: int, tokens: Iterable[int]) -> bool:
        """Adds tokens to an oracle; its first tokens discard what waits of the previous one.

        Returns:
            False if a newer oracle has begun: then nothing is added. True otherwise.
        """
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
        """Discards the waiting tokens of an oracle, if it is the current one; tokens added to it later are fed."""
        if oracle == self._fed:
            self._waiting.clear()

    def push(self, tokens: Iterable[int]) -> None:
        """Adds a complete oracle, which replaces the previous one; an empty one has no effect."""
        self.extend(self.start(), tokens)

    def pop(self) -> int:
        """Removes and returns the id to feed at the next input position; padding if no token is waiting."""
        return self._waiting.popleft() if self._waiting else PADDING_ID

    def reset(self) -> None:
        """Discards everything, including oracles that are still streaming, before another session uses the queue."""
        self._waiting.clear()
        self._fed = self.start()
