"""A model's wording is taken when it says the same, and never otherwise."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backends.chat.protocol import Endpoint
from data_schemas.errors import RequestError
from data_schemas.records import Dialogue, Placement
from pipelines.stage import StageResult
from pipelines.wording.faithful import NotFaithful, check_wording
from pipelines.wording.stage import MAX_ATTEMPTS, WordingStage
from spoken.spoken_text import split_words
from tests.support.builders import make_dialogue, make_turn, make_utterance
from tests.support.oracle_dialogues import Scripted

MODEL = Endpoint(name="test", base_url="", model="wordy", model_digest="1")
QUESTION = "How many eggs are left when Anna sells nine of sixteen eggs?"
ANSWER = "Sixteen minus nine is seven, so seven eggs are left."
NEW_QUESTION = "If Anna sells nine of her sixteen eggs, how many eggs are left?"
NEW_ANSWER = "Well, sixteen minus nine is seven, so there are seven eggs left."


def wordy(word: Callable[[str, int], str | RequestError]) -> Scripted:
    """A model that words questions and answers by a function of kind and attempt."""

    def answer(payload: dict[str, Any], attempt: int) -> str | Exception:
        return word("question" if "Say this question" in payload["messages"][1]["content"] else "answer", attempt)

    return Scripted(answer)


def dialogue() -> Dialogue:
    lead, tail = "Let me see.", "Does that help?"
    said = f"{lead} {ANSWER} {tail}"
    answer = make_turn(1, "A", [make_utterance(said)], lead=lead, body=ANSWER, tail=tail, answer_word_index=7)
    return make_dialogue(make_turn(0, "B", [make_utterance(QUESTION)]), answer, answer="7 eggs")


def run(client: Scripted | None, *dialogues: Dialogue) -> StageResult[Dialogue]:
    stage = WordingStage(MODEL if client else None, 0)
    batch = [(each,) for each in dialogues]
    return stage.run(batch) if client is None else asyncio.run(stage.run_with(batch, client))


def good(kind: str, attempt: int) -> str:
    return NEW_QUESTION if kind == "question" else NEW_ANSWER.replace("seven eggs left", "seven eggs left over")


def test_question_and_body_are_worded_anew_and_lead_and_tail_stay() -> None:
    (new,) = run(wordy(good), dialogue()).outputs
    question, answer = new.turns
    assert question.spoken_text == question.body == NEW_QUESTION
    assert answer.spoken_text == f"{answer.lead} {answer.body} {answer.tail}"
    assert answer.body.startswith("Well, sixteen minus nine")
    assert answer.answer_word_index is not None
    assert split_words(answer.spoken_text)[answer.answer_word_index :][:2] == ["seven", "eggs"]
    assert new.provenance.script_method == "made; turns 0, 1 by wordy"
    for turn in new.turns:
        (utterance,) = turn.utterances
        words = split_words(utterance.spoken_text)
        assert [turn.written_text[span.start_char : span.end_char] for span in utterance.written_spans] == words


def test_the_answer_mark_is_on_the_whole_number_that_answers() -> None:
    body = "Thirty six take away thirty is six, so six."
    told = make_turn(1, "A", [make_utterance(body)], body=body, answer_word_index=8)
    asked = make_turn(0, "B", [make_utterance("What is thirty six minus thirty, can you say?")])
    client = wordy(lambda kind, attempt: "Thirty six take away thirty leaves six, and so it is six.")
    (new,) = run(client, make_dialogue(asked, told, answer="6")).outputs
    assert new.turns[1].answer_word_index == 11


def test_an_unfaithful_wording_is_asked_for_again() -> None:
    client = wordy(lambda kind, attempt: "How many?" if attempt == 0 else good(kind, attempt))
    (new,) = run(client, dialogue()).outputs
    assert new.turns[0].spoken_text == NEW_QUESTION
    assert len({payload["seed"] for payload, _ in client.asked}) == len(client.asked) == 4


def test_what_failed_leaves_the_rules_words_and_a_request_is_for_a_later_run() -> None:
    wrong = "It is eight eggs, I think so."
    client = wordy(lambda kind, attempt: good(kind, attempt) if kind == "question" else wrong)
    (new,) = run(client, dialogue()).outputs
    assert new.turns[1] == dialogue().turns[1]
    assert new.provenance.script_method == "made; turns 0 by wordy"
    assert len(client.asked) == 1 + MAX_ATTEMPTS
    result = run(wordy(lambda kind, attempt: RequestError("no answer", "later")), dialogue())
    assert (result.outputs, result.n_to_retry) == ([dialogue()], 2)
    assert run(None, dialogue()).outputs == [dialogue()]


def test_turns_whose_words_are_counted_on_keep_them() -> None:
    cut_in = make_utterance("Wait, just the number.", placement=Placement(
        rule="interrupt", seconds=0.2, turn_index=None, word_index=4))  # fmt: skip
    first = make_utterance("How many eggs are left", placement=Placement(
        rule="after", seconds=None, turn_index=None, word_index=None))  # fmt: skip
    turns = (
        make_turn(0, "B", [first, make_utterance("when Anna sells nine of sixteen eggs?")]),
        *(make_turn(1, "A", [make_utterance(ANSWER)], answer_word_index=4), make_turn(2, "B", [cut_in])),
    )
    client = wordy(good)
    assert run(client, make_dialogue(*turns, answer="7 eggs")).outputs[0].turns == turns
    assert client.asked == []


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("If Anna has fifteen eggs and sells nine, how many eggs are left?", "numbers"),
        ("If Anna has nine eggs and sells sixteen, how many eggs are left?", "numbers"),
        ("If she has sixteen eggs and sells nine, how many eggs are left?", "without anna"),
        ("Anna has sixteen eggs and sells nine and then some eggs are left.", "question for a statement"),
        ("If Anna has sixteen eggs and does not sell nine, how many are left?", "1 negations for 0"),
        ("If Anna has sixteen eggs and sells nine, is it seven eggs?", "numbers"),
        ("How many?", "2 words"),
        (QUESTION, "same words"),
        ("", "cannot be said"),
    ],
)
def test_what_makes_a_question_unfaithful(raw: str, why: str) -> None:
    said = raw if raw == QUESTION else "How many eggs are left when Anna has sixteen eggs and sells nine?"
    with pytest.raises(NotFaithful, match=why):
        check_wording(raw, said, "seven eggs", must_answer=False)


def test_a_question_must_not_give_the_answer_away_nor_an_answer_be_without_it() -> None:
    asked = "What is the capital city of France, do you know it?"
    with pytest.raises(NotFaithful, match="gives the answer away"):
        check_wording("Is Paris the capital city of France, do you know?", asked, "Paris", must_answer=False)
    raw = "How many of her thirty six eggs has Anna left?"
    kept = check_wording(raw, "How many are left of the thirty six eggs that Anna had?", "six", must_answer=False)
    assert kept.text == raw, "a part of another number gives no answer away"
    with pytest.raises(NotFaithful, match="without the answer"):
        check_wording("Sixteen minus nine is seven so it is seven of them.", ANSWER, "seven eggs", must_answer=True)


def test_a_question_that_reads_out_options_and_one_that_is_corrected_keep_their_words() -> None:
    options = make_turn(0, "B", [make_utterance("What do plants make by day, is it sugar, stone, or steel?")])
    said = make_turn(1, "A", [make_utterance("The answer is sugar, that is what plants make.")], answer_word_index=3)
    taken_back = dialogue()
    client = wordy(good)
    asked = make_dialogue(options, replace(said, answer_word_index=None), answer="sugar")
    made = run(client, asked, replace(taken_back, dialogue_id="other", form="self_correction")).outputs
    assert made[0].turns[0] == options
    assert made[1].turns == taken_back.turns
    assert client.asked == []
