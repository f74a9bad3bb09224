"""Work folders of datasets, as far as pages read them: which part an item is in, and what stages left of that part."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data_schemas.arrow import to_table
from data_schemas.records import Dialogue, DialogueClips, UtteranceClip
from pipelines.audio import to_flac
from tests.support.builders import make_dialogue
from tests.support.token_rows import said_turn

PART = "mine-train-p00000"
SOUND = to_flac(np.random.default_rng(5).normal(0, 0.1, 4_800).astype(np.float32))


def put_members(folder: Path, numbers: Iterable[int], part_id: str = PART) -> None:
    """Writes that the items of these numbers are the members of a part; it replaces earlier members."""
    items = [
        {"item": {"item_id": f"mine-{number}", "question": "How many?", "answer": "10"}, "part_id": part_id}
        for number in numbers
    ]
    (folder / ".store" / "membership").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(items), folder / ".store" / "membership" / "mine.parquet")


def make_written(number: int, says: str = "So how many?") -> Dialogue:
    """Makes a dialogue that is written and not spoken yet."""
    turns = (
        said_turn(0, "B", says, ("so", 0, 1)),
        said_turn(1, "A", "Ten.", ("ten", 0, 1), written_text="10."),
    )
    return make_dialogue(*turns, dialogue_id=f"mine-{number}-v0", item_id=f"mine-{number}")


def make_clips(number: int) -> DialogueClips:
    """Makes the clips of both utterances of a dialogue; the assistant's is `SOUND`."""
    clip = UtteranceClip(
        turn_index=1,
        utterance_index=0,
        voice="amy",
        speed=0.95,
        n_samples=4_800,
        flac=SOUND,
        words=(),
        hearing=None,
    )
    return DialogueClips(
        dialogue_id=f"mine-{number}-v0",
        tts="piper",
        tts_digest="d",
        asr=None,
        asr_digest=None,
        clips=(replace(clip, turn_index=0, voice="joe", flac=b"other"), clip),
    )


def put_output(folder: Path, stage: str, rows: Sequence[Any], record: type, age_s: float = 0) -> None:
    """Writes a stage's output for `PART`, with a time of writing `age_s` seconds ago."""
    file = folder / ".store" / "parts" / PART / f"{stage}-{len(rows):04x}{int(age_s):04x}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_table(rows, record), file)
    then = file.stat().st_mtime - age_s
    os.utime(file, (then, then))
