"""Exports a front-end or a training run as a checkpoint folder. The folder is written completely or not at all.

model.safetensors   the weights, under the names of Kyutai's files, and oracle_emb.weight (oracle_cue.weight)
config.json         keyword arguments of moshi's LMModel, and the names of the files below
mimi.safetensors    the codec if it is Mimi; with mimi.json if it is not moshi's default Mimi
codec/              the files of any other codec that has files
tokenizer.model     the vocabulary (SentencePiece)
kame.json           all metadata that stock moshi does not know (kame_json.py)
README.md           the model card
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from backends.codec.protocol import Codec
from backends.registry import build, get_entry
from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import SamplingConfig
from data_schemas.config.serving import Voice
from data_schemas.config.training import OracleFeedConfig
from data_schemas.errors import ConfigError, DatasetError, StoreError
from data_schemas.guesses import Guesses
from data_schemas.store import Store, create_folder
from kame_model.checkpoint.card import render_card
from kame_model.checkpoint.files import CARD, CONFIG, FACTS, TOKENIZER, WEIGHTS, encode_json
from kame_model.checkpoint.folder import CODEC, CODEC_KWARGS, CODEC_WEIGHTS, CUE_KEY, ORACLE_KEY, TEXT_HEAD_KEY
from kame_model.checkpoint.kame_json import (
    CodecFacts,
    FreeShare,
    KameJson,
    TrainedDelays,
    TrainingFacts,
    read_kame_json,
    read_versions,
)
from kame_model.checkpoint.licences import collect_run_licences
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.checkpoint.summary import summarise
from kame_model.encode.manifest import read_manifest
from kame_model.model.front_end import FrontEnd
from kame_model.model.lora import merge_lora
from kame_model.text.tokenizer import Tokenizer
from kame_model.train.checkpoints import SavedCheckpoint
from kame_model.train.run_facts import RunFacts, read_facts
from kame_model.train.run_folder import choose_checkpoint, load_run

Options = Mapping[str, str | int | float | bool]
Which = Literal["last", "best"]

_PROJECTION = re.compile(r"(.+\.)(in|out)_projs\.(\d+)\.weight")
_JOINED = {"in": "in_proj_weight", "out": "out_proj.weight"}


def export_checkpoint(
    front_end: FrontEnd,
    tokenizer: Tokenizer | None,
    codec: Codec | None,
    out: str | Path,
    training: TrainingFacts,
    dtype: torch.dtype | None = None,
    *,
    sampling: SamplingConfig | None = None,
    trained_delays: TrainedDelays | None = None,
    guesses: Guesses | None = None,
    voice: Voice = "decoded",
) -> KameJson:
    """Exports a front-end with everything that is needed to run it, and returns the contents of its `kame.json`.

    Args:
        front_end: the model. LoRA adapters, if it has any, are merged into its weights in place.
        tokenizer: the vocabulary it was trained with; None: the folder has no vocabulary.
        codec: the codec it was trained with; None: the folder has no codec.
        out: a folder that does not exist yet.
        training: where the weights come from.
        dtype: type of the weights in the file; None: unchanged.
        sampling: default sampling parameters. Only fields that were set explicitly are used; the others get moshi's
            defaults, except the temperature of the codes, which comes from their layout.
        trained_delays: delays of the back-end in training; None: unknown.
        guesses: how training treated answers to an unfinished question; None: unknown.
        voice: whether users hear the model's own sound or text-to-speech by default.

    Raises:
        ConfigError: `out` already exists, or the sizes of vocabulary or codec do not match the model.
        StoreError: the folder cannot be written; a partly written folder is removed.
    """
    _check_sizes(front_end, tokenizer, codec)
    try:
        with create_folder(out) as aside:
            if merge_lora(front_end):
                training = training.model_copy(update={"lora": True})
            codec_facts = None if codec is None else _write_codec(aside, codec)
            facts = _collect_facts(front_end, tokenizer, codec_facts, training).model_copy(
                update={
                    "sampling": _choose_sampling(front_end.layout, sampling),
                    "trained_delays": trained_delays,
                    "guesses": guesses,
                    "voice": voice,
                }
            )
            _write_files(aside, front_end, tokenizer, facts, dtype)
    except SafetensorError as error:
        raise StoreError(f"Cannot write {out}: {error}.", "Check its permissions and the free disk space.") from error
    return facts


def export_run(
    run: str | Path,
    out: str | Path,
    codec: tuple[str, Options] | None,
    tokenizer: str | None = None,
    which: Which = "best",
    dtype: torch.dtype | None = None,
    sampling: SamplingConfig | None = None,
    voice: Voice = "decoded",
) -> KameJson:
    """Exports a checkpoint of a training run, and returns the contents of its `kame.json`.

    Args:
        run: the run's folder.
        out: a folder that does not exist yet.
        codec: name and options of the codec that the data was encoded with, as `find_codec` returns them; None: the
            folder has no codec, so no sound can be decoded.
        tokenizer: the vocabulary that the data was encoded with; None: the one in the run's settings.
        which: the last weights, or the best on validation by the run's `keep.best_by`.
        dtype: type of the weights in the file; None: unchanged.
        sampling: default sampling parameters, as for `export_checkpoint`.
        voice: as for `export_checkpoint`.

    Raises:
        ConfigError: vocabulary or codec are not those of the run, or `out` already exists.
        DatasetError: `run` is not a training run, or it has no checkpoint.
        StoreError: a checkpoint is damaged, or the folder cannot be written.
        BackendError: vocabulary or codec cannot be loaded.
    """
    front_end, facts, saved = load_run(run, which)
    place = tokenizer or facts.config.tokenizer
    if place is None:
        raise ConfigError(f"The settings of the run {run} name no tokenizer.", "Pass it with --tokenizer FILE.")
    vocabulary = Tokenizer.from_file(place)
    _check_digest("tokenizer", vocabulary.digest, facts.speaks_with.tokenizer_digest, run)
    built: Codec | None = None
    if codec is not None:
        built = build("codec", *codec)
        _check_digest("codec", built.digest, facts.speaks_with.codec_digest, run)
    feed = facts.config.data.feed if facts.config.shares.dialogues else None
    return export_checkpoint(
        front_end,
        vocabulary,
        built,
        out,
        _make_training_facts(facts, saved),
        dtype,
        sampling=sampling,
        voice=voice,
        trained_delays=None if feed is None else _get_trained_delays(feed),
        guesses=None if feed is None or feed.is_silent else feed.guesses,
    )


def export_once(
    run: str | Path,
    folder: str | Path,
    name: str,
    codec: tuple[str, Options],
    tokenizer: str | None = None,
    sampling: SamplingConfig | None = None,
    voice: Voice = "decoded",
) -> str:
    """Exports a run's best weights into a folder of checkpoints unless that was done before; returns the export's name.

    An export of the same checkpoint of the run is not made again. If anything else has the name already (an export of
    another training or step, or what cannot be read as an export), the run's identity is appended to it.

    Args:
        folder: the folder of checkpoints; it is created if necessary.
        name: wanted name of the export.
        run, codec, tokenizer, sampling, voice: as for `export_run`.

    Raises:
        ConfigError: the longer name is taken too, the export of the same checkpoint has another sampling or voice, or
            as `export_run`.
        DatasetError, StoreError, BackendError: as `export_run`.
    """
    there, training = Path(folder), read_training_facts(run)
    there.mkdir(parents=True, exist_ok=True)
    for each in (name, f"{name}-{training.run}"):
        if not (there / each).exists():
            export_run(run, there / each, codec, tokenizer, sampling=sampling, voice=voice)
            return each
        if (found := _find_export_of(training, there / each)) is not None:
            _check_choices(there / each, found, sampling, voice)
            return each
    raise ConfigError(
        f"{folder} already holds something else as {name} and under that name with this run's identity.",
        "Move both elsewhere, or choose another folder with --checkpoints.",
    )


@contextmanager
def open_run(run: Path, device: torch.device | str = "cpu") -> Iterator[Checkpoint]:
    """Exports a run's best weights into a temporary folder, and yields the loaded checkpoint.

    The folder is removed at the end of the `with` block.

    Args:
        run: the run's folder; the checkpoint gets its name.
        device: device of the front-end.

    Raises:
        ConfigError, DatasetError, StoreError, BackendError: see `export_run` and `find_codec`.
    """
    with tempfile.TemporaryDirectory(prefix="kame-checkpoint-") as folder:
        export_run(run, Path(folder) / "checkpoint", find_codec(run))
        loaded = load_checkpoint(Path(folder) / "checkpoint", device)
        yield loaded._replace(place=loaded.place._replace(name=str(run)))


def find_codec(run: str | Path) -> tuple[str, Options]:
    """Returns the name and options of the codec that a run's data was encoded with, from its first token rows.

    Raises:
        ConfigError: the token rows no longer exist, or their manifest is damaged or of another version.
        DatasetError: `run` is not a training run.
        StoreError: the manifest cannot be read.
    """
    rows = read_facts(run).config.data.datasets[0].path
    try:
        manifest = read_manifest(Store(rows))
    except DatasetError as error:
        raise ConfigError(
            f"The codec of {run} is unknown: {error.what}",
            "Pass --codec and --codec-path, or --codec none, to `kame checkpoint export`.",
        ) from error
    return manifest.made_with.codec, manifest.codec_options


def read_training_facts(run: str | Path) -> TrainingFacts:
    """Returns what an export of the run's best weights would record about its training.

    Raises:
        DatasetError: `run` is not a training run, or it has no checkpoint.
        StoreError: a checkpoint is damaged.
    """
    return _make_training_facts(read_facts(run), choose_checkpoint(run, "best"))


def record_free_running(folder: str | Path, shares: list[FreeShare]) -> KameJson:
    """Records the results of free running in a checkpoint's `kame.json` and model card; other files are not changed.

    If `kame.json` already holds these results nothing is written, so that later edits of the card are kept. Otherwise
    temporary files of killed runs are removed too. The contents of `kame.json` are returned.

    Raises:
        StoreError: a file cannot be read or written; each file then has its old or its new content, never a mixture.
    """
    store = Store(str(folder))
    before = read_kame_json(Path(folder) / FACTS)
    facts = before.model_copy(update={"free_running": shares})
    if facts != before:
        store.sweep()
        summary = summarise(folder)
        store.write_bytes(CARD, render_card(facts, summary.n_weights, summary.n_parameters).encode())
        store.write_bytes(FACTS, facts.to_bytes())  # last: a retry then writes both
    return facts


def make_stock_state(front_end: FrontEnd, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """Returns the state dictionary of an export, on the CPU; a tied oracle and a tied text head are written out.

    The names are those of Kyutai's files; added are `oracle_emb.weight` and, for a front-end with a cue,
    `oracle_cue.weight`. moshi has renamed the attention's projections: the current `LMModel` has one matrix a step
    (`in_projs.0.weight`), Kyutai's released files have them joined (`in_proj_weight`, `out_proj.weight`). It loads
    both; older versions and their forks load only the joined ones, so those are written.

    Args:
        front_end: the model, without adapters.
        dtype: type of all tensors; None: unchanged.
    """
    state = dict(front_end.lm.state_dict())
    state[TEXT_HEAD_KEY] = front_end.lm.text_linear.weight.detach()
    state = _join_projections(state)
    state[ORACLE_KEY] = front_end.oracle.make_table(front_end.lm.text_emb)
    if front_end.cue is not None:
        state[CUE_KEY] = front_end.cue.projection.weight.detach()
    return {name: tensor.to("cpu", dtype).contiguous().clone() for name, tensor in state.items()}


def make_stock_config(front_end: FrontEnd, tokenizer: Tokenizer | None, codec: CodecFacts | None) -> dict[str, Any]:
    """Returns the contents of `config.json`: only keys that stock moshi's loaders know, as they fail on any other.

    Args:
        front_end: the model.
        tokenizer: the vocabulary; None: no file name of one is included.
        codec: facts of the codec; None: no file names of one are included.
    """
    names, files = {"moshi_name": WEIGHTS}, [] if codec is None else codec.files or []
    mimi = {"mimi_name": CODEC_WEIGHTS, "mimi_config_name": CODEC_KWARGS}
    names |= {key: name for key, name in mimi.items() if name in files}
    if tokenizer is not None:
        names["tokenizer_name"] = TOKENIZER
    return {**front_end.lm_kwargs, **names}


def _check_sizes(front_end: FrontEnd, tokenizer: Tokenizer | None, codec: Codec | None) -> None:
    """Raises a ConfigError if the sizes of vocabulary or codec do not match the model."""
    if tokenizer is not None and tokenizer.text_card != front_end.text_card:
        raise ConfigError(
            f"The model has a vocabulary of {front_end.text_card} tokens, {tokenizer.path} has {tokenizer.text_card}.",
            "Use the tokenizer that the model was trained with.",
        )
    if codec is None:
        return
    have, want = (codec.n_codebooks, codec.card), (front_end.n_codebooks, front_end.card)
    if have != want:
        raise ConfigError(
            f"The model has {want[0]} codebooks of {want[1]} entries, the codec {codec.name} has {have[0]} of "
            f"{have[1]}.",
            "Use the codec that the model was trained with.",
        )


def _choose_sampling(layout: CodeLayout, overrides: SamplingConfig | None) -> SamplingConfig:
    """Returns the explicitly set fields of `overrides`, over moshi's defaults and the layout's temperature."""
    own = SamplingConfig(temp=layout.temp)
    return own if overrides is None else own.model_copy(update=overrides.model_dump(exclude_unset=True))


def _collect_facts(
    front_end: FrontEnd, tokenizer: Tokenizer | None, codec: CodecFacts | None, training: TrainingFacts
) -> KameJson:
    """Makes the contents of `kame.json`; sampling, delays, guesses and voice have their defaults."""
    return KameJson(
        preset=front_end.preset,
        oracle=front_end.oracle.mode,
        cue=front_end.cue is not None,
        tie_text_head=front_end.tie_text_head,
        text_card=front_end.text_card,
        card=front_end.card,
        n_codebooks=front_end.n_codebooks,
        layout=front_end.layout,
        tokenizer_digest=None if tokenizer is None else tokenizer.digest,
        codec=codec,
        training=training,
        versions=read_versions(),
    )


def _write_codec(folder: Path, codec: Codec) -> CodecFacts:
    """Writes a codec's files, if it has any, into a checkpoint's folder, and returns the codec's facts.

    Mimi's files are beside the weights, those of any other codec in the folder `codec/`.
    """
    own = folder / CODEC
    own.mkdir()
    options = codec.save(str(own))
    names = sorted(each.name for each in own.iterdir())
    is_mimi = CODEC_WEIGHTS in names and {*names} <= {CODEC_WEIGHTS, CODEC_KWARGS}
    for name in names if is_mimi else ():
        (own / name).rename(folder / name)
    if is_mimi or not names:
        own.rmdir()
    plugin = get_entry("codec", codec.name).plugin
    return CodecFacts(
        name=codec.name,
        digest=codec.digest,
        options=options,
        files=names if is_mimi else [f"{CODEC}/{name}" for name in names],
        package="" if plugin is None else plugin.package,
        is_mimi=is_mimi,
    )


def _write_files(
    folder: Path,
    front_end: FrontEnd,
    tokenizer: Tokenizer | None,
    facts: KameJson,
    dtype: torch.dtype | None,
) -> None:
    """Writes all files of a checkpoint except the codec's."""
    state = make_stock_state(front_end, dtype)
    save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_bytes(encode_json(make_stock_config(front_end, tokenizer, facts.codec)))
    (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors makes files that only the owner can read
    if tokenizer is not None:
        shutil.copyfile(tokenizer.path, folder / TOKENIZER)
    (folder / FACTS).write_bytes(facts.to_bytes())
    summary = summarise(folder)
    (folder / CARD).write_text(render_card(facts, summary.n_weights, summary.n_parameters), encoding="utf-8")


def _make_training_facts(facts: RunFacts, saved: SavedCheckpoint) -> TrainingFacts:
    """Returns what an export of one checkpoint of a run records about its training and its last validation."""
    state = saved.read_state()
    columns: dict[str, dict[str, float]] = state.get("evaluation") or {}  # keys: which oracle was fed
    return TrainingFacts(
        run=facts.identity,
        stage=facts.config.stage,
        step=saved.step,
        data=facts.datasets,
        codec_digest=facts.speaks_with.codec_digest,
        init_from=facts.config.init_from,
        licences=collect_run_licences(facts),
        lora=facts.config.lora is not None,
        figures={
            f"{column}.{name}": float(each) for column, figures in columns.items() for name, each in figures.items()
        },
        figures_step=state.get("evaluation_step"),
    )


def _find_export_of(training: TrainingFacts, folder: Path) -> KameJson | None:
    """Returns what the export of this training in a folder says of itself; None: there is no readable one."""
    try:
        found = read_kame_json(folder / FACTS)
    except StoreError:
        return None
    return found if _remove_licences(found.training) == _remove_licences(training) else None


def _check_choices(place: Path, found: KameJson, sampling: SamplingConfig | None, voice: Voice) -> None:
    """Checks that an export has this voice, and the sampling parameters that are set explicitly.

    Raises:
        ConfigError: it has others.
    """
    wanted = {"voice": voice, **({} if sampling is None else sampling.model_dump(exclude_unset=True))}
    there = {"voice": found.voice, **found.sampling.model_dump()}
    others = [f"{name} {there[name]} instead of {value}" for name, value in wanted.items() if there[name] != value]
    if others:
        raise ConfigError(
            f"{place} already holds this training, with {', '.join(others)}.",
            "Delete or move that folder to export it again, or choose another folder with --checkpoints.",
        )


def _remove_licences(training: TrainingFacts) -> TrainingFacts:
    """Returns the facts without licences, to compare them.

    Licences do not affect the weights, and are missing before format 4 or if the token rows no longer exist.
    """
    return training.model_copy(update={"licences": None})


def _get_trained_delays(feed: OracleFeedConfig) -> TrainedDelays | None:
    """Returns the range of delays in training: 0 to 0 if no oracle was delayed, None if no oracle was fed."""
    if feed.is_silent:
        return None
    if feed.shift_probability == 0 or feed.left_share == 1:
        return TrainedDelays(min_s=0.0, max_s=0.0)
    is_always_late = feed.shift_probability == 1 and feed.left_share == 0
    return TrainedDelays(min_s=feed.delay.min_s if is_always_late else 0.0, max_s=feed.delay.max_s)


def _check_digest(what: str, named: str, trained: str, run: str | Path) -> None:
    """Raises a ConfigError if the digest of a vocabulary or codec is not the one that the run was trained with.

    Args:
        what: "tokenizer" or "codec", for the message.
        named: digest of the given one.
        trained: digest of the one in training.
        run: the run's folder, for the message.
    """
    if named != trained:
        raise ConfigError(
            f"The run {run} was trained with {what} {trained}, but the given one is {named}.",
            f"Use the {what} that its data was encoded with.",
        )


def _join_projections(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns a state dictionary with the attention projections of all steps joined, each [n_steps * out, in].

    Other tensors are not changed.
    """
    steps: dict[str, list[Tensor]] = {}
    others: dict[str, Tensor] = {}
    for name, tensor in state.items():
        found = _PROJECTION.fullmatch(name)
        if found is None:
            others[name] = tensor
        else:  # a state dict keeps the order of the modules, so the steps come in order
            steps.setdefault(found[1] + _JOINED[found[2]], []).append(tensor)
    return others | {name: torch.cat(tensors) for name, tensors in steps.items()}
