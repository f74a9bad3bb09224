"""Level 0 knows nothing, over a thousand real questions in every form the script makes of them (word times made up)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from data_schemas.config import FormsConfig, OracleConfig, ScriptConfig, SourceConfig, SplitConfig
from data_schemas.records import Dialogue
from pipelines.oracle.plan import plan_dialogue
from pipelines.oracle.prompts import list_prompt_sets, load_prompts, make_payload
from pipelines.quality.knowledge_rules import mask_future
from pipelines.script.stage import ScriptStage
from pipelines.sources.items import read_items
from tests.support.oracle_dialogues import laid_out

pytestmark = pytest.mark.slow

FILES = {
    "gsm8k": ("gsm8k_train.jsonl.gz", 800),
    "mmlu_pro": ("mmlu_pro_even.jsonl.gz", 500),
    "hssbench": ("hssbench_open_sample.jsonl.gz", 60),
}
N_DIALOGUES = 1000
CONFIG = OracleConfig()


@pytest.fixture(scope="module")
def dialogues(shared_data: Path) -> list[Dialogue]:
    made: list[Dialogue] = []
    for source, (file, limit) in FILES.items():
        config = SourceConfig(name=source, path=str(shared_data / file))
        items = read_items(config, limit, SplitConfig()).items
        stage = ScriptStage(ScriptConfig(), FormsConfig(), 1.0, 0)
        made += stage.run([(item,) for item in items]).outputs
    laid = (laid_out(dialogue) for dialogue in made)
    return [dialogue for dialogue in laid if dialogue is not None]


def test_there_are_enough_of_them_of_every_form(dialogues: list[Dialogue]) -> None:
    assert len(dialogues) >= N_DIALOGUES
    by_form = Counter(dialogue.form for dialogue in dialogues)
    assert min(by_form.values()) >= 10
    assert len(by_form) >= 8


def test_level_0_is_asked_the_same_when_all_that_was_not_said_is_blotted_out(dialogues: list[Dialogue]) -> None:
    n_asked, sets = 0, [load_prompts(name) for name in list_prompt_sets()]
    for dialogue in dialogues:
        plan = plan_dialogue(dialogue.turns, CONFIG)
        asked_at: dict[int, float] = {}
        for event in plan.events:
            if event.request is not None and event.tick.level == 0:
                asked_at.setdefault(event.request, event.tick.t_s)
        for request, t_s in asked_at.items():
            blind = plan_dialogue(mask_future(dialogue.turns, t_s), CONFIG).requests[request]
            known = plan.requests[request]
            assert blind.history == known.history, dialogue.dialogue_id
            for prompts in sets:
                sent, sent_blind = (json.dumps(make_payload(prompts, each, CONFIG, 0, 0)) for each in (known, blind))
                assert sent == sent_blind, (dialogue.dialogue_id, prompts.version)
            n_asked += 1
    assert n_asked > N_DIALOGUES
