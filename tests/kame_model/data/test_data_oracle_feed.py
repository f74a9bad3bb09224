import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.config.training import DelayConfig, OracleFeedConfig
from kame_model.data import oracle_feed
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import TURN_END_FRAMES, OracleTokens

PLAIN = {"drop_share": 0.0, "skip_min": 0.0, "skip_max": 0.0, "shift_probability": 0.0}


def config(**changes: object) -> OracleFeedConfig:
    """Nothing happens to events but what a test asks for."""
    return OracleFeedConfig.model_validate(PLAIN | changes)


def three_events() -> OracleTokens:
    """At frames 6 and 12 while the question runs, the first without a hint; at 18 when all of it was heard."""
    return OracleTokens.pack(
        frame=[6, 12, 18],
        ratio=[0.4, 0.7, 1.0],
        level=[0, 2, 5],
        skip_forbid=[False, False, True],
        preds=[[10], [20, 21], [30]],
        hints=[[], [40], [40]],
    )


def fed(**changes: object) -> list[tuple[int, list[int]]]:
    events = oracle_feed.draw_fed_events(three_events(), config(**changes), 0, random.Random(0))
    return [(each.frame, list(each.tokens)) for each in events]


def test_without_chance_events_come_as_in_evaluation() -> None:
    events = [(frame, list(tokens)) for frame, tokens in three_events().list_events()]
    assert fed() == events == [(6, [10]), (12, [20, 21]), (18, [40])]


def test_withdrawn_guesses_are_fed_until_the_turn_has_ended() -> None:
    assert fed(guesses="withdraw") == [(6, [10]), (12, [20, 21]), (18, [40])]
    late = {"shift_probability": 1.0, "left_share": 0.0, "delay": {"min_s": 1.04, "max_s": 1.04}}
    assert fed(guesses="withdraw", **late) == [(19, [10]), (25, [20]), (31, [40])]


@pytest.mark.parametrize("slow_share", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_token_of_a_withdrawn_guess_is_fed_after_the_turn_has_ended(slow_share: float, seed: int) -> None:
    guess = list(range(10, 40))
    oracle = OracleTokens.pack([0, 20], [0.5, 1.0], [0, 5], [False, True], [guess, guess], [[], []])
    feeding = config(guesses="withdraw", slow_share=slow_share)
    events = oracle_feed.draw_fed_events(oracle, feeding, 0, random.Random(seed))
    assert 20 < events[0].find_token_positions()[-1] <= 20 + TURN_END_FRAMES
    assert [each for each in events[1].tokens if each != PADDING_ID] == guess


@given(seed=st.integers(0, 2**32))
def test_training_never_feeds_a_held_guess_whatever_is_drawn(seed: int) -> None:
    feeding = config(guesses="hold", skip_max=0.7, shift_probability=1.0, jitter_frames=3)
    events = oracle_feed.draw_fed_events(three_events(), feeding, 0, random.Random(seed))
    assert [each.event for each in events] == [2]
    assert events[0].frame >= 18 + TURN_END_FRAMES


def test_hints_only_leaves_out_what_has_no_hint() -> None:
    assert fed(hints_only_until_step=10, predictions_from_step=20) == [(12, [40]), (18, [40])]


@given(seed=st.integers(0, 2**32), skip=st.floats(0, 1))
def test_the_last_event_of_its_run_is_never_skipped(seed: int, skip: float) -> None:
    assert 2 in oracle_feed.draw_kept_events(three_events(), skip, random.Random(seed))


def test_events_are_skipped_as_often_as_drawn() -> None:
    draw = random.Random(0)
    kept = sum(0 in oracle_feed.draw_kept_events(three_events(), 0.3, draw) for _ in range(4000))
    assert kept / 4000 == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize(("step", "share"), [(0, 1.0), (99, 1.0), (150, 0.5), (175, 0.25), (200, 0.0), (900, 0.0)])
def test_curriculum_goes_from_hints_to_predictions_between_two_steps(step: int, share: float) -> None:
    feeding, draw = config(hints_only_until_step=100, predictions_from_step=200), random.Random(1)
    n_hints = sum(oracle_feed.draw_hints_only(feeding, step, draw) for _ in range(2000))
    assert n_hints / 2000 == pytest.approx(share, abs=0.04)


def test_the_step_changes_nothing_that_is_drawn_after_the_curriculum() -> None:
    feeding = OracleFeedConfig(drop_share=0.0, hints_only_until_step=10, predictions_from_step=10)
    early, late = (oracle_feed.draw_fed_events(three_events(), feeding, step, random.Random(5)) for step in (0, 10))
    assert {each.frame for each in early} <= {each.frame for each in late}
    assert early
    assert late


@given(seed=st.integers(0, 2**32), frames=st.integers(1, 25))
def test_jitter_keeps_the_order_and_stays_near(seed: int, frames: int) -> None:
    events = three_events()
    moved = oracle_feed.jitter_events(events, [0, 1, 2], config(jitter_frames=frames), random.Random(seed))
    assert [event for event, _ in moved] == [0, 1, 2]
    assert [frame for _, frame in moved] == sorted(frame for _, frame in moved)
    assert all(frame >= 0 and frame - int(events.frame[event]) <= frames + 12 for event, frame in moved)


def test_half_of_the_shifts_go_to_the_left() -> None:
    draw = random.Random(2)
    shifts = [oracle_feed.draw_shift(OracleFeedConfig(), draw) for _ in range(2000)]
    assert np.mean(np.array(shifts) < 0) == pytest.approx(0.5, abs=0.04)
    assert {min(shifts), max(shifts)} == {-15, 10}  # the release's bounds, which the default delay has too
    assert 0 not in shifts


@given(seed=st.integers(0, 2**32), median_s=st.floats(0.1, 2), sigma=st.floats(0.1, 1.5))
def test_a_lognormal_delay_stays_within_its_bounds(seed: int, median_s: float, sigma: float) -> None:
    delay = DelayConfig(distribution="lognormal", median_s=median_s, sigma=sigma, min_s=0.16, max_s=1.6)
    assert 2 <= oracle_feed.draw_delay_frames(delay, random.Random(seed)) <= 20


def test_half_of_lognormal_delays_are_shorter_than_the_median() -> None:
    delay, draw = DelayConfig(distribution="lognormal", median_s=0.8, min_s=0.0, max_s=10.0), random.Random(3)
    assert np.median([oracle_feed.draw_delay_frames(delay, draw) for _ in range(2000)]) == pytest.approx(10, abs=1)


def test_an_event_shifted_over_the_beginning_is_lost_as_a_whole() -> None:
    assert oracle_feed.shift_events([(3, [7, 8]), (9, [5])], -4) == [(5, [5])]


@pytest.mark.parametrize("n_frames_a_token", [0.6, 1.0, 1.4, 2.5])
def test_a_slow_back_ends_tokens_come_with_the_gaps_of_a_servers_queue(n_frames_a_token: float) -> None:
    tokens = list(range(10, 50))
    told = oracle_feed.insert_gaps(tokens, n_frames_a_token, random.Random(4))
    assert [each for each in told if each != PADDING_ID] == tokens
    written_at = [round(at * n_frames_a_token) for at in range(len(tokens))]
    fed_at = [at for at, each in enumerate(told) if each != PADDING_ID]
    assert all(fed >= written - 1 for fed, written in zip(fed_at, written_at, strict=True))  # its start is fed before
    assert (len(told) > len(tokens)) == (n_frames_a_token > 0.9)


def test_a_later_sentence_comes_whole() -> None:
    told = oracle_feed.insert_gaps(list(range(10, 40)), 3.0, random.Random(4))
    gaps = [len(each) for each in "".join("." if each == PADDING_ID else "t" for each in told).split(".") if each]
    first, later = gaps.index(next(each for each in gaps if each > 1)), [each for each in gaps if each > 1]
    low, high = oracle_feed.SENTENCE_TOKENS
    assert low <= first + 1 <= high, "of the first sentence token by token"
    assert len(later) >= 2
    assert sum(gaps) == 30


def test_some_back_ends_are_slow_with_all_their_oracles() -> None:
    slow = config(slow_share=0.5)
    found = [oracle_feed.draw_fed_events(long_events(), slow, 0, random.Random(seed)) for seed in range(60)]
    gaps = [[PADDING_ID in each.tokens for each in events] for events in found]
    assert 15 < sum(map(all, gaps)) < 40
    assert 15 < sum(not any(each) for each in gaps) < 40
    assert not any(PADDING_ID in tokens for _, tokens in fed())


def long_events() -> OracleTokens:
    """Two oracles of sixty tokens."""
    tokens = list(range(10, 70))
    return OracleTokens.pack([6, 90], [1.0, 1.0], [5, 5], [True, True], [tokens, tokens], [[], []])
