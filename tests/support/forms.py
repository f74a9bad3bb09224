"""Dialogues of chosen forms, for the tests of each."""

from data_schemas.config import ScriptConfig
from data_schemas.records import Dialogue, Item, Turn
from pipelines.script.stage import ScriptStage
from tests.support.builders import make_forms, make_item

SUM = "Ann has 5 apples in a basket, and Bob gives her 7 more of them. If she eats 2, how many apples does she have?"
STEP = "Ann had 5 + 7 = 12 apples\nShe has 12 - 2 = 10 apples left"
METALS = ("gold", "iron", "copper", "zinc", "silver", "lead")


def sums(n: int) -> list[Item]:
    """Makes `n` items of the same sum, with its steps."""
    return [make_item(SUM, "10", explanation=STEP, item_id=f"mine-{k}") for k in range(n)]


def metals(n: int) -> list[Item]:
    """Makes `n` items of the same multiple-choice question."""
    fields = {"options": METALS, "answer_index": 0}
    return [
        make_item("Which metal keeps its shine in wet air for ages?", "gold", item_id=f"mine-{k}", **fields)
        for k in range(n)
    ]


def written(items: list[Item], *names: str, **fields: float) -> list[Dialogue]:
    """Writes a dialogue for each item in one of the named forms, and asserts that none is rejected.

    Args:
        fields: further settings of forms.
    """
    stage = ScriptStage(ScriptConfig(), make_forms(*names, **fields), 1.0, seed=1)
    result = stage.run([(item,) for item in items])
    assert result.rejects == []
    return result.outputs


def said(turn: Turn) -> str:
    """Returns the text of a turn's utterances without backchannels."""
    return " ".join(each.spoken_text for each in turn.utterances if each.kind == "speech")


def all_of(*parts: str | None) -> str:
    """Joins parts by spaces; empty ones and None are left out."""
    return " ".join(part for part in parts if part)
