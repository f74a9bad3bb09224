"""Tasks of a training on datasets, up to a registered checkpoint.

    text ─ codec ─ encode ─ speak ─ copy ─ dialogues ─ export ─ evaluate ─ register

    OUT/tokenizer.model   OUT/codec/   OUT/tokens/<n>-<dataset>/     the same for all seeds
    OUT/tokenizer.json                                               texts that the tokenizer was trained on
    OUT/seed-<n>/speak/   OUT/seed-<n>/copy/   OUT/seed-<n>/run/   OUT/seed-<n>/evaluation/
    OUT/report.md                                                    the evaluations of all seeds so far
    CHECKPOINTS/<name>/   CHECKPOINTS/index.json

Each task resumes where it was stopped, and is skipped if its result exists; another seed reuses vocabulary, codec and
token rows. The exported checkpoint is evaluated, as it will be served. With speech rows (`kame speech`), their
vocabulary and codec are used, and none is made in OUT.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from backends.codec.learnt_files import find_learnt_codec
from backends.options import OptionValue
from backends.registry import check_options, make_device_option
from data_schemas.config.front_end import EVALUATION, RUN, DatasetShare, FrontEndConfig, find_seed_folders
from data_schemas.config.model import SamplingConfig
from data_schemas.config.recall import TEST, RecallConfig
from data_schemas.config.training import TrainConfig
from data_schemas.errors import ConfigError, KameError
from data_schemas.presets import PRESETS, StagePlan
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from flows.runs.tasks import Task, Tasks, run_tasks
from flows.settings import build, build_train_config, validate_settings
from kame_model.checkpoint.export import export_once
from kame_model.checkpoint.files import FACTS
from kame_model.checkpoint.folder import CODEC
from kame_model.checkpoint.kame_json import KameJson, read_kame_json
from kame_model.checkpoint.registry import register_export
from kame_model.encode.folder import TOKENIZER
from kame_model.encode.held_out import check_held_out, check_speech_held_out
from kame_model.encode.manifest import read_manifest
from kame_model.encode.run import group_oracle_files
from kame_model.evaluate.recall.evaluate import Hearing, list_free_shares
from kame_model.evaluate.recall.items import Record
from kame_model.text.run_vocabulary import check_run_vocabulary, make_run_vocabulary
from kame_model.train.parallel import find_device
from kame_model.train.run import RunResult, train
from kame_model.train.run_facts import read_facts
from kame_model.train.trainer import SILENT, Progress

HELD_OUT = "held-out"
_LOCK_WAIT_S = 60.0  # another seed that starts at the same time only checks rows that exist, in a second
_OF_ALL_STAGES = ("model.", "hardware.", "copying.")


@dataclass(frozen=True, slots=True)
class FrontEndResult:
    """Result of a run from datasets to a checkpoint; `figures` are the rows of the evaluation, if there was one."""

    checkpoint: str
    facts: KameJson
    training: RunResult
    figures: list[Record]


class Stopped(KameError):
    """Training was stopped on request, after saving a checkpoint."""

    exit_code = 130


def run_front_end(
    config: FrontEndConfig,
    progress: Progress = SILENT,
    run_task: Callable[[Task[Any]], None] = Task.run,
) -> FrontEndResult:
    """Trains a front-end on datasets up to a registered checkpoint, or resumes, and returns the result.

    Raises:
        Stopped: training was stopped on request, after saving a checkpoint.
        ConfigError: the settings of a stage are invalid, held-out items are trained on, or the folder has another
            vocabulary; raised before anything is made.
        KameError: another failure; what was finished is reused by the next run.
    """
    config = complete_codec_and_vocabulary(config)
    for stage in list_stages(config):
        make_train_config(config, stage, "vocabulary", config.datasets)  # invalid settings are reported at once
    make_evaluation_config(config)
    make_sampling_config(config)
    check_codec(config)
    check_datasets(config)
    check_vocabulary(config)
    hear = make_hearing() if config.listen else None
    Path(config.out).mkdir(parents=True, exist_ok=True)
    return run_tasks(make_front_end_tasks(config, progress, hear), run_task)


def make_front_end_tasks(config: FrontEndConfig, progress: Progress, hear: Hearing | None) -> Tasks[FrontEndResult]:
    """Yields the tasks of a run from datasets to a registered checkpoint, and returns its result.

    Args:
        hear: transcribes the speech of the evaluated checkpoint; if None, it is not transcribed.
    """
    text = Task("text", "", partial(make_tokenizer, config))
    codec = Task("codec", "", partial(make_codec, config))
    yield [text, codec]
    rows = {}
    for name in get_named_shares(config):  # one after the other: each takes codes of the same sound from those before
        encoded = Task("encode", name, partial(encode, config, name, text.made, codec.made))
        yield [encoded]
        rows[name] = encoded.made
    tokens = [folder for name, folder in rows.items() if name != HELD_OUT]
    for stage in list_stages(config):
        settings = make_train_config(config, stage, text.made, tokens)
        trained = Task("train", stage, partial(train_stage, settings, progress))
        yield [trained]
    exported = Task("export", "", partial(export, config, text.made, codec.made))
    yield [exported]
    name = exported.made
    evaluated = Task("evaluate", "", partial(evaluate, config, name, rows.get(HELD_OUT, tokens[0]), hear))
    yield [evaluated]
    shares = list_free_shares(evaluated.made)
    registered = Task("register", "", partial(register_export, config.checkpoints, name, shares))
    yield [registered]
    return FrontEndResult(str(Path(config.checkpoints) / name), registered.made, trained.made, evaluated.made)


def complete_codec_and_vocabulary(config: FrontEndConfig) -> FrontEndConfig:
    """Returns the configuration with codec and vocabulary taken from speech rows, initial weights and `codec_path`.

    A folder of a learnt codec that is configured without a name gets the name of that codec.

    Raises:
        KameError: as `take_from_speech` and `take_from_checkpoint`.
    """
    config = take_from_checkpoint(take_from_speech(config))
    if config.codec is None and config.codec_path is not None:
        return config.model_copy(update={"codec": find_learnt_codec(config.codec_path)})
    return config


def take_from_speech(config: FrontEndConfig) -> FrontEndConfig:
    """Returns the configuration with the vocabulary and codec of its speech rows; unchanged if it has none.

    Options of the codec are replaced without an error by those of the speech rows.

    Raises:
        ConfigError: it names another vocabulary or codec, or the preset requires another codec.
        DatasetError: the folder holds no token rows.
    """
    if config.speech is None:
        return config
    store, begun = Store(config.speech), PRESETS[config.preset].begins_with
    manifest, tokenizer = read_manifest(store), store.resolve_path(TOKENIZER)
    own = {"codec_path": None, "tokenizer": begun.get("tokenizer"), "codec": begun.get("codec")}
    options = dict(manifest.codec_options)
    path = options.pop("path", None)
    taken: dict[str, Any] = {"tokenizer": tokenizer, "codec": manifest.made_with.codec, "codec_options": options}
    taken["codec_path"] = store.resolve_path(CODEC) if Path(store.resolve_path(CODEC)).is_dir() else path
    for name, default in own.items():
        if getattr(config, name) not in (default, taken[name]):
            raise ConfigError(
                f"{name} {getattr(config, name)} differs from that of {config.speech}, whose vocabulary and codec "
                "are used.",
                f"Omit --{name.replace('_', '-')}, or make speech with it.",
            )
    return validate_settings(FrontEndConfig, config.model_dump() | taken)


def take_from_checkpoint(config: FrontEndConfig) -> FrontEndConfig:
    """Returns the configuration with the vocabulary and codec of an exported checkpoint that the training starts from.

    Only what is not configured is taken. The codec's files and options are also taken if only its name is configured
    and is that of the checkpoint. Unchanged if `init_from` is not a folder with a `kame.json`.

    Raises:
        StoreError: the `kame.json` is damaged.
    """
    folder = Path(config.init_from or "")
    if config.init_from is None or not (folder / FACTS).is_file():
        return config
    facts, taken = read_kame_json(folder / FACTS), dict[str, Any]()
    if config.tokenizer is None and (folder / TOKENIZER).is_file():
        taken["tokenizer"] = str(folder / TOKENIZER)
    is_free = config.codec_path is None and not config.codec_options
    if facts.codec and facts.codec.files is not None and is_free and config.codec in (None, facts.codec.name):
        taken |= {"codec": facts.codec.name, "codec_options": facts.codec.options}
        taken["codec_path"] = str((folder / facts.codec.files[0]).parent) if facts.codec.files else None
    return validate_settings(FrontEndConfig, config.model_dump() | taken)


def open_reader(share: DatasetShare) -> DatasetReader:
    """Opens a dataset with the version of oracles that the share names."""
    return DatasetReader(share.folder, share.oracle_version)


def open_spoken_datasets(shares: Sequence[DatasetShare]) -> list[DatasetReader]:
    """Opens each dataset once, even if several shares differ in the version of its oracles only."""
    return [DatasetReader(folder) for folder in dict.fromkeys(each.folder for each in shares)]


def check_datasets(config: FrontEndConfig) -> None:
    """Checks the datasets before hours of work.

    Raises:
        DatasetError: one does not exist, or has no oracles of that version.
        ConfigError: items or questions of the held-out dataset are trained on, or it has no dialogue to evaluate.
    """
    held_out = config.held_out_share
    for share in [*config.shares, *([] if held_out is None else [held_out])]:
        group_oracle_files(open_reader(share))
    if held_out is not None:
        reader, splits = DatasetReader(held_out.folder), make_evaluation_config(config).splits
        check_held_out(open_spoken_datasets(config.shares), reader)
        if config.speech is not None:
            check_speech_held_out(config.speech, reader)
        if config.evaluate_items and not {each.split for each in reader.list_shards()} & set(splits):
            raise ConfigError(
                f"The held-out dataset {held_out.folder} has no dialogue in {', '.join(splits)} to evaluate.",
                "Hold out another dataset, evaluate test items (--set evaluation.splits=[test]), or none (--evaluate "
                "0).",
            )


def check_vocabulary(config: FrontEndConfig) -> None:
    """Checks an existing vocabulary in the run's folder before it is used; does nothing if `tokenizer` is configured.

    Raises:
        ConfigError: it has another size, or was trained on other dialogues or oracles.
        BackendError: it is damaged.
    """
    if config.tokenizer is None:
        check_run_vocabulary(list(map(open_reader, config.shares)), config.vocabulary, config.out)


def make_tokenizer(config: FrontEndConfig) -> str:
    """Returns the path of the tokenizer: the configured one, or the run's own.

    The run's own is trained on the datasets' training split and written to the run's folder, unless it exists there.
    """
    if config.tokenizer is not None:
        return config.tokenizer
    return make_run_vocabulary(list(map(open_reader, config.shares)), config.vocabulary, config.out)


def _is_codec_learnt(config: FrontEndConfig) -> bool:
    """Returns whether the run learns its own codec."""
    return config.codec_name == "codec2-learnt" and config.codec_path is None


def check_codec(config: FrontEndConfig) -> None:
    """Checks the codec's name and options before hours of work.

    Raises:
        ConfigError: there is no such codec, or it rejects its options.
    """
    path = {"path": str(Path(config.out) / "codec")} if _is_codec_learnt(config) else {}
    check_options("codec", config.codec_name, _get_codec_options(config) | path)


def _get_codec_options(config: FrontEndConfig) -> dict[str, OptionValue]:
    """Returns the codec's options with its configured path and the device, if it takes one."""
    device = str(find_device(config.device))
    path = {} if config.codec_path is None else {"path": config.codec_path}
    return {**config.codec_options, **path, **make_device_option("codec", config.codec_name, device)}


def make_codec(config: FrontEndConfig) -> dict[str, OptionValue]:
    """Returns the codec's options; if its codebooks are to be learnt, with the path of their folder.

    They are learnt unless the folder already has them.

    Raises:
        ConfigError: the folder has codebooks of other speech or settings.
    """
    options = _get_codec_options(config)
    if not _is_codec_learnt(config):
        return options
    from data_schemas.config.codec import CodecLearnConfig
    from kame_model.codec.learning import learn_codec

    folder = str(Path(config.out) / "codec")
    learn_codec(open_spoken_datasets(config.shares), CodecLearnConfig(), folder)
    return {**options, "path": folder}


def get_named_shares(config: FrontEndConfig) -> dict[str, DatasetShare]:
    """Returns the datasets to encode, by the name of their folder of token rows.

    The datasets of the mixture come first, in order, as `<n>-<dataset>`; the held-out one is the last.
    """
    mixed = {f"{n}-{Path(each.folder).resolve().name}": each for n, each in enumerate(config.shares)}
    return mixed if config.held_out_share is None else mixed | {HELD_OUT: config.held_out_share}


def encode(config: FrontEndConfig, name: str, tokenizer: str, codec: dict[str, OptionValue]) -> str:
    """Encodes the dataset that has this name in `get_named_shares`, and returns its folder of token rows.

    Rows that exist are reused, codes of the same audio in other folders of the run (a dataset with several oracles) are
    copied, and files that the new manifest does not list are removed. Another run that writes to the folder is waited
    for, at most `_LOCK_WAIT_S`.
    """
    from data_schemas.config.encode import EncodeConfig
    from kame_model.encode.run import encode_dataset

    share = get_named_shares(config)[name]
    out = str(Path(config.out) / "tokens" / name)
    others = [str(each) for each in sorted(Path(out).parent.glob("*/")) if each.name != name]
    encode_dataset(
        EncodeConfig(
            dataset=share.folder,
            out=out,
            oracle_version=share.oracle_version,
            codec=config.codec_name,
            codec_options=dict(codec),
            tokenizer=tokenizer,
            workers=config.workers,
            codes_from=others,
        ),
        wait_s=_LOCK_WAIT_S,
    )
    return out


def list_stages(config: FrontEndConfig) -> tuple[str, ...]:
    """Returns the stages of the preset's plan that are trained, in order.

    The last stage is always one of them. Of those before it, stages with 0 steps or hours are skipped, speech stages
    without speech rows, and, if `init_from` is set, stages for which neither steps nor hours are set.
    """
    *others, last = PRESETS[config.preset].plan
    return (*(each.name for each in others if _is_trained(config, each)), last.name)


def _is_trained(config: FrontEndConfig, stage: StagePlan) -> bool:
    """Returns whether a stage before the last is trained; see `list_stages`."""
    settings = _get_stage_settings(config, stage.name)
    ends = [settings[each] for each in ("max_steps", "max_hours") if each in settings]
    has_data = stage.main != "speech" or config.speech is not None
    return has_data and 0 not in ends and (bool(ends) or config.init_from is None)


def _get_stage_settings(config: FrontEndConfig, stage: str) -> dict[str, Any]:
    """Returns the settings given for one stage of the plan by dotted name, without the name of the stage.

    Those of `_OF_ALL_STAGES` belong to each stage, and others that name no stage belong to the last.
    """
    plan = PRESETS[config.preset].plan
    by_stage: dict[str, dict[str, Any]] = {each.name: {} for each in plan}
    for name, value in config.settings.items():
        first, _, rest = name.partition(".")
        named = [first] if first in by_stage else [plan[-1].name]
        for each in by_stage if name.startswith(_OF_ALL_STAGES) else named:
            by_stage[each][rest if first in by_stage else name] = value
    return by_stage[stage]


def get_stage_folder(config: FrontEndConfig, stage: str) -> Path:
    """Returns the folder of one stage's training run; that of the last stage is `run`."""
    return config.of_seed / (RUN if stage == PRESETS[config.preset].plan[-1].name else stage)


def make_train_config(config: FrontEndConfig, stage: str, tokenizer: str, tokens: Sequence[str]) -> TrainConfig:
    """Builds the configuration of one stage's training run, which starts from the weights of the stage before.

    The first stage starts from `init_from`, if that is set. `max_steps` and `max_hours` of `config` hold for the last
    stage only.

    Args:
        stage: one of `list_stages`.
        tokens: folders of token rows, in the order of the datasets.

    Raises:
        ConfigError: a setting is unknown or out of bounds.
    """
    stages = list_stages(config)
    before, is_last = stages[: stages.index(stage)], stage == stages[-1]
    rows = [{"path": folder, "weight": share.weight} for folder, share in zip(tokens, config.shares, strict=True)]
    settings: dict[str, Any] = {
        "out": str(get_stage_folder(config, stage)),
        "max_steps": config.max_steps if is_last else None,
        "max_hours": config.max_hours if is_last else None,
        "init_from": str(get_stage_folder(config, before[-1])) if before else config.init_from,
        "tokenizer": tokenizer,
        "seed": config.seed,
        "hardware.device": config.device,
        "data.datasets": rows if config.speech is None else [*rows, {"path": config.speech}],
        **_get_stage_settings(config, stage),
    }
    return build_train_config(config.preset, stage, None, settings)


def train_stage(config: TrainConfig, progress: Progress) -> RunResult:
    """Runs one stage of training to its end, and returns its result.

    Raises:
        Stopped: training was stopped on request, after saving a checkpoint.
    """
    result = train(config, progress)
    if not result.is_done:
        raise Stopped(
            f"Training was stopped at step {result.step} and is saved.", "Run the same command again to resume."
        )
    return result


def export(config: FrontEndConfig, tokenizer: str, codec: dict[str, OptionValue]) -> str:
    """Exports the run's best weights into the folder of checkpoints, and returns the name of the checkpoint.

    An existing one of the same training is kept. The name is PRESET-FOLDER-STEPS, with -seed-N after it unless the seed
    is 0; if another training has that name, the id of this run is appended.

    Raises:
        ConfigError: the name with the run's id is taken, too, or the existing one has another sampling or voice.
    """
    run, chosen = config.of_seed / RUN, (config.codec_name, codec)
    name = f"{config.preset}-{Path(config.out).resolve().name}-{read_facts(run).config.max_steps}"
    name += f"-seed-{config.seed}" if config.seed else ""
    return export_once(run, config.checkpoints, name, chosen, tokenizer, make_sampling_config(config), config.voice)


def make_sampling_config(config: FrontEndConfig) -> SamplingConfig:
    """Builds the sampling settings of the checkpoint, for servers and evaluations.

    Raises:
        ConfigError: a setting is unknown or out of bounds.
    """
    return build(SamplingConfig, {}, config.sampling_settings)


def make_evaluation_config(config: FrontEndConfig) -> RecallConfig:
    """Builds the settings of the recall evaluation.

    With a held-out dataset, its splits train and validation are evaluated, unless only test is configured.

    Raises:
        ConfigError: a setting is unknown or out of bounds.
    """
    splits: list[str] = list(config.evaluate_splits)
    if config.held_out is not None and splits != [TEST]:
        splits = ["train", "validation"]  # nothing there is trained on, and test items stay apart there too
    settings = {"splits": splits, "n_items": max(1, config.evaluate_items), "seed": config.seed}
    return build(RecallConfig, settings, config.evaluation_settings)


def evaluate(config: FrontEndConfig, checkpoint: str, rows: str, hear: Hearing | None) -> list[Record]:
    """Evaluates recall of the exported checkpoint, and updates the report over all seeds in `config.out`.

    The results in the seed's folder `evaluation` are replaced if they are of other weights or settings. An evaluation
    on the test split is recorded in `config.checkpoints`.

    Args:
        checkpoint: name in the folder of checkpoints.
        rows: folder of token rows of the held-out dialogues. If the dataset is trained on as well, it may have none.

    Returns:
        The rows of the figures; an empty list if `evaluate_items` is 0, or if there is no separate held-out dataset
        and nothing to evaluate.

    Raises:
        ConfigError: the separate held-out dataset has no dialogue to evaluate.
    """
    if not config.evaluate_items:
        return []
    from kame_model.checkpoint.load import load_checkpoint
    from kame_model.encode.token_dataset import TokenDataset
    from kame_model.evaluate.recall.evaluate import evaluate_recall
    from kame_model.evaluate.recall.items import select_rows
    from kame_model.evaluate.report.compare import compare
    from kame_model.evaluate.report.folder import FIGURES

    settings, dataset = make_evaluation_config(config), TokenDataset(rows)
    if config.held_out is None and not select_rows(dataset, settings):
        return []
    loaded = load_checkpoint(Path(config.checkpoints) / checkpoint, find_device(config.device))
    own = str(config.of_seed / EVALUATION)
    # the run's own folder: of what was trained further the evaluation takes the place of the last one
    found = evaluate_recall(loaded, dataset, settings, own, hear=hear, register=config.checkpoints, anew=True)
    evaluations = (each / EVALUATION for each in find_seed_folders(config.out).values())
    every = sorted(str(each) for each in evaluations if (each / FIGURES).is_file())
    compare({checkpoint: [own, *(each for each in every if each != own)]}, config.out, leave_out=True)
    return found


def make_hearing() -> Hearing:
    """Returns a function that transcribes audio at 24 kHz by the embedded recogniser, and returns its words.

    The words are normalised by `normalise_words`: in lower case, with digits and signs read out.
    """
    from backends import registry
    from data_schemas.units import SAMPLE_RATE_HZ
    from pipelines.quality.word_errors import normalise_words

    recogniser = registry.build("asr", "moonshine", {})
    return lambda sound: normalise_words(recogniser.transcribe(sound, SAMPLE_RATE_HZ))
