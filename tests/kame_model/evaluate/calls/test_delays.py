"""The delay meter on sound with known gaps and overlaps: every edge within a frame."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engine import Samples
from data_schemas.units import FRAME_S, SAMPLE_RATE_HZ
from kame_model.evaluate.calls.delays import (
    EDGE_S,
    GAP_S,
    RUN_OVER_S,
    Span,
    cut_to_audible,
    find_audible_spans,
    measure_delays,
    time_words,
)


def sound_of(spans: list[tuple[float, float]], length_s: float, amplitude: float = 0.2) -> Samples:
    """Noise like speech's within the spans, a quiet room elsewhere."""
    rng = np.random.default_rng(0)
    sound = rng.normal(0, 5e-4, round(length_s * SAMPLE_RATE_HZ))
    for start_s, end_s in spans:
        inside = slice(round(start_s * SAMPLE_RATE_HZ), round(end_s * SAMPLE_RATE_HZ))
        sound[inside] = rng.normal(0, amplitude / 3, len(sound[inside]))
    return sound.astype(np.float32)


def nearly(spans: list[tuple[float, float]]) -> list[object]:
    return [pytest.approx(span, abs=FRAME_S / 2) for span in spans]


@pytest.mark.parametrize(
    "spans", [[], [(0.0, 1.0)], [(0.513, 1.777), (2.5, 3.001)], [(0.2, 0.3), (1.0, 1.05), (3.9, 4.0)]]
)
def test_spans_are_found_within_half_a_frame(spans: list[tuple[float, float]]) -> None:
    assert find_audible_spans(sound_of(spans, 4.0)) == nearly(spans)


def test_a_quiet_sound_is_heard_too_and_a_pause_between_words_parts_nothing() -> None:
    quiet = sound_of([(1.0, 1.5), (1.5 + GAP_S - 0.05, 2.5)], 4.0, amplitude=0.02)
    assert find_audible_spans(quiet) == nearly([(1.0, 2.5)])
    assert find_audible_spans(quiet, gap_s=0.1) == nearly([(1.0, 1.5), (1.5 + GAP_S - 0.05, 2.5)])
    assert find_audible_spans(quiet, threshold=0.1) == []


@pytest.mark.parametrize(
    ("spans", "start_s", "end_s"),
    [([(3.5, 4.0), (6.5, 7.0)], 3.5 - EDGE_S, 7.0 + EDGE_S), ([(0.1, 7.9)], 0.0, 8.0), ([], 0.0, 0.0)],
)
def test_silence_before_and_after_what_is_audible_is_cut(
    spans: list[tuple[float, float]], start_s: float, end_s: float
) -> None:
    sound = sound_of(spans, 8.0)
    cut = cut_to_audible(sound)
    assert len(cut) / SAMPLE_RATE_HZ == pytest.approx(end_s - start_s, abs=FRAME_S)
    assert find_audible_spans(cut) == nearly([(begin_s - start_s, stop_s - start_s) for begin_s, stop_s in spans])


@given(
    turn_s=st.floats(0.5, 3.0),
    gap_s=st.floats(-0.4, 2.0).filter(lambda gap: abs(gap) > 0.02),
    answer_s=st.floats(0.4 + RUN_OVER_S + FRAME_S, 3.0),
)
def test_the_delay_of_an_answer_is_known_within_a_frame(turn_s: float, gap_s: float, answer_s: float) -> None:
    end_s = 0.5 + turn_s
    user = find_audible_spans(sound_of([(0.5, end_s)], 12.0))
    assistant = find_audible_spans(sound_of([(end_s + gap_s, end_s + gap_s + answer_s)], 12.0))
    found = measure_delays(user, assistant, user[0])
    assert found.first_sound_s == pytest.approx(gap_s, abs=FRAME_S)
    assert found.overlap_s == pytest.approx(max(0.0, -gap_s), abs=FRAME_S)
    assert found.overlap_share == pytest.approx(max(0.0, -gap_s) / turn_s, abs=FRAME_S / turn_s)


def test_what_was_said_before_the_turn_or_after_the_next_is_no_answer_to_it() -> None:
    user = [(2.0, 4.0), (8.0, 9.0)]
    before_and_after = [(0.5, 3.0), (8.5, 10.0)]
    found = measure_delays(user, before_and_after, user[0], until_s=8.0)
    assert (found.first_sound_s, found.overlap_s, found.overlap_share) == (None, 1.0, 0.5)
    interrupted = measure_delays(user, [(0.5, 4.6), (5.5, 7.0)], user[0], until_s=8.0)
    assert interrupted.first_sound_s == 1.5


@pytest.mark.parametrize(
    ("assistant", "first_sound_s", "ttfat_s", "was_speaking"),
    [
        ([(3.5, 4.05), (7.0, 8.0)], 3.0, 3.0, True),
        ([(3.5, 4.0 + RUN_OVER_S)], None, None, True),
        ([(3.5, 4.5)], -0.5, 0.0, True),
        ([(0.1, 6.0)], None, None, True),
        ([(0.1, 6.0), (7.0, 8.0)], 3.0, 3.0, True),
        ([(1.0, 2.0), (4.2, 5.0)], 0.2, 0.2, False),
    ],
)
def test_speech_across_the_turns_end_is_the_answer_only_if_it_began_in_the_turn_and_continues(
    assistant: list[Span], first_sound_s: float | None, ttfat_s: float | None, was_speaking: bool
) -> None:
    found = measure_delays([(0.5, 4.0)], assistant, (0.5, 4.0))
    assert (found.first_sound_s, found.ttfat_s, found.was_speaking) == (first_sound_s, ttfat_s, was_speaking)


def test_words_are_put_together_from_pieces_with_their_times() -> None:
    pieces = [(0.08, " That"), (0.16, " wo"), (0.24, "uld be"), (0.40, " nine\n")]
    assert [(word.text, word.start_s, word.end_s) for word in time_words(pieces)] == [
        ("That", 0.08, 0.16),
        ("would", 0.16, 0.32),
        ("be", 0.24, 0.32),
        ("nine", 0.4, 0.48),
    ]
