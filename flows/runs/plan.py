"""What a run will take, before it is begun: the formulas of `pipelines` and of `kame_model` put together.

OWN RATES (`kame bench`) ─┐
a file (--rates)          ├─▶ RateBook ─▶ figures, each with its formula and where its rates come from
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
from data_schemas.presets import PRESETS
from data_schemas.rates import CPU, Figure, RateBook, Rates, is_device, price_step, write_rates
from data_schemas.reader import open_store
from flows.settings import build_train_config
from pipelines.run.estimate import PAPER, count_dialogues, estimate_dataset
from pipelines.run.parts import Part
from pipelines.sources.items import read_items

OWN_RATES = "rates.yaml"
_CODEC_OF_NANO = "codec2-learnt"


def own_rates() -> Path:
    """Where `kame bench` puts the rates of this machine."""
    return get_cache_dir() / OWN_RATES


def save_rates(path: Path, rates: Rates) -> None:
    """Writes a rates file aside and renames it.

    Raises:
        StoreError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(write_rates(rates), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "Choose another --out.") from error


def open_rates(file: Path | None = None) -> RateBook:
    """The rates that a plan is made by: of the file if one is named, else of this machine's bench if there was one.

    What these do not tell is told by the reference machine's.

    Raises:
        ConfigError: a file cannot be read, or holds no rates.
    """
    own = own_rates()
    return RateBook.open(file if file is not None else own if own.is_file() else None)


def parse_sizes(texts: Sequence[str]) -> dict[str, float]:
    """`NAME=NUMBER` to dialogues by source; nothing: those of the paper's corpus.

    Raises:
        ConfigError: one that is not of that form.
    """
    sizes: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal() or int(number) == 0:
            raise ConfigError(f"--dialogues {text} does not fit.", "Say --dialogues NAME=NUMBER, such as gsm8k=11742.")
        sizes[name] = float(number)
    return sizes or {name: float(n) for name, n in PAPER.items()}


def count_items(config: RefreshConfig) -> dict[str, int]:
    """Items that a refresh would read, by source.

    Raises:
        SourceError: a source cannot be read.
    """
    return {each.name: len(read_items(each, config.limit, config.split).items) for each in config.sources}


def plan_dataset(
    config: RefreshConfig, book: RateBook, n_dialogues: Mapping[str, float], devices: Sequence[str] = ()
) -> list[Figure]:
    """What a refresh takes, and encoding its sound for training.

    Args:
        n_dialogues: by source.
        devices: GPUs whose times are told as well.

    Raises:
        ConfigError: see `estimate_dataset`.
    """
    figures = estimate_dataset(config, n_dialogues, book, config.workers or os.cpu_count() or 1, devices)
    duration_s = next(each.value or 0.0 for each in figures if each.key == "duration_s")
    codecs = dict.fromkeys(
        [_CODEC_OF_NANO, *(each.begins_with.get("codec", _CODEC_OF_NANO) for each in PRESETS.values())]
    )
    for codec in codecs:
        for device in (CPU, *devices):
            key = f"{'processor' if device == CPU else f'gpu.{device}'}.codec.{codec}"
            title = f"codec {codec} on {device}"
            figures.append(price_step(book, "codec", title, "codec", codec, device, duration_s, key=key))
    return figures


def plan_parts(config: RefreshConfig, parts: Sequence[Part], book: RateBook) -> list[Figure]:
    """What a run takes for parts that it is to make; nothing where there are none."""
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
    codec: str | None = None,
) -> list[Figure]:
    """Hours and memory of training a preset, and callers that it serves, on one kind of device.

    Args:
        stage: one of the preset's plan alone; None: all of them.
        typed: settings by dotted name.
        codec: that it speaks; None: the preset's.

    Raises:
        ConfigError: no such preset or stage, or a setting that does not hold.
    """
    if preset not in PRESETS:
        raise ConfigError(f"There is no preset {preset!r}.", f"Choose one of: {', '.join(PRESETS)}.")
    stages = [stage] if stage else [each.name for each in PRESETS[preset].plan]
    given = {"data.datasets": [{"path": "to-be-made"}], **(typed or {})}
    configs = [build_train_config(preset, each, None, given) for each in stages]
    return _plan_stages(
        configs, codec or PRESETS[preset].begins_with.get("codec", _CODEC_OF_NANO), book, device, n_devices
    )


def _plan_stages(
    configs: Sequence[TrainConfig], codec: str, book: RateBook, device: str, n_devices: int
) -> list[Figure]:
    from kame_model.estimate import describe_codes, estimate_callers, estimate_training

    figures = estimate_training(configs, *describe_codes(codec), book, device, n_devices)
    return [*figures, estimate_callers(configs[0].model.preset, book, device)]


def plan_settings(config: BaseModel) -> list[Figure]:
    """The plan of what a form of the dashboard would start; nothing for kinds of runs of which no plan is made.

    Raises:
        KameError: a source or rates cannot be read, or the settings name what is not there.
    """
    book = open_rates()
    if isinstance(config, RefreshConfig):
        return plan_dataset(config, book, count_dialogues(config, count_items(config), book))
    if isinstance(config, FrontEndConfig):
        from flows.runs.train import stages_of, train_config

        configs = [train_config(config, each, "to-be-made", config.datasets) for each in stages_of(config)]
        return _plan_stages(configs, config.codec, book, name_device(config.device), 1)
    return []


def check_device(name: str, book: RateBook) -> str:
    """A device as it was typed, as data sheets and rates have it: `cpu`, `H200`.

    Raises:
        ConfigError: neither knows it.
    """
    from kame_model.train.throughput import PEAK_FLOPS

    known = list(dict.fromkeys([CPU, *PEAK_FLOPS, *book.list_devices()]))
    found = next((each for each in known if is_device(each, name)), None)
    if found is None:
        raise ConfigError(
            f"No speed of the device {name!r} is known.",
            f"Choose one of: {', '.join(known)}; or give rates that name it (--rates).",
        )
    return found


def name_device(wanted: str) -> str:
    """What a setting of the device comes to here: a GPU's name, or cpu.

    Raises:
        ConfigError: no such device.
    """
    import torch

    from kame_model.train.parallel import find_device

    device = find_device(wanted)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else CPU


def compare(figures: Sequence[Figure], actual: Mapping[str, float | None]) -> dict[str, dict[str, Any]]:
    """Planned beside actual, by a figure's key; `ratio` is planned over actual, None where either is not known."""
    told = {}
    for figure in figures:
        if figure.key not in actual:
            continue
        planned, real = figure.value, actual[figure.key]
        ratio = round(planned / real, 3) if planned is not None and real else None
        rounded = None if planned is None else round(planned, 3)
        told[figure.key] = {"planned": rounded, "actual": real, "unit": figure.unit, "ratio": ratio}
    return told


def read_comparison(dataset: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """The last run of a dataset that made something: its file, and planned beside actual as `compare` has it.

    Raises:
        DatasetError: there is none, or its file is damaged.
    """
    store = open_store(dataset)
    for path in reversed(store.files("runs", ".json")):
        try:
            told = json.loads(store.read_bytes(path))["plan"]
        except (ValueError, LookupError, TypeError) as error:
            raise DatasetError(f"{path} of {dataset} is damaged: {error}.", "Look at the file.") from error
        if told:
            return path, told
    raise DatasetError(
        f"No run of {dataset} has a plan.", "A run that made a dialogue has one: kame refresh --out FOLDER."
    )


def as_rows(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Figures for programs."""
    return [asdict(each) for each in figures]
