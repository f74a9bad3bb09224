"""The front-end that a run trains: its shape, its initial weights on all processes, and its forward pass."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

from data_schemas import ids
from data_schemas.config.training import Precision, TrainConfig
from kame_model.frames.batch import Batch
from kame_model.model.front_end import SOUND_WEIGHTS, FrontEnd, Logits, build_front_end
from kame_model.model.lora import add_lora
from kame_model.train.parallel import Processes, parallelize
from kame_model.train.run_facts import VocabularyAndCodec
from kame_model.train.run_folder import load_initial_weights


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """Forward passes on the device and in the precision of a run.

    Attributes:
        processes: processes of the run; batches must be on their device.
        precision: bf16-mixed computes matrix products in bf16, with autocast.
    """

    processes: Processes
    precision: Precision = "fp32"

    @property
    def product_type(self) -> torch.dtype:
        """The type of matrix products, and of the frozen matrices of layers with adapters."""
        return torch.bfloat16 if self.precision == "bf16-mixed" else torch.float32

    def __call__(
        self, model: nn.Module, batch: Batch, inputs: Tensor | None = None, *, with_audio: bool = True
    ) -> Logits:
        """Returns the logits of a batch.

        Args:
            model: the model, on the device of the batch.
            batch: the examples.
            inputs: what the temporal transformer reads instead of the batch's columns.
            with_audio: False omits the depth transformer; the same on every process, because weights are gathered.
        """
        is_mixed = self.product_type == torch.bfloat16
        with torch.autocast(self.processes.device.type, dtype=torch.bfloat16, enabled=is_mixed):
            logits: Logits = model(batch.columns, batch.oracle, inputs=inputs, with_audio=with_audio)
        return logits


def build_shape(config: TrainConfig, speaks_with: VocabularyAndCodec, forward: ForwardPass) -> FrontEnd:
    """Builds the front-end to train on PyTorch's meta device, so without weights; with adapters if configured."""
    with torch.device("meta"):
        front_end = build_front_end(config.model, speaks_with.text_card, speaks_with.layout, "meta")
        return _prepare_training(front_end, config, forward)


def build_model(
    shape: FrontEnd, config: TrainConfig, speaks_with: VocabularyAndCodec, forward: ForwardPass, is_new: bool
) -> FrontEnd:
    """Builds the parallelised front-end on its devices, with the initial weights of the run.

    Of several processes, only the first makes or reads all weights, on its device; the others only hold their shards,
    which it sends tensor by tensor. If a checkpoint has all weights, no process does: the shards stay empty, to be
    filled from the checkpoint. A process that makes weights seeds torch's global random generator.

    Args:
        shape: from `build_shape`; it becomes the model if weights are sharded.
        config: configuration of the run.
        speaks_with: vocabulary and codec.
        forward: device and precision.
        is_new: whether there is no checkpoint to resume from.

    Raises:
        ConfigError, DatasetError, StoreError, BackendError: errors of the initial weights; see `load_initial_weights`.
    """
    processes = forward.processes
    if processes.mesh is not None and not is_new and config.lora is None:  # a checkpoint has all of them
        return parallelize(shape, config.hardware, processes.mesh).to_empty(device=processes.device)
    whole = _load_weights(config, speaks_with, forward, is_new) if processes.is_first else None
    if whole is not None and processes.mesh is None:
        return parallelize(whole, config.hardware, None)
    model = parallelize(shape, config.hardware, processes.mesh).to_empty(device=processes.device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, {} if whole is None else whole.state_dict(), options=options)
    return model


def _load_weights(config: TrainConfig, speaks_with: VocabularyAndCodec, forward: ForwardPass, is_new: bool) -> FrontEnd:
    """Builds the front-end with all its initial weights on this process's device; seeds torch's global generator.

    `init_from` is read for a new run, and always for adapters. Otherwise the weights are random, because the checkpoint
    from which the run resumes has all of them.
    """
    torch.manual_seed(ids.derive_seed("weights", config.seed))
    model = build_front_end(config.model, speaks_with.text_card, speaks_with.layout, forward.processes.device)
    if config.init_from is not None and (is_new or config.lora is not None):  # adapter checkpoints lack base weights
        load_initial_weights(model, config.init_from, speaks_with)
    return _prepare_training(model, config, forward)


def _prepare_training(model: FrontEnd, config: TrainConfig, forward: ForwardPass) -> FrontEnd:
    """Adds adapters if configured, and freezes weights that are not trained; changes and returns the model."""
    if config.lora is not None:
        add_lora(model, config.lora, forward.product_type)
    if not config.shares.has_sound:
        for name, each in model.named_parameters():
            if name.startswith(SOUND_WEIGHTS):  # without audio they get no gradient
                each.requires_grad_(False)
    return model
