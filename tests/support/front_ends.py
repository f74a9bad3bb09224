"""Front-ends of a few thousand parameters, and dialogues of random tokens for them."""

from typing import Any

import numpy as np
import torch
from moshi.models.lm import LMModel
from moshi.utils.compile import no_compile
from torch import Tensor

from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import ModelConfig
from kame_model.frames.batch import Batch, Example, collate
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import make_oracle_stream
from kame_model.frames.sequence import make_columns
from kame_model.model.front_end import FrontEnd, Logits, build_front_end

TEXT_CARD, CARD, N_CODEBOOKS = 40, 24, 3
LAYOUT = CodeLayout.make_mimi(N_CODEBOOKS, CARD)
LED_BY_TEXT = CodeLayout.make_parametric([CARD, 5, CARD], text_lead=2, temp=0.4)
"""A layout as far from Mimi's as Codec 2's is; one codebook is smaller."""

torch.set_num_threads(1)


def tiny_config(**changes: Any) -> ModelConfig:
    """A shape with every part of the real ones: two layers, a depth transformer with weights of its own a step."""
    shape = {
        "preset": "tiny",
        "dim": 32,
        "num_layers": 2,
        "num_heads": 2,
        "context": 64,
        "depformer_dim": 16,
        "depformer_num_layers": 2,
        "depformer_num_heads": 2,
    }
    return ModelConfig.model_validate(shape | changes)


def tiny_front_end(
    seed: int = 0, dtype: torch.dtype = torch.float32, layout: CodeLayout = LAYOUT, **changes: Any
) -> FrontEnd:
    """Makes a front-end with random weights, in evaluation mode; the vectors of oracle and text differ."""
    torch.manual_seed(seed)
    front_end = build_front_end(tiny_config(**changes), TEXT_CARD, layout).to(dtype).eval()
    with torch.no_grad():
        for parameter in front_end.oracle.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return front_end


def random_example(n_frames: int = 20, seed: int = 0, layout: CodeLayout = LAYOUT) -> Example:
    """A dialogue of random tokens, with an oracle of five tokens at frame 4 and a newer one of six at frame 7."""
    random = np.random.default_rng(seed)
    text = np.where(random.random(n_frames) < 0.5, PADDING_ID, random.integers(0, TEXT_CARD, n_frames))
    sizes = np.array(layout.sizes)[:, None]
    own, other = random.integers(0, sizes, (2, N_CODEBOOKS, n_frames))
    columns = make_columns(text.astype(np.int32), own, other, TEXT_CARD, layout)
    oracles = [(frame, random.integers(4, TEXT_CARD, n_tokens, np.int32)) for frame, n_tokens in ((4, 5), (7, 6))]
    oracle = make_oracle_stream(oracles, n_frames + 1, TEXT_CARD)
    return Example.from_columns(columns, oracle, random.random(n_frames + 1) < 0.3, TEXT_CARD, CARD)


def random_batch(batch_size: int = 2, n_frames: int = 20) -> Batch:
    """Dialogues of random tokens, the later ones shorter."""
    return collate([random_example(n_frames - 3 * index, seed=index) for index in range(batch_size)])


def stock_logits(lm: LMModel, batch: Batch, condition: Tensor | None = None) -> Logits:
    """Computes the logits of a batch by moshi's own functions, not compiled, so that kernels are the same as ours."""
    with torch.no_grad(), no_compile():
        hidden, text = lm.forward_text(batch.inputs, condition)
        return Logits(text[:, 0], lm.forward_depformer_training(batch.columns[..., 1:], hidden))


def audio_of(logits: Logits) -> Tensor:
    """Returns the logits of the codes; asserts that there are some."""
    assert logits.audio is not None
    return logits.audio
