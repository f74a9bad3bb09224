"""The simulator without a model: true answers of other items of the source, labelled so, the same in every run."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue, OracleRow
from pipelines.oracle.random_answers import RandomOracleStage
from pipelines.stage import StageResult
from tests.support.oracle_dialogues import FORMS, batch_of, plain

CONFIG = OracleConfig(simulator="random", version="random")
DIALOGUES = [
    make(group_id=f"q-{n}", item_id=f"mine-{n}", dialogue_id=f"mine-{n}-v0") for n, make in enumerate(FORMS * 2)
]


def run(*dialogues: Dialogue, seed: int = 0, **oracle: Any) -> StageResult[OracleRow]:
    return RandomOracleStage(CONFIG.model_copy(update=oracle), seed).run(batch_of(dialogues))


def others_answers(dialogue: Dialogue) -> dict[str, set[str]]:
    return {
        other.dialogue_id: {turn.body for turn in other.turns if turn.speaker == "A"}
        for other in DIALOGUES
        if other.group_id != dialogue.group_id
    }


def test_each_event_says_the_answer_to_another_question_and_whose_it_is() -> None:
    texts = set()
    for row, dialogue in zip(run(*DIALOGUES).outputs, DIALOGUES, strict=True):
        assert (row.simulator, row.model, row.endpoint, row.oracle_version) == ("random",) * 4
        for event in row.events:
            if event.status == "truth":
                assert event.text == dialogue.turns[event.turn_index + 1].body
            else:
                assert event.text in others_answers(dialogue)[event.taken_from or ""]
                assert (event.request_id, event.attempt) == (None, None)
                assert event.text != dialogue.turns[event.turn_index + 1].body
                texts.add(event.text)
    assert len(texts) > 1


def test_neither_the_order_of_a_part_nor_the_share_matters_and_the_seed_does() -> None:
    made = {row.dialogue_id: row for row in run(*DIALOGUES).outputs}
    assert {row.dialogue_id: row for row in run(*reversed(DIALOGUES)).outputs} == made
    other = {row.dialogue_id: row for row in run(*DIALOGUES, seed=1).outputs}
    assert {key: row.events for key, row in other.items()} != {key: row.events for key, row in made.items()}
    everything = {row.dialogue_id: row.events for row in run(*DIALOGUES).outputs}
    some = {row.dialogue_id: row.events for row in run(*DIALOGUES, share_to=0.5).outputs}
    assert 0 < len(some) < len(everything)
    assert some.items() <= everything.items()


def alone_beside(*parts: list[Dialogue]) -> StageResult[OracleRow]:
    """What is made of a part with one item, where its source has these other parts."""
    lone = plain(answers="It is Saturn.", dialogue_id="mine-99-v0", item_id="mine-99", group_id="q-99")

    def dialogues_of(source: str, split: str) -> Iterator[list[Dialogue]]:
        assert (source, split) == (lone.source, lone.split)
        yield [lone]
        yield from parts

    return RandomOracleStage(CONFIG, 0, dialogues_of).run(batch_of([lone]))


def test_an_item_that_is_alone_in_its_part_takes_answers_of_the_first_part_with_others() -> None:
    variant = plain(dialogue_id="mine-99-v1", item_id="mine-99", group_id="q-99")
    first, second = DIALOGUES[:2], DIALOGUES[2:]
    (row,) = alone_beside([variant], first, second).outputs
    taken = {event.taken_from for event in row.events if event.status == "answered"}
    assert taken <= {each.dialogue_id for each in first}
    assert taken
    assert alone_beside([variant], first).outputs == [row], "parts that come later change nothing"


def test_the_only_item_of_its_source_is_refused_for_that_and_tried_again() -> None:
    for result in (run(plain()), alone_beside()):
        assert result.outputs == []
        assert result.rejects[0].reason == "only_item_of_its_source"
        assert result.n_to_retry == 1, "the source may grow"
    variants = [plain(dialogue_id=f"mine-1-v{variant}", variant=variant) for variant in (0, 1)]
    assert run(*variants).outputs == [], "variants of one item are no others"


@pytest.mark.parametrize("version", ["random", "random-2", "mostly-random"])
def test_random_oracles_have_a_name_of_their_own(version: str) -> None:
    with pytest.raises(ValidationError, match="is reserved for simulator random"):
        OracleConfig(version=version)
    with pytest.raises(ValidationError, match="needs a version name"):
        OracleConfig(simulator="random")
