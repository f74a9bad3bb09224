"""The loop: steps, looks at validation, checkpoints; all of its state can be saved, and it goes on to the last bit."""

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
    """What wants to be told how far a training run is."""

    def begin(self, step: int, max_steps: int) -> None:
        """The run begins, or goes on, after so many steps."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """So many steps are done; figures of the last look at them."""

    def on_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Validation was looked at."""


class Silent:
    """Progress that tells nobody."""

    def begin(self, step: int, max_steps: int) -> None:
        """Nothing is shown."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Nothing is shown."""

    def on_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Nothing is shown."""


SILENT = Silent()


class Parts(NamedTuple):
    """What a trainer is put together from; see `kame_model.train.run`."""

    model: FrontEnd
    loader: Loader
    evaluator: Evaluator | None
    forward: ForwardPass
    checkpoints: Checkpoints
    speedometer: Speedometer
    run_freely: Mapping[str, Callable[[FrontEnd], dict[str, float]]] = MappingProxyType({})
    """What is measured of a model that runs freely, by the kind of its lines of metrics."""


class Trainer:
    """One run's state and how it moves on.

    Args:
        config: the run's.
        parts: what it works with; the model is parallelised already.
    """

    def __init__(self, config: TrainConfig, parts: Parts) -> None:
        self._config, self._parts = config, parts
        self._processes = parts.forward.processes
        self._optimiser = make_optimiser(parts.model, config.optim)
        decay = config.optim.ema_decay
        self._average = None if decay is None else MovingAverage(parts.model, decay)
        self._spikes = SpikeWatch(config.keep.spike_deviations)
        self._windows = Windows(config.shares.main)
        self.log: MetricsLog | None = None  # the first process has one
        self.step = 0
        self.figures: dict[str, float] = {}
        self.evaluation: Evaluation | None = None
        self._evaluation_step: int | None = None
        self._shown: dict[str, float] = {}
        self._best: float | None = None
        self._saved_step: int | None = None
        self._began_s, self._earlier_s = time.monotonic(), 0.0  # this start, and how long those before it trained
        self._is_late = False

    @property
    def is_done(self) -> bool:
        """Whether no step is left, or no time."""
        return self.step >= self._config.max_steps or self._parts.loader.is_finished or self._is_late

    @property
    def hours(self) -> float:
        """How long the run has trained; what earlier starts did after their last checkpoint is not counted."""
        return (self._earlier_s + time.monotonic() - self._began_s) / 3600

    def run(self, progress: Progress, stop: threading.Event) -> bool:
        """Trains to the end, or until asked to stop; then everything is saved.

        Returns:
            whether the end was reached.

        Raises:
            TrainingError: a loss or gradient is no number; the last checkpoint stays.
            StoreError: the disk is full; the last checkpoint stays.
        """
        keep, self._began_s = self._config.keep, time.monotonic()
        progress.begin(self.step, self._config.max_steps)
        while not self.is_done and self._agree_to_go_on(stop):
            self._train_step()
            if self.step % keep.log_every == 0:
                self._write_metrics()
            progress.step(self.step, self.figures)
            is_better = self._is_due(keep.evaluate_every) and self._evaluate(progress)
            if self.step % keep.save_every == 0 or (is_better and keep.keep_best):
                self._save()
        if self._saved_step != self.step:
            self._save()
        self._parts.checkpoints.settle()
        return self.is_done

    @property
    def _limit_s(self) -> float:
        return math.inf if self._config.max_hours is None else self._config.max_hours * 3600

    def _agree_to_go_on(self, stop: threading.Event) -> bool:
        """Whether no process was asked to stop: all leave before the same step, and none waits for batches then.

        A checkpoint that all have written in the background counts from here on.
        """
        here = torch.tensor([stop.is_set(), self._parts.checkpoints.is_written], dtype=torch.int64)
        n_asked, n_written = map(int, self._processes.sum_over_all(here))
        if n_written == self._processes.share.world:
            self._parts.checkpoints.settle()
        return n_asked == 0

    def _is_due(self, every: int) -> bool:
        """Whether something done every so many steps, and at the end, is to be done now."""
        return self.step % every == 0 or self.is_done

    def resume(self) -> bool:
        """Goes on from the last checkpoint; False where there is none.

        Raises:
            StoreError: it is damaged, or of a model of another shape.
            ConfigError: it was begun with other data.
        """
        saved = self._parts.checkpoints.find_latest()
        if saved is None:
            return False
        tensors = self._collect_tensors()
        groups = tensors["optimiser"].pop("param_groups")  # the configuration's; a checkpoint may hold others
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
        self._evaluation_step = state.get("evaluation_step")  # a run of before has none
        self._earlier_s = state.get("trained_s", 0.0)
        self._is_late = self._earlier_s >= self._limit_s
        return True

    def _train_step(self) -> None:
        """One optimiser step."""
        self._parts.speedometer.begin()
        batches = self._parts.loader.load_next_step()
        losses, tallies, n_frames = self._compute_gradients(batches)
        clipped = torch.nn.utils.clip_grad_norm_(self._parts.model.parameters(), self._config.optim.clip_norm)
        norm = float(clipped.full_tensor() if hasattr(clipped, "full_tensor") else clipped)
        is_late = self.hours * 3600 >= self._limit_s
        here = [float((losses / len(batches)).sum()), float(n_frames), float(is_late), *sum_counts(batches)]
        told = torch.cat([torch.tensor(here, dtype=torch.float64), tallies])
        loss, frames, late, *sums = self._processes.sum_over_all(told).tolist()
        loss /= self._processes.share.world
        self._is_late = late > 0  # all leave when one's time is up
        self._refuse_no_numbers(loss, norm, losses.tolist(), batches)
        rate = compute_learning_rate(self.step, self._config.max_steps, self._config.optim)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        if self._average is not None:
            self._average.update(self.step)
        self.step += 1
        if batches[0].kind == self._config.shares.main:  # frames without sound take less
            self._parts.speedometer.end(int(frames))
        self._note({"loss": loss, "learning_rate": rate, "gradient_norm": norm}, sums, batches)

    def _compute_gradients(self, batches: list[MicroBatch]) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Gradients of a step's micro-batches; their losses, summed tallies and frames."""
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
            draw = torch.Generator().manual_seed(ids.seed_for("dropout", config.seed, micro.number))
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
        """The micro-batch with a part of what the model would say in the place of what was to be said."""
        batch = micro.batch.to(self._processes.device)
        logits = self._parts.forward(self._parts.model, batch, with_audio=False).text.float().cpu()
        draw = torch.Generator().manual_seed(ids.seed_for("guesses", self._config.seed, micro.number))
        guesses = torch.multinomial(logits.flatten(0, 1).softmax(-1), 1, generator=draw).view(logits.shape[:2])
        assert micro.with_guesses is not None  # the caller looked
        return micro.with_guesses(guesses.numpy())

    def _refuse_no_numbers(self, loss: float, norm: float, losses: list[float], batches: list[MicroBatch]) -> None:
        """Stops the run where the step's loss or gradient is no number, on all processes alike.

        Args:
            loss, norm: of the step, over all processes.
            losses, batches: of this one.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self._parts.checkpoints.settle()
        saved = self._parts.checkpoints.find_latest()
        kept = f"the checkpoint of step {saved.step} is whole" if saved else "no checkpoint is there yet"
        if not math.isfinite(loss):  # a gradient alone does not tell of which micro-batches it is
            batches = [each for each, its_loss in zip(batches, losses, strict=True) if not math.isfinite(its_loss)]
        names = gather_dialogues(batches, self._processes)
        raise TrainingError(
            f"Step {self.step + 1} gave no number, loss {loss}, gradient norm {norm}, of: "
            f"{', '.join(names) or 'made-up words'}.",
            f"The step was not made; {kept}. Look at those dialogues, lower the learning rate, or train in fp32.",
        )

    def _note(self, told: dict[str, float], sums: list[float], batches: list[MicroBatch]) -> None:
        """Remembers a step's figures, and reports a leap of the main kind's loss.

        Args:
            told: loss, learning rate and norm of the gradient.
            sums: over all processes, of `Counts` and of the tallies.
        """
        kind, counts, tallies = batches[0].kind, sums[:N_COUNTS], sums[N_COUNTS:]
        self._windows.of(kind).add(told["loss"], told["gradient_norm"], counts, tallies)
        shown = self._parts.loader.observe(to_means(tallies).get("answer_right"))
        self._shown = {"learning_rate": told["learning_rate"], **shown}
        mean = self._spikes.mean
        if kind == self._config.shares.main and self._spikes.is_spike(told["loss"]):
            names = gather_dialogues(batches, self._processes)
            if self.log is not None:
                self.log.write("spike", self.step, {"mean": mean, "dialogues": names, **told})

    def _write_metrics(self) -> None:
        """A line of metrics."""
        speed = self._parts.speedometer.read() if self._windows.of(self._config.shares.main).n_steps else {}
        taken = {"memory_gb": read_memory_gb(self._processes.device), "hours": self.hours}
        self.figures = self._windows.compute_figures() | self._shown | speed | taken
        self._windows.clear()
        if self.log is not None:
            self.log.write("train", self.step, self.figures)

    def _evaluate(self, progress: Progress) -> bool:
        """Looks at validation, by the averaged weights where there are some; whether it was never better."""
        if self._parts.evaluator is None:
            return False
        with nullcontext() if self._average is None else self._average.swap_in():
            self.evaluation = self._parts.evaluator(self._parts.model)
            ran = {kind: measure(self._parts.model) for kind, measure in self._parts.run_freely.items()}
        self._evaluation_step = self.step
        if self.log is not None:
            self.log.write("evaluation", self.step, self.evaluation)
            for kind, figures in ran.items():
                self.log.write(kind, self.step, figures)
        progress.on_evaluation(self.step, self.evaluation)
        looked = {"step": self.step, "evaluation_step": self.step, "evaluation": self.evaluation}
        score = read_score(looked, self._config.keep.best_by)
        is_better = score is not None and (self._best is None or score < self._best)
        self._best = score if is_better else self._best
        return is_better

    def _collect_tensors(self) -> dict[str, Any]:
        """All tensors of the run: weights (with LoRA the trained ones), optimiser, moving average."""
        options = StateDictOptions(ignore_frozen_params=self._config.lora is not None)
        model, optimiser = get_state_dict(self._parts.model, self._optimiser, options=options)
        average = {} if self._average is None else {"average": self._average.weights}
        return {"model": model, "optimiser": optimiser, **average}

    def _collect_weights(self, tensors: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """What is evaluated and exported, in the type of the run's products: averaged weights where there are some."""
        product_type = self._parts.forward.product_type
        weights = {**tensors["model"], **tensors.get("average", {})}
        return {
            name: each.detach().to(product_type) if each.is_floating_point() else each for name, each in weights.items()
        }

    def _save(self) -> None:
        """A checkpoint of all that is needed to go on."""
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
