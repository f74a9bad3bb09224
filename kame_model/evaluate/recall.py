"""Does a front-end say what its oracle tells it? Held-out dialogues, run freely, judged turn by turn.

Each dialogue is run under the right oracle with several delays of the back-end, without an oracle, under another
dialogue's, and under that one until the right one comes in the middle of the answer; at wish with the users' sound made
worse, or said by other voices. `turns` has what is counted; the files are those of `report.EvaluationFolder`.
"""

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

import numpy as np

from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.front_end import RUN
from data_schemas.config.recall import TEST, RecallConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.checkpoint.files import digest_files
from kame_model.checkpoint.kame_json import FreeShare, Measure
from kame_model.checkpoint.load import Checkpoint
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.channels import send_through
from kame_model.evaluate.free_running import (
    FreeRun,
    MakesGenerator,
    Script,
    plan_batches,
    run_freely,
    script_for,
)
from kame_model.evaluate.intervals import figures_of
from kame_model.evaluate.key_words import words_of
from kame_model.evaluate.looks import note_look_at_test
from kame_model.evaluate.recall_items import (
    Condition,
    Record,
    condition_of,
    make_record,
    same_dialogues,
    select_rows,
    strangers_of,
)
from kame_model.evaluate.recall_report import as_markdown, draw_plots
from kame_model.evaluate.report import EvaluationFolder, write_sound
from kame_model.evaluate.turns import GROUPS, Asked, Turn, find_turns
from kame_model.model.streaming import FrontEndGen
from kame_model.text.tokenizer import Tokenizer

VERSION: Final = 5
"""Of what a run and its judgement come to; raising it has all items run again."""

KIND: Final = "recall"
OTHER_VOICES: Final = "other voices"

Hearing = Callable[[Samples], Sequence[str]]
"""A sound at 24 kHz to the words heard in it, as they are said (digits read out)."""


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
    """Runs held-out dialogues and writes what came of them.

    Args:
        checkpoint: with vocabulary and, where sound is listened to, kept or made worse, codec.
        dataset: encoded with the checkpoint's vocabulary and codec.
        out: a folder; dialogues that this evaluation had finished there are not run again.
        hear: listens to the decoded sound of what is said with the right oracle and with none; None: nobody does.
        voices: the same dialogues with other users' voices, run with the right oracle.
        register: the folder of checkpoints where looks at the split `test` are counted; None: the checkpoint's own.
        again: look at the split `test` though somebody has looked before.
        anew: replace what another evaluation left in `out`.
        generator: how the front-end is run.
        on_batch: told of each batch how many dialogues it held.

    Returns:
        The rows of figures.json.

    Raises:
        ConfigError: vocabulary, codec and rows do not belong together, no row can be judged, `test` has been looked at
            before, or `out` holds another evaluation.
        StoreError: the weights cannot be read, or a file cannot be written.
    """
    for rows_of in (dataset, voices):
        if rows_of is not None:
            _check_belongs(checkpoint, rows_of)
    config = config.model_copy(update={"sampling": checkpoint.sampling(config.sampling)})
    tokenizer = checkpoint.tokenizer()
    asked = find_turns(select_rows(dataset, config), tokenizer)
    if not asked:
        raise ConfigError(
            f"{dataset.folder} has no dialogue in {', '.join(config.splits)} with an answer and its oracle.",
            "Choose other splits, or encode a dataset with oracles.",
        )
    others = [] if voices is None else find_turns(same_dialogues(asked, voices), tokenizer)
    run = _describe(checkpoint, dataset, voices, config, hear is not None)
    needs_codec = hear is not None or config.n_sounds > 0 or bool(config.channels)
    codec = checkpoint.codec(str(checkpoint.front_end.lm.device)) if needs_codec else None
    folder, conditions = EvaluationFolder(out, run, anew=anew), _list_conditions(config, voices is not None)
    looks = None
    if TEST in config.splits:
        asked_for, place = config.model_dump(mode="json"), checkpoint.place.folder
        looks = note_look_at_test(run, asked_for, dataset.fingerprint, place, register=register, again=again)
    running = _Running(checkpoint, tokenizer, config, codec, hear, generator, folder, out, on_batch)
    records = []
    for each in conditions:
        records += running.run(each, others if each.channel == OTHER_VOICES else asked)
    rows = make_rows(records, conditions)
    more = {
        "checkpoint": str(checkpoint.place.name),
        "looks_at_test": looks,
        "n_without_other_voices": None if voices is None else len(asked) - len(others),
        "costs": _add_up_costs(records),
    }
    plots = draw_plots(rows)
    folder.write_results(rows, as_markdown(run, rows, records, more, plots), plots, more)
    return rows


def _list_conditions(config: RecallConfig, has_voices: bool) -> list[Condition]:
    """What the dialogues are run under, in the order of the table."""
    found = list[Condition]()
    for oracle in config.oracles:
        if oracle == "right":
            beside = [config.delay_s] if config.channels or has_voices else []  # what channels are compared with
            found += [Condition(oracle, delay_s, None) for delay_s in sorted({*config.delays_s, *beside})]
        else:
            found.append(Condition(oracle, None if oracle == "none" else config.delay_s, None))
    channels = [*config.channels, *([OTHER_VOICES] if has_voices else [])]
    return found + [Condition("right", config.delay_s, channel) for channel in channels]


@dataclass(frozen=True, slots=True)
class _Running:
    """Runs dialogues under one condition after the other, and keeps batch by batch what came of them."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    config: RecallConfig
    codec: Codec | None
    hear: Hearing | None
    generator: MakesGenerator
    folder: EvaluationFolder
    out: str
    on_batch: Callable[[int], None]

    def run(self, condition: Condition, asked: Sequence[Asked]) -> list[Record]:
        """The records of a condition, those that were finished before among them."""
        pairs: list[tuple[Asked, Asked | None]] = [(each, None) for each in asked]
        if condition.has_stranger:  # another's oracle, and a correction, are of one turn alone
            strangers = zip(asked, strangers_of(asked), strict=True)
            pairs = [(each._replace(turns=each.turns[:1]), other) for each, other in strangers if other is not None]
        with_sound = {each.row.dialogue_id for each in asked[: self.config.n_sounds]}
        if condition.delay_s not in (None, self.config.delay_s):
            with_sound = set()  # of the right oracle's many delays one
        batches = plan_batches([each.row.n_frames for each, _ in pairs], self.config.batch_size)
        for number, batch in enumerate(batches):
            group = [pairs[at] for at in batch]
            if not all(item in self.folder for each, _ in group for item in _items(condition, each)):
                self._run_batch(condition, number, group, with_sound)
            self.on_batch(len(group))
        return [self.folder[item] for each, _ in pairs for item in _items(condition, each)]

    def _run_batch(
        self,
        condition: Condition,
        number: int,
        group: Sequence[tuple[Asked, Asked | None]],
        with_sound: Container[str],
    ) -> None:
        began_s = time.monotonic()
        scripts = [self._script(condition, *pair) for pair in group]
        seed = ids.seed_for("recall", self.config.seed, condition.name, number) % 2**63
        runs = run_freely(self.checkpoint.front_end, scripts, self.config.sampling, seed, generator=self.generator)
        run_s = round((time.monotonic() - began_s) / len(group), 3)
        for (asked, stranger), script, ran in zip(group, scripts, runs, strict=True):
            if asked.row.dialogue_id in with_sound:
                assert self.codec is not None
                voices = [self.codec.decode(np.ascontiguousarray(codes)) for codes in (ran.own, script.other)]
                write_sound(self.out, f"{asked.row.dialogue_id}-{condition.name}", *voices)
            for turn, item in zip(asked.turns, _items(condition, asked), strict=True):
                if item not in self.folder:
                    heard = self._listen(condition, turn, ran)
                    after_s = self.config.correction_after_s
                    record = make_record(asked, turn, stranger, ran, condition, heard, self.tokenizer, after_s)
                    self.folder.keep(item, record | {"run_s": run_s if turn is asked.turn else 0.0})

    def _script(self, condition: Condition, asked: Asked, stranger: Asked | None) -> Script:
        other: Codes | None = None
        if condition.channel not in (None, OTHER_VOICES):
            assert self.codec is not None
            seed = ids.seed_for("channel", self.config.seed, asked.row.dialogue_id) % 2**63
            other = send_through(asked.row.b.codes, condition.channel, self.codec, seed)  # type: ignore[arg-type]
        delay_s, after_s = condition.delay_s or 0.0, self.config.correction_after_s
        return script_for(asked, stranger, condition.oracle, delay_s, after_s, self.tokenizer, other)

    def _listen(self, condition: Condition, turn: Turn, ran: FreeRun) -> list[str] | None:
        """What a recogniser hears of a turn, where there is one; of a wrong oracle nobody wants to know."""
        if self.hear is None or self.codec is None or condition.has_stranger:
            return None
        sound = self.codec.decode(ran.own)[turn.start * FRAME_N_SAMPLES : turn.end * FRAME_N_SAMPLES]
        return words_of(" ".join(self.hear(sound)))


def _items(condition: Condition, asked: Asked) -> list[str]:
    """Names of what is kept of a dialogue's turns."""
    return [f"{condition.name}/{asked.row.dialogue_id}/{turn.number}" for turn in asked.turns]


def make_rows(records: Sequence[Record], conditions: Sequence[Condition]) -> list[Record]:
    """A row of figures a condition and group, in their order."""
    keys = [{**condition._asdict(), "group": group} for condition in conditions for group in GROUPS]
    found = [(key, [each for each in records if each["row"] == key]) for key in keys]
    return [key | figures_of(own) for key, own in found if own]


def list_free_shares(rows: Sequence[Record]) -> list[FreeShare]:
    """What `kame.json` and the card tell: shares with users' sound as recorded, answers in the question left out."""
    shares = []
    for row in rows:
        for measure in get_args(Measure):
            value, interval = row.get(measure), row.get(f"{measure}_interval")
            if row["channel"] is None and row["group"] == GROUPS[0] and value is not None and interval is not None:
                of: int = row.get(f"{measure}_n") or row["n"]
                what = {"measure": measure, "oracle": row["oracle"], "delay_s": row["delay_s"], "group": row["group"]}
                shares.append(FreeShare(**what, n=round(value * of), of=of, low=interval[0], high=interval[1]))
    return shares


def tell_row(row: Record) -> str:
    """A row in a line, for a terminal."""
    names = {"said_once": "once", "right_first": "first", "said": "said", "said_stranger": "the other's",
             "said_at_last": "right at last", "heard": "heard"}  # fmt: skip
    figures = (f"{what} {row[name]:.0%}" for name, what in names.items() if row.get(name) is not None)
    return f"{condition_of(row).title}, {row['group']} ({row['n']}): {', '.join(figures)}"


def count_dialogues(dataset: TokenDataset, config: RecallConfig, voices: TokenDataset | None) -> int:
    """How many dialogues are run at most, each as often as it is, for a progress bar."""
    n = min(config.n_items, sum(each in config.splits for each in dataset.splits))
    return n * len(_list_conditions(config, voices is not None))


def _check_belongs(checkpoint: Checkpoint, dataset: TokenDataset) -> None:
    """Looks whether rows can be run by a checkpoint.

    Raises:
        ConfigError: they are of another vocabulary or codec.
    """
    front_end, facts = checkpoint.front_end, checkpoint.facts
    for what, ours, theirs in (
        ("size of vocabulary", front_end.text_card, dataset.text_card),
        ("size of codebooks", front_end.card, dataset.layout.card),
        ("number of codebooks", front_end.n_codebooks, dataset.layout.n_codebooks),
        ("vocabulary", facts and facts.tokenizer_digest, dataset.tokenizer_digest),
        ("codec", facts and facts.codec_digest, dataset.codec_digest),
    ):
        if ours not in (None, theirs):
            raise ConfigError(
                f"{dataset.folder} was encoded with another {what} ({theirs}) than {checkpoint.place.name} has "
                f"({ours}).",
                "Encode the dataset with the checkpoint's own vocabulary and codec.",
            )


def _describe(
    checkpoint: Checkpoint, dataset: TokenDataset, voices: TokenDataset | None, config: RecallConfig, listens: bool
) -> Record:
    """All that decides what comes of an item, as `report` wants it."""
    return {
        "kind": KIND,
        "version": VERSION,
        "seed": config.seed,
        "system": {
            "name": _name_of(checkpoint),
            "checkpoint": digest_files([checkpoint.contents.weights]),
            "back_end": None,
            "sampling": config.sampling.model_dump(mode="json"),
        },
        "dataset": dataset.fingerprint,
        "voices": None if voices is None else voices.fingerprint,
        "splits": sorted(config.splits),
        "n_items": config.n_items,  # decides, as the batch size does, who is run beside whom
        "items_seed": config.items_seed,
        "correction_after_s": config.correction_after_s,
        "batch_size": config.batch_size,  # and that decides what is drawn
        "listens": listens,
    }


def _name_of(checkpoint: Checkpoint) -> str:
    """The folder's name; of a training run, which is always called the same, also those that it lies in."""
    path = Path(str(checkpoint.place.name))
    return "/".join(path.parts[-3:]) if path.name == RUN else path.name


def _add_up_costs(records: Sequence[Record]) -> Record:
    run_s = sum(each["run_s"] for each in records)
    n_frames = sum(each["n_frames"] for each in records if each["run_s"])
    return {"run_s": round(run_s, 1), "dialogue_s": round(n_frames * FRAME_S, 1)}
