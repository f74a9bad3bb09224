"""Exports a dataset for moshi-finetune: stereo WAV files, the words of each as JSON, and lists of both.

    OUT/train.jsonl                       {"path": "train/<dialogue_id>.wav", "duration": seconds}, a line per dialogue
    OUT/train/<dialogue_id>.wav           16-bit, 24 kHz; left: the assistant, right: the user
    OUT/train/<dialogue_id>.json          {"alignments": [["word", [start_s, end_s], "SPEAKER_MAIN"], …]}
    OUT/validation.jsonl, OUT/test.jsonl  likewise, if the dataset has such a split
    OUT/export.json                       what it was made from

`alignments` holds only the assistant's words, sorted by start, as moshi-finetune's own annotation does: its interleaver
keeps only the main speaker. The user's words are under `user_alignments`, next to ids, licence and form; its loader
ignores unknown keys (https://github.com/kyutai-labs/moshi-finetune, `finetune/data/interleaver.py`).
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_schemas.flags import read_flagged
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from data_schemas.store import create_folder
from pipelines.audio import save_wav

LABEL = {"A": "SPEAKER_MAIN", "B": "SPEAKER_USER"}
_EXPORT = "export.json"


@dataclass(frozen=True, slots=True)
class MoshiFinetuneExport:
    """The exported dialogues by split, their total duration in seconds, and the number of flagged ones excluded."""

    dialogues: dict[str, int]
    audio_s: float
    n_flagged: int


def export_moshi_finetune(folder: str, out: str, on_dialogue: Callable[[], None] = lambda: None) -> MoshiFinetuneExport:
    """Exports a dataset in moshi-finetune's format, without its flagged dialogues.

    `out` is complete at the end, or does not exist.

    Args:
        folder: the dataset.
        out: a folder that does not exist yet.
        on_dialogue: called after each exported dialogue.

    Raises:
        ConfigError: `out` exists already.
        DatasetError: `folder` is not a dataset, or its flags cannot be read.
        StoreError: a shard cannot be read, or `out` cannot be written.
    """
    reader = DatasetReader(folder)
    with create_folder(out) as aside:
        return _write(reader, aside, on_dialogue)


def _write(reader: DatasetReader, folder: Path, on_dialogue: Callable[[], None]) -> MoshiFinetuneExport:
    """Writes the WAV file and the words of each dialogue that is not flagged into a folder, then the lists of both."""
    flags, lines = read_flagged(reader.store), dict[str, list[str]]()
    counts, audio_s, n_flagged = Counter[str](), 0.0, 0
    for dialogue in reader.iterate_dialogues():
        if dialogue.dialogue_id in flags:
            n_flagged += 1
            continue
        name = f"{dialogue.split}/{dialogue.dialogue_id}"
        (folder / dialogue.split).mkdir(exist_ok=True)
        save_wav(dialogue.flac, folder / f"{name}.wav")
        (folder / f"{name}.json").write_text(
            json.dumps(make_alignments(dialogue), ensure_ascii=False), encoding="utf-8"
        )
        lines.setdefault(dialogue.split, []).append(
            json.dumps({"path": f"{name}.wav", "duration": dialogue.duration_s})
        )
        counts[dialogue.split] += 1
        audio_s += dialogue.duration_s
        on_dialogue()
    for split, of_split in lines.items():
        (folder / f"{split}.jsonl").write_text("\n".join(of_split) + "\n", encoding="utf-8")
    made_from = {"format": "moshi-finetune", "fingerprint": reader.manifest.fingerprint, "dialogues": dict(counts)}
    (folder / _EXPORT).write_text(json.dumps(made_from, indent=1) + "\n", encoding="utf-8")
    return MoshiFinetuneExport(dict(counts), round(audio_s, 3), n_flagged)


def make_alignments(dialogue: AudioDialogue) -> dict[str, Any]:
    """Returns the JSON for a dialogue's WAV file: each speaker's words, sorted by start, and where they come from.

    A word is a list [word, [start_s, end_s], label of its speaker].
    """
    words: dict[str, list[Any]] = {"A": [], "B": []}
    for turn in dialogue.turns:
        for utterance in turn.utterances:
            words[turn.speaker] += [
                [word.word, [word.start_s, word.end_s], LABEL[turn.speaker]] for word in utterance.words
            ]
    by_start = {speaker: sorted(said, key=lambda word: word[1]) for speaker, said in words.items()}
    return {
        "alignments": by_start["A"],
        "user_alignments": by_start["B"],
        "dialogue_id": dialogue.dialogue_id,
        "source": dialogue.source,
        "form": dialogue.form,
        "licence": dialogue.licence,
    }
