"""Items of `kame evaluate duplex`: those of Full-Duplex-Bench, or items made from a dataset's dialogues.

The benchmark's data, version 1.0 (github.com/DanielLin94144/Full-Duplex-Bench, dataset/README.md); ID is a number:

    candor_pause_handling/ID/, synthetic_pause_handling/ID/    input.wav, pause.json
    icc_backchannel/ID/                                        input.wav
    candor_turn_taking/ID/                                     input.wav, turn_taking.json
    synthetic_user_interruption/ID/                            input.wav, interrupt.json

    pause.json, turn_taking.json   [{"text": "[PAUSE]", "timestamp": [start_s, end_s]}, …]; a user's turn ends at the
                                   first number of turn_taking.json
    interrupt.json                 [{"context": text, "interrupt": text, "timestamp": [start_s, end_s]}]
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.duplex import DuplexConfig, DuplexTask
from data_schemas.errors import SourceError
from data_schemas.flags import read_flagged
from data_schemas.manifest import MANIFEST
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue, Turn
from data_schemas.units import SAMPLE_RATE_HZ, round_s
from kame_model.codec.speech import PCM_SCALE, get_channels
from kame_model.evaluate.calls.delays import Span
from kame_model.evaluate.duplex.scores import compute_distribution
from kame_model.serve.client.client import read_user_audio

INPUT: Final = "input.wav"
PEOPLE: Final = "icc_gt_distribution.json"
ANNOTATIONS: Final[dict[DuplexTask, str]] = {
    "pause_handling": "pause.json",
    "turn_taking": "turn_taking.json",
    "user_interruption": "interrupt.json",
}
FORMS: Final[dict[str, DuplexTask]] = {
    "thinking_pause": "pause_handling",
    "backchannel": "backchannel",
    "plain": "turn_taking",
    "interruption": "user_interruption",
}
"""The task of each dialogue form of a dataset."""
LEAST_PAUSE_S: Final = 0.5
"""A shorter silence between two words is not a thinking pause."""
_REMEDY: Final = "Download the data again; kame_model/evaluate/duplex/items.py describes its format."


@dataclass(frozen=True, slots=True)
class DuplexItem:
    """The audio of one user, and its annotation.

    Attributes:
        subset: folder of the data, such as candor_turn_taking; name: the item's name in it, a number.
        read: reads and returns the user's audio, float32 at 24 kHz; raises a KameError if it cannot be read.
        annotation: content of its file of `ANNOTATIONS`; None: the task has none.
        turn: the user's turn to be answered, seconds from the start; None: nothing should be answered.
        people: probability of a human backchannel in each fifth of a second; None: unknown.
        dialogue_id: the dialogue that it was made from; None: it is an item of the benchmark.
    """

    task: DuplexTask
    subset: str
    name: str
    read: Callable[[], Samples]
    annotation: Any
    turn: Span | None
    people: Sequence[float] | None = None
    dialogue_id: str | None = None

    @property
    def unit(self) -> str:
        """Unique name of the item."""
        return f"{self.subset}/{self.name}"


@dataclass(frozen=True, slots=True)
class DuplexItems:
    """The selected items by subset and name, a digest of all available ones, and whether they are made from a
    dataset."""

    items: list[DuplexItem]
    digest: str
    is_ours: bool


def find_items(config: DuplexConfig) -> DuplexItems:
    """Selects items of the benchmark or of a dataset, up to `n_items` for each subset, sampled by seed.

    Raises:
        SourceError: there are no items, or one is malformed.
        DatasetError, StoreError: the dataset cannot be read.
    """
    is_ours = (Path(config.path) / MANIFEST).is_file()
    if is_ours:
        reader = DatasetReader(config.path)
        found, digest = list(_make_items(reader, config)), reader.manifest.fingerprint
        lacking = f"{config.path} has no dialogue of {', '.join(config.splits)} in the forms {', '.join(FORMS)}."
    else:
        found, digest = _read_bench_items(config)
        lacking = f"{config.path} has no folder of Full-Duplex-Bench for {', '.join(config.tasks)}."
    if not found:
        raise SourceError(lacking, "Use a folder that has some, such as candor_turn_taking/1/input.wav.")
    by_subset: dict[str, list[DuplexItem]] = {}
    for item in found:
        by_subset.setdefault(item.subset, []).append(item)
    drawn = []
    for subset, items in sorted(by_subset.items()):
        n = config.n_items or len(items)
        some = random.Random(ids.derive_seed("duplex", config.items_seed, subset)).sample(items, min(n, len(items)))
        drawn += sorted(some, key=lambda item: (len(item.name), item.name))
    return DuplexItems(drawn, digest, is_ours)


def _read_bench_items(config: DuplexConfig) -> tuple[list[DuplexItem], str]:
    """Reads the items of the benchmark's folders (possibly below a folder such as `v1.0`), and their digest.

    Folders of tasks that are not configured are left out.
    """
    root = Path(config.path)
    people = _read_backchannel_times(config)
    found, digests = [], [ids.digest("people", people)]
    folders = [each for each in (*root.glob("*/"), *root.glob("*/*/")) if each.is_dir()] if root.is_dir() else []
    for folder in sorted(folders):
        task = next((task for task in config.tasks if folder.name.endswith(task)), None)
        for item in sorted(folder.iterdir()) if task is not None else ():
            if item.name.isdigit() and item.is_dir():
                assert task is not None  # mypy does not follow the condition above
                found.append(_read_bench_item(item, task, people))
                files = [item / INPUT, *([item / ANNOTATIONS[task]] if task in ANNOTATIONS else [])]
                digests += [folder.name, item.name, *map(ids.compute_sha256, files)]
    return found, ids.digest("bench", digests)


def _read_bench_item(folder: Path, task: DuplexTask, people: dict[str, Sequence[float]]) -> DuplexItem:
    """Makes the item of one folder of the benchmark; its audio is read later.

    Raises:
        SourceError: the folder has no audio, or its annotation is missing or malformed.
    """
    sound = folder / INPUT
    if not sound.is_file():
        raise SourceError(f"{folder} has no {INPUT}.", _REMEDY)
    annotation: Any = _read_json(folder / ANNOTATIONS[task]) if task in ANNOTATIONS else None
    try:
        turn = None
        if task == "turn_taking":
            turn = (0.0, float(annotation[0]["timestamp"][0]))
        elif task == "user_interruption":
            start_s, end_s = annotation[0]["timestamp"]
            turn = (float(start_s), float(end_s))
    except (LookupError, TypeError, ValueError) as error:
        raise SourceError(f"{folder / ANNOTATIONS[task]} has no valid times: {error!r}.", _REMEDY) from error
    human = people.get(folder.name) if task == "backchannel" else None
    return DuplexItem(task, folder.parent.name, folder.name, lambda: read_user_audio(sound), annotation, turn, human)


def _read_backchannel_times(config: DuplexConfig) -> dict[str, Sequence[float]]:
    """Reads the probability of a human backchannel in each window of an item, by the item's name; empty without a file.

    Raises:
        SourceError: the file is malformed.
    """
    root = Path(config.path)
    places = [Path(config.backchannel_times)] if config.backchannel_times else sorted(root.glob(f"**/{PEOPLE}"))
    if not places:
        return {}
    times = _read_json(places[0])
    if not isinstance(times, dict) or not all(isinstance(each, list) and sum(each) > 0 for each in times.values()):
        raise SourceError(f"{places[0]} does not have a distribution for every item.", _REMEDY)
    return times


def _read_json(path: Path) -> Any:
    """Reads a JSON file; raises a SourceError if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be read: {error}", _REMEDY) from error


def _make_items(reader: DatasetReader, config: DuplexConfig) -> Iterator[DuplexItem]:
    """Yields items in the benchmark's format, made from the dialogues of the splits that are not flagged.

    They are numbered, as the benchmark's scripts require. Flagged ones keep their numbers, so that a flag does not
    give an item the number of another, whose call is stored.
    """
    flags, n_found = read_flagged(reader.store), dict.fromkeys(config.tasks, 0)
    for shard in reader.list_shards():
        if shard.split not in config.splits:
            continue
        for dialogue, _ in reader.iterate_rows(shard):
            task = FORMS.get(dialogue.form)
            if task not in n_found:
                continue
            item = _make_item(dialogue, task, str(n_found[task] + 1), reader, config.wait_s)
            if item is not None:
                n_found[task] += 1
                if dialogue.dialogue_id not in flags:
                    yield item


def _make_item(
    dialogue: AudioDialogue, task: DuplexTask, name: str, reader: DatasetReader, wait_s: float
) -> DuplexItem | None:
    """Makes an item from the user's channel up to the item's end; None if the dialogue does not fit the task."""
    asked = dialogue.turns[0]
    asked_s = _get_span(asked)
    annotation: Any = None
    turn, people, end_s = None, None, asked_s[1]
    if task == "pause_handling":
        annotation = [{"text": "[PAUSE]", "timestamp": list(pause)} for pause in _find_pauses(asked)]
        if not annotation:
            return None
    elif task == "backchannel":
        backchannels = [_get_span(each) for each in dialogue.turns[1].utterances if each.kind == "backchannel"]
        backchannels = [span for span in backchannels if span[1] <= end_s]
        if dialogue.turns[1].speaker != "A" or not backchannels:
            return None
        people = compute_distribution(backchannels, end_s).tolist()
    elif task == "turn_taking":
        turn, end_s = asked_s, asked_s[1] + wait_s
        annotation = [{"text": "[TURN-TAKING]", "timestamp": [asked_s[1], end_s]}]
    else:
        interrupting = next((each for each in dialogue.turns[1:] if each.speaker == "B"), None)
        if interrupting is None:
            return None
        turn = _get_span(interrupting)
        end_s = turn[1] + wait_s
        annotation = [
            {"context": asked.spoken_text, "interrupt": interrupting.spoken_text, "timestamp": list(turn)},
        ]
    said_s = asked_s[1] if turn is None else turn[1]
    dialogue_id = dialogue.dialogue_id

    def read() -> Samples:
        user = get_channels(reader.read_dialogue(dialogue_id)[0])[:, 1].astype(np.float32) / PCM_SCALE
        said = user[: round(said_s * SAMPLE_RATE_HZ)]
        return np.pad(said, (0, max(0, round(end_s * SAMPLE_RATE_HZ) - len(said))))

    return DuplexItem(task, f"own_{task}", name, read, annotation, turn, people, dialogue_id)


def _get_span(spoken: Any) -> Span:
    """Returns start and end of a turn or an utterance of a shard; both are set by mixing."""
    assert spoken.start_s is not None
    assert spoken.end_s is not None
    return float(spoken.start_s), float(spoken.end_s)


def _find_pauses(turn: Turn) -> list[Span]:
    """Returns the pauses of `LEAST_PAUSE_S` or more within a turn, from the end of a word to the start of the next."""
    words = [word for utterance in turn.utterances if utterance.kind == "speech" for word in utterance.words]
    pairs = pairwise(words)
    return [(one.end_s, round_s(two.start_s)) for one, two in pairs if two.start_s - one.end_s >= LEAST_PAUSE_S]
