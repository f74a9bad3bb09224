"""Preview of a run: a few short questions through all stages in memory, in about a minute."""

import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.chat.budget import set_run_id
from data_schemas.config import RefreshConfig
from data_schemas.errors import KameError, SourceError, StoreError
from data_schemas.reader import dump_dialogue
from data_schemas.records import AudioDialogue, Item, OracleRow, Reject
from data_schemas.store import Store
from pipelines.audio import save_wav
from pipelines.run.execute import join_inputs, run_in_memory
from pipelines.run.stages import CHAT_STAGES, MIXING, ORACLE, SCRIPT, build_cpu_stages, describe_stages
from pipelines.sources.items import read_items
from spoken.spoken_text import split_words

ROWS_LOOKED_AT = 100
"""Number of rows of each source among which the shortest questions are searched."""


@dataclass(frozen=True, slots=True)
class Previewed:
    """A dialogue with its oracles, and the WAV file that was written for it."""

    dialogue: AudioDialogue
    oracle: OracleRow
    sound_file: str

    def to_json(self) -> dict[str, Any]:
        """Converts it to JSON, with the path of the WAV file instead of the audio."""
        return {**dump_dialogue(self.dialogue, self.oracle), "sound_file": self.sound_file}


def preview(config: RefreshConfig, n_dialogues: int) -> list[Previewed]:
    """Makes dialogues of the shortest questions that can be spoken, taken from the sources in turn.

    The WAV files and the cached answers of the chat model are written to `config.out`. Rejected dialogues are missing.

    Raises:
        SourceError: no item of the sources can be spoken.
        StoreError: the folder cannot be written.
        KameError: every dialogue was rejected, or another error of a run.
    """
    Store(config.out)  # complains of a place that is no local folder
    folder = Path(config.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot write to {folder}: {error.strerror or error}.", "Choose another --out.") from error
    shown = config.oracle.model_copy(update={"max_failed_share": 1.0})  # failed events are worth seeing here
    config = config.model_copy(update={"oracle": shown})
    with set_run_id(f"preview-{uuid.uuid4().hex[:12]}"):  # a budget of its own
        made, rejects = _run_stages(config, n_dialogues, str(folder / "answers.sqlite"))
    whole = join_inputs([made[MIXING], made[ORACLE]])
    if not whole:
        raise _make_empty_error(rejects)
    return [Previewed(row, oracle, _save_wav(row, folder)) for row, oracle in whole]


def _run_stages(config: RefreshConfig, n_dialogues: int, answers: str) -> tuple[dict[str, list[Any]], list[Reject]]:
    """Runs all stages, after the scripts on the shortest dialogues only.

    Returns the results by stage, and the rejects of the chosen dialogues.

    Args:
        answers: file of the chat model's cached answers.
    """
    made: dict[str, list[Any]] = {"items": _read_items(config)}
    rejects: list[Reject] = []
    for name, stage in describe_stages(config).items():
        batch = join_inputs([made[each] for each in stage.inputs])
        if name in CHAT_STAGES:
            result = run_in_memory(config, name, batch, answers)
        else:
            result = build_cpu_stages(config)[name].run(batch)
        made[name] = _choose_shortest(result.outputs, n_dialogues) if name == SCRIPT else result.outputs
        rejects = [] if name == SCRIPT else [*rejects, *result.rejects]  # questions that nobody chose do not count
    return made, rejects


def _make_empty_error(rejects: list[Reject]) -> KameError:
    """Makes the error of a preview without any dialogue; it says how many each stage rejected, and why."""
    counts = Counter(f"{each.stage} {each.reason}" for each in rejects).most_common()
    refused = ", ".join(f"{n} by {reason}" for reason, n in counts) or "none was rejected"
    first = f"The first one: {rejects[0].detail}. " if rejects else ""
    return KameError(f"All dialogues were rejected: {refused}.", f"{first}Try more dialogues (--n) or other settings.")


def _read_items(config: RefreshConfig) -> list[Item]:
    """Reads at most `ROWS_LOOKED_AT` items of each source, fewer if the configuration has a lower limit."""
    limit = min(config.limit or ROWS_LOOKED_AT, ROWS_LOOKED_AT)
    return [item for source in config.sources for item in read_items(source, limit, config.split).items]


def _choose_shortest(dialogues: list[Any], n: int) -> list[Any]:
    """Returns up to `n` dialogues with the shortest first turns, taken from the sources in turn.

    Raises:
        SourceError: there are no dialogues.
    """
    by_source: dict[str, list[Any]] = {}
    for row in sorted(dialogues, key=lambda row: len(split_words(row.turns[0].spoken_text))):
        by_source.setdefault(row.source, []).append(row)
    ranked = sorted((place, source, row) for source, rows in by_source.items() for place, row in enumerate(rows[:n]))
    if not ranked:
        raise SourceError("No question of these sources can be spoken.", "`kame refresh` shows the reasons.")
    return [row for _, _, row in ranked[:n]]


def _save_wav(row: AudioDialogue, folder: Path) -> str:
    """Writes the audio of a dialogue to a WAV file, and returns its path."""
    path = folder / f"{row.dialogue_id}.wav"
    save_wav(row.flac, path)
    return str(path)
