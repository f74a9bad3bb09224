"""What `torch.compile` makes of a layer, by its own compiler; `test_train_parts.py` traces all layers without it."""

import shutil

import pytest
import torch

from data_schemas.config.training import HardwareConfig
from kame_model.train.parallel import parallelize
from tests.support.front_ends import random_batch, tiny_front_end

pytestmark = pytest.mark.slow


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
