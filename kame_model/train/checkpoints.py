"""A run's own checkpoints, from which it resumes; complete or absent, and loadable with any number of processes.

    checkpoints/step-00000500/   __0_0.distcp …, .metadata   weights, optimiser, moving average; only in the latest
                                 weights/                    the (averaged) weights in the same format
                                 state.json                  step, loader, figures: everything except tensors
                                 DONE                        written last; a folder without it is ignored

`torch.distributed.checkpoint` writes to a temporary folder (`.saving-…`), which is then renamed and marked as done. For
a checkpoint that is written in the background, this happens between two steps, as soon as every process has written. A
run can only resume from the latest checkpoints (`keep.keep_full`); older ones keep only their weights, in bf16 an
eighth of the size. The weights are written with the checkpoint, so that pruning only removes files. There is no random
state to save: each micro-batch has its own generator, seeded by its number.
"""

import errno
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from data_schemas.config.training import BestBy, KeepConfig
from data_schemas.errors import StoreError
from data_schemas.store import sync
from kame_model.train.parallel import Processes

CHECKPOINTS, DONE, STATE, WEIGHTS = "checkpoints", "DONE", "state.json", "weights"
_METADATA = ".metadata"
"""File of `torch.distributed.checkpoint`, without which the tensors of a folder cannot be read."""
_ASIDE = ".saving-"


class SavedCheckpoint(NamedTuple):
    """A complete checkpoint."""

    step: int
    folder: Path

    @property
    def is_full(self) -> bool:
        """Whether a run can resume from it; otherwise it only has weights."""
        return not (self.folder / WEIGHTS).is_dir() or (self.folder / _METADATA).is_file()

    def list_files(self) -> list[Path]:
        """Returns the files that hold its weights; in a full checkpoint they hold all other tensors too."""
        return sorted((self.folder if self.is_full else self.folder / WEIGHTS).glob("*.distcp"))

    def read_state(self) -> dict[str, Any]:
        """Returns what was saved besides the tensors.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            state: dict[str, Any] = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _make_damage_error(self.folder, error) from error
        return state


class _Pending(NamedTuple):
    """A checkpoint that is being written in the background."""

    step: int
    state: Mapping[str, Any]
    future: "Future[Any]"


class Checkpoints:
    """The checkpoints of a run's folder.

    When this is made, all folders among them without `DONE` are removed, as a killed run left them.

    Args:
        folder: folder of the run.
        keep: how many are kept.
        processes: all processes call every method, at the same step.
    """

    def __init__(self, folder: Path, keep: KeepConfig, processes: Processes) -> None:
        self._folder, self._keep, self._processes = folder / CHECKPOINTS, keep, processes
        self._pending: _Pending | None = None
        # Writing in the background uses a process group of its own, because steps use `control` at the same time.
        self._group = None if processes.control is None else dist.new_group(backend="gloo")
        if processes.is_first:
            for left in _find_incomplete(self._folder):
                shutil.rmtree(left)
        processes.barrier()

    def save(
        self,
        step: int,
        tensors: dict[str, Any],
        state: Mapping[str, Any],
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Writes a checkpoint, and removes what `keep` does not keep of earlier ones.

        With `keep.save_async` on a GPU, it is written in the background, and is complete after `finish_saving`, which
        is called first for an earlier one.

        Args:
            step: number of steps done.
            tensors: state dictionaries of weights and optimiser.
            state: JSON values; its `evaluation` and `evaluation_step` determine the score, see `read_score`.
            weights: what is kept when the checkpoint is no longer among the latest; None: everything. It is written at
                once, even on a GPU: in bf16 it is an eighth of the whole, and no copy of it has to be held in memory.

        Raises:
            StoreError: it cannot be written; earlier checkpoints are unchanged.
        """
        self.finish_saving()
        aside = self._get_temporary_path(step)
        with _translate_write_errors(aside), _ignore_single_process_warning():
            if weights is not None:
                save(dict(weights), checkpoint_id=aside / WEIGHTS, process_group=self._group, no_dist=self._is_alone)
            if self._keep.save_async and self._processes.device.type != "cpu":
                future = async_save(tensors, checkpoint_id=aside, process_group=self._group, no_dist=self._is_alone)
                self._pending = _Pending(step, state, cast("Future[Any]", future))  # a future, as staging is not async
                return
            save(tensors, checkpoint_id=aside, process_group=self._group, no_dist=self._is_alone)
            self._finish(step, state)

    @property
    def is_written(self) -> bool:
        """Whether this process has written its part of a background checkpoint that is not finished yet."""
        return self._pending is not None and self._pending.future.done()

    def finish_saving(self) -> None:
        """Waits for a background checkpoint and completes it.

        Raises:
            StoreError: it could not be written.
        """
        if self._pending is not None:
            (step, state, future), self._pending = self._pending, None
            with _translate_write_errors(self._get_temporary_path(step)):
                future.result()
                self._finish(step, state)

    def find_latest(self) -> SavedCheckpoint | None:
        """Returns the latest full checkpoint, from which the run resumes; None if there is none.

        Raises:
            StoreError: all existing ones only have weights.
        """
        saved = list_checkpoints(self._folder)
        full = [each for each in saved if each.is_full]
        if saved and not full:
            raise StoreError(
                f"The checkpoints in {self._folder} only have weights, so the run cannot be resumed from them.",
                "Restore its last checkpoint from a copy, or start another run from these weights: another --out with "
                "--init-from.",
            )
        return full[-1] if full else None

    def find_best_score(self) -> float | None:
        """Returns the best, that is lowest, score of all checkpoints; None if none has a score.

        Raises:
            StoreError: the state of one cannot be read.
        """
        best = find_best(list_checkpoints(self._folder), self._keep.best_by)
        return None if best is None else read_score(best.read_state(), self._keep.best_by)

    def load(self, saved: SavedCheckpoint, tensors: dict[str, Any]) -> dict[str, Any]:
        """Fills tensors in place from a checkpoint, and returns its state: everything else that was saved.

        Raises:
            StoreError: the checkpoint is damaged, or of a model of another shape.
        """
        load_tensors(saved, tensors, self._processes)
        return saved.read_state()

    @property
    def _is_alone(self) -> bool:
        return self._processes.share.world == 1

    def _get_temporary_path(self, step: int) -> Path:
        return self._folder / f"{_ASIDE}step-{step:08d}"

    def _finish(self, step: int, state: Mapping[str, Any]) -> None:
        """Gives the temporary folder its final name, marks it as complete, and prunes older checkpoints.

        The first process does this, and all others wait for it.
        """
        if self._processes.is_first:
            aside, whole = self._get_temporary_path(step), self._folder / f"step-{step:08d}"
            (aside / STATE).write_text(json.dumps({"step": step, **state}), encoding="utf-8")
            sync(aside / STATE)
            sync(aside)
            aside.rename(whole)
            (whole / DONE).touch()
            sync(whole / DONE)
            sync(whole)
            sync(self._folder)
            self._prune()
        self._processes.barrier()

    def _prune(self) -> None:
        """Removes checkpoints that are not kept, and all but the weights of older ones that are."""
        saved = list_checkpoints(self._folder)
        kept = {each.step for each in saved[-self._keep.keep_last :]}
        if self._keep.keep_best and (best := find_best(saved, self._keep.best_by)):
            kept.add(best.step)
        for each in saved:
            if each.step not in kept:
                (each.folder / DONE).unlink()  # first, so that an incomplete folder is ignored
                shutil.rmtree(each.folder)
        for each in saved[: -self._keep.keep_full]:
            if each.step in kept and (each.folder / WEIGHTS).is_dir():
                (each.folder / _METADATA).unlink(missing_ok=True)  # first, so that an incomplete state is never read
                for file in each.folder.glob("*.distcp"):
                    file.unlink()


def list_checkpoints(folder: Path) -> list[SavedCheckpoint]:
    """Returns the complete checkpoints of a folder of checkpoints, sorted by step; empty if there is no such folder."""
    return [
        SavedCheckpoint(int(each.parent.name.removeprefix("step-")), each.parent)
        for each in sorted(folder.glob(f"step-*/{DONE}"))
    ]


def read_score(state: Mapping[str, Any], best_by: BestBy | None) -> float | None:
    """Returns the score of a checkpoint (lower is better): a figure of validation with the right oracle.

    None if there was no validation at the step of the checkpoint, or no figure is configured.
    """
    if state.get("evaluation_step") != state["step"]:
        return None
    score: float | None = state["evaluation"]["right"].get(best_by)
    return score


def find_best(saved: list[SavedCheckpoint], best_by: BestBy | None) -> SavedCheckpoint | None:
    """Returns the checkpoint with the lowest score, of equal ones the first in `saved`; None if none has a score.

    Raises:
        StoreError: the state of one cannot be read.
    """
    scores = {each: score for each in saved if (score := read_score(each.read_state(), best_by)) is not None}
    return min(scores, key=lambda each: scores[each], default=None)


def load_weights_only(saved: SavedCheckpoint, tensors: Mapping[str, Any], processes: Processes) -> None:
    """Fills tensors in place from the weights of a checkpoint that only has weights; they may be of another type.

    Raises:
        StoreError: it is damaged, or of a model of another shape.
    """
    load_tensors(SavedCheckpoint(saved.step, saved.folder / WEIGHTS), dict(tensors), processes)


def load_tensors(saved: SavedCheckpoint, tensors: dict[str, Any], processes: Processes) -> None:
    """Fills tensors in place from a checkpoint; other tensors of the checkpoint are ignored.

    Raises:
        StoreError: it is damaged, or of a model of another shape.
    """
    alone = processes.share.world == 1
    try:
        with _ignore_single_process_warning():
            load(tensors, checkpoint_id=saved.folder, process_group=processes.control, no_dist=alone)
    except (CheckpointException, OSError, RuntimeError, ValueError, KeyError, EOFError) as error:
        raise _make_damage_error(saved.folder, error) from error


def _find_incomplete(folder: Path) -> list[Path]:
    """Returns the incomplete checkpoints, which a killed run was writing or removing."""
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if each.is_dir() and not (each / DONE).exists()]


@contextmanager
def _translate_write_errors(aside: Path) -> Iterator[None]:
    """Context manager for writing a checkpoint: on failure, the temporary folder `aside` is removed.

    Errors of writing are raised as a StoreError with the original cause.
    """
    try:
        yield
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        if not isinstance(error, OSError | CheckpointException | RuntimeError):
            raise
        causes = [error, *_list_causes(error)]
        full = any(isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT) for each in causes)
        why = "no space is left on the disk" if full else str(causes[-1])
        remedy = "Free disk space" if full else "Fix this cause"
        raise StoreError(
            f"Cannot write the checkpoint {aside.name.removeprefix(_ASIDE)} into {aside.parent}: {why}.",
            f"Earlier checkpoints are intact. {remedy}, then run the same command again.",
        ) from error


@contextmanager
def _ignore_single_process_warning() -> Iterator[None]:
    """Context manager that suppresses PyTorch's warning that a single process saves, which is intended here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        yield


def _list_causes(error: BaseException) -> list[BaseException]:
    """Returns the errors of all processes in a checkpoint's exception, and their contexts; the original comes last.

    On a full disk, PyTorch's zip writer raises another error while it closes ("unexpected pos"), which hides the first.
    """
    causes: list[BaseException] = []
    for cause, _ in error.failures.values() if isinstance(error, CheckpointException) else ():
        before: BaseException | None = cause
        while before is not None:
            causes.append(before)
            before = before.__context__
    return causes


def _make_damage_error(folder: Path, error: BaseException) -> StoreError:
    """Makes the error for a checkpoint that cannot be read, with its original cause."""
    cause = [error, *_list_causes(error)][-1]
    why = (str(cause) or type(cause).__name__).splitlines()[0]
    return StoreError(
        f"The checkpoint {folder} cannot be read: {why}.",
        "Restore that folder from a copy; or move it elsewhere, and the run resumes from the one before it, if that "
        "has more than weights (keep.keep_full).",
    )
