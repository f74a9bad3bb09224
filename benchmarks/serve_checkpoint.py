"""Makes a checkpoint with random weights of a preset's shape, a random codec and a small vocabulary.

Its output is noise; its cost is that of a trained one of the same shape, except that the vocabulary of 300 pieces makes
the text head smaller (for moshi-7b by 130 of 7,800 million weights).
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


def make_random_checkpoint(
    folder: Path, model: ModelConfig, codec_name: str = "codec2-learnt", device: str = "cpu"
) -> Path:
    """Writes a codec, a vocabulary and an export of a front-end of this shape to `folder`; returns the export's path.

    Args:
        codec_name: codec2-learnt, as `nano` has it, or mimi, of its real shape.
        device: device on which the weights are made; on CUDA they are stored in bf16.
    """
    torch.manual_seed(0)
    codec = _make_mimi(folder / "codec") if codec_name == "mimi" else _make_codec2(folder / "codec")
    tokenizer = make_vocabulary(folder)
    front_end = build_front_end(model, tokenizer.text_card, codec.layout, device)
    facts = TrainingFacts(stage="dialogues", step=1, data=[], figures={})
    dtype = torch.bfloat16 if torch.device(device).type == "cuda" else None
    export_checkpoint(front_end.eval(), tokenizer, codec, folder / "export", facts, dtype)
    return folder / "export"


def _make_codec2(folder: Path) -> LearntCodec2:
    """Makes a codec codec2-learnt with random codebooks, which are written to the folder."""
    write_codebooks(folder, n_stages=2, card=512)
    return LearntCodec2(LearntCodec2Options(path=str(folder)))


def _make_mimi(folder: Path) -> Mimi:
    """Makes a codec Mimi with random weights, which are written to the folder."""
    kwargs = dict(loaders._mimi_config)
    write_mimi(folder, random_model(kwargs), kwargs)
    return Mimi(MimiOptions(path=str(folder), n_codebooks=8, device="cpu"))
