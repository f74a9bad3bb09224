"""`kame train` on datasets: what was typed to a `FrontEndConfig`, a run of it, and what came of it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flows.cli.terminal import print_json

if TYPE_CHECKING:
    from data_schemas.config.front_end import FrontEndConfig
    from kame_model.codec.training import StepFigures


def are_datasets(folders: list[str]) -> bool:
    """Whether the folders hold datasets, and not token rows.

    Raises:
        ConfigError: some do and some do not.
    """
    from data_schemas.config.front_end import dataset_share
    from data_schemas.errors import ConfigError
    from data_schemas.manifest import MANIFEST

    found = {(Path(dataset_share(folder).folder) / MANIFEST).is_file() for folder in folders}
    if len(found) > 1:
        raise ConfigError(
            f"Of {', '.join(folders)} some are datasets and some are not.",
            "Name datasets only, or encode them with `kame encode` and name token rows only.",
        )
    return True in found


def refuse_for_datasets(stage: str, file: Path | None) -> None:
    """Refuses what goes with token rows only.

    Raises:
        ConfigError: several processes, the copying stage alone, or a file of a training run's settings.
    """
    from data_schemas.errors import ConfigError

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # each would train a codec and encode, all in one folder
        raise ConfigError(
            "Several processes train on token rows, not on datasets.",
            "Encode first, with `kame encode`, and name its folder to `torchrun … kame train`.",
        )
    if stage == "copy":
        raise ConfigError("--stage copy takes token rows.", "For datasets say --copy-steps N; dialogues follow.")
    if file is not None:
        raise ConfigError("--config takes token rows.", "For datasets say each setting with --set name=value.")


def refuse_for_rows(typed: Mapping[str, Any]) -> None:
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
            "Leave it out, or name the dataset. From rows: `kame train`, `kame checkpoint export`, `kame evaluate`.",
        )


def settings_of(typed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What `--set` gave, by the field of `FrontEndConfig` it goes to: `copy.…`, `evaluation.…`, else to training."""
    fields = {"copy": "copy_settings", "evaluation": "evaluation_settings"}
    found: dict[str, dict[str, Any]] = {}
    for name, value in typed.items():
        first, _, rest = name.partition(".")
        field, own = (fields[first], rest) if first in fields else ("settings", name)
        found.setdefault(field, {})[own] = value
    return found


def train_datasets(typed: Mapping[str, Any], as_json: bool) -> None:
    """From datasets to a registered checkpoint; again = go on.

    Args:
        typed: fields of `FrontEndConfig`; None: not typed.
    """
    from data_schemas.config.front_end import FrontEndConfig
    from flows.cli.evaluate import hearing
    from flows.cli.options import validated
    from flows.cli.progress import TrainingBar
    from flows.runs.front_end import Told, run_front_end

    config = validated(FrontEndConfig, {name: value for name, value in typed.items() if value is not None})
    with TrainingBar(quiet=as_json) as bar:
        told = Told(training=bar, codec=CodecLine(quiet=as_json))
        made = run_front_end(config, told, hear=hearing() if config.listen else None)
    if as_json:
        figures = [each.model_dump(mode="json") for each in made.figures]
        print_json({"checkpoint": made.checkpoint, **made.facts.model_dump(mode="json"), "free_running": figures})
        return
    if config.evaluate_items and not made.figures:
        typer.echo("note: no held-out dialogue has an answer and its oracle; nothing was run freely.", err=True)
    for each in made.figures:
        typer.echo(f"{each.condition:<10} {each.group}: answer said {each.said}")
    if made.figures:
        typer.echo(f"{config.of_seed}/evaluation/report.md has the rest; over all seeds so far: {config.out}/report.md")
    _tell_losses(config)
    typer.echo(f"{made.checkpoint}: {made.facts.preset}, {made.facts.training.step} steps; README.md tells what it is.")


class CodecLine:
    """A line on the error stream for every tenth of a codec's training."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._tenth = 0

    def __call__(self, figures: "StepFigures") -> None:
        """A step is done."""
        tenth = int(figures.done * 10)
        if tenth > self._tenth and not self._quiet:
            self._tenth = tenth
            typer.echo(f"codec: {tenth * 10} %, loss {figures.loss:.3f}", err=True)


def _tell_losses(config: "FrontEndConfig") -> None:
    """How the loss fell, in one line, and where its picture is; copying has one too."""
    from data_schemas.config.front_end import COPY, RUN
    from kame_model.train.logs import METRICS, PICTURE, plot_losses, read_metrics

    run = config.of_seed / RUN
    if config.copy_steps:
        plot_losses(str(config.of_seed / COPY))
    told = [line for line in read_metrics(run / METRICS) if line["kind"] == "train" and "loss" in line]
    plot_losses(str(run))
    if told:
        first, last = told[0], told[-1]
        typer.echo(
            f"loss {first['loss']:.3f} at step {first['step']}, {last['loss']:.3f} at step {last['step']}; "
            f"picture: {run / PICTURE}"
        )
