"""Evaluates recall: whether a free-running front-end says what its oracle tells it, turn by turn on held-out dialogues.

Each dialogue is run with the right oracle at several delays of the back-end, without an oracle, with the oracle of
another dialogue, and with that one until the right one comes in the middle of the answer (a correction). Optionally the
users' audio is degraded, or spoken by other voices. `turns` defines the measures; the files are those of
`report.EvaluationFolder`.
"""

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, get_args

import numpy as np

from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.front_end import RUN
from data_schemas.config.recall import TEST, RecallConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, FRAMES_PER_S
from kame_model.checkpoint.files import digest_files
from kame_model.checkpoint.kame_json import FreeShare, Measure, choose_guesses
from kame_model.checkpoint.load import Checkpoint
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.answers.key_words import extract_words
from kame_model.evaluate.recall.channels import degrade_codes
from kame_model.evaluate.recall.free_running import (
    FreeRun,
    FreeRunScript,
    MakesGenerator,
    make_script,
    plan_batches,
    run_freely,
)
from kame_model.evaluate.recall.items import (
    RecallCondition,
    Record,
    append_silence_to_row,
    check_rows_fit,
    choose_strangers,
    find_same_dialogues,
    get_condition,
    make_record,
    select_rows,
)
from kame_model.evaluate.recall.report import draw_plots, format_markdown
from kame_model.evaluate.recall.turns import GROUPS, AskedDialogue, Turn, find_turns
from kame_model.evaluate.report.folder import EvaluationFolder, write_sound
from kame_model.evaluate.report.held_out import record_test_evaluation
from kame_model.evaluate.report.intervals import compute_figures
from kame_model.model.streaming import FrontEndGen
from kame_model.text.tokenizer import Tokenizer

VERSION: Final = 11
"""Version of runs and measures; raising it makes all items run again."""

KIND: Final = "recall"
OTHER_VOICES: Final = "other voices"

Hearing = Callable[[Samples], Sequence[str]]
"""Recognises the words in a sound at 24 kHz, as they are said (no digits)."""


def evaluate_recall(
    checkpoint: Checkpoint,
    dataset: TokenDataset,
    config: RecallConfig,
    out: str,
    *,
    hear: Hearing | None = None,
    voices: TokenDataset | None = None,
    register: str | None = None,
    again: bool = False,
    anew: bool = False,
    generator: MakesGenerator = FrontEndGen,
    on_batch: Callable[[int], None] = lambda n_dialogues: None,
) -> list[Record]:
    """Runs held-out dialogues freely and writes the results.

    Args:
        checkpoint: the model; it needs its vocabulary and, if audio is recognised, kept or degraded, its codec.
        dataset: token rows encoded with the checkpoint's vocabulary and codec.
        out: a folder; an interrupted evaluation resumes there.
        hear: recogniser of the decoded audio under the right oracle and under none; None: no audio is recognised.
        voices: the same dialogues with other user voices, run with the right oracle.
        register: the checkpoint registry that counts evaluations on the split `test`; None: the checkpoint's parent
            folder.
        again: evaluate on the split `test` even if these weights have been evaluated on it before.
        anew: replace the items of another evaluation in `out`.
        generator: runs the front-end.
        on_batch: progress callback; gets the number of dialogues of each batch, finished now or in an earlier run.

    Returns:
        The rows of figures.json.

    Raises:
        ConfigError: vocabulary, codec and rows do not match, no row can be judged, these weights have been evaluated
            on `test` before, or `out` holds another evaluation.
        BackendError: vocabulary or codec cannot be loaded.
        StoreError: the weights cannot be read, or a file cannot be written.
    """
    for rows_of in (dataset, voices):
        if rows_of is not None:
            check_rows_fit(checkpoint, rows_of)
    as_served = {
        "sampling": checkpoint.choose_sampling(config.sampling),
        "guesses": choose_guesses(checkpoint.facts, config.guesses),
    }
    config = config.model_copy(update=as_served)
    tokenizer = checkpoint.load_tokenizer()
    wait = partial(append_silence_to_row, n_frames=round(config.silence_after_s * FRAMES_PER_S))
    asked = find_turns(list(map(wait, select_rows(dataset, config))), tokenizer)
    if not asked:
        raise ConfigError(
            f"{dataset.folder} has no dialogue in {', '.join(config.splits)} with an answer and its oracle.",
            "Choose other splits, or encode a dataset with oracles.",
        )
    others = [] if voices is None else find_turns(list(map(wait, find_same_dialogues(asked, voices))), tokenizer)
    run = _describe(checkpoint, dataset, voices, config, hear is not None)
    needs_codec = hear is not None or config.n_sounds > 0 or bool(config.channels)
    codec = checkpoint.load_codec(str(checkpoint.front_end.lm.device)) if needs_codec else None
    folder, conditions = EvaluationFolder(out, run, anew=anew), _list_conditions(config, voices is not None)
    n_test_evaluations = None
    if TEST in config.splits:
        asked_for, place = config.model_dump(mode="json"), checkpoint.place.folder
        n_test_evaluations = record_test_evaluation(
            run, asked_for, dataset.fingerprint, place, register=register, again=again
        )
    running = _ConditionRunner(checkpoint, tokenizer, config, codec, hear, generator, folder, out, on_batch)
    records = []
    for each in conditions:
        records += running.run(each, others if each.channel == OTHER_VOICES else asked)
    rows = make_rows(records, conditions)
    more = {
        "checkpoint": str(checkpoint.place.name),
        "looks_at_test": n_test_evaluations,
        "n_without_other_voices": None if voices is None else len(asked) - len(others),
        "costs": _add_up_costs(records),
    }
    plots = draw_plots(rows)
    folder.write_results(rows, format_markdown(run, rows, records, more, plots), plots, more)
    return rows


def _list_conditions(config: RecallConfig, has_voices: bool) -> list[RecallCondition]:
    """Returns the conditions (oracle, delay, channel) in the order of the table."""
    found = list[RecallCondition]()
    for oracle in config.oracles:
        if oracle == "right":
            beside = [config.delay_s] if config.channels or has_voices else []  # the baseline for channels
            found += [RecallCondition(oracle, delay_s, None) for delay_s in sorted({*config.delays_s, *beside})]
        else:
            found.append(RecallCondition(oracle, None if oracle == "none" else config.delay_s, None))
    channels = [*config.channels, *([OTHER_VOICES] if has_voices else [])]
    return found + [RecallCondition("right", config.delay_s, channel) for channel in channels]


@dataclass(frozen=True, slots=True)
class _ConditionRunner:
    """Runs dialogues under a condition (`run`), and writes their records after each batch."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    config: RecallConfig
    codec: Codec | None
    hear: Hearing | None
    generator: MakesGenerator
    folder: EvaluationFolder
    out: str
    on_batch: Callable[[int], None]
    recorded_heard: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def run(self, condition: RecallCondition, asked: Sequence[AskedDialogue]) -> list[Record]:
        """Returns the records of a condition, including those finished in an earlier run."""
        pairs: list[tuple[AskedDialogue, AskedDialogue | None]] = [(each, None) for each in asked]
        if condition.has_stranger:  # a wrong oracle and a correction apply to one turn only
            strangers = zip(asked, choose_strangers(asked), strict=True)
            pairs = [(each._replace(turns=each.turns[:1]), other) for each, other in strangers if other is not None]
        with_sound = {each.row.dialogue_id for each in asked[: self.config.n_sounds]}
        if condition.delay_s not in (None, self.config.delay_s):
            with_sound = set()  # only one delay of the right oracle
        batches = plan_batches([each.row.n_frames for each, _ in pairs], self.config.batch_size)
        for number, batch in enumerate(batches):
            group = [pairs[at] for at in batch]
            if not all(item in self.folder for each, _ in group for item in _name_items(condition, each)):
                self._run_batch(condition, number, group, with_sound)
            self.on_batch(len(group))
        return [self.folder[item] for each, _ in pairs for item in _name_items(condition, each)]

    def _run_batch(
        self,
        condition: RecallCondition,
        number: int,
        group: Sequence[tuple[AskedDialogue, AskedDialogue | None]],
        with_sound: Container[str],
    ) -> None:
        """Runs the dialogues of a batch, and stores the records that are missing, and audio if it is wanted."""
        began_s = time.monotonic()
        scripts = [self._make_script(condition, *pair) for pair in group]
        seed = ids.derive_seed("recall", self.config.seed, number) % 2**63  # equal in all conditions, to compare them
        runs = run_freely(self.checkpoint.front_end, scripts, self.config.sampling, seed, generator=self.generator)
        run_s = round((time.monotonic() - began_s) / len(group), 3)
        for (asked, stranger), script, ran in zip(group, scripts, runs, strict=True):
            if asked.row.dialogue_id in with_sound:
                assert self.codec is not None
                voices = [self.codec.decode(np.ascontiguousarray(codes)) for codes in (ran.own, script.other)]
                write_sound(self.out, f"{asked.row.dialogue_id}-{condition.name}", *voices)
            for turn, item in zip(asked.turns, _name_items(condition, asked), strict=True):
                if item not in self.folder:
                    heard, recorded = (None, None) if stranger else self._recognise_turn(asked, turn, ran)
                    after_s = self.config.correction_after_s
                    record = make_record(
                        asked, turn, stranger, ran, condition, heard, recorded, self.tokenizer, after_s
                    )
                    self.folder.keep(item, record | {"run_s": run_s if turn is asked.turn else 0.0})

    def _make_script(
        self, condition: RecallCondition, asked: AskedDialogue, stranger: AskedDialogue | None
    ) -> FreeRunScript:
        """Makes the script of a dialogue under a condition, with the user's audio through the condition's channel."""
        other: Codes | None = None
        if condition.channel not in (None, OTHER_VOICES):
            assert self.codec is not None
            seed = ids.derive_seed("channel", self.config.seed, asked.row.dialogue_id) % 2**63
            other = degrade_codes(asked.row.b.codes, condition.channel, self.codec, seed)  # type: ignore[arg-type]
        delay_s, after_s = condition.delay_s or 0.0, self.config.correction_after_s
        guesses = choose_guesses(self.checkpoint.facts, self.config.guesses)
        return make_script(asked, stranger, condition.oracle, delay_s, after_s, self.tokenizer, other, guesses)

    def _recognise_turn(
        self, asked: AskedDialogue, turn: Turn, ran: FreeRun
    ) -> tuple[list[str] | None, list[str] | None]:
        """Returns the words that are recognised in a turn of the model's audio, and of the recording's.

        Both are None if there is no recogniser.
        """
        if self.hear is None or self.codec is None:
            return None, None
        place = (asked.row.dialogue_id, turn.number)
        if place not in self.recorded_heard:
            self.recorded_heard[place] = self._hear(asked.row.a.codes, turn)
        return self._hear(ran.own, turn), self.recorded_heard[place]

    def _hear(self, codes: Codes, turn: Turn) -> list[str]:
        """Decodes the codes of a dialogue, and returns the words that are recognised in one turn."""
        assert self.hear is not None
        assert self.codec is not None
        sound = self.codec.decode(np.ascontiguousarray(codes))
        return extract_words(" ".join(self.hear(sound[turn.start * FRAME_N_SAMPLES : turn.end * FRAME_N_SAMPLES])))


def _name_items(condition: RecallCondition, asked: AskedDialogue) -> list[str]:
    """Returns the names of the items of a dialogue, one for each turn."""
    return [f"{condition.name}/{asked.row.dialogue_id}/{turn.number}" for turn in asked.turns]


def make_rows(records: Sequence[Record], conditions: Sequence[RecallCondition]) -> list[Record]:
    """Returns a row of figures for each condition and group that have records, in order."""
    keys = [{**condition._asdict(), "group": group} for condition in conditions for group in GROUPS]
    found = [(key, [each for each in records if each["row"] == key]) for key in keys]
    return [key | compute_figures(own) for key, own in found if own]


def list_free_shares(rows: Sequence[Record]) -> list[FreeShare]:
    """Returns the shares for `kame.json` and the model card: original user audio, answer not in the question.

    They are those of all `Measure`s that a row has; `said_stranger` only with the wrong oracle.
    """
    shares = []
    for row in rows:
        for measure in get_args(Measure):
            value, interval = row.get(measure), row.get(f"{measure}_interval")
            is_own = row["channel"] is None and (measure != "said_stranger" or row["oracle"] == "wrong")
            if is_own and row["group"] == GROUPS[0] and value is not None and interval is not None:
                of: int = row.get(f"{measure}_n") or row["n"]
                what = {"measure": measure, "oracle": row["oracle"], "delay_s": row["delay_s"], "group": row["group"]}
                shares.append(FreeShare(**what, n=round(value * of), of=of, low=interval[0], high=interval[1]))
    return shares


def format_row(row: Record) -> str:
    """Formats a row as one line for the terminal."""
    names = {"said_once": "once", "right_first": "first", "said": "said", "said_stranger": "the other's",
             "said_at_last": "right at last", "heard": "heard"}  # fmt: skip
    figures = (f"{what} {row[name]:.0%}" for name, what in names.items() if row.get(name) is not None)
    return f"{get_condition(row).title}, {row['group']} ({row['n']}): {', '.join(figures)}"


def count_dialogues(dataset: TokenDataset, config: RecallConfig, voices: TokenDataset | None) -> int:
    """Returns the maximum number of runs of dialogues over all conditions, for a progress bar."""
    n = min(config.n_items, sum(each in config.splits for each in dataset.splits))
    return n * len(_list_conditions(config, voices is not None))


def _describe(
    checkpoint: Checkpoint, dataset: TokenDataset, voices: TokenDataset | None, config: RecallConfig, listens: bool
) -> Record:
    """Returns everything that affects an item's result, as `report.folder` requires it."""
    return {
        "kind": KIND,
        "version": VERSION,
        "seed": config.seed,
        "system": {
            "name": _get_name(checkpoint),
            "checkpoint": digest_files([checkpoint.contents.weights]),
            "back_end": None,
            "sampling": config.sampling.model_dump(mode="json"),
        },
        "dataset": dataset.fingerprint,
        "voices": None if voices is None else voices.fingerprint,
        "splits": sorted(config.splits),
        "n_items": config.n_items,  # like the batch size it decides which dialogues share a batch
        "items_seed": config.items_seed,
        "correction_after_s": config.correction_after_s,
        "silence_after_s": config.silence_after_s,
        "guesses": config.guesses,
        "batch_size": config.batch_size,  # which decides the sampled tokens
        "listens": listens,
    }


def _get_name(checkpoint: Checkpoint) -> str:
    """Returns the folder's name; for a training run, whose folder always has the same name, with its parents' names."""
    path = Path(str(checkpoint.place.name))
    return "/".join(path.parts[-3:]) if path.name == RUN else path.name


def _add_up_costs(records: Sequence[Record]) -> Record:
    """Returns the total time of the runs, and the total duration of the dialogues that were run, in seconds."""
    run_s = sum(each["run_s"] for each in records)
    n_frames = sum(each["n_frames"] for each in records if each["run_s"])
    return {"run_s": round(run_s, 1), "dialogue_s": round(n_frames * FRAME_S, 1)}
