"""A checkpoint made on the spot: random weights of a preset's shape, noise as codebooks, a small vocabulary.

What it says is noise; what it costs is what a trained one of the same shape costs.
"""

from pathlib import Path

import torch

from backends.codec.codec2_learnt import LearntCodec2, LearntCodec2Options
from data_schemas.config.model import ModelConfig
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.model.front_end import build_front_end
from tests.support.codecs import write_codebooks
from tests.support.vocabularies import make_vocabulary


def random_checkpoint(folder: Path, model: ModelConfig) -> Path:
    """Makes an export of a front-end of this shape in `folder`, with the codec of `nano`; returns where it is."""
    torch.manual_seed(0)
    write_codebooks(folder / "codec", n_stages=2, card=512)
    codec = LearntCodec2(LearntCodec2Options(path=str(folder / "codec")))
    tokenizer = make_vocabulary(folder)
    front_end = build_front_end(model, tokenizer.text_card, codec.layout)
    facts = TrainingFacts(stage="dialogues", step=1, data=[], figures={})
    export_checkpoint(front_end.eval(), tokenizer, codec, folder / "export", facts)
    return folder / "export"
