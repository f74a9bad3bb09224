"""A checkpoint made on the spot: random weights of a preset's shape, a random codec, a vocabulary of a few sentences.

What it says is noise; what it costs is what a trained one of the same shape costs.
"""

from pathlib import Path

import torch
from moshi.models import loaders

from backends.codec.folder import write_folder
from backends.codec.nano_mimi import NanoMimi, NanoMimiOptions, mimi_kwargs
from data_schemas.config.codec import NanoMimiConfig
from data_schemas.config.model import ModelConfig
from data_schemas.store import Store
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.codec.parts import codebooks_of
from kame_model.model.front_end import build_front_end
from tests.support.vocabularies import make_vocabulary


def random_checkpoint(folder: Path, model: ModelConfig) -> Path:
    """Makes an export of a front-end of this shape in `folder`, with the codec of `nano`; returns where it is."""
    torch.manual_seed(0)
    shape = NanoMimiConfig()
    kwargs = mimi_kwargs(shape)
    mimi = loaders.get_mimi(None, kwargs, num_codebooks=kwargs["quantizer"]["n_q"])
    for codebook in codebooks_of(mimi):
        codebook.embedding_sum.normal_()
        codebook._initialized.fill_(1)
    write_folder(mimi, kwargs, Store(str(folder / "codec")))
    tokenizer = make_vocabulary(folder)
    codec = NanoMimi(NanoMimiOptions(path=str(folder / "codec")))
    front_end = build_front_end(model, tokenizer.text_card, codec.layout)
    facts = TrainingFacts(stage="dialogues", step=1, data=[], figures={})
    export_checkpoint(front_end.eval(), tokenizer, codec, folder / "export", facts)
    return folder / "export"
