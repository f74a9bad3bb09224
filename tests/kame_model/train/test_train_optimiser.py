"""Learning rate, moving average, and which weights decay: every parameter of every preset, and of an older run."""

import re
from pathlib import Path
from typing import Literal

import pytest
import torch

from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import LoraConfig
from data_schemas.config.training import OptimConfig
from data_schemas.presets import PRESETS
from kame_model.model.front_end import FrontEnd, build_front_end
from kame_model.model.lora import add_lora
from kame_model.train import trainer
from kame_model.train.optimiser import MovingAverage, compute_learning_rate, get_trained_parameters, make_optimiser
from kame_model.train.run import train
from tests.support.train_runs import Asking, tiny_dataset, tiny_run

pytestmark = pytest.mark.full

NORMS = {
    "lm.transformer.layers.*.norm1.alpha",
    "lm.transformer.layers.*.norm2.alpha",
    "lm.out_norm.alpha",
    "lm.depformer.layers.*.norm1.alpha",
    "lm.depformer.layers.*.norm2.alpha",
}
EMBEDDINGS = {"lm.emb.*", "lm.text_emb", "lm.depformer_emb.*", "lm.depformer_text_emb"}
MATRICES = {
    "lm.transformer.layers.*.self_attn.in_projs.*",
    "lm.transformer.layers.*.self_attn.out_projs.*",
    "lm.transformer.layers.*.gating.linear_in",
    "lm.transformer.layers.*.gating.linear_out",
    "lm.depformer_in.*",
    "lm.depformer.layers.*.self_attn.in_projs.*",
    "lm.depformer.layers.*.self_attn.out_projs.*",
    "lm.depformer.layers.*.gating.*.linear_in",
    "lm.depformer.layers.*.gating.*.linear_out",
    "lm.linears.*",
}
ORACLE = {"table": ({"oracle.embedding"}, set[str]()), "tied": ({"oracle.projection"}, {"oracle.shift"})}
"""Modules whose weight decays, and parameters that do not, of either oracle."""


CONFIG = OptimConfig(learning_rate=1.0, warmup_steps=10, final_share=0.1)


def test_learning_rate_rises_in_a_line_and_falls_as_a_cosine() -> None:
    rates = [compute_learning_rate(step, 110, CONFIG) for step in range(111)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.55)  # half-way between 1 and the last share
    assert rates[110] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert compute_learning_rate(0, 10, OptimConfig(learning_rate=0.5, warmup_steps=0)) == 0.5


def test_learning_rate_falls_by_time_where_the_steps_are_not_as_far() -> None:
    assert compute_learning_rate(20, 10**6, CONFIG, time_share=0.5) == pytest.approx(0.55, abs=1e-3)
    assert compute_learning_rate(20, 10**6, CONFIG, time_share=1.2) == pytest.approx(0.1)
    assert compute_learning_rate(60, 110, CONFIG, time_share=0.2) == compute_learning_rate(60, 110, CONFIG)
    assert compute_learning_rate(3, 110, CONFIG, time_share=0.9) == compute_learning_rate(3, 110, CONFIG), "warm-up"


def averaged(decay: float, values: list[float], first_step: int) -> tuple[torch.nn.Linear, MovingAverage]:
    """A weight that was 0 and then had some values, and its average."""
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
        average = MovingAverage(model, decay)
        for step, value in enumerate(values, first_step):
            model.weight.fill_(value)
            average.update(step)
    return model, average


def test_moving_average_follows_gives_the_weights_back_and_soon_forgets_the_random_start() -> None:
    model, average = averaged(0.5, [1.0, 3.0], first_step=100)
    with average.swap_in():
        assert model.weight.item() == pytest.approx(0.5 * (0.5 * 1.0) + 0.5 * 3.0)
    assert model.weight.item() == 3.0
    assert averaged(0.999, [1.0] * 20, first_step=0)[1].weights["weight"].item() > 0.99  # 0.02 with the full decay


def front_end(preset: str, oracle: Literal["table", "tied"]) -> FrontEnd:
    """A preset on a device of no memory."""
    config = PRESETS[preset].model.model_copy(update={"oracle": oracle})
    return build_front_end(config, 1500, CodeLayout.make_mimi(8, 64), "meta")


def of_oracle(model: FrontEnd, oracle: Literal["table", "tied"]) -> tuple[set[str], set[str]]:
    """What of the oracle decays and what does not; a cue decays."""
    decaying, not_decaying = ORACLE[oracle]
    return decaying | (set() if model.cue is None else {"cue.projection"}), not_decaying


def groups(model: FrontEnd) -> tuple[set[str], set[str]]:
    """Names of the trained parameters that decay and of those that do not, with a star for each number."""
    optimiser = make_optimiser(model, OptimConfig(weight_decay=0.1))
    decay = {id(each): group["weight_decay"] for group in optimiser.param_groups for each in group["params"]}
    named = [
        (re.sub(r"\.\d+", ".*", name), decay.pop(id(each))) for name, each in get_trained_parameters(model).items()
    ]
    assert not decay, "the optimiser has what is not trained"
    return {name for name, each in named if each == 0.1}, {name for name, each in named if each == 0.0}


@pytest.mark.parametrize("oracle", ["table", "tied"])
@pytest.mark.parametrize("preset", PRESETS)
def test_matrices_and_embeddings_decay_and_norms_do_not(preset: str, oracle: Literal["table", "tied"]) -> None:
    model = front_end(preset, oracle)
    head = set() if model.tie_text_head else {"lm.text_linear"}  # a tied one is the text embedding
    decaying, not_decaying = of_oracle(model, oracle)
    expected = {f"{each}.weight" for each in EMBEDDINGS | MATRICES | head | decaying}
    assert groups(model) == (expected, NORMS | not_decaying)


@pytest.mark.parametrize("oracle", ["table", "tied"])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("train_embeddings", [False, True])
def test_adapters_decay(preset: str, oracle: Literal["table", "tied"], train_embeddings: bool) -> None:
    model = front_end(preset, oracle)
    head = set() if model.tie_text_head else {"lm.text_linear"}
    add_lora(model, LoraConfig(rank=2, train_embeddings=train_embeddings))
    adapters = {f"{each}.lora_{side}" for each in MATRICES | head for side in "AB"}
    decaying, not_decaying = of_oracle(model, oracle)
    expected = {f"{each}.weight" for each in adapters | decaying | (EMBEDDINGS if train_embeddings else set())}
    assert groups(model) == (expected, not_decaying)


@pytest.mark.parametrize("oracle", ["table", "tied"])
def test_a_run_begun_with_other_groups_goes_on_with_those_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: str
) -> None:
    """Groups once went by the number of dimensions: a run with a table had one group, a run with a tied oracle two."""

    def by_dimensions(model: torch.nn.Module, config: OptimConfig) -> torch.optim.AdamW:
        parameters = list(get_trained_parameters(model).values())
        decaying = {"params": [each for each in parameters if each.ndim > 1], "weight_decay": config.weight_decay}
        rest = {"params": [each for each in parameters if each.ndim <= 1], "weight_decay": 0.0}
        return torch.optim.AdamW([each for each in (decaying, rest) if each["params"]], lr=config.learning_rate)

    made: list[torch.optim.AdamW] = []

    def kept(model: torch.nn.Module, config: OptimConfig) -> torch.optim.AdamW:
        made.append(make_optimiser(model, config))
        return made[-1]

    config = tiny_run(tmp_path / "run", tiny_dataset(tmp_path / "rows"), max_steps=4, model={"oracle": oracle})
    monkeypatch.setattr(trainer, "make_optimiser", by_dimensions)
    assert train(config, Asking(2)).step == 2
    monkeypatch.setattr(trainer, "make_optimiser", kept)
    assert train(config).step == 4
    (optimiser,) = made
    assert {each.ndim: group["weight_decay"] for group in optimiser.param_groups for each in group["params"]} == (
        {2: 0.1, 3: 0.0} | ({1: 0.0} if oracle == "tied" else {})
    )
    steps = {float(optimiser.state[each]["step"]) for group in optimiser.param_groups for each in group["params"]}
    assert steps == {4.0}, "the means of the steps before were lost"
