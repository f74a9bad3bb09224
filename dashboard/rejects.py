"""Reads what is left of rejected dialogues in the work folder of a dataset: texts and audio.

The outputs of a part are `.store/parts/<part>/<stage>-<fingerprint>.parquet`; they may have been deleted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.catalog import Dataset, MissingError
from data_schemas.arrow import from_table, make_schema
from data_schemas.errors import KameError, StoreError
from data_schemas.records import Dialogue

_PARTS: Final = ".store/parts"
_TEXTS: Final = ("wording", "script")
"""Stages that write the texts of dialogues, the latest first."""
_CLIPS, _MIXED = "speech", "mixing"
_BEFORE_SPEECH: Final = ("pictures", "script", "wording")


@dataclass(frozen=True, slots=True)
class RejectedClip:
    """An utterance that was synthesised before its dialogue was rejected."""

    turn_index: int
    utterance_index: int
    voice: str
    speed: float
    heard: str | None


@dataclass(frozen=True, slots=True)
class RejectedDialogue:
    """What is left of a rejected dialogue.

    Attributes:
        dialogue: its texts; None if there are none.
        is_mixed: whether its complete audio exists.
        clips: utterances with audio, if the complete audio does not exist.
        why_silent: why there is no audio, or empty.
        error: why a file of the work folder could not be read, or empty.
    """

    dialogue: Dialogue | None
    is_mixed: bool
    clips: Sequence[RejectedClip]
    why_silent: str
    error: str = ""


def read_reject(dataset: Dataset, part_id: str | None, dialogue_id: str | None, stage: str) -> RejectedDialogue:
    """Reads what the work folder has of a rejected dialogue; a file that cannot be read is reported in `error`.

    Args:
        part_id: part of its item; None if it is unknown.
        dialogue_id: None if the item itself was rejected.
        stage: stage that rejected it.
    """
    if dialogue_id is None or part_id is None:
        return RejectedDialogue(None, False, (), _explain_silence(stage, dialogue_id, False))
    try:
        texts = _find_row(dataset, part_id, _TEXTS, dialogue_id, make_schema(Dialogue).names)
        dialogue = from_table(texts, Dialogue)[0] if texts is not None else None
        is_mixed = _find_row(dataset, part_id, (_MIXED,), dialogue_id, ["dialogue_id"]) is not None
        clips = [] if is_mixed else list(_read_clips(dataset, part_id, dialogue_id))
    except KameError as error:
        return RejectedDialogue(None, False, (), "", f"{error.what} {error.remedy}".strip())
    is_kept = (dataset.folder / _PARTS / part_id).is_dir()
    why = "" if is_mixed or clips else _explain_silence(stage, dialogue_id, is_kept)
    return RejectedDialogue(dialogue, is_mixed, clips, why)


def read_reject_audio(dataset: Dataset, part_id: str | None, dialogue_id: str, place: tuple[int, int] | None) -> bytes:
    """Reads the audio of a rejected dialogue, or of one of its utterances.

    Args:
        place: indices of turn and utterance; None for the whole mixed dialogue.

    Raises:
        MissingError: there is none.
        StoreError: a file is damaged.
    """
    if part_id is not None and place is None:
        found = _find_row(dataset, part_id, (_MIXED,), dialogue_id, ["dialogue_id", "audio"])
        audio = found["audio"][0].as_py() if found is not None else None
        if audio and audio["bytes"]:
            return bytes(audio["bytes"])
    elif part_id is not None:
        for each in _read_clip_rows(dataset, part_id, dialogue_id, ()):
            if (each["turn_index"], each["utterance_index"]) == place:
                return bytes(each["flac"])
    raise MissingError(f"{dialogue_id} has no audio.", "Its page under Rejects says why.")


def _explain_silence(stage: str, dialogue_id: str | None, is_kept: bool) -> str:
    """Returns a sentence on why a rejected dialogue has no audio.

    Args:
        stage: stage that rejected it.
        is_kept: whether the outputs of its part are still in the work folder.
    """
    if dialogue_id is None or stage in _BEFORE_SPEECH:
        return "There is no audio: it was rejected before any speech was made."
    if not is_kept:
        return f"There is no audio: its part of the work folder ({_PARTS}) is missing."
    if stage == _CLIPS:
        return "There is no audio: no take of an utterance passed the checks, and such takes are not kept."
    return "There is no audio of it in the work folder."


def _read_clips(dataset: Dataset, part_id: str, dialogue_id: str) -> Iterator[RejectedClip]:
    """Yields the utterances of a dialogue that were synthesised, without their audio."""
    for each in _read_clip_rows(dataset, part_id, dialogue_id, ("flac",)):
        yield RejectedClip(
            each["turn_index"],
            each["utterance_index"],
            each["voice"],
            each["speed"],
            each["hearing"]["text"] if each.get("hearing") else None,
        )


def _read_clip_rows(dataset: Dataset, part_id: str, dialogue_id: str, without: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the synthesised utterances of a dialogue as dictionaries without some fields; [] if there are none."""
    found = _find_row(dataset, part_id, (_CLIPS,), dialogue_id, ["dialogue_id", "clips"])
    if found is None:
        return []
    clips = found["clips"].combine_chunks().flatten()
    names = [each.name for each in clips.type if each.name not in without]
    rows: list[dict[str, Any]] = pa.table({name: clips.field(name) for name in names}).to_pylist()
    return rows


def _find_row(
    dataset: Dataset, part_id: str, stages: Sequence[str], dialogue_id: str, columns: Sequence[str]
) -> pa.Table | None:
    """Returns a dialogue's row, as a table of one row, from the newest output of the first stage that has it.

    Returns None if no stage has it.

    Raises:
        StoreError: an output is damaged.
    """
    for stage in stages:
        for file in _find_outputs(dataset, part_id, stage):
            try:
                names = [name for name in columns if name in pq.read_schema(file).names]
                found = pq.read_table(file, columns=names, filters=[("dialogue_id", "=", dialogue_id)])
            except (pa.ArrowException, OSError) as error:
                raise StoreError(
                    f"{file} cannot be read: {error}.", "Delete it; the next refresh makes it again."
                ) from error
            if found.num_rows:
                return found.slice(0, 1)
    return None


def _find_outputs(dataset: Dataset, part_id: str, stage: str) -> list[Path]:
    """Returns a stage's outputs for a part, the newest first."""
    files = dataset.get_file(f"{_PARTS}/{part_id}").glob(f"{stage}-*.parquet")
    return sorted(files, key=lambda each: each.stat().st_mtime, reverse=True)
