"""The weights that a run begins with."""

from pathlib import Path

from data_schemas.errors import ConfigError
from kame_model.checkpoint.start import init_from
from kame_model.model.front_end import FrontEnd
from kame_model.train.runs import CONFIG, SpeaksWith, load_weights, read_facts
from kame_model.train.saving import CHECKPOINTS


def start_from(model: FrontEnd, place: str, speaks_with: SpeaksWith | None = None) -> None:
    """Fills a front-end from a run of ours, an export of ours, KAME's release or Moshi's.

    Args:
        model: without adapters.
        place: a folder, or a repository of the Hugging Face Hub.
        speaks_with: what the model is to speak with; None: it is not compared.

    Raises:
        ConfigError: the weights belong to another vocabulary or codec, or to a run with adapters.
        DatasetError, StoreError: a run without a whole checkpoint, or of another shape.
        BackendError: the Hub does not answer.
    """
    if not (Path(place) / CHECKPOINTS).is_dir() or not (Path(place) / CONFIG).is_file():
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
