"""When the back-end is asked: rules that hold for any word times."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from data_schemas.records import WordTiming
from data_schemas.units import round_s
from pipelines.oracle.schedule import TRUTH_LEVEL, Tick, find_level, list_words, make_ticks
from tests.support.builders import make_turn, make_utterance

BOUNDS = [0.5, 0.65, 0.8, 0.95]


def word(start_s: float, end_s: float, text: str = "word") -> WordTiming:
    return WordTiming(word=text, start_s=start_s, end_s=end_s, score=0.0, method="test")


@st.composite
def turns_words(draw: Any) -> list[WordTiming]:
    """Words one after the other, at times stored as the mixing stage stores them."""
    at_s, words = draw(st.floats(0, 60)), []
    lengths = st.tuples(st.floats(0, 1.5), st.floats(0.001, 1.5))
    for gap_s, length_s in draw(st.lists(lengths, min_size=1, max_size=40)):
        start_s = round_s(at_s + gap_s)
        at_s = round_s(start_s + length_s)
        words.append(word(start_s, at_s))
    return words


@st.composite
def words_on_a_grid(draw: Any) -> tuple[list[WordTiming], float]:
    """Words that end exactly where ticks are, as far as decimal fractions go."""
    step_s = draw(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 0.57, 0.7]))
    ends = sorted(draw(st.sets(st.integers(1, 200), min_size=2, max_size=20)))
    return [word(round_s((end - 0.5) * step_s), round_s(end * step_s)) for end in ends], step_s


INTERVALS_S = st.sampled_from([0.08, 0.1, 0.3, 0.35, 0.5, 1.0, 3.3])
N_REQUESTS = st.integers(5, 12)


def schedule(words: list[WordTiming], interval_s: float = 0.5, max_requests: int = 8) -> list[Tick]:
    return make_ticks(words, interval_s, BOUNDS, max_requests)


@given(words=turns_words(), interval_s=INTERVALS_S, n_requests=N_REQUESTS)
def test_the_last_event_and_no_other_has_heard_all(words: list[WordTiming], interval_s: float, n_requests: int) -> None:
    made = schedule(words, interval_s, n_requests)
    assert [tick for tick in made if tick.r == 1] == made[-1:]
    assert made[-1].t_s == words[-1].end_s
    assert [tick.level == TRUTH_LEVEL for tick in made] == [False] * (len(made) - 1) + [True]
    assert made[-1].asks is None


@given(words=turns_words(), interval_s=INTERVALS_S)
def test_ticks_are_all_multiples_of_the_interval_after_two_words(words: list[WordTiming], interval_s: float) -> None:
    times_s = [tick.t_s for tick in schedule(words, interval_s)][:-1]
    if len(words) < 3:
        assert times_s == []
        return
    highest = int(words[-1].end_s / interval_s) + 1
    expected = {round_s(k * interval_s) for k in range(highest + 1)}
    assert times_s == sorted(time_s for time_s in expected if words[1].end_s < time_s < words[-1].end_s)


@given(words=turns_words(), interval_s=INTERVALS_S)
def test_no_event_knows_a_word_that_had_not_ended(words: list[WordTiming], interval_s: float) -> None:
    for tick in schedule(words, interval_s):
        assert tick.n_words_heard == sum(each.end_s <= tick.t_s for each in words)
        assert (tick.n_words, tick.r) == (len(words), tick.n_words_heard / len(words))
        assert tick.level == find_level(tick.r, BOUNDS)


@given(grid=words_on_a_grid())
def test_words_that_end_at_a_tick_are_heard_by_it_whatever_floats_say(grid: tuple[list[WordTiming], float]) -> None:
    words, step_s = grid
    made = schedule(words, step_s)
    for tick in made:
        assert tick.n_words_heard == sum(each.end_s <= tick.t_s for each in words)
    assert all(words[1].end_s < tick.t_s < words[-1].end_s for tick in made[:-1])
    assert sum(tick.r == 1 for tick in made) == 1


@given(words=turns_words(), interval_s=INTERVALS_S, n_requests=N_REQUESTS)
def test_requests_are_few_and_each_level_has_one(words: list[WordTiming], interval_s: float, n_requests: int) -> None:
    made = schedule(words, interval_s, n_requests)
    asking = {tick.asks for tick in made} - {None}
    reached = {tick.level for tick in made} - {TRUTH_LEVEL}
    assert len(asking) <= n_requests
    assert {made[index].level for index in asking if index is not None} == reached


@given(words=turns_words(), interval_s=INTERVALS_S, n_requests=N_REQUESTS)
def test_answers_are_of_one_level_and_knew_no_more(words: list[WordTiming], interval_s: float, n_requests: int) -> None:
    made = schedule(words, interval_s, n_requests)
    for index, tick in enumerate(made[:-1]):
        assert tick.asks is not None
        assert tick.asks <= index
        asked = made[tick.asks]
        assert (asked.level, asked.asks) == (tick.level, tick.asks)
        assert asked.n_words_heard <= tick.n_words_heard


def test_levels_are_as_the_papers_bounds_say() -> None:
    levels = {0.0: 0, 0.5: 0, 0.51: 1, 0.65: 1, 0.66: 2, 0.8: 2, 0.81: 3, 0.95: 3, 0.96: 4, 0.999: 4, 1: 5}
    assert {r: find_level(r, BOUNDS) for r in levels} == levels


def test_a_turn_of_one_or_two_words_has_one_event_and_a_pause_shares_one_request() -> None:
    assert [tick.t_s for tick in schedule([word(0.0, 0.4)])] == [0.4]
    assert [tick.t_s for tick in schedule([word(0.0, 0.4), word(5.0, 5.4)])] == [5.4]
    assert schedule([]) == []
    words = [word(0.0, 0.3), word(0.4, 0.7), word(5.0, 5.3), word(5.4, 5.7)]
    made = schedule(words)
    in_pause = [tick for tick in made if tick.n_words_heard == 2]
    assert [tick.t_s for tick in in_pause] == [k * 0.5 for k in range(2, 11)]
    assert {tick.asks for tick in in_pause} == {0}


def test_backchannels_do_not_count() -> None:
    speech, nod = word(0.0, 0.4, "tell"), word(0.5, 0.7, "yes")
    turn = make_turn(0, "B", (make_utterance("tell", [speech]), make_utterance("yes", [nod], kind="backchannel")))
    assert list_words(turn) == [speech]
