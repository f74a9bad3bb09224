"""Training by several processes as by one, and what makes a model parallel."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from data_schemas.config.training import HardwareConfig
from data_schemas.errors import ConfigError
from kame_model.train.parallel import find_device, parallelize, spread_evenly
from kame_model.train.run import train
from tests.support.front_ends import audio_of, random_batch, tiny_front_end
from tests.support.train_runs import (
    Asking,
    Forking,
    run_as_noting_gradients,
    run_as_until_asked,
    run_tiny,
    tiny_dataset,
    tiny_run,
    told,
    weights,
)
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full

IN_BF16 = 0.02
"""How far figures of equal runs may be apart where products are made in bf16, of 8 bits."""

ONE_TOKEN = 0.0264
"""How far shares of 38 judged tokens may be apart there: by one whose two likeliest words lie side by side."""


@pytest.fixture(scope="module")
def forking() -> Forking:
    return Forking()


def alike(found: list[dict[str, Any]], expected: list[dict[str, Any]], rel: float = 2e-4) -> None:
    """Two runs' metrics, to what another order of adding changes.

    In bfloat16 that may change which of two words is the likelier: a share may differ by one token.
    """

    def near(told: dict[str, Any]) -> dict[str, Any]:
        one_token = {name: ONE_TOKEN for name in told if rel == IN_BF16 and name.endswith("_right")}
        return {name: pytest.approx(value, rel=rel, abs=one_token.get(name)) for name, value in told.items()}

    for ours, theirs in zip(found, expected, strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        columns = [name for name, value in theirs.items() if isinstance(value, dict)]
        for name in columns:  # of an evaluation
            assert ours.pop(name) == near(theirs.pop(name)), (ours["step"], name)
        assert ours == near(theirs)


def assert_weights_near(folder: Path, run: str, atol: float = 2e-4, rtol: float = 1e-3) -> None:
    """A run ended with the weights of the one that was alone."""
    right = weights(folder / "alone")
    for name, each in weights(folder / run).items():
        torch.testing.assert_close(each, right[name], atol=atol, rtol=rtol)


@pytest.mark.slow
def test_two_processes_begin_with_the_weights_of_one_to_the_last_bit(tmp_path: Path, forking: Forking) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    still = {"learning_rate": 1e-30, "weight_decay": 0.0, "ema_decay": None}  # a step that no float32 weight shows
    alone, together = (tiny_run(tmp_path / name, rows, max_steps=1, optim=still) for name in ("alone", "together"))
    train(alone)
    assert forking.run_together(together, 2) == [0, 0]
    right = weights(tmp_path / "alone")
    found = weights(tmp_path / "together")
    assert found.keys() == right.keys()
    assert [name for name, each in found.items() if not torch.equal(each, right[name])] == []


@pytest.mark.slow
def test_two_processes_train_as_one_and_either_goes_on_where_the_other_stopped(
    tmp_path: Path, forking: Forking
) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    alone, together, changing = (tiny_run(tmp_path / name, rows) for name in ("alone", "together", "changing"))
    train(alone)
    assert forking.run_together(together, 2) == [0, 0]
    alike(told(tmp_path / "together"), told(tmp_path / "alone"))
    assert_weights_near(tmp_path, "together")
    assert train(changing, Asking(2)).step == 2
    assert forking.run_together(changing, 2) == [0, 0]
    alike(told(tmp_path / "changing"), told(tmp_path / "alone"))


@pytest.mark.parametrize("reducing", [{}, {"reduce_gradients": "step"}], ids=["each-micro-batch", "each-step"])
def test_micro_batches_add_up_on_two_processes_as_on_one(
    tmp_path: Path, forking: Forking, reducing: dict[str, Any]
) -> None:
    rows, how = tiny_dataset(tmp_path / "rows"), {"max_steps": 3, "optim": {"accumulation": 4}}
    train(tiny_run(tmp_path / "alone", rows, **how))
    assert forking.run_together(tiny_run(tmp_path / "two", rows, **how, hardware=reducing), 2) == [0, 0]
    alike(told(tmp_path / "two"), told(tmp_path / "alone"))  # the norms of the gradients among it
    assert_weights_near(tmp_path, "two")


def test_between_micro_batches_each_process_holds_the_gradients_of_its_shard_alone(
    tmp_path: Path, forking: Forking
) -> None:
    rows, how = tiny_dataset(tmp_path / "rows"), {"max_steps": 2, "optim": {"accumulation": 6}}
    n_trained = train(tiny_run(tmp_path / "alone", rows, **how)).n_trained
    run = tiny_run(tmp_path / "two", rows, **how, keep={"evaluate_examples": 0})
    assert forking.run_together(run, 2, run_as_noting_gradients) == [0, 0]
    held = [json.loads((tmp_path / "two" / f"gradients-{rank}.json").read_text()) for rank in range(2)]
    assert [sum(each) for each in zip(*held, strict=True)] == [0, n_trained, n_trained] * 2
    assert max(map(max, held)) < 0.6 * n_trained, "one holds more than its shard"


@pytest.mark.slow
@pytest.mark.parametrize("reducing", ["micro-batch", "step"])
def test_two_groups_that_each_hold_all_weights_train_as_one_process(
    tmp_path: Path, forking: Forking, reducing: str
) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    how: dict[str, Any] = {"max_steps": 3, "optim": {"accumulation": 8}}
    n_trained = train(tiny_run(tmp_path / "alone", rows, **how)).n_trained
    how["hardware"] = {"replicas": 2, "reduce_gradients": reducing}
    assert forking.run_together(tiny_run(tmp_path / "four", rows, **how), 4, run_as_noting_gradients) == [0] * 4
    held = [json.loads((tmp_path / "four" / f"weights-{rank}.json").read_text())[0] for rank in range(4)]
    assert held[:2] == held[2:], "both groups have the same shards"
    assert sum(held[:2]) == n_trained
    assert max(held) < 0.6 * n_trained
    alike(told(tmp_path / "four"), told(tmp_path / "alone"))
    assert_weights_near(tmp_path, "four")


@pytest.mark.slow
def test_a_run_goes_on_with_other_numbers_of_processes_and_replicas(tmp_path: Path, forking: Forking) -> None:
    rows, how = tiny_dataset(tmp_path / "rows"), {"optim": {"accumulation": 4}}
    train(tiny_run(tmp_path / "alone", rows, **how))
    of_two = tiny_run(tmp_path / "changing", rows, **how, hardware={"replicas": 2})
    assert forking.run_together(of_two, 4, partial(run_as_until_asked, 2)) == [0] * 4
    assert told(tmp_path / "changing")[-1]["step"] == 2
    assert forking.run_together(of_two, 2, partial(run_as_until_asked, 4)) == [0] * 2  # each has all weights
    assert forking.run_together(tiny_run(tmp_path / "changing", rows, **how), 2) == [0] * 2
    alike(told(tmp_path / "changing"), told(tmp_path / "alone"))


def test_processes_that_cannot_be_divided_into_replicas_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run(tmp_path / "run", tiny_dataset(tmp_path / "rows"), hardware={"replicas": 2})
    with pytest.raises(ConfigError, match="1 processes cannot hold 2 copies"):
        train(run)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match="3 processes cannot hold 2 copies"):
        train(run)


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed"])
@pytest.mark.slow
def test_adapters_are_trained_by_two_processes_as_by_one(tmp_path: Path, forking: Forking, precision: str) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    train(tiny_run(tmp_path / "base", rows, max_steps=1))
    adapters: dict[str, Any] = {"init_from": str(tmp_path / "base"), "lora": {"rank": 2}, "max_steps": 3}
    adapters["hardware"] = {"precision": precision}
    train(tiny_run(tmp_path / "alone", rows, **adapters))
    assert forking.run_together(tiny_run(tmp_path / "two", rows, **adapters), 2) == [0, 0]
    alike(told(tmp_path / "two"), told(tmp_path / "alone"), rel=2e-4 if precision == "fp32" else IN_BF16)
    assert_weights_near(tmp_path, "two", atol=2e-4 if precision == "fp32" else 4e-3)


@pytest.mark.slow
def test_in_half_precision_two_processes_train_as_one(tmp_path: Path, forking: Forking) -> None:
    rows, mixed = tiny_dataset(tmp_path / "rows"), {"precision": "bf16-mixed"}
    alone, together = (tiny_run(tmp_path / name, rows, hardware=mixed) for name in ("alone", "together"))
    train(alone)
    assert forking.run_together(together, 2) == [0, 0]
    alike(told(tmp_path / "together"), told(tmp_path / "alone"), rel=IN_BF16)
    assert_weights_near(tmp_path, "together", atol=1e-3, rtol=0)  # 8.2e-4 apart; 1.3e-3 with embeddings in bf16


@pytest.mark.slow
def test_two_processes_copy_as_one(tmp_path: Path, forking: Forking) -> None:
    tokenizer = make_vocabulary(tmp_path)
    rows = tiny_dataset(tmp_path / "rows", text_card=tokenizer.text_card, tokenizer_digest=tokenizer.digest)
    copying: dict[str, Any] = {
        "shares": {"copying": 1},
        "tokenizer": str(tokenizer.path),
        "copying": {"batch_size": 2, "max_frames": 75, "lessons": 1},
        "keep": {"evaluate_examples": 0},
        "model": {"cue": True},
        "max_steps": 3,
    }
    train(tiny_run(tmp_path / "alone", rows, **copying))
    assert forking.run_together(tiny_run(tmp_path / "two", rows, **copying), 2) == [0, 0]
    alike(told(tmp_path / "two"), told(tmp_path / "alone"))


AGAIN = {"all": {}, "half": {"checkpoint_share": 0.5}, "but-products": {"checkpoint_keeps": "products"}}


@pytest.mark.slow
@pytest.mark.parametrize("how", AGAIN.values(), ids=AGAIN.keys())
def test_activation_checkpointing_and_sharding_go_together(
    tmp_path: Path, forking: Forking, how: dict[str, Any]
) -> None:
    rows = tiny_dataset(tmp_path / "rows")
    plain = tiny_run(tmp_path / "plain", rows, max_steps=2)
    both = tiny_run(tmp_path / "both", rows, max_steps=2, hardware={"activation_checkpointing": True, **how})
    assert forking.run(run_tiny, plain) == 0
    assert forking.run_together(both, 2) == [0, 0]
    alike(told(tmp_path / "both"), told(tmp_path / "plain"))


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed"])
@pytest.mark.parametrize("how", AGAIN.values(), ids=AGAIN.keys())
def test_activation_checkpointing_changes_no_gradient_and_does_what_it_says(
    how: dict[str, Any], precision: str
) -> None:
    gradients, counts = [], []
    for is_on in (False, True):
        config = HardwareConfig.model_validate({"activation_checkpointing": is_on, **how})
        model = parallelize(tiny_front_end().train(), config, None)
        batch = random_batch()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
            logits = model(batch.columns, batch.oracle)
        assert logits.audio is not None
        with FlopCounterMode(display=False) as counter:
            (logits.text.float().sum() + logits.audio.float().sum()).backward()
        counts.append(counter.get_total_flops())
        gradients.append({name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])
    more = counts[1] / counts[0] - 1
    if precision == "fp32":
        least, most = {"all": (0.3, 0.5), "half": (0.15, 0.25), "but-products": (0, 0.01)}[
            next(name for name, each in AGAIN.items() if each is how)
        ]
        assert least <= more <= most, more


def test_layers_that_compute_again_are_spread_evenly() -> None:
    layers: list[torch.nn.Module] = [torch.nn.Identity() for _ in range(8)]
    assert spread_evenly(layers, 1.0) == layers
    assert spread_evenly(layers, 0.5) == layers[1::2]
    assert spread_evenly(layers, 0.25) == layers[3::4]
    assert len(spread_evenly(layers, 0.7)) == 5


@pytest.mark.slow
def test_compiled_layers_change_no_logit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[torch.nn.Module] = []

    compile_ = torch.compile

    def traced(forward: Any, **how: Any) -> Any:  # less the minutes that code takes
        compiled.append(forward.__self__)
        return compile_(forward, backend="eager", **how)

    monkeypatch.setattr(torch, "compile", traced)
    plain, ours = tiny_front_end(), parallelize(tiny_front_end(), HardwareConfig(compile=True), None)
    batch = random_batch()
    with torch.no_grad():
        one, other = (each(batch.columns, batch.oracle) for each in (plain, ours))
    assert len(compiled) == 4  # of both transformers
    torch.testing.assert_close(one.text, other.text)
    torch.testing.assert_close(audio_of(one), audio_of(other))


def test_a_device_that_is_not_there_is_told() -> None:
    assert find_device("auto").type in {"cpu", "cuda"}
    with pytest.raises(ConfigError, match="no device 'abacus'"):
        find_device("abacus")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++, by which inductor compiles for processors")
def test_a_compiled_layer_has_the_same_gradients_when_it_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.config.compile_threads", 1)  # in this process
    found = []
    for is_on in (False, True):
        config = HardwareConfig(compile=is_on, activation_checkpointing=is_on)
        model = parallelize(tiny_front_end(num_layers=1), config, None).train()
        batch = random_batch()
        model(batch.columns, batch.oracle, with_audio=False).text.square().sum().backward()
        found.append({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
    plain, compiled = found
    assert compiled.keys() == plain.keys()
    for name, each in compiled.items():
        torch.testing.assert_close(each, plain[name], atol=1e-4, rtol=1e-4)
