"""Finds, starts and loads a run's folder: its configuration, its checkpoints and its front-end."""

import json
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch.distributed.checkpoint.state_dict import get_model_state_dict

from data_schemas.config.front_end import RUN, find_seed_folders
from data_schemas.config.model import ModelConfig
from data_schemas.errors import ConfigError, DatasetError
from data_schemas.store import Store
from kame_model.checkpoint.files import digest_files
from kame_model.checkpoint.folder import locate_checkpoint, read_contents
from kame_model.checkpoint.load import init_from_checkpoint
from kame_model.model.front_end import SOUND_WEIGHTS, FrontEnd, build_front_end, make_lm_kwargs
from kame_model.model.lora import add_lora
from kame_model.train.checkpoints import (
    CHECKPOINTS,
    SavedCheckpoint,
    find_best,
    list_checkpoints,
    load_tensors,
    load_weights_only,
)
from kame_model.train.parallel import Processes
from kame_model.train.run_facts import CONFIG, RunFacts, VocabularyAndCodec, read_facts

_SHAPE = {*ModelConfig.model_fields, "text_card", "card", "dep_q"} - {"preset", "context"}
"""Keyword arguments and settings of a model that must agree for its weights to fit; `context` may differ."""


class FoundRun(NamedTuple):
    """A run's folder, found under the given path.

    Attributes:
        folder: folder of the run itself.
        seed: seed of the run, if the path has a run for each seed; None: the path is the run's folder.
        other_seeds: seeds of the other runs there.
    """

    folder: Path
    seed: int | None = None
    other_seeds: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.seed is None:
            return str(self.folder)
        others = (
            f"; of seed {' or '.join(map(str, self.other_seeds))} name the run's folder" if self.other_seeds else ""
        )
        return f"{self.folder}, the run of seed {self.seed}{others}"


def find_run(place: str | Path) -> FoundRun | None:
    """Finds the run in a folder of `kame train`: the folder itself, or a folder OUT/seed-N/run in it.

    Of several seeds, it is the lowest one with a checkpoint, or the lowest if none has one. None if there is no run.
    """
    folder = Path(place).expanduser()
    if _is_run(folder):
        return FoundRun(folder)
    runs = {seed: each / RUN for seed, each in find_seed_folders(folder).items() if (each / RUN / CONFIG).is_file()}
    if not runs:
        return None
    first, *others = sorted(runs, key=lambda seed: (not list_checkpoints(runs[seed] / CHECKPOINTS), seed))
    return FoundRun(runs[first], first, tuple(sorted(others)))


def begin_run(folder: Path, facts: RunFacts) -> None:
    """Writes the facts of a run into its folder, before it starts or resumes.

    If the folder has a checkpoint, it is checked first that the settings are the same. The recorded `init_from` and its
    digest are then kept, unless the run has adapters.

    Raises:
        ConfigError: a setting that affects the result differs from that of the run.
        DatasetError: the folder has a checkpoint, but its recorded facts cannot be read.
        StoreError: the disk is full.
    """
    if list_checkpoints(folder / CHECKPOINTS):
        before = read_facts(folder)
        check_base_weights(folder, before, facts.base_digest)
        if facts.config.lora is None:  # initial weights are not read again, so the recorded ones stay
            config = facts.config.model_copy(update={"init_from": before.config.init_from})
            facts = facts.model_copy(update={"config": config, "base_digest": before.base_digest})
        differing = before.list_differences(facts)
        if differing:
            raise ConfigError(
                f"The run in {folder} was started with other settings: {'; '.join(differing)}.",
                "Resume it with the same ones, or start another run: another --out, with --init-from for its weights.",
            )
    Store(str(folder)).write_bytes(CONFIG, json.dumps(facts.model_dump(mode="json"), indent=1).encode())


def check_base_weights(folder: str | Path, facts: RunFacts, found: str | None) -> None:
    """Checks that weights are those with which a run's adapters were trained; a run without adapters needs none.

    Args:
        folder: folder of the run, for the message.
        facts: facts of the run.
        found: digest of the weights; None: not known, and not checked.

    Raises:
        ConfigError: the weights are others, with which the adapters are useless.
    """
    if facts.config.lora is not None and found is not None and facts.base_digest != found:
        raise ConfigError(
            f"The adapters of {folder} were trained with other weights than {facts.config.init_from} has now "
            f"({facts.base_digest}, and now {found}).",
            "Give those weights again. A run that is resumed changes its weights: export it, and train adapters on "
            "the export.",
        )


def choose_checkpoint(folder: str | Path, which: Literal["last", "best"]) -> SavedCheckpoint:
    """Returns a run's last checkpoint, or the best by `keep.best_by`, which is the last if there was no validation.

    Raises:
        DatasetError: it has none.
        StoreError: the state of one cannot be read.
    """
    saved = list_checkpoints(Path(folder) / CHECKPOINTS)
    if not saved:
        raise DatasetError(
            f"The run in {folder} has no complete checkpoint.",
            "Run its `kame train` command again until it has saved one.",
        )
    return (find_best(saved, read_facts(folder).config.keep.best_by) if which == "best" else None) or saved[-1]


def load_weights(model: FrontEnd, folder: str | Path, which: Literal["last", "best"] = "last") -> SavedCheckpoint:
    """Fills a front-end with a run's weights, the moving average if one was kept, and returns their checkpoint.

    Args:
        model: front-end of the run's shape; with adapters if the run has them, because only trained weights are saved.
        folder: folder of the run.
        which: the last or the best checkpoint.

    Raises:
        ConfigError: the run's model has another shape; the message lists the differences.
        DatasetError: there is no run, or it has no checkpoint.
        StoreError: its checkpoint is damaged.
    """
    facts, saved = read_facts(folder), choose_checkpoint(folder, which)
    _check_shapes(model, facts, folder)
    alone, of_sound = Processes(torch.device("cpu")), () if facts.config.shares.has_sound else SOUND_WEIGHTS
    trained = {
        name: each.data
        for name, each in model.named_parameters()
        if each.requires_grad and not name.startswith(of_sound)
    }
    weights = get_model_state_dict(model) if facts.config.lora is None else trained
    if not saved.is_full:
        load_weights_only(saved, weights, alone)
        return saved
    load_tensors(saved, {"model": weights}, alone)
    if facts.config.optim.ema_decay is not None:
        load_tensors(saved, {"average": trained}, alone)
    return saved


def load_run(folder: str | Path, which: Literal["last", "best"] = "best") -> tuple[FrontEnd, RunFacts, SavedCheckpoint]:
    """Loads the front-end of a run on the CPU, with adapters if it has them, for export or evaluation.

    Raises:
        DatasetError, StoreError: see `load_weights`.
        ConfigError, BackendError: a run with adapters whose `init_from` is missing, or has other weights now.
    """
    facts = read_facts(folder)
    model = build_front_end(facts.config.model, facts.speaks_with.text_card, facts.speaks_with.layout)
    if facts.config.lora is not None and facts.config.init_from is not None:  # LoRA requires init_from
        check_base_weights(folder, facts, digest_weights(facts.config.init_from))
        load_initial_weights(model, facts.config.init_from)
        add_lora(model, facts.config.lora)
    return model, facts, load_weights(model, folder, which)


def load_initial_weights(model: FrontEnd, place: str, speaks_with: VocabularyAndCodec | None = None) -> None:
    """Loads the initial weights of a training into a front-end: of a run, an export, KAME's release or Moshi's.

    Of a run, the last checkpoint is used, because training continues from there; to start from its best one, give its
    export. If the run never trained audio and began with random weights, the embeddings of codes become zero.

    Args:
        model: front-end without adapters.
        place: a folder, or a repository of the Hugging Face Hub.
        speaks_with: vocabulary and codec that the weights must have; None: not checked.

    Raises:
        ConfigError: the weights have another shape, vocabulary or codec, or are of a run with adapters.
        DatasetError, StoreError: a run without a complete checkpoint, or with a damaged one.
        BackendError: the Hub does not answer.
    """
    if not _is_run(place):
        digests = (None, None) if speaks_with is None else (speaks_with.tokenizer_digest, speaks_with.codec_digest)
        init_from_checkpoint(model, place, *digests)
        return
    facts = read_facts(place)
    if facts.config.lora is not None:
        raise ConfigError(
            f"The run {place} contains only LoRA adapters.", "Export it, and pass the export to --init-from."
        )
    if speaks_with is not None and facts.speaks_with != speaks_with:
        raise ConfigError(
            f"The weights of {place} use another vocabulary or codec ({facts.speaks_with}) than the datasets "
            f"({speaks_with}).",
            "Encode the datasets again with the tokenizer and codec of those weights: `kame encode … --tokenizer FILE "
            "--codec NAME --codec-path PATH`.",
        )
    load_weights(model, place)
    if not facts.config.shares.has_sound and facts.config.init_from is None:
        _zero_code_embeddings(model)


def digest_weights(place: str) -> str:
    """Returns a digest of the weights that `load_initial_weights` loads, 16 hexadecimal digits; it reads all of them.

    Those on the Hub are downloaded. Of a run, it is the digest of the files of the last checkpoint; a run without a
    checkpoint is no error here.

    Raises:
        ConfigError, StoreError, BackendError: see `load_initial_weights`.
    """
    if _is_run(place):
        saved = list_checkpoints(Path(place) / CHECKPOINTS)
        files = saved[-1].list_files() if saved else []
    else:
        files = [read_contents(locate_checkpoint(place)).weights]
    return digest_files(files)


def _check_shapes(model: FrontEnd, facts: RunFacts, folder: str | Path) -> None:
    """Raises a ConfigError with all differences if a run's weights do not fit a model, before they are read."""
    config = facts.config.model
    there = {
        **make_lm_kwargs(config, facts.speaks_with.text_card, facts.speaks_with.layout),
        "oracle": config.oracle,
        "cue": config.cue,
        "tie_text_head": config.tie_text_head,
    }
    here = {
        **model.lm_kwargs,
        "oracle": model.oracle.mode,
        "cue": model.cue is not None,
        "tie_text_head": model.tie_text_head,
    }
    differing = [
        f"{name} is {there[name]} there and {here[name]} here" for name in sorted(_SHAPE) if there[name] != here[name]
    ]
    if differing:
        raise ConfigError(
            f"The run {folder} is of another shape: {'; '.join(differing)}.",
            "Give the model that run's shape, by --preset or --set model.NAME=VALUE, or start with other weights.",
        )


def _is_run(place: str | Path) -> bool:
    """Returns whether a folder is that of one run, which has configuration and checkpoints."""
    return (Path(place) / CHECKPOINTS).is_dir() and (Path(place) / CONFIG).is_file()


def _zero_code_embeddings(model: FrontEnd) -> None:
    """Sets the embeddings of codes to zero, which copying never trains.

    Random ones, summed over all codebooks, are four times as large as the text's and would dominate what was learnt.
    """
    with torch.no_grad():
        for embedding in model.lm.emb:
            embedding.get_parameter("weight").zero_()
