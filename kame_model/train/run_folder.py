"""A run's folder from outside: found, begun or gone on with, and the front-end that came of it."""

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
from kame_model.checkpoint.folder import find_place, read_contents
from kame_model.checkpoint.load import init_from
from kame_model.model.front_end import SOUND_WEIGHTS, FrontEnd, build_front_end, lm_kwargs
from kame_model.model.lora import add_lora
from kame_model.train.checkpoints import CHECKPOINTS, Saved, find_best, list_saved, load_tensors, load_weights_alone
from kame_model.train.parallel import Processes
from kame_model.train.run_facts import CONFIG, RunFacts, SpeaksWith, read_facts

_SHAPE = {*ModelConfig.model_fields, "text_card", "card", "dep_q"} - {"preset", "context"}
"""Keyword arguments and settings of a model by which its weights are told apart; any look-back fits the same ones."""


class FoundRun(NamedTuple):
    """A run's folder, found in the place that was named.

    Attributes:
        folder: of the run itself.
        seed: of the run, where the place holds one for each seed; None: the place is the run's folder.
        other_seeds: whose runs lie there too.
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
    """The run in a folder that `kame train` wrote: of token rows that folder, of datasets OUT/seed-N/run.

    Of several seeds it is the first one that has a checkpoint. None where there is no run.
    """
    folder = Path(place).expanduser()
    if _is_run(folder):
        return FoundRun(folder)
    runs = {seed: each / RUN for seed, each in find_seed_folders(folder).items() if (each / RUN / CONFIG).is_file()}
    if not runs:
        return None
    first, *others = sorted(runs, key=lambda seed: (not list_saved(runs[seed] / CHECKPOINTS), seed))
    return FoundRun(runs[first], first, tuple(sorted(others)))


def begin_run(folder: Path, facts: RunFacts) -> None:
    """Writes a new run's facts, or makes sure that one with a checkpoint is gone on with as it was begun.

    Raises:
        ConfigError: a setting that changes what is computed is another than when the run began.
        StoreError: the disk is full.
    """
    if list_saved(folder / CHECKPOINTS):
        before = read_facts(folder)
        check_base(folder, before, facts.base_digest)
        if facts.config.lora is None:  # weights to begin with are not looked at again: what the run began with stays
            config = facts.config.model_copy(update={"init_from": before.config.init_from})
            facts = facts.model_copy(update={"config": config, "base_digest": before.base_digest})
        differing = before.list_differences(facts)
        if differing:
            raise ConfigError(
                f"The run in {folder} was begun with other settings: {'; '.join(differing)}.",
                "Go on with the same ones, or begin another run: another --out, with --init-from for its weights.",
            )
    Store(str(folder)).write_bytes(CONFIG, json.dumps(facts.model_dump(mode="json"), indent=1).encode())


def check_base(folder: str | Path, facts: RunFacts, found: str | None) -> None:
    """Whether weights are those beside which a run's adapters were trained; a run without adapters needs none.

    Args:
        facts: of the run's folder.
        found: digest of the weights at hand.

    Raises:
        ConfigError: they are others; with them the adapters are worth nothing.
    """
    if facts.config.lora is not None and found is not None and facts.base_digest != found:
        raise ConfigError(
            f"The adapters of {folder} were trained beside other weights than {facts.config.init_from} has now "
            f"({facts.base_digest}, and now {found}).",
            "Name those weights again. A run that goes on changes its own: export it, and train adapters beside the "
            "export.",
        )


def choose_saved(folder: str | Path, which: Literal["last", "best"]) -> Saved:
    """A run's last checkpoint, or the best on validation by `keep.best_by`, which is the last where nobody looked.

    Raises:
        DatasetError: it has none.
        StoreError: the state of one cannot be read.
    """
    saved = list_saved(Path(folder) / CHECKPOINTS)
    if not saved:
        raise DatasetError(f"The run in {folder} has no whole checkpoint.", "Let it train until it has saved one.")
    return (find_best(saved, read_facts(folder).config.keep.best_by) if which == "best" else None) or saved[-1]


def load_weights(model: FrontEnd, folder: str | Path, which: Literal["last", "best"] = "last") -> Saved:
    """Fills a front-end with a run's weights: the moving average where one was kept.

    Args:
        model: of the run's shape; with adapters if the run had them, for then only what was trained is there.

    Raises:
        ConfigError: the run's model is of another shape; what differs is named.
        DatasetError: no run, or one without a checkpoint.
        StoreError: its checkpoint is damaged.
    """
    facts, saved = read_facts(folder), choose_saved(folder, which)
    _check_shapes(model, facts, folder)
    alone, of_sound = Processes(torch.device("cpu")), () if facts.config.shares.has_sound else SOUND_WEIGHTS
    trained = {
        name: each.data
        for name, each in model.named_parameters()
        if each.requires_grad and not name.startswith(of_sound)
    }
    weights = get_model_state_dict(model) if facts.config.lora is None else trained
    if not saved.is_full:
        load_weights_alone(saved, weights, alone)
        return saved
    load_tensors(saved, {"model": weights}, alone)
    if facts.config.optim.ema_decay is not None:
        load_tensors(saved, {"average": trained}, alone)
    return saved


def load_run(folder: str | Path, which: Literal["last", "best"] = "best") -> tuple[FrontEnd, RunFacts, Saved]:
    """The front-end that a run has come to, on the CPU, with adapters where it has them, for export or evaluation.

    Raises:
        DatasetError, StoreError: see `load_weights`.
        ConfigError: a run with adapters whose `init_from` is gone, or has other weights now.
    """
    facts = read_facts(folder)
    model = build_front_end(facts.config.model, facts.speaks_with.text_card, facts.speaks_with.layout)
    if facts.config.lora is not None and facts.config.init_from is not None:  # neither without the other
        check_base(folder, facts, digest_weights(facts.config.init_from))
        start_from(model, facts.config.init_from)
        add_lora(model, facts.config.lora)
    return model, facts, load_weights(model, folder, which)


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
    if not facts.config.shares.has_sound and facts.config.init_from is None:
        _zero_codes(model)


def digest_weights(place: str) -> str:
    """Stands for the weights that `start_from` takes from a place: 16 hexadecimal digits. Reads all of them.

    Raises:
        ConfigError, DatasetError, StoreError, BackendError: see `start_from`.
    """
    if _is_run(place):
        saved = list_saved(Path(place) / CHECKPOINTS)
        files = saved[-1].list_files() if saved else []
    else:
        files = [read_contents(find_place(place)).weights]
    return digest_files(files)


def _check_shapes(model: FrontEnd, facts: RunFacts, folder: str | Path) -> None:
    """Whether a run's weights fit a model, told before any of them is read."""
    theirs = facts.config.model
    there = {
        **lm_kwargs(theirs, facts.speaks_with.text_card, facts.speaks_with.layout),
        "oracle": theirs.oracle,
        "cue": theirs.cue,
        "tie_text_head": theirs.tie_text_head,
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
            "Give the model that run's shape, by --preset or --set model.NAME=VALUE, or begin with other weights.",
        )


def _is_run(place: str | Path) -> bool:
    return (Path(place) / CHECKPOINTS).is_dir() and (Path(place) / CONFIG).is_file()


def _zero_codes(model: FrontEnd) -> None:
    """Embeddings of codes that copying alone never saw: random ones, summed over all codebooks, are four times as
    large as the text's and drown what was learnt."""
    with torch.no_grad():
        for embedding in model.lm.emb:
            embedding.get_parameter("weight").zero_()
