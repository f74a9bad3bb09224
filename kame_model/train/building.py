"""The front-end that a run trains: its shape, its first weights, and their way to all processes."""

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

from data_schemas import ids
from data_schemas.config.training import TrainConfig
from kame_model.model.front_end import FrontEnd, build_front_end
from kame_model.model.lora import add_lora
from kame_model.train.computing import Computing, freeze_sound
from kame_model.train.parallel import parallelize
from kame_model.train.runs import SpeaksWith, start_from


def shape_of(config: TrainConfig, speaks_with: SpeaksWith, computing: Computing) -> FrontEnd:
    """The front-end that is trained, with adapters where it has them, on PyTorch's meta device: it takes no memory."""
    with torch.device("meta"):
        return _to_train(_built(config, speaks_with, torch.device("meta")), config, computing)


def with_weights(
    shape: FrontEnd, config: TrainConfig, speaks_with: SpeaksWith, computing: Computing, is_new: bool
) -> FrontEnd:
    """The front-end on its device or devices, parallelised, with the weights that the run begins with.

    Of several processes the first alone makes or reads all weights, on its device; the others hold no more than their
    shards, which come to them from it, a tensor at a time.

    Args:
        shape: of `shape_of`; it becomes the model where weights are sharded.
        is_new: no checkpoint is there to go on from.

    Raises:
        ConfigError, DatasetError, StoreError, BackendError: the weights named to begin with; see `start_from`.
    """
    processes = computing.processes
    whole = _whole(config, speaks_with, computing, is_new) if processes.is_first else None
    if whole is not None and processes.mesh is None:
        return parallelize(whole, config.hardware, None)
    model = parallelize(shape, config.hardware, processes.mesh).to_empty(device=processes.device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, {} if whole is None else whole.state_dict(), options=options)
    return model


def _whole(config: TrainConfig, speaks_with: SpeaksWith, computing: Computing, is_new: bool) -> FrontEnd:
    """All weights on this process's device."""
    torch.manual_seed(ids.seed_for("weights", config.seed))
    model = _built(config, speaks_with, computing.processes.device)
    if config.init_from is not None and (is_new or config.lora is not None):  # adapters' checkpoints lack the rest
        start_from(model, config.init_from, speaks_with)
    return _to_train(model, config, computing)


def _built(config: TrainConfig, speaks_with: SpeaksWith, device: torch.device) -> FrontEnd:
    speaks = (speaks_with.text_card, speaks_with.card, speaks_with.n_codebooks)
    return build_front_end(config.model, *speaks, device)


def _to_train(model: FrontEnd, config: TrainConfig, computing: Computing) -> FrontEnd:
    """Puts adapters in, and freezes what is not trained."""
    if config.lora is not None:
        add_lora(model, config.lora, computing.product_type)
    if config.stage == "copy":
        freeze_sound(model)
    return model
