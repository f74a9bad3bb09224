"""From datasets to a registered checkpoint, step by step; called as they are or as a scheduler's tasks, in one order.

    text ─ codec ─ encode ─ copy ─ train ─ export ─ evaluate ─ register

    OUT/tokenizer.model   OUT/codec/   OUT/tokens/<n>-<dataset>/     the same for all seeds
    OUT/seed-<n>/copy/   OUT/seed-<n>/run/   OUT/seed-<n>/evaluation/
    OUT/report.md                                                    the evaluations of all seeds so far
    CHECKPOINTS/<name>/   CHECKPOINTS/index.json

Each step goes on where it was stopped and is left out where it stands, so running again resumes, and with another seed
trains anew on what is encoded. What is evaluated is the export, as it will be served.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from data_schemas.config.evaluation import EvaluationConfig, Split
from data_schemas.config.front_end import (
    COPY,
    EVALUATION,
    RUN,
    DatasetShare,
    FrontEndConfig,
    find_seed_folders,
)
from data_schemas.config.training import Stage, TrainConfig
from data_schemas.errors import ConfigError, KameError
from flows.cli.options import build_train_config, put, validated
from flows.runs.front_end_data import check_datasets, spoken_datasets
from flows.runs.front_end_text import check_vocabulary, trained_vocabulary
from kame_model.checkpoint.export import export_run, read_training_facts, record_free_running
from kame_model.checkpoint.kame_json import FreeShare, KameJson, Measure, read_kame_json
from kame_model.checkpoint.registry import Entry, register
from kame_model.evaluate.figures import ConditionFigures
from kame_model.evaluate.listening import Hearing
from kame_model.train.parallel import find_device
from kame_model.train.run import RunResult, train
from kame_model.train.trainer import SILENT, Progress

FACTS = "kame.json"
HELD_OUT = "held-out"
_OF_BOTH_STAGES = ("model.", "hardware.", "copying.")


@dataclass(frozen=True, slots=True)
class Made:
    """What a run from datasets to a checkpoint came to; figures are empty where nothing was evaluated."""

    checkpoint: str
    facts: KameJson
    training: RunResult
    figures: list[ConditionFigures]


class Stopped(KameError):
    """Training was asked to stop; it is saved."""

    exit_code = 130


def make_text(config: FrontEndConfig) -> str:
    """The vocabulary's file: the one named, or one trained on what the datasets' training split says."""
    return config.tokenizer or trained_vocabulary(config)


def make_codec(config: FrontEndConfig, on_step: Callable[..., None] = lambda *told: None) -> dict[str, str]:
    """The codec's options: the weights named, or a nano-mimi trained on the datasets' speech."""
    device = str(find_device(config.device))
    if config.codec_path is not None or config.codec == "mimi":
        return {"device": device} if config.codec_path is None else {"path": config.codec_path, "device": device}
    from data_schemas.config.codec import CodecTrainConfig
    from kame_model.codec.run import train_codec

    folder = str(Path(config.out) / "codec")
    settings = CodecTrainConfig(minutes=config.codec_minutes, device=device)
    train_codec(spoken_datasets(config.shares), settings, folder, on_step)
    return {"path": folder, "device": device}


def named_shares(config: FrontEndConfig) -> dict[str, DatasetShare]:
    """What is to be encoded, by the name of its folder of token rows: the mixture in order, then what is held out."""
    mixed = {f"{n}-{Path(each.folder).resolve().name}": each for n, each in enumerate(config.shares)}
    return mixed if config.held_out_share is None else mixed | {HELD_OUT: config.held_out_share}


def encode(
    config: FrontEndConfig, name: str, tokenizer: str, codec: dict[str, str], on_rows: Callable[[int], None]
) -> str:
    """The folder of one dataset's token rows; `name` is one of `named_shares`.

    Where the run's other folders have codes of the same sound (one dataset with several oracles), these are copied.
    """
    from data_schemas.config.encode import EncodeConfig
    from kame_model.encode.run import encode_dataset

    share = named_shares(config)[name]
    out = str(Path(config.out) / "tokens" / name)
    others = [str(each) for each in sorted(Path(out).parent.glob("*/")) if each.name != name]
    encode_dataset(
        EncodeConfig(
            dataset=share.folder,
            out=out,
            oracle_version=share.oracle_version,
            codec=config.codec,
            codec_options=dict(codec),
            tokenizer=tokenizer,
            workers=config.workers,
            codes_from=others,
        ),
        on_rows,
    )
    return out


def train_config(config: FrontEndConfig, stage: Stage, tokenizer: str, tokens: Sequence[str]) -> TrainConfig:
    """The configuration of one stage's training run; dialogues start from the copying run, where there was one.

    Args:
        tokens: folders of token rows, in the order of the datasets.

    Raises:
        ConfigError: a setting is unknown or out of bounds.
    """
    copied = str(config.of_seed / COPY)
    is_copy = stage == "copy"
    mixed = zip(tokens, config.shares, strict=True)
    both = {name: value for name, value in config.settings.items() if name.startswith(_OF_BOTH_STAGES)}
    settings: dict[str, Any] = {
        "out": copied if is_copy else str(config.of_seed / RUN),
        "max_steps": config.copy_steps if is_copy else config.max_steps,
        "max_hours": config.copy_hours if is_copy else config.max_hours,
        "init_from": config.init_from if is_copy or not config.copy_steps else copied,
        "tokenizer": tokenizer,
        "seed": config.seed,
        "hardware.device": config.device,
        "data.datasets": [{"path": folder, "weight": share.weight} for folder, share in mixed],
        **(both | config.copy_settings if is_copy else config.settings),
    }
    return build_train_config(config.preset, stage, None, settings)


def run_training(config: TrainConfig, progress: Progress = SILENT) -> RunResult:
    """One training run to its end.

    Raises:
        Stopped: somebody asked it to stop; everything is saved.
    """
    result = train(config, progress)
    if not result.is_done:
        raise Stopped(f"Training was stopped at step {result.step} and is saved.", "The same again goes on from there.")
    return result


def export(config: FrontEndConfig, tokenizer: str, codec: dict[str, str]) -> str:
    """The checkpoint's name in the folder of checkpoints; one of this very run that stands is not written again.

    Where another run's has the name, this one's has the run's identity behind it.

    Raises:
        ConfigError: that is taken too.
    """
    run, folder = config.of_seed / RUN, Path(config.checkpoints)
    training = read_training_facts(run)
    name = f"{config.preset}-{Path(config.out).resolve().name}-{config.max_steps}"
    name += f"-seed-{config.seed}" if config.seed else ""
    folder.mkdir(parents=True, exist_ok=True)
    for each in (name, f"{name}-{training.run}"):
        if not (folder / each).exists():
            export_run(run, folder / each, (config.codec, dict(codec)), tokenizer)
            return each
        if read_kame_json(folder / each / FACTS).training == training:
            return each
    raise ConfigError(
        f"{folder} has {name}, and another of this run's identity, of other trainings.",
        "Move them elsewhere, or name another folder with --checkpoints.",
    )


def evaluation_config(config: FrontEndConfig) -> EvaluationConfig:
    """How the checkpoint is run freely.

    Raises:
        ConfigError: a setting is unknown or out of bounds.
    """
    splits = config.evaluate_splits if config.held_out is None else get_args(Split)  # nothing there is trained on
    told = {"splits": list(splits), "n_items": max(1, config.evaluate_items), "seed": config.seed}
    for name, value in config.evaluation_settings.items():
        put(told, name.split("."), value)
    return validated(EvaluationConfig, told)


def evaluate(
    config: FrontEndConfig, checkpoint: str, rows: str, hear: Hearing | None, on_batch: Callable[[int], None]
) -> list[ConditionFigures]:
    """Held-out dialogues, run freely by the exported checkpoint, and the table over all seeds made anew.

    Args:
        rows: folder of their token rows. Of a dataset that is trained on too they may have none: then nothing is run.
    """
    if not config.evaluate_items:
        return []
    from kame_model.checkpoint.load import load_checkpoint
    from kame_model.encode.token_dataset import TokenDataset
    from kame_model.evaluate.proof import held_out
    from kame_model.evaluate.run import FIGURES
    from kame_model.evaluate.run import evaluate as run
    from kame_model.evaluate.seeds import write_over_seeds

    settings, dataset = evaluation_config(config), TokenDataset(rows)
    if config.held_out is None and not held_out(dataset, settings):
        return []
    loaded = load_checkpoint(Path(config.checkpoints) / checkpoint, find_device(config.device))
    figures = run(loaded, dataset, settings, str(config.of_seed / EVALUATION), hear, on_batch)
    evaluations = (each / EVALUATION for each in find_seed_folders(config.out).values())
    every = sorted(str(each) for each in evaluations if (each / FIGURES).is_file())
    own = str(config.of_seed / EVALUATION)
    write_over_seeds([own, *(each for each in every if each != own)], config.out, leave_out=True)
    return figures


def register_checkpoint(config: FrontEndConfig, name: str, figures: Sequence[ConditionFigures]) -> KameJson:
    """Puts the checkpoint into the index, with its losses and the shares of answers; its facts and card have them too.

    Where nothing was run freely this time, the shares of an earlier time stand.
    """
    folder, measures = Path(config.checkpoints) / name, get_args(Measure)
    shares = [
        FreeShare(measure=measure, oracle=each.condition, group=each.group, **share.model_dump())
        for each in figures
        for measure in measures
        if (share := getattr(each, measure)) is not None
    ]
    facts = record_free_running(folder, shares) if shares else read_kame_json(folder / FACTS)
    entry = Entry(
        name=name,
        preset=facts.preset,
        step=facts.training.step,
        data=facts.training.data,
        registered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        figures=facts.training.figures | {each.name: round(each.value, 4) for each in facts.free_running},
    )
    register(config.checkpoints, entry)
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How the steps of a run are called."""

    make_text: Callable[[FrontEndConfig], str] = make_text
    make_codec: Callable[..., dict[str, str]] = make_codec
    encode: Callable[[FrontEndConfig, str, str, dict[str, str], Callable[[int], None]], str] = encode
    run_training: Callable[[TrainConfig, Progress], RunResult] = run_training
    export: Callable[[FrontEndConfig, str, dict[str, str]], str] = export
    evaluate: Callable[..., list[ConditionFigures]] = evaluate
    register: Callable[[FrontEndConfig, str, Sequence[ConditionFigures]], KameJson] = register_checkpoint


PLAIN = Steps()
"""Plain calls in this process."""


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told how far a run is: training by its own progress, the rest by counts."""

    training: Progress = SILENT
    codec: Callable[..., None] = lambda *told: None
    count: Callable[[int], None] = lambda n: None


def run_front_end(
    config: FrontEndConfig, told: Told = Told(), steps: Steps = PLAIN, hear: Hearing | None = None
) -> Made:
    """Makes, or goes on making, a registered checkpoint of datasets.

    Raises:
        Stopped: training was asked to stop, and is saved.
        ConfigError: settings of a stage do not hold, what is held out is trained on, or the folder's vocabulary is
            another; before anything is made.
        KameError: with cause and remedy; what was finished before stays and is used by the next run.
    """
    for stage in ("copy", "dialogues") if config.copy_steps else ("dialogues",):
        train_config(config, stage, "vocabulary", config.datasets)  # settings that do not hold are told of at once
    evaluation_config(config)
    check_datasets(config)
    check_vocabulary(config)
    Path(config.out).mkdir(parents=True, exist_ok=True)
    tokenizer = steps.make_text(config)
    codec = steps.make_codec(config, told.codec)
    rows = {name: steps.encode(config, name, tokenizer, codec, told.count) for name in named_shares(config)}
    tokens = [folder for name, folder in rows.items() if name != HELD_OUT]
    if config.copy_steps:
        steps.run_training(train_config(config, "copy", tokenizer, tokens), told.training)
    result = steps.run_training(train_config(config, "dialogues", tokenizer, tokens), told.training)
    name = steps.export(config, tokenizer, codec)
    figures = steps.evaluate(config, name, rows.get(HELD_OUT, tokens[0]), hear, told.count)
    facts = steps.register(config, name, figures)
    return Made(str(Path(config.checkpoints) / name), facts, result, figures)
