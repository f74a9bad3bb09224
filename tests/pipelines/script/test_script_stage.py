"""The stage: dialogues or a reject for every item, decided by item, configuration and seed alone."""

import pickle
import traceback
from collections import Counter
from pathlib import Path

import pytest

from data_schemas.config import FormsConfig, ScriptConfig, SourceConfig, SplitConfig
from data_schemas.records import Item
from pipelines.script.stage import ScriptStage
from pipelines.sources.items import read_items
from spoken.reader import SPOKEN
from tests.support.builders import make_forms, make_item

pytestmark = pytest.mark.full


def item(number: int, question: str, answer: str, explanation: str | None = None) -> Item:
    where = {"item_id": f"made-{number}", "source": "made", "native_id": str(number), "revision": "r1"}
    return make_item(question, answer, explanation=explanation, category="sums", **where)


GOOD = item(1, "Ann has $5 and earns $2.50. How much has she?", "7.50", "She has $5 + $2.50 = $7.50")
FOREIGN = item(2, "What is \u91d1 in English?", "gold")
PICTURE = item(3, "What is shown in the figure?", "a cat")
BARE = make_forms("plain", share_without_lead=1.0, tail_share=0.0)


def stage(forms: FormsConfig | None = None, variants: float = 1.0, seed: int = 1) -> ScriptStage:
    return ScriptStage(ScriptConfig(), forms or FormsConfig(), variants, seed)


def sums(n: int) -> list[Item]:
    return [
        item(k, f"Ann has {k} apples, and Bob gives her {k + 3} more today. How many apples has Ann?",
             str(2 * k + 3), f"Ann has {k} + {k + 3} = {2 * k + 3} apples")
        for k in range(n)
    ]  # fmt: skip


def test_a_dialogue_of_question_and_answer() -> None:
    result = stage(BARE, seed=3).run([(GOOD,)])
    assert result.rejects == []
    (dialogue,) = result.outputs
    user, assistant = dialogue.turns
    assert dialogue.dialogue_id == "made-1-v0"
    assert (dialogue.form, dialogue.variant, dialogue.split, dialogue.licence) == ("plain", 0, "train", "CC0-1.0")
    assert (dialogue.question, dialogue.answer) == (GOOD.question, GOOD.answer)
    assert (user.speaker, assistant.speaker) == ("B", "A")
    assert user.written_text == GOOD.question
    assert user.spoken_text == ("Ann has five dollars and earns two dollars and fifty cents. How much has she?")
    assert assistant.body == assistant.spoken_text == assistant.utterances[0].spoken_text
    assert assistant.body.endswith("seven dollars and fifty cents.")
    assert (assistant.lead, assistant.tail) == (None, None)
    assert dialogue.provenance.script_method == "rules-13"
    assert dialogue.provenance.seed == 3


def test_refused_items_become_rejects_and_the_rest_go_on_as_in_any_batch() -> None:
    result = stage(BARE).run([(FOREIGN,), (GOOD,), (PICTURE,)])
    assert [dialogue.item_id for dialogue in result.outputs] == ["made-1"]
    rejects = [(reject.item_id, reject.source, reject.stage, reject.reason) for reject in result.rejects]
    assert rejects == [("made-2", "made", "script", "non_latin"), ("made-3", "made", "script", "needs_picture")]
    assert all(reject.detail for reject in result.rejects)
    alone = stage(variants=2.5).run([(GOOD,)]).outputs
    assert stage(variants=2.5).run([(FOREIGN,), (GOOD,), (PICTURE,)]).outputs == alone


def test_of_many_items_dialogues_forms_leads_and_tails_have_their_shares_and_no_two_say_the_same() -> None:
    many, config = stage(variants=1.9).run([(each,) for each in sums(240)]).outputs, FormsConfig()
    per_item = Counter(dialogue.item_id for dialogue in many)
    assert set(per_item.values()) == {1, 2}
    assert len(many) / 240 == pytest.approx(1.9, abs=0.05)
    assert len({dialogue.dialogue_id for dialogue in many}) == len(many)
    counted = Counter(dialogue.form for dialogue in many)
    for name, share in config.shares.model_dump().items():
        assert abs(counted[name] / len(many) - share) < 0.04, name
    answers = [each.turns[1] for each in many if each.form in {"plain", "two_breaths", "backchannel", "thinking_pause"}]
    shares = [sum(turn.lead is None for turn in answers), sum(turn.tail is not None for turn in answers)]
    wanted = [config.share_without_lead, config.tail_share]
    assert [n / len(answers) for n in shares] == pytest.approx(wanted, abs=0.06)
    outputs = many + stage(variants=8.0, seed=9).run([(each,) for each in sums(5)]).outputs
    said = {(each.provenance.seed, each.item_id, *(turn.spoken_text for turn in each.turns)) for each in outputs}
    assert len(said) == len(outputs) == len(many) + 40


def test_real_items_give_dialogues_that_can_be_said_and_differ(shared_data: Path) -> None:
    files = {"gsm8k": "gsm8k_train.jsonl.gz", "mmlu_pro": "mmlu_pro_even.jsonl.gz"}
    for name, file in files.items():
        source = SourceConfig(name=name, path=str(shared_data / file))
        outputs = stage(variants=3.0).run([(each,) for each in read_items(source, 25, SplitConfig()).items]).outputs
        texts = [[each.spoken_text for turn in dialogue.turns for each in turn.utterances] for dialogue in outputs]
        assert len(outputs) >= 30
        assert all(SPOKEN.fullmatch(text) for said in texts for text in said)
        assert len({(dialogue.item_id, *said) for dialogue, said in zip(outputs, texts, strict=True)}) == len(outputs)


def test_an_item_that_no_form_fits_or_that_cannot_vary_is_told() -> None:
    result = stage(make_forms("two_breaths")).run([(item(1, "What is gold?", "a metal"),)])
    assert result.outputs == []
    assert [reject.reason for reject in result.rejects] == ["no_form_fits"]
    result = stage(BARE, variants=8.0).run([(item(1, "What is one and one?", "Just two, nothing else"),)])
    assert 1 <= len(result.outputs) < 8
    assert [reject.reason for reject in result.rejects] == ["no_other_variant"]


def test_a_form_that_does_not_fit_leaves_its_share_to_the_others() -> None:
    short = [item(k, "What is gold?", "a metal") for k in range(60)]
    forms = make_forms("two_breaths", "backchannel", "plain", "greeting")
    assert {each.form for each in stage(forms).run([(each,) for each in short]).outputs} == {"plain", "greeting"}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("word " * 2000 + "?", "yes"), ("\u05de\u05d4 \u05d6\u05d4?", "\u05d6\u05d4"),
        ("What is \U0001f600?", "a face"), ("What\x00 is \x1b[31mred?", "a colour"),
        ("<b>What</b> is <i>x</i>?", "a letter"), ("x^2 + 1 = 0", "x = i"), ("Which of these?", ""), ("?", "!"),
        ("______", "gold"), ("Why, why, why? No. Yes. U.S. or U.K., and if so, when?", "U.S."),
    ],
)  # fmt: skip
def test_a_hostile_item_gives_dialogues_that_can_be_said_or_a_reject(question: str, answer: str) -> None:
    result = stage(variants=8.0).run([(item(1, question, answer),)])
    assert bool(result.outputs) != any(reject.reason != "no_other_variant" for reject in result.rejects)
    for dialogue in result.outputs:
        for turn in dialogue.turns:
            assert all(SPOKEN.fullmatch(each.spoken_text) for each in turn.utterances)


def test_what_changes_the_output_matters() -> None:
    shorter = ScriptStage(ScriptConfig(max_answer_words=9), FormsConfig(), 1.0, 1)
    others = [stage(FormsConfig(tail_share=0.5)), stage(make_forms("plain")), shorter]
    found = [str(each.get_fingerprint_fields()) for each in (stage(), stage(seed=2), stage(variants=2.0), *others)]
    assert len(set(found)) == len(found)


def test_a_lexicon_of_ones_own_comes_first_and_counts_for_identity(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text("Natalia\tNah tah lee ah\n", encoding="utf-8")
    asked = make_item("Natalia has 5 clips. How many clips has she?", "5")
    forms = make_forms("plain")
    plain, own = (ScriptStage(ScriptConfig(lexicon=path), forms, 1.0, 0) for path in (None, str(tmp_path / "mine.tsv")))
    assert "Nah tah lee ah has five clips." in own.run([(asked,)]).outputs[0].turns[0].spoken_text
    assert "Natalia has five clips." in plain.run([(asked,)]).outputs[0].turns[0].spoken_text
    assert own.get_fingerprint_fields() != plain.get_fingerprint_fields()


def test_a_fault_of_a_rule_names_its_item_also_across_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("XIX")

    monkeypatch.setattr("pipelines.script.stage.make_exchange", fails)
    with pytest.raises(KeyError) as fault:
        stage(BARE).run([(GOOD,)])
    arrived = pickle.loads(pickle.dumps(fault.value))
    assert "made-1" in "".join(traceback.format_exception(arrived))
