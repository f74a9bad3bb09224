"""`kame train`: a front-end from datasets or from token rows. Running it again goes on.

`torchrun` in front of it uses several GPUs, for token rows.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.terminal import AsJson, CodecOptions, print_json, speaking_plainly

if TYPE_CHECKING:
    from rich.table import Table

    from data_schemas.config.front_end import FrontEndConfig
    from data_schemas.config.training import TrainConfig
    from kame_model.train.run import RunResult


Dataset = Annotated[
    list[str],
    typer.Argument(
        help="Folders of datasets (hf://datasets/owner/name on the Hub), or of token rows. FOLDER=WEIGHT mixes "
        "unevenly, and of datasets FOLDER@VERSION=WEIGHT names a version of the oracles."
    ),
]
Stage = Annotated[
    str | None, typer.Option("--stage", help="Of token rows: one of the plan (speak, copy, dialogues); else the last.")
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", min=1, help="Optimiser steps of the run, of datasets of the last stage.")
]
MaxHours = Annotated[
    float | None, typer.Option("--max-hours", help="The run, of datasets the last stage, ends by then.")
]
InitFrom = Annotated[
    str | None, typer.Option("--init-from", help="A run, an export, KAME's release or Moshi's; folder or Hub.")
]
TokenizerFile = Annotated[
    str | None, typer.Option("--tokenizer", help="The vocabulary's file; of token rows, else the one beside them.")
]
LearningRate = Annotated[float | None, typer.Option("--learning-rate", help="After warm-up.")]
LoraRank = Annotated[
    int | None, typer.Option("--lora-rank", min=1, help="Train adapters of this rank, beside --init-from.")
]
Speech = Annotated[
    str | None,
    typer.Option("--speech", help="Of datasets: folder of `kame speech`, learnt first; it has vocabulary and codec."),
]
HeldOut = Annotated[
    str | None,
    typer.Option("--held-out", help="Of datasets: FOLDER[@VERSION] of other items, for the evaluation alone."),
]
Vocabulary = Annotated[
    int | None, typer.Option("--vocabulary", help="Of datasets: pieces of a vocabulary that is trained.")
]
CodecName = Annotated[str | None, typer.Option("--codec", help="Of datasets: codec2-learnt, mimi or another.")]
CodecPath = Annotated[str | None, typer.Option("--codec-path", help="Of datasets: its files; else some are learnt.")]
CheckpointsFolder = Annotated[
    str | None, typer.Option("--checkpoints", help="Of datasets: folder where the checkpoint is registered.")
]
Voice = Annotated[
    Literal["decoded", "synthesised"] | None,
    typer.Option("--voice", help="Of datasets: how servers let the checkpoint be heard (docs/serving.md)."),
]
EvaluateItems = Annotated[
    int | None, typer.Option("--evaluate", help="Of datasets: held-out dialogues run at the end; 0: none.")
]
Listen = Annotated[bool, typer.Option("--listen", help="Of datasets: a recogniser listens to them.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of weights and of every draw.")]
SettingsFile = Annotated[Path | None, typer.Option("--config", help="YAML of settings, over the preset.")]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        help="Any setting, e.g. data.swap_share=0.3; of datasets speak.… and copy.… for those stages, "
        "evaluation.… for the evaluation, sampling.… for how the checkpoint is to be run.",
    ),
]


def train(
    dataset: Dataset,
    out: Annotated[str, typer.Option("--out", help="Folder of the run.")] = "run",
    preset: Annotated[str, typer.Option("--preset", help="Size: nano, small, moshi-7b or one of your own.")] = "nano",
    stage: Stage = None,
    max_steps: MaxSteps = None,
    max_hours: MaxHours = None,
    init_from: InitFrom = None,
    tokenizer: TokenizerFile = None,
    learning_rate: LearningRate = None,
    lora_rank: LoraRank = None,
    speech: Speech = None,
    held_out: HeldOut = None,
    vocabulary: Vocabulary = None,
    codec: CodecName = None,
    codec_path: CodecPath = None,
    codec_option: CodecOptions = [],  # noqa: B006
    checkpoints: CheckpointsFolder = None,
    voice: Voice = None,
    evaluate: EvaluateItems = None,
    listen: Listen = False,
    seed: Seed = None,
    config: SettingsFile = None,
    settings: Settings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train a front-end. Running again goes on from the last checkpoint, to the last bit as if never stopped.

    Of datasets the whole way is gone: vocabulary, codec, token rows, training, checkpoint, evaluation, register.
    """
    both: dict[str, Any] = {
        "out": out,
        "max_steps": max_steps,
        "max_hours": max_hours,
        "init_from": init_from,
        "tokenizer": tokenizer,
        "seed": seed,
    }
    of_datasets: dict[str, Any] = {
        "vocabulary": vocabulary,
        "speech": speech,
        "held_out": held_out,
        "codec": codec,
        "codec_path": codec_path,
        "checkpoints": checkpoints,
        "voice": voice,
        "evaluate_items": evaluate,
        "listen": listen,
    }
    with speaking_plainly(as_json):
        from flows.settings import build_train_config, parse_settings

        named = {"optim.learning_rate": learning_rate, "lora.rank": lora_rank}
        other = {name: value for name, value in named.items() if value is not None} | parse_settings(settings)
        if _are_datasets(dataset):
            _refuse_for_datasets(stage, config)
            told = {"datasets": dataset, "preset": preset, **group_settings(other)}
            own = {"codec_options": parse_settings(codec_option, "--codec-option") or None}
            _train_datasets({**both, **of_datasets, **own, **told}, as_json)
        else:
            _refuse_for_rows({**of_datasets, "codec_option": codec_option or None})
            typed = {**both, "data.datasets": [_parse_share(each) for each in dataset], **other}
            _train_rows(build_train_config(preset, stage, config, typed), as_json)


def _train_rows(config: "TrainConfig", as_json: bool) -> None:
    """One training run, in this process or as one of torchrun's.

    Raises:
        KeyboardInterrupt: it was asked to stop, and is saved.
    """
    from flows.cli.progress import TrainingBar
    from kame_model.train.run import train as run

    is_first = os.environ.get("RANK", "0") == "0"  # torchrun numbers its processes
    with TrainingBar(quiet=as_json or not is_first) as bar:
        result = run(config, bar)
    if is_first:
        _tell(result, as_json)
    if not result.is_done:
        raise KeyboardInterrupt


def _parse_share(text: str) -> dict[str, Any]:
    """`FOLDER` or `FOLDER=WEIGHT`."""
    from data_schemas.config.front_end import with_weight

    return dict(zip(("path", "weight"), with_weight(text), strict=True))


def _tell(result: "RunResult", as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json(asdict(result))
        return
    from rich.console import Console

    if result.evaluation is not None:
        Console().print(_make_columns(result.evaluation))
    typer.echo(
        f"{result.folder}: {result.step} steps of {result.n_trained / 1e6:.1f} M trained weights "
        f"({result.n_weights / 1e6:.1f} M in all); metrics.jsonl and tensorboard/ hold the curves."
    )


def _make_columns(evaluation: Mapping[str, Mapping[str, float]]) -> "Table":
    """Validation with the right oracle, a wrong one and none, side by side."""
    from rich.table import Table

    table = Table("validation, nats", *(f"{column} oracle" for column in evaluation))
    for name in next(iter(evaluation.values())):
        table.add_row(name, *(f"{figures[name]:.3f}" for figures in evaluation.values()))
    return table


def _are_datasets(folders: list[str]) -> bool:
    """Whether the folders hold datasets, and not token rows.

    Raises:
        ConfigError: some do and some do not.
    """
    from data_schemas.buckets import is_in_bucket
    from data_schemas.config.front_end import parse_dataset_share
    from data_schemas.errors import ConfigError
    from data_schemas.hub import is_on_hub
    from data_schemas.manifest import MANIFEST

    named = [parse_dataset_share(folder).folder for folder in folders]
    found = {is_on_hub(folder) or is_in_bucket(folder) or (Path(folder) / MANIFEST).is_file() for folder in named}
    if len(found) > 1:
        raise ConfigError(
            f"Of {', '.join(folders)} some are datasets and some are not.",
            "Name datasets only, or encode them with `kame encode` and name token rows only.",
        )
    return True in found


def _refuse_for_datasets(stage: str | None, file: Path | None) -> None:
    """Refuses what goes with token rows only.

    Raises:
        ConfigError: several processes, one stage alone, or a file of a training run's settings.
    """
    from data_schemas.errors import ConfigError

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # each would learn a codec and encode, all in one folder
        raise ConfigError(
            "Several processes train on token rows, not on datasets.",
            "Encode first, with `kame encode`, and name its folder to `torchrun … kame train`.",
        )
    if stage is not None:
        remedy = f"Of datasets all stages are trained; to leave one out say --set {stage}.max_steps=0."
        raise ConfigError(f"--stage {stage} takes token rows.", remedy)
    if file is not None:
        raise ConfigError("--config takes token rows.", "For datasets say each setting with --set name=value.")


def _refuse_for_rows(typed: Mapping[str, Any]) -> None:
    """Refuses what goes with datasets only, rather than pass over it.

    Args:
        typed: fields of `FrontEndConfig` by the option that gives them; None or False: not typed.

    Raises:
        ConfigError: some were typed.
    """
    from data_schemas.errors import ConfigError

    names = [name.removesuffix("_items") for name, value in typed.items() if value is not None and value is not False]
    found = [f"--{name.replace('_', '-')}" for name in names]
    if found:
        raise ConfigError(
            f"{', '.join(found)}: of datasets only, and these are token rows.",
            "Leave it out, or name the dataset. From rows: `kame train`, `kame checkpoint export`, "
            "`kame evaluate recall`.",
        )


def group_settings(typed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What `--set` gave, by the field of `FrontEndConfig` that it goes to; what names none is a setting of training."""
    fields = {"evaluation": "evaluation_settings", "sampling": "sampling_settings"}
    found: dict[str, dict[str, Any]] = {}
    for name, value in typed.items():
        first, _, rest = name.partition(".")
        field, own = (fields[first], rest) if first in fields else ("settings", name)
        found.setdefault(field, {})[own] = value
    return found


def _train_datasets(typed: Mapping[str, Any], as_json: bool) -> None:
    """From datasets to a registered checkpoint; again = go on.

    Args:
        typed: fields of `FrontEndConfig`; None: not typed.
    """
    from data_schemas.config.front_end import FrontEndConfig
    from flows.cli.progress import TrainingBar
    from flows.runs.train import run_front_end
    from flows.settings import build
    from kame_model.evaluate.recall import format_row

    config = build(FrontEndConfig, {}, typed)
    with TrainingBar(quiet=as_json) as bar:
        made = run_front_end(config, bar)
    if as_json:
        print_json({"checkpoint": made.checkpoint, **made.facts.model_dump(mode="json"), "recall": made.figures})
        return
    if config.evaluate_items and not made.figures:
        typer.echo("note: no held-out dialogue has an answer and its oracle; nothing was run freely.", err=True)
    for row in made.figures:
        typer.echo(format_row(row))
    if made.figures:
        typer.echo(f"{config.of_seed}/evaluation/report.md has the rest; over all seeds so far: {config.out}/report.md")
    _tell_losses(config)
    typer.echo(f"{made.checkpoint}: {made.facts.preset}, {made.facts.training.step} steps; README.md tells what it is.")


def _tell_losses(config: "FrontEndConfig") -> None:
    """How the loss fell, in one line, and where its picture is; the stages before have one too."""
    from data_schemas.config.front_end import RUN
    from flows.runs.train import stage_folder, stages_of
    from kame_model.train.logs import METRICS, PICTURE, plot_losses, read_metrics

    run = config.of_seed / RUN
    for stage in stages_of(config):
        plot_losses(str(stage_folder(config, stage)))
    told = [line for line in read_metrics(run / METRICS) if line["kind"] == "train" and "loss" in line]
    if told:
        first, last = told[0], told[-1]
        typer.echo(
            f"loss {first['loss']:.3f} at step {first['step']}, {last['loss']:.3f} at step {last['step']}; "
            f"picture: {run / PICTURE}"
        )
