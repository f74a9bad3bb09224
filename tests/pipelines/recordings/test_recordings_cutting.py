"""A transcript to turns and dialogues, whatever was said when."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from data_schemas.records import HeardTurn, RecordedVoice, SaidPiece
from pipelines.recordings.cutting import MOST_S, QUIET_S, CutDialogue, cut_session

LENGTH_S = 600.0


def voice(start_s: float, mode: str, name: str = "front-end", back_end: str = "default") -> RecordedVoice:
    return RecordedVoice(start_s=start_s, mode=mode, back_end=back_end, voice=name)


ALONE = [voice(0.0, "tandem")]


def heard(text: str, start_s: float, end_s: float) -> HeardTurn:
    return HeardTurn(text=text, start_s=start_s, end_s=end_s)


def said(*pieces: tuple[str, float]) -> list[SaidPiece]:
    return [SaidPiece(text=text, time_s=time_s) for text, time_s in pieces]


def told(pieces: list[CutDialogue]) -> list[list[tuple[str, list[str]]]]:
    return [[(turn[0].speaker, [each.text for each in turn]) for turn in piece.turns] for piece in pieces]


def test_pieces_of_words_are_joined_and_parted_by_a_pause_and_not_by_who_speaks_in() -> None:
    pieces = said((" Let", 3.0), (" me", 3.1), (" thin", 3.2), ("k.", 3.3), (" Nine", 6.0), (".", 6.1))
    (dialogue,) = cut_session([heard("How many?", 1.0, 2.5)], pieces, ALONE, 20.0)
    assert told([dialogue]) == [[("B", ["How many?"]), ("A", ["Let me think.", "Nine."])]]
    assert (dialogue.start_s, dialogue.end_s) == (0.6, 6.1 + 1.0 + 0.5)
    pieces = said((" It", 3.0), (" is", 3.4), (" nine", 3.8), (" or", 4.2), (" ten", 4.6))
    (dialogue,) = cut_session([heard("How many?", 1.0, 2.5), heard("Wait.", 3.9, 4.4)], pieces, ALONE, 20.0)
    assert told([dialogue]) == [[("B", ["How many?"]), ("A", ["It is nine or ten"]), ("B", ["Wait."])]]


def test_a_greeting_comes_before_the_first_turn_of_the_caller_and_silence_leaves_nothing() -> None:
    dialogues = cut_session([heard("Hello.", 3.0, 4.0)], said((" Hi", 0.2), (" there", 5.0)), ALONE, 20.0)
    assert told(dialogues) == [[("A", ["Hi"]), ("B", ["Hello."]), ("A", ["there"])]]
    assert cut_session([heard("  ", 1.0, 2.0)], said((" ", 1.0)), ALONE, 20.0) == []


def test_another_mode_begins_a_dialogue_with_its_own_voice_and_another_chat_model_does_not() -> None:
    voices = [*ALONE, voice(7.0, "cascade", "kokoro/af_heart")]
    asked, pieces = [heard("How many?", 1.0, 2.0), heard("And now?", 7.4, 8.5)], [(" Nine", 3.0), (" eggs", 3.5)]
    dialogues = cut_session(asked, said(*pieces, (" Ten", 10.0)), voices, 20.0)
    assert told(dialogues) == [[("B", ["How many?"]), ("A", ["Nine eggs"])], [("B", ["And now?"]), ("A", ["Ten"])]]
    assert [[each.mode for each in dialogue.voices] for dialogue in dialogues] == [["tandem"], ["cascade"]]
    assert dialogues[1].start_s == 7.0, "not the sound of the other voice"
    voices = [*ALONE, voice(3.2, "tandem", back_end="math")]
    (dialogue,) = cut_session([heard("How many?", 1.0, 2.0)], said((" Nine", 3.0), (" eggs", 3.5)), voices, 20.0)
    assert list(dialogue.voices) == ALONE


@given(st.lists(st.floats(0.1, 59.0), max_size=6, unique=True), st.lists(st.floats(0.0, 58.0), max_size=40))
def test_no_dialogue_of_one_voice_holds_sound_of_another(changes_s: list[float], times_s: list[float]) -> None:
    modes = ["cascade", "tandem"] * 3
    voices = [*ALONE, *(voice(at_s, mode, mode) for at_s, mode in zip(sorted(changes_s), modes, strict=False))]
    heards = [heard(f"b{number}", 4.0 * number, 4.0 * number + 1.5) for number in range(14)]
    pieces = said(*((f" a{number}", time_s) for number, time_s in enumerate(sorted(times_s))))
    for dialogue in cut_session(heards, pieces, voices, 60.0):
        inside = [each for each in changes_s if dialogue.start_s < each < dialogue.end_s]
        assert len(dialogue.voices) == 1 + len(inside)
        assert dialogue.voices[0] == [each for each in voices if each.start_s <= dialogue.start_s][-1]


TURNS = st.lists(st.tuples(st.floats(0.1, 20.0), st.floats(0.2, 8.0)), min_size=1, max_size=30)
PIECES = st.lists(st.floats(0.0, LENGTH_S - 2), max_size=80)


@given(TURNS, PIECES)
def test_words_are_in_one_dialogue_and_no_cut_in_speech(turns: list[tuple[float, float]], times_s: list[float]) -> None:
    heards: list[HeardTurn] = []
    at_s = 0.0
    for number, (gap_s, length_s) in enumerate(turns):
        start_s, at_s = at_s + gap_s, at_s + gap_s + length_s
        if at_s < LENGTH_S - 2:
            heards.append(heard(f"b{number}", start_s, at_s))
    pieces = said(*((f" a{number}", time_s) for number, time_s in enumerate(sorted(times_s))))
    dialogues = cut_session(heards, pieces, ALONE, LENGTH_S)
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
