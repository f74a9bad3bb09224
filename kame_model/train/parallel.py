"""The processes of a run (one, or those of `torchrun`), and how the model is parallelised over them.

Only `parallelize` does this: compile, then activation checkpointing, then sharding. torchtitan (pytorch/torchtitan,
`models/llama3/parallelize.py`) has the first two in the opposite order; here the compiled layer is recomputed. moshi's
own switch for checkpointing is not used, because it applies to all layers or none. The modules of a layer are sharded,
not the layer (see `_list_units`), so its compiled code is split where they are gathered.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from moshi.modules.streaming import StreamingModule
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from backends.codec.moshi_codec import choose_device
from data_schemas.config.training import CheckpointKeeps, HardwareConfig
from data_schemas.errors import ConfigError
from kame_model.data.loader import ALONE, Share
from kame_model.model.attention import choose_attention
from kame_model.model.front_end import FrontEnd

_PRODUCTS = [
    getattr(torch.ops.aten, name).default
    for name in (
        "mm",
        "addmm",
        "bmm",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
]
"""Matrix products, including attention: nearly all of a layer's computation, and about half of its saved
activations."""


@dataclass(frozen=True, slots=True)
class Processes:
    """All processes of a run, as seen from one of them.

    Attributes:
        device: device of this process.
        share: rank of this process, and number of processes.
        mesh: device mesh over which weights are sharded: one dimension, or two for replicas of the weights and shards
            of a replica; None: a single process.
        control: a CPU process group, for what must not wait for a GPU; None: a single process.
    """

    device: torch.device
    share: Share = ALONE
    mesh: DeviceMesh | None = None
    control: dist.ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files."""
        return self.share.rank == 0

    def sum_over_all(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the sum of a vector over all processes, on the CPU; all processes must call it.

        With several processes, a vector that is on the CPU already is overwritten by the sum.
        """
        values = values.cpu()
        if self.control is not None:
            dist.all_reduce(values, group=self.control)
        return values

    def barrier(self) -> None:
        """Waits until all processes have reached this point."""
        if self.control is not None:
            dist.barrier(group=self.control)


def find_device(wanted: str) -> torch.device:
    """Returns the device of a name: cpu, cuda, or auto, which is cuda if there is a GPU, else cpu.

    Raises:
        ConfigError: there is no such device.
    """
    try:
        return torch.device(choose_device(wanted))
    except RuntimeError as error:
        raise ConfigError(f"There is no device {wanted!r}.", "Choose cpu, cuda or auto.") from error


@contextmanager
def join_processes(wanted: str, n_replicas: int = 1) -> Iterator[Processes]:
    """Context manager that yields the processes of this run; under `torchrun`, it joins the process group during it.

    Args:
        wanted: hardware.device; each process of a machine uses its own GPU.
        n_replicas: hardware.replicas. `torchrun` numbers processes node by node, so with as many replicas as nodes the
            shards of a replica are on one node.

    Raises:
        ConfigError: there is no such device, or the number of processes is not a multiple of the replicas.
    """
    device, world = find_device(wanted), int(os.environ.get("WORLD_SIZE", "1"))
    if world % n_replicas:
        raise ConfigError(
            f"{world} processes cannot hold {n_replicas} copies of the weights (hardware.replicas).",
            "Set it to a number that divides the processes, such as the number of nodes; 1 shards over all of them.",
        )
    if world == 1:
        yield Processes(device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        share = Share(dist.get_rank(), dist.get_world_size())
        if n_replicas == 1:
            mesh = init_device_mesh(device.type, (share.world,))
        else:
            shape = (n_replicas, share.world // n_replicas)
            mesh = init_device_mesh(device.type, shape, mesh_dim_names=("replicas", "shards"))
        yield Processes(device, share, mesh, dist.new_group(backend="gloo"))
    finally:
        dist.destroy_process_group()


def parallelize(model: FrontEnd, config: HardwareConfig, mesh: DeviceMesh | None) -> FrontEnd:
    """Applies compilation, activation checkpointing and sharding as configured to a model, in place, and returns it.

    Weights keep their names.

    Args:
        model: single-device code, with its weights or, if it is to be sharded, on the meta device.
        config: which of the three to apply.
        mesh: the processes to shard over, see `Processes`; None: one process, nothing is sharded.
    """
    transformers = (model.lm.transformer, model.lm.depformer)
    layers: list[nn.Module] = [layer for each in transformers for layer in each.layers]
    if config.compile:
        for layer in layers:
            layer.forward = torch.compile(layer.forward, dynamic=True)  # batches come in many lengths
    if config.activation_checkpointing:
        for each in transformers:
            for layer in spread_evenly(list(each.layers), config.checkpoint_share):
                _recompute_activations(layer, config.checkpoint_keeps, model.lm_kwargs["context"])
    if mesh is not None:
        # FrontEnd returns views of moshi's logits. PyTorch warns about changes in place, which the loss does not make.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view", category=UserWarning)
        policy = MixedPrecisionPolicy()
        if config.precision == "bf16-mixed":  # layers are gathered in bf16, the type of their matrix products
            policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
            )
        for layer in layers:
            fully_shard(list(_list_units(layer)), mesh=mesh, mp_policy=policy)  # gathered together, freed together
        fully_shard(model, mesh=mesh)  # the rest in float32, so that embeddings are summed as in one process
    return model


def spread_evenly(layers: list[nn.Module], share: float) -> list[nn.Module]:
    """Selects a share of the layers, spread evenly, and returns them in order."""
    return [
        layer for at, layer in enumerate(layers) if math.floor((at + 1) * share + 1e-9) > math.floor(at * share + 1e-9)
    ]


def _recompute_activations(layer: nn.Module, keeps: CheckpointKeeps, context: int) -> None:
    """Makes a layer recompute its activations in the backward pass, in place; weights keep their names."""
    forward: Callable[..., torch.Tensor] = layer.forward

    def run(x: torch.Tensor, **more: Any) -> torch.Tensor:
        """Runs the layer; with gradients, only what `keeps` names is saved for the backward pass."""
        if not torch.is_grad_enabled():
            return forward(x, **more)
        # As in moshi, except for the contexts.
        contexts = partial(_make_checkpoint_contexts, keeps, choose_attention(x.device.type, context))
        how: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False, "determinism_check": "none"}
        out: torch.Tensor = checkpoint(forward, x, **how, context_fn=contexts, **more)
        return out

    layer.forward = run


def _make_checkpoint_contexts(keeps: CheckpointKeeps, attention: TorchFunctionMode) -> tuple[Any, Any]:
    """Returns the two context managers of a layer's forward pass and of its recomputation, for `checkpoint`.

    The recomputation uses the same attention; what `keeps` names is not recomputed.
    """
    if keeps == "nothing":
        return nullcontext(), attention
    first, again = create_selective_checkpoint_contexts(_PRODUCTS)  # type: ignore[no-untyped-call]

    @contextmanager
    def compute_again() -> Iterator[None]:
        with attention, again:
            yield

    return first, compute_again()


def _list_units(module: nn.Module) -> Iterator[nn.Module]:
    """Yields the modules of a layer that can be sharded; together they have all its weights.

    Not the layer itself: `fully_shard` changes a module's class in place, and Python refuses that for moshi's streaming
    modules, whose first base is not an `nn.Module` ("object layout differs").
    """
    for child in module.children():
        if isinstance(child, StreamingModule | nn.ModuleList):
            yield from _list_units(child)
        elif next(child.parameters(), None) is not None:
            yield child
