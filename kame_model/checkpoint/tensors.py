"""A front-end's weights under the names that Kyutai's files have, and `oracle_emb.weight`, the one key that is ours.

moshi renamed the attention's projections in time: today's `LMModel` has one matrix a step (`in_projs.0.weight`), its
released files have them joined (`in_proj_weight`, `out_proj.weight`). It loads both; older ones and those that were
forked from them load the joined ones alone. So those are written.
"""

import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from data_schemas.errors import StoreError
from kame_model.model.front_end import FrontEnd

ORACLE_KEY = "oracle_emb.weight"
TEXT_HEAD_KEY = "text_linear.weight"

_PROJECTION = re.compile(r"(.+\.)(in|out)_projs\.(\d+)\.weight")
_JOINED = {"in": "in_proj_weight", "out": "out_proj.weight"}


def stock_state(front_end: FrontEnd, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """All weights by their names in a file, on the CPU; a tied oracle is a table here and a tied text head a matrix.

    Args:
        front_end: without adapters.
        dtype: of all tensors; None: as they are.
    """
    state = dict(front_end.lm.state_dict())
    state[TEXT_HEAD_KEY] = front_end.lm.text_linear.weight.detach()
    state = _joined(state)
    state[ORACLE_KEY] = front_end.oracle.table(front_end.lm.text_emb)
    return {name: tensor.to("cpu", dtype).contiguous().clone() for name, tensor in state.items()}


def _joined(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The steps' projections in one matrix each, [n_steps * out, in]."""
    steps: dict[str, list[Tensor]] = {}
    others: dict[str, Tensor] = {}
    for name, tensor in state.items():
        found = _PROJECTION.fullmatch(name)
        if found is None:
            others[name] = tensor
        else:  # state dicts are in the order of their modules: steps come in theirs
            steps.setdefault(found[1] + _JOINED[found[2]], []).append(tensor)
    return others | {name: torch.cat(tensors) for name, tensors in steps.items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors file's tensors, on the CPU.

    Raises:
        StoreError: it cannot be read, or is damaged.
    """
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Fetch or export the checkpoint again.") from error
