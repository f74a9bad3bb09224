"""Full-Duplex-Bench's definitions on words and segments at known times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from kame_model.evaluate.calls.delays import Span, TimedWord
from kame_model.evaluate.duplex.scores import (
    compute_distribution,
    compute_divergence,
    compute_latency_s,
    find_backchannels,
    find_speech,
    is_turn,
)
from tests.support.spoken_question import silence, spoken_question


def words(*spans: Span) -> list[TimedWord]:
    return [TimedWord("word", *span) for span in spans]


@pytest.mark.parametrize(
    ("spans", "takes"),
    [
        ([], False),
        ([(2.0, 2.9)], False),
        ([(2.0, 3.0)], True),
        ([(2.0, 2.1), (2.2, 2.3), (2.4, 2.9)], False),
        ([(2.0, 2.1), (2.2, 2.3), (2.4, 2.5), (2.6, 2.9)], True),
        ([(2.0, 2.1), (4.0, 4.1)], True),
    ],
)
def test_a_turn_is_a_second_or_more_than_three_words(spans: list[Span], takes: bool) -> None:
    assert is_turn(words(*spans)) is takes


def test_a_latency_is_of_turns_alone_and_never_negative() -> None:
    assert compute_latency_s(words((2.25, 4.0)), 2.0) == 0.25
    assert compute_latency_s(words((1.0, 4.0)), 2.0) == 0.0
    assert compute_latency_s(words((2.25, 2.5)), 2.0) is None
    assert compute_latency_s([], 2.0) is None


@pytest.mark.parametrize(
    ("segments", "said", "takes", "n"),
    [
        ([], [], False, 0),
        ([(1.0, 1.5), (4.0, 4.6)], [(1.1, 1.4), (4.1, 4.5)], False, 2),
        ([(1.0, 2.0)], [(1.1, 1.4)], True, 0),
        ([(1.0, 1.9)], [(1.0, 1.2), (1.3, 1.5), (1.6, 1.8)], True, 0),
        ([(1.0, 1.5), (4.0, 7.5), (8.0, 8.4)], [(1.1, 1.4)], True, 1),  # too long: nothing behind it is looked at
        ([(1.0, 2.5), (4.0, 4.6)], [(1.1, 1.4)], False, 1),  # the last segment decides
    ],
)
def test_a_backchannel_is_short_and_of_two_words_at_most(
    segments: list[Span], said: list[Span], takes: bool, n: int
) -> None:
    found = find_backchannels(segments, words(*said))
    assert (found.takes_turn, len(found.spans)) == (takes, n)


def test_a_window_that_a_backchannel_touches_counts() -> None:
    shares = compute_distribution([(0.1, 0.5), (0.5, 0.7)], 2.0)
    assert len(shares) == 11
    assert shares.round(4).tolist() == [0.2, 0.2, 0.4, 0.2, *[0] * 7]


spans = st.lists(st.floats(0, 9).map(lambda start_s: (start_s, start_s + 0.5)), min_size=1, max_size=4)


@given(ours=spans, people=st.lists(st.floats(0.001, 1), min_size=2, max_size=80))
def test_the_divergence_is_scipys(ours: list[Span], people: list[float]) -> None:
    stretched = np.interp(np.linspace(0, 1, 51), np.linspace(0, 1, len(people)), people)
    assert compute_divergence(ours, 10.0, people) == pytest.approx(
        jensenshannon(compute_distribution(ours, 10.0), stretched), abs=1e-4
    )


def test_who_listens_as_people_do_is_near_and_who_never_does_is_far() -> None:
    people = compute_distribution([(2.0, 2.4), (6.0, 6.4)], 10.0).tolist()
    assert compute_divergence([(2.0, 2.4), (6.0, 6.4)], 10.0, people) < 0.001
    assert compute_divergence([(8.0, 8.4)], 10.0, people) == pytest.approx(np.log(2) ** 0.5, abs=1e-3)
    assert compute_divergence([], 10.0, people) == 1.0


def test_segments_are_where_somebody_speaks() -> None:
    speech = spoken_question()
    n_s = len(speech) / 24_000
    found = find_speech(np.concatenate([silence(1.0), speech, silence(1.0), speech]))
    assert len(found) == 2
    for (start_s, end_s), begin_s in zip(found, (1.0, 2.0 + n_s), strict=True):
        assert start_s == pytest.approx(begin_s, abs=0.15)
        assert end_s == pytest.approx(begin_s + n_s, abs=0.15)
    assert find_speech(silence(2.0)) == []
    assert find_speech(np.zeros(0, np.float32)) == []
