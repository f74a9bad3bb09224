"""A transcript to turns and dialogues, whatever was said when."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from data_schemas.records import HeardTurn, SaidPiece
from pipelines.recordings.cutting import MOST_S, QUIET_S, Piece, cut

LENGTH_S = 600.0


def heard(text: str, start_s: float, end_s: float) -> HeardTurn:
    return HeardTurn(text=text, start_s=start_s, end_s=end_s)


def said(*pieces: tuple[str, float]) -> list[SaidPiece]:
    return [SaidPiece(text=text, time_s=time_s) for text, time_s in pieces]


def told(pieces: list[Piece]) -> list[list[tuple[str, list[str]]]]:
    return [[(turn[0].speaker, [each.text for each in turn]) for turn in piece.turns] for piece in pieces]


def test_pieces_of_words_are_joined_and_a_pause_parts_utterances_of_one_turn() -> None:
    pieces = said((" Let", 3.0), (" me", 3.1), (" thin", 3.2), ("k.", 3.3), (" Nine", 6.0), (".", 6.1))
    (dialogue,) = cut([heard("How many?", 1.0, 2.5)], pieces, 20.0)
    assert told([dialogue]) == [[("B", ["How many?"]), ("A", ["Let me think.", "Nine."])]]
    assert (dialogue.start_s, dialogue.end_s) == (0.6, 6.1 + 1.0 + 0.5)


def test_who_speaks_in_does_not_part_what_is_being_said() -> None:
    pieces = said((" It", 3.0), (" is", 3.4), (" nine", 3.8), (" or", 4.2), (" ten", 4.6))
    (dialogue,) = cut([heard("How many?", 1.0, 2.5), heard("Wait.", 3.9, 4.4)], pieces, 20.0)
    assert told([dialogue]) == [[("B", ["How many?"]), ("A", ["It is nine or ten"]), ("B", ["Wait."])]]


def test_a_greeting_comes_before_the_first_turn_of_the_caller() -> None:
    dialogues = cut([heard("Hello.", 3.0, 4.0)], said((" Hi", 0.2), (" there", 5.0)), 20.0)
    assert told(dialogues) == [[("A", ["Hi"]), ("B", ["Hello."]), ("A", ["there"])]]


def test_nobody_who_speaks_leaves_nothing() -> None:
    assert cut([heard("  ", 1.0, 2.0)], said((" ", 1.0)), 20.0) == []


TURNS = st.lists(st.tuples(st.floats(0.1, 20.0), st.floats(0.2, 8.0)), min_size=1, max_size=30)
PIECES = st.lists(st.floats(0.0, LENGTH_S - 2), max_size=80)


@given(TURNS, PIECES)
def test_every_word_is_in_one_dialogue_and_no_cut_goes_through_speech(
    turns: list[tuple[float, float]], times_s: list[float]
) -> None:
    heards: list[HeardTurn] = []
    at_s = 0.0
    for number, (gap_s, length_s) in enumerate(turns):
        start_s, at_s = at_s + gap_s, at_s + gap_s + length_s
        if at_s < LENGTH_S - 2:
            heards.append(heard(f"b{number}", start_s, at_s))
    pieces = said(*((f" a{number}", time_s) for number, time_s in enumerate(sorted(times_s))))
    dialogues = cut(heards, pieces, LENGTH_S)
    utterances = [each for dialogue in dialogues for turn in dialogue.turns for each in turn]
    words = sorted(word for each in utterances for word in each.text.split())
    assert words == sorted([each.text for each in heards] + [each.text.strip() for each in pieces])
    for before, after in pairwise(dialogues):
        assert before.end_s <= after.start_s
        last_s = max(each.end_s for turn in before.turns for each in turn)
        assert after.turns[0][0].start_s >= last_s + QUIET_S
    for dialogue in dialogues:
        speakers = [turn[0].speaker for turn in dialogue.turns]
        assert all(one != other for one, other in pairwise(speakers))
        inside = [each for turn in dialogue.turns for each in turn]
        starts = [each for each in inside if each.speaker == "B"]
        gaps = [
            each
            for each in starts[1:]
            if each.start_s - max(other.end_s for other in inside if other.start_s < each.start_s) >= QUIET_S
        ]
        assert dialogue.end_s - dialogue.start_s <= MOST_S + 1 or not gaps
