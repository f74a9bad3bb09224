"""The weights that a run begins with."""

from pathlib import Path

import torch

from data_schemas.errors import ConfigError
from kame_model.checkpoint.place import find
from kame_model.checkpoint.start import init_from
from kame_model.checkpoint.weights import digest_of_files, look_into
from kame_model.model.front_end import FrontEnd
from kame_model.train.runs import CONFIG, SpeaksWith, load_weights, read_facts
from kame_model.train.saving import CHECKPOINTS, saved_in


def start_from(model: FrontEnd, place: str, speaks_with: SpeaksWith | None = None) -> None:
    """Fills a front-end from a run of ours, an export of ours, KAME's release or Moshi's.

    Of a run the last checkpoint is taken, for more training goes on from where the run came to; to begin with its best
    one, name its export.

    Args:
        model: without adapters.
        place: a folder, or a repository of the Hugging Face Hub.
        speaks_with: what the model is to speak with; None: it is not compared.

    Raises:
        ConfigError: the weights belong to another shape, vocabulary or codec, or to a run with adapters.
        DatasetError, StoreError: a run without a whole checkpoint, or with a damaged one.
        BackendError: the Hub does not answer.
    """
    if not _is_run(place):
        digests = (None, None) if speaks_with is None else (speaks_with.tokenizer_digest, speaks_with.codec_digest)
        init_from(model, place, *digests)
        return
    facts = read_facts(place)
    if facts.config.lora is not None:
        raise ConfigError(f"The run {place} holds adapters alone.", "Export it, and start from the export.")
    if speaks_with is not None and facts.speaks_with != speaks_with:
        raise ConfigError(
            f"The weights of {place} speak with another vocabulary or codec ({facts.speaks_with}) than the datasets "
            f"({speaks_with}).",
            "Encode the datasets with the tokenizer and codec of those weights.",
        )
    load_weights(model, place)
    if facts.config.stage == "copy" and facts.config.init_from is None:
        _empty_codes(model)


def digest_of(place: str) -> str:
    """Stands for the weights that `start_from` takes from a place: 16 hexadecimal digits. Reads all of them.

    Raises:
        ConfigError, DatasetError, StoreError, BackendError: see `start_from`.
    """
    if _is_run(place):
        saved = saved_in(Path(place) / CHECKPOINTS)
        files = sorted(saved[-1].folder.glob("*.distcp")) if saved else []
    else:
        files = [look_into(find(place)).path]
    return digest_of_files(files)


def _is_run(place: str) -> bool:
    return (Path(place) / CHECKPOINTS).is_dir() and (Path(place) / CONFIG).is_file()


def _empty_codes(model: FrontEnd) -> None:
    """Embeddings of codes that the copying stage never saw: random ones, summed over all codebooks, are four times as
    large as the text's and drown what was learnt."""
    with torch.no_grad():
        for embedding in model.lm.emb:
            embedding.get_parameter("weight").zero_()
