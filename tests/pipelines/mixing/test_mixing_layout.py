"""Early starts, interruptions and backchannels: where they lie, what is cut, what is refused; on the doubles."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.records import Dialogue, Placement, Utterance, WrittenSpan
from data_schemas.units import seconds_to_samples
from pipelines.audio import decode_flac, measure_rms_dbfs
from pipelines.quality.dialogue_rules import check_dialogue
from tests.support import mixed as made
from tests.support.builders import make_dialogue, make_turn, make_utterance
from tests.support.mixed import after, answer, at, channel, interrupt, mix, mixed, over, question, span, spoken


def nod(text: str, placement: Placement) -> Utterance:
    return make_utterance(text, kind="backchannel", placement=placement)


NODS = nod("Right.", over(1, 2, 0.1)), nod("I see.", over(1, 2, 0.2))
STOP = make_utterance("Wait.", placement=interrupt(2, 0.1))


def test_an_early_start_is_as_early_as_asked_or_a_reject_where_the_lead_is_too_short() -> None:
    row = mixed(made.early_start(0.4))
    end_s, start_s = at(row.turns[0].end_s, row.turns[1].start_s)
    assert end_s - start_s == pytest.approx(0.4, abs=1e-4)
    sound = decode_flac(row.flac)[seconds_to_samples(start_s) : seconds_to_samples(end_s)]
    assert measure_rms_dbfs(sound[:, 0]) > -40 < measure_rms_dbfs(sound[:, 1]), "both are heard"
    result = mix(made.early_start(0.5, "Good question indeed"))
    (reject,) = result.rejects
    assert (result.outputs, reject.item_id, reject.stage, reject.reason) == ([], "mine-1", "mixing", "lead_too_short")
    assert "0.87 s" in reject.detail


@pytest.mark.parametrize("lead", ["Good question let me", "Good question let me see", made.LEAD])
def test_a_lead_outlasts_the_question_by_a_second(lead: str) -> None:
    row = mixed(made.early_start(2.0, lead))
    end_s, start_s = at(row.turns[0].end_s, row.turns[1].start_s)
    assert 0.05 <= end_s - start_s < 2.0
    assert spoken(row.turns[1])[len(lead.split()) - 1].end_s - end_s == pytest.approx(1.0, abs=1e-3)


@settings(max_examples=20)
@given(word_index=st.integers(0, 4), seconds=st.floats(0, 0.3), seed=st.integers(0, 2**40))
def test_the_assistant_is_silent_within_300_ms_of_an_interruption(word_index: int, seconds: float, seed: int) -> None:
    row = mixed(made.interrupted(word_index, seconds), seed=seed)
    _, cut, stop, last = row.turns
    cut_s, stop_s, last_s = at(cut.cut_s, stop.start_s, last.start_s)
    assert stop_s == pytest.approx(spoken(cut)[word_index].end_s, abs=1e-4)
    assert cut_s - stop_s == pytest.approx(seconds, abs=1e-4)
    assert cut.end_s == cut.utterances[-1].end_s == cut_s
    own = channel(row, "A")
    assert measure_rms_dbfs(own[seconds_to_samples(stop_s + 0.3) : seconds_to_samples(last_s)]) < -60
    assert not own[seconds_to_samples(cut_s) : seconds_to_samples(last_s)].any(), "silent from the cut itself on"


def test_a_cut_is_faded_over_50_ms() -> None:
    within_a_word, at_its_end = 0.2, 0.3  # bursts of 0.25 s follow gaps of 0.06 s
    row, longer = mixed(made.interrupted(1, within_a_word)), mixed(made.interrupted(1, at_its_end))
    cut, whole = channel(row, "A"), channel(longer, "A")
    end = span(row.turns[1]).stop
    edges = range(end - seconds_to_samples(0.06), end + 1, seconds_to_samples(0.01))
    drops_db = [measure_rms_dbfs(whole[one:other]) - measure_rms_dbfs(cut[one:other]) for one, other in pairwise(edges)]
    assert drops_db[0] == 0, "nothing changes before the last 50 ms"
    assert drops_db == sorted(drops_db)
    assert drops_db[1] < 1
    assert drops_db[-1] > 20


def test_words_that_would_end_after_the_cut_are_in_no_field() -> None:
    spans = tuple(WrittenSpan(start_char=index, end_char=index + 1) for index in range(7))
    dialogue = made.interrupted(2, 0.2, answer_word_index=3)
    said = replace(dialogue.turns[1].utterances[0], written_spans=spans)
    planned = replace(dialogue.turns[1], utterances=(said,))
    turn = mixed(replace(dialogue, turns=(dialogue.turns[0], planned, *dialogue.turns[2:]))).turns[1]
    assert [word.word for word in spoken(turn)] == ["It", "is", "as"]
    assert turn.spoken_text == turn.utterances[0].spoken_text == "It is as"
    assert turn.utterances[0].written_spans == spans[:3]
    assert (turn.answer_word_index, turn.keyword_delay_s) == (None, None)
    assert (turn.written_text, turn.body) == (planned.written_text, planned.body)


def test_what_was_heard_before_the_cut_stays_and_the_last_word_is_not_cut() -> None:
    turn = mixed(made.interrupted(3, 0.1, answer_word_index=3)).turns[1]
    assert turn.answer_word_index == 3
    assert turn.keyword_delay_s == pytest.approx(3 * 0.31, abs=1e-3)
    whole = mixed(made.interrupted(6, 0.3)).turns[1]
    assert (whole.cut_s, len(spoken(whole))) == (None, 7)


def test_breaths_after_a_cut_are_not_said_at_all() -> None:
    dialogue = made.interrupted(1, 0.3)
    breaths = [make_utterance("It is as"), make_utterance("blue as", placement=after(0.1)), make_utterance("the sky.")]
    row = mixed(replace(dialogue, turns=(dialogue.turns[0], make_turn(1, "A", breaths), *dialogue.turns[2:])))
    turn = row.turns[1]
    assert (len(turn.utterances), turn.spoken_text) == (1, "It is")
    assert list(check_dialogue(row)) == []


def test_a_backchannel_lies_over_the_turn_that_goes_on() -> None:
    row = mixed(made.backchannelled(2, 0.05))
    aside = row.turns[0].utterances[1]
    start_s, end_s = at(aside.start_s, aside.end_s)
    assert start_s == pytest.approx(spoken(row.turns[1])[2].end_s + 0.05, abs=1e-4)
    sound = decode_flac(row.flac)[seconds_to_samples(start_s) : seconds_to_samples(end_s)]
    assert measure_rms_dbfs(sound[:, 0]) > -40 < measure_rms_dbfs(sound[:, 1])
    assert row.turns[0].end_s == row.turns[0].utterances[0].end_s, "a turn is its speech"
    assert row.turns[0].spoken_text == row.turns[0].utterances[0].spoken_text


def test_what_comes_after_does_not_wait_for_a_backchannel_of_the_other() -> None:
    other = replace(answer(), utterances=(nod("Yes.", over(0, 7, 0.25)), *answer(after(0.1)).utterances))
    row = mixed(make_dialogue(question(), other, make_turn(2, "B", [make_utterance("Fine.", placement=after(0.1))])))
    said = row.turns[1].utterances
    aside_end_s, own_s, question_end_s = at(said[0].end_s, said[1].start_s, row.turns[0].end_s)
    assert aside_end_s > question_end_s
    assert own_s - aside_end_s == pytest.approx(0.1, abs=1e-4), "its own speaker takes a breath after it"
    assert at(row.turns[2].start_s)[0] - at(row.turns[1].end_s)[0] == pytest.approx(0.1, abs=1e-4)


@pytest.mark.parametrize(
    ("dialogue", "reason"),
    [
        (made.interrupted(7), "word_not_said"),
        (made.backchannelled(7), "word_not_said"),
        (make_dialogue(make_turn(0, "B", [*question().utterances, *NODS]), answer()), "no_room"),
        (make_dialogue(made.backchannelled(5).turns[0], answer(), make_turn(2, "B", [STOP])), "no_room"),
    ],
    ids=["interrupted at no word", "backchannel at no word", "two backchannels at once", "backchannel after the cut"],
)
def test_placements_that_cannot_be_are_rejects(dialogue: Dialogue, reason: str) -> None:
    result = mix(dialogue)
    assert (result.outputs, [each.reason for each in result.rejects]) == ([], [reason])


@pytest.mark.parametrize(
    "placement",
    [
        Placement(rule="between", seconds=None, turn_index=None, word_index=None),
        Placement(rule="interrupt", seconds=0.1, turn_index=None, word_index=None),
        Placement(rule="interrupt", seconds=None, turn_index=None, word_index=2),
    ],
)
def test_a_placement_that_says_nothing_is_a_fault_of_the_script(placement: Placement) -> None:
    with pytest.raises(ValueError, match="place"):
        mix(make_dialogue(question(), answer(), make_turn(2, "B", [make_utterance("Wait.", placement=placement)])))


def test_a_backchannel_over_no_turn_is_a_fault_of_the_script() -> None:
    with pytest.raises(ValueError, match="no turn to be said over"):
        mix(make_dialogue(question(), make_turn(1, "A", [*answer().utterances, nod("Right.", over(9, 0, 0.1))])))


@st.composite
def dialogues(draw: st.DrawFn) -> Dialogue:
    """A question in one or two breaths, an answer that may start early, and an interruption; asides by both."""
    words = st.integers(1, 9).map(lambda n: " ".join(["word"] * n))

    def asides(turn: int) -> list[Utterance]:
        places = draw(st.lists(st.builds(over, st.just(turn), st.integers(0, 8), st.floats(0, 0.5)), max_size=2))
        return [nod("Right.", place) for place in places]

    breaths = [make_utterance(draw(words))]
    if draw(st.booleans()):
        breaths.append(make_utterance(draw(words), placement=after(draw(st.none() | st.floats(0, 2)))))
    lead = draw(st.none() | words)
    starts = draw(st.just(after()) | st.floats(0.05, 1).map(made.early)) if lead else after()
    text = " ".join(filter(None, (lead, draw(words))))
    turns = [
        make_turn(0, "B", [*breaths, *asides(1)]),
        make_turn(1, "A", [*asides(0), make_utterance(text, placement=starts)], lead=lead, answer_word_index=0),
    ]
    if draw(st.booleans()):
        stop = interrupt(draw(st.integers(0, 8)), draw(st.floats(0, 0.3)))
        turns.append(make_turn(2, "B", [make_utterance(draw(words), placement=draw(st.just(stop) | st.just(after())))]))
        turns.append(make_turn(3, "A", [make_utterance(draw(words))]))
    return make_dialogue(*turns)


@settings(max_examples=60)
@given(dialogue=dialogues(), seed=st.integers(0, 2**40))
@pytest.mark.full
def test_a_dialogue_of_any_form_is_refused_or_breaks_no_rule(dialogue: Dialogue, seed: int) -> None:
    result = mix(dialogue, seed=seed)
    for row in result.outputs:
        assert list(check_dialogue(row)) == []
        asked = any(said.placement.rule != "after" for turn in dialogue.turns for said in turn.utterances)
        speech = [said for turn in row.turns for said in turn.utterances]
        for one, other in pairwise(speech):
            assert asked or at(one.end_s)[0] <= at(other.start_s)[0], "nobody overlaps unless asked to"
    assert {each.reason for each in result.rejects} <= {"lead_too_short", "word_not_said", "no_room"}
