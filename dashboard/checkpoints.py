"""Checkpoints and their evaluations: a protocol for reading them, which `flows` implements, and their folders."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from dashboard.catalog import MissingError
from dashboard.folders import find_folders
from dashboard.training import CONFIG, TrainingRun, list_runs
from data_schemas import ids
from data_schemas.errors import KameError, StoreError

_LOG = logging.getLogger(__name__)
FACTS: Final = "kame.json"
CARD: Final = "README.md"
_FIGURES, _ITEMS = "figures.json", "items.jsonl"
COMPARISON: Final = "compare"
"""Kind of a folder that `kame evaluate compare` wrote."""
WAIT_S: Final = 0.3
"""Time in seconds that a page waits for a checkpoint's digest before it says that it is being computed."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """A figure with its 95 % confidence interval (None for a single item) and number of items `n` (None if unknown)."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    is_share: bool


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """Facts about a checkpoint, from its files.

    Attributes:
        weights: file whose digest identifies the checkpoint in evaluations.
        n_parameters, n_bytes: size of that file.
        codec: name of the codec in the folder, or digest of the codec whose codes it uses.
        data: fingerprints of the token rows that it was trained on.
        run: id of its training run; empty if it is unknown.
        losses: validation losses by name, without intervals, at step `losses_step`.
        shares: results of the recall evaluation on held-out dialogues.
        made_at: time when it was registered, or else when its facts were written.
        all_facts: the content of `kame.json`.
    """

    weights: Path
    n_parameters: int
    n_bytes: int
    preset: str
    codec: str
    voice: str
    stage: str
    step: int
    data: Sequence[str]
    run: str
    losses: Mapping[str, float]
    losses_step: int | None
    shares: Sequence[MeasuredFigure]
    made_at: datetime
    all_facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """A row of an evaluation's figures: the group of items, such as "mode tandem", and their figures."""

    title: str
    n: int | None
    figures: Sequence[MeasuredFigure]


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    """Facts about a folder of `kame evaluate`.

    Attributes:
        kind: recall, questions, mt-bench, duplex, or `COMPARISON`.
        title: title for people.
        checkpoints: digests of the weights; several for a comparison, none for a cascade.
        alike: digest of all that must be equal in evaluations that are compared: items, judge, settings.
        rows: the figures; empty for a comparison, which has a report.
    """

    kind: str
    title: str
    checkpoints: frozenset[str]
    alike: str
    rows: Sequence[EvaluationRow]


class CheckpointReader(Protocol):
    """Reads checkpoints and evaluations. Its methods are called from several threads; each raises `KameError`."""

    def list_shipped(self) -> Sequence[Path]:
        """Returns the folders of checkpoints that are shipped with the project."""

    def read_facts(self, folder: Path) -> CheckpointFacts:
        """Reads a checkpoint's facts, but no weights."""

    def read_digest(self, weights: Path) -> str:
        """Computes the digest by which evaluations identify the weights; reads all of them."""

    def read_run_identity(self, folder: Path) -> str:
        """Returns the id of the training run in a folder, which its checkpoints have as `CheckpointFacts.run`."""

    def read_evaluation(self, folder: Path) -> EvaluationFacts:
        """Reads an evaluation, or a comparison of several."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's folder. If its files cannot be read, `facts` is None and `error` says why."""

    key: str
    folder: Path
    facts: CheckpointFacts | None
    error: KameError | None

    @property
    def name(self) -> str:
        """Its key as shown on pages, with slashes."""
        return self.key.replace("~", " / ")

    def get_facts(self) -> CheckpointFacts:
        """Returns the facts of this checkpoint, or raises the error that occurred when they were read.

        Raises:
            KameError: they cannot be read.
        """
        if self.facts is None:
            raise self.error or StoreError(f"{self.folder} cannot be read.")
        return self.facts


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A folder that `kame evaluate` wrote."""

    key: str
    folder: Path
    made_at: datetime
    facts: EvaluationFacts

    @property
    def name(self) -> str:
        """Its key as shown on pages, with slashes."""
        return self.key.replace("~", " / ")


class Checkpoints:
    """The checkpoints below some folders, and their evaluations.

    Args:
        roots: resolved folders.
        reader: reads their files.
        cache: folder in which digests of weights are cached.
    """

    def __init__(self, roots: Sequence[Path], reader: CheckpointReader, cache: Path) -> None:
        self._roots = roots
        self._reader = reader
        self._facts = _Cache(reader.read_facts)
        self._identities = _Cache(reader.read_run_identity)
        self._evaluations = _Cache(reader.read_evaluation)
        self._digests = _Digests(reader.read_digest, cache)

    def list_folders(self) -> list[tuple[str, Path]]:
        """Returns key and folder of each checkpoint below the roots and of the shipped ones, sorted by key."""
        return sorted(find_folders([*self._roots, *self._reader.list_shipped()], lambda each: (each / FACTS).is_file()))

    def list_checkpoints(self) -> list[Checkpoint]:
        """Returns all checkpoints, sorted by key."""
        return [self._read_checkpoint(key, folder) for key, folder in self.list_folders()]

    def open_checkpoint(self, key: str) -> Checkpoint:
        """Returns the checkpoint of a key, with its error if its files cannot be read.

        Raises:
            MissingError: there is none.
        """
        folder = dict(self.list_folders()).get(key)
        if folder is None:
            raise MissingError(f"There is no checkpoint {key!r}.", "Choose one from the list of checkpoints.")
        return self._read_checkpoint(key, folder)

    def find_digest(self, checkpoint: Checkpoint, wait_s: float = WAIT_S) -> str | None:
        """Returns the digest of a checkpoint's weights; None if it is still being computed after `wait_s` seconds.

        It is computed in a background thread, once for each content of the file, and kept in the cache folder.

        Raises:
            KameError: the weights cannot be read.
        """
        return self._digests.find(checkpoint.get_facts().weights, wait_s)

    def list_evaluations(self) -> list[Evaluation]:
        """Returns evaluations and comparisons, the newest first; damaged folders are skipped."""
        found = []
        for is_wanted in (_is_evaluation, _is_comparison):  # a comparison may hold the evaluations that it compares
            for key, folder in find_folders(self._roots, is_wanted):
                try:
                    stamp = _make_stamp(folder / _FIGURES)
                    facts = self._evaluations.get(folder, stamp)
                except (KameError, OSError):
                    continue
                found.append(Evaluation(key, folder, datetime.fromtimestamp(stamp[0] / 1e9, UTC), facts))
        return sorted(found, key=lambda each: each.made_at, reverse=True)

    def open_evaluation(self, key: str) -> Evaluation:
        """Returns the evaluation or comparison of a key.

        Raises:
            MissingError: there is none.
        """
        for each in self.list_evaluations():
            if each.key == key:
                return each
        raise MissingError(f"There is no evaluation {key!r}.", "Choose one from the page of a checkpoint.")

    def find_run(self, checkpoint: Checkpoint) -> TrainingRun | None:
        """Returns the training run of a checkpoint, or None if it is unknown or outside the roots."""
        return self.find_runs([checkpoint]).get(checkpoint.key)

    def find_runs(self, checkpoints: Sequence[Checkpoint]) -> dict[str, TrainingRun]:
        """Returns the training runs of checkpoints by their keys, without those that are unknown or outside the roots.

        The roots are searched once for all.
        """
        wanted = {each.key: each.facts.run for each in checkpoints if each.facts is not None and each.facts.run}
        found: dict[str, TrainingRun] = {}
        for run in list_runs(self._roots) if wanted else ():
            try:
                found.setdefault(self._identities.get(run.folder, _make_stamp(run.folder / CONFIG)), run)
            except (KameError, OSError):
                continue
        return {key: found[identity] for key, identity in wanted.items() if identity in found}

    def _read_checkpoint(self, key: str, folder: Path) -> Checkpoint:
        """Returns a checkpoint with its facts, or with the error if they cannot be read."""
        try:
            return Checkpoint(key, folder, self._facts.get(folder, _make_stamp(folder / FACTS)), None)
        except KameError as error:
            return Checkpoint(key, folder, None, error)
        except OSError as error:
            gone = StoreError(
                f"{folder / FACTS} cannot be read: {error.strerror}.", "Check the permissions of the folder."
            )
            return Checkpoint(key, folder, None, gone)


def count_kinds(evaluations: Sequence[Evaluation]) -> Mapping[str, int]:
    """Counts the evaluations of each kind."""
    return Counter(each.facts.kind for each in evaluations)


def _is_evaluation(folder: Path) -> bool:
    """Returns whether a folder has the figures and the items of an evaluation."""
    return (folder / _FIGURES).is_file() and (folder / _ITEMS).is_file()


def _is_comparison(folder: Path) -> bool:
    """Returns whether a folder has figures but no items, as a comparison of evaluations."""
    return (folder / _FIGURES).is_file() and not (folder / _ITEMS).exists()


_Stamp = tuple[int, int]


def _make_stamp(path: Path) -> _Stamp:
    """Returns a file's time of modification in nanoseconds and its size, which change if it is rewritten."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


class _Cache(Generic[_T]):
    """Cache of what was read from folders, valid while the stamp of one file is unchanged; errors are not cached."""

    def __init__(self, read: Callable[[Path], _T]) -> None:
        self._read = read
        self._known: dict[Path, tuple[_Stamp, _T]] = {}

    def get(self, folder: Path, stamp: _Stamp) -> _T:
        """Returns a folder's content, which is read again if the stamp has changed or reading failed.

        Raises:
            KameError: it cannot be read.
        """
        known = self._known.get(folder)
        if known is None or known[0] != stamp:
            known = self._known[folder] = (stamp, self._read(folder))
        return known[1]


class _Digests:
    """Cache of digests of weights, which are computed one at a time in background threads.

    An error is raised once; the next call tries again.
    """

    def __init__(self, read: Callable[[Path], str], cache: Path) -> None:
        self._read, self._cache = read, cache
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._jobs: dict[str, _DigestJob] = {}

    def find(self, weights: Path, wait_s: float) -> str | None:
        """Returns the digest of a file, which is computed in the background; None if that takes longer than `wait_s`.

        Raises:
            KameError: the file cannot be read, or its digest cannot be kept.
        """
        try:
            key = ids.digest(str(weights), *_make_stamp(weights))
        except OSError as error:
            raise StoreError(
                f"{weights} cannot be read: {error.strerror}.", "Check the permissions of the folder."
            ) from error
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _DigestJob(threading.Event())
                threading.Thread(target=self._compute, args=(weights, key, job), daemon=True).start()
        if not job.done.wait(wait_s):
            return None
        if job.error is not None:
            with self._lock:
                if self._jobs.get(key) is job:
                    del self._jobs[key]
            raise job.error
        return job.digest

    def _compute(self, weights: Path, key: str, job: "_DigestJob") -> None:
        """Reads a digest from the cache folder, or computes it from the weights and writes it there.

        The digest, or the error of a failure, is set in the job.
        """
        kept = self._cache / key
        try:
            if kept.is_file():
                job.digest = kept.read_text(encoding="ascii")
                return
            with self._turn:
                digest = self._read(weights)
            kept.parent.mkdir(parents=True, exist_ok=True)
            aside = kept.with_suffix(".making")
            aside.write_text(digest, encoding="ascii")
            aside.replace(kept)
            job.digest = digest
        except KameError as error:
            job.error = error
        except OSError as error:
            job.error = StoreError(
                f"The digest of {weights} cannot be written: {error}.", "Check the permissions of the cache folder."
            )
        except Exception as error:  # noqa: BLE001  otherwise pages would wait for a digest that never comes
            _LOG.exception("The digest of %s could not be computed.", weights)
            job.error = StoreError(
                f"The digest of {weights} could not be computed: {type(error).__name__}.",
                "Try again. The log of the dashboard has the whole error.",
            )
        finally:
            job.done.set()


@dataclass(slots=True)
class _DigestJob:
    """The computation of a digest; `digest` or `error` is set before `done`."""

    done: threading.Event
    digest: str | None = None
    error: KameError | None = None
