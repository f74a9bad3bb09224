"""Runs one training from its configuration; called again, it resumes."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import filelock
import torch
from moshi.utils.compile import no_compile

from data_schemas import ids
from data_schemas.config.training import KINDS, BestBy, Kind, SharesConfig, TrainConfig
from data_schemas.errors import ConfigError, StoreError
from kame_model.data import copying, lessons
from kame_model.data.batch_plan import RowKind, has_rows_of, make_units
from kame_model.data.example import ExampleMaker, ValidationExample
from kame_model.data.loader import Loader, RowSource, Source
from kame_model.data.mixture import open_datasets
from kame_model.encode.folder import TOKENIZER
from kame_model.encode.token_dataset import TokenDataset
from kame_model.model.front_end import FrontEnd
from kame_model.text.tokenizer import HUB_PREFIX, Tokenizer
from kame_model.train.checkpoints import CHECKPOINTS, DONE, Checkpoints, list_checkpoints
from kame_model.train.curves import check_curves, open_curves
from kame_model.train.free_copying import N_TRIALS, measure_copying
from kame_model.train.free_dialogues import draw_dialogues, measure_dialogues
from kame_model.train.free_samples import FreeResult, FreeRunningLog
from kame_model.train.logs import MetricsLog
from kame_model.train.model import ForwardPass, build_model, build_shape
from kame_model.train.parallel import Processes, join_processes
from kame_model.train.run_facts import RunFacts, VocabularyAndCodec, read_facts
from kame_model.train.run_folder import begin_run, digest_weights
from kame_model.train.throughput import Speedometer, count_pass, count_weights, find_peak_flops
from kame_model.train.trainer import SILENT, Parts, Progress, Trainer
from kame_model.train.validation import Evaluation, Evaluator


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes:
        folder: folder of the run.
        step: number of steps done, including earlier starts.
        is_done: whether the end was reached; otherwise the run was asked to stop, and the same command resumes it.
        n_weights, n_trained: number of weights of the front-end, and of those that are trained.
        figures: the last line of metrics that this start wrote; empty: it wrote none.
        evaluation: the last validation, also of an earlier start; None: there was none.
    """

    folder: str
    step: int
    is_done: bool
    n_weights: int
    n_trained: int
    figures: dict[str, float]
    evaluation: Evaluation | None


def train(config: TrainConfig, progress: Progress = SILENT, stop: threading.Event | None = None) -> RunResult:
    """Trains the front-end of a run's folder, or resumes its training.

    A run that was killed at any time and resumed has the same losses as an uninterrupted one, bit-exact on the CPU.
    When asked to stop by SIGTERM, SIGINT or `stop`, it finishes the step, saves, and returns. When the end is reached,
    the empty file `DONE` is written into the folder; that of an earlier end is removed at the start. With
    `hardware.threads`, the number of threads of torch stays changed in this Python process.

    Raises:
        ConfigError: settings that do not fit together or do not fit the run in this folder, or another training runs
            there.
        DatasetError, StoreError: data or a checkpoint that cannot be read, or a full disk.
        BackendError: the vocabulary or the initial weights cannot be read or downloaded.
        TrainingError: a loss or gradient is not finite.
    """
    if config.hardware.threads:
        torch.set_num_threads(config.hardware.threads)
    check_curves(config)
    stop, out = stop or threading.Event(), Path(config.out)
    hardware = config.hardware
    joining = join_processes(hardware.device, hardware.replicas)
    # Compiled by moshi, the norms' backward pass fails on a GPU: their weight is [1, 1, dim], its gradient [dim].
    with joining as processes, set_on_signals(stop), _lock_folder(out, processes), no_compile():
        config = fill_config(config, processes.share.world)
        trainer, sizes = _make_trainer(config, processes)
        trainer.resume()
        if processes.is_first:
            (out / DONE).unlink(missing_ok=True)  # exists if a finished run is extended
        with _log_metrics(config, trainer, processes):
            is_done = trainer.run(progress, stop)
        if is_done and processes.is_first:
            (out / DONE).touch()
        return RunResult(config.out, trainer.step, is_done, *sizes, trainer.figures, trainer.evaluation)


def fill_config(config: TrainConfig, world: int) -> TrainConfig:
    """Returns a configuration with absolute paths, the vocabulary and the number of micro-batches of a step filled in.

    A run with checkpoints keeps its recorded number of micro-batches if none is configured. Nothing is written.

    Args:
        config: the configuration as it was given.
        world: number of processes of the run.

    Raises:
        ConfigError: the micro-batches of a step cannot be divided among the processes.
        DatasetError: the folder has checkpoints, but its recorded facts cannot be read.
    """
    datasets = [each.model_copy(update={"path": str(Path(each.path).absolute())}) for each in config.data.datasets]
    return config.model_copy(
        update={
            "init_from": config.init_from and _make_absolute(config.init_from),
            "tokenizer": _make_absolute(config.tokenizer) if config.tokenizer else _find_vocabulary(datasets[0].path),
            "data": config.data.model_copy(update={"datasets": datasets}),
            "optim": config.optim.model_copy(update={"accumulation": _resolve_accumulation(config, world)}),
        }
    )


@contextmanager
def set_on_signals(stop: threading.Event) -> Iterator[None]:
    """Context manager in which SIGTERM and SIGINT set an event; a second signal raises KeyboardInterrupt.

    Signals reach the main thread only; in another thread (a worker of a scheduler), the caller has to set the event.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _make_trainer(config: TrainConfig, processes: Processes) -> tuple[Trainer, tuple[int, int]]:
    """Makes a trainer at step 0 with all components; also returns the number of weights, and of trained ones.

    The first process compares the facts of the run with those in its folder, writes them (`begin_run`), and removes
    incomplete checkpoints. Initial weights and vocabulary may be downloaded.
    """
    out = Path(config.out)
    datasets = open_datasets(config.data.datasets)
    speaks_with = VocabularyAndCodec.from_dataset(datasets[0])
    config = config.model_copy(update={"shares": _resolve_shares(config, datasets)})
    fingerprints = [each.fingerprint for each in datasets] if config.shares.has_sound else []
    loader, judged = _make_data(config, datasets, processes)
    keep = config.keep.model_copy(update={"best_by": _resolve_best_by(config, judged)})
    config = config.model_copy(update={"keep": keep})
    if processes.is_first:
        is_read = config.lora is not None or not list_checkpoints(out / CHECKPOINTS)  # as in `build_model`
        base = digest_weights(config.init_from) if config.init_from and is_read else None
        facts = RunFacts(config=config, speaks_with=speaks_with, datasets=fingerprints, base_digest=base)
        begin_run(out, facts)
    checkpoints = Checkpoints(out, config.keep, processes)
    forward, with_audio = ForwardPass(processes, config.hardware.precision), config.shares.main != "copying"
    shape = build_shape(config, speaks_with, forward)
    sizes, frame_flops = count_weights(shape), count_pass(shape, with_audio).flops
    peak = find_peak_flops(processes.device, forward.product_type) * processes.share.world
    parts = Parts(
        model=build_model(shape, config, speaks_with, forward, is_new=checkpoints.find_latest() is None).train(),
        loader=loader,
        evaluator=Evaluator(judged, config.data, config.loss, forward, with_audio) if judged else None,
        forward=forward,
        checkpoints=checkpoints,
        speedometer=Speedometer(frame_flops, peak, 1 + 2 * speaks_with.layout.n_codebooks),
        run_freely=_list_free_runs(config, datasets, forward) if judged else {},
    )
    return Trainer(config, parts), sizes


def _make_data(
    config: TrainConfig, datasets: list[TokenDataset], processes: Processes
) -> tuple[Loader, list[ValidationExample]]:
    """Makes the loader of micro-batches, and the validation examples."""
    accumulation, n_judged = config.optim.accumulation or 1, config.keep.evaluate_examples
    how = (config.seed, accumulation, processes.share)
    shares, sources = config.shares, dict[Kind, Source]()
    needs_pieces = shares.copying or (shares.dialogues and config.data.substitute_share)
    pieces = _read_pieces(config, datasets[0]) if needs_pieces else None
    for kind in KINDS:
        if not getattr(shares, kind):
            continue
        if kind == "copying":
            assert pieces is not None  # copying needs them
            accuracy = config.accuracy if shares.main == kind else None
            sources[kind] = lessons.CopySource(pieces, config.copying, accuracy, *how, config.data.length_multiple)
        else:
            sources[kind] = RowSource(datasets, config.data, *how, pieces, kind, shares)
    if shares.main != "copying":
        judged = _draw_validation(config, datasets, shares.main, n_judged)
    else:
        assert pieces is not None
        judged = lessons.make_validation_examples(pieces, config.copying, n_judged, config.seed)
    return Loader(sources, shares), judged


def _resolve_shares(config: TrainConfig, datasets: list[TokenDataset]) -> SharesConfig:
    """Returns the shares of the kinds of steps, with 0 for kinds of which the datasets have no rows.

    Raises:
        ConfigError: they have nothing of the run's main kind.
    """
    rows: tuple[RowKind, ...] = ("dialogues", "speech")
    missing = [kind for kind in rows if not any(has_rows_of(each, kind) for each in datasets)]
    if config.shares.main in missing:
        raise ConfigError(
            f"The stage {config.stage!r} is of {config.shares.main}, and the datasets hold none.",
            "Name a folder that has some, or another --stage; `kame encode` creates dialogue rows, and "
            "`kame speech` creates speech rows.",
        )
    return config.shares.model_copy(update=dict.fromkeys(missing, 0.0))


def _list_free_runs(
    config: TrainConfig, datasets: list[TokenDataset], forward: ForwardPass
) -> dict[str, Callable[[FrontEnd], FreeResult]]:
    """Returns functions that measure a free-running model at each validation, by the kind of their lines in metrics.

    It is copying, or dialogues if oracles are learnt. Empty with several processes, because none has all weights.
    Dialogues also need the vocabulary, and weights of one type, which adapters in bf16-mixed do not have.
    """
    if forward.processes.mesh is not None:
        return {}
    if config.shares.main == "copying":
        pieces, draw = _read_pieces(config, datasets[0]), random.Random(ids.derive_seed("copy-trials", config.seed))
        n_trials = min(N_TRIALS, config.keep.evaluate_examples)
        trials = [copying.draw_trial(pieces, config.copying, draw) for _ in range(n_trials)]
        return {"copied": lambda front_end: FreeResult(measure_copying(front_end, trials))}
    is_mixed = config.lora is not None and forward.product_type != torch.float32
    learns_oracles = config.shares.main == "dialogues" and config.data.learn != "b" and not config.data.feed.is_silent
    if not learns_oracles or is_mixed or config.tokenizer is None or not config.keep.free_dialogues:
        return {}
    tokenizer = _read_vocabulary(config, datasets[0])
    asked = draw_dialogues(datasets, tokenizer, config.keep.free_dialogues, config.seed)
    measure = partial(measure_dialogues, asked=asked, tokenizer=tokenizer, guesses=config.data.feed.guesses)
    return {"free": measure} if asked else {}


def _draw_validation(
    config: TrainConfig, datasets: list[TokenDataset], kind: RowKind, n_examples: int
) -> list[ValidationExample]:
    """Draws at most `n_examples` validation examples of a kind from all datasets, by the run's seed."""
    maker = ExampleMaker(datasets, config.data, config.seed)
    units = [
        unit
        for number, each in enumerate(datasets)
        for unit in make_units(
            number,
            each,
            "validation",
            config.data.learn,
            kind,
            without_oracle=config.data.feed.is_silent,
            max_columns=config.data.max_columns,
        ).units
    ]
    order = torch.randperm(
        len(units), generator=torch.Generator().manual_seed(ids.derive_seed("validation", config.seed))
    )
    return [maker.make_validation_example(units[at]) for at in order[:n_examples].tolist()]


def _make_absolute(place: str) -> str:
    """Returns an existing path as an absolute one; anything else, such as a name on the Hub, is returned unchanged."""
    is_here = not place.startswith(HUB_PREFIX) and Path(place).exists()
    return str(Path(place).absolute()) if is_here else place


def _find_vocabulary(rows: str) -> str | None:
    """Returns the path of the vocabulary that `kame encode` stored with its rows; None if there is none."""
    path = Path(rows) / TOKENIZER
    return str(path) if path.is_file() else None


def _resolve_accumulation(config: TrainConfig, world: int) -> int:
    """Returns the number of micro-batches of a step: as configured, or as recorded in the run, or one.

    It never depends on the number of processes: otherwise a run on more GPUs would have larger and fewer steps.

    Raises:
        ConfigError: it is not a multiple of the number of processes.
    """
    accumulation = config.optim.accumulation
    if accumulation is None and list_checkpoints(Path(config.out) / CHECKPOINTS):
        accumulation = read_facts(config.out).config.optim.accumulation
    n_batches = accumulation or 1
    if n_batches % world:
        n_frames = config.data.batch_frames
        raise ConfigError(
            f"{n_batches} micro-batches a step cannot be shared by {world} processes.",
            f"Set optim.accumulation to a multiple of the processes: with {world} a step has up to {world * n_frames} "
            f"frames instead of {n_batches * n_frames}, unless data.batch_frames is made smaller. A run that was "
            "started with another number resumes with a number of processes that divides it.",
        )
    return n_batches


def _resolve_best_by(config: TrainConfig, judged: list[ValidationExample]) -> BestBy:
    """Returns the measure that selects the best checkpoint: as configured, else as recorded in the run, else text.

    Raises:
        ConfigError: the measure is the answer, and no validation dialogue has one.
    """
    best_by = config.keep.best_by
    if best_by is None and list_checkpoints(Path(config.out) / CHECKPOINTS):
        best_by = read_facts(config.out).config.keep.best_by
    if best_by == "answer" and judged and not any(each.example.answer_mask.any() for each in judged):
        raise ConfigError(
            "No validation dialogue has an answer, by whose loss the best checkpoint should be chosen.",
            "Set keep.best_by to text or loss.",
        )
    return best_by or "text"


def _read_pieces(config: TrainConfig, dataset: TokenDataset) -> copying.WordPieces:
    """Returns the pieces of a run's vocabulary; raises a ConfigError as `_read_vocabulary`."""
    return copying.get_pieces(_read_vocabulary(config, dataset), dataset.layout)


def _read_vocabulary(config: TrainConfig, dataset: TokenDataset) -> Tokenizer:
    """Loads the vocabulary of a run.

    Raises:
        ConfigError: the configuration names none, or it is not that of the dataset.
        BackendError: it cannot be read or downloaded.
    """
    if config.tokenizer is None:
        raise ConfigError(
            f"Copying and answer substitution need a tokenizer, and {dataset.folder} does not contain one.",
            "Name its file: --tokenizer FILE.",
        )
    tokenizer = Tokenizer.from_file(config.tokenizer)
    if tokenizer.digest != dataset.tokenizer_digest:
        raise ConfigError(
            f"{config.tokenizer} is not the vocabulary that {dataset.folder} was encoded with.",
            "Name the file that `kame encode` was given.",
        )
    return tokenizer


@contextmanager
def _log_metrics(config: TrainConfig, trainer: Trainer, processes: Processes) -> Iterator[None]:
    """Context manager in which a trainer logs metrics and the texts of free running, in the first process only.

    Lines of steps after the trainer's, which a killed run wrote, are removed from both files.
    """
    if not processes.is_first:
        yield
        return
    out = Path(config.out)
    trainer.free_log = FreeRunningLog(out, trainer.step)
    log = MetricsLog(out, trainer.step, open_curves(config, out, trainer.step))
    trainer.log = log
    try:
        yield
    finally:
        log.close()


@contextmanager
def _lock_folder(folder: Path, processes: Processes) -> Iterator[None]:
    """Context manager that locks a folder, so that only one run at a time uses it; it is created if necessary.

    Of several processes, only the first one locks it.

    Raises:
        ConfigError: another training has locked it.
        StoreError: it cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot make {folder}: {error.strerror}.", "Choose another --out.") from error
    if not processes.is_first:
        yield
        return
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise ConfigError(f"Another training runs in {folder}.", "Wait for it, or choose another --out.") from error
    except OSError as error:
        raise StoreError(
            f"Cannot write {folder}: {error.strerror or error}.", "Check its permissions, or choose another --out."
        ) from error
    try:
        yield
    finally:
        lock.release()
