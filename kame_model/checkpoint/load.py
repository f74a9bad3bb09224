"""A checkpoint's folder, or one on the Hub, as a front-end with its codec and vocabulary."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from moshi.models import loaders
from torch import Tensor, nn

from backends.codec.protocol import Codec
from backends.registry import build
from data_schemas.errors import ConfigError, StoreError
from kame_model.checkpoint.codec_files import options_in
from kame_model.checkpoint.kame_json import CodecFacts, KameJson
from kame_model.checkpoint.place import Place, find
from kame_model.checkpoint.weights import OtherFiles, Weights, look_into
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import Tokenizer


class Checkpoint(NamedTuple):
    """A front-end in evaluation mode, and where the rest of its folder is."""

    front_end: FrontEnd
    facts: KameJson | None
    place: Place
    others: OtherFiles

    def tokenizer(self) -> Tokenizer:
        """The vocabulary in the folder.

        Raises:
            ConfigError: there is none, or it is not of the model's size.
            StoreError: it is another one than `kame.json` says.
        """
        path = self.place.needed(self.others.tokenizer)
        tokenizer = Tokenizer(path)
        if tokenizer.text_card != self.front_end.text_card:
            raise ConfigError(
                f"The model of {self.place.name} has a vocabulary of {self.front_end.text_card}, its {path.name} one "
                f"of {tokenizer.text_card}.",
                "Use the tokenizer it was trained with.",
            )
        _same("vocabulary", tokenizer.digest, None if self.facts is None else self.facts.tokenizer_digest, self.place)
        return tokenizer

    def codec(self, device: str = "cpu") -> Codec:
        """The codec in the folder.

        Raises:
            ConfigError: there is none.
            BackendError: it does not load.
            StoreError: it is another one than `kame.json` says.
        """
        facts = self._codec_facts()
        weights, kwargs = self.place.needed(self.others.codec), self.others.codec_kwargs
        kwargs_path = None if kwargs is None else self.place.needed(kwargs)
        codec: Codec = build("codec", facts.name, {**options_in(weights, kwargs_path, facts), "device": device})
        _same("codec", codec.digest, facts.digest or None, self.place)
        return codec

    def _codec_facts(self) -> CodecFacts:
        """What is known of the codec. Where there is no `kame.json` it is Mimi, as much of it as the model speaks."""
        if self.facts is None:
            return CodecFacts(name="mimi", digest="", options={"n_codebooks": self.front_end.n_codebooks})
        if self.facts.codec is None:
            raise ConfigError(
                f"{self.place.name} was exported without its codec.", "Export it again, with --codec and --codec-path."
            )
        return self.facts.codec


def load_checkpoint(
    source: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> Checkpoint:
    """A front-end from an export of ours, KAME's release or Moshi's.

    Args:
        source: a folder, or `owner/name[@revision]` on the Hub.
        device: where it goes.
        dtype: of its weights; None: as in the file.

    Raises:
        ConfigError: no checkpoint.
        BackendError: the Hub does not answer.
        StoreError: a file is damaged, or its tensors are not those of its configuration.
    """
    place = find(source)
    weights = look_into(place)
    state, table = weights.tensors()
    state = {name: tensor.to(device, dtype) for name, tensor in state.items()}
    front_end = FrontEnd(_lm(weights, state), "table", weights.lm_kwargs, _preset(weights))
    if table is not None:
        _fill_table(front_end.oracle.embedding, table, weights)
    return Checkpoint(front_end.eval(), weights.facts, place, weights.others)


def _lm(weights: Weights, state: dict[str, Tensor]) -> Any:
    """moshi's model around tensors that are there already; none is made twice."""
    try:
        lm = loaders.get_moshi_lm(None, dict(weights.lm_kwargs), device="meta")
    except (TypeError, AssertionError, ValueError) as error:
        raise StoreError(f"The configuration beside {weights.path} is none of moshi's: {error}.", _AGAIN) from error
    try:
        lm.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        raise StoreError(f"{weights.path} is not of the shape beside it: {_first_lines(error)}", _AGAIN) from error
    return lm.requires_grad_(True)


def _fill_table(embedding: nn.Embedding, table: Tensor, weights: Weights) -> None:
    if table.shape != embedding.weight.shape:
        raise StoreError(
            f"The oracle's table of {weights.path} is {list(table.shape)}, the text's {list(embedding.weight.shape)}.",
            _AGAIN,
        )
    with torch.no_grad():
        embedding.weight.copy_(table)


def _preset(weights: Weights) -> str:
    return "custom" if weights.facts is None else weights.facts.preset


def _same(what: str, found: str, recorded: str | None, place: Place) -> None:
    if recorded is not None and found != recorded:
        raise StoreError(f"The {what} in {place.name} is {found}; kame.json says {recorded}.", _AGAIN)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(lines[1:3] or lines[:1])[:400]


_AGAIN = "Fetch or export the checkpoint again."
