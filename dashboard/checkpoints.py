"""Checkpoints and what was measured of them: a protocol for their files, which `flows` implements, and the folders."""

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

FACTS: Final = "kame.json"
CARD: Final = "README.md"
_FIGURES, _ITEMS = "figures.json", "items.jsonl"
COMPARISON: Final = "compare"
"""Kind of a folder that `kame evaluate compare` wrote."""
WAIT_S: Final = 0.3
"""How long a page waits for a checkpoint's digest before it says that it is being made."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its interval of 95 %; of one item there is none. `n` items were asked; None: it is not told."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    is_share: bool


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What a checkpoint's files say of it.

    Attributes:
        weights: the file whose digest stands for it in evaluations.
        n_parameters, n_bytes: of that file.
        codec: name of the codec in the folder, or the digest of the one whose codes it speaks.
        data: fingerprints of the token rows that it was trained on.
        run: identity of the training run that it came from; empty: it is not told.
        losses: figures on validation by name, without intervals, taken at `losses_step`.
        shares: what free runs on held-out dialogues came to.
        made_at: when it was registered, else when its facts were written.
        all_facts: `kame.json`.
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
    shares: Sequence[Figure]
    made_at: datetime
    all_facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """A row of an evaluation's figures: which items it counts, such as "mode tandem", and what they came to."""

    title: str
    n: int | None
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class EvaluationFacts:
    """What a folder of `kame evaluate` says of itself.

    Attributes:
        kind: recall, questions, mt-bench, duplex; or `COMPARISON`.
        title: what was measured, for people.
        checkpoints: digests of the weights: of a comparison several, of a cascade none.
        alike: stands for all that must be the same where figures stand side by side: items, judge, settings.
        rows: none of a comparison, whose report tells all.
    """

    kind: str
    title: str
    checkpoints: frozenset[str]
    alike: str
    rows: Sequence[EvaluationRow]


class CheckpointReader(Protocol):
    """Reads what other parts of KAME wrote. Its methods are called from several threads; each raises `KameError`."""

    def list_shipped(self) -> Sequence[Path]:
        """Folders of checkpoints that come with the project."""

    def read_facts(self, folder: Path) -> CheckpointFacts:
        """A checkpoint's facts; no weights are read."""

    def read_digest(self, weights: Path) -> str:
        """What stands for weights in evaluations; reads all of them."""

    def read_run_identity(self, folder: Path) -> str:
        """What stands for a training run in the facts of its checkpoints."""

    def read_evaluation(self, folder: Path) -> EvaluationFacts:
        """An evaluation, or a comparison of some."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's folder. Where its files cannot be read `facts` are None, and `error` says why."""

    key: str
    folder: Path
    facts: CheckpointFacts | None
    error: KameError | None

    @property
    def name(self) -> str:
        """For people."""
        return self.key.replace("~", " / ")

    def require(self) -> CheckpointFacts:
        """Its facts.

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
        """For people."""
        return self.key.replace("~", " / ")


class Checkpoints:
    """The checkpoints below some folders, and their evaluations.

    Args:
        roots: resolved.
        reader: of their files.
        cache: folder in which digests of weights are kept.
    """

    def __init__(self, roots: Sequence[Path], reader: CheckpointReader, cache: Path) -> None:
        self._roots = roots
        self._reader = reader
        self._facts = _Kept(reader.read_facts)
        self._identities = _Kept(reader.read_run_identity)
        self._evaluations = _Kept(reader.read_evaluation)
        self._digests = _Digests(reader.read_digest, cache)

    def list_folders(self) -> list[tuple[str, Path]]:
        """Keys and folders: those below the roots, and those that come with the project."""
        return sorted(find_folders([*self._roots, *self._reader.list_shipped()], lambda each: (each / FACTS).is_file()))

    def list_checkpoints(self) -> list[Checkpoint]:
        """All of them, in order of their keys."""
        return [self._open(key, folder) for key, folder in self.list_folders()]

    def open_checkpoint(self, key: str) -> Checkpoint:
        """The checkpoint of a key.

        Raises:
            MissingError: there is none.
        """
        folder = dict(self.list_folders()).get(key)
        if folder is None:
            raise MissingError(f"There is no checkpoint {key!r}.", "Choose one from the list of checkpoints.")
        return self._open(key, folder)

    def find_digest(self, checkpoint: Checkpoint, wait_s: float = WAIT_S) -> str | None:
        """What stands for a checkpoint's weights; None: they are still being read.

        Raises:
            KameError: they cannot be read.
        """
        return self._digests.find(checkpoint.require().weights, wait_s)

    def list_evaluations(self) -> list[Evaluation]:
        """Evaluations and comparisons, the newest first; damaged folders are left out."""
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
        """The evaluation or comparison of a key.

        Raises:
            MissingError: there is none.
        """
        for each in self.list_evaluations():
            if each.key == key:
                return each
        raise MissingError(f"There is no evaluation {key!r}.", "Choose one from the page of a checkpoint.")

    def find_run(self, checkpoint: Checkpoint) -> TrainingRun | None:
        """The training run that a checkpoint came from; None: it is not below the roots, or nobody wrote it down."""
        wanted = checkpoint.facts.run if checkpoint.facts else ""
        for run in list_runs(self._roots) if wanted else ():
            try:
                if self._identities.get(run.folder, _make_stamp(run.folder / CONFIG)) == wanted:
                    return run
            except (KameError, OSError):
                continue
        return None

    def _open(self, key: str, folder: Path) -> Checkpoint:
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
    """How many there are of each kind."""
    return Counter(each.facts.kind for each in evaluations)


def _is_evaluation(folder: Path) -> bool:
    return (folder / _FIGURES).is_file() and (folder / _ITEMS).is_file()


def _is_comparison(folder: Path) -> bool:
    return (folder / _FIGURES).is_file() and not (folder / _ITEMS).exists()


_Stamp = tuple[int, int]


def _make_stamp(path: Path) -> _Stamp:
    """What differs when a file was written anew."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


class _Kept(Generic[_T]):
    """What was read of folders, for as long as their files stay as they are; errors are kept too."""

    def __init__(self, read: Callable[[Path], _T]) -> None:
        self._read = read
        self._known: dict[Path, tuple[_Stamp, _T | KameError]] = {}

    def get(self, folder: Path, stamp: _Stamp) -> _T:
        known = self._known.get(folder)
        if known is None or known[0] != stamp:
            try:
                told: _T | KameError = self._read(folder)
            except KameError as error:
                told = error
            known = self._known[folder] = (stamp, told)
        if isinstance(known[1], KameError):
            raise known[1]
        return known[1]


class _Digests:
    """Digests of weights, which take long to read: one file at a time, each in a thread that nobody waits for."""

    def __init__(self, read: Callable[[Path], str], cache: Path) -> None:
        self._read, self._cache = read, cache
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._jobs: dict[str, _DigestJob] = {}

    def find(self, weights: Path, wait_s: float) -> str | None:
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
                threading.Thread(target=self._make, args=(weights, key, job), daemon=True).start()
        if not job.done.wait(wait_s):
            return None
        if job.error is not None:
            raise job.error
        return job.digest

    def _make(self, weights: Path, key: str, job: "_DigestJob") -> None:
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
                f"The digest of {weights} cannot be kept: {error}.", "Check the permissions of the cache folder."
            )
        finally:
            job.done.set()


@dataclass(slots=True)
class _DigestJob:
    done: threading.Event
    digest: str | None = None
    error: KameError | None = None
