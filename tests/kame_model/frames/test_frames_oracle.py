"""The oracle stream: laid out for training, queued for serving, the same either way."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue, OracleTokenEvent, OracleTokens, make_oracle_stream
from tests.support.known import known

START = 1000
TOKENS = st.lists(st.integers(4, START - 1), max_size=12)


@st.composite
def oracles(draw: st.DrawFn) -> tuple[list[OracleTokenEvent], int]:
    """Events in the sorted by frame, and input positions that hold the start of each."""
    gaps = draw(st.lists(st.integers(0, 9), max_size=8))
    events: list[OracleTokenEvent] = [(frame, draw(TOKENS)) for frame in accumulate(gaps)]
    return events, max((frame for frame, _ in events), default=0) + 2 + draw(st.integers(0, 20))


def laid(events: list[OracleTokenEvent], n_positions: int) -> list[int]:
    return [int(token) for token in make_oracle_stream(events, n_positions, START)]


@pytest.mark.parametrize(
    ("events", "stream"),
    [
        ([(2, [7, 8])], [3, 3, 3, START, 7, 8, 3]),
        ([(0, [11, 12, 13, 14, 15]), (2, [21])], [3, START, 11, START, 21, 3, 3, 3]),  # the old one is cleared
        ([(0, [11, 12, 13]), (1, [])], [3, START, 11, 12, 13, 3]),  # without tokens it clears nothing
        ([(1, [11, 12]), (1, [21])], [3, 3, START, 21, 3]),  # of two at a frame the later stands
        ([(4, [21]), (0, [11])], [3, START, 11, 3, 3, START, 21]),  # in any order
        ([(-3, [9]), (3, [11, 12]), (5, [21])], [3, 3, 3, 3, START, 11]),  # what lies outside is cut
    ],
)
def test_an_event_starts_beside_the_text_of_its_frame(events: list[OracleTokenEvent], stream: list[int]) -> None:
    assert laid(events, len(stream)) == stream


@given(oracle=oracles())
def test_the_queue_feeds_what_training_lays_out(oracle: tuple[list[OracleTokenEvent], int]) -> None:
    events, n_positions = oracle
    queue, fed = OracleQueue(START), []
    for position in range(n_positions):
        for frame, tokens in events:
            if frame + 1 == position:
                queue.push(tokens)
        fed.append(queue.pop())
    assert fed == laid(events, n_positions)


@given(oracle=oracles(), data=st.data())
@pytest.mark.full
def test_streamed_oracles_are_fed_alike_as_long_as_tokens_come_in_time(
    oracle: tuple[list[OracleTokenEvent], int], data: st.DataObject
) -> None:
    events, n_positions = oracle
    queue, fed = OracleQueue(START), []
    coming: dict[int, list[tuple[int, int]]] = {}  # by frame: number of the oracle, token
    for number, (frame, tokens) in enumerate(events, 1):
        assert queue.start() == number
        late = 0
        for place, token in enumerate(tokens):  # needed at position frame + 2 + place
            late = data.draw(st.integers(late, place + 1)) if place else 0
            coming.setdefault(frame + late, []).append((number, token))
    for position in range(n_positions):
        for number, token in coming.get(position - 1, []):
            queue.extend(number, [token])
        fed.append(queue.pop())
    assert fed == laid(events, n_positions)


def test_an_oracle_announced_but_still_silent_leaves_the_old_one_on() -> None:
    queue = OracleQueue(START)
    queue.push([11, 12, 13])
    newer = queue.start()
    assert [queue.pop(), queue.pop()] == [START, 11]
    assert queue.extend(newer, [])
    assert queue.pop() == 12
    assert queue.extend(newer, [21])
    assert [queue.pop() for _ in range(3)] == [START, 21, PADDING_ID]


def test_no_token_is_lost_when_the_back_end_is_slow() -> None:
    queue, fed = OracleQueue(START), []
    oracle = queue.start()
    for token in range(11, 16):
        queue.extend(oracle, [token])
        fed += [queue.pop() for _ in range(3)]
    assert [token for token in fed if token != PADDING_ID] == [START, 11, 12, 13, 14, 15]


def test_after_a_reset_nothing_of_the_last_caller_is_heard() -> None:
    queue = OracleQueue(START)
    on_its_way = queue.start()
    queue.extend(on_its_way, [11, 12])
    queue.reset()
    assert not queue.extend(on_its_way, [13])
    assert queue.pop() == PADDING_ID
    queue.push([21])
    assert [queue.pop(), queue.pop()] == [START, 21]


def packed() -> OracleTokens:
    return OracleTokens.pack(
        frame=[3, 9, 9],
        ratio=[0.4, 0.8, 1.0],
        level=[0, 2, 5],
        skip_forbid=[False, False, True],
        preds=[[11, 12], [], [31]],
        hints=[[], [22, 23], [32, 33]],
    )


def test_events_are_packed_as_kame_finetune_has_them() -> None:
    oracle = packed()
    assert len(oracle) == 3
    assert oracle.pred_offsets.tolist() == [0, 2, 2, 3]
    assert oracle.hint_values.tolist() == [22, 23, 32, 33]
    assert [oracle.get_pred(event).tolist() for event in range(3)] == [[11, 12], [], [31]]
    assert [oracle.get_hint(event).tolist() for event in range(3)] == [[], [22, 23], [32, 33]]
    assert (oracle.frame.dtype, oracle.ratio.dtype) == (np.dtype(np.int32), np.dtype(np.float32))


def test_the_hint_is_fed_once_all_is_heard_and_the_prediction_before() -> None:
    assert [(frame, list(tokens)) for frame, tokens in packed().list_events()] == [
        (3, [11, 12]),
        (9, []),
        (9, [32, 33]),
    ]


def two_questions() -> OracleTokens:
    return OracleTokens.pack(
        frame=[0, 6, 10, 30, 40],
        ratio=[0.2, 0.8, 1.0, 0.5, 1.0],
        level=[0, 3, 5, 2, 5],
        skip_forbid=[False, False, True, False, True],
        preds=[[1, 2, 3], [4, 5, 6, 7, 8], [9, 10], [11], [12]],
        hints=[[]] * 5,
    )


def test_a_guess_is_fed_up_to_the_frame_in_which_the_server_withdraws_it() -> None:
    oracle = two_questions()

    def fed(delay_frames: int) -> list[tuple[int, list[int]]]:
        events = oracle.list_events(delay_frames, "withdraw", turn_end_frames=9)
        return [(frame, list(tokens)) for frame, tokens in events]

    assert fed(3) == [(3, [1, 2, 3]), (9, [4, 5, 6, 7, 8]), (13, [9, 10]), (33, [11]), (43, [12])]
    assert fed(8)[1:3] == [(14, [4, 5, 6, 7]), (18, [9, 10])]  # withdrawn in frame 19: the start, four tokens
    assert fed(25) == [(25, []), (31, []), (35, [9, 10]), (55, []), (65, [12])]
    assert [(frame, list(tokens)) for frame, tokens in oracle.list_events(25)][1] == (31, [4, 5, 6, 7, 8])


def test_no_guess_is_fed_where_they_are_held_and_no_answer_before_the_turn_has_ended() -> None:
    oracle = two_questions()
    for delay_frames, frames in ((0, [19, 49]), (8, [19, 49]), (9, [19, 49]), (20, [30, 60])):
        events = oracle.list_events(delay_frames, "hold", turn_end_frames=9)
        assert [(frame, list(tokens)) for frame, tokens in events] == list(zip(frames, [[9, 10], [12]], strict=True))
    assert len(oracle.list_events(0, "hold", n_events=3)) == 1


def test_a_held_answer_that_arrives_after_the_user_has_spoken_again_is_left_out() -> None:
    oracle = two_questions()
    for delay_frames, frames in ((20, [30, 60]), (21, [61])):
        events = oracle.list_events(delay_frames, "hold", turn_end_frames=9)
        assert [frame for frame, _ in events] == frames
    assert len(oracle.list_events(21, "withdraw", turn_end_frames=9)) == len(oracle.list_events(21)) == 5


def test_a_question_that_nobody_heard_to_its_end_keeps_its_guesses() -> None:
    oracle = OracleTokens.pack([3, 9], [0.2, 0.8], [0, 3], [False, True], [[1], [2]], [[], []])
    for delay_frames in (4, 20):
        events = oracle.list_events(delay_frames, "hold")
        assert [frame for frame, _ in events] == [3 + delay_frames, 9 + delay_frames]


def test_withdrawn_tokens_are_those_that_a_queue_would_still_hold() -> None:
    tokens, arrives, withdrawn = [5, 6, 7, 8], 4, 8
    queue, fed = OracleQueue(start_id=1), []
    for frame in range(12):
        if frame == arrives:
            queue.push(tokens)
        if frame == withdrawn:
            queue.withdraw(1)
        fed.append(queue.pop())
    guess = OracleTokens.pack([0, 6], [0.5, 1.0], [0, 5], [False, True], [tokens, []], [[], []])
    event = known(guess.apply_guesses(0, arrives, tokens, "withdraw", turn_end_frames=withdrawn - 6))
    laid = make_oracle_stream([event], 13, start_id=1)
    assert fed == laid[1:].tolist()


def test_events_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="each"):
        OracleTokens.pack([1, 2], [0.1], [0], [False], [[5]], [[]])
    with pytest.raises(ValueError, match="sorted by frame"):
        OracleTokens.pack([2, 1], [0.1, 0.2], [0, 0], [False, True], [[5], [6]], [[], []])


def test_an_oracle_that_is_replaced_or_withdrawn_is_fed_no_further_and_the_next_one_is() -> None:
    queue = OracleQueue(START)
    older, newer = queue.start(), queue.start()
    assert queue.extend(newer, [5, 6, 7])
    assert not queue.extend(older, [11])
    queue.withdraw(older)
    assert [queue.pop() for _ in range(2)] == [START, 5]
    queue.withdraw(newer)
    assert queue.pop() == PADDING_ID
    queue.push([8])
    assert [queue.pop() for _ in range(3)] == [START, 8, PADDING_ID]
