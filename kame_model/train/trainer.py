"""The training loop: steps, validation, checkpoints. All of its state is saved; resuming is bit-exact on the CPU."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import FSDPModule

from data_schemas import ids
from data_schemas.config.training import TrainConfig
from data_schemas.errors import TrainingError
from kame_model.data.loader import Loader, MicroBatch
from kame_model.frames.batch import Batch
from kame_model.model.front_end import FrontEnd, drop_inputs
from kame_model.model.loss import compute_loss
from kame_model.train.checkpoints import Checkpoints, read_score
from kame_model.train.free_samples import FreeResult, FreeRunningLog
from kame_model.train.logs import (
    N_COUNTS,
    N_TALLIES,
    MetricsLog,
    SpikeWatch,
    Windows,
    gather_dialogues,
    sum_counts,
    to_means,
)
from kame_model.train.model import ForwardPass
from kame_model.train.optimiser import MovingAverage, compute_learning_rate, make_optimiser
from kame_model.train.throughput import Speedometer, count_frames, read_memory_gb
from kame_model.train.validation import Evaluation, Evaluator


class Progress(Protocol):
    """Protocol of an object that is notified of the progress of a training run."""

    def begin(self, step: int, max_steps: int) -> None:
        """Called when the run starts or resumes, with the number of steps done."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Called after each step, with the last figures that were logged."""

    def on_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Called after each validation."""


class SilentProgress:
    """Progress that shows nothing."""

    def begin(self, step: int, max_steps: int) -> None:
        """Does nothing."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Does nothing."""

    def on_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Does nothing."""


SILENT = SilentProgress()


class Parts(NamedTuple):
    """The components of a trainer, made by `kame_model.train.run`; `evaluator` is None without validation examples."""

    model: FrontEnd
    loader: Loader
    evaluator: Evaluator | None
    forward: ForwardPass
    checkpoints: Checkpoints
    speedometer: Speedometer
    run_freely: Mapping[str, Callable[[FrontEnd], FreeResult]] = MappingProxyType({})
    """Functions that measure a model that runs freely, by the kind of their lines in the metrics."""


class Trainer:
    """The state of one run, and its training loop.

    Args:
        config: configuration of the run.
        parts: its components; the model is parallelised already.

    Attributes:
        log, free_log: logs, which the caller sets in the first process; None: nothing is logged.
        step: number of steps done.
        figures: the last figures that were logged; empty at first.
        evaluation: the last validation; None: there was none.
    """

    def __init__(self, config: TrainConfig, parts: Parts) -> None:
        self._config, self._parts = config, parts
        self._processes = parts.forward.processes
        self._optimiser = make_optimiser(parts.model, config.optim)
        decay = config.optim.ema_decay
        self._average = None if decay is None else MovingAverage(parts.model, decay)
        self._spikes = SpikeWatch(config.keep.spike_deviations)
        self._windows = Windows(config.shares.main)
        self.log: MetricsLog | None = None  # only in the first process, as the next one
        self.free_log: FreeRunningLog | None = None
        self.step = 0
        self.figures: dict[str, float] = {}
        self.evaluation: Evaluation | None = None
        self._evaluation_step: int | None = None
        self._shown: dict[str, float] = {}
        self._best: float | None = None
        self._saved_step: int | None = None
        self._began_s, self._earlier_s = time.monotonic(), 0.0  # this start, and training time of earlier starts
        self._is_late = False

    @property
    def is_done(self) -> bool:
        """Whether no steps or no time is left, or there is nothing more to learn (`Loader.is_finished`)."""
        return self.step >= self._config.max_steps or self._parts.loader.is_finished or self._is_late

    @property
    def hours(self) -> float:
        """Training time of the run in hours, without what earlier starts did after their last checkpoint."""
        return (self._earlier_s + time.monotonic() - self._began_s) / 3600

    def run(self, progress: Progress, stop: threading.Event) -> bool:
        """Trains to the end or until `stop` is set, and saves a checkpoint.

        Returns:
            Whether the end was reached.

        Raises:
            TrainingError: a loss or gradient is not finite; the last checkpoint remains.
            StoreError: the disk is full; the last checkpoint remains.
        """
        keep, self._began_s = self._config.keep, time.monotonic()
        progress.begin(self.step, self._config.max_steps)
        while not self.is_done and self._agree_to_continue(stop):
            self._train_step()
            if self.step % keep.log_every == 0:
                self._write_metrics()
            progress.step(self.step, self.figures)
            is_better = self._is_due(keep.evaluate_every) and self._evaluate(progress)
            if self.step % keep.save_every == 0 or (is_better and keep.keep_best):
                self._save()
        if self._saved_step != self.step:
            self._save()
        self._parts.checkpoints.finish_saving()
        return self.is_done

    @property
    def _limit_s(self) -> float:
        """Maximum training time of the run over all its starts; infinite without `max_hours`."""
        return math.inf if self._config.max_hours is None else self._config.max_hours * 3600

    def _agree_to_continue(self, stop: threading.Event) -> bool:
        """Returns whether no process was asked to stop: the same in all processes, which must all call it.

        It also completes a checkpoint that all processes have written in the background.
        """
        here = torch.tensor([stop.is_set(), self._parts.checkpoints.is_written], dtype=torch.int64)
        n_asked, n_written = map(int, self._processes.sum_over_all(here))
        if n_written == self._processes.share.world:
            self._parts.checkpoints.finish_saving()
        return n_asked == 0

    def _is_due(self, every: int) -> bool:
        """Returns whether something that is done every `every` steps, and at the end, is due now."""
        return self.step % every == 0 or self.is_done

    def resume(self) -> bool:
        """Restores the last checkpoint; returns False if there is none.

        Raises:
            StoreError: it is damaged or of a model of another shape, or all checkpoints only have weights.
            ConfigError: the run was started with other data.
        """
        saved = self._parts.checkpoints.find_latest()
        if saved is None:
            return False
        tensors = self._collect_tensors()
        groups = tensors["optimiser"].pop("param_groups")  # from the configuration, not from the checkpoint
        state = self._parts.checkpoints.load(saved, tensors)
        set_state_dict(
            self._parts.model,
            self._optimiser,
            model_state_dict=tensors["model"],
            optim_state_dict={**tensors["optimiser"], "param_groups": groups},
            options=StateDictOptions(strict=self._config.lora is None),
        )
        self._parts.loader.load_state_dict(state["loader"])
        self._spikes = SpikeWatch(**state["spikes"] | {"deviations": self._config.keep.spike_deviations})
        self._windows.load_state_dict(state["windows"])
        self.step = self._saved_step = state["step"]
        self._best, self.evaluation = self._parts.checkpoints.find_best_score(), state["evaluation"]
        self._evaluation_step = state.get("evaluation_step")  # older runs have none
        self._earlier_s = state.get("trained_s", 0.0)
        self._is_late = self._earlier_s >= self._limit_s
        return True

    def _train_step(self) -> None:
        """Runs one optimiser step at the learning rate of its step and time, and records its figures.

        Raises:
            TrainingError: the loss or gradient is not finite; the weights are unchanged.
        """
        self._parts.speedometer.begin()
        batches = self._parts.loader.load_next_step()
        losses, tallies, n_frames = self._compute_gradients(batches)
        clipped = torch.nn.utils.clip_grad_norm_(self._parts.model.parameters(), self._config.optim.clip_norm)
        norm = float(clipped.full_tensor() if hasattr(clipped, "full_tensor") else clipped)
        time_share = self.hours * 3600 / self._limit_s
        here = [float((losses / len(batches)).sum()), float(n_frames), time_share, float(time_share >= 1)]
        here += sum_counts(batches)
        totals = torch.cat([torch.tensor(here, dtype=torch.float64), tallies])
        loss, frames, time_shares, late, *sums = self._processes.sum_over_all(totals).tolist()
        loss, time_share = (each / self._processes.share.world for each in (loss, time_shares))
        self._is_late = late > 0  # all processes stop when the time of one is up
        self._check_finite(loss, norm, losses.tolist(), batches)
        rate = compute_learning_rate(self.step, self._config.max_steps, self._config.optim, time_share)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        if self._average is not None:
            self._average.update(self.step)
        self.step += 1
        if batches[0].kind == self._config.shares.main:  # frames without audio take less time
            self._parts.speedometer.end(int(frames))
        self._record_step({"loss": loss, "learning_rate": rate, "gradient_norm": norm}, sums, batches)

    def _compute_gradients(self, batches: list[MicroBatch]) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Adds the gradients of a step's micro-batches to the weights' gradients.

        Returns the loss of each, the sum of their tallies on the CPU, and the number of frames that are not padding.
        """
        model, forward, config = self._parts.model, self._parts.forward, self._config
        device = self._processes.device
        losses = torch.zeros(len(batches), device=device)
        tallies = torch.zeros(N_TALLIES, dtype=torch.float64, device=device)
        n_frames = 0
        for place, micro in enumerate(batches):
            if isinstance(model, FSDPModule):
                is_last = place == len(batches) - 1
                if config.hardware.reduce_gradients == "step":
                    model.set_requires_gradient_sync(is_last)
                if config.hardware.replicas > 1:
                    model.set_requires_all_reduce(is_last)
            n_frames += count_frames(micro.batch)
            draw = torch.Generator().manual_seed(ids.derive_seed("dropout", config.seed, micro.number))
            batch = (micro.batch if micro.with_guesses is None else self._replace_with_own_past(micro)).to(device)
            inputs = drop_inputs(batch.inputs, config.dropout, draw)
            logits = forward(model, batch, inputs, with_audio=micro.kind != "copying")
            parts = compute_loss(logits, batch, config.loss, model.layout.weights)
            (parts.total / len(batches)).backward()  # type: ignore[no-untyped-call]
            losses[place] = parts.total.detach()
            tallies += parts.tallies.flatten()
        return losses, tallies.cpu(), n_frames

    @torch.no_grad()
    def _replace_with_own_past(self, micro: MicroBatch) -> Batch:
        """Returns a micro-batch in which some tokens that should be said are replaced by the model's own guesses."""
        batch = micro.batch.to(self._processes.device)
        logits = self._parts.forward(self._parts.model, batch, with_audio=False).text.float().cpu()
        draw = torch.Generator().manual_seed(ids.derive_seed("guesses", self._config.seed, micro.number))
        guesses = torch.multinomial(logits.flatten(0, 1).softmax(-1), 1, generator=draw).view(logits.shape[:2])
        assert micro.with_guesses is not None  # checked by the caller
        return micro.with_guesses(guesses.numpy())

    def _check_finite(self, loss: float, norm: float, losses: list[float], batches: list[MicroBatch]) -> None:
        """Stops the run, on all processes, if the step's loss or gradient is not finite.

        Args:
            loss, norm: values of the step, over all processes.
            losses, batches: those of this process.

        Raises:
            TrainingError: one of them is not finite.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self._parts.checkpoints.finish_saving()
        saved = self._parts.checkpoints.find_latest()
        kept = f"the checkpoint of step {saved.step} is intact" if saved else "no checkpoint is there yet"
        if not math.isfinite(loss):  # from the gradient alone, the micro-batch is not known
            batches = [each for each, its_loss in zip(batches, losses, strict=True) if not math.isfinite(its_loss)]
        names = gather_dialogues(batches, self._processes)
        raise TrainingError(
            f"Step {self.step + 1} gave no number, loss {loss}, gradient norm {norm}, of: "
            f"{', '.join(names) or 'made-up words'}.",
            f"The step was not made; {kept}. Check those dialogues, lower the learning rate, or train in fp32.",
        )

    def _record_step(self, figures: dict[str, float], sums: list[float], batches: list[MicroBatch]) -> None:
        """Records a step's figures, and logs a spike of the main kind's loss.

        Args:
            figures: loss, learning rate and gradient norm.
            sums: `Counts` and tallies, summed over all processes.
            batches: the micro-batches of this process.
        """
        kind, counts, tallies = batches[0].kind, sums[:N_COUNTS], sums[N_COUNTS:]
        self._windows.get_window(kind).add(figures["loss"], figures["gradient_norm"], counts, tallies)
        shown = self._parts.loader.observe(to_means(tallies).get("answer_right"))
        self._shown = {"learning_rate": figures["learning_rate"], **shown}
        mean = self._spikes.mean
        if kind == self._config.shares.main and self._spikes.is_spike(figures["loss"]):
            names = gather_dialogues(batches, self._processes)
            if self.log is not None:
                self.log.write("spike", self.step, {"mean": mean, "dialogues": names, **figures})

    def _write_metrics(self) -> None:
        """Writes a line of metrics with the means since the last one, and begins new means."""
        speed = self._parts.speedometer.read() if self._windows.get_window(self._config.shares.main).n_steps else {}
        taken = {"memory_gb": read_memory_gb(self._processes.device), "hours": self.hours}
        self.figures = self._windows.compute_figures() | self._shown | speed | taken
        self._windows.clear()
        if self.log is not None:
            self.log.write("train", self.step, self.figures)

    def _evaluate(self, progress: Progress) -> bool:
        """Runs and logs validation and free running; returns whether the score of validation is the best so far.

        Both use the averaged weights if there are any.
        Without validation examples it does nothing and returns False.
        """
        if self._parts.evaluator is None:
            return False
        with nullcontext() if self._average is None else self._average.swap_in():
            self.evaluation = self._parts.evaluator(self._parts.model)
            ran = {kind: measure(self._parts.model) for kind, measure in self._parts.run_freely.items()}
        self._evaluation_step = self.step
        if self.log is not None:
            self.log.write("evaluation", self.step, self.evaluation)
            for kind, result in ran.items():
                self.log.write(kind, self.step, result.figures)
        if self.free_log is not None:
            for result in ran.values():
                self.free_log.write(self.step, result.dialogues)
        progress.on_evaluation(self.step, self.evaluation)
        looked = {"step": self.step, "evaluation_step": self.step, "evaluation": self.evaluation}
        score = read_score(looked, self._config.keep.best_by)
        is_better = score is not None and (self._best is None or score < self._best)
        self._best = score if is_better else self._best
        return is_better

    def _collect_tensors(self) -> dict[str, Any]:
        """Returns all tensors of the run: weights (with LoRA the trained ones), optimiser, moving average."""
        options = StateDictOptions(ignore_frozen_params=self._config.lora is not None)
        model, optimiser = get_state_dict(self._parts.model, self._optimiser, options=options)
        average = {} if self._average is None else {"average": self._average.weights}
        return {"model": model, "optimiser": optimiser, **average}

    def _collect_weights(self, tensors: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Returns the weights to evaluate and export, averaged if configured, in the type of matrix products."""
        product_type = self._parts.forward.product_type
        weights = {**tensors["model"], **tensors.get("average", {})}
        return {
            name: each.detach().to(product_type) if each.is_floating_point() else each for name, each in weights.items()
        }

    def _save(self) -> None:
        """Saves a checkpoint with everything needed to resume."""
        state = {
            "loader": self._parts.loader.state_dict(),
            "spikes": asdict(self._spikes),
            "windows": self._windows.state_dict(),
            "evaluation": self.evaluation,
            "evaluation_step": self._evaluation_step,
            "trained_s": self.hours * 3600,
        }
        tensors = self._collect_tensors()
        self._parts.checkpoints.save(self.step, tensors, state, self._collect_weights(tensors))
        self._saved_step = self.step
