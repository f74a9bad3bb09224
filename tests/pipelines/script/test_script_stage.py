"""The stage: a dialogue or a reject for every item, decided by item, configuration and seed alone."""

import pytest

from data_schemas import arrow
from data_schemas.config import ScriptConfig
from data_schemas.records import Dialogue, Item
from pipelines.script.speakable import SPOKEN
from pipelines.script.stage import ScriptStage
from tests.builders import make_item


def item(number: int, question: str, answer: str, explanation: str | None = None) -> Item:
    where = {"item_id": f"made-{number}", "source": "made", "native_id": str(number), "revision": "r1"}
    return make_item(question, answer, explanation=explanation, category="sums", **where)


GOOD = item(1, "Ann has $5 and earns $2.50. How much has she?", "7.50", "She has $5 + $2.50 = $7.50")
FORMULA = item(2, "What is \\int x dx?", "x^2/2")
PICTURE = item(3, "What is shown in the figure?", "a cat")


def test_a_dialogue_of_question_and_answer() -> None:
    result = ScriptStage(ScriptConfig(), seed=3).run([(GOOD,)])
    assert result.rejects == []
    (dialogue,) = result.outputs
    user, assistant = dialogue.turns
    assert dialogue.dialogue_id == "made-1-v0"
    assert (dialogue.form, dialogue.variant, dialogue.split, dialogue.licence) == ("plain", 0, "train", "CC0-1.0")
    assert (user.speaker, assistant.speaker) == ("B", "A")
    assert user.written_text == GOOD.question
    assert user.spoken_text == ("Ann has five dollars and earns two dollars and fifty cents. How much has she?")
    assert assistant.body == assistant.spoken_text == assistant.utterances[0].spoken_text
    assert assistant.body.endswith("seven dollars and fifty cents.")
    assert (assistant.lead, assistant.tail) == (None, None)
    assert dialogue.provenance.script_method == "rules-2"
    assert dialogue.provenance.seed == 3


def test_refused_items_become_rejects_and_the_rest_go_on() -> None:
    result = ScriptStage(ScriptConfig(), seed=0).run([(FORMULA,), (GOOD,), (PICTURE,)])
    assert [dialogue.item_id for dialogue in result.outputs] == ["made-1"]
    assert [(reject.item_id, reject.source, reject.stage, reject.reason) for reject in result.rejects] == [
        ("made-2", "made", "script", "formula"),
        ("made-3", "made", "script", "needs_picture"),
    ]
    assert all(reject.detail for reject in result.rejects)


def test_limits_of_the_configuration_hold() -> None:
    result = ScriptStage(ScriptConfig(max_question_words=5), seed=0).run([(GOOD,)])
    assert [reject.reason for reject in result.rejects] == ["question_too_long"]


def test_the_same_item_gives_the_same_dialogue_in_any_batch() -> None:
    stage = ScriptStage(ScriptConfig(), seed=1)
    alone = stage.run([(GOOD,)]).outputs
    assert stage.run([(FORMULA,), (GOOD,), (PICTURE,)]).outputs == alone


def test_the_seed_chooses_among_phrasings() -> None:
    said = {ScriptStage(ScriptConfig(), seed).run([(GOOD,)]).outputs[0].turns[1].spoken_text for seed in range(20)}
    assert len(said) == 3
    assert all(SPOKEN.fullmatch(text) for text in said)


def test_dialogues_fit_their_schema() -> None:
    outputs = ScriptStage(ScriptConfig(), seed=1).run([(GOOD,)]).outputs
    assert arrow.from_table(arrow.to_table(outputs, Dialogue), Dialogue) == outputs


@pytest.mark.parametrize("changed", [ScriptStage(ScriptConfig(), 2), ScriptStage(ScriptConfig(max_answer_words=9), 1)])
def test_what_changes_the_output_matters(changed: ScriptStage) -> None:
    assert changed.matters() != ScriptStage(ScriptConfig(), 1).matters()
