"""Weights to begin a training with, from any checkpoint: ours, KAME's or Moshi's."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data_schemas.errors import ConfigError, StoreError
from kame_model.checkpoint.kame_json import KameJson
from kame_model.checkpoint.place import find
from kame_model.checkpoint.tensors import TEXT_HEAD_KEY
from kame_model.checkpoint.weights import Weights, look_into
from kame_model.model.front_end import FrontEnd

_NO_WEIGHTS = ("context", "depformer_context")
"""Keyword arguments in which a model may differ from the checkpoint that it begins with."""

_NAMES = {
    "text_card": ("vocabulary", "Encode the data with the checkpoint's tokenizer."),
    "card": ("codebook size", "Encode the data with the checkpoint's codec."),
    "n_q": ("number of codebooks, both voices'", "Encode the data with the checkpoint's codec."),
    "dep_q": ("number of codebooks of a voice", "Encode the data with the checkpoint's codec."),
}


def init_from(
    front_end: FrontEnd,
    source: str | Path,
    tokenizer_digest: str | None = None,
    codec_digest: str | None = None,
) -> KameJson | None:
    """Fills a front-end with a checkpoint's weights.

    Where the checkpoint has no oracle (Moshi's own), a table starts as its text embedding, as KAME's did; a tied oracle
    stays as it is.

    Args:
        front_end: without adapters; its precision and device stay.
        source: a folder, or `owner/name[@revision]` on the Hub.
        tokenizer_digest: of the training data; None: only the vocabulary's size is compared.
        codec_digest: likewise.

    Returns:
        The checkpoint's facts; None where it is not ours.

    Raises:
        ConfigError: no checkpoint, or one of another shape, vocabulary or codec; both values are named.
        BackendError: the Hub does not answer.
        StoreError: a file is damaged.
    """
    weights = look_into(find(source))
    _compare_shapes(front_end, weights.lm_kwargs, str(source))
    if weights.facts is not None:
        _compare_digests(weights.facts, tokenizer_digest, codec_digest, str(source))
    state, table = weights.tensors()
    if front_end.tie_text_head:
        _drop_tied_head(state, str(source))
    _fill(front_end, state, weights)
    if table is None:
        front_end.oracle.start_from_text(front_end.lm.text_emb)
        return weights.facts
    try:
        front_end.oracle.set_table(table, front_end.lm.text_emb)
    except ValueError as error:
        raise ConfigError(
            f"The oracle of {source} is a table of its own, and model.oracle is tied: {error}.",
            "Train with model.oracle=table.",
        ) from error
    return weights.facts


def _fill(front_end: FrontEnd, state: dict[str, Tensor], weights: Weights) -> None:
    try:
        front_end.lm.load_state_dict(state, strict=True)
    except RuntimeError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[1:3])[:400]
        raise StoreError(
            f"{weights.path} is not of the shape beside it: {reason}", "Fetch or export the checkpoint again."
        ) from error


def _compare_shapes(front_end: FrontEnd, theirs: dict[str, Any], source: str) -> None:
    for key in sorted(front_end.lm_kwargs.keys() & theirs.keys(), key=lambda key: (key not in _NAMES, key)):
        ours = front_end.lm_kwargs[key]
        if key in _NO_WEIGHTS or ours == theirs[key]:
            continue
        what, remedy = _NAMES.get(key, (key, "Train the shape that the checkpoint has."))
        raise ConfigError(f"The {what} of {source} is {theirs[key]}, of the model to train {ours}.", remedy)


def _compare_digests(facts: KameJson, tokenizer_digest: str | None, codec_digest: str | None, source: str) -> None:
    for what, theirs, ours in (
        ("vocabulary", facts.tokenizer_digest, tokenizer_digest),
        ("codec", facts.codec_digest, codec_digest),
    ):
        if theirs is not None and ours is not None and theirs != ours:
            raise ConfigError(
                f"{source} was trained with {what} {theirs}, the data was encoded with {ours}.",
                f"Encode the data with the checkpoint's {what}.",
            )


def _drop_tied_head(state: dict[str, Tensor], source: str) -> None:
    """Takes the text head out, which is the text embedding; both must be the same, or the head would be lost."""
    head, embedding = state.pop(TEXT_HEAD_KEY, None), state.get("text_emb.weight")
    if head is not None and embedding is not None and not torch.equal(head, embedding[:-1]):
        raise ConfigError(
            f"{source} has a text head of its own, and model.tie_text_head is on.",
            "Train with model.tie_text_head=false.",
        )
