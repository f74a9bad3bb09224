"""From datasets to a registered checkpoint, step by step; called as they are or as a scheduler's tasks, in one order.

    text ─ codec ─ encode ─ copy ─ train ─ export ─ evaluate ─ register

    OUT/tokenizer.model   OUT/codec/   OUT/tokens/<n>-<dataset>/   OUT/copy/   OUT/run/   OUT/evaluation/
    CHECKPOINTS/<name>/   CHECKPOINTS/index.json

Each step goes on where it was stopped and is left out where it stands, so running again resumes. What is evaluated is
the export, as it will be served.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from data_schemas.config.evaluation import EvaluationConfig
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.config.training import Stage, TrainConfig
from data_schemas.errors import ConfigError, KameError
from data_schemas.reader import DatasetReader
from flows.train_command import build_train_config
from kame_model.checkpoint.from_run import export_run, training_facts
from kame_model.checkpoint.index import Entry, register
from kame_model.checkpoint.kame_json import KameJson, read_kame_json
from kame_model.evaluate.figures import ConditionFigures
from kame_model.evaluate.listening import Hearing
from kame_model.train.processes import find_device
from kame_model.train.run import SILENT, RunResult, train
from kame_model.train.trainer import Progress

FACTS = "kame.json"
_OF_BOTH_STAGES = ("model.", "hardware.")


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
    if config.tokenizer is not None:
        return config.tokenizer
    from kame_model.text.corpus import training_texts
    from kame_model.text.training import train_tokenizer

    path = Path(config.out) / "tokenizer.model"
    if not path.exists():
        texts = chain.from_iterable(training_texts(DatasetReader(folder)) for folder in config.datasets)
        train_tokenizer(texts, config.vocabulary, path)
    return str(path)


def make_codec(config: FrontEndConfig, on_step: Callable[..., None] = lambda *told: None) -> dict[str, str]:
    """The codec's options: the weights named, or a nano-mimi trained on the datasets' speech."""
    device = str(find_device(config.device))
    if config.codec_path is not None or config.codec == "mimi":
        return {"device": device} if config.codec_path is None else {"path": config.codec_path, "device": device}
    from data_schemas.config.codec import CodecTrainConfig
    from kame_model.codec.run import train_codec

    folder = str(Path(config.out) / "codec")
    settings = CodecTrainConfig(minutes=config.codec_minutes, seed=config.seed, device=device)
    train_codec([DatasetReader(each) for each in config.datasets], settings, folder, on_step)
    return {"path": folder, "device": device}


def encode(
    config: FrontEndConfig, number: int, tokenizer: str, codec: dict[str, str], on_rows: Callable[[int], None]
) -> str:
    """The folder of one dataset's token rows."""
    from data_schemas.config.encode import EncodeConfig
    from kame_model.encode.run import encode_dataset

    dataset = config.datasets[number]
    out = str(Path(config.out) / "tokens" / f"{number}-{Path(dataset).resolve().name}")
    encode_dataset(
        EncodeConfig(
            dataset=dataset,
            out=out,
            oracle_version=config.oracle_version,
            codec=config.codec,
            codec_options=dict(codec),
            tokenizer=tokenizer,
            workers=config.workers,
        ),
        on_rows,
    )
    return out


def train_config(config: FrontEndConfig, stage: Stage, tokenizer: str, tokens: Sequence[str]) -> TrainConfig:
    """The configuration of one stage's training run; dialogues start from the copying run, where there was one.

    Raises:
        ConfigError: a setting is unknown or out of bounds.
    """
    copied = str(Path(config.out) / "copy")
    is_copy = stage == "copy"
    both = {name: value for name, value in config.settings.items() if name.startswith(_OF_BOTH_STAGES)}
    settings: dict[str, Any] = {
        "out": copied if is_copy else str(Path(config.out) / "run"),
        "max_steps": config.copy_steps if is_copy else config.max_steps,
        "init_from": config.init_from if is_copy or not config.copy_steps else copied,
        "tokenizer": tokenizer,
        "seed": config.seed,
        "hardware.device": config.device,
        "data.datasets": [{"path": folder} for folder in tokens],
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
    run, folder = Path(config.out) / "run", Path(config.checkpoints)
    training = training_facts(run)
    name = f"{config.preset}-{Path(config.out).resolve().name}-{config.max_steps}"
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


def evaluate(
    config: FrontEndConfig,
    checkpoint: str,
    tokens: Sequence[str],
    hear: Hearing | None,
    on_batch: Callable[[int], None],
) -> list[ConditionFigures]:
    """Held-out dialogues of the first dataset, run freely by the exported checkpoint; nothing where it has none."""
    if not config.evaluate_items:
        return []
    from kame_model.checkpoint.load import load_checkpoint
    from kame_model.encode.token_dataset import TokenDataset
    from kame_model.evaluate.proof import held_out
    from kame_model.evaluate.run import evaluate as run

    settings = EvaluationConfig(splits=config.evaluate_splits, n_items=config.evaluate_items, seed=config.seed)
    dataset = TokenDataset(tokens[0])
    if not held_out(dataset, settings):  # a small dataset's checkpoint is registered without these figures
        return []
    loaded = load_checkpoint(Path(config.checkpoints) / checkpoint, find_device(config.device))
    return run(loaded, dataset, settings, str(Path(config.out) / "evaluation"), hear, on_batch)


def register_checkpoint(config: FrontEndConfig, name: str, figures: Sequence[ConditionFigures]) -> KameJson:
    """Puts the checkpoint into the index, with its losses and the shares of answers said."""
    facts = read_kame_json(Path(config.checkpoints) / name / FACTS)
    shares = {f"said, {each.condition} oracle, {each.group}": round(each.said.value, 4) for each in figures}
    entry = Entry(
        name=name,
        preset=facts.preset,
        step=facts.training.step,
        data=facts.training.data,
        registered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        figures=facts.training.figures | shares,
    )
    register(config.checkpoints, entry)
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How the steps of a run are called."""

    make_text: Callable[[FrontEndConfig], str] = make_text
    make_codec: Callable[..., dict[str, str]] = make_codec
    encode: Callable[[FrontEndConfig, int, str, dict[str, str], Callable[[int], None]], str] = encode
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
        ConfigError: settings of a stage do not hold; before anything is made.
        KameError: with cause and remedy; what was finished before stays and is used by the next run.
    """
    for stage in ("copy", "dialogues") if config.copy_steps else ("dialogues",):
        train_config(config, stage, "vocabulary", ["rows"])  # settings that do not hold are told of at once
    Path(config.out).mkdir(parents=True, exist_ok=True)
    tokenizer = steps.make_text(config)
    codec = steps.make_codec(config, told.codec)
    tokens = [steps.encode(config, number, tokenizer, codec, told.count) for number in range(len(config.datasets))]
    if config.copy_steps:
        steps.run_training(train_config(config, "copy", tokenizer, tokens), told.training)
    result = steps.run_training(train_config(config, "dialogues", tokenizer, tokens), told.training)
    name = steps.export(config, tokenizer, codec)
    figures = steps.evaluate(config, name, tokens, hear, told.count)
    facts = steps.register(config, name, figures)
    return Made(str(Path(config.checkpoints) / name), facts, result, figures)
