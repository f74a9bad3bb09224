"""Training a front-end: data, optimiser (optimizer), hardware, checkpoints and metrics."""

from typing import Final, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, expand_home
from data_schemas.config.copying import CopyConfig
from data_schemas.config.model import InputDropoutConfig, LoraConfig, LossConfig, ModelConfig
from data_schemas.guesses import Guesses

LENGTH_MULTIPLE: Final = 32
"""Lengths of batches on a CPU, so that few shapes occur: oneDNN compiles each matrix product of a new shape, and keeps
a limited number of them (`python -m benchmarks.batch_shapes`)."""

Kind = Literal["dialogues", "speech", "copying"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Precision = Literal["fp32", "bf16-mixed"]
CheckpointKeeps = Literal["nothing", "products"]
BestBy = Literal["answer", "text", "loss"]


class SharesConfig(Config):
    """Weights of the kinds of steps, which are spread evenly over the run. A kind for which the datasets hold no rows
    is skipped, except the one with the greatest weight."""

    dialogues: float = Field(default=0.0, ge=0, description="Weight of steps on dialogues.")
    speech: float = Field(
        default=0.0, ge=0, description="Weight of steps on speech rows, each with its own words as the oracle."
    )
    copying: float = Field(default=0.0, ge=0, description="Weight of steps on random words without audio (`copying`).")

    @property
    def main(self) -> Kind:
        """The kind with the greatest weight, by which the run is evaluated; of equal ones, the first of `KINDS`."""
        return max(KINDS, key=lambda kind: float(getattr(self, kind)))

    @property
    def has_sound(self) -> bool:
        """Whether any step has audio."""
        return self.dialogues + self.speech > 0

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        """Checks that at least one share is above 0."""
        if not any(self.model_dump().values()):
            raise ValueError("at least one kind of steps needs a share above 0")
        return self


class DelayConfig(Config):
    """Delay of a back-end, from a tick to its answer's first token; drawn once per example. If the answer in the
    recording begins sooner, it is delayed until then."""

    distribution: Literal["uniform", "lognormal"] = Field(
        default="uniform",
        description="uniform: between min_s and max_s; lognormal: by median_s and sigma, clipped to min_s and max_s.",
    )
    # 0.08 to 0.8 s: the released recipe's right shift of 1 to 10 frames, which this replaces.
    min_s: float = Field(default=0.08, ge=0, le=10, description="Minimum delay, in seconds.")
    max_s: float = Field(default=0.8, ge=0, le=10, description="Maximum delay, in seconds.")
    median_s: float = Field(default=0.4, gt=0, le=10, description="Median of the lognormal distribution, in seconds.")
    sigma: float = Field(
        default=0.5, gt=0, le=3, description="Standard deviation of the logarithm of the delay, for lognormal."
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that min_s is at most max_s."""
        if self.min_s > self.max_s:
            raise ValueError("min_s is longer than max_s")
        return self


class OracleFeedConfig(Config):
    """Data augmentation of an example's oracle events, in the order in which it is applied; not used in evaluation."""

    drop_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of examples without any oracle, whose answer is replaced by a stall and silence; 1: all "
        "dialogues are trained on unchanged, without an oracle.",
    )
    # KAME's released recipe: U(0.1, 0.7).
    skip_min: float = Field(default=0.1, ge=0, le=1, description="Minimum probability that an event is skipped.")
    skip_max: float = Field(default=0.7, ge=0, le=1, description="Maximum probability that an event is skipped.")
    hints_only_until_step: int = Field(
        default=0,
        ge=0,
        description="Until this step, events use their hints as text, and events without a hint are dropped.",
    )
    predictions_from_step: int = Field(
        default=0,
        ge=0,
        description="From this step on, events use their predictions as text; between the two steps one of them is "
        "drawn.",
    )
    jitter_frames: int = Field(
        default=0, ge=0, le=25, description="Maximum random shift of each event in frames, earlier or later."
    )
    shift_probability: float = Field(
        default=1.0, ge=0, le=1, description="Probability that the oracle stream is shifted."
    )
    # KAME's released recipe: left or right half the time each, left by 1 to 15 frames.
    left_share: float = Field(default=0.5, ge=0, le=1, description="Share of shifts to the left (earlier).")
    left_max_frames: int = Field(
        default=15, ge=1, le=125, description="Maximum shift to the left, in frames; the minimum is 1."
    )
    delay: DelayConfig = Field(
        default_factory=DelayConfig, description="Shifts to the right (later): distribution of the back-end's delay."
    )

    guesses: Guesses = Field(
        default="feed",
        description="Answers to the unfinished question. feed: they are fed when they arrive, as in KAME's release; "
        "withdraw: not after the turn has ended; hold: never, nor the answer before the turn is known to have ended. A "
        "server does the same with the checkpoint.",
    )
    slow_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples with a slow back-end: padding is inserted between an oracle's tokens.",
    )

    @property
    def is_silent(self) -> bool:
        """Whether all oracles are dropped, so that dialogues without an oracle can be used as well."""
        return self.drop_share == 1

    @property
    def comes_at_once(self) -> bool:
        """Whether no oracle arrives later than recorded, as a whole or with gaps in it."""
        is_moved = self.jitter_frames > 0 or self.guesses == "hold" or self.slow_share > 0
        return not is_moved and (self.shift_probability == 0 or self.left_share == 1)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks the order of skip_min and skip_max, and of the two steps that limit hints and predictions."""
        if self.skip_min > self.skip_max:
            raise ValueError("skip_min is greater than skip_max")
        if self.hints_only_until_step > self.predictions_from_step:
            raise ValueError("hints_only_until_step comes after predictions_from_step")
        return self


class DatasetMixConfig(Config):
    """One dataset of token rows and its weight among the others."""

    path: str = Field(description="Folder of token rows, as written by `kame encode`.")
    weight: float = Field(
        default=1.0, gt=0, le=1000, description="Sampling weight of its dialogues, relative to the other datasets."
    )

    _expanded = field_validator("path")(expand_home)


class DataConfig(Config):
    """Datasets of token rows, their augmentation, and batches."""

    datasets: list[DatasetMixConfig] = Field(
        default_factory=list, description="Datasets of token rows, which are mixed."
    )
    learn: Literal["a", "b", "both"] = Field(
        default="a",
        description="Speaker to learn: a (the assistant), b (the user), or both (each dialogue is used twice), if "
        "the dataset has oracles for what that speaker says.",
    )
    swap_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples whose answer and oracle are replaced by another dialogue's, so that the model "
        "learns to copy instead of memorising.",
    )
    correct_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples in which another dialogue's oracle arrives during the answer, and the answer "
        "changes to that dialogue's.",
    )
    substitute_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples whose answer is replaced, in oracle and text alike, so that answers of a "
        "small corpus are not memorised: by an utterance of the speech rows among the datasets, with its audio, or, "
        "if there are none, by random words without audio, which need the tokenizer file.",
    )
    reframe_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples whose lead and tail, what is said before and after the answer, are replaced by "
        "those of other dialogues, so that they are not memorised with questions and answers.",
    )
    wait_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of examples that are extended by up to ten seconds of silence, so that the model does not "
        "repeat an answer.",
    )
    feed: OracleFeedConfig = Field(
        default_factory=OracleFeedConfig, description="Data augmentation of the oracle events."
    )
    # 512: KAME's released recipe (`max_length`).
    max_columns: int = Field(
        default=512,
        ge=64,
        le=10_000,
        description="Maximum length of a training sequence (frames plus two); longer dialogues are cut into equal "
        "pieces. No dependency over a longer distance is learnt, even if the model's context is longer.",
    )
    batch_frames: int = Field(
        default=4_000, ge=32, le=1_000_000, description="Maximum number of frames of a micro-batch, including padding."
    )
    length_multiple: int = Field(
        default=LENGTH_MULTIPLE,
        ge=1,
        le=512,
        description="Micro-batches are padded to lengths of multiples of this number of frames. Large ones suit CPUs, "
        "where each new length takes time; small ones leave less padding.",
    )
    pool_batches: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Number of micro-batches whose dialogues are sorted by length together.",
    )
    workers: int = Field(
        default=0, ge=0, le=64, description="Number of processes that make batches; 0: the training process."
    )

    @property
    def lengthens(self) -> bool:
        """Whether an example may become longer than its dialogue, apart from the silence of `wait_share`."""
        shares = self.swap_share + self.correct_share + self.substitute_share + self.reframe_share
        return shares > 0 or not (self.feed.is_silent or self.feed.comes_at_once)


class OptimConfig(Config):
    """AdamW, its learning rate schedule, and gradient accumulation."""

    # β, ε and weight decay: KAME's released recipe (and Moshi's).
    learning_rate: float = Field(default=3e-5, gt=0, le=1, description="Learning rate after warm-up.")
    beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW's first β.")
    beta2: float = Field(default=0.95, ge=0, lt=1, description="AdamW's second β.")
    eps: float = Field(default=1e-5, gt=0, description="AdamW's ε.")
    weight_decay: float = Field(
        default=0.1, ge=0, le=1, description="Weight decay of matrices and embeddings; norms are not decayed."
    )
    # Warm-up, clipping: kyutai-labs/moshi-finetune, finetune/args.py: pct_start 0.05, here of 2,000 steps; max_norm 1.
    warmup_steps: int = Field(default=100, ge=0, description="Number of steps of linear warm-up.")
    final_share: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Final learning rate of the cosine schedule, at max_steps or max_hours, as a share of "
        "`learning_rate`.",
    )
    accumulation: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Gradient accumulation: micro-batches per step over all processes; a multiple of the number of "
        "processes. Empty: that of the run if it is resumed, else 1, for any number of processes.",
    )
    clip_norm: float = Field(default=1.0, gt=0, description="Gradient clipping: maximum norm of the gradients.")
    ema_decay: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Decay of the exponential moving average (EMA) of the weights after its warm-up; empty: no EMA.",
    )


class HardwareConfig(Config):
    """Device, precision and memory; the result is the same up to rounding."""

    device: str = Field(default="auto", description="cpu, cuda, or auto: cuda if available.")
    threads: int = Field(default=0, ge=0, le=512, description="Number of CPU threads; 0: PyTorch's default.")
    # No trained weight is stored in bf16: AdamW's step at 3e-5 is below half its last bit for weights over 0.008.
    precision: Precision = Field(
        default="fp32",
        description="fp32; bf16-mixed: matrix products in bf16; weights in fp32, except frozen matrices beside "
        "adapters.",
    )
    activation_checkpointing: bool = Field(
        default=False,
        description="Recompute activations in the backward pass: uses less memory and about a third more computation.",
    )
    checkpoint_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="With activation_checkpointing: share of the layers whose activations are recomputed.",
    )
    checkpoint_keeps: CheckpointKeeps = Field(
        default="nothing",
        description="With activation_checkpointing: what such a layer stores besides its input. products: results of "
        "matrix products and attention, so that little is recomputed.",
    )
    compile: bool = Field(
        default=False, description="Whether the transformers' layers are compiled with torch.compile."
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=4096,
        description="Number of copies of the weights, each sharded over one group of processes. With "
        "the number of nodes, weights are gathered within a node and only gradients are sent between nodes (HSDP). It "
        "must divide the number of processes. 1: one copy, sharded over all processes (FSDP).",
    )
    reduce_gradients: Literal["micro-batch", "step"] = Field(
        default="micro-batch",
        description="When gradients are reduced over several processes. micro-batch: after each, so that a process "
        "stores the gradients of its shard only; step: once per step, with less communication but full float32 "
        "gradients on each process. Between replicas, gradients are reduced once per step in both cases.",
    )


class KeepConfig(Config):
    """Checkpoints, evaluation and metrics of a run."""

    save_every: int = Field(default=500, ge=1, description="Number of steps between checkpoints.")
    keep_last: int = Field(default=2, ge=1, le=1000, description="Number of latest checkpoints that are kept.")
    keep_full: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Number of the latest checkpoints that hold all state needed to resume; the others hold weights "
        "only, in bf16 with bf16-mixed.",
    )
    keep_best: bool = Field(
        default=True, description="Whether the checkpoint with the lowest validation loss is kept as well."
    )
    best_by: BestBy | None = Field(
        default=None,
        description="Validation loss that selects the best checkpoint, with the right oracle: text: text of all words; "
        "answer: text of the answers' words; loss: the whole loss, mostly audio. Empty: unchanged if the run is "
        "resumed, else text.",
    )
    save_async: bool = Field(default=True, description="Whether checkpoints are written in the background on a GPU.")
    log_every: int = Field(default=10, ge=1, description="Number of steps between two lines of metrics.")
    evaluate_every: int = Field(
        default=500, ge=1, description="Number of steps between evaluations on the validation split."
    )
    evaluate_examples: int = Field(
        default=64, ge=0, le=100_000, description="Maximum number of validation examples; 0: no evaluation."
    )
    free_dialogues: int = Field(
        default=8,
        ge=0,
        le=1000,
        description="Maximum number of validation dialogues that the model runs freely from their oracles at each "
        "evaluation, with one process; the texts of the first four are kept; 0: none.",
    )
    spike_deviations: float = Field(
        default=6.0,
        gt=0,
        description="A loss this many standard deviations above its running mean is reported as a spike.",
    )
    tensorboard: bool = Field(default=True, description="Whether TensorBoard event files are written as well.")
    wandb_project: str | None = Field(
        default=None,
        min_length=1,
        description="Project of Weights & Biases to which the figures are sent as well, with the key in WANDB_API_KEY; "
        "with WANDB_MODE=offline they stay in the folder of the run. Empty: none.",
    )


class TrainConfig(Config):
    """All settings of a training run."""

    out: str = Field(default="run", description="Folder of the run; an existing run is resumed.")
    stage: str = Field(default="dialogues", description="Name of the stage in the preset's plan.")
    shares: SharesConfig = Field(
        default_factory=lambda: SharesConfig(dialogues=1),
        description="Weights of dialogues, speech and copying among the steps.",
    )
    init_from: str | None = Field(
        default=None,
        description="Weights to start from: a training run, an export, KAME's or Moshi's; empty: random "
        "initialisation.",
    )
    tokenizer: str | None = Field(
        default=None,
        description="SentencePiece file that the datasets were encoded with; empty: the file in the first dataset's "
        "folder.",
    )
    max_steps: int = Field(default=1000, ge=1, description="Number of optimiser steps of the run.")
    max_hours: float | None = Field(
        default=None,
        gt=0,
        description="Maximum training time in hours, including that before a resume; the learning rate falls by it if "
        "the steps are not as far. Empty: the run ends by steps.",
    )
    accuracy: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="If most steps copy: accuracy (share of tokens predicted) at which the next lesson begins; after "
        "the last lesson the run ends. Empty: only the last lesson.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of weights, data order and all other random choices.")
    model: ModelConfig = Field(description="Shape of the front-end; data_schemas/presets.py has complete ones.")
    loss: LossConfig = Field(default_factory=LossConfig, description="Weights of the parts of the loss.")
    dropout: InputDropoutConfig = Field(
        default_factory=InputDropoutConfig, description="Dropout of the model's own past tokens."
    )
    lora: LoraConfig | None = Field(
        default=None, description="LoRA: low-rank adapters; empty: all weights are trained."
    )
    data: DataConfig = Field(default_factory=DataConfig, description="Datasets, data augmentation and batches.")
    copying: CopyConfig = Field(default_factory=CopyConfig, description="Steps that copy random words.")
    optim: OptimConfig = Field(default_factory=OptimConfig, description="Optimiser and learning rate schedule.")
    hardware: HardwareConfig = Field(default_factory=HardwareConfig, description="Device, precision, parallelism.")
    keep: KeepConfig = Field(default_factory=KeepConfig, description="Checkpoints, evaluation, metrics.")

    _expanded = field_validator("out", "init_from", "tokenizer")(expand_home)

    @model_validator(mode="after")
    def _check_data(self) -> Self:
        """Checks that there are datasets, and that adapters have pretrained weights."""
        if not self.data.datasets:
            raise ValueError("data.datasets: no datasets are given; name at least one folder of token rows")
        if self.lora is not None and self.init_from is None:
            raise ValueError("init_from: adapters (lora) need pretrained weights; name a checkpoint to start from")
        return self
