"""Does a front-end say what its oracle tells it? Held-out dialogues, run freely, judged turn by turn.

Each dialogue is run under the right oracle with several delays of the back-end, without an oracle, under another
dialogue's, and under that one until the right one comes in the middle of the answer; at wish with the users' sound made
worse, or said by other voices. `turns` has what is counted; the files are those of `report.EvaluationFolder`.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, get_args

import numpy as np

from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.front_end import RUN
from data_schemas.config.recall import TEST, RecallConfig, Told
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.checkpoint.folder import digest_files
from kame_model.checkpoint.kame_json import FreeShare, Measure
from kame_model.checkpoint.load import Checkpoint
from kame_model.checkpoint.registry import Look, note_look
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
from kame_model.evaluate.recall_items import (
    Asked,
    Record,
    find_turns,
    make_record,
    same_dialogues,
    select_rows,
    strangers_of,
)
from kame_model.evaluate.recall_report import as_markdown, draw_plots
from kame_model.evaluate.report import EvaluationFolder, write_sound
from kame_model.evaluate.turns import GROUPS, Turn
from kame_model.model.streaming import FrontEndGen
from kame_model.text.tokenizer import Tokenizer

VERSION: Final = 3
"""Of what a run and its judgement come to; raising it has all items run again."""

KIND: Final = "recall"
OTHER_VOICES: Final = "other voices"

Hearing = Callable[[Samples], Sequence[str]]
"""A sound at 24 kHz to the words heard in it, as they are said (digits read out)."""


@dataclass(frozen=True, slots=True)
class Run:
    """What all dialogues are run under once: a line of the table. `channel` is None where all is as recorded."""

    oracle: Told
    delay_s: float | None
    channel: str | None

    @property
    def key(self) -> Record:
        """The fields of its rows."""
        return {"oracle": self.oracle, "delay_s": self.delay_s, "channel": self.channel}

    @property
    def name(self) -> str:
        """For files and items."""
        delay = "" if self.delay_s is None else f"-{self.delay_s:g}-s"
        channel = "" if self.channel is None else f"-{self.channel.replace(' ', '-')}"
        return f"{self.oracle}{delay}{channel}"


@dataclass(frozen=True, slots=True)
class _Setup:
    """What all runs share."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    config: RecallConfig
    codec: Codec | None
    hear: Hearing | None
    generator: MakesGenerator
    out: str


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
    generator: MakesGenerator = FrontEndGen,
    on_batch: Callable[[int], None] = lambda n_dialogues: None,
) -> list[Record]:
    """Runs held-out dialogues and writes what came of them.

    Args:
        checkpoint: with vocabulary and, where sound is listened to, kept or made worse, codec.
        dataset: encoded with the checkpoint's vocabulary and codec.
        out: a folder; dialogues that this evaluation had finished there are not run again.
        hear: listens to the decoded sound of all runs with the right oracle; None: nobody does.
        voices: the same dialogues with other users' voices, run with the right oracle.
        register: the folder of checkpoints where looks at the split `test` are counted; None: the checkpoint's own.
        again: look at the split `test` though somebody has looked before.
        generator: how the front-end is run.
        on_batch: told of each batch how many dialogues it held.

    Returns:
        The rows of figures.json.

    Raises:
        ConfigError: vocabulary, codec and rows do not belong together, no row can be judged, or `test` has been looked
            at before.
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
    looks = _note_look(checkpoint, dataset, config, run, register, again)
    needs_codec = hear is not None or config.n_sounds > 0 or bool(config.channels)
    codec = checkpoint.codec(str(checkpoint.front_end.lm.device)) if needs_codec else None
    setup = _Setup(checkpoint, tokenizer, config, codec, hear, generator, out)
    folder, runs = EvaluationFolder(out, run), list(_runs(config, voices is not None))
    records = []
    for each in runs:
        records += _run(setup, each, others if each.channel == OTHER_VOICES else asked, folder, on_batch)
    rows = make_rows(records, runs)
    more = {
        "checkpoint": str(checkpoint.place.name),
        "looks_at_test": looks,
        "n_without_other_voices": None if voices is None else len(asked) - len(others),
        "costs": _costs(records),
    }
    folder.write_results(rows, as_markdown(run, rows, records, more), dict(draw_plots(rows)), more)
    return rows


def _runs(config: RecallConfig, has_voices: bool) -> Iterator[Run]:
    for oracle in config.oracles:
        if oracle == "right":
            beside = [config.delay_s] if config.channels or has_voices else []  # what channels are compared with
            yield from (Run(oracle, delay_s, None) for delay_s in sorted({*config.delays_s, *beside}))
        else:
            yield Run(oracle, None if oracle == "none" else config.delay_s, None)
    yield from (Run("right", config.delay_s, channel) for channel in config.channels)
    if has_voices:
        yield Run("right", config.delay_s, OTHER_VOICES)


def _run(
    setup: _Setup, run: Run, asked: Sequence[Asked], folder: EvaluationFolder, on_batch: Callable[[int], None]
) -> list[Record]:
    """The records of a run, those that are finished and the others'; they are kept batch by batch."""
    strangers: Sequence[Asked | None] = [None] * len(asked)
    pairs = list(zip(asked, strangers, strict=True))
    if run.oracle in ("wrong", "corrected"):
        pairs = [pair for pair in zip(asked, strangers_of(asked), strict=True) if pair[1] is not None]
    with_sound = {each.row.dialogue_id for each in asked[: setup.config.n_sounds]}
    for number, batch in enumerate(plan_batches([each.row.n_frames for each, _ in pairs], setup.config.batch_size)):
        group = [pairs[at] for at in batch]
        if not all(_item(run, each, turn) in folder for each, _ in group for turn in _judged(run, each)):
            began_s = time.monotonic()
            scripts = [_script(setup, run, *pair) for pair in group]
            seed = ids.seed_for("recall", setup.config.seed, run.name, number) % 2**63
            freely = run_freely(
                setup.checkpoint.front_end, scripts, setup.config.sampling, seed, generator=setup.generator
            )
            run_s = (time.monotonic() - began_s) / len(group)
            for (each, stranger), script, ran in zip(group, scripts, freely, strict=True):
                if each.row.dialogue_id in with_sound and _keeps_sound(setup, run):
                    assert setup.codec is not None
                    voices = [setup.codec.decode(np.ascontiguousarray(codes)) for codes in (ran.own, script.other)]
                    write_sound(setup.out, f"{each.row.dialogue_id}-{run.name}", *voices)
                for turn in _judged(run, each):
                    if (item := _item(run, each, turn)) not in folder:
                        cost = {"run_s": round(run_s, 3) if turn is each.turn else 0.0}
                        heard = _listen(setup, run, turn, ran)
                        record = make_record(each, turn, stranger, ran, run.key, heard, setup.tokenizer)
                        folder.keep(item, record | cost)
        on_batch(len(group))
    return [folder[_item(run, each, turn)] for each, _ in pairs for turn in _judged(run, each)]


def _listen(setup: _Setup, run: Run, turn: Turn, ran: FreeRun) -> list[str] | None:
    """What a recogniser hears of a turn, where there is one and the model should know the answer."""
    if setup.hear is None or setup.codec is None or run.oracle != "right":
        return None
    sound = setup.codec.decode(ran.own)[turn.start * FRAME_N_SAMPLES : turn.end * FRAME_N_SAMPLES]
    return words_of(" ".join(setup.hear(sound)))


def _keeps_sound(setup: _Setup, run: Run) -> bool:
    """Of the right oracle's many delays one."""
    return setup.config.n_sounds > 0 and run.delay_s in (None, setup.config.delay_s)


def _judged(run: Run, asked: Asked) -> list[Turn]:
    """Another dialogue's oracle, and a correction, are of one turn alone."""
    return asked.turns[:1] if run.oracle in ("wrong", "corrected") else asked.turns


def _item(run: Run, asked: Asked, turn: Turn) -> str:
    return f"{run.name}/{asked.row.dialogue_id}/{turn.number}"


def _script(setup: _Setup, run: Run, asked: Asked, stranger: Asked | None) -> Script:
    other: Codes | None = None
    if run.channel not in (None, OTHER_VOICES):
        assert setup.codec is not None
        seed = ids.seed_for("channel", setup.config.seed, asked.row.dialogue_id) % 2**63
        other = send_through(asked.row.b.codes, run.channel, setup.codec, seed)  # type: ignore[arg-type]
    delay_s, after_s = run.delay_s or 0.0, setup.config.correction_after_s
    return script_for(asked, stranger, run.oracle, delay_s, after_s, setup.tokenizer, other)


def make_rows(records: Sequence[Record], runs: Sequence[Run]) -> list[Record]:
    """A row of figures a run and group, in their order."""
    rows = []
    for run in runs:
        for group in GROUPS:
            key = {**run.key, "group": group}
            own = [each for each in records if each["row"] == key]
            if own:
                rows.append(key | figures_of(own))
    return rows


def list_free_shares(rows: Sequence[Record]) -> list[FreeShare]:
    """What `kame.json` and the card tell: shares with users' sound as recorded, answers in the question left out."""
    shares = []
    for row in rows:
        for measure in get_args(Measure):
            value, interval = row.get(measure), row.get(f"{measure}_interval")
            is_told = row["channel"] is None and row["group"] == GROUPS[0]
            if is_told and value is not None and interval is not None:
                of: int = row.get(f"{measure}_n") or row["n"]
                what = {"measure": measure, "oracle": row["oracle"], "delay_s": row["delay_s"], "group": row["group"]}
                shares.append(FreeShare(**what, n=round(value * of), of=of, low=interval[0], high=interval[1]))
    return shares


def tell_row(row: Record) -> str:
    """A row in a line, for a terminal."""
    delay = "" if row["delay_s"] is None else f", {row['delay_s']:g} s"
    channel = "" if row["channel"] is None else f", {row['channel']}"
    told = f"{row['oracle']}{delay}{channel}, {row['group']} ({row['n']}): "
    names = {"said_once": "once", "right_first": "first", "said": "said", "said_stranger": "the other's",
             "said_at_last": "right at last", "heard": "heard"}  # fmt: skip
    return told + ", ".join(f"{what} {row[name]:.0%}" for name, what in names.items() if row.get(name) is not None)


def count_dialogues(dataset: TokenDataset, config: RecallConfig, voices: TokenDataset | None) -> int:
    """How many dialogues are run at most, each as often as it is, for a progress bar."""
    n = min(config.n_items, sum(each in config.splits for each in dataset.splits))
    return n * len(list(_runs(config, voices is not None)))


def _check_belongs(checkpoint: Checkpoint, dataset: TokenDataset) -> None:
    """Looks whether rows can be run by a checkpoint.

    Raises:
        ConfigError: they are of another vocabulary or codec.
    """
    front_end = checkpoint.front_end
    wanted = (front_end.text_card, front_end.card, front_end.n_codebooks)
    found = (dataset.text_card, dataset.layout.card, dataset.layout.n_codebooks)
    if wanted != found:
        raise ConfigError(
            f"{checkpoint.place.name} speaks a vocabulary of {wanted[0]} and {wanted[2]} codebooks of {wanted[1]}; "
            f"{dataset.folder} has {found[0]}, {found[2]} and {found[1]}.",
            "Encode the dataset with the checkpoint's own vocabulary and codec.",
        )
    facts = checkpoint.facts
    if facts is None:
        return
    for what, ours, theirs in (
        ("vocabulary", facts.tokenizer_digest, dataset.tokenizer_digest),
        ("codec", facts.codec_digest, dataset.codec_digest),
    ):
        if ours not in (None, theirs):
            raise ConfigError(
                f"{dataset.folder} was encoded with another {what} ({theirs}) than {checkpoint.place.name} has "
                f"({ours}).",
                f"Encode the dataset with the checkpoint's own {what}.",
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
        "n_items": config.n_items,
        "items_seed": config.items_seed,
        "correction_after_s": config.correction_after_s,
        "batch_size": config.batch_size,  # who is run beside whom decides what is drawn
        "listens": listens,
    }


def _name_of(checkpoint: Checkpoint) -> str:
    """The folder's name; of a training run, which is always called the same, also those that it lies in."""
    path = Path(str(checkpoint.place.name))
    return "/".join(path.parts[-3:]) if path.name == RUN else path.name


def _note_look(
    checkpoint: Checkpoint, dataset: TokenDataset, config: RecallConfig, run: Record, register: str | None, again: bool
) -> int | None:
    """How often the test items have been looked at with these weights, this time among them; None: they are not."""
    if TEST not in config.splits:
        return None
    if register is None and checkpoint.place.folder is None:
        raise ConfigError(
            "Looks at the split test are counted in a folder of checkpoints, and this checkpoint is on the Hub.",
            "Name the folder: --register FOLDER.",
        )
    folder = register or str(Path(str(checkpoint.place.folder)).expanduser().resolve().parent)
    look = Look(
        checkpoint=run["system"]["checkpoint"],
        evaluation=ids.digest("look", json.dumps([run, config.model_dump(mode="json")], sort_keys=True)),
        kind=KIND,
        data=dataset.fingerprint,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return note_look(folder, look, again=again)


def _costs(records: Sequence[Record]) -> Record:
    run_s = sum(each["run_s"] for each in records)
    n_frames = sum(each["n_frames"] for each in records if each["run_s"])
    return {"run_s": round(run_s, 1), "dialogue_s": round(n_frames * FRAME_S, 1)}
