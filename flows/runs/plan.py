"""Estimates of a run before it is started, by the formulas of `pipelines` and `kame_model`.

own rates (`kame bench`) ─┐
a file (--rates)          ├─▶ RateBook ─▶ figures, each with its formula and the source of its rates
reference machine's       ─┘
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backends.assets import get_cache_dir
from data_schemas.config import RefreshConfig
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.config.training import TrainConfig
from data_schemas.errors import ConfigError, DatasetError, StoreError
from data_schemas.presets import PRESETS, Preset
from data_schemas.rates import CPU, PlanFigure, RateBook, Rates, estimate_step_time, format_rates, is_device
from data_schemas.reader import open_store
from flows.settings import build_train_config
from pipelines.run.estimate import PAPER, count_dialogues, estimate_dataset
from pipelines.run.parts import Part
from pipelines.sources.items import read_items

OWN_RATES = "rates.yaml"
_CODEC_OF_NANO = "codec2-neural"
"""Codec of the shipped nano."""


def get_own_rates_path() -> Path:
    """Returns the file to which `kame bench` writes the rates of this machine."""
    return get_cache_dir() / OWN_RATES


def save_rates(path: Path, rates: Rates) -> None:
    """Writes a file of rates atomically.

    Raises:
        StoreError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(format_rates(rates), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "Choose another --out.") from error


def open_rates(file: Path | None = None) -> RateBook:
    """Opens the rates for estimates: those of the file, or without one those that `kame bench` measured here, if any.

    Missing rates are taken from the reference machine.

    Raises:
        ConfigError: a file cannot be read, or holds no rates.
    """
    own = get_own_rates_path()
    return RateBook.open(file if file is not None else own if own.is_file() else None)


def parse_sizes(texts: Sequence[str]) -> dict[str, float]:
    """Parses texts `NAME=NUMBER` to numbers of dialogues by source; without texts, returns those of the paper's corpus.

    NUMBER is a positive integer; the last one of a name counts.

    Raises:
        ConfigError: a text is not of this form.
    """
    sizes: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal() or int(number) == 0:
            raise ConfigError(f"--dialogues {text} is not NAME=NUMBER.", "Write, for example, --dialogues gsm8k=11742.")
        sizes[name] = float(number)
    return sizes or {name: float(n) for name, n in PAPER.items()}


def count_items(config: RefreshConfig) -> dict[str, int]:
    """Counts the items that a refresh would read, by source, by reading them.

    Raises:
        SourceError: a source cannot be read.
    """
    return {each.name: len(read_items(each, config.limit, config.split).items) for each in config.sources}


def plan_dataset(
    config: RefreshConfig, book: RateBook, n_dialogues: Mapping[str, float], devices: Sequence[str] = ()
) -> list[PlanFigure]:
    """Estimates a refresh, and the encoding of its audio by the presets' codecs and by all that were measured.

    Args:
        n_dialogues: number of dialogues by source.
        devices: GPUs for which times are estimated as well, besides the CPU.

    Raises:
        ConfigError: see `estimate_dataset`.
    """
    figures = estimate_dataset(config, n_dialogues, book, config.workers or os.cpu_count() or 1, devices)
    duration_s = next(each.value or 0.0 for each in figures if each.key == "duration_s")
    codecs = dict.fromkeys([*map(_get_codec, PRESETS.values()), *book.list_engines("codec")])
    for codec in codecs:
        for device in (CPU, *devices):
            key = f"{'processor' if device == CPU else f'gpu.{device}'}.codec.{codec}"
            title = f"codec {codec} on {device}"
            figures.append(estimate_step_time(book, "codec", title, "codec", codec, device, duration_s, key=key))
    return figures


def _get_codec(preset: Preset) -> str:
    """Returns the codec for which a preset is planned."""
    return preset.begins_with.get("codec", _CODEC_OF_NANO)


def plan_parts(config: RefreshConfig, parts: Sequence[Part], book: RateBook) -> list[PlanFigure]:
    """Estimates a refresh that makes only these parts; an empty list if there are none."""
    n_items: dict[str, int] = {}
    for part in parts:
        n_items[part.source] = n_items.get(part.source, 0) + part.n_items
    if not n_items:
        return []
    return estimate_dataset(config, count_dialogues(config, n_items, book), book, config.workers or os.cpu_count() or 1)


def plan_training(
    preset: str,
    book: RateBook,
    device: str,
    n_devices: int = 1,
    stage: str | None = None,
    typed: Mapping[str, Any] | None = None,
) -> list[PlanFigure]:
    """Estimates hours and memory of training a preset, and the sessions that it can serve, on one kind of device.

    Args:
        stage: a single stage of the preset's plan; None for all stages.
        typed: settings by dotted name.

    Raises:
        ConfigError: the preset or stage does not exist, or a setting is invalid.
    """
    if preset not in PRESETS:
        raise ConfigError(f"There is no preset {preset!r}.", f"Choose one of: {', '.join(PRESETS)}.")
    stages = [stage] if stage else [each.name for each in PRESETS[preset].plan]
    given = {"data.datasets": [{"path": "to-be-made"}], **(typed or {})}
    configs = [build_train_config(preset, each, None, given) for each in stages]
    return _plan_stages(configs, _get_codec(PRESETS[preset]), book, device, n_devices)


def _plan_stages(
    configs: Sequence[TrainConfig], codec: str, book: RateBook, device: str, n_devices: int
) -> list[PlanFigure]:
    """Estimates the training of these stages, and the sessions that the result can serve."""
    from kame_model.estimate import estimate_callers, estimate_training, get_assumed_codes

    figures = estimate_training(configs, *get_assumed_codes(codec), book, device, n_devices)
    return [*figures, estimate_callers(configs[0].model.preset, book, device)]


def plan_settings(config: BaseModel) -> list[PlanFigure]:
    """Estimates the run that a form of the dashboard would start; an empty list for kinds without an estimate.

    For a refresh, the rows of its sources are read, to count them.

    Raises:
        KameError: a source or the rates cannot be read, or the settings name something that does not exist.
    """
    book = open_rates()
    if isinstance(config, RefreshConfig):
        return plan_dataset(config, book, count_dialogues(config, count_items(config), book))
    if isinstance(config, FrontEndConfig):
        from flows.runs.train import complete_codec_and_vocabulary, list_stages, make_train_config

        config = complete_codec_and_vocabulary(config)
        configs = [make_train_config(config, each, "to-be-made", config.datasets) for each in list_stages(config)]
        return _plan_stages(configs, config.codec_name, book, name_device(config.device), 1)
    return []


def check_device(name: str, book: RateBook) -> str:
    """Returns the name under which a data sheet or the rates have a device: `H200` for `nvidia h200`.

    Raises:
        ConfigError: neither has the device.
    """
    from kame_model.train.throughput import PEAK_FLOPS

    known = list(dict.fromkeys([CPU, *PEAK_FLOPS, *book.list_devices()]))
    found = next((each for each in known if is_device(each, name)), None)
    if found is None:
        raise ConfigError(
            f"There are no rates and no data sheet for the device {name!r}.",
            f"Choose one of: {', '.join(known)}; or give a file of its rates (--rates).",
        )
    return found


def name_device(wanted: str) -> str:
    """Returns the name of the device that a setting selects here: a GPU's name, or cpu.

    Raises:
        ConfigError: the device does not exist.
    """
    import torch

    from kame_model.train.parallel import find_device

    device = find_device(wanted)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else CPU


def compare_with_actual(figures: Sequence[PlanFigure], actual: Mapping[str, float | None]) -> dict[str, dict[str, Any]]:
    """Returns `planned`, `actual`, `unit` and `ratio` of each estimated figure by its key.

    Figures that `actual` does not have are left out. `ratio` is planned / actual, and None if either is unknown or the
    actual figure is 0.
    """
    comparison = {}
    for figure in figures:
        if figure.key not in actual:
            continue
        planned, real = figure.value, actual[figure.key]
        ratio = round(planned / real, 3) if planned is not None and real else None
        rounded = None if planned is None else round(planned, 3)
        comparison[figure.key] = {"planned": rounded, "actual": real, "unit": figure.unit, "ratio": ratio}
    return comparison


def read_comparison(dataset: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Reads the record of a dataset's last run with an estimate, and returns its path and comparison.

    The comparison was made by `compare_with_actual`.

    Raises:
        DatasetError: there is no such run, or its file is damaged.
    """
    store = open_store(dataset)
    for path in reversed(store.list_files("runs", ".json")):
        try:
            comparison = json.loads(store.read_bytes(path))["plan"]
        except (ValueError, LookupError, TypeError) as error:
            raise DatasetError(f"{path} of {dataset} is damaged: {error}.", "Repair or delete the file.") from error
        if comparison:
            return path, comparison
    raise DatasetError(
        f"No run of {dataset} has an estimate.", "Runs that made a dialogue have one: kame refresh --out FOLDER."
    )


def convert_to_rows(figures: Sequence[PlanFigure]) -> list[dict[str, Any]]:
    """Converts figures to dictionaries for JSON."""
    return [asdict(each) for each in figures]
