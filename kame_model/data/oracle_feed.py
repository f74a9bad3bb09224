"""What befalls an example's oracle events in training: KAME's recipe, and what stands in its place here.

The order is that of the release: for an example, the probability of skipping and then the curriculum's draw; for each
event by position, whether it is skipped (never the last of its run) and its jitter; at last one shift of all. What is
ours: the shift to the right is a back-end's delay drawn from a
configured distribution, never in addition to a shift; and some back-ends are slow, so that their tokens come with gaps.
Every function draws from the generator it is given and from nothing else, so that an example depends on its seed alone.
In evaluation none of this is called.
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
"""How fast a slow back-end writes: from a small model on a busy processor to above what it is fed at (12.5)."""

_START = -1
"""What stands for the start of an oracle while its gaps are found."""

SENTENCE_TOKENS = (4, 16)
"""Tokens of a sentence, drawn: the vocabulary has no marks by which its end would be known."""


class Fed(NamedTuple):
    """An event as an example is fed with it.

    Attributes:
        event: its number in the speaker's stream; -1: of no stream.
        frame: at which it comes.
        tokens: one an input position, padding where the next has not come yet.
    """

    event: int
    frame: int
    tokens: Sequence[int]

    def is_as_recorded(self, oracle: OracleTokens) -> bool:
        """Whether it comes no later than in the stream that it is of, all at once."""
        return self.frame <= oracle.frame[self.event] and PADDING_ID not in self.tokens

    def token_positions(self) -> list[int]:
        """The input positions at which its tokens are fed; its start is fed at frame + 1."""
        return [self.frame + 2 + at for at, token in enumerate(self.tokens) if token != PADDING_ID]


def feed(oracle: OracleTokens, config: OracleFeedConfig, step: int, draw: random.Random) -> list[Fed]:
    """The events that a training example is fed with.

    Args:
        oracle: all events of the speaker learnt, in the order of their frames.
        config: the probabilities.
        step: optimiser step that the example is made for; only the curriculum looks at it.
        draw: the example's own generator.
    """
    skip = skip_probability(config, draw)
    hints_only = draws_hints_only(config, step, draw)
    kept = keep_events(oracle, skip, draw)
    events = [
        Fed(event, frame, tokens_of(oracle, event, hints_only)) for event, frame in jitter(oracle, kept, config, draw)
    ]
    shift = draw_shift(config, draw)
    fed = [each._replace(frame=each.frame + shift) for each in events if len(each.tokens) and each.frame + shift >= 0]
    fed = apply_guesses(oracle, fed, config.guesses)
    return slowed(fed, draw) if draw.random() < config.slow_share else fed


def apply_guesses(oracle: OracleTokens, fed: Sequence[Fed], guesses: Guesses) -> list[Fed]:
    """Returns the events as a server feeds them that treats answers to the unfinished question like this."""
    treated = [(each.event, oracle.apply_guesses(*each, guesses)) for each in fed]
    return [Fed(event, now[0], list(now[1])) for event, now in treated if now is not None and len(now[1])]


def skip_probability(config: OracleFeedConfig, draw: random.Random) -> float:
    """The example's probability that an event is skipped: uniform between the configured bounds."""
    return draw.uniform(config.skip_min, config.skip_max)


def draws_hints_only(config: OracleFeedConfig, step: int, draw: random.Random) -> bool:
    """Whether all events hold their hints: surely up to one step, never from another on, linearly in between.

    One number is drawn at any step, so that the curriculum changes nothing that is drawn after it.
    """
    drawn = draw.random()
    start, end = config.hints_only_until_step, config.predictions_from_step
    if step < start:
        return True
    return step < end and drawn < (end - step) / (end - start)


def keep_events(oracle: OracleTokens, skip: float, draw: random.Random) -> list[int]:
    """Positions of the events that are not skipped; the last of a run never is, though a number is drawn for it too."""
    return [event for event in range(len(oracle)) if not draw.random() < skip or oracle.skip_forbid[event]]


def jitter(
    oracle: OracleTokens, kept: Sequence[int], config: OracleFeedConfig, draw: random.Random
) -> list[tuple[int, int]]:
    """Events with their frames, each moved on its own, still one after the other and never before the dialogue."""
    moved: list[tuple[int, int]] = []
    for event in kept:
        frame = int(oracle.frame[event])
        if config.jitter_frames:
            frame = max(0, frame + draw.randint(-config.jitter_frames, config.jitter_frames))
        earliest = moved[-1][1] if moved else 0
        moved.append((event, max(frame, earliest)))
    return moved


def tokens_of(oracle: OracleTokens, event: int, hints_only: bool) -> Sequence[int]:
    """What an event feeds: with `hints_only` its hint, which may be empty; else as in evaluation (`said`)."""
    tokens: Sequence[int] = (oracle.hint(event) if hints_only else oracle.said(event)).tolist()
    return tokens


def draw_shift(config: OracleFeedConfig, draw: random.Random) -> int:
    """Frames by which the whole stream comes later (a back-end's delay) or, negative, earlier."""
    if not draw.random() < config.shift_probability:
        return 0
    if draw.random() < config.left_share:
        return -draw.randint(1, config.left_max_frames)
    return delay_frames(config.delay, draw)


def delay_frames(config: DelayConfig, draw: random.Random) -> int:
    """A back-end's delay in whole frames, at least none."""
    if config.distribution == "uniform":
        delay_s = draw.uniform(config.min_s, config.max_s)
    else:
        drawn_s = config.median_s * draw.lognormvariate(0.0, config.sigma)
        delay_s = min(max(drawn_s, config.min_s), config.max_s)
    return round(delay_s / units.FRAME_S)


def slowed(fed: Sequence[Fed], draw: random.Random) -> list[Fed]:
    """The events of a back-end that writes slowly: all at one speed, drawn; the gaps are those of a server's queue."""
    frames_per_token = 1 / (draw.uniform(*SLOW_TOKENS_PER_S) * units.FRAME_S)
    return [each._replace(tokens=with_gaps(each.tokens, frames_per_token, draw)) for each in fed]


def with_gaps(tokens: Sequence[int], frames_per_token: float, draw: random.Random) -> list[int]:
    """An oracle's tokens as a server feeds them while they are written, the first at once.

    The first sentence leaves token by token, a later one when its last token is written (`serve/oracle/writer.py`); a
    token that has come waits for its turn in the session's queue, and padding is fed while none waits.

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
        fed += [queue.next() for _ in range(leaves - len(fed))]
        queue.extend(oracle, tokens[start:stop])
    n_waiting = 1 + len(tokens) - sum(token != PADDING_ID for token in fed)
    fed += [queue.next() for _ in range(n_waiting)]
    return fed[1:]


def shifted(events: Sequence[OracleTokenEvent], n_frames: int) -> list[OracleTokenEvent]:
    """Events later by `n_frames`, or earlier where that is negative.

    What would begin before the dialogue is lost as a whole; the release keeps the tail of such an event, tokens that no
    start announces, which no server ever feeds.
    """
    return [(frame + n_frames, tokens) for frame, tokens in events if frame + n_frames >= 0]
