"""Of which types a run's weights are, on a device of no memory; `test_train_parallel.py` has their values."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from data_schemas.code_layout import CodeLayout
from data_schemas.config.training import Precision, TrainConfig
from kame_model.model.front_end import FrontEnd
from kame_model.train.model import ForwardPass, build_shape
from kame_model.train.parallel import Processes
from kame_model.train.run_facts import VocabularyAndCodec
from tests.support.train_runs import tiny_run

SPEAKS_WITH = VocabularyAndCodec(
    tokenizer_digest="made", text_card=200, codec_digest="made", layout=CodeLayout.make_mimi(4, 32)
)
ADAPTERS: dict[str, Any] = {"init_from": "base", "lora": {"rank": 2}}


def shape(config: TrainConfig) -> FrontEnd:
    return build_shape(config, SPEAKS_WITH, ForwardPass(Processes(torch.device("cpu")), config.hardware.precision))


@pytest.mark.parametrize("precision", get_args(Precision))
@pytest.mark.parametrize("changes", [{}, ADAPTERS])
def test_what_is_trained_is_kept_in_float32_in_every_precision(
    tmp_path: Path, precision: Precision, changes: dict[str, Any]
) -> None:
    model = shape(tiny_run(tmp_path, tmp_path, **changes, hardware={"precision": precision}))
    assert {each.dtype for each in model.parameters() if each.requires_grad} == {torch.float32}
    assert {each.device.type for each in model.parameters()} == {"meta"}
    frozen = {each.dtype for name, each in model.named_parameters() if "frozen_W" in name}
    assert frozen == ({torch.bfloat16 if precision == "bf16-mixed" else torch.float32} if changes else set())


@pytest.mark.parametrize("oracle", ["table", "tied"])
def test_copying_freezes_what_only_sound_reaches(tmp_path: Path, oracle: str) -> None:
    model = shape(tiny_run(tmp_path, tmp_path, shares={"copying": 1}, model={"oracle": oracle}))
    frozen = {name.split(".")[1] for name, each in model.named_parameters() if not each.requires_grad}
    assert frozen == {"emb", "depformer", "depformer_in", "depformer_emb", "depformer_text_emb", "linears"}
