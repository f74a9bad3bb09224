"""Prepares a checkpoint for upload to the Hugging Face Hub: its files, and a model card with every licence."""

from collections.abc import Mapping
from pathlib import Path

from data_schemas.errors import ConfigError
from data_schemas.licences import add_licences_to_card, check_licences
from data_schemas.publishing import HubFile, RepositoryContents
from kame_model.checkpoint.card import render_card
from kame_model.checkpoint.files import CARD, CONFIG, FACTS, TOKENIZER, WEIGHTS
from kame_model.checkpoint.folder import CODEC, CODEC_KWARGS, CODEC_WEIGHTS
from kame_model.checkpoint.kame_json import read_kame_json
from kame_model.checkpoint.licences import collect_licences
from kame_model.checkpoint.summary import summarise

_FILES = (WEIGHTS, CONFIG, TOKENIZER, CODEC_WEIGHTS, CODEC_KWARGS, CARD, FACTS)


def collect_checkpoint_files(folder: str, repository: str, part_licences: Mapping[str, str]) -> RepositoryContents:
    """Returns the files to upload for a checkpoint: those of the export, all in one commit.

    Nothing is uploaded, and the folder is not changed. The model card to upload is generated again from the facts:
    training, validation metrics, results of free running, licences. So is `kame.json`, because those of earlier
    versions name folders of the machine.

    Args:
        folder: the checkpoint's folder.
        repository: owner/name, for the card.
        part_licences: licences by part, for parts whose licence is unknown (`collect_licences` names them).

    Raises:
        ConfigError: a licence forbids publishing or is unknown, or a file is missing.
        StoreError: a file is damaged.
    """
    place = Path(folder)
    facts = read_kame_json(place / FACTS)
    licences = check_licences(collect_licences(facts), part_licences, folder)
    own = facts.codec.files if facts.codec is not None else []
    needed = [WEIGHTS, CONFIG, *(own or []), *([] if facts.tokenizer_digest is None else [TOKENIZER])]
    if missing := [name for name in needed if not (place / name).is_file()]:
        raise ConfigError(f"{folder} is incomplete: {missing[0]} is missing.", "Export the checkpoint again.")
    names = sorted({*needed, *(name for name in _FILES if (place / name).is_file())} - {CARD, FACTS})
    summary = summarise(folder)
    card = render_card(facts, summary.n_weights, summary.n_parameters)
    for use in ('load_checkpoint("FOLDER', "kame serve FOLDER", "kame evaluate recall FOLDER"):
        card = card.replace(use, use.replace("FOLDER", repository))
    written = add_licences_to_card(card, licences, "").rstrip() + "\n"
    return RepositoryContents(
        kind="model",
        manifest=FACTS,
        files=[],
        last=[
            *(HubFile(name, place / name) for name in names),
            HubFile(CARD, written.encode()),
            HubFile(FACTS, facts.to_bytes()),
        ],
        owns_path=lambda path: path in _FILES or path.startswith(f"{CODEC}/"),
    )
