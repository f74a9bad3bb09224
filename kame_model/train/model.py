"""The front-end that a run trains: its shape, its first weights and their way to all processes, its forward pass."""

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
from kame_model.train.run_facts import SpeaksWith
from kame_model.train.run_folder import start_from


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """How a forward pass is made in this run: on which device, in which precision.

    Attributes:
        processes: the run's; their device is where batches must be.
        precision: bf16-mixed computes products in bf16, under autocast.
    """

    processes: Processes
    precision: Precision = "fp32"

    @property
    def product_type(self) -> torch.dtype:
        """The type in which products of matrices are made, and matrices are kept that are not trained."""
        return torch.bfloat16 if self.precision == "bf16-mixed" else torch.float32

    def __call__(
        self, model: nn.Module, batch: Batch, inputs: Tensor | None = None, *, with_audio: bool = True
    ) -> Logits:
        """Logits of a batch.

        Args:
            model: on the device of the batch.
            batch: of examples.
            inputs: what the temporal transformer reads in the place of the batch's columns.
            with_audio: False leaves the depth transformer out; the same on every process, for weights are gathered.
        """
        is_mixed = self.product_type == torch.bfloat16
        with torch.autocast(self.processes.device.type, dtype=torch.bfloat16, enabled=is_mixed):
            logits: Logits = model(batch.columns, batch.oracle, inputs=inputs, with_audio=with_audio)
        return logits


def build_shape(config: TrainConfig, speaks_with: SpeaksWith, forward: ForwardPass) -> FrontEnd:
    """The front-end that is trained, with adapters where it has them, on PyTorch's meta device: it takes no memory."""
    with torch.device("meta"):
        front_end = build_front_end(config.model, speaks_with.text_card, speaks_with.layout, "meta")
        return _prepare_training(front_end, config, forward)


def build_model(
    shape: FrontEnd, config: TrainConfig, speaks_with: SpeaksWith, forward: ForwardPass, is_new: bool
) -> FrontEnd:
    """The front-end on its device or devices, parallelised, with the weights that the run begins with.

    Of several processes the first alone makes or reads all weights, on its device; the others hold no more than their
    shards, which come to them from it, a tensor at a time. Where a checkpoint has all weights none does: shards are
    left empty, to be filled from it.

    Args:
        shape: of `build_shape`; it becomes the model where weights are sharded.
        is_new: no checkpoint is there to go on from.

    Raises:
        ConfigError, DatasetError, StoreError, BackendError: the weights named to begin with; see `start_from`.
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


def _load_weights(config: TrainConfig, speaks_with: SpeaksWith, forward: ForwardPass, is_new: bool) -> FrontEnd:
    """All weights on this process's device."""
    torch.manual_seed(ids.seed_for("weights", config.seed))
    model = build_front_end(config.model, speaks_with.text_card, speaks_with.layout, forward.processes.device)
    if config.init_from is not None and (is_new or config.lora is not None):  # adapters' checkpoints lack the rest
        start_from(model, config.init_from, speaks_with)
    return _prepare_training(model, config, forward)


def _prepare_training(model: FrontEnd, config: TrainConfig, forward: ForwardPass) -> FrontEnd:
    """Puts adapters in, and freezes what is not trained."""
    if config.lora is not None:
        add_lora(model, config.lora, forward.product_type)
    if not config.shares.has_sound:
        for name, each in model.named_parameters():
            if name.startswith(SOUND_WEIGHTS):  # without sound no gradient comes to them
                each.requires_grad_(False)
    return model
