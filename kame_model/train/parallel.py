"""What makes the model parallel, and nothing else does: activation checkpointing, then compile, then sharding.

In this order, as torchtitan has it (pytorch/torchtitan, `models/llama3/parallelize.py`), but for what lies inside what:
moshi's switch for checkpointing runs a layer again from outside, so it is the compiled layer that is run again; and
modules of a layer are sharded, not the layer (see `_units`), so its compiled code is cut where they are gathered.
"""

import warnings
from collections.abc import Iterator

import torch
from moshi.modules.streaming import StreamingModule
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from data_schemas.config.training import HardwareConfig
from kame_model.model.front_end import FrontEnd


def parallelize(model: FrontEnd, config: HardwareConfig, mesh: DeviceMesh | None) -> FrontEnd:
    """Applies what is configured, in place; names of weights stay as they are.

    Args:
        model: single-device code, with its weights or, to be sharded, on the meta device.
        config: which of the three.
        mesh: the processes to shard over; None: one process, nothing is sharded.
    """
    transformers = (model.lm.transformer, model.lm.depformer)
    for each in transformers:
        each.checkpointing = config.activation_checkpointing  # moshi's own switch: every layer is computed again
    layers: list[nn.Module] = [layer for each in transformers for layer in each.layers]
    if config.compile:
        for layer in layers:
            layer.compile(dynamic=True)  # batches come in many lengths
    if mesh is not None:
        # FrontEnd returns views of moshi's logits; the loss changes none of them in place, of which PyTorch warns.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view", category=UserWarning)
        policy = _policy(config)
        for layer in layers:
            fully_shard(list(_units(layer)), mesh=mesh, mp_policy=policy)  # gathered together, freed together
        fully_shard(model, mesh=mesh)  # the rest in float32, so that embeddings are summed as one process sums them
    return model


def _units(module: nn.Module) -> Iterator[nn.Module]:
    """The modules that make up a layer, each run once in a forward pass.

    Not the layer itself: `fully_shard` changes a module's class in place, and Python refuses that for moshi's streaming
    modules, whose first base is no `nn.Module` ("object layout differs").
    """
    for child in module.children():
        if isinstance(child, StreamingModule | nn.ModuleList):
            yield from _units(child)
        elif next(child.parameters(), None) is not None:
            yield child


def _policy(config: HardwareConfig) -> MixedPrecisionPolicy:
    """Layers are gathered in bf16 where their products are made in it; gradients are summed in float32 always."""
    if config.precision == "fp32":
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
