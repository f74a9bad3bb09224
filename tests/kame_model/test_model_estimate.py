"""Training and serving by arithmetic: against the table of docs/model.md, a real backward pass, and themselves."""

from pathlib import Path

import pytest
import torch

from data_schemas.config.training import TrainConfig
from data_schemas.rates import Mfu, PlanFigure, RateBook, Rates, RatesOrigin, StepCost, StepTimes
from flows.settings import build_train_config, find_shipped_checkpoint
from kame_model.checkpoint.kame_json import KameJson
from kame_model.estimate import (
    build_meta_model,
    count_activation_bytes,
    count_copied_bytes,
    count_stage,
    count_weight_bytes,
    estimate_callers,
    estimate_training,
    get_assumed_codes,
    name_training,
)
from kame_model.model.front_end import FrontEnd, build_front_end
from kame_model.train.throughput import COUNTED_FRAMES, PassCounts, count_pass, count_weights
from tests.support.front_ends import LAYOUT, TEXT_CARD, random_batch, tiny_config
from tests.support.known import known

pytestmark = pytest.mark.full
ORIGIN = RatesOrigin(day="2026-11-23", machine="a machine")
UNMEASURED = Rates(origin=ORIGIN)


def config_of(preset: str, **typed: object) -> TrainConfig:
    return build_train_config(preset, "dialogues", None, {"data.datasets": [{"path": "rows"}], **typed})


def plan(config: TrainConfig, rates: Rates, device: str, n_devices: int = 1) -> dict[str, PlanFigure]:
    codes = get_assumed_codes("codec2-learnt" if config.model.preset == "nano" else "mimi")
    found = estimate_training([config], *codes, RateBook([rates]), device, n_devices)
    return {each.key: each for each in found}


def test_the_shipped_nano_is_planned_with_its_own_codes() -> None:
    shipped = known(find_shipped_checkpoint())
    facts = KameJson.model_validate_json((Path(shipped) / "kame.json").read_bytes())
    assert get_assumed_codes(known(facts.codec).name) == (facts.text_card, facts.layout)


def test_moshi_7b_takes_what_the_table_says() -> None:
    config = config_of("moshi-7b", init_from="weights")
    text_card, layout = get_assumed_codes("mimi")
    weights = count_weight_bytes(config, build_meta_model(config, text_card, layout))
    assert weights == pytest.approx(125e9, rel=0.02)
    adapters = config_of("moshi-7b", **{"init_from": "weights", "lora.rank": 64})
    assert count_weight_bytes(adapters, build_meta_model(adapters, text_card, layout)) == pytest.approx(21e9, rel=0.05)
    alone, of_four = (plan(config, Rates(origin=ORIGIN), "H200", n)["training.moshi-7b.H200.bytes"] for n in (1, 4))
    assert alone.value == pytest.approx(151e9, rel=0.02)
    assert "bf16 copies 14,7" in alone.formula
    assert of_four.value == pytest.approx((31 + 7 + 11) * 1e9, rel=0.15)


def test_what_a_pass_keeps_is_counted_without_computing_it() -> None:
    with torch.device("meta"):
        counted = count_pass(build_front_end(tiny_config(), TEXT_CARD, LAYOUT, "meta"), True).saved_bytes
    model = build_front_end(tiny_config(), TEXT_CARD, LAYOUT, "cpu").float()
    owned = {each.untyped_storage().data_ptr() for each in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in owned:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    batch = random_batch(1, n_frames=COUNTED_FRAMES)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(batch.columns[:, :, : COUNTED_FRAMES + 1])
    real = sum(each.untyped_storage().nbytes() for each in kept.values()) / COUNTED_FRAMES
    assert counted == pytest.approx(real, rel=0.25)


def test_layers_that_compute_again_take_less_by_their_share_and_more_where_products_are_kept() -> None:
    def counted(**hardware: object) -> float:
        typed = {f"hardware.{name}": each for name, each in hardware.items()}
        config = config_of("nano", **typed)
        return count_activation_bytes(config, *count_stage(config, *get_assumed_codes("codec2-learnt")))

    nothing, all_ = counted(), counted(activation_checkpointing=True)
    products = counted(activation_checkpointing=True, checkpoint_keeps="products")
    assert all_ < counted(activation_checkpointing=True, checkpoint_share=0.5) < nothing
    assert all_ < products < nothing


def test_a_copy_of_the_weights_on_each_node_takes_as_much_as_one_node() -> None:
    typed = {"optim.accumulation": 8}
    of_one = plan(config_of("small", **typed), Rates(origin=ORIGIN), "H200", 4)
    of_two = plan(config_of("small", **typed, **{"hardware.replicas": 2}), Rates(origin=ORIGIN), "H200", 8)
    key = "training.small.H200.bytes"
    assert of_two[key].value == of_one[key].value


def test_bf16_copies_are_of_one_process_that_computes_in_bf16() -> None:
    mixed, plain = config_of("small"), config_of("small", **{"hardware.precision": "fp32"})
    model = build_meta_model(mixed, *get_assumed_codes("mimi"))
    assert count_copied_bytes(plain, model) == 0
    n_all, _ = count_weights(model)
    assert 0.7 * 2 * n_all < count_copied_bytes(mixed, model) < 0.8 * 2 * n_all  # all but tables of embeddings


def test_a_small_model_on_a_gpu_takes_as_long_as_launching_its_operations() -> None:
    hours = plan(config_of("nano", max_steps=1000), Rates(origin=ORIGIN), "H200")["training.nano.H200.dialogues.s"]
    assert known(hours.value) > 10
    assert "launch" in hours.formula


def test_fp32_is_told_by_the_speed_of_fp32() -> None:
    configs = (config_of("small", **{"hardware.precision": each}) for each in ("bf16-mixed", "fp32"))
    half, whole = (plan(each, UNMEASURED, "h200")["training.small.h200.dialogues.s"].value for each in configs)
    assert whole == pytest.approx(known(half) * 989 / 67)


def test_the_count_of_many_weights_is_the_same_twice() -> None:
    text_card, layout = get_assumed_codes("mimi")
    model = build_meta_model(config_of("small"), text_card, layout)  # 220 weights
    once, again = (count_pass(model, True) for _ in range(2))
    assert once == again


def test_equal_shapes_are_counted_once_for_all_stages_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = list[bool]()

    def count(model: FrontEnd, with_audio: bool) -> PassCounts:
        traced.append(with_audio)
        return count_pass(model, with_audio)

    monkeypatch.setattr("kame_model.estimate.count_pass", count)
    typed = {"data.datasets": [{"path": "rows"}], "model.dim": 64}  # a shape of this test alone
    stages = [build_train_config("nano", each, None, typed) for each in ("speak", "copy", "dialogues")]
    for device in ("cpu", "H200", "H100"):
        estimate_training(stages, *get_assumed_codes("codec2-neural"), RateBook([Rates(origin=ORIGIN)]), device)
    assert traced == [True, False]


def test_hours_are_frames_at_the_measured_rate() -> None:
    config = config_of("nano", max_steps=200)
    cost = StepCost(step="train", engine=name_training(config), per="frame", seconds=0.002)
    figures = plan(config, Rates(origin=ORIGIN, costs=[cost]), "cpu")
    assert figures["training.nano.cpu.s"].value == pytest.approx(200 * config.data.batch_frames * 0.002)
    bounded = plan(config_of("nano", max_steps=200, max_hours=0.1), Rates(origin=ORIGIN, costs=[cost]), "cpu")
    assert bounded["training.nano.cpu.s"].value == 360
    assert plan(config, Rates(origin=ORIGIN), "cpu")["training.nano.cpu.s"].value is None


def test_a_gpu_that_nobody_measured_is_told_by_its_data_sheet_and_an_assumption() -> None:
    config = config_of("small")
    alone = plan(config, Rates(origin=ORIGIN), "H200")["training.small.H200.s"]
    assumed = plan(config, Rates(origin=ORIGIN), "H200")["training.small.H200.dialogues.s"]
    assert "assumed" in assumed.basis
    measured = Rates(origin=ORIGIN, mfu=[Mfu(device="H200", share=0.225)])
    half = plan(config, measured, "NVIDIA H200")["training.small.NVIDIA H200.s"]
    assert half.value == pytest.approx(2 * known(alone.value))
    other = Rates(origin=ORIGIN, mfu=[Mfu(device="H200", model="small/lora", share=0.1)])
    unlike = plan(config, other, "H200")["training.small.H200.dialogues.s"]
    assert unlike.value == assumed.value
    assert "no training of small was measured on H200; measured were 10.0% by small/lora on H200" in unlike.basis
    assert plan(config, Rates(origin=ORIGIN), "Abacus")["training.small.Abacus.s"].value is None


def test_what_was_measured_on_a_gpu_is_in_the_reference_rates() -> None:
    adapters, book = config_of("moshi-7b", **{"init_from": "weights", "lora.rank": 64}), RateBook.open()
    time = estimate_training([adapters], *get_assumed_codes("mimi"), book, "H200")[0]
    n_frames = adapters.max_steps * adapters.data.batch_frames * (adapters.optim.accumulation or 1)
    assert time.value == pytest.approx(n_frames / 2_189, rel=0.01)
    assert "one NVIDIA H200" in time.basis
    whole = estimate_training([config_of("moshi-7b")], *get_assumed_codes("mimi"), book, "H200")[0]
    assert "measured were 6.9% by moshi-7b/lora on H200" in whole.basis
    served = estimate_callers("small", book, "H200")
    assert served.value == 31
    assert "with 32 callers, frames were late" in served.formula


def test_a_stage_that_ends_by_itself_is_planned_as_at_most() -> None:
    typed = {"data.datasets": [{"path": "rows"}]}
    stages, book = [build_train_config("nano", each, None, typed) for each in ("speak", "copy")], RateBook([UNMEASURED])
    speak, copy, total, _ = estimate_training(stages, *get_assumed_codes("codec2-learnt"), book, "H200")
    assert "at most" not in speak.title
    assert copy.title.endswith(", at most")
    assert copy.formula.startswith("at most ")
    assert "accuracy of 99%" in copy.basis
    assert total.title.endswith(", at most")


def test_what_does_not_fit_the_gpu_is_told_in_its_rows() -> None:
    config = config_of("moshi-7b", init_from="weights")
    on_one = plan(config, Rates(origin=ORIGIN), "H200")
    keys = ("training.moshi-7b.H200.bytes", "training.moshi-7b.H200.dialogues.s", "training.moshi-7b.H200.s")
    assert all(on_one[key].title.endswith(", does not fit into 141 GB") for key in keys)
    assert not any("does not fit" in each.title for each in plan(config, Rates(origin=ORIGIN), "H200", 4).values())


def test_a_training_that_fits_without_recomputing_activations_is_told_so() -> None:
    adapters = config_of("moshi-7b", **{"init_from": "weights", "lora.rank": 64})
    told = ", 98 of 141 GB with hardware.activation_checkpointing=false"
    assert plan(adapters, Rates(origin=ORIGIN), "H200")["training.moshi-7b.H200.bytes"].title.endswith(told)
    for config, device in ((adapters, "H100"), (config_of("moshi-7b", init_from="weights"), "H200")):  # does not fit
        assert "false" not in plan(config, Rates(origin=ORIGIN), device)[f"training.moshi-7b.{device}.bytes"].title


def test_processes_that_cannot_share_a_steps_micro_batches_are_told() -> None:
    hours = plan(config_of("small"), Rates(origin=ORIGIN), "H200", 8)["training.small.H200.s"]
    assert hours.value is None
    config = config_of("small", **{"optim.accumulation": 8})
    alone, of_eight = (plan(config, Rates(origin=ORIGIN), "H200", n)["training.small.H200.s"].value for n in (1, 8))
    assert of_eight == pytest.approx(known(alone) / 8)


def test_callers_are_those_whose_step_keeps_its_share_of_a_frame() -> None:
    def callers(step_s: dict[int, float], late_from: int | None = None) -> float | None:
        rates = Rates(origin=ORIGIN, steps=[StepTimes(preset="nano", step_s=step_s, late_from=late_from)])
        return estimate_callers("nano", RateBook([rates]), "cpu").value

    assert callers({1: 0.010, 2: 0.012, 4: 0.016}) == 28  # (64 - 8) / 2
    assert callers({1: 0.010, 2: 0.012, 4: 0.016}, late_from=8) == 7
    assert callers({1: 0.010, 2: 0.012, 4: 0.016}, late_from=32) == 28
    assert callers({1: 0.030, 2: 0.050, 4: 0.090}) == 2
    assert callers({1: 0.100, 2: 0.120}) == 0
    assert callers({4: 0.030}) == 4
    assert estimate_callers("moshi-7b", RateBook([Rates(origin=ORIGIN)]), "cpu").value is None
