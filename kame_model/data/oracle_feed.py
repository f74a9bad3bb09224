"""What befalls an example's oracle events in training: KAME's recipe, and what stands in its place here.

The order is that of the release: for an example, the probability of skipping and then the curriculum's draw; for each
event by position, whether it is skipped (never the last of its run) and its jitter; at last one shift of all. What is
ours: some examples lose their whole oracle, before all else; and the shift to the right is a back-end's delay drawn
from a configured distribution, never in addition to a shift. Every function draws from the generator it is given and
from nothing else, so that an example depends on its seed alone. In evaluation none of this is called.
"""

import random
from collections.abc import Sequence

from data_schemas import units
from data_schemas.config.training import DelayConfig, OracleFeedConfig
from kame_model.frames.oracle_stream import OracleTokenEvent, OracleTokens


def feed(oracle: OracleTokens, config: OracleFeedConfig, step: int, draw: random.Random) -> list[OracleTokenEvent]:
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
    events = [(frame, tokens_of(oracle, event, hints_only)) for event, frame in jitter(oracle, kept, config, draw)]
    return shifted([each for each in events if len(each[1])], draw_shift(config, draw))


def is_dropped(config: OracleFeedConfig, draw: random.Random) -> bool:
    """Whether the example goes without any oracle."""
    return draw.random() < config.drop_share


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


def shifted(events: Sequence[OracleTokenEvent], n_frames: int) -> list[OracleTokenEvent]:
    """Events later by `n_frames`, or earlier where that is negative.

    What would begin before the dialogue is lost as a whole; the release keeps the tail of such an event, tokens that no
    start announces, which no server ever feeds.
    """
    return [(frame + n_frames, tokens) for frame, tokens in events if frame + n_frames >= 0]
