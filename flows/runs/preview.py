"""Preview of a run: a few short questions through all stages in memory, in about a minute."""

import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.chat.budget import set_run_id
from backends.tts import kokoro_assets
from data_schemas.config import RefreshConfig
from data_schemas.errors import SourceError, StoreError
from data_schemas.reader import dump_dialogue
from data_schemas.records import AudioDialogue, Item, OracleRow, Reject
from data_schemas.store import Store
from pipelines.audio import save_wav
from pipelines.run.execute import join_inputs, run_in_memory
from pipelines.run.stages import CHAT_STAGES, MIXING, NOBODY, ORACLE, SCRIPT, STAGES, build_cpu_stages, describe_stages
from pipelines.sources.items import read_items
from pipelines.stage import StageResult
from spoken.spoken_text import split_words

ROWS_LOOKED_AT = 100
"""Number of rows of each source among which the shortest questions are searched."""

TRIED_PER_DIALOGUE = 3
"""Maximum number of questions that are tried for each dialogue; another is tried if the quality gate rejects one."""


@dataclass(frozen=True, slots=True)
class Previewed:
    """A dialogue with its oracles, and the WAV file that was written for it."""

    dialogue: AudioDialogue
    oracle: OracleRow
    sound_file: str

    def to_json(self) -> dict[str, Any]:
        """Converts it to JSON, with the path of the WAV file instead of the audio."""
        return {**dump_dialogue(self.dialogue, self.oracle), "sound_file": self.sound_file}


@dataclass(frozen=True, slots=True)
class Rejected:
    """The question of a dialogue that a stage rejected, and the reject with its reason."""

    question: str
    reject: Reject


@dataclass(frozen=True, slots=True)
class Preview:
    """The dialogues that were made, and those that were tried and rejected."""

    dialogues: list[Previewed]
    rejected: list[Rejected]

    def count_by_reason(self) -> str:
        """Counts the rejected dialogues, as in "2 by speech misheard, 1 by mixing clipped"."""
        counts = Counter(f"{each.reject.stage} {each.reject.reason}" for each in self.rejected).most_common()
        return ", ".join(f"{n} by {reason}" for reason, n in counts) or "none was rejected"


def preview(config: RefreshConfig, n_dialogues: int) -> Preview:
    """Makes dialogues of the shortest questions that can be spoken, taken from the sources in turn.

    For a dialogue that is rejected, the next question is tried, at most `TRIED_PER_DIALOGUE` for each dialogue. The WAV
    files and the cached answers of the chat model are written to `config.out`.

    Raises:
        SourceError: no item of the sources can be spoken.
        StoreError: the folder cannot be written.
        KameError: another error of a run.
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
    questions = {each.dialogue_id: each.question for each in made[SCRIPT]}
    return Preview(
        [Previewed(row, oracle, _save_wav(row, folder)) for row, oracle in join_inputs([made[MIXING], made[ORACLE]])],
        [Rejected(questions.get(each.dialogue_id or "", each.item_id), each) for each in rejects],
    )


def find_remedy(config: RefreshConfig) -> str:
    """Returns text for the user: why dialogues of a preview are usually rejected, and what to type against it."""
    why = "" if config.gate.asr == NOBODY else "Speech is kept only if a speech recogniser understands it. "
    if "kokoro" in (config.speech.tts, config.speech.tts_b) and not kokoro_assets.has_english_voices():
        return (
            f"{why}The English of the installed voices has an accent that is often misheard. To install English voices "
            f"(this needs Node.js), type: {kokoro_assets.get_fetch_command()}"
        )
    return f"{why}To try other voices and forms of dialogue, add to the command: --seed {config.seed + 1}"


def _run_stages(config: RefreshConfig, n_dialogues: int, answers: str) -> tuple[dict[str, list[Any]], list[Reject]]:
    """Runs all stages, after the scripts on the shortest dialogues only, until enough dialogues are made.

    Returns the results by stage, and the rejects of the dialogues that were tried.

    Args:
        answers: file of the chat model's cached answers.
    """
    made: dict[str, list[Any]] = {"items": _read_items(config)}
    after_script, before_oracle = STAGES.index(SCRIPT) + 1, STAGES.index(ORACLE)
    for name in STAGES[:after_script]:
        made[name] = _run_stage(config, name, made, answers).outputs
    ranked = _rank_shortest(made[SCRIPT])[: n_dialogues * TRIED_PER_DIALOGUE]
    made |= {name: [] for name in STAGES[after_script - 1 :]}
    rejects: list[Reject] = []
    while ranked and (n_missing := n_dialogues - len(made[MIXING])):
        tried = {**made, SCRIPT: ranked[:n_missing]}
        ranked = ranked[n_missing:]
        for name in STAGES[after_script:before_oracle]:
            result = _run_stage(config, name, tried, answers)
            tried[name] = result.outputs
            rejects += result.rejects
        for name in STAGES[after_script - 1 : before_oracle]:
            made[name] = [*made[name], *tried[name]]
    if made[MIXING]:
        result = _run_stage(config, ORACLE, made, answers)
        made[ORACLE] = result.outputs
        rejects += result.rejects
    return made, rejects


def _run_stage(config: RefreshConfig, name: str, made: dict[str, list[Any]], answers: str) -> StageResult[Any]:
    """Runs a stage on the results of earlier ones, and returns its result."""
    batch = join_inputs([made[each] for each in describe_stages(config)[name].inputs])
    if name in CHAT_STAGES:
        return run_in_memory(config, name, batch, answers)
    return build_cpu_stages(config)[name].run(batch)


def _read_items(config: RefreshConfig) -> list[Item]:
    """Reads the items in the first `ROWS_LOOKED_AT` rows of each source, fewer if `config.limit` is lower."""
    limit = min(config.limit or ROWS_LOOKED_AT, ROWS_LOOKED_AT)
    return [item for source in config.sources for item in read_items(source, limit, config.split).items]


def _rank_shortest(dialogues: list[Any]) -> list[Any]:
    """Returns dialogues in order of the length of their first turns, taken from the sources in turn.

    Raises:
        SourceError: there are no dialogues.
    """
    by_source: dict[str, list[Any]] = {}
    for row in sorted(dialogues, key=lambda row: len(split_words(row.turns[0].spoken_text))):
        by_source.setdefault(row.source, []).append(row)
    ranked = sorted((place, source, row) for source, rows in by_source.items() for place, row in enumerate(rows))
    if not ranked:
        raise SourceError("No question of these sources can be spoken.", "`kame refresh` shows the reasons.")
    return [row for _, _, row in ranked]


def _save_wav(row: AudioDialogue, folder: Path) -> str:
    """Writes the audio of a dialogue to a WAV file, and returns its path."""
    path = folder / f"{row.dialogue_id}.wav"
    save_wav(row.flac, path)
    return str(path)
