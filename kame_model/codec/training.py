"""Training `nano-mimi`: an autoencoder first, then codebooks by k-means on its latents, then the decoder on codes.

Everything random in a step is seeded by the step's number, so a training that was killed goes on as one that was not.
The codebooks are moshi's own, each started by its k-means on the residuals of those before it. Where the encoder goes
on (`encoder_rate`) they follow it by a moving average and replace the entries that nothing uses.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel
from moshi.utils.compile import no_compile
from torch import Tensor

from backends.codec.nano_mimi import mimi_kwargs
from data_schemas import ids
from data_schemas.config.codec import CodecTrainConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAMES_PER_S
from kame_model.codec.losses import spectral_distance
from kame_model.codec.parts import around_codebooks, as_if_coded, codebooks_of, latents_of, scale_to, sound_of
from kame_model.codec.speech import Clips

_BETAS = (0.8, 0.99)  # of HiFi-GAN and most codecs since: spectral losses change quickly
_WEIGHT_DECAY = 1e-2
_MAX_NORM = 1.0
_WARM_UP_STEPS = 50
_DECAY_FROM = 0.5  # share of the training after which the learning rate falls, along a cosine
_LEAST_RATE = 0.02  # of the peak
_KMEANS_VECTORS_PER_ENTRY = 20


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step came to; `done` is the share of the training behind it."""

    step: int
    done: float
    loss: float
    log_mel: float
    l1: float
    commitment: float
    has_codebooks: bool


class CodecTrainer:
    """The whole state of a training.

    Raises:
        ConfigError: the device is not there.
    """

    def __init__(self, config: CodecTrainConfig, clips: Clips) -> None:
        self.config = config
        self.step = 0
        self.elapsed_s = 0.0
        self.has_codebooks = False
        self._clips = clips
        torch.manual_seed(config.seed)
        try:
            model = loaders.get_mimi(None, mimi_kwargs(config.model), config.device, config.model.n_codebooks)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"The device {config.device!r} does not work: {error}.", "Set device=cpu.") from error
        self.model: MimiModel = model.train()
        with no_compile():
            scale_to(model, self._batch("scale"))
        before, after = around_codebooks(model)
        self._optimiser = torch.optim.AdamW(
            [{"params": before}, {"params": after}], config.learning_rate, betas=_BETAS, weight_decay=_WEIGHT_DECAY
        )

    @property
    def done(self) -> float:
        """The share of the training that is behind, in [0, 1]."""
        if self.config.steps is not None:
            return min(1.0, self.step / self.config.steps)
        assert self.config.minutes is not None
        return min(1.0, self.elapsed_s / (60 * self.config.minutes))

    def take_step(self) -> StepFigures:
        """One step; the first one after `continuous_share` starts the codebooks.

        Raises:
            ConfigError: the loss is no number.
        """
        started_s, done = time.monotonic(), self.done
        torch.manual_seed(ids.seed_for("codec step", self.config.seed, self.step))
        with no_compile():
            if not self.has_codebooks and done >= self.config.continuous_share:
                self._start_codebooks()
            sound = self._batch(self.step)
            made, commitment = self._reconstruct(sound)
            loss, log_mel, l1 = self._loss(made, sound, commitment)
            self._descend(loss, done)
        self.step += 1
        self.elapsed_s += time.monotonic() - started_s
        return StepFigures(
            self.step, self.done, loss.item(), log_mel.item(), l1.item(), commitment.item(), self.has_codebooks
        )

    def state(self) -> dict[str, Any]:
        """All that `restore` needs to go on to the last bit."""
        return {
            "step": self.step,
            "elapsed_s": self.elapsed_s,
            "has_codebooks": self.has_codebooks,
            "model": self.model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "unused_checks": [each._next_unused_check for each in codebooks_of(self.model)],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from what `state` gave."""
        self.step, self.elapsed_s = state["step"], state["elapsed_s"]
        self.has_codebooks = state["has_codebooks"]
        self.model.load_state_dict(state["model"])
        self._optimiser.load_state_dict(state["optimiser"])
        for codebook, n_steps in zip(codebooks_of(self.model), state["unused_checks"], strict=True):
            codebook._next_unused_check = n_steps
        self._hold_encoder()

    def _batch(self, *seed: object) -> Tensor:
        """[B, 1, n_samples]."""
        rng = random.Random(ids.seed_for("codec batch", self.config.seed, *seed))
        clips = self._clips.draw(self.config.batch_size, self.config.silence_share, rng)
        return torch.from_numpy(clips)[:, None].to(self.config.device)

    def _start_codebooks(self) -> None:
        """Moshi's own k-means on real latents, a codebook a pass: each starts once the one before it has started."""
        n_wanted = _KMEANS_VECTORS_PER_ENTRY * self.config.model.card
        n_batches = math.ceil(n_wanted / (self.config.batch_size * self.config.clip_frames))
        with torch.no_grad():
            latents = torch.cat([latents_of(self.model, self._batch("k-means", index)) for index in range(n_batches)])
            for _ in range(self.config.model.n_codebooks):
                self.model.quantizer(latents, FRAMES_PER_S)
        self.has_codebooks = True
        self._hold_encoder()

    def _hold_encoder(self) -> None:
        """Leaves encoder and codebooks as they are from now on, where the configuration says so."""
        if self.has_codebooks and self.config.encoder_rate == 0:
            for weights in around_codebooks(self.model)[0]:
                weights.requires_grad_(False)
            self.model.quantizer.eval()  # or its moving averages over a few small batches would spoil the k-means

    def _reconstruct(self, sound: Tensor) -> tuple[Tensor, Tensor]:
        """The sound again, and the commitment loss (0 while there are no codebooks)."""
        latents = latents_of(self.model, sound)
        if not self.has_codebooks:
            return sound_of(self.model, as_if_coded(self.model, latents)), latents.new_zeros(())
        quantised = self.model.quantizer(latents, FRAMES_PER_S)
        return sound_of(self.model, quantised.x), quantised.penalty

    def _loss(self, made: Tensor, sound: Tensor, commitment: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The weighted sum, and apart from it the log-mel and the waveform's distance."""
        distance = spectral_distance(made[:, 0], sound[:, 0])
        l1 = (made - sound).abs().mean()
        config = self.config
        loss = (
            config.l1_weight * l1
            + config.stft_weight * (distance.convergence + distance.log_magnitude)
            + config.mel_weight * distance.log_mel
            + config.commitment_weight * commitment
        )
        return loss, distance.log_mel, l1

    def _descend(self, loss: Tensor, done: float) -> None:
        if not torch.isfinite(loss):
            raise ConfigError(
                f"The codec's training diverged: its loss is {loss.item()} at step {self.step}.",
                "Remove the folder and train again with a lower learning_rate.",
            )
        rate = self.config.learning_rate * _rate(self.step, done)
        before, after = self._optimiser.param_groups
        before["lr"], after["lr"] = rate * (self.config.encoder_rate if self.has_codebooks else 1), rate
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), _MAX_NORM)
        self._optimiser.step()


def _rate(step: int, done: float) -> float:
    """The share of the peak learning rate: a short rise, level, and a cosine over the second half."""
    fall = 0.5 + 0.5 * math.cos(math.pi * max(0.0, done - _DECAY_FROM) / (1 - _DECAY_FROM))
    return min(1.0, (step + 1) / _WARM_UP_STEPS) * max(_LEAST_RATE, fall)


OnStep = Callable[[StepFigures], None]
