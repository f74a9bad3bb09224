"""What of a turn is heard next, on windows of one sample each: their own number."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backends.engine import Samples
from backends.listener.turn import MOST_UNHEARD_S, TurnPiece, TurnSound
from backends.listener.vad import WINDOW_S

N_SECOND = round(1 / WINDOW_S)


def window(number: int) -> Samples:
    return np.array([number], dtype=np.float32)


def numbers(piece: TurnPiece) -> list[int]:
    return [int(number) for number in piece.samples]


def text(piece: TurnPiece) -> str:
    return ",".join(map(str, numbers(piece)))


def hear(turn: TurnSound, spans: list[tuple[bool, int]], start: int = 0) -> list[int]:
    """The numbers of the windows of speech."""
    flags = [is_speech for is_speech, n_windows in spans for _ in range(n_windows)]
    for number, is_speech in enumerate(flags, start):
        turn.hear(window(number), is_speech)
    return [number for number, is_speech in enumerate(flags, start) if is_speech]


SPANS = st.lists(st.tuples(st.booleans(), st.integers(1, 200)), min_size=1, max_size=8)


@given(SPANS, st.integers(3, 40))
def test_all_speech_is_in_the_text_once_and_in_order_however_often_it_is_heard(
    spans: list[tuple[bool, int]], n_between: int
) -> None:
    turn = TurnSound()
    speech: list[int] = []
    number = 0
    for is_speech, n_windows in spans:
        for _ in range(n_windows):
            speech += hear(turn, [(is_speech, 1)], number)
            number += 1
            if number % n_between == 0 and turn.is_worth_hearing:
                piece = turn.get_piece()
                turn.add_text(piece, text(piece))
    while turn.has_unheard:
        piece = turn.get_piece()
        turn.add_text(piece, text(piece))
    found = [int(each) for each in turn.text.replace(" ", ",").split(",") if each]
    assert [number for number in found if number in set(speech)] == speech  # silence may be heard twice


@given(st.integers(1, 40), st.integers(20, 60))
def test_a_piece_is_never_much_longer_than_its_bound(n_seconds: int, n_between: int) -> None:
    turn = TurnSound()
    for number in range(n_seconds * N_SECOND):
        turn.hear(window(number), True)
        if number % n_between == 0 and turn.is_worth_hearing:
            piece = turn.get_piece()
            assert len(piece.samples) <= 12 * N_SECOND + n_between + 1
            turn.add_text(piece, "said")


def test_silence_is_not_kept_and_nothing_in_it_is_worth_hearing() -> None:
    turn = TurnSound()
    hear(turn, [(False, 1000)])
    assert not turn.has_unheard
    hear(turn, [(True, 30), (False, 1000)], 1000)
    piece = turn.get_piece()
    assert 990 <= numbers(piece)[0] < 1000
    assert len(numbers(piece)) < 10 + 30 + N_SECOND + 1


def test_what_lies_before_a_pause_keeps_its_text_and_is_heard_no_more() -> None:
    turn = TurnSound()
    hear(turn, [(True, 4 * N_SECOND), (False, 15)])
    turn.add_text(turn.get_piece(), "First sentence.")
    hear(turn, [(True, 40)], 4 * N_SECOND + 15)
    piece = turn.get_piece()
    assert numbers(piece)[0] >= 4 * N_SECOND
    turn.add_text(piece, "And second.")
    assert turn.text == "First sentence. And second."


def test_the_text_of_a_sound_that_has_been_closed_meanwhile_changes_nothing() -> None:
    turn = TurnSound()
    hear(turn, [(True, 4 * N_SECOND), (False, 15)])
    late = turn.get_piece()
    turn.add_text(turn.get_piece(), "First sentence.")
    hear(turn, [(True, 40)], 4 * N_SECOND + 15)
    turn.add_text(late, "FIRST")
    assert turn.text == "First sentence."


def test_nothing_is_worth_hearing_before_half_a_second_of_speech_yet_a_short_turn_is_heard() -> None:
    turn = TurnSound()
    hear(turn, [(False, 30), (True, 10), (False, 8)])
    assert not turn.is_worth_hearing
    assert turn.has_unheard


def test_sound_that_nobody_recognises_is_kept_for_half_a_minute() -> None:
    turn = TurnSound()
    hear(turn, [(True, 60)])
    early = turn.get_piece()
    turn.add_text(early, "The beginning.")
    number, kept = 60, [0]
    while turn.n_given_up < 3:
        hear(turn, [(True, 1)], number)
        number += 1
        kept.append(len(turn._windows))
    assert max(kept) <= round(MOST_UNHEARD_S / WINDOW_S)
    turn.add_text(early, "late, and of sound that is gone")
    while turn.has_unheard:
        piece = turn.get_piece()
        turn.add_text(piece, text(piece))
    words = turn.text.split()
    assert words[:2] == ["The", "beginning."]
    assert int(words[-1].split(",")[-1]) == number - 1
    assert "late" not in words
