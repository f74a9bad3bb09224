"""Makes a checkpoint with random weights of a preset's shape, a random codec and a small vocabulary.

Its cost is that of a trained one, except that the vocabulary of 300 pieces makes the text head smaller (for moshi-7b by
130 of 7,800 million weights).
"""

from pathlib import Path

import torch
from moshi.models import loaders

from backends.codec.codec2_learnt import LearntCodec2, LearntCodec2Options
from backends.codec.mimi import Mimi, MimiOptions
from data_schemas.config.model import ModelConfig
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.model.front_end import build_front_end
from tests.support.codecs import random_model, write_codebooks, write_mimi
from tests.support.vocabularies import make_vocabulary


def make_random_checkpoint(folder: Path, model: ModelConfig, codec_name: str, device: str) -> Path:
    """Writes a codec, a vocabulary and an export of a front-end of this shape to `folder`; returns the export's path.

    Args:
        codec_name: codec2-learnt, as `nano` has it, or mimi, of its real shape.
        device: device on which the weights are made; on CUDA they are stored in bf16.
    """
    torch.manual_seed(0)
    codec: LearntCodec2 | Mimi
    if codec_name == "mimi":
        kwargs = dict(loaders._mimi_config)
        write_mimi(folder / "codec", random_model(kwargs), kwargs)
        codec = Mimi(MimiOptions(path=str(folder / "codec"), n_codebooks=8, device="cpu"))
    else:
        write_codebooks(folder / "codec", n_stages=2, card=512)
        codec = LearntCodec2(LearntCodec2Options(path=str(folder / "codec")))
    tokenizer = make_vocabulary(folder)
    front_end = build_front_end(model, tokenizer.text_card, codec.layout, device)
    facts = TrainingFacts(stage="dialogues", step=1, data=[], figures={})
    dtype = torch.bfloat16 if torch.device(device).type == "cuda" else None
    export_checkpoint(front_end.eval(), tokenizer, codec, folder / "export", facts, dtype)
    return folder / "export"
