"""Training a front-end: the data it sees, how it is optimised, what is kept of the run."""

from typing import Final, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, at_home
from data_schemas.config.copying import CopyConfig
from data_schemas.config.model import InputDropoutConfig, LoraConfig, LossConfig, ModelConfig

Kind = Literal["dialogues", "speech", "copying"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Precision = Literal["fp32", "bf16-mixed"]
CheckpointKeeps = Literal["nothing", "products"]
BestBy = Literal["answer", "text", "loss"]


class SharesConfig(Config):
    """What the steps of a run are made of, as weights; all kinds are spread evenly over the run. A kind of which the
    datasets hold nothing is left out, but not the one with the greatest weight."""

    dialogues: float = Field(default=0.0, ge=0, description="Steps on dialogues.")
    speech: float = Field(default=0.0, ge=0, description="Steps on speech rows, each with its words as its oracle.")
    copying: float = Field(default=0.0, ge=0, description="Steps on random words without sound (`copying`).")

    @property
    def main(self) -> Kind:
        """The kind with the greatest weight: what the run is for, and what it is judged by."""
        return max(KINDS, key=lambda kind: float(getattr(self, kind)))

    @property
    def has_sound(self) -> bool:
        """Whether any step has sound."""
        return self.dialogues + self.speech > 0

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("at least one kind of steps needs a share above 0")
        return self


class DelayConfig(Config):
    """How long a back-end takes from a tick to its answer's first token; drawn once for an example. Where the recording
    answers sooner, the answer waits for it."""

    distribution: Literal["uniform", "lognormal"] = Field(
        default="uniform",
        description="uniform: between min_s and max_s; lognormal: by median_s and sigma, cut to them.",
    )
    # 0.08 to 0.8 s: the released recipe's right shift of 1 to 10 frames, in whose place this stands.
    min_s: float = Field(default=0.08, ge=0, le=10, description="Shortest delay, seconds.")
    max_s: float = Field(default=0.8, ge=0, le=10, description="Longest delay, seconds.")
    median_s: float = Field(default=0.4, gt=0, le=10, description="Median of the lognormal one, seconds.")
    sigma: float = Field(default=0.5, gt=0, le=3, description="Spread of the lognormal one: of the logarithm.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_s > self.max_s:
            raise ValueError("min_s is longer than max_s")
        return self


class OracleFeedConfig(Config):
    """What befalls an example's oracle events in training, in the order in which it does; none of it in evaluation."""

    drop_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of examples without any oracle, whose answer is a stall and silence; 1: all dialogues as "
        "they are, without one.",
    )
    # KAME's released recipe: U(0.1, 0.7).
    skip_min: float = Field(default=0.1, ge=0, le=1, description="Least probability that an event is skipped.")
    skip_max: float = Field(default=0.7, ge=0, le=1, description="Greatest probability that an event is skipped.")
    hints_only_until_step: int = Field(
        default=0, ge=0, description="Up to this step events hold their hints, and those without one are left out."
    )
    predictions_from_step: int = Field(
        default=0, ge=0, description="From this step on events hold their predictions; in between it is drawn."
    )
    jitter_frames: int = Field(default=0, ge=0, le=25, description="An event moves by up to so many frames, each way.")
    shift_probability: float = Field(default=1.0, ge=0, le=1, description="Probability that the stream is shifted.")
    # KAME's released recipe: left or right half the time each, left by 1 to 15 frames.
    left_share: float = Field(default=0.5, ge=0, le=1, description="Share of shifts to the left (earlier).")
    left_max_frames: int = Field(default=15, ge=1, le=125, description="A shift to the left is 1 to so many frames.")
    delay: DelayConfig = Field(
        default_factory=DelayConfig, description="Shifts to the right (later): the back-end's delay."
    )

    slow_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples whose back-end writes slowly: padding stands between an oracle's tokens.",
    )

    @property
    def is_silent(self) -> bool:
        """Whether no example has an oracle, so that dialogues without one are as good as others."""
        return self.drop_share == 1

    @property
    def comes_at_once(self) -> bool:
        """Whether no oracle is late, so that no answer waits for one."""
        return self.slow_share == 0 and (self.shift_probability == 0 or self.left_share == 1)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.skip_min > self.skip_max:
            raise ValueError("skip_min is greater than skip_max")
        if self.hints_only_until_step > self.predictions_from_step:
            raise ValueError("hints_only_until_step comes after predictions_from_step")
        return self


class DatasetMixConfig(Config):
    """One dataset of token rows and its weight among the others."""

    path: str = Field(description="Folder of token rows, as `kame encode` writes it.")
    weight: float = Field(
        default=1.0, gt=0, le=1000, description="How often its dialogues are met, relative to the others' weights."
    )

    _expanded = field_validator("path")(at_home)


class DataConfig(Config):
    """Token rows to batches."""

    datasets: list[DatasetMixConfig] = Field(default_factory=list, description="Datasets of token rows, mixed.")
    learn: Literal["a", "b", "both"] = Field(
        default="a",
        description="The speaker that is learnt: A (the assistant), B, or both (each dialogue twice), where there are "
        "oracles for what that one says.",
    )
    swap_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples whose answer, with its oracle, is another dialogue's: copying, not memory.",
    )
    correct_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples in which another dialogue's oracle comes while the answer is being said, and "
        "the answer changes to that one's.",
    )
    substitute_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples whose answer has other words, in oracle and text alike, so that the answers of "
        "a small corpus are not learnt by heart: an utterance of the speech rows among the datasets, with its sound; "
        "where there are none, random words without sound, which need the vocabulary's file.",
    )
    wait_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples that go on in silence behind the last word, by up to ten seconds, so that an "
        "answer which has been said is not said again.",
    )
    feed: OracleFeedConfig = Field(default_factory=OracleFeedConfig, description="What befalls oracle events.")
    # 512: KAME's released recipe (`max_length`).
    max_columns: int = Field(
        default=512,
        ge=64,
        le=10_000,
        description="Longest dialogue that is trained on in one piece, frames and two; longer ones are cut into equal "
        "pieces. Nothing is learnt of what lies further back, wherever the model's context reaches.",
    )
    batch_frames: int = Field(
        default=4_000, ge=32, le=1_000_000, description="Frames of a micro-batch at most, padding included."
    )
    pool_batches: int = Field(
        default=50, ge=1, le=10_000, description="Micro-batches' worth of dialogues sorted by length together."
    )
    workers: int = Field(default=0, ge=0, le=64, description="Processes that make batches; 0: the training process.")

    @property
    def lengthens(self) -> bool:
        """Whether what is said in an example may take longer than its dialogue."""
        shares = self.swap_share + self.correct_share + self.substitute_share
        return shares > 0 or not (self.feed.is_silent or self.feed.comes_at_once)


class OptimConfig(Config):
    """AdamW, its schedule, and what a step consists of."""

    # β, ε and weight decay: KAME's released recipe (and Moshi's).
    learning_rate: float = Field(default=3e-5, gt=0, le=1, description="Learning rate after warm-up.")
    beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW's first β.")
    beta2: float = Field(default=0.95, ge=0, lt=1, description="AdamW's second β.")
    eps: float = Field(default=1e-5, gt=0, description="AdamW's ε.")
    weight_decay: float = Field(
        default=0.1, ge=0, le=1, description="Decay of matrices and embeddings; norms have none."
    )
    # Warm-up, clipping: kyutai-labs/moshi-finetune, finetune/args.py: pct_start 0.05, here of 2,000 steps; max_norm 1.
    warmup_steps: int = Field(default=100, ge=0, description="Steps of linear warm-up.")
    final_share: float = Field(
        default=0.1, ge=0, le=1, description="The cosine ends at this share of the learning rate, at max_steps."
    )
    accumulation: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Micro-batches of a step, over all processes; a multiple of these. Empty: as the run was begun, "
        "else 1, however many processes there are.",
    )
    clip_norm: float = Field(default=1.0, gt=0, description="Gradients are scaled down to this norm.")
    ema_decay: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Decay of the moving average of the weights, once warm; empty: none is kept.",
    )


class HardwareConfig(Config):
    """Where and how a step is computed; the mathematics stays the same."""

    device: str = Field(default="auto", description="cpu, cuda, or auto: cuda where there is one.")
    threads: int = Field(default=0, ge=0, le=512, description="Threads on the CPU; 0: as PyTorch finds fit.")
    # Nothing that is trained is kept in bf16: AdamW's step at 3e-5 is under half its last bit for weights over 0.008.
    precision: Precision = Field(
        default="fp32", description="fp32; bf16-mixed: products in bf16, kept in fp32 but for matrices beside adapters."
    )
    activation_checkpointing: bool = Field(
        default=False, description="Compute activations again in the backward pass: less memory, a third more work."
    )
    checkpoint_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="With activation_checkpointing: share of the layers that compute their activations again.",
    )
    checkpoint_keeps: CheckpointKeeps = Field(
        default="nothing",
        description="With activation_checkpointing: what such a layer remembers beside its input. products: results of "
        "products of matrices and of attention, so that little work is done twice.",
    )
    compile: bool = Field(default=False, description="torch.compile of the transformers' layers.")
    reduce_gradients: Literal["micro-batch", "step"] = Field(
        default="micro-batch",
        description="When several processes add up their gradients. micro-batch: after each, and a process holds those "
        "of its shard alone; step: once, which is less traffic and whole float32 gradients on each process.",
    )


class KeepConfig(Config):
    """What is kept of a run, and how often it is looked at."""

    save_every: int = Field(default=500, ge=1, description="Steps between checkpoints.")
    keep_last: int = Field(default=2, ge=1, le=1000, description="Latest checkpoints kept.")
    keep_full: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="How many of the last ones have all from which the run can go on; the others have weights alone, "
        "in bf16 with bf16-mixed.",
    )
    keep_best: bool = Field(default=True, description="Keep the best checkpoint on validation as well.")
    best_by: BestBy | None = Field(
        default=None,
        description="The best has the least loss, with the right oracle, of: answer, its words' text; text, all words; "
        "loss, all that is trained, mostly sound. Empty: as the run was begun, else answer (text where there is none).",
    )
    save_async: bool = Field(default=True, description="On a GPU, write checkpoints beside the training.")
    log_every: int = Field(default=10, ge=1, description="Steps between lines of metrics.")
    evaluate_every: int = Field(default=500, ge=1, description="Steps between evaluations on validation.")
    evaluate_examples: int = Field(default=64, ge=0, le=100_000, description="Validation examples at most; 0: none.")
    spike_deviations: float = Field(
        default=6.0, gt=0, description="A loss so many standard deviations over its running mean is reported."
    )
    tensorboard: bool = Field(default=True, description="Write TensorBoard's files as well.")


class TrainConfig(Config):
    """All there is to say about a training run."""

    out: str = Field(default="run", description="Folder of the run; an existing one is gone on with.")
    stage: str = Field(default="dialogues", description="Name of the stage, of those of the preset's plan.")
    shares: SharesConfig = Field(
        default_factory=lambda: SharesConfig(dialogues=1), description="What the steps are made of."
    )
    init_from: str | None = Field(
        default=None, description="Weights to start from: a run of ours, an export, KAME's or Moshi's; empty: random."
    )
    tokenizer: str | None = Field(
        default=None,
        description="SentencePiece file that the datasets were encoded with; empty: the one beside the first's rows.",
    )
    max_steps: int = Field(default=1000, ge=1, description="Optimiser steps of the run.")
    max_hours: float | None = Field(
        default=None,
        gt=0,
        description="The run ends after so many hours of training, those of earlier starts counted; empty: by steps.",
    )
    accuracy: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Where most steps copy: the share of tokens foreseen at which the next lesson begins, after the "
        "last one the run ends; empty: the last lesson alone.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of weights, order, swaps and everything drawn.")
    model: ModelConfig = Field(description="The front-end's shape; a preset (data_schemas/presets.py) has a full one.")
    loss: LossConfig = Field(default_factory=LossConfig, description="Weights of the losses.")
    dropout: InputDropoutConfig = Field(
        default_factory=InputDropoutConfig, description="What the model is kept from seeing of its own past."
    )
    lora: LoraConfig | None = Field(default=None, description="Low-rank adapters; empty: all weights are trained.")
    data: DataConfig = Field(default_factory=DataConfig, description="Token rows to batches.")
    copying: CopyConfig = Field(default_factory=CopyConfig, description="Steps that copy.")
    optim: OptimConfig = Field(default_factory=OptimConfig, description="Optimiser and schedule.")
    hardware: HardwareConfig = Field(default_factory=HardwareConfig, description="Device, precision, parallelism.")
    keep: KeepConfig = Field(default_factory=KeepConfig, description="Checkpoints, evaluation, metrics.")

    _expanded = field_validator("out", "init_from", "tokenizer")(at_home)

    @model_validator(mode="after")
    def _has_data(self) -> Self:
        if not self.data.datasets:
            raise ValueError("data.datasets: there is nothing to train on")
        if self.lora is not None and self.init_from is None:
            raise ValueError("init_from: adapters (lora) need the weights beside which they are trained")
        return self
