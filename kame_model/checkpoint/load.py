"""Loads a checkpoint from a folder or the Hub: as a front-end with codec and vocabulary, or as initial weights."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from moshi.models import loaders
from moshi.models.lm import LMModel
from torch import Tensor, nn

from backends.codec.protocol import Codec
from backends.options import OptionValue
from backends.registry import build, list_backends, make_device_option
from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import SamplingConfig
from data_schemas.errors import ConfigError, StoreError
from kame_model.checkpoint.folder import TEXT_HEAD_KEY, CheckpointLocation, Contents, locate_checkpoint, read_contents
from kame_model.checkpoint.kame_json import CodecFacts, KameJson, choose_sampling
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import Tokenizer

_AGAIN = "Download or export the checkpoint again."
_ENCODE_TEXT = "Encode the dataset again with the checkpoint's tokenizer: `kame encode … --tokenizer FILE`."
_ENCODE_AUDIO = "Encode the dataset again with the checkpoint's codec: `kame encode … --codec NAME --codec-path PATH`."

_NO_WEIGHTS = ("context", "depformer_context")
"""Keyword arguments in which a model may differ from the checkpoint that it is initialised from."""

_NAMES = {
    "text_card": ("vocabulary", _ENCODE_TEXT),
    "card": ("codebook size", _ENCODE_AUDIO),
    "dep_q": ("number of codebooks of a voice", _ENCODE_AUDIO),
    "n_q": ("number of codebooks, both voices'", _ENCODE_AUDIO),
    "delays": ("delays of text and codes", _ENCODE_AUDIO),
}


class Checkpoint(NamedTuple):
    """A front-end in evaluation mode; its methods load other files of its checkpoint, from the Hub if it is there."""

    front_end: FrontEnd
    facts: KameJson | None
    place: CheckpointLocation
    contents: Contents

    def load_tokenizer(self) -> Tokenizer:
        """Loads the checkpoint's vocabulary.

        Raises:
            ConfigError: there is none, or its size does not match the model.
            BackendError: it cannot be read, or is not compatible with Moshi.
            StoreError: its digest differs from the one in `kame.json`.
        """
        path = self.place.require_file(self.contents.tokenizer)
        tokenizer = Tokenizer(path)
        if tokenizer.text_card != self.front_end.text_card:
            raise ConfigError(
                f"The model of {self.place.name} has a vocabulary of {self.front_end.text_card}, its {path.name} one "
                f"of {tokenizer.text_card}.",
                "Use the tokenizer that the model was trained with.",
            )
        _check_digest(
            "vocabulary", tokenizer.digest, None if self.facts is None else self.facts.tokenizer_digest, self.place
        )
        return tokenizer

    def choose_sampling(self, overrides: SamplingConfig) -> SamplingConfig:
        """Returns the sampling parameters: those set explicitly, then the checkpoint's, then moshi's defaults.

        Args:
            overrides: overrides; only the fields that were set explicitly are used.
        """
        return choose_sampling(self.facts, overrides)

    def load_codec(self, device: str = "cpu") -> Codec:
        """Loads the checkpoint's codec.

        Raises:
            ConfigError: there is none, or the package that provides it is not installed.
            BackendError: the codec cannot be loaded.
            StoreError: its digest differs from the one in `kame.json`.
        """
        facts = self._get_codec_facts()
        if facts.package and facts.name not in {each.name for each in list_backends("codec")}:
            raise ConfigError(
                f"The codec {facts.name!r} of {self.place.name} is not installed; the package {facts.package} has it.",
                "Install that package in the same environment as kame.",
            )
        options = facts.options | self._find_codec(facts) | make_device_option("codec", facts.name, device)
        codec: Codec = build("codec", facts.name, options)
        remedy = f"It was exported with {facts.package}: install that version." if facts.package else _AGAIN
        _check_digest("codec", codec.digest, facts.digest or None, self.place, remedy)
        return codec

    def _find_codec(self, facts: CodecFacts) -> dict[str, OptionValue]:
        """Returns the codec's options for the paths of its files; empty if it needs none.

        Raises:
            ConfigError: a file is missing.
        """
        if facts.files is not None:
            found = [self.place.require_file(each) for each in facts.files]
            return {"path": str(found[0].parent)} if found else {}
        weights = self.place.require_file(self.contents.codec)
        kwargs = None if self.contents.codec_kwargs is None else self.place.require_file(self.contents.codec_kwargs)
        return {"path": str(weights), **({} if kwargs is None else {"kwargs": str(kwargs)})}

    def _get_codec_facts(self) -> CodecFacts:
        """Returns the facts of the codec. Without a `kame.json` it is Mimi with the model's number of codebooks.

        Raises:
            ConfigError: the checkpoint was exported without its codec.
        """
        if self.facts is None:
            return CodecFacts(name="mimi", digest="", options={"n_codebooks": self.front_end.n_codebooks})
        if self.facts.codec is None:
            raise ConfigError(
                f"{self.place.name} was exported without its codec.", "Export it again with --codec and --codec-path."
            )
        return self.facts.codec


def load_checkpoint(source: str | Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Loads a front-end from an export of kame, KAME's release, or Moshi's release.

    Its oracle embedding is always a table, and its text head is never tied, however it was trained. If the checkpoint
    has no oracle, the table is a copy of the text embedding.

    Args:
        source: a folder, or `owner/name[@revision]` on the Hub.
        device: device of the model; the weights keep the type that they have in the file.

    Raises:
        ConfigError: `source` holds no checkpoint.
        BackendError: the Hub does not respond.
        StoreError: a file is damaged, or its tensors do not match its configuration.
    """
    place = locate_checkpoint(source)
    contents = read_contents(place)
    state, table, cue = contents.read_tensors()
    state = {name: tensor.to(device) for name, tensor in state.items()}
    try:
        lm = loaders.get_moshi_lm(None, dict(contents.lm_kwargs), device="meta")
    except (TypeError, AssertionError, ValueError) as error:
        raise StoreError(f"The configuration of {contents.weights} is not valid for moshi: {error}.", _AGAIN) from error
    _load_state(lm, state, contents, assign=True)  # the model keeps these tensors: no second copy in memory
    preset = "custom" if contents.facts is None else contents.facts.preset
    layout = (None if contents.facts is None else contents.facts.layout) or _make_mimi_layout(lm)
    front_end = FrontEnd(lm.requires_grad_(True), "table", contents.lm_kwargs, layout, preset, cue=cue is not None)
    _load_cue(front_end, cue, contents)
    if table is not None:
        wanted = front_end.oracle.embedding.weight.shape
        if table.shape != wanted:
            raise StoreError(
                f"The oracle table of {contents.weights} has shape {list(table.shape)}, not {list(wanted)}.", _AGAIN
            )
        front_end.oracle.set_table(table, front_end.lm.text_emb)
    return Checkpoint(front_end.eval(), contents.facts, place, contents)


def init_from_checkpoint(
    front_end: FrontEnd,
    source: str | Path,
    tokenizer_digest: str | None = None,
    codec_digest: str | None = None,
) -> KameJson | None:
    """Loads a checkpoint's weights into a front-end, which is changed in place, before it is trained.

    If the checkpoint has no oracle (Moshi's release), an oracle table is initialised with the text embedding, as in
    KAME; a tied oracle is not changed. If it has no cue, the front-end's cue is not changed; it is zero in a new one.
    After an error, some weights may be loaded already.

    Args:
        front_end: the model, without adapters; it keeps its precision and device.
        source: a folder, or `owner/name[@revision]` on the Hub.
        tokenizer_digest: digest of the training data's tokenizer; None: only the vocabulary sizes are compared.
        codec_digest: digest of the training data's codec; None: it is not compared.

    Returns:
        The checkpoint's facts; None if it was not exported by kame.

    Raises:
        ConfigError: `source` holds no checkpoint, or its shape, vocabulary, codec, text head, oracle or cue differs.
        BackendError: the Hub does not respond.
        StoreError: a file is damaged.
    """
    contents = read_contents(locate_checkpoint(source))
    _check_shapes(front_end, contents.lm_kwargs, str(source))
    if contents.facts is not None:
        _check_digests(contents.facts, tokenizer_digest, codec_digest, str(source))
    state, table, cue = contents.read_tensors()
    if cue is not None and front_end.cue is None:
        raise ConfigError(f"{source} was trained with a cue, but model.cue is off.", "Train with model.cue=true.")
    if front_end.tie_text_head:
        _drop_tied_head(state, str(source))
    _load_state(front_end.lm, state, contents)
    _load_cue(front_end, cue, contents)
    if table is None:
        front_end.oracle.copy_text_embedding(front_end.lm.text_emb)
        return contents.facts
    try:
        front_end.oracle.set_table(table, front_end.lm.text_emb)
    except ValueError as error:
        raise ConfigError(
            f"The oracle of {source} is a separate table, but model.oracle is tied: {error}.",
            "Train with model.oracle=table.",
        ) from error
    return contents.facts


def _make_mimi_layout(lm: LMModel) -> CodeLayout:
    """Returns Mimi's layout with the model's delays, for checkpoints whose `kame.json` is missing or has no layout."""
    delays = {"delays": tuple(lm.delays[1 : 1 + lm.dep_q]), "other_delays": tuple(lm.delays[1 + lm.dep_q :])}
    return CodeLayout.make_mimi(lm.dep_q, lm.card).model_copy(update=delays)


def _load_state(module: nn.Module, state: dict[str, Tensor], contents: Contents, assign: bool = False) -> None:
    """Loads a state dictionary into a module; raises a StoreError if names or shapes of tensors do not match."""
    try:
        module.load_state_dict(state, strict=True, assign=assign)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reason = " ".join(lines[1:3] or lines[:1])[:400]
        what = f"The tensors of {contents.weights} do not match their configuration: {reason}"
        raise StoreError(what, _AGAIN) from error


def _load_cue(front_end: FrontEnd, cue: Tensor | None, contents: Contents) -> None:
    """Loads the cue's matrix; it is not changed if the checkpoint has none."""
    if front_end.cue is not None and cue is not None:
        _load_state(front_end.cue, {"projection.weight": cue}, contents)


def _check_digest(what: str, found: str, recorded: str | None, place: CheckpointLocation, remedy: str = _AGAIN) -> None:
    """Raises a StoreError if a digest differs from the one recorded in `kame.json`; None is not compared."""
    if recorded is not None and found != recorded:
        raise StoreError(f"The {what} in {place.name} has digest {found}; kame.json says {recorded}.", remedy)


def _check_shapes(front_end: FrontEnd, stored: dict[str, Any], source: str) -> None:
    """Raises a ConfigError for the first keyword argument of moshi that differs, except the lengths of contexts."""
    for key in sorted(front_end.lm_kwargs.keys() & stored.keys(), key=lambda key: ([*_NAMES, key].index(key), key)):
        own = front_end.lm_kwargs[key]
        if key in _NO_WEIGHTS or own == stored[key]:
            continue
        what, remedy = _NAMES.get(key, (key, "Train a model of the checkpoint's shape."))
        raise ConfigError(f"The {what} of {source} is {stored[key]}, but that of the model to train is {own}.", remedy)


def _check_digests(facts: KameJson, tokenizer_digest: str | None, codec_digest: str | None, source: str) -> None:
    """Raises a ConfigError if vocabulary or codec of a checkpoint and of the data differ; None is not compared."""
    for what, known, of_data, remedy in (
        ("tokenizer", facts.tokenizer_digest, tokenizer_digest, _ENCODE_TEXT),
        ("codec", facts.codec_digest, codec_digest, _ENCODE_AUDIO),
    ):
        if known is not None and of_data is not None and known != of_data:
            raise ConfigError(
                f"{source} was trained with the {what} of digest {known}, but the token rows to train on were encoded "
                f"with that of digest {of_data}.",
                remedy,
            )


def _drop_tied_head(state: dict[str, Tensor], source: str) -> None:
    """Removes the tied text head from the state; raises a ConfigError if it differs from the text embedding."""
    head, embedding = state.pop(TEXT_HEAD_KEY, None), state.get("text_emb.weight")
    if head is not None and embedding is not None and not torch.equal(head, embedding[:-1]):
        raise ConfigError(
            f"{source} has a separate text head, but model.tie_text_head is on.",
            "Train with model.tie_text_head=false.",
        )
