"""Level 0 knows nothing: items of every source, in every form, through script and stage, with all our prompts.

It is sent the same where all that was not said is blotted out; that this finds a broken stage or scheduler is seen.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from data_schemas.config import ChatConfig, OracleConfig, ScriptConfig
from data_schemas.records import Dialogue, Item, Turn, Utterance, WordTiming
from pipelines.asking import run_alone
from pipelines.oracle import plan as planning
from pipelines.oracle import stage as asking
from pipelines.oracle.plan import plan_dialogue
from pipelines.oracle.prompts import choose_prompts, list_prompt_sets, make_payload
from pipelines.oracle.schedule import Tick, list_words, make_ticks
from pipelines.quality.knowledge_rules import mask_future
from pipelines.script.forms.table import FORMS
from pipelines.script.stage import ScriptStage
from spoken.conversation import ROLES, format_history_line
from tests.support.builders import make_forms, make_item
from tests.support.oracle_dialogues import Scripted, batch_of, laid_out, opened, oracle_stage

pytestmark = pytest.mark.full


ASKED = [
    "apples", "basket", "boxes", "bottles", "farmer", "garden", "market", "neighbour", "river", "school", "teacher",
]  # fmt: skip
ANSWERED = [
    "anchors", "badgers", "candles", "dragons", "falcons", "goblets", "hammers", "lanterns", "saddles", "violins",
]  # fmt: skip
"""Words of answers alone: neither questions nor prompts nor ready-made phrases have them."""


def gsm8k(asked: Sequence[str], answered: Sequence[str], n: int) -> Item:
    one, two, three, four = asked[:4]
    question = (
        f"Anna buys {n} {one} for the {two} in the morning, and Ben brings her {n + 2} more of them from the {three}. "
        f"If she gives one of them to the {four}, how many of them are there in the end?"
    )
    steps = f"Anna and Ben have {n} + {n + 2} = {2 * n + 2} {answered[0]}\nThen there are {2 * n + 1} {answered[1]}"
    return make_item(question, str(2 * n + 1), explanation=steps, source="gsm8k", item_id="gsm8k-1")


def mmlu_pro(asked: Sequence[str], answered: Sequence[str], n: int) -> Item:
    question = f"Which of these does the {asked[0]} keep near the {asked[1]}, when there is no {asked[2]} at all?"
    place = n % len(answered)
    fields: dict[str, Any] = {"options": tuple(answered), "answer_index": place, "source": "mmlu_pro"}
    return make_item(question, answered[place], item_id="mmlu_pro-1", **fields)


def hssbench(asked: Sequence[str], answered: Sequence[str], n: int) -> Item:
    question = f"In a picture of the {asked[0]} there is a {asked[1]} behind the {asked[2]}. What would one call it?"
    return make_item(question, f"the {answered[0]} and {n} {answered[1]}", source="hssbench", item_id="hssbench-1")


def mine(asked: Sequence[str], answered: Sequence[str], n: int) -> Item:
    question = f"What is it, when it is late, that the {asked[0]} at the {asked[1]} needs for {n} of the {asked[2]}?"
    return make_item(question, f"some {' and '.join(answered[:3])}")


SOURCES: tuple[Callable[[Sequence[str], Sequence[str], int], Item], ...] = (gsm8k, mmlu_pro, hssbench, mine)

ITEMS = st.fixed_dictionaries(
    {
        "asked": st.permutations(ASKED).map(lambda words: words[:4]),
        "answered": st.permutations(ANSWERED).map(lambda words: words[:4]),
        "n": st.integers(3, 60),
    }
)
CONFIGS = st.builds(
    OracleConfig,
    both_directions=st.booleans(),
    interval_s=st.sampled_from([0.2, 0.5, 1.1]),
    max_requests_per_turn=st.sampled_from([5, 40]),
    prompt=st.sampled_from(list_prompt_sets()),
)


def written(item: Item, form: str, seed: int) -> Dialogue | None:
    """The item as the script stage writes it in a form, on the clock; None where the form does not fit it."""
    made = ScriptStage(ScriptConfig(), make_forms(form), 1.0, seed).run([(item,)]).outputs
    return laid_out(made[0]) if made and made[0].form == form else None


def sooner(dialogue: Dialogue, by_s: float) -> Dialogue:
    """The dialogue with each turn so much sooner after the one before, or into it."""

    def moved(utterance: Utterance, shift_s: float) -> Utterance:
        words = (replace(w, start_s=w.start_s - shift_s, end_s=w.end_s - shift_s) for w in utterance.words)
        return replace(utterance, words=tuple(words))

    turns = (
        replace(turn, utterances=tuple(moved(each, by_s * turn.turn_index) for each in turn.utterances))
        for turn in dialogue.turns
    )
    return replace(dialogue, turns=tuple(turns))


def sent_at_level_0(dialogue: Dialogue, config: OracleConfig) -> Iterator[tuple[int, float, str]]:
    """Place and time of each event of level 0 that asks, and what the stage sent for it."""
    model = Scripted()
    (row,) = run_alone(oracle_stage(config), batch_of([dialogue]), opened(model)).outputs
    for place, event in enumerate(row.events):
        if event.level == 0 and event.status == "answered":
            assert event.request_id is not None
            payload, _ = model.asked[int(event.request_id.removeprefix("request-")) - 1]
            yield place, event.t_s, json.dumps(payload)


def of_blind(dialogue: Dialogue, t_s: float, place: int, config: OracleConfig) -> str:
    """What is sent for an event of the dialogue of which nothing is known that was not said by a time."""
    plan = plan_dialogue(mask_future(dialogue.turns, t_s), config)
    request = plan.events[place].request
    assert request is not None
    return json.dumps(make_payload(choose_prompts(config, ChatConfig()), plan.requests[request], config, 0, 0))


def known_too_early(dialogue: Dialogue, config: OracleConfig) -> set[str]:
    """How level 0 was told what had not been said: `differs` from a blind request, or words of the answer."""
    found = set()
    for place, t_s, sent in sent_at_level_0(dialogue, config):
        if of_blind(dialogue, t_s, place, config) != sent:
            found.add("differs")
        utterances = [each for turn in dialogue.turns for each in turn.utterances]
        said = {word.word.lower() for each in utterances for word in each.words if word.end_s <= t_s}
        found |= {word for word in ANSWERED if word in sent.lower() and word not in said}
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda make: make.__name__)
@settings(max_examples=6, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(words=ITEMS, seed=st.integers(0, 99), config=CONFIGS, sooner_s=st.sampled_from([0.0, 1.5, 4.0]))
def test_level_0_knows_nothing_that_was_not_said(
    source: Any, form: str, words: dict[str, Any], seed: int, config: OracleConfig, sooner_s: float
) -> None:
    dialogue = written(source(**words), form, seed)
    assume(dialogue is not None)
    assert dialogue is not None
    assert known_too_early(sooner(dialogue, sooner_s), config) == set()


def hears_a_word_more(*args: Any) -> list[Tick]:
    """The scheduler, off by one word."""
    return [replace(each, n_words_heard=min(each.n_words_heard + 1, each.n_words)) for each in make_ticks(*args)]


def hears_half_a_second_ahead(words: Sequence[WordTiming], *args: Any) -> list[Tick]:
    """The scheduler with words that end half a second before they do."""
    return make_ticks([replace(word, end_s=word.end_s - 0.5) for word in words], *args)


def tells_what_was_planned(turn: Turn, t_s: float) -> str:
    """A history of turns as they were written, cut off or not."""
    begun = any(word.end_s <= t_s for word in list_words(turn))
    return format_history_line(ROLES[turn.speaker], turn.written_text, is_whole=True) if begun else ""


def tells_the_future(turn: Turn, _: float, told: Any = planning._format_turn) -> str:
    """A history of all turns to their ends."""
    return str(told(turn, math.inf))


def shows_the_hint(prompts: Any, request: Any, *args: Any) -> dict[str, Any]:
    """Payloads of which the last message has the true answer, at every level."""
    payload = make_payload(prompts, request, *args)
    payload["messages"][-1]["content"] += f" ({request.hint})"
    return payload


BROKEN: list[tuple[Any, str, Any, str]] = [
    (planning, "make_ticks", hears_a_word_more, "plain"),
    (planning, "make_ticks", hears_half_a_second_ahead, "greeting"),
    (planning, "_format_turn", tells_what_was_planned, "interruption"),
    (planning, "_format_turn", tells_the_future, "follow_up"),
    (asking, "make_payload", shows_the_hint, "backchannel"),
]


@pytest.mark.parametrize("prompt", list_prompt_sets())
@pytest.mark.parametrize(("module", "name", "broken", "form"), BROKEN, ids=[each[2].__name__ for each in BROKEN])
def test_a_stage_that_is_broken_on_purpose_is_found(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, broken: Any, form: str, prompt: str
) -> None:
    items = [gsm8k(ASKED[at : at + 4], ANSWERED[at : at + 4], 3 + at) for at in range(3)]
    made = [each for at, item in enumerate(items) if (each := written(item, form, at)) is not None]
    dialogues = [sooner(each, by_s) for each, by_s in zip(made, (0.0, 1.5, 4.0), strict=False)]
    config = OracleConfig(interval_s=0.2, max_requests_per_turn=40, both_directions=True, prompt=prompt)
    assert dialogues
    assert not any(known_too_early(each, config) for each in dialogues)
    monkeypatch.setattr(module, name, broken)
    assert any(known_too_early(each, config) for each in dialogues)
