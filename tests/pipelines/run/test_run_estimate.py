"""A refresh's plan: amounts times rates, and what is not known said so."""

from typing import Any

import pytest

from data_schemas.config import ChatConfig, OracleConfig, PriceConfig, RefreshConfig, SpeechConfig
from data_schemas.config.speech import AlignmentConfig, GateConfig
from data_schemas.errors import ConfigError
from data_schemas.rates import (
    ChatRate,
    DialogueShape,
    EngineSizes,
    PlanFigure,
    PromptSize,
    RateBook,
    Rates,
    RatesOrigin,
    StepCost,
)
from pipelines.asking import read_prompt_texts
from pipelines.oracle.prompts import choose_prompts
from pipelines.run.estimate import PAPER, count_dialogues, estimate_dataset

ORIGIN = RatesOrigin(day="2026-11-23", machine="a machine")
SHAPE = DialogueShape(
    source="gsm8k", n_items=100, n_spoken=10, dialogues_per_item=0.8, utterances=3, words=80, speech_s=20,
    duration_s=25, requests=6,
)  # fmt: skip
CHAT = ChatRate(
    model="double", prompt="v2", n_calls=10, calls_per_request=1.5, tokens_in=200, tokens_cached=50, tokens_out=20,
    wall_s=0.1,
)  # fmt: skip
WORDS = ChatRate(
    model="double", prompt=read_prompt_texts("pipelines.wording")["version"], stage="wording", n_calls=10,
    calls_per_request=1.25, tokens_in=100, tokens_cached=10, tokens_out=40, wall_s=0.2,
)  # fmt: skip
SIZES = EngineSizes(
    engines="double+double+none", parts_bytes_per_s=1000, shards_bytes_per_s=500, main_bytes=1e8, worker_bytes=2e8,
    chat_bytes=3e8,
)  # fmt: skip
SPOKEN = ("double", "speech_s")
COSTS = {"script": ("", "item"), "tts": SPOKEN, "alignment": SPOKEN, "mixing": ("", "duration_s")}
RATES = Rates(
    origin=ORIGIN,
    shapes=[SHAPE, SHAPE.model_copy(update={"source": "mmlu_pro", "duration_s": 50.0})],
    costs=[
        *(StepCost(step=step, engine=engine, per=per, seconds=0.5) for step, (engine, per) in COSTS.items()),
        StepCost(step="start", engine="double+double+none", per="worker", seconds=8),
        StepCost(step="publish", per="duration_s", seconds=0.01),
    ],
    chat=[CHAT],
    prompts=[PromptSize(prompt=choose_prompts(OracleConfig(), ChatConfig(engine="vllm")).version, tokens_in=400)],
    sizes=[SIZES],
)


def configure(**changed: object) -> RefreshConfig:
    settings: dict[str, object] = {
        "speech": SpeechConfig(tts="double"),
        "gate": GateConfig(asr="none"),
        "alignment": AlignmentConfig(aligner="double"),
        "chat": ChatConfig(engine="double"),
    }
    return RefreshConfig.model_validate(settings | changed)


def plan(
    config: RefreshConfig, n_workers: int = 2, rates: Rates = RATES, **n_dialogues: float
) -> dict[str, PlanFigure]:
    found = estimate_dataset(config, n_dialogues or {"gsm8k": 160.0}, RateBook([rates]), n_workers, ["H200"])
    return {each.key: each for each in found}


def test_amounts_are_dialogues_times_what_they_are_like_or_the_mean_of_all_sources() -> None:
    figures = plan(configure(), gsm8k=100.0, mmlu_pro=10.0)
    values = {key: figures[key].value for key in ("dialogues", "items", "words", "speech_s", "duration_s", "requests")}
    made = {"dialogues": 110, "items": 137.5, "words": 8800, "speech_s": 2200, "duration_s": 3000, "requests": 660}
    assert values == pytest.approx(made)
    assert "100 × 25 + 10 × 50" in figures["duration_s"].formula
    config, book = configure(variants=2.0), RateBook([RATES])
    assert count_dialogues(config, {"gsm8k": 10}, book) == {"gsm8k": pytest.approx(16)}
    figures = plan(configure(), mine=10.0)
    assert figures["duration_s"].value == pytest.approx(375)
    assert "mine was not measured" in figures["duration_s"].basis


def test_workers_share_their_stages_and_wait_for_models_answers_and_publishing() -> None:
    one, two = plan(configure(), n_workers=1), plan(configure(), n_workers=2)
    worked = 0.5 * (200 + 3200 + 3200 + 4000)
    asked, published = 160 * 6 * 1.5 * 0.1, 4000 * 0.01
    assert one["processor"].value == pytest.approx(worked)
    assert one["wall_s"].value == pytest.approx(worked + 8 + asked + published)
    assert two["wall_s"].value == pytest.approx(worked / 2 + 8 + asked + published)
    assert plan(configure(), n_workers=64)["wall_s"].value == pytest.approx(worked / 10 + 8 + asked + published)
    costs = [each for each in RATES.costs if each.step != "start"]
    figures = plan(configure(), rates=RATES.model_copy(update={"costs": costs}))
    assert figures["processor"].value is not None
    assert figures["wall_s"].value is None
    assert figures["wall_s"].basis == "unknown: so is loading of models"


def test_calls_and_tokens_count_what_is_asked_again_and_a_versions_share() -> None:
    figures = plan(configure())
    values = [figures[key].value for key in ("calls", "tokens_in", "tokens_cached", "tokens_out")]
    assert values == pytest.approx([1440, 288_000, 72_000, 28_800])
    part = plan(configure(oracle=OracleConfig(share_to=0.25)))
    assert part["calls"].value == pytest.approx(360)
    nobody = plan(configure(oracle=OracleConfig(simulator="random", version="random")))
    assert nobody["calls"].value == 0
    assert "tokens_in" not in nobody


def test_wording_is_in_the_sums_and_makes_them_unknown_where_nobody_measured_it() -> None:
    config = configure(wording=ChatConfig(engine="double"))
    figures = plan(config, rates=RATES.model_copy(update={"chat": [WORDS, CHAT]}))
    assert figures["calls.wording"].value == pytest.approx(160 * 1.25)
    assert figures["calls.oracle"].value == pytest.approx(1440)
    assert figures["calls"].value == pytest.approx(1640)
    assert figures["tokens_in"].value == pytest.approx(288_000 + 20_000)
    assert figures["chat_s"].value == pytest.approx(144 + 40)
    alone = plan(configure(), n_workers=2)["wall_s"].value
    assert figures["wall_s"].value == pytest.approx((alone or 0) + 40)
    figures = plan(configure(wording=ChatConfig(engine="double")))
    assert figures["calls.oracle"].value == pytest.approx(1440)
    assert figures["calls"].value is None
    assert "wording" in figures["calls"].basis
    assert "kame bench" in figures["calls.wording"].basis
    assert figures["wall_s"].value is None


def test_money_is_by_a_known_price_with_its_source_and_never_made_up() -> None:
    price = PriceConfig(in_usd_per_mtok=1, cached_usd_per_mtok=0.5, out_usd_per_mtok=10, as_of="2026-11-01", source="p")
    asked = ChatConfig(engine="openai", base_url="http://127.0.0.1:1/v1", model="double", price=price)
    prompt = OracleConfig(prompt="v2")
    priced = plan(configure(chat=asked, oracle=prompt))["usd"]
    assert priced.value == pytest.approx((216_000 * 1 + 72_000 * 0.5 + 28_800 * 10) / 1e6)
    assert "2026-11-01" in priced.basis
    no_price = plan(configure(chat=asked.model_copy(update={"price": None}), oracle=prompt))["usd"]
    assert no_price.value is None
    assert "chat.price" in no_price.basis
    own = plan(configure())["usd"]
    assert own.value == 0
    assert "no cost" in own.basis


def test_a_model_that_nobody_measured_is_told_by_others_and_its_time_is_unknown() -> None:
    asked = ChatConfig(engine="openai", base_url="http://127.0.0.1:1/v1", model="another")
    figures = plan(configure(chat=asked))
    assert figures["tokens_in"].value == pytest.approx(1440 * 400)  # of the prompt set `whole`, by our own estimate
    assert "another was not measured" in figures["tokens_in"].basis
    assert figures["tokens_cached"].value is None
    assert figures["chat_s"].value is None
    assert figures["wall_s"].value is None
    assert "time of answers" in figures["wall_s"].basis


def test_disk_grows_with_sound_memory_with_workers_and_what_nobody_measured_is_unknown() -> None:
    figures = plan(configure(), n_workers=4)
    assert figures["disk_bytes"].value == pytest.approx(4000 * 1500)
    assert figures["memory_bytes"].value == pytest.approx(1e8 + 4 * 2e8 + 3e8)
    figures = plan(configure(speech=SpeechConfig(tts="espeak")))
    assert figures["processor.tts"].value is None
    assert figures["processor"].value is None
    assert figures["memory_bytes"].value is None
    assert figures["processor.alignment"].value is not None
    assert plan(configure())["gpu.H200.tts"].value is None


RANDOM = OracleConfig(simulator="random", version="random")
REMOTE = ChatConfig(engine="openai", base_url="http://127.0.0.1:1/v1", model="double")


@pytest.mark.parametrize(
    ("changed", "n_servers"),
    [
        ({}, 1),
        ({"chat": REMOTE}, 0),
        ({"oracle": RANDOM}, 0),
        ({"oracle": RANDOM, "wording": ChatConfig(engine="double")}, 1),
        ({"chat": REMOTE, "pictures": ChatConfig(engine="double")}, 1),
        ({"wording": ChatConfig(engine="double")}, 1),
        ({"wording": ChatConfig(engine="double", max_in_flight=2)}, 2),
    ],
)
def test_memory_has_every_chat_server_of_this_machine_once(changed: dict[str, Any], n_servers: int) -> None:
    figures = plan(configure(**changed), n_workers=1)
    assert figures["memory_bytes"].value == pytest.approx(1e8 + 2e8 + n_servers * 3e8)


def test_nothing_to_make_is_refused_and_the_papers_corpus_is_56582() -> None:
    with pytest.raises(ConfigError, match="--dialogues"):
        estimate_dataset(configure(), {}, RateBook([RATES]), 1)
    assert sum(PAPER.values()) == 56_582
