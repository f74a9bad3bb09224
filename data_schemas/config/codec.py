"""The codec that is made here: its shape, and how it is trained."""

from math import prod
from typing import Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config
from data_schemas.units import FRAME_N_SAMPLES


class NanoMimiConfig(Config):
    """The shape of `nano-mimi`: Mimi's parts, small, and 12.5 Hz throughout.

    Mimi halves its 25 Hz latents after the transformer; here the strides alone make the frame, so that a transformer's
    position is a frame and streaming sees exactly what a whole encoding sees.
    """

    n_codebooks: int = Field(default=8, ge=2, le=32, description="Codebooks of one voice; the first is Mimi's own.")
    card: int = Field(default=256, ge=8, le=2048, description="Entries of a codebook.")
    codebook_dim: int = Field(default=32, ge=4, le=512, description="Width of a codebook's entries.")
    dim: int = Field(default=128, ge=16, le=1024, description="Width of latents and transformers.")
    n_filters: int = Field(default=8, ge=2, le=128, description="Channels at 24 kHz; each stride doubles them.")
    ratios: list[int] = Field(
        default=[8, 8, 6, 5], min_length=1, description="Strides of the decoder, in its order; together 1,920 samples."
    )
    n_residual_layers: int = Field(default=0, ge=0, le=4, description="Residual layers before each stride.")
    n_layers: int = Field(default=4, ge=1, le=16, description="Transformer layers on either side of the codebooks.")
    n_heads: int = Field(default=4, ge=1, le=32, description="Attention heads.")
    dim_feedforward: int = Field(default=256, ge=16, le=8192, description="Hidden width of a transformer layer.")
    context: int = Field(default=50, ge=1, le=1000, description="Frames of 80 ms that a transformer looks back.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if prod(self.ratios) != FRAME_N_SAMPLES:
            raise ValueError(f"ratios multiply to {prod(self.ratios)}, not to the {FRAME_N_SAMPLES} samples of a frame")
        if self.dim % (2 * self.n_heads):
            raise ValueError("dim is no multiple of twice n_heads (rotary positions take pairs)")
        return self


class CodecTrainConfig(Config):
    """How `nano-mimi` is trained on a dataset's own speech."""

    model: NanoMimiConfig = Field(default_factory=NanoMimiConfig, description="The codec's shape.")
    minutes: float | None = Field(
        default=10.0, gt=0, le=10_000, description="How long to train, minutes; empty: as many steps as `steps`."
    )
    steps: int | None = Field(default=None, ge=2, description="Steps to train; empty: as long as `minutes`.")
    seed: int = Field(default=0, ge=0, description="Seed of weights, of the choice of clips and of batches.")
    threads: int = Field(default=0, ge=0, le=256, description="Threads of the CPU; 0: PyTorch's own choice.")
    device: str = Field(default="cpu", description="PyTorch device, as cpu or cuda.")
    batch_size: int = Field(default=4, ge=1, le=1024, description="Clips in a step.")
    clip_frames: int = Field(default=12, ge=8, le=500, description="Length of a clip, frames of 80 ms.")
    max_sound_s: float = Field(
        default=3600.0, gt=0, description="Most sound to train on, seconds of one channel; dialogues drawn by seed."
    )
    silence_share: float = Field(
        default=0.1, ge=0, le=0.9, description="Share of the clips that are silent; dialogues are half silence."
    )
    learning_rate: float = Field(default=1e-3, gt=0, le=0.1, description="Peak learning rate of AdamW.")
    continuous_share: float = Field(
        default=0.3,
        ge=0,
        lt=1,
        description="Share of the training before the codebooks start, by k-means on latents that mean something.",
    )
    encoder_rate: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Encoder's share of the learning rate once there are codebooks; 0: it and they stay as they are.",
    )
    l1_weight: float = Field(default=1.0, ge=0, description="Weight of the waveforms' absolute difference.")
    stft_weight: float = Field(default=1.0, ge=0, description="Weight of the multi-resolution STFT loss.")
    mel_weight: float = Field(default=2.0, ge=0, description="Weight of the multi-resolution log-mel loss.")
    commitment_weight: float = Field(default=1.0, ge=0, description="Weight of latents' distance to their entries.")
    save_every_s: float = Field(default=20.0, gt=0, description="Seconds between saved states of the training.")

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if (self.minutes is None) == (self.steps is None):
            raise ValueError("give either minutes or steps")
        return self
