"""What all evaluations share that call a server: which system it is, its modes and delays, and what it all cost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from backends import registry
from backends.asr.protocol import HearingRefused, Recogniser
from backends.chat.protocol import ChatEngine, Endpoint
from backends.chat.providers import price_of
from backends.engine import Samples
from data_schemas.config.calls import CallsConfig
from data_schemas.config.chat import ChatConfig
from data_schemas.config.judge import JudgeConfig
from data_schemas.config.serving import NO_CHECKPOINT, Mode, ServeConfig
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.checkpoint.folder import digest_files, find_place, read_contents
from kame_model.checkpoint.kame_json import sampling_of, voice_of
from kame_model.checkpoint.load import load_checkpoint
from kame_model.evaluate.call import CalledServer, MeasuredTimes
from kame_model.evaluate.judge import add_up
from kame_model.evaluate.report import as_table
from kame_model.serve.parts import Parts
from kame_model.train.parallel import find_device

Counting = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""What is done, how many of them; the block is given what moves the count."""

Record = Mapping[str, Any]
"""A row of figures, or what is kept of an item (`report`)."""

_OF_NO_ANSWER: Final = ("host", "port", "limits", "care", "record", "mode", "device", "checkpoint")
"""Fields of a server's configuration that decide nothing of what it answers in a given mode."""


class Condition(NamedTuple):
    """A mode of the server, and how long its chat model is said to take, seconds; None: as long as it took."""

    mode: Mode
    delay_s: float | None

    @property
    def name(self) -> str:
        """For items and files, such as `tandem-0.5s`."""
        return self.mode if self.delay_s is None else f"{self.mode}-{self.delay_s:g}s"

    @property
    def title(self) -> str:
        """For people."""
        return self.mode if self.delay_s is None else f"{self.mode}, back-end after {self.delay_s:g} s"

    @property
    def cells(self) -> list[str]:
        """Mode and delay in a table whose head is `CONDITION`."""
        delay = "measured" if self.delay_s is None else f"{self.delay_s:g}"
        return [self.mode, "–" if self.mode == "direct" else delay]


CONDITION: Final = ("mode", "delay, s")


def list_conditions(config: CallsConfig) -> list[Condition]:
    """The modes with each delay, each once. Mode direct asks no chat model, and has no delay."""
    delays_s: list[float | None] = [*dict.fromkeys(config.delays_s)] or [None]
    modes = dict.fromkeys(config.modes)
    return [Condition(mode, delay_s) for mode in modes for delay_s in ([None] if mode == "direct" else delays_s)]


def condition_of(row: Record) -> Condition:
    """Under which a row of figures, or the `row` of an item, came about."""
    return Condition(row["mode"], row["delay_s"])


def make_rows(records: Sequence[Record], figures_of: Callable[[Sequence[Record]], Record]) -> list[dict[str, Any]]:
    """The figures of each condition over all items, then, where items have categories, of each of these."""
    rows = []
    for condition in dict.fromkeys(condition_of(each["row"]) for each in records):
        own = [each for each in records if condition_of(each["row"]) == condition]
        rows.append({**condition._asdict(), **figures_of(own)})
        for category in sorted({each["row"].get("category", "") for each in own} - {""}):
            of_category = [each for each in own if each["row"].get("category") == category]
            rows.append({**condition._asdict(), "category": category, **figures_of(of_category)})
    return rows


def open_server(config: CallsConfig, parts: Parts | None, times: MeasuredTimes) -> CalledServer:
    """The server that is called, with its checkpoint, which mode cascade does without.

    Args:
        parts: in place of those that `config.serving` names.

    Raises:
        ConfigError: there is no such checkpoint; see `CalledServer`.
        BackendError, StoreError: the checkpoint cannot be fetched or read.
    """
    serving, checkpoint = config.serving, None
    if {*config.modes} != {"cascade"}:
        checkpoint = load_checkpoint(serving.checkpoint, find_device(serving.device))
    mode: Mode = "cascade" if "cascade" in config.modes else config.modes[0]  # whose parts must be there
    return CalledServer(checkpoint, serving.model_copy(update={"mode": mode}), parts, times)


def describe_run(kind: str, version: int, config: CallsConfig, recogniser: Recogniser) -> dict[str, Any]:
    """What `run` of all these evaluations tells (`report`).

    Raises:
        ConfigError: there is no such checkpoint or chat engine.
        BackendError, StoreError: the checkpoint cannot be fetched or read.
    """
    return {
        "kind": kind,
        "version": version,
        "seed": config.seed,
        "system": _describe_system(config.serving),
        "recogniser": {"engine": recogniser.name, "digest": recogniser.digest},
    }


def _describe_system(serving: ServeConfig) -> dict[str, Any]:
    """Weights, back-end and settings, the sampling as the server takes it from the checkpoint."""
    name, digest = "cascade", None
    if serving.checkpoint != NO_CHECKPOINT:
        contents = read_contents(find_place(serving.checkpoint))
        name, digest = Path(serving.checkpoint).name, digest_files([contents.weights])
        sampling, voice = sampling_of(contents.facts, serving.sampling), voice_of(contents.facts, serving.voice)
        serving = serving.model_copy(update={"sampling": sampling, "voice": voice})
    endpoint = _endpoint_of(serving.back_ends[0].chat)
    return {
        "name": name,
        "checkpoint": digest,
        "back_end": endpoint.model,
        "endpoint": endpoint.name,
        "serving": serving.model_dump(mode="json", exclude={*_OF_NO_ANSWER}),
    }


def _endpoint_of(chat: ChatConfig) -> Endpoint:
    engine: ChatEngine = registry.load("chat", chat.engine)(chat)
    return engine.describe()


def transcribe(sound: Samples, recogniser: Recogniser) -> str | None:
    """What is said in a sound at 24 kHz; None: the recogniser refuses it, so that nobody knows."""
    try:
        return recogniser.transcribe(sound, SAMPLE_RATE_HZ).strip()
    except HearingRefused:
        return None


def add_up_costs(
    serving: ServeConfig, times: MeasuredTimes, judge: JudgeConfig | None, judgements: Sequence[Record | None]
) -> dict[str, Any]:
    """What the chat models of a server and the judge took, each request once, whenever it was made: see `add_up`.

    Args:
        judgements: as `judge.as_asked` tells them.

    Returns:
        `back_ends`, by name, and `judge`; None where nobody judges.
    """
    requests = times.of_kind("request")
    back_ends = {
        each.name: add_up(
            [request["usage"] for request in requests if request["back_end"] == each.name],
            price_of(each.chat, _endpoint_of(each.chat).model),
        )
        for each in serving.back_ends
    }
    if judge is None:
        return {"back_ends": back_ends, "judge": None}
    price = price_of(judge.chat, _endpoint_of(judge.chat).model)
    return {"back_ends": back_ends, "judge": add_up([each for each in judgements if each is not None], price)}


def costs_table(costs: Mapping[str, Any]) -> str:
    """The same in Markdown."""
    names = ("n_requests", "n_tokens_in", "n_tokens_cached", "n_tokens_out", "usd")
    all_costs = {f"back-end {name}": each for name, each in costs["back_ends"].items()} | {"judge": costs["judge"]}
    lines = [
        [whose, *("unknown" if each[name] is None else each[name] for name in names)]
        for whose, each in all_costs.items()
        if each is not None
    ]
    return as_table(["", "requests", "tokens read", "of them cached", "tokens written", "US dollars"], lines)


@contextmanager
def uncounted(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Counts nothing (`Counting`)."""
    yield lambda n: None
