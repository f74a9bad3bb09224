"""What work costs on a machine, as `kame bench` measures it, and the figures of a plan that are worked out from it.

A rates file is YAML with the fields of `Rates`. Several are looked through in their order (`RateBook`): one's own
first, then those that come with the program, so each figure tells whose rate it was worked out with.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Self, TypeVar

import yaml
from pydantic import Field, ValidationError

from data_schemas.config.base import Config
from data_schemas.errors import ConfigError
from data_schemas.named_yaml import read_model

REFERENCE: Final = files("data_schemas") / "reference_rates.yaml"
"""Rates that come with the program: several YAML documents, looked through in their order."""

CPU: Final = "cpu"

Row = TypeVar("Row")


class Origin(Config):
    """Where and when rates were measured."""

    day: str = Field(description="YYYY-MM-DD.")
    machine: str = Field(description="Processor or GPU, cores, and how busy it was.")
    is_reference: bool = Field(default=False, description="Whether they come with the program.")

    def __str__(self) -> str:
        return f"{'reference machine' if self.is_reference else 'measured'}, {self.day}, {self.machine}"


class DialogueShape(Config):
    """What a dialogue of a source is like, in the mean."""

    source: str = Field(description="Name of the source.")
    n_items: int = Field(ge=1, description="Items that were looked at.")
    n_spoken: int = Field(ge=1, description="Dialogues that were spoken.")
    dialogues_per_item: float = Field(gt=0, description="Dialogues that come of an item, at one variant an item.")
    utterances: float = Field(gt=0, description="Utterances of a dialogue.")
    words: float = Field(gt=0, description="Words of a dialogue.")
    speech_s: float = Field(gt=0, description="Clean speech of a dialogue, seconds.")
    duration_s: float = Field(gt=0, description="A dialogue from its beginning to its end, seconds.")
    requests: float = Field(ge=0, description="Oracles that are asked for in a dialogue.")


class Cost(Config):
    """Processor time of one step for each unit of what it works on."""

    step: str = Field(description="Step of a run, such as script, tts or train.")
    engine: str = Field(default="", description="Engine or model that does it; empty: ours.")
    device: str = Field(default=CPU, description="cpu, or a part of a GPU's name, such as H200.")
    per: str = Field(description="Its unit, such as speech_s.")
    seconds: float = Field(ge=0, description="Processor seconds a unit; of a GPU, seconds.")


class ChatRate(Config):
    """What a chat model takes for an oracle."""

    model: str = Field(description="Model that answered.")
    prompt: str = Field(description="Version of the prompt set.")
    n_calls: int = Field(ge=1, description="Calls that were counted.")
    calls_per_request: float = Field(gt=0, description="Calls an oracle, those that were asked again counted.")
    tokens_in: float = Field(ge=0, description="Tokens that a call reads.")
    tokens_cached: float | None = Field(default=None, ge=0, description="…of those from a cache; empty: not told.")
    tokens_out: float = Field(ge=0, description="Tokens that a call writes.")
    wall_s: float = Field(gt=0, description="Seconds a call, as many at once as the configuration has in flight.")


class PromptSize(Config):
    """What a request of a prompt set has, whatever the model."""

    prompt: str = Field(description="Version of the prompt set.")
    tokens_in: float = Field(gt=0, description="Tokens that a request has.")


class StepTimes(Config):
    """Time of a server's step by the number of callers in it."""

    preset: str = Field(description="Size of the front-end.")
    device: str = Field(default=CPU, description="cpu, or a part of a GPU's name.")
    step_s: dict[int, float] = Field(min_length=1, description="Seconds of a step by callers.")


class Sizes(Config):
    """Bytes on disk for each second of dialogue, and memory."""

    engines: str = Field(description="Text-to-speech, aligner and recogniser, joined by +.")
    parts_bytes_per_s: float = Field(gt=0, description="Clips and parts that a run keeps to resume, bytes.")
    shards_bytes_per_s: float = Field(gt=0, description="Files of the dataset, bytes.")
    main_bytes: float = Field(gt=0, description="Memory of the process that leads a run.")
    worker_bytes: float = Field(gt=0, description="Memory of a worker process with its engines.")
    chat_bytes: float = Field(ge=0, description="Memory of the chat server that a run starts; 0: it starts none.")


class Rates(Config):
    """What work costs on one machine."""

    origin: Origin = Field(description="Where and when it was measured.")
    shapes: list[DialogueShape] = Field(default_factory=list, description="What dialogues of a source are like.")
    costs: list[Cost] = Field(default_factory=list, description="Processor time by step.")
    chat: list[ChatRate] = Field(default_factory=list, description="What chat models take for an oracle.")
    prompts: list[PromptSize] = Field(default_factory=list, description="Size of requests by prompt set.")
    steps: list[StepTimes] = Field(default_factory=list, description="Steps of a server.")
    sizes: list[Sizes] = Field(default_factory=list, description="Bytes on disk and in memory.")
    training_bytes: float | None = Field(
        default=None, gt=0, description="Memory of a training's process beside weights and activations."
    )
    mfu: dict[str, float] = Field(
        default_factory=dict, description="Share of a GPU's speed that training reached, by a part of its name."
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a plan.

    Attributes:
        key: its name for programs, such as `processor.tts`.
        section: of what it is: data, chat, machine, training or serving.
        title: its name for people.
        value: in its unit; None: it is not known, and `basis` says why.
        unit: `s`, `bytes`, `USD`, or what is counted.
        formula: how it was worked out, with the numbers put in.
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
    """Rates in the order in which they are looked through.

    Args:
        rates: one's own first.
    """

    def __init__(self, rates: Iterable[Rates]) -> None:
        self.rates = list(rates)

    @classmethod
    def open(cls, *paths: Path | None) -> Self:
        """The rates of these files, as far as they are named, then those that come with the program.

        Raises:
            ConfigError: one cannot be read, or holds no rates.
        """
        own = [read_rates(path) for path in paths if path is not None]
        texts = REFERENCE.read_text(encoding="utf-8").split("\n---\n")
        return cls([*own, *(_checked(text, str(REFERENCE)) for text in texts)])

    def find(self, rows_of: Callable[[Rates], Sequence[Row]], fits: Callable[[Row], bool]) -> tuple[Row, Origin] | None:
        """The first row that fits, and where it comes from; None: nobody has one."""
        for rates in self.rates:
            for row in rows_of(rates):
                if fits(row):
                    return row, rates.origin
        return None

    def shape(self, source: str) -> tuple[DialogueShape, Origin] | None:
        """What dialogues of a source are like."""
        return self.find(lambda rates: rates.shapes, lambda row: row.source == source)

    def cost(self, step: str, engine: str = "", device: str = CPU) -> tuple[Cost, Origin] | None:
        """What a step costs with an engine, on a device by its name or a part of it."""
        wanted = (step, engine)
        return self.find(
            lambda rates: rates.costs, lambda row: (row.step, row.engine) == wanted and row.device in device
        )

    def devices(self) -> list[str]:
        """The devices of which any rates tell."""
        known = {each.device for rates in self.rates for each in rates.costs}
        return sorted(known | {device for rates in self.rates for device in rates.mfu})


def read_rates(path: Path) -> Rates:
    """The rates of a file.

    Raises:
        ConfigError: it cannot be read, or holds none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The rates {path} cannot be read: {error}.", "Measure some: kame bench") from error
    return _checked(text, str(path))


def write_rates(rates: Rates) -> str:
    """The text of a rates file."""
    text: str = yaml.safe_dump(rates.model_dump(exclude_defaults=True), sort_keys=False)
    return text


def _checked(text: str, name: str) -> Rates:
    try:
        return read_model(text, Rates)
    except (yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{name} holds no rates: {error}.", "Measure some: kame bench.") from error


def how_to_measure(device: str) -> str:
    """What to do about a rate that nobody has measured: `kame bench` measures processors alone."""
    return "`kame bench` there does" if device == CPU else "write it by hand into a file for --rates (docs/planning.md)"


def price_step(
    book: RateBook, section: str, title: str, step: str, engine: str, device: str, amount: float, *, key: str = ""
) -> Figure:
    """The time that a step takes for an amount of its unit.

    Args:
        key: of the figure; empty: made of step and device.
    """
    key = key or (f"processor.{step}" if device == CPU else f"gpu.{device}.{step}")
    named = f"{step} by {engine}" if engine else step
    if (found := book.cost(step, engine, device)) is None:
        return unknown(key, section, title, "s", f"nobody has measured {named} on {device}: {how_to_measure(device)}")
    cost, origin = found
    formula = f"{amount:,.0f} {cost.per} × {cost.seconds:.4g} s"
    return Figure(key, section, title, amount * cost.seconds, "s", formula, str(origin))


def unknown(key: str, section: str, title: str, unit: str, why: str) -> Figure:
    """A figure that is not known."""
    return Figure(key, section, title, None, unit, "", f"unknown: {why}")


def add_up(key: str, section: str, title: str, parts: Sequence[Figure], basis: str = "sum of the above") -> Figure:
    """The sum of figures of one unit; unknown where one of them is, and it says which."""
    missing = [each.title for each in parts if each.value is None]
    if missing:
        return unknown(key, section, title, parts[0].unit, f"so is {', '.join(missing)}")
    total = sum(each.value for each in parts if each.value is not None)
    return Figure(key, section, title, total, parts[0].unit, " + ".join(each.title for each in parts), basis)
