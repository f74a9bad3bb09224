"""A checkpoint's folder, written whole or not at all.

model.safetensors   the weights, under the names of Kyutai's files, and oracle_emb.weight
config.json         keyword arguments of moshi's LMModel, and the names of the files below
mimi.safetensors    the codec; with mimi.json where it is not moshi's own Mimi
tokenizer.model     the vocabulary
kame.json           all that is ours (kame_json.py)
README.md           the model's card
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store, new_folder
from kame_model.checkpoint.card import card
from kame_model.checkpoint.codec_files import CodecFiles
from kame_model.checkpoint.kame_json import FreeShare, KameJson, TrainingFacts, read_kame_json, versions
from kame_model.checkpoint.place import CARD, CODEC_KWARGS, CODEC_WEIGHTS, CONFIG, FACTS, TOKENIZER, WEIGHTS
from kame_model.checkpoint.summary import summarise
from kame_model.checkpoint.tensors import stock_state
from kame_model.model.front_end import FrontEnd
from kame_model.model.lora import has_lora, merge_lora
from kame_model.text.tokenizer import Tokenizer


def export_checkpoint(
    front_end: FrontEnd,
    tokenizer: Tokenizer | None,
    codec: CodecFiles | None,
    out: str | Path,
    training: TrainingFacts,
    dtype: torch.dtype | None = None,
) -> KameJson:
    """Writes a front-end with all that is needed to speak with it.

    Args:
        front_end: adapters, where it has them, are merged into its weights by this.
        tokenizer: the vocabulary it was trained with; None: it is left out.
        codec: the codec it was trained with; None: it is left out.
        out: a folder that does not exist yet.
        training: where the weights come from.
        dtype: of the weights in the file; None: as they are.

    Raises:
        ConfigError: `out` is there already, or vocabulary or codec are not of the model's size.
        StoreError: the folder cannot be written; nothing of it is left then.
    """
    _fit(front_end, tokenizer, codec)
    try:
        with new_folder(out) as aside:
            if has_lora(front_end):
                merge_lora(front_end)
                training = training.model_copy(update={"lora": True})
            facts = _facts(front_end, tokenizer, codec, training)
            _write(aside, front_end, tokenizer, codec, facts, dtype)
    except SafetensorError as error:
        raise StoreError(f"Cannot write {out}: {error}.", "Look at its rights and its disk.") from error
    return facts


def tell_free_running(folder: str | Path, shares: list[FreeShare]) -> KameJson:
    """Writes what free runs of a checkpoint came to into its facts and its card; all other files stay as they are.

    Facts that say just this are left alone, and so is the card, which somebody may have edited since.

    Raises:
        StoreError: a file cannot be read or written; each is then the old one or the new one, whole.
    """
    store = Store(str(folder))
    before = read_kame_json(Path(folder) / FACTS)
    facts = before.model_copy(update={"free_running": shares})
    if facts != before:
        store.sweep()
        store.write_bytes(CARD, card(facts, summarise(folder).n_parameters).encode())
        store.write_bytes(FACTS, _json(facts.model_dump(mode="json")))  # last: until then the next call writes both
    return facts


def _fit(front_end: FrontEnd, tokenizer: Tokenizer | None, codec: CodecFiles | None) -> None:
    """Whether vocabulary and codec are of the model's size."""
    if tokenizer is not None and tokenizer.text_card != front_end.text_card:
        raise ConfigError(
            f"The model has a vocabulary of {front_end.text_card}, {tokenizer.path} one of {tokenizer.text_card}.",
            "Name the tokenizer that the model was trained with.",
        )
    if codec is None:
        return
    have, want = (codec.n_codebooks, codec.card), (front_end.n_codebooks, front_end.card)
    if have != want:
        raise ConfigError(
            f"The model speaks {want[0]} codebooks of {want[1]} entries, codec {codec.facts.name} has {have[0]} of "
            f"{have[1]}.",
            "Name the codec that the model was trained with.",
        )


def _facts(
    front_end: FrontEnd, tokenizer: Tokenizer | None, codec: CodecFiles | None, training: TrainingFacts
) -> KameJson:
    return KameJson(
        preset=front_end.preset,
        oracle=front_end.oracle.mode,
        tie_text_head=front_end.tie_text_head,
        text_card=front_end.text_card,
        card=front_end.card,
        n_codebooks=front_end.n_codebooks,
        tokenizer_digest=None if tokenizer is None else tokenizer.digest,
        codec=None if codec is None else codec.facts,
        training=training,
        versions=versions(),
    )


def stock_config(front_end: FrontEnd, tokenizer: Tokenizer | None, codec: CodecFiles | None) -> dict[str, Any]:
    """`config.json`: what stock moshi's loaders take, and nothing else (they fail on a key that they do not know)."""
    names = {"moshi_name": WEIGHTS}
    if codec is not None:
        names["mimi_name"] = CODEC_WEIGHTS
        if codec.kwargs is not None:
            names["mimi_config_name"] = CODEC_KWARGS
    if tokenizer is not None:
        names["tokenizer_name"] = TOKENIZER
    return {**front_end.lm_kwargs, **names}


def _write(
    folder: Path,
    front_end: FrontEnd,
    tokenizer: Tokenizer | None,
    codec: CodecFiles | None,
    facts: KameJson,
    dtype: torch.dtype | None,
) -> None:
    state = stock_state(front_end, dtype)
    save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_bytes(_json(stock_config(front_end, tokenizer, codec)))
    (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors writes for the owner alone
    if codec is not None:
        shutil.copyfile(codec.weights, folder / CODEC_WEIGHTS)
        if codec.kwargs is not None:
            shutil.copyfile(codec.kwargs, folder / CODEC_KWARGS)
    if tokenizer is not None:
        shutil.copyfile(tokenizer.path, folder / TOKENIZER)
    (folder / FACTS).write_bytes(_json(facts.model_dump(mode="json")))
    n_parameters = sum(tensor.numel() for tensor in state.values())
    (folder / CARD).write_text(card(facts, n_parameters), encoding="utf-8")


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
