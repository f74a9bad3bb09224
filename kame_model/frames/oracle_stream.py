"""The oracle stream: a dialogue's oracle events as tokens, and their input positions.

An event at frame f puts the start id (`text_card`) at input position f + 1, where text token f is, and one token at
each position after it; position 0 is the initial column and has no oracle. The start of an event discards the rest of
the previous one. `lay_oracle` does this for a whole dialogue in training, `OracleQueue` position by position in the
server.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kame_model.frames.ids import PADDING_ID

OracleTokenEvent = tuple[int, Sequence[int] | NDArray[np.int32]]
"""The frame at which an oracle comes, and its tokens without the start id."""


@dataclass(frozen=True, slots=True, eq=False)
class OracleTokens:
    """One speaker's oracle events as tokens, before augmentation; E events sorted by frame.

    The columns are those of kame_finetune's rows (`X_oracle_…`), with ragged ones as values and offsets for storage
    and memory mapping; `level` is an addition.

    Attributes:
        frame: int32[E], `units.event_frame` of the event's time.
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
        """Packs lists with one entry per event; an entry of `hints` is empty if the event had no hint.

        Raises:
            ValueError: if the lists differ in length, or the frames are not sorted.
        """
        if len({len(each) for each in (frame, ratio, level, skip_forbid, preds, hints)}) != 1:
            raise ValueError("events need a frame, ratio, level, skip_forbid, prediction and hint each")
        if any(later < earlier for earlier, later in pairwise(frame)):
            raise ValueError(f"events are to come in the order of their frames, not {list(frame)}")
        return cls(
            np.asarray(frame, np.int32),
            np.asarray(ratio, np.float32),
            np.asarray(level, np.int8),
            np.asarray(skip_forbid, np.bool_),
            *_pack(preds),
            *_pack(hints),
        )

    def pred(self, event: int) -> NDArray[np.int32]:
        """Returns the tokens of an event's prediction."""
        return self.pred_values[self.pred_offsets[event] : self.pred_offsets[event + 1]]

    def hint(self, event: int) -> NDArray[np.int32]:
        """Returns the tokens of an event's hint; empty if it had none."""
        return self.hint_values[self.hint_offsets[event] : self.hint_offsets[event + 1]]

    def said(self, event: int) -> NDArray[np.int32]:
        """Returns the tokens to feed: the hint, if it exists and the whole question was heard, else the prediction."""
        hint = self.hint(event)
        return hint if self.ratio[event] >= 1 and len(hint) else self.pred(event)

    def events(self, delay_frames: int = 0, withhold_after_frames: int | None = None) -> list[OracleTokenEvent]:
        """Returns all events with the tokens to feed, without augmentation, as in validation and serving.

        Args:
            delay_frames: delay of the back-end, equal for all events.
            withhold_after_frames: frames from the end of a question to the time when the server withholds what it
                still holds of guesses (`withhold_guess`); None: guesses are fed whenever they arrive.
        """
        events = list[OracleTokenEvent]()
        for event, asked in enumerate(self.frame):
            frame = int(asked) + delay_frames
            tokens: Sequence[int] | NDArray[np.int32] = self.said(event)
            if withhold_after_frames is not None and (end := self._find_question_end(event)) is not None:
                tokens = withhold_guess(frame, tokens, end + withhold_after_frames)
            events.append((frame, tokens))
        return events

    def _find_question_end(self, event: int) -> int | None:
        """Returns the frame of the event that had heard the whole question; None for such events and without one."""
        if self.ratio[event] >= 1:
            return None
        later = np.flatnonzero(self.ratio[event + 1 :] >= 1)
        return int(self.frame[event + 1 + later[0]]) if len(later) else None


def _pack(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    offsets = np.cumsum([0, *(len(each) for each in lists)], dtype=np.int32)
    values = np.fromiter((token for each in lists for token in each), np.int32, count=int(offsets[-1]))
    return values, offsets


def withhold_guess(
    frame: int, tokens: Sequence[int] | NDArray[np.int32], from_frame: int
) -> Sequence[int] | NDArray[np.int32]:
    """Returns the tokens of a guess that are fed before the server withholds it; no tokens: it has no effect.

    A guess is an answer to an unfinished question. Once the user's turn has ended and the whole question has been sent
    to the back-end, the server discards what it still holds of guesses, and all that arrive later (`BackEndCycle`): a
    front-end that waits for a late answer would say the guess instead.

    Args:
        frame: frame at which the guess arrives.
        tokens: the tokens of the guess.
        from_frame: frame at which guesses are discarded.
    """
    return tokens[: max(0, from_frame - frame - 1)]


def lay_oracle(events: Iterable[OracleTokenEvent], n_positions: int, start_id: int) -> NDArray[np.int32]:
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

    For the same events at the same frames it gives what `lay_oracle` lays out: push what came at frame f, then take
    `next()` for position f + 1. An oracle that is still being written comes by `start` and `extend`, and counts as an
    event of the frame in which its first token comes: until then the one before goes on, and if none ever comes nothing
    happened. While its tokens come slower than one a frame, padding fills the gap (a back-end slower than 12.5 tokens a
    second, or one whose next sentence is not whole yet); training makes its gaps by this very queue.

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
        """Adds tokens to an oracle; if a newer one has begun, nothing is added and False is returned."""
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
        """Discards the waiting tokens of an oracle, if it is the current one."""
        if oracle == self._fed:
            self._waiting.clear()

    def push(self, tokens: Iterable[int]) -> None:
        """Adds a complete oracle, which replaces the previous one; an empty one has no effect."""
        self.extend(self.start(), tokens)

    def next(self) -> int:
        """Returns the id to feed at this input position."""
        return self._waiting.popleft() if self._waiting else PADDING_ID

    def reset(self) -> None:
        """Discards everything, including oracles that are still streaming, before another session uses the queue."""
        self._waiting.clear()
        self._fed = self.start()
