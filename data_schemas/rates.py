"""Rates of work on a machine, measured by `kame bench`, and the figures of a plan that are calculated from them.

A rates file is YAML with the fields of `Rates`. Several are searched in order (`RateBook`): the user's own first, then
those shipped with the program. Each figure says which rate it was calculated from.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

import yaml
from pydantic import Field, ValidationError

from data_schemas.config.base import Config, describe_faults
from data_schemas.errors import ConfigError
from data_schemas.named_yaml import read_model

REFERENCE: Final = files("data_schemas") / "reference_rates.yaml"
"""Rates that are shipped with the program: several YAML documents, searched in order."""

CPU: Final = "cpu"

Row = TypeVar("Row")


class RatesOrigin(Config):
    """Where and when rates were measured."""

    day: str = Field(description="Date, YYYY-MM-DD.")
    machine: str = Field(description="Processor or GPU, number of cores, and load.")
    is_reference: bool = Field(default=False, description="Whether the rates are shipped with the program.")

    def __str__(self) -> str:
        return f"{'reference machine' if self.is_reference else 'measured'}, {self.day}, {self.machine}"


class DialogueShape(Config):
    """Average dialogue of a source."""

    source: str = Field(description="Name of the source.")
    n_items: int = Field(ge=1, description="Number of items measured.")
    n_spoken: int = Field(ge=1, description="Number of dialogues synthesised.")
    dialogues_per_item: float = Field(gt=0, description="Dialogues per item, with variants = 1.")
    utterances: float = Field(gt=0, description="Utterances per dialogue.")
    words: float = Field(gt=0, description="Words per dialogue.")
    speech_s: float = Field(gt=0, description="Clean speech per dialogue, in seconds.")
    duration_s: float = Field(gt=0, description="Duration of a dialogue, in seconds.")
    requests: float = Field(ge=0, description="Oracle requests per dialogue.")


class StepCost(Config):
    """Processor time of one step per unit of work."""

    step: str = Field(description="Step of a run, such as script, tts or train.")
    engine: str = Field(default="", description="Engine or model of the step; empty: code of this project.")
    device: str = Field(default=CPU, description="cpu, or part of a GPU's name, such as H200.")
    per: str = Field(description="Unit of the work, such as speech_s.")
    seconds: float = Field(ge=0, description="Processor seconds per unit; for a GPU, seconds.")


class ChatRate(Config):
    """Calls, tokens and time that a chat model needs for an oracle, or to reword a dialogue."""

    model: str = Field(description="Name of the model.")
    prompt: str = Field(description="Version of the prompt set.")
    n_calls: int = Field(ge=1, description="Number of calls measured.")
    stage: Literal["oracle", "wording"] = Field(default="oracle", description="Stage of the pipeline that calls it.")
    calls_per_request: float = Field(
        gt=0, description="Calls per oracle, including repeated ones; of the stage wording, per dialogue."
    )
    tokens_in: float = Field(ge=0, description="Input tokens per call.")
    tokens_cached: float | None = Field(
        default=None, ge=0, description="Input tokens per call that were read from a cache; empty: not reported."
    )
    tokens_out: float = Field(ge=0, description="Output tokens per call.")
    wall_s: float = Field(
        gt=0, description="Elapsed seconds per call, with the configured number of concurrent requests."
    )


class PromptSize(Config):
    """Size of a request of a prompt set, for any model."""

    prompt: str = Field(description="Version of the prompt set.")
    tokens_in: float = Field(gt=0, description="Input tokens per request.")


class StepTimes(Config):
    """Step time of a server by the number of sessions."""

    preset: str = Field(description="Preset of the front-end.")
    device: str = Field(default=CPU, description="cpu, or part of a GPU's name.")
    step_s: dict[int, float] = Field(min_length=1, description="Seconds per step by number of sessions.")
    late_from: int | None = Field(
        default=None,
        ge=1,
        description="Number of sessions with which a server was seen to be late, whatever its steps take; empty: none.",
    )


class Mfu(Config):
    """Model FLOPs utilisation (MFU) that training reached on a GPU."""

    device: str = Field(description="Part of a GPU's name, such as H200.")
    model: str = Field(default="", description="Preset, with /lora if only adapters were trained; empty: any.")
    share: float = Field(gt=0, le=1, description="Share of the peak in the data sheet for the precision of the run.")


class EngineSizes(Config):
    """Disk space per second of dialogue, and memory."""

    engines: str = Field(description="Text-to-speech engine, aligner and recogniser, joined by +.")
    parts_bytes_per_s: float = Field(
        gt=0, description="Size of the clips and parts that a run keeps to resume, in bytes per second of dialogue."
    )
    shards_bytes_per_s: float = Field(gt=0, description="Size of the shards, in bytes per second of dialogue.")
    main_bytes: float = Field(gt=0, description="Memory of the main process of a run, in bytes.")
    worker_bytes: float = Field(gt=0, description="Memory of a worker process with its engines, in bytes.")
    chat_bytes: float = Field(
        ge=0, description="Memory of the chat server that a run starts, in bytes; 0: none is started."
    )


class Rates(Config):
    """All rates measured on one machine."""

    origin: RatesOrigin = Field(description="Where and when the rates were measured.")
    shapes: list[DialogueShape] = Field(default_factory=list, description="Average dialogues of each source.")
    costs: list[StepCost] = Field(default_factory=list, description="Processor time by step.")
    chat: list[ChatRate] = Field(default_factory=list, description="Calls and tokens per oracle by chat model.")
    prompts: list[PromptSize] = Field(default_factory=list, description="Input tokens by prompt set.")
    steps: list[StepTimes] = Field(default_factory=list, description="Step times of a server.")
    sizes: list[EngineSizes] = Field(default_factory=list, description="Disk space and memory.")
    training_bytes: float | None = Field(
        default=None, gt=0, description="Memory of a training process besides weights and activations, in bytes."
    )
    mfu: list[Mfu] = Field(default_factory=list, description="MFU of training by GPU and model.")


@dataclass(frozen=True, slots=True)
class PlanFigure:
    """One figure of a plan.

    Attributes:
        key: its name for programs, such as `processor.tts`.
        section: part of the plan: data, chat, machine, training or serving.
        title: its name for people.
        value: in `unit`; None: unknown, and `basis` says why.
        unit: `s`, `bytes`, `USD`, or the name of what is counted.
        formula: how it was calculated, with the numbers inserted.
        basis: where its rates come from.
    """

    key: str
    section: str
    title: str
    value: float | None
    unit: str
    formula: str
    basis: str


class RateBook:
    """Rates in the order in which they are searched.

    Args:
        rates: the user's own first.
    """

    def __init__(self, rates: Iterable[Rates]) -> None:
        self.rates = list(rates)

    @classmethod
    def open(cls, *paths: Path | None) -> Self:
        """Makes a book of the rates of these files (None is skipped), followed by those shipped with the program.

        Raises:
            ConfigError: if a file cannot be read, or is not a rates file.
        """
        own = [read_rates(path) for path in paths if path is not None]
        texts = REFERENCE.read_text(encoding="utf-8").split("\n---\n")
        return cls([*own, *(_parse_rates(text, str(REFERENCE)) for text in texts)])

    def find(
        self, rows_of: Callable[[Rates], Sequence[Row]], fits: Callable[[Row], bool]
    ) -> tuple[Row, RatesOrigin] | None:
        """Returns the first entry that `fits` accepts, with its origin; None if there is none.

        `rows_of` returns the entries of one `Rates` that are searched, such as its costs.
        """
        for rates in self.rates:
            for row in rows_of(rates):
                if fits(row):
                    return row, rates.origin
        return None

    def find_shape(self, source: str) -> tuple[DialogueShape, RatesOrigin] | None:
        """Returns the average dialogue of a source, with the origin of that figure, or None."""
        return self.find(lambda rates: rates.shapes, lambda row: row.source == source)

    def find_cost(self, step: str, engine: str = "", device: str = CPU) -> tuple[StepCost, RatesOrigin] | None:
        """Returns the cost of a step with an engine on a device, with its origin, or None.

        `device` is `CPU`, or a GPU's name, which must contain the device of the cost (`is_device`).
        """
        wanted = (step, engine)
        return self.find(
            lambda rates: rates.costs, lambda row: (row.step, row.engine) == wanted and is_device(row.device, device)
        )

    def list_engines(self, step: str) -> list[str]:
        """Returns the engines for which there is a cost of a step in any rates, on any device, in their order."""
        return list(dict.fromkeys(each.engine for rates in self.rates for each in rates.costs if each.step == step))

    def list_devices(self) -> list[str]:
        """Returns the devices for which there is a cost or an MFU in any rates, sorted."""
        known = {each.device for rates in self.rates for each in rates.costs}
        return sorted(known | {each.device for rates in self.rates for each in rates.mfu})


def is_device(part: str, name: str) -> bool:
    """Whether `part` occurs in a device's name as whole words, in any case: H200 in NVIDIA H200, but not in GH200."""
    return re.search(rf"(?<![a-z0-9]){re.escape(part.casefold())}(?![a-z0-9])", name.casefold()) is not None


def read_rates(path: Path) -> Rates:
    """Reads the rates of a file.

    Raises:
        ConfigError: if it cannot be read, or is not a rates file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The rates file {path} cannot be read: {error}.", "Measure rates with `kame bench`."
        ) from error
    return _parse_rates(text, str(path))


def format_rates(rates: Rates) -> str:
    """Returns rates as the text of a rates file, without fields that have their defaults."""
    text: str = yaml.safe_dump(rates.model_dump(exclude_defaults=True), sort_keys=False)
    return text


def _parse_rates(text: str, name: str) -> Rates:
    """Parses a rates file; raises ConfigError with its name if it is not valid."""
    try:
        return read_model(text, Rates)
    except (yaml.YAMLError, ValidationError) as error:
        wrong = describe_faults(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise ConfigError(
            f"{name} is not a valid rates file: {wrong}.",
            "Correct it, or measure rates with `kame bench --out FILE`; docs/planning.md lists what it can hold.",
        ) from error


def describe_measurement(device: str) -> str:
    """Returns advice, for a message, on how to get the missing rate of a stage; `kame bench` measures these on CPUs."""
    return "run `kame bench` there" if device == CPU else "write the rate to a file for --rates (docs/planning.md)"


def estimate_step_time(
    book: RateBook, section: str, title: str, step: str, engine: str, device: str, amount: float, *, key: str = ""
) -> PlanFigure:
    """Returns the figure of the processor or GPU time, in seconds, of a step for an amount of work.

    Its value is unknown if the book has no rate for the step, engine and device.

    Args:
        amount: in the unit of the rate (`StepCost.per`).
        key: key of the figure; empty: it is made from step and device.
    """
    key = key or (f"processor.{step}" if device == CPU else f"gpu.{device}.{step}")
    named = f"{step} by {engine}" if engine else step
    if (found := book.find_cost(step, engine, device)) is None:
        return make_unknown(
            key, section, title, "s", f"{named} on {device} was not measured: {describe_measurement(device)}"
        )
    cost, origin = found
    formula = f"{amount:,.0f} {cost.per} × {cost.seconds:.4g} s"
    return PlanFigure(key, section, title, amount * cost.seconds, "s", formula, str(origin))


def make_unknown(key: str, section: str, title: str, unit: str, why: str) -> PlanFigure:
    """Returns a figure whose value is None; `why` is written into its basis."""
    return PlanFigure(key, section, title, None, unit, "", f"unknown: {why}")


def sum_figures(
    key: str, section: str, title: str, parts: Sequence[PlanFigure], basis: str = "sum of the above"
) -> PlanFigure:
    """Returns the sum of at least one figure, all in the same unit; it is unknown if one of them is unknown."""
    missing = [each.title for each in parts if each.value is None]
    if missing:
        return make_unknown(key, section, title, parts[0].unit, f"so is {', '.join(missing)}")
    total = sum(each.value for each in parts if each.value is not None)
    return PlanFigure(key, section, title, total, parts[0].unit, " + ".join(each.title for each in parts), basis)
