"""Augments an example's oracle events in training: skipping, curriculum, jitter and delay.

The order is that of KAME's release. For each example, the skip probability is drawn, then whether the curriculum feeds
hints only. For each event, in order of position, it is drawn whether the event is skipped (the last of its run never
is), then its jitter. Finally one shift is drawn for all events. Two things are additions: the shift to the right is a
back-end's delay from a configured distribution, never added to another shift; and some back-ends are slow, so that
there are gaps between their tokens. Every function draws only from the generator it is given, so that an example
depends on its seed alone. None of this is used in evaluation.
"""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from data_schemas import units
from data_schemas.config.training import DelayConfig, OracleFeedConfig
from data_schemas.guesses import Guesses
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue, OracleTokenEvent, OracleTokens

SLOW_TOKENS_PER_S = (5.0, 20.0)
"""Speed of a slow back-end: from a small model on a busy processor to above the speed of feeding (12.5)."""

_START = -1
"""Stands for the start of an oracle while its gaps are computed."""

SENTENCE_TOKENS = (4, 16)
"""Range from which the tokens of a sentence are drawn: the vocabulary has no marks that show where one ends."""


class FedEvent(NamedTuple):
    """An oracle event as it is fed to an example.

    Attributes:
        event: its index in the speaker's stream; -1: an event of another stream.
        frame: the frame at which it arrives.
        tokens: one per input position; padding where the next token has not arrived yet.
    """

    event: int
    frame: int
    tokens: Sequence[int]

    def is_as_recorded(self, oracle: OracleTokens) -> bool:
        """Returns whether it arrives no later than in `oracle`, the stream that it is from, and without gaps."""
        return self.frame <= oracle.frame[self.event] and PADDING_ID not in self.tokens

    def find_token_positions(self) -> list[int]:
        """Returns the input positions at which its tokens are fed; its start is fed at frame + 1."""
        return [self.frame + 2 + at for at, token in enumerate(self.tokens) if token != PADDING_ID]


def draw_fed_events(oracle: OracleTokens, config: OracleFeedConfig, step: int, draw: random.Random) -> list[FedEvent]:
    """Draws the events that are fed to a training example.

    Events without tokens to feed, and those that the shift moves before the dialogue, are dropped.

    Args:
        oracle: all events of the speaker to learn, in the order of their frames.
        config: the probabilities.
        step: optimiser step of the example; only the curriculum uses it.
        draw: the example's own generator.
    """
    skip = draw_skip_probability(config, draw)
    hints_only = draw_hints_only(config, step, draw)
    kept = draw_kept_events(oracle, skip, draw)
    events = [
        FedEvent(event, frame, get_event_tokens(oracle, event, hints_only))
        for event, frame in jitter_events(oracle, kept, config, draw)
    ]
    shift = draw_shift(config, draw)
    fed = [each._replace(frame=each.frame + shift) for each in events if len(each.tokens) and each.frame + shift >= 0]
    fed = [each for each in fed if apply_guesses(oracle, [each], config.guesses)]  # no gaps are drawn for the others
    if draw.random() < config.slow_share:
        fed = add_slow_gaps(fed, draw)
    return apply_guesses(oracle, fed, config.guesses)


def apply_guesses(oracle: OracleTokens, fed: Sequence[FedEvent], guesses: Guesses) -> list[FedEvent]:
    """Returns the events as a server feeds them that treats answers to an unfinished question by `guesses`.

    Events of which it feeds nothing are dropped.
    """
    treated = [(each.event, oracle.apply_guesses(*each, guesses)) for each in fed]
    return [FedEvent(event, now[0], list(now[1])) for event, now in treated if now is not None and len(now[1])]


def draw_skip_probability(config: OracleFeedConfig, draw: random.Random) -> float:
    """Draws an example's probability that an event is skipped, uniformly between the configured bounds."""
    return draw.uniform(config.skip_min, config.skip_max)


def draw_hints_only(config: OracleFeedConfig, step: int, draw: random.Random) -> bool:
    """Draws whether hints are fed instead of predictions, for all events of an example.

    They always are before `config.hints_only_until_step`, never from `config.predictions_from_step` on, and with a
    linearly falling probability in between. One number is drawn at any step, so that the curriculum does not change
    what is drawn after it.
    """
    drawn = draw.random()
    start, end = config.hints_only_until_step, config.predictions_from_step
    if step < start:
        return True
    return step < end and drawn < (end - step) / (end - start)


def draw_kept_events(oracle: OracleTokens, skip: float, draw: random.Random) -> list[int]:
    """Draws the indices of the events that are not skipped; `skip` is the probability of skipping.

    The last event of a run is always kept, though a number is drawn for it.
    """
    return [event for event in range(len(oracle)) if not draw.random() < skip or oracle.skip_forbid[event]]


def jitter_events(
    oracle: OracleTokens, kept: Sequence[int], config: OracleFeedConfig, draw: random.Random
) -> list[tuple[int, int]]:
    """Returns the kept events and their frames, each frame moved randomly by up to `config.jitter_frames`.

    Their order is kept, and none is before frame 0.
    """
    moved: list[tuple[int, int]] = []
    for event in kept:
        frame = int(oracle.frame[event])
        if config.jitter_frames:
            frame = max(0, frame + draw.randint(-config.jitter_frames, config.jitter_frames))
        earliest = moved[-1][1] if moved else 0
        moved.append((event, max(frame, earliest)))
    return moved


def get_event_tokens(oracle: OracleTokens, event: int, hints_only: bool) -> Sequence[int]:
    """Returns the tokens of an event: with `hints_only` its hint, which may be empty, else `OracleTokens.get_fed`."""
    tokens: Sequence[int] = (oracle.get_hint(event) if hints_only else oracle.get_fed(event)).tolist()
    return tokens


def draw_shift(config: OracleFeedConfig, draw: random.Random) -> int:
    """Draws the frames by which the whole stream is later (a back-end's delay) or, if negative, earlier.

    It is 0 with probability 1 - `config.shift_probability`.
    """
    if not draw.random() < config.shift_probability:
        return 0
    if draw.random() < config.left_share:
        return -draw.randint(1, config.left_max_frames)
    return draw_delay_frames(config.delay, draw)


def draw_delay_frames(config: DelayConfig, draw: random.Random) -> int:
    """Draws a back-end's delay in whole frames: uniform between the bounds, or log-normal and limited to them."""
    if config.distribution == "uniform":
        delay_s = draw.uniform(config.min_s, config.max_s)
    else:
        drawn_s = config.median_s * draw.lognormvariate(0.0, config.sigma)
        delay_s = min(max(drawn_s, config.min_s), config.max_s)
    return round(delay_s / units.FRAME_S)


def add_slow_gaps(fed: Sequence[FedEvent], draw: random.Random) -> list[FedEvent]:
    """Returns the events with gaps between their tokens, as if a slow back-end wrote all of them at one drawn speed."""
    frames_per_token = 1 / (draw.uniform(*SLOW_TOKENS_PER_S) * units.FRAME_S)
    return [each._replace(tokens=insert_gaps(each.tokens, frames_per_token, draw)) for each in fed]


def insert_gaps(tokens: Sequence[int], frames_per_token: float, draw: random.Random) -> list[int]:
    """Returns an oracle's tokens with padding in between, as a server feeds them while a back-end writes them.

    The first sentence is released token by token, a later one when its last token is written
    (`serve/oracle/writer.py`). A token that has arrived waits in the session's queue, and padding is fed while the
    queue is empty.

        written at 2 frames a token, sentences of 3     a - b - c - - - - - d - e - f
        the same, as the queue feeds them               a - b - c - - - - - d e f
    """
    ends, n_written = [], 0
    while n_written < len(tokens):
        n_written += draw.randint(*SENTENCE_TOKENS)
        ends.append(min(n_written, len(tokens)))
    queue = OracleQueue(start_id=_START)
    oracle = queue.start()
    fed: list[int] = []
    for start, stop in [*((at, at + 1) for at in range(ends[0])), *pairwise(ends)]:
        leaves = round((stop - 1) * frames_per_token)
        fed += [queue.pop() for _ in range(leaves - len(fed))]
        queue.extend(oracle, tokens[start:stop])
    n_waiting = 1 + len(tokens) - sum(token != PADDING_ID for token in fed)
    fed += [queue.pop() for _ in range(n_waiting)]
    return fed[1:]


def shift_events(events: Sequence[OracleTokenEvent], n_frames: int) -> list[OracleTokenEvent]:
    """Returns events that are later by `n_frames`, or earlier if that is negative.

    An event that would begin before the dialogue is dropped. The release keeps the last tokens of such an event,
    without a start, which no server ever feeds.
    """
    return [(frame + n_frames, tokens) for frame, tokens in events if frame + n_frames >= 0]
