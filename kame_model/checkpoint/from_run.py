"""A training run's weights as a checkpoint's folder."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from data_schemas.errors import ConfigError, DatasetError
from data_schemas.store import Store
from kame_model.checkpoint.codec_files import Options, codec_files
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import KameJson, TrainingFacts
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.encode.manifest import read_manifest
from kame_model.text.tokenizer import Tokenizer
from kame_model.train.runs import RunFacts, chosen, load_run, read_facts
from kame_model.train.saving import Saved

Which = Literal["last", "best"]


def export_run(
    run: str | Path,
    out: str | Path,
    codec: tuple[str, Options] | None,
    tokenizer: str | None = None,
    which: Which = "best",
    dtype: torch.dtype | None = None,
) -> KameJson:
    """Writes a run's checkpoint as a folder that others load.

    Args:
        run: the run's folder.
        out: a folder that does not exist yet.
        codec: name and options of the codec that the data was encoded with, as `codec_of` has them; None: the folder
            has none, and no voice.
        tokenizer: the vocabulary that the data was encoded with; None: that of the run's settings.
        which: the last weights, or the best on validation by the run's `keep.best_by`.
        dtype: of the weights in the file; None: as they were trained.

    Raises:
        ConfigError: vocabulary or codec are not those of the run, or `out` is there already.
        DatasetError: no run, or one without a checkpoint.
        StoreError: a checkpoint is damaged, or the folder cannot be written.
    """
    front_end, facts, saved = load_run(run, which)
    place = tokenizer or facts.config.tokenizer
    if place is None:
        raise ConfigError(f"The run {run} names no tokenizer.", "Name it: --tokenizer FILE.")
    vocabulary = Tokenizer.from_file(place)
    _same("tokenizer", vocabulary.digest, facts.speaks_with.tokenizer_digest, run)
    files = None
    if codec is not None:
        files = codec_files(*codec)
        _same("codec", files.facts.digest, facts.speaks_with.codec_digest, run)
    return export_checkpoint(front_end, vocabulary, files, out, _training(facts, saved), dtype)


@contextmanager
def exported(run: Path, device: torch.device | str = "cpu") -> Iterator[Checkpoint]:
    """A run's best weights as a checkpoint, which lies in the temporary folder for as long as the block lasts.

    Args:
        run: its folder, by which the checkpoint is named.
        device: where the front-end goes.

    Raises:
        ConfigError, DatasetError, StoreError: see `export_run` and `codec_of`.
    """
    with tempfile.TemporaryDirectory(prefix="kame-checkpoint-") as folder:
        export_run(run, Path(folder) / "checkpoint", codec_of(run))
        loaded = load_checkpoint(Path(folder) / "checkpoint", device)
        yield loaded._replace(place=loaded.place._replace(name=str(run)))


def codec_of(run: str | Path) -> tuple[str, Options]:
    """Name and options of the codec that a run's data was encoded with, as its token rows say.

    Raises:
        ConfigError: the rows are gone.
        DatasetError: no run.
    """
    rows = read_facts(run).config.data.datasets[0].path
    try:
        manifest = read_manifest(Store(rows))
    except DatasetError as error:
        raise ConfigError(
            f"The codec of {run} is not known: {error.what}",
            "Name it: --codec and --codec-path, or --codec none, of `kame checkpoint export`.",
        ) from error
    return manifest.made_with.codec, manifest.codec_options


def training_facts(run: str | Path, which: Which = "best") -> TrainingFacts:
    """What an export of the run would say of its training.

    Raises:
        DatasetError: no run, or one without a checkpoint.
        StoreError: a checkpoint is damaged.
    """
    return _training(read_facts(run), chosen(run, which))


def _training(facts: RunFacts, saved: Saved) -> TrainingFacts:
    state = saved.state()
    return TrainingFacts(
        run=facts.identity,
        stage=facts.config.stage,
        step=saved.step,
        data=facts.datasets,
        codec_digest=facts.speaks_with.codec_digest,
        init_from=facts.config.init_from,
        lora=facts.config.lora is not None,
        figures=_figures(state.get("evaluation") or {}),
        figures_step=state.get("evaluation_step"),
    )


def _figures(evaluation: dict[str, Any]) -> dict[str, float]:
    """`{"right": {"text": 1.0}}` as `{"right.text": 1.0}`: whose oracle was fed, and what was measured."""
    return {
        f"{column}.{name}": float(value) for column, figures in evaluation.items() for name, value in figures.items()
    }


def _same(what: str, named: str, trained: str, run: str | Path) -> None:
    if named != trained:
        raise ConfigError(
            f"The run {run} was trained with {what} {trained}, the one named is {named}.",
            f"Name the {what} that its data was encoded with.",
        )
