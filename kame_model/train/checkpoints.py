"""A run's own checkpoints, from which it goes on: whole or not there, for any number of processes.

    checkpoints/step-00000500/   __0_0.distcp …, .metadata   weights, optimiser, moving average; in the last ones alone
                                 weights/                    in the same form the weights, averaged where they are so
                                 state.json                  step, loader, figures: all that is no tensor
                                 DONE                        written last; a folder without it does not count

`torch.distributed.checkpoint` writes it aside (`.saving-…`), then it is renamed, and then marked. Of one that is
written beside the training the last two are done between two steps, as soon as every process has written. Only from the
last ones (`keep.keep_full`) can a run go on; of those before, weights alone stay, in bf16 an eighth of the whole. They
are written when the checkpoint is, so that it becomes one of weights by removing files and nothing else. No random
state is in it because there is none: each micro-batch has a generator of its own, seeded by its number.
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
"""Of `torch.distributed.checkpoint`, without which a folder's tensors cannot be read."""
_ASIDE = ".saving-"


class Saved(NamedTuple):
    """A whole checkpoint."""

    step: int
    folder: Path

    @property
    def is_full(self) -> bool:
        """Whether a run can go on from it; else it has weights alone."""
        return not (self.folder / WEIGHTS).is_dir() or (self.folder / _METADATA).is_file()

    def list_files(self) -> list[Path]:
        """The files that hold its weights, and in a full one all else."""
        return sorted((self.folder if self.is_full else self.folder / WEIGHTS).glob("*.distcp"))

    def state(self) -> dict[str, Any]:
        """What `save` was given beside the tensors.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            state: dict[str, Any] = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _make_damage_error(self.folder, error) from error
        return state


class _Pending(NamedTuple):
    step: int
    state: Mapping[str, Any]
    future: "Future[Any]"


class Checkpoints:
    """The checkpoints of a run's folder.

    Args:
        folder: the run's.
        keep: how many stay.
        processes: all call every method, at the same step.
    """

    def __init__(self, folder: Path, keep: KeepConfig, processes: Processes) -> None:
        self._folder, self._keep, self._processes = folder / CHECKPOINTS, keep, processes
        self._pending: _Pending | None = None
        # What is written in the background speaks in a group of its own: in `control` the steps go on meanwhile.
        self._group = None if processes.control is None else dist.new_group(backend="gloo")
        if processes.is_first:
            for left in _find_left_over(self._folder):
                shutil.rmtree(left)
        processes.barrier()

    def save(
        self,
        step: int,
        tensors: dict[str, Any],
        state: Mapping[str, Any],
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Writes a checkpoint; on a GPU in the background, and it counts once it is settled.

        Args:
            step: steps done.
            tensors: state dictionaries of weights and optimiser.
            state: as JSON has it; `evaluation` and `evaluation_step` of it tell the best, see `read_score`.
            weights: what stays of it once it is no longer among the last; None: all does. Written at once, on a GPU
                too: an eighth of the whole in bf16, and no copy of it has to be kept.

        Raises:
            StoreError: it cannot be written; those before it stay as they are.
        """
        self.settle()
        aside = self._get_temporary_path(step)
        with _guard_writing(aside), _ignore_single_process_warning():
            if weights is not None:
                save(dict(weights), checkpoint_id=aside / WEIGHTS, process_group=self._group, no_dist=self._alone)
            if self._keep.save_async and self._processes.device.type != "cpu":
                future = async_save(tensors, checkpoint_id=aside, process_group=self._group, no_dist=self._alone)
                self._pending = _Pending(step, state, cast("Future[Any]", future))  # no staging apart is asked for
                return
            save(tensors, checkpoint_id=aside, process_group=self._group, no_dist=self._alone)
            self._finish(step, state)

    @property
    def is_written(self) -> bool:
        """Whether this process has written its part of a checkpoint in the background, and it waits to be settled."""
        return self._pending is not None and self._pending.future.done()

    def settle(self) -> None:
        """Waits for a checkpoint in the background, and makes it count.

        Raises:
            StoreError: it could not be written.
        """
        if self._pending is not None:
            (step, state, future), self._pending = self._pending, None
            with _guard_writing(self._get_temporary_path(step)):
                future.result()
                self._finish(step, state)

    def find_latest(self) -> Saved | None:
        """The last whole checkpoint, from which the run goes on; None where there is none at all.

        Raises:
            StoreError: those that are there have weights alone.
        """
        saved = list_saved(self._folder)
        full = [each for each in saved if each.is_full]
        if saved and not full:
            raise StoreError(
                f"The checkpoints in {self._folder} have weights alone, so that the run cannot go on from them.",
                "Put its last checkpoint back from a copy, or begin another run from these weights: another --out with "
                "--init-from.",
            )
        return full[-1] if full else None

    def find_best_score(self) -> float | None:
        """The least score of all checkpoints; None where none has one."""
        best = find_best(list_saved(self._folder), self._keep.best_by)
        return None if best is None else read_score(best.state(), self._keep.best_by)

    def load(self, saved: Saved, tensors: dict[str, Any]) -> dict[str, Any]:
        """Fills tensors in place, and returns the rest of the state.

        Raises:
            StoreError: the checkpoint is damaged, or of a model of another shape.
        """
        load_tensors(saved, tensors, self._processes)
        return saved.state()

    @property
    def _alone(self) -> bool:
        return self._processes.share.world == 1

    def _get_temporary_path(self, step: int) -> Path:
        return self._folder / f"{_ASIDE}step-{step:08d}"

    def _finish(self, step: int, state: Mapping[str, Any]) -> None:
        """What makes a checkpoint count, and others go."""
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
        saved = list_saved(self._folder)
        kept = {each.step for each in saved[-self._keep.keep_last :]}
        if self._keep.keep_best and (best := find_best(saved, self._keep.best_by)):
            kept.add(best.step)
        for each in saved:
            if each.step not in kept:
                (each.folder / DONE).unlink()  # first, so that half a folder never counts
                shutil.rmtree(each.folder)
        for each in saved[: -self._keep.keep_full]:
            if each.step in kept and (each.folder / WEIGHTS).is_dir():
                (each.folder / _METADATA).unlink(missing_ok=True)  # first, so that half a state is never read
                for file in each.folder.glob("*.distcp"):
                    file.unlink()


def list_saved(folder: Path) -> list[Saved]:
    """The whole checkpoints of a folder of checkpoints, by step."""
    return [
        Saved(int(each.parent.name.removeprefix("step-")), each.parent)
        for each in sorted(folder.glob(f"step-*/{DONE}"))
    ]


def read_score(state: Mapping[str, Any], best_by: BestBy | None) -> float | None:
    """What tells the best checkpoint, the least: a figure of validation with the right oracle.

    None where nobody looked at validation just when the checkpoint was written, or nothing is to tell the best.
    """
    if state.get("evaluation_step") != state["step"]:
        return None
    score: float | None = state["evaluation"]["right"].get(best_by)
    return score


def find_best(saved: list[Saved], best_by: BestBy | None) -> Saved | None:
    """The one of the least score; None where none has a score."""
    scores = {each: score for each in saved if (score := read_score(each.state(), best_by)) is not None}
    return min(scores, key=lambda each: scores[each], default=None)


def load_weights_alone(saved: Saved, tensors: Mapping[str, Any], processes: Processes) -> None:
    """Fills tensors in place from the weights of a checkpoint that has nothing else; they may be of another type.

    Raises:
        StoreError: it is damaged, or of a model of another shape.
    """
    load_tensors(Saved(saved.step, saved.folder / WEIGHTS), dict(tensors), processes)


def load_tensors(saved: Saved, tensors: dict[str, Any], processes: Processes) -> None:
    """Fills tensors in place from a checkpoint; what it holds beyond them is left.

    Raises:
        StoreError: it is damaged, or of a model of another shape.
    """
    alone = processes.share.world == 1
    try:
        with _ignore_single_process_warning():
            load(tensors, checkpoint_id=saved.folder, process_group=processes.control, no_dist=alone)
    except (CheckpointException, OSError, RuntimeError, ValueError, KeyError, EOFError) as error:
        raise _make_damage_error(saved.folder, error) from error


def _find_left_over(folder: Path) -> list[Path]:
    """What a killed run was in the middle of writing or removing."""
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if each.is_dir() and not (each / DONE).exists()]


@contextmanager
def _guard_writing(aside: Path) -> Iterator[None]:
    """A block in which a checkpoint is written: when it fails, nothing of it is left and the error says why."""
    try:
        yield
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        if not isinstance(error, OSError | CheckpointException | RuntimeError):
            raise
        causes = [error, *_list_causes(error)]
        full = any(isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT) for each in causes)
        why = "no space is left on the disk" if full else str(causes[-1])
        raise StoreError(
            f"Cannot write the checkpoint {aside.name.removeprefix(_ASIDE)} into {aside.parent}: {why}.",
            "The checkpoints before it are whole. Make room and run the same command again.",
        ) from error


@contextmanager
def _ignore_single_process_warning() -> Iterator[None]:
    """A block without PyTorch's warning that one process saves alone, which is no mistake here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        yield


def _list_causes(error: BaseException) -> list[BaseException]:
    """What a checkpoint's exception holds of each process, and what was raised before that; the first comes last.

    On a full disk PyTorch's zip writer raises once more while it closes ("unexpected pos"), over the disk's own error.
    """
    causes: list[BaseException] = []
    for cause, _ in error.failures.values() if isinstance(error, CheckpointException) else ():
        before: BaseException | None = cause
        while before is not None:
            causes.append(before)
            before = before.__context__
    return causes


def _make_damage_error(folder: Path, error: BaseException) -> StoreError:
    cause = [error, *_list_causes(error)][-1]
    why = (str(cause) or type(cause).__name__).splitlines()[0]
    return StoreError(
        f"The checkpoint {folder} cannot be read: {why}.",
        "Put that folder back from a copy; or move it elsewhere, and the run goes on from the one before it, if that "
        "has more than weights (keep.keep_full).",
    )
