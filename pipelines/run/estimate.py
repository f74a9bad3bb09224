"""Estimates time, memory, storage and cost of a refresh before it starts: amounts of data times measured rates.

Amounts come from the mean shape of a source's dialogues (`DialogueShape`). Processor time is amount times rate. Wall
time is the time of the worker processes over their number, plus the time of chat requests, plus what a single process
does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from backends.chat.budget import compute_usd
from backends.chat.providers import get_price
from data_schemas.config import ChatConfig, RefreshConfig
from data_schemas.errors import ConfigError
from data_schemas.rates import (
    CPU,
    ChatRate,
    DialogueShape,
    EngineSizes,
    PlanFigure,
    RateBook,
    Rates,
    RatesOrigin,
    estimate_step_time,
    make_unknown,
    sum_figures,
)
from pipelines.asking import read_prompt_texts
from pipelines.oracle.prompts import choose_prompts
from pipelines.run.stages import CHAT_STAGES, NOBODY, ORACLE, SCRIPT, WORDING, build_chat_engine, get_chat_model

PAPER: Final[Mapping[str, int]] = {"mmlu_pro": 22_800, "gsm8k": 11_742, "hssbench": 22_040}
"""Number of dialogues in KAME's corpus, by source (arXiv 2510.02327)."""

DATA, CHAT, MACHINE = "data", "chat", "machine"
_OF_A_DIALOGUE = (("words", "words"), ("speech_s", "s"), ("duration_s", "s"), ("requests", "oracles"))


_CHAT_FIGURES: Final = {
    "calls": ("calls", "calls"),
    "tokens_in": ("tokens in", "tokens"),
    "tokens_cached": ("…cached", "tokens"),
    "tokens_out": ("tokens out", "tokens"),
    "usd": ("price", "USD"),
    "chat_s": ("time of answers", "s"),
}
"""Title and unit of what is planned for a stage that asks a chat model, by key."""


def describe_engines(config: RefreshConfig) -> str:
    """Returns a name for a run's engines together, under which rates of memory, disk and startup time are recorded."""
    tts = config.speech.tts if config.speech.tts_b is None else f"{config.speech.tts}, {config.speech.tts_b}"
    return f"{tts}+{config.alignment.aligner}+{config.gate.asr}"


def get_prompt_version(stage: str, config: RefreshConfig, chat: ChatConfig) -> str:
    """Returns the version of the prompts that a stage sends to a chat model, under which its rates are recorded."""
    return (
        choose_prompts(config.oracle, chat).version
        if stage == ORACLE
        else read_prompt_texts(f"pipelines.{stage}")["version"]
    )


def get_speech_engine(config: RefreshConfig) -> str:
    """Returns the name of the text-to-speech engines, under which their rates are recorded; "A, B" if there are two."""
    return describe_engines(config).partition("+")[0]


def count_dialogues(config: RefreshConfig, n_items: Mapping[str, int], book: RateBook) -> dict[str, float]:
    """Estimates the number of dialogues that are made from these numbers of items, both by source."""
    return {
        source: n * _find_shape(source, book)[0].dialogues_per_item * config.variants for source, n in n_items.items()
    }


def estimate_dataset(
    config: RefreshConfig, n_dialogues: Mapping[str, float], book: RateBook, n_workers: int, devices: Sequence[str] = ()
) -> list[PlanFigure]:
    """Estimates the cost of making these dialogues: amounts, requests, tokens, price, times, disk and memory.

    Args:
        n_dialogues: number of dialogues by source.
        n_workers: number of worker processes, each with a core of its own.
        devices: names of GPUs whose times are given beside the processor's.

    Raises:
        ConfigError: there are no dialogues; or an engine, a prompt set or a provider does not exist.
    """
    if not n_dialogues:
        raise ConfigError("Nothing is planned: there are no dialogues.", "Name sources, or --dialogues NAME=NUMBER.")
    amounts = _estimate_amounts(config, n_dialogues, book)
    by_key = {each.key: each.value or 0.0 for each in amounts}
    chat = _estimate_all_chat(config, by_key, book)
    machine = _estimate_machine(config, by_key, book, n_workers, devices)
    wall = _estimate_wall_time(config, machine, chat, n_workers, sum(n_dialogues.values()))
    return [*amounts, *chat, *machine, wall, *_estimate_disk_and_memory(config, by_key["duration_s"], book, n_workers)]


def _find_shape(source: str, book: RateBook) -> tuple[DialogueShape, str]:
    """Returns the mean amounts of a source's dialogues (words, seconds, requests), and as text where they are from.

    For a source that was not measured, they are the means of the others.
    """
    if (found := book.find_shape(source)) is not None:
        return found[0], f"{found[1]}, {found[0].n_spoken} dialogues"
    known = {each.source: each for rates in reversed(book.rates) for each in rates.shapes}
    names = [name for name, field in DialogueShape.model_fields.items() if field.annotation is float]
    mean = {name: fmean(getattr(each, name) for each in known.values()) for name in names}
    return (
        DialogueShape(source=source, n_items=1, n_spoken=1, **mean),
        f"{source} was not measured: mean of {', '.join(sorted(known))}; to measure it: `kame bench --source "
        f"{source}=…`",
    )


def _estimate_amounts(config: RefreshConfig, n_dialogues: Mapping[str, float], book: RateBook) -> list[PlanFigure]:
    """Estimates the amounts of data: dialogues, items read, words, seconds of audio, and oracles to be requested."""
    shapes = {source: _find_shape(source, book) for source in n_dialogues}
    basis = "; ".join(dict.fromkeys(f"{source}: {origin}" for source, (_, origin) in shapes.items()))
    n_items = {
        source: n / (shapes[source][0].dialogues_per_item * config.variants) for source, n in n_dialogues.items()
    }
    formula = " + ".join(f"{n:,.0f} {source}" for source, n in n_dialogues.items())
    rows = [PlanFigure("dialogues", DATA, "dialogues", sum(n_dialogues.values()), "dialogues", formula, "as requested")]
    formula = " + ".join(
        f"{n:,.0f} {source} / {shapes[source][0].dialogues_per_item * config.variants:.3g}"
        for source, n in n_dialogues.items()
    )
    rows.append(PlanFigure("items", DATA, "items read", sum(n_items.values()), "items", formula, basis))
    for name, unit in _OF_A_DIALOGUE:
        share = config.oracle.share_to - config.oracle.share_from if name == "requests" else 1.0
        of = {source: float(getattr(shapes[source][0], name)) * share for source in n_dialogues}
        value = sum(n * of[source] for source, n in n_dialogues.items())
        formula = " + ".join(f"{n:,.0f} × {of[source]:.3g}" for source, n in n_dialogues.items())
        title = {"speech_s": "clean speech", "duration_s": "dialogues' sound", "requests": "oracles asked for"}
        rows.append(PlanFigure(name, DATA, title.get(name, name), value, unit, formula, basis))
    return rows


def _estimate_all_chat(config: RefreshConfig, amounts: Mapping[str, float], book: RateBook) -> list[PlanFigure]:
    """Estimates calls, tokens, price and time of each stage that uses a chat model, and their sums.

    There are no sums if only one stage does. If none does, the only figure is that of 0 calls.
    """
    asking = {stage: chat for stage in CHAT_STAGES if (chat := get_chat_model(config, stage)) is not None}
    if not asking:
        return [
            PlanFigure("calls", CHAT, "calls", 0.0, "calls", "simulator random calls no chat model", "configuration")
        ]
    by_stage = {stage: _estimate_chat(stage, chat, config, amounts, book) for stage, chat in asking.items()}
    if len(by_stage) == 1:
        (alone,) = by_stage.values()
        return alone
    rows = [
        replace(each, key=f"{each.key}.{stage}", title=f"{stage}: {each.title}")
        for stage, figures in by_stage.items()
        for each in figures
    ]
    sums = [
        sum_figures(key, CHAT, f"{title} of all stages", [each for each in rows if each.key.partition(".")[0] == key])
        for key, (title, _) in _CHAT_FIGURES.items()
    ]
    return [*rows, *sums]


def _estimate_chat(
    stage: str, chat: ChatConfig, config: RefreshConfig, amounts: Mapping[str, float], book: RateBook
) -> list[PlanFigure]:
    """Estimates calls, tokens, price and time of one stage that uses a chat model.

    All are unknown if the stage was never measured with this model and prompt; for oracles, rates are then assumed.
    """
    model, prompt = build_chat_engine(chat).describe().model, get_prompt_version(stage, config, chat)
    found: tuple[ChatRate, str] | None
    if stage == ORACLE:
        n_requests, found = amounts["requests"], _find_or_assume_oracle_rate(book, model, prompt)
    else:
        n_requests, found = amounts["dialogues"], _find_chat_rate(book, stage, model, prompt)
    if found is None:
        how = "`kame bench` with these settings does" if stage == WORDING else "look at a small run"
        why = f"requests of {stage} to {model} were not measured: {how}"
        return [make_unknown(key, CHAT, title, unit, why) for key, (title, unit) in _CHAT_FIGURES.items()]
    rate, basis = found
    calls = n_requests * rate.calls_per_request
    formula = f"{n_requests:,.0f} × {rate.calls_per_request:.3g}"
    rows = [PlanFigure("calls", CHAT, f"calls of {model}", calls, "calls", formula, basis)]
    per = {"tokens_in": rate.tokens_in, "tokens_cached": rate.tokens_cached, "tokens_out": rate.tokens_out}
    for key, each in per.items():
        title, unit = _CHAT_FIGURES[key]
        if each is None:
            rows.append(
                make_unknown(key, CHAT, title, unit, f"the number of cached tokens of {model} was not reported")
            )
        else:
            rows.append(PlanFigure(key, CHAT, title, calls * each, unit, f"{calls:,.0f} × {each:.4g}", basis))
    price = get_price(chat, model)
    if chat.engine != "openai":
        why = f"no cost: {chat.engine} runs on your own machine"
        rows.append(PlanFigure("usd", CHAT, f"price of {model}", 0.0, "USD", "", why))
    elif price is None:
        rows.append(make_unknown("usd", CHAT, f"price of {model}", "USD", "the price is unknown: set chat.price"))
    else:
        tokens = [round(calls * (each or 0.0)) for each in per.values()]
        each_mtok = f"{price.in_usd_per_mtok:g} in, {price.cached_usd_per_mtok} cached, {price.out_usd_per_mtok:g} out"
        where = f"prices of {price.as_of or 'an unknown day'}, {price.source or 'of the configuration'}"
        usd = compute_usd(price, tokens[0], tokens[1], tokens[2])
        rows.append(
            PlanFigure("usd", CHAT, f"price of {model}", usd, "USD", f"USD a million tokens: {each_mtok}", where)
        )
    title, unit = _CHAT_FIGURES["chat_s"]
    if rate.wall_s > 0:
        formula = f"{calls:,.0f} × {rate.wall_s:.4g} s"
        rows.append(PlanFigure("chat_s", CHAT, title, calls * rate.wall_s, unit, formula, basis))
    else:
        why = f"the speed of {model} was not measured: run `kame bench` with these settings"
        rows.append(make_unknown("chat_s", CHAT, title, unit, why))
    return rows


class _Assumed(ChatRate):
    """A rate estimated from those of other models; a time of 0 means unknown."""

    wall_s: float = 0.0


def _find_chat_rate(book: RateBook, stage: str, model: str, prompt: str) -> tuple[ChatRate, str] | None:
    """Returns the rate measured for exactly this stage, model and prompt, and its origin as text; None without one."""
    wanted = (stage, model, prompt)
    found = book.find(lambda rates: rates.chat, lambda row: (row.stage, row.model, row.prompt) == wanted)
    return None if found is None else (found[0], f"{found[1]}, {found[0].n_calls} calls")


def _find_or_assume_oracle_rate(book: RateBook, model: str, prompt: str) -> tuple[ChatRate, str]:
    """Returns the rate of oracle requests and its origin; if unmeasured, one assumed from another model.

    The number of input tokens is then that of the prompt's size, if known.

    Raises:
        ConfigError: no model was measured for oracles.
    """
    if (found := _find_chat_rate(book, ORACLE, model, prompt)) is not None:
        return found
    other = book.find(lambda rates: rates.chat, lambda row: row.stage == ORACLE)
    if other is None:
        raise ConfigError("No rates of a chat model have been measured.", "Run: kame bench")
    size = book.find(lambda rates: rates.prompts, lambda row: row.prompt == prompt)
    tokens_in = other[0].tokens_in if size is None else size[0].tokens_in
    assumed = _Assumed(
        model=model,
        prompt=prompt,
        n_calls=1,
        calls_per_request=other[0].calls_per_request,
        tokens_in=tokens_in,
        tokens_out=other[0].tokens_out,
    )
    counted = "input tokens by the size of the prompt" if size else f"input tokens as of prompt {other[0].prompt}"
    return assumed, f"{model} was not measured: calls and output tokens as of {other[0].model}, {counted}"


def _estimate_machine(
    config: RefreshConfig, amounts: Mapping[str, float], book: RateBook, n_workers: int, devices: Sequence[str]
) -> list[PlanFigure]:
    """Estimates the time of each step on a processor core and, where `devices` are given, on these GPUs."""
    speech_s, duration_s = amounts["speech_s"], amounts["duration_s"]
    steps = [
        ("script", SCRIPT, "", amounts["items"]),
        ("text-to-speech", "tts", get_speech_engine(config), speech_s),
        ("recognition", "recognition", config.gate.asr, speech_s),
        ("alignment", "alignment", config.alignment.aligner, speech_s),
        ("mixing", "mixing", "", duration_s),
    ]
    steps = [each for each in steps if each[2] != NOBODY]
    rows = [estimate_step_time(book, MACHINE, title, step, engine, CPU, n) for title, step, engine, n in steps]
    rows.append(sum_figures("processor", MACHINE, "processor time of workers", list(rows)))
    spoken = [each for each in rows if each.key in ("processor.tts", "processor.recognition")]
    rows.append(sum_figures("processor.speech", MACHINE, "…of it the stage speech", spoken))
    rows.append(
        estimate_step_time(book, MACHINE, "loading of models", "start", describe_engines(config), CPU, n_workers)
    )
    rows.append(estimate_step_time(book, MACHINE, "publishing", "publish", "", CPU, duration_s))
    for device in devices:
        on_gpu = [each for each in steps if each[1] in ("tts", "recognition", "alignment")]
        rows += [
            estimate_step_time(book, MACHINE, f"{title} on {device}", step, engine, device, n)
            for title, step, engine, n in on_gpu
        ]
    return rows


def _estimate_wall_time(
    config: RefreshConfig, machine: Sequence[PlanFigure], chat: Sequence[PlanFigure], n_workers: int, n_dialogues: float
) -> PlanFigure:
    """Estimates the wall time: startup, the workers' stages in parallel, then the chat model, then publishing.

    It is unknown if one of these is.
    """
    by_key = {each.key: each for each in (*machine, *chat)}
    asks = [by_key["chat_s"]] if "chat_s" in by_key else []
    parts = [by_key[key] for key in ("processor", "processor.start", "processor.publish")]
    total = sum_figures("wall_s", MACHINE, "", [*parts, *asks])
    title = f"wall time, {n_workers} worker{'s' if n_workers > 1 else ''}"
    if total.value is None:
        return make_unknown("wall_s", MACHINE, title, "s", total.basis.removeprefix("unknown: "))
    n_busy = max(1, min(n_workers, math.ceil(n_dialogues / config.parts.dialogues_per_part)))
    worked, alone = by_key["processor"].value or 0.0, by_key["processor.publish"].value or 0.0
    begun = (by_key["processor.start"].value or 0.0) / n_workers
    asked = sum(each.value or 0.0 for each in asks)
    formula = f"{worked:,.0f} s / {n_busy} + startup {begun:,.0f} + answers {asked:,.0f} + publishing {alone:,.0f}"
    value = worked / n_busy + begun + asked + alone
    return PlanFigure("wall_s", MACHINE, title, value, "s", formula, "a core a worker, nobody beside")


def _estimate_disk_and_memory(
    config: RefreshConfig, duration_s: float, book: RateBook, n_workers: int
) -> list[PlanFigure]:
    """Estimates the bytes on disk and the peak memory; memory is unknown if these engines were not measured.

    Without rates of these engines, disk space is estimated by those of others.
    """
    engines = describe_engines(config)
    models = [get_chat_model(config, stage) for stage in CHAT_STAGES]
    here = [chat for chat in models if chat is not None and chat.engine != "openai"]
    n_servers = sum(chat not in here[:at] for at, chat in enumerate(here))  # stages with equal settings share one

    def own(row: EngineSizes) -> bool:
        return row.engines == engines

    def rows_of(rates: Rates) -> Sequence[EngineSizes]:
        return rates.sizes

    found: tuple[EngineSizes, RatesOrigin] | None = book.find(rows_of, own)
    disk = found or book.find(rows_of, lambda _: True)
    rows = []
    for key, title, field in (
        ("parts_bytes", "disk, parts to go on from", "parts_bytes_per_s"),
        ("shards_bytes", "disk, the dataset", "shards_bytes_per_s"),
    ):
        if disk is None:
            rows.append(make_unknown(key, MACHINE, title, "bytes", "no rates include sizes"))
            continue
        rate = float(getattr(disk[0], field))
        rows.append(
            PlanFigure(
                key, MACHINE, title, duration_s * rate, "bytes", f"{duration_s:,.0f} s × {rate:,.0f}", str(disk[1])
            )
        )
    rows.append(sum_figures("disk_bytes", MACHINE, "disk", list(rows)))
    if found is None:
        why = f"{engines} was not measured: run `kame bench` with these settings"
        return [*rows, make_unknown("memory_bytes", MACHINE, "peak memory", "bytes", why)]
    size, origin = found
    chat_bytes = n_servers * size.chat_bytes
    value = size.main_bytes + n_workers * size.worker_bytes + chat_bytes
    formula = f"{size.main_bytes:,.0f} + {n_workers} × {size.worker_bytes:,.0f} + chat servers {chat_bytes:,.0f}"
    return [*rows, PlanFigure("memory_bytes", MACHINE, "peak memory", value, "bytes", formula, str(origin))]
