"""The folder of an evaluation, and the tables that its report holds.

items.jsonl    one line an item, written as each is finished: an evaluation that was stopped goes on behind them
figures.json   `rows` of figures, and under `run` all that decided them
report.md      the same for people
sound/, plots/ the first items as stereo wav (left the model, right the user); pictures

`kame evaluate compare` and `table` read any evaluation by what all have alike:

- An item's record has `row`, `unit` and `measures`, and whatever else its kind wants to keep; where a judge tells
  measures, by measure `judged` (what it wrote) and `faults` (why it told nothing).
  `row`: the fields that say in which rows of figures.json it is counted, such as {"mode": "tandem", "delay_s": null,
  "category": "stem"}. A row of figures.json counts an item that has the same value in each of these fields the row has;
  a row without `category` is of all categories.
  `unit`: what is independent of other units and the same in all that is compared, such as the question's id. Several
  runs of one question, or several turns of one dialogue, share it. A name within the evaluation: `item` is unique,
  `unit` is not.
  `measures`: {name: true or false (a share), a number, [part, whole] (a share of sums, such as words said right of all
  words), or null: it was not asked of this item}. A measure in seconds has a name in `_s`.
- A row's figures bear the names of the measures and are their means: `intervals.figures_of(records)` makes them.
- `run` has `kind` (recall, questions, mt-bench, duplex), `version` (of the measure), `seed`, and `system`: all that is
  measured and may be another where evaluations are compared: {"name", "checkpoint" (its digest), "back_end" (the chat
  model's name, null where none is asked), "serving", ...}. All else in `run` must be the same: data, texts, judge,
  recogniser, settings of the measure. What stands in `row` decides nothing of other items, so leave modes, delays and,
  where items do not depend on each other, their number out of `run`: one that is added later then keeps the items that
  are finished.
"""

import io
import json
import os
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from backends.engine import Samples
from data_schemas import ids
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.checkpoint.kame_json import read_versions

ITEMS, FIGURES, REPORT, SOUND, PLOTS = "items.jsonl", "figures.json", "report.md", "sound", "plots"


class EvaluationFolder:
    """The files of one evaluation. Nothing is written before the first item is kept.

    Args:
        out: the folder.
        run: all that decides what comes of an item, as JSON can hold it: digests of weights and data, settings, seeds,
            versions of the measure. Items that were finished with the same are kept.
        anew: replace what another evaluation left in the folder; else that is refused.
        replaceable: fields of `run` that may be others: what is in the folder is replaced then, too.

    Attributes:
        run: the same.
        machine: on which the folder was begun, and how busy it was (`describe_machine`).

    Raises:
        ConfigError: the folder holds items of another evaluation.
        StoreError: the folder cannot be read.
    """

    def __init__(
        self, out: str, run: Mapping[str, Any], *, anew: bool = False, replaceable: Collection[str] = ()
    ) -> None:
        self.run = dict(run)
        self._out = out
        self._path = Path(Store(out).at(ITEMS))
        head, *lines = read_lines(self._path, "Remove it; its items are run again.") or [{}]
        key = ids.digest(json.dumps(self.run, sort_keys=True))
        self._is_begun = head.get("of") == key
        if lines and not self._is_begun and not anew:
            _check_replaceable(out, head.get("run"), json.loads(json.dumps(self.run)), replaceable)
        self.machine: dict[str, Any] = (head.get("machine") if self._is_begun else None) or describe_machine()
        self._head = {"of": key, "run": self.run, "machine": self.machine}
        self._items = {line["item"]: line for line in lines} if self._is_begun else {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: str) -> bool:
        return item in self._items

    def __getitem__(self, item: str) -> dict[str, Any]:
        return self._items[item]

    def keep(self, item: str, record: Mapping[str, Any]) -> None:
        """Keeps what came of an item, on the disk at once.

        Args:
            item: its name, unique in this evaluation, such as `cascade/q17`.
            record: values that JSON can hold.

        Raises:
            StoreError: it cannot be written.
        """
        self._begin()
        self._items[item] = append_line(self._path, {"item": item, **record})

    def _begin(self) -> None:
        if not self._is_begun:
            Store(self._out).write_bytes(ITEMS, (json.dumps(self._head) + "\n").encode())
            self._is_begun = True

    def write_results(
        self,
        rows: Sequence[Mapping[str, Any]],
        report: str,
        plots: Mapping[str, bytes],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes `figures.json`, `report.md` and the plots, when all items are finished.

        Args:
            rows: figures, a row of the table each.
            report: Markdown.
            plots: PNG files by name.
            more: further keys of `figures.json`, such as `costs`.
        """
        self._begin()
        versions = {**read_versions(), "machine": self.machine}
        figures = {"run": self.run, "rows": list(rows), **(more or {}), "versions": versions}
        write_results(self._out, figures, report, plots)


def _check_replaceable(out: str, found: Any, run: Any, replaceable: Collection[str]) -> None:
    """Raises a ConfigError where a folder's items are of another run; None: of one that nobody knows any more."""
    if found is None:
        told = "kept by an earlier version of kame, which did not write down its settings"
    else:
        unlike = [name for name in find_unequal(found, run) if name.partition(".")[0] not in replaceable]
        told = f"they differ in: {', '.join(unlike)}"
        if not unlike:
            return
    raise ConfigError(
        f"{out} holds items of another evaluation ({told}).",
        "Name another folder with --out, or have its items replaced with --anew.",
    )


def check_holds_no_items(out: str) -> None:
    """Refuses an evaluation's folder to what would write its own report over that one's.

    Raises:
        ConfigError: there are items in it.
    """
    if (Path(out) / ITEMS).exists():
        raise ConfigError(
            f"{out} holds an evaluation, whose report would be overwritten.", "Name another folder with --out."
        )


def find_unequal(one: Any, other: Any, at: str = "") -> list[str]:
    """The dotted names of the values in which two JSON objects differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other})
        return [each for name in names for each in find_unequal(one.get(name), other.get(name), f"{at}.{name}")]
    return [] if one == other else [at.lstrip(".")]


def describe_machine() -> dict[str, Any]:
    """The machine's processor, its cores, and how many processes want them just now (the average of a minute)."""
    return {"processor": _name_processor(), "n_cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def _name_processor() -> str:
    """As Linux names it; elsewhere, and where it does not, the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def read_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON; a last one that a kill cut is removed from it.

    Raises:
        StoreError: it is damaged; then the remedy is told.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.", remedy) from error


def append_line(path: Path, line: Mapping[str, Any], is_synced: bool = True) -> dict[str, Any]:
    """Adds a line of JSON to a file, and returns it as it will be read.

    Args:
        is_synced: it is on the disk at once, so that a power cut leaves it there.

    Raises:
        StoreError: it cannot be written.
    """
    text = json.dumps(line, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(f"{text}\n".encode(errors="backslashreplace"))
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}.", "Make room, and start it again.") from error
    told: dict[str, Any] = json.loads(text)
    return told


def write_results(out: str, figures: Mapping[str, Any], report: str, plots: Mapping[str, bytes]) -> None:
    """Writes `figures.json`, `report.md` (Markdown) and plots (PNG files by name) into a folder."""
    store = Store(out)
    for name, png in plots.items():
        store.write_bytes(f"{PLOTS}/{name}.png", png)
    store.write_bytes(REPORT, report.encode(errors="backslashreplace"))
    store.write_bytes(FIGURES, (json.dumps(figures, indent=1, ensure_ascii=False) + "\n").encode())


def write_sound(out: str, item: str, left: Samples, right: Samples) -> None:
    """Keeps an item as sound: two voices at 24 kHz as a 16-bit wav file, the shorter one filled with silence."""
    n_samples = max(len(left), len(right))
    channels = [np.pad(np.clip(each, -1.0, 1.0), (0, n_samples - len(each))) for each in (left, right)]
    sink = io.BytesIO()
    soundfile.write(sink, np.stack(channels, axis=1), SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
    Store(out).write_bytes(f"{SOUND}/{item.replace('/', '-')}.wav", sink.getvalue())


def read_figures(folder: str) -> dict[str, Any]:
    """`figures.json` of an evaluation.

    Raises:
        StoreError: there is none, or it cannot be read.
    """
    path = Path(folder) / FIGURES
    try:
        told: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Make it with `kame evaluate … --out` again.") from error
    return told


def read_items(folder: str) -> Iterator[dict[str, Any]]:
    """What came of each item of an evaluation, in the order in which they were first finished; of one that was
    finished anew, the last.

    Raises:
        StoreError: there is no such file, or it is damaged.
    """
    path = Path(folder) / ITEMS
    try:
        _, *lines = path.read_bytes().rstrip(b"\n").split(b"\n")  # not splitlines: what was said may hold U+2028
        yield from {item["item"]: item for item in map(json.loads, lines)}.values()
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Make it with `kame evaluate … --out` again.") from error


def as_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; None is an empty cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines) + "\n"


def with_interval(value: float | None, interval: Sequence[float | None] | None, form: str) -> str | None:
    """A figure for a table, such as "71% [64%, 77%]" in the form ".0%"; None of none."""
    if value is None:
        return None
    low, high = interval or (None, None)
    return f"{value:{form}}" + ("" if low is None else f" [{low:{form}}, {high:{form}}]")
