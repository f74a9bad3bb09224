"""The folder of an evaluation, and the tables that its report holds.

items.jsonl    one line an item, written when it is finished, so that an interrupted evaluation can resume
figures.json   `rows` of figures, and under `run` everything that affects them
report.md      the same, for readers
sound/, plots/ the first items as stereo wav (left the model, right the user); plots as PNG

`kame evaluate compare` and `table` read every kind of evaluation by what they have in common:

- An item's record has `row`, `unit` and `measures`, and any other fields of its kind; if a judge provides measures,
  also `judged` (its replies by measure) and `faults` (by measure, why there is no judgement).
  `row`: the fields that say in which rows of figures.json the item is counted, for example {"mode": "tandem",
  "delay_s": null, "category": "stem"}. A row of figures.json counts the items whose values are the same in each of
  the row's fields; a row without `category` is of all categories.
  `unit`: what is independent of other units and shared by all compared systems, for example the question's id. Several
  runs of one question, or several turns of one dialogue, have the same unit. Within an evaluation `item` is unique,
  `unit` is not.
  `measures`: {name: true or false (a share), a number, [part, whole] (a share of sums, such as correct words of all
  words), or null: not applicable to this item}. The name of a measure in seconds ends in `_s`.
- A row's figures have the names of the measures and are their means (`report.intervals.compute_figures`).
- `run` has `kind` (recall, questions, mt-bench, duplex), `version` (of the measure), `seed`, and `system`: what is
  evaluated and may differ between compared evaluations: {"name", "checkpoint" (its digest), "back_end" (the chat
  model's name, null if none is used), "serving", ...}. Everything else in `run` must be equal: data, texts, judge,
  recogniser, settings of the measure. Fields of `row` do not affect other items, so leave modes, delays and, if items
  are independent of each other, their number out of `run`: when one is added later, the finished items are then
  reused.
"""

import io
import json
import os
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from backends.engine import Samples
from data_schemas import ids
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.checkpoint.files import encode_json
from kame_model.checkpoint.kame_json import read_versions

_N_CHARACTERS: Final = 600
"""Maximum length of a text in a table."""
ITEMS, FIGURES, REPORT, SOUND, PLOTS = "items.jsonl", "figures.json", "report.md", "sound", "plots"


class EvaluationFolder:
    """The files of one evaluation. Nothing is written before the first item is kept or the results are written, but an
    incomplete last line of `items.jsonl` is removed (`read_lines`).

    Args:
        out: the folder.
        run: everything that affects an item's result, as JSON values: digests of weights and data, settings, seeds,
            version of the measure. Items finished with an equal `run` are reused.
        anew: replace the items of another evaluation in the folder; otherwise that is an error.
        replaceable: fields of `run` that may differ; the items in the folder are then replaced, too.

    Attributes:
        run: the argument `run`.
        machine: the machine on which the folder was started, and its load (`describe_machine`).

    Raises:
        ConfigError: the folder holds items of another evaluation.
        StoreError: `items.jsonl` is damaged.
    """

    def __init__(
        self, out: str, run: Mapping[str, Any], *, anew: bool = False, replaceable: Collection[str] = ()
    ) -> None:
        self.run = dict(run)
        self._out = out
        self._path = Path(Store(out).resolve_path(ITEMS))
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
        """Stores the record of an item, and syncs it to disk; it replaces an earlier record of the item.

        Args:
            item: its name, unique in this evaluation, such as `cascade/q17`.
            record: JSON values.

        Raises:
            StoreError: the file cannot be written.
        """
        self._begin()
        self._items[item] = append_line(self._path, {"item": item, **record})

    def _begin(self) -> None:
        """Writes the head of `items.jsonl` once, which replaces the items of another evaluation."""
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
        """Writes `figures.json`, `report.md` and the plots after all items are finished.

        Args:
            rows: figures, one for each row of the table.
            report: Markdown; a table of what it was made with is appended.
            plots: PNG files by name.
            more: further keys of `figures.json`, such as `costs`.
        """
        self._begin()
        versions = {**read_versions(), "machine": self.machine}
        figures = {"run": self.run, "rows": list(rows), **(more or {}), "versions": versions}
        made_with = _format_provenance({**self.run, "versions": versions})
        write_results(self._out, figures, f"{report.rstrip()}\n\n## Made with\n\n{made_with}", plots)


def _format_provenance(run: Mapping[str, Any]) -> str:
    """Formats what a run was made with as a table: weights, data, engines, seeds, versions, machine. The server's
    configuration is only in `figures.json`; settings without a value are left out."""
    found = [(name, value) for name, value in _list_leaves(run) if value not in (None, "", [])]
    return format_table(["setting", "value"], [(name, escape_cell(str(value))) for name, value in found])


def _list_leaves(of: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields all values of nested mappings by dotted name, except those under `serving`."""
    for name, value in of.items():
        if isinstance(value, Mapping):
            if name != "serving":
                yield from _list_leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _check_replaceable(out: str, found: Any, run: Any, replaceable: Collection[str]) -> None:
    """Raises a ConfigError if a folder's items are of another run; `found` is None if its settings are unknown."""
    if found is None:
        reason = "written by an older version of kame, which did not record its settings"
    else:
        unlike = [name for name in find_unequal(found, run) if name.partition(".")[0] not in replaceable]
        reason = f"they differ in: {', '.join(unlike)}"
        if not unlike:
            return
    raise ConfigError(
        f"{out} holds items of another evaluation ({reason}).",
        "Choose another folder with --out, or replace its items with --anew.",
    )


def check_holds_no_items(out: str) -> None:
    """Checks that a folder holds no evaluation, whose report would be overwritten.

    Raises:
        ConfigError: the folder holds items.
    """
    if (Path(out) / ITEMS).exists():
        raise ConfigError(
            f"{out} holds an evaluation, whose report would be overwritten.", "Choose another folder with --out."
        )


def find_unequal(one: Any, other: Any, at: str = "") -> list[str]:
    """Returns the dotted names of the values in which two JSON objects differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other})
        return [each for name in names for each in find_unequal(one.get(name), other.get(name), f"{at}.{name}")]
    return [] if one == other else [at.lstrip(".")]


def describe_machine() -> dict[str, Any]:
    """Returns a description of this machine: processor, number of cores, and load average of the last minute."""
    return {"processor": _name_processor(), "n_cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def _name_processor() -> str:
    """Returns the processor's model name on Linux; elsewhere, or if unknown, the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def read_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Reads a JSON Lines file; an incomplete last line, left by a killed process, is removed from the file.

    Returns an empty list without a file.

    Args:
        remedy: what to do, for the error.

    Raises:
        StoreError: the file is damaged, or cannot be read or repaired.
    """
    try:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Check its permissions and the disk.") from error
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.", remedy) from error


def append_line(path: Path, line: Mapping[str, Any], is_synced: bool = True) -> dict[str, Any]:
    """Appends a line of JSON to a file, and returns it as it will be read; file and folder are created if necessary.

    Args:
        is_synced: sync the file to disk, so that the line survives a power cut.

    Raises:
        StoreError: the file cannot be written.
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
        raise StoreError(f"{path} cannot be written: {error}.", "Free disk space, and run it again.") from error
    stored: dict[str, Any] = json.loads(text)
    return stored


def write_results(out: str, figures: Mapping[str, Any], report: str, plots: Mapping[str, bytes]) -> None:
    """Writes `figures.json`, `report.md` (Markdown) and plots (PNG files by name, in `plots/`) into a folder."""
    store = Store(out)
    for name, png in plots.items():
        store.write_bytes(f"{PLOTS}/{name}.png", png)
    store.write_bytes(REPORT, report.encode(errors="backslashreplace"))
    store.write_bytes(FIGURES, encode_json(figures))


def write_sound(out: str, item: str, left: Samples, right: Samples) -> None:
    """Writes two voices at 24 kHz as the 16-bit stereo file `sound/ITEM.wav` in `out`, with "-" for "/" in `item`.

    The shorter one is padded with silence.
    """
    n_samples = max(len(left), len(right))
    channels = [np.pad(np.clip(each, -1.0, 1.0), (0, n_samples - len(each))) for each in (left, right)]
    sink = io.BytesIO()
    soundfile.write(sink, np.stack(channels, axis=1), SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
    Store(out).write_bytes(f"{SOUND}/{item.replace('/', '-')}.wav", sink.getvalue())


def read_figures(folder: str) -> dict[str, Any]:
    """Reads `figures.json` of an evaluation.

    Raises:
        StoreError: the file does not exist or cannot be read.
    """
    path = Path(folder) / FIGURES
    try:
        figures: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Make it with `kame evaluate … --out` again.") from error
    return figures


def read_items(folder: str) -> Iterator[dict[str, Any]]:
    """Yields the records of an evaluation in the order in which the items were first finished; if an item has several
    records, the last one.

    Raises:
        StoreError: the file does not exist or is damaged.
    """
    path = Path(folder) / ITEMS
    try:
        _, *lines = path.read_bytes().rstrip(b"\n").split(b"\n")  # not splitlines: what was said may hold U+2028
        yield from {item["item"]: item for item in map(json.loads, lines)}.values()
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Make it with `kame evaluate … --out` again.") from error


def format_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Formats a Markdown table; None gives an empty cell. Texts are not escaped (`escape_cell`)."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines) + "\n"


def escape_cell(text: str) -> str:
    """Makes a text safe for a cell of a Markdown table: one line, "|" escaped, cut after `_N_CHARACTERS` characters."""
    short = " ".join(text.split())
    return (short if len(short) <= _N_CHARACTERS else f"{short[:_N_CHARACTERS]} …").replace("|", "\\|")


def format_with_interval(value: float | None, interval: Sequence[float | None] | None, form: str) -> str | None:
    """Formats a figure for a table, such as "71% [64%, 77%]" for the form ".0%"; None if there is no figure."""
    if value is None:
        return None
    low, high = interval or (None, None)
    return f"{value:{form}}" + ("" if low is None else f" [{low:{form}}, {high:{form}}]")
