"""Figures of a dataset from its index and its runs, and formatting of numbers."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import yaml

from dashboard.catalog import Dataset
from dashboard.index import Index

_COUNTED = ("source", "split", "form", "licence", "tts", "asr", "aligner")
_RUNS = "runs/"


@dataclass(frozen=True, slots=True)
class DatasetCost:
    """Usage of chat models by a dataset's runs. `usd` is None if no run has a price.

    `n_unpriced` is the number of models' runs without a known price; then `usd` is a lower bound.
    """

    n_runs: int
    n_unreadable: int
    n_requests: int
    n_tokens_in: int
    n_tokens_out: int
    usd: float | None
    n_unpriced: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a dataset."""

    n_items: int
    n_dialogues: int
    audio_s: float
    n_words: int
    n_events: int
    n_rejects: int
    wer: float | None
    sources: list[str]
    forms: list[str]
    ladder: list[tuple[int, int, float | None]]


def read_totals(index: Index, oracle_version: str) -> Totals:
    """Reads a dataset's totals.

    The ladder has a row (hint level, number of events, their mean share of the true answer's words) for each level of
    the assistant's oracles in this version.
    """
    items, dialogues, audio_s, words, events, errors, heard, sources, forms = index.fetch_rows(
        "SELECT count(DISTINCT item_id), count(*), coalesce(sum(duration_s), 0), coalesce(sum(n_words), 0)::BIGINT,"
        " coalesce(sum(n_events), 0)::BIGINT, sum(n_word_errors)::BIGINT, sum(n_heard_words)::BIGINT,"
        " list_sort(list(DISTINCT source)), list_sort(list(DISTINCT form)) FROM dialogues"
    )[0]
    return Totals(
        n_items=items,
        n_dialogues=dialogues,
        audio_s=audio_s,
        n_words=words,
        n_events=events,
        n_rejects=index.fetch_rows("SELECT count(*) FROM rejects")[0][0],
        wer=errors / heard if heard else None,
        sources=sources or [],
        forms=forms or [],
        ladder=[
            (level, n, share)
            for level, n, share in index.fetch_rows(
                "SELECT level, count(*), avg(truth_share) FROM events WHERE oracle_version = ? AND speaker = 'A'"
                " GROUP BY level ORDER BY level",
                [oracle_version],
            )
        ],
    )


def read_groups(index: Index) -> dict[str, list[dict[str, Any]]]:
    """Reads the number, seconds and WER of the dialogues with each value of source, split, form and other columns.

    Returns, by column, records with `name` of the value (`none` for null), `n`, `audio_s` and `wer` (None if unknown),
    the largest `n` first.
    """
    return {
        name: index.fetch_records(
            f"SELECT coalesce({name}, 'none') AS name, count(*) AS n, sum(duration_s) AS audio_s,"  # noqa: S608
            " sum(n_word_errors) / nullif(sum(n_heard_words), 0) AS wer"
            f" FROM dialogues GROUP BY {name} ORDER BY n DESC, name"
        )
        for name in _COUNTED
    }


def read_cost(dataset: Dataset) -> DatasetCost:
    """Returns the sum of the usage of the dataset's runs; files of runs that cannot be read are only counted."""
    n_runs = n_unreadable = n_requests = n_in = n_out = n_unpriced = 0
    dollars: list[float] = []
    for path in sorted((dataset.folder / _RUNS).glob("*.json")):
        try:
            run = json.loads(path.read_bytes())
            chat: Mapping[str, Any] = run.get("chat") or {}
            counted = [int(chat.get(name) or 0) for name in ("n_requests", "n_tokens_in", "n_tokens_out")]
            prices = [model.get("usd") for model in run.get("models") or []]
        except (OSError, ValueError, AttributeError):
            n_unreadable += 1
            continue
        n_runs += 1
        n_requests, n_in, n_out = (a + b for a, b in zip((n_requests, n_in, n_out), counted, strict=True))
        dollars += [float(each) for each in prices if each is not None]
        n_unpriced += sum(each is None for each in prices)
    return DatasetCost(n_runs, n_unreadable, n_requests, n_in, n_out, sum(dollars) if dollars else None, n_unpriced)


def format_number(value: float | None, digits: int = 0) -> str:
    """Formats a number with thin spaces between thousands and `digits` decimal places; empty for None."""
    return "" if value is None else f"{value:,.{digits}f}".replace(",", "\u202f").replace("-", "\u2212")


def format_figure(value: float, digits: int = 3) -> str:
    """Formats a figure with `digits` decimal places as `format_number` does; NaN and infinity as `nan` and `inf`."""
    return format_number(value, digits) if math.isfinite(value) else str(value)


def format_age(seconds: float) -> str:
    """Formats the seconds since a moment, such as `5 min ago`, rounded to the nearest second, minute, hour or day."""
    for limit, unit_s, unit in ((100, 1, "s"), (6000, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit_s:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"


def format_duration(seconds: float) -> str:
    """Formats a duration as seconds below 90 s, minutes below 90 min, or hours, with one decimal place."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{format_number(seconds / 3600, 1)} h"


def format_bytes(n_bytes: int) -> str:
    """Formats a number of bytes in MB or GB, which are powers of 1000."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.1f} GB"


def format_moment(moment: datetime) -> str:
    """Formats a date and time in UTC to the minute, with the year if it is not the current one."""
    of_day = "%d %b %H:%M" if moment.year == datetime.now(UTC).year else "%d %b %Y %H:%M"
    return f"{moment.astimezone(UTC):{of_day}} UTC"


def format_yaml(settings: Mapping[str, Any]) -> str:
    """Formats settings as YAML; empty if there are none."""
    return str(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True)) if settings else ""
