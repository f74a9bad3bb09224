"""`kame train`: trains a front-end on datasets or on token rows; the same command again resumes.

With token rows it can be started by `torchrun`, to train on several GPUs.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.field_help import make_field_option
from flows.cli.terminal import AsJson, CodecOptions, print_json, report_errors

if TYPE_CHECKING:
    from rich.table import Table

    from data_schemas.config.front_end import FrontEndConfig
    from data_schemas.config.training import TrainConfig
    from kame_model.train.run import RunResult


Dataset = Annotated[
    list[str],
    typer.Argument(
        help="Folders of datasets (or hf://datasets/owner/name on the Hub), or folders of token rows. FOLDER=WEIGHT "
        "sets the sampling weight of one; for datasets, FOLDER@VERSION=WEIGHT also chooses the version of its oracles."
    ),
]
Stage = Annotated[
    str | None,
    typer.Option(
        "--stage", help="Token rows only: stage of the preset's plan: speak, copy or dialogues. Default: the last one."
    ),
]
MaxSteps = Annotated[
    int | None,
    typer.Option("--max-steps", min=1, help="Number of optimiser steps of the run; with datasets, of the last stage."),
]
MaxHours = Annotated[
    float | None,
    typer.Option("--max-hours", help="Maximum duration of the run, in hours; with datasets, of the last stage."),
]
InitFrom = Annotated[
    str | None,
    make_field_option("--init-from", "data_schemas.config.front_end:FrontEndConfig.init_from"),
]
TokenizerFile = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="SentencePiece model. Default: with token rows, the file beside them; with datasets, one is trained, for "
        "moshi-7b Moshi's own.",
    ),
]
LearningRate = Annotated[float | None, typer.Option("--learning-rate", help="Learning rate after warm-up.")]
LoraRank = Annotated[
    int | None,
    typer.Option(
        "--lora-rank",
        min=1,
        help="Train low-rank adapters (LoRA) of this rank; needs pretrained weights (--init-from, or the preset's).",
    ),
]
Speech = Annotated[
    str | None,
    make_field_option("--speech", "data_schemas.config.front_end:FrontEndConfig.speech", "Only with datasets."),
]
HeldOut = Annotated[
    str | None,
    make_field_option("--held-out", "data_schemas.config.front_end:FrontEndConfig.held_out", "Only with datasets."),
]
Vocabulary = Annotated[
    int | None,
    make_field_option(
        "--vocabulary",
        "data_schemas.config.front_end:FrontEndConfig.vocabulary",
        "Only with datasets.",
    ),
]
CodecName = Annotated[
    str | None,
    make_field_option("--codec", "data_schemas.config.front_end:FrontEndConfig.codec", "Only with datasets."),
]
CodecPath = Annotated[
    str | None,
    make_field_option("--codec-path", "data_schemas.config.front_end:FrontEndConfig.codec_path", "Only with datasets."),
]
CheckpointsFolder = Annotated[
    str | None,
    make_field_option(
        "--checkpoints",
        "data_schemas.config.front_end:FrontEndConfig.checkpoints",
        "Only with datasets.",
    ),
]
Voice = Annotated[
    Literal["decoded", "synthesised"] | None,
    make_field_option(
        "--voice",
        "data_schemas.config.front_end:FrontEndConfig.voice",
        "Only with datasets.",
    ),
]
EvaluateItems = Annotated[
    int | None,
    make_field_option(
        "--evaluate",
        "data_schemas.config.front_end:FrontEndConfig.evaluate_items",
        "Only with datasets.",
    ),
]
Listen = Annotated[
    bool,
    make_field_option("--listen", "data_schemas.config.front_end:FrontEndConfig.listen", "Only with datasets."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed of weights, data order and all other random choices.")
]
SettingsFile = Annotated[
    Path | None, typer.Option("--config", help="Token rows only: YAML file of settings, which override the preset's.")
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        help="Any setting of training, such as data.swap_share=0.3. With datasets also speak.… and copy.… for these "
        "stages, evaluation.… for the evaluation, and sampling.… for the checkpoint's sampling. Can be repeated.",
    ),
]


def train(
    dataset: Dataset,
    out: Annotated[str, typer.Option("--out", help="Folder of the run.")] = "run",
    preset: Annotated[
        str, typer.Option("--preset", help="Preset (size): nano, small, moshi-7b or one of your own.")
    ] = "nano",
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
    """Train a front-end. Run the same command again to resume; the result is the same as without an interruption.

    With datasets, all steps are run: tokenizer, codec, token rows, training, checkpoint, evaluation, registration.
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
    with report_errors(as_json):
        from flows.settings import build_train_config, parse_settings

        named = {"optim.learning_rate": learning_rate, "lora.rank": lora_rank}
        other = {name: value for name, value in named.items() if value is not None} | parse_settings(settings)
        if _are_datasets(dataset):
            _check_options_for_datasets(dataset, stage, config)
            dataset_settings = {"datasets": dataset, "preset": preset, **group_settings(other)}
            own = {"codec_options": parse_settings(codec_option, "--codec-option") or None}
            _train_datasets({**both, **of_datasets, **own, **dataset_settings}, as_json)
        else:
            _check_options_for_rows({**of_datasets, "codec_option": codec_option or None})
            typed = {**both, "data.datasets": [_parse_share(each) for each in dataset], **other}
            _train_rows(build_train_config(preset, stage, config, typed), as_json)


def _train_rows(config: "TrainConfig", as_json: bool) -> None:
    """Runs a training on token rows, in this process or as one process of torchrun, and prints the result.

    Raises:
        KeyboardInterrupt: the run was stopped, and a checkpoint is saved.
    """
    from flows.cli.progress import TrainingBar
    from kame_model.train.run import train as run

    is_first = os.environ.get("RANK", "0") == "0"  # torchrun numbers its processes
    with TrainingBar(quiet=as_json or not is_first) as bar:
        result = run(config, bar)
    if is_first:
        _print_result(result, as_json)
    if not result.is_done:
        raise KeyboardInterrupt


def _parse_share(text: str) -> dict[str, Any]:
    """Parses `FOLDER` or `FOLDER=WEIGHT` of token rows to `path` and `weight`, which is 1 by default."""
    from data_schemas.config.front_end import parse_weight

    return dict(zip(("path", "weight"), parse_weight(text), strict=True))


def _print_result(result: "RunResult", as_json: bool) -> None:
    """Prints the last validation losses of a run, its steps and its number of weights."""
    if as_json:
        from dataclasses import asdict

        print_json(asdict(result))
        return
    from rich.console import Console

    if result.evaluation is not None:
        Console().print(_make_loss_table(result.evaluation))
    typer.echo(
        f"{result.folder}: {result.step} steps of {result.n_trained / 1e6:.1f} M trained weights "
        f"({result.n_weights / 1e6:.1f} M in total). The curves are in metrics.jsonl and tensorboard/."
    )


def _make_loss_table(evaluation: Mapping[str, Mapping[str, float]]) -> "Table":
    """Makes a table of the validation losses in nats, with a column for each kind of oracle (right, wrong, none)."""
    from rich.table import Table

    table = Table("validation, nats", *(f"{column} oracle" for column in evaluation))
    for name in next(iter(evaluation.values())):
        table.add_row(name, *(f"{figures[name]:.3f}" for figures in evaluation.values()))
    return table


def _are_datasets(folders: list[str]) -> bool:
    """Returns whether the folders are datasets rather than token rows; addresses on the Hub or in a bucket always are.

    Raises:
        ConfigError: some of them are datasets, and some are not.
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
            f"Some of {', '.join(folders)} are datasets, and some are not.",
            "Give datasets only, or encode them with `kame encode` and give token rows only.",
        )
    return True in found


def _check_options_for_datasets(datasets: list[str], stage: str | None, file: Path | None) -> None:
    """Checks that nothing is given that is possible with token rows only.

    Raises:
        ConfigError: there are several processes, a single stage, or a file of settings.
    """
    from data_schemas.errors import ConfigError

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # each would learn a codec and encode, all in one folder
        raise ConfigError(
            "Several processes (torchrun) can train on token rows only, not on datasets.",
            "Encode the datasets with `kame encode`, and give its folder to `torchrun … kame train`.",
        )
    named = f"datasets ({', '.join(datasets)})"
    if stage is not None:
        remedy = f"With datasets, all stages are trained; to skip one, add --set {stage}.max_steps=0."
        raise ConfigError(f"--stage {stage} cannot be used with {named}.", remedy)
    if file is not None:
        raise ConfigError(f"--config cannot be used with {named}.", "Give each setting as --set name=value.")


def _check_options_for_rows(typed: Mapping[str, Any]) -> None:
    """Checks that none of the options that need datasets is given; they would be ignored.

    Args:
        typed: values of these options by name; None or False if the option was not given.

    Raises:
        ConfigError: there is such an option.
    """
    from data_schemas.errors import ConfigError

    names = [name.removesuffix("_items") for name, value in typed.items() if value is not None and value is not False]
    found = [f"--{name.replace('_', '-')}" for name in names]
    if found:
        raise ConfigError(
            f"These options need datasets, but token rows were given: {', '.join(found)}.",
            "Omit it, or give the dataset. With token rows, run `kame train`, `kame checkpoint export` and "
            "`kame evaluate recall` in turn.",
        )


def group_settings(typed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups the settings of `--set` by the field of `FrontEndConfig` to which their prefix assigns them.

    The prefix is removed; a setting without a known prefix is one of training (`settings`).
    """
    fields = {"evaluation": "evaluation_settings", "sampling": "sampling_settings"}
    found: dict[str, dict[str, Any]] = {}
    for name, value in typed.items():
        first, _, rest = name.partition(".")
        field, own = (fields[first], rest) if first in fields else ("settings", name)
        found.setdefault(field, {})[own] = value
    return found


def _train_datasets(typed: Mapping[str, Any], as_json: bool) -> None:
    """Trains on datasets up to a registered checkpoint, or resumes, and prints the evaluation and losses.

    Args:
        typed: values by field of `FrontEndConfig`; None for an option that was not given.
    """
    from data_schemas.config.front_end import FrontEndConfig
    from flows.cli.progress import TrainingBar
    from flows.runs.train import run_front_end
    from flows.settings import build
    from kame_model.evaluate.recall.evaluate import format_row

    config = build(FrontEndConfig, {}, typed)
    with TrainingBar(quiet=as_json) as bar:
        made = run_front_end(config, bar)
    if as_json:
        print_json({"checkpoint": made.checkpoint, **made.facts.model_dump(mode="json"), "recall": made.figures})
        return
    if config.evaluate_items and not made.figures:
        typer.echo("note: there is no evaluation, because no held-out dialogue has an answer and its oracle.", err=True)
    for row in made.figures:
        typer.echo(format_row(row))
    if made.figures:
        typer.echo(
            f"Report: {config.of_seed}/evaluation/report.md; report over all seeds so far: {config.out}/report.md"
        )
    _report_losses(config)
    typer.echo(
        f"{made.checkpoint}: {made.facts.preset}, {made.facts.training.step} steps; model card: "
        f"{made.checkpoint}/README.md"
    )


def _report_losses(config: "FrontEndConfig") -> None:
    """Plots the losses of each stage to a file, and prints the first and last training loss of the last stage."""
    from data_schemas.config.front_end import RUN
    from flows.runs.train import get_stage_folder, list_stages
    from kame_model.train.logs import METRICS, PICTURE, plot_losses, read_metrics

    run = config.of_seed / RUN
    for stage in list_stages(config):
        plot_losses(str(get_stage_folder(config, stage)))
    entries = [line for line in read_metrics(run / METRICS) if line["kind"] == "train" and "loss" in line]
    if entries:
        first, last = entries[0], entries[-1]
        typer.echo(
            f"loss {first['loss']:.3f} at step {first['step']}, {last['loss']:.3f} at step {last['step']}; "
            f"plot: {run / PICTURE}"
        )
