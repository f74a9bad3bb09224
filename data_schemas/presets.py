"""Presets of front-ends: shape, training plan and defaults of each. To add a preset, add an entry here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from data_schemas.config.model import ModelConfig
from data_schemas.config.training import KINDS, Kind, SharesConfig
from data_schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage of a preset's training plan.

    Attributes:
        name: name of the stage and of its folder.
        shares: weights of the steps on dialogues, on speech rows, and on copying random words without audio. Kinds
            without data are skipped (see `SharesConfig`).
        max_steps: maximum number of steps.
        learning_rate: maximum of the schedule.
        accuracy: if most steps copy, accuracy at which a lesson, and after the last one the stage, ends.
        settings: other settings that differ from those of the preset.
    """

    name: str
    shares: tuple[float, float, float]
    max_steps: int
    learning_rate: float
    accuracy: float | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def main(self) -> Kind:
        """The kind of most steps."""
        return SharesConfig(**dict(zip(KINDS, self.shares, strict=True))).main


_RELEASE: Final = StagePlan("dialogues", (1, 0, 0), 1_000, 3e-5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A preset of a front-end; `model.preset` is its name.

    `plan` lists the stages in order; each starts from the weights of the previous one. `settings` are differences from
    the defaults of `TrainConfig`, which are those of KAME's release, for all stages. `begins_with` are defaults for
    fields of `FrontEndConfig`; if they include pretrained weights, the preset cannot use another codec.
    """

    model: ModelConfig
    plan: tuple[StagePlan, ...] = (_RELEASE,)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    begins_with: Mapping[str, str] = field(default_factory=dict)

    def make_recipe(self, stage: str) -> dict[str, Any]:
        """Returns the settings of a stage that the preset determines, as nested fields of `TrainConfig`.

        Folder, datasets, tokenizer and initial weights are not among them. Settings of the stage override those of the
        preset.

        Raises:
            ConfigError: the plan has no such stage.
        """
        row = next((each for each in self.plan if each.name == stage), None)
        if row is None:
            names = ", ".join(each.name for each in self.plan)
            raise ConfigError(f"The plan of {self.model.preset} has no stage {stage!r}.", f"Choose one of: {names}.")
        layers = ({"optim": {"learning_rate": row.learning_rate}}, self.settings, row.settings)
        merged: dict[str, dict[str, Any]] = {}
        for layer in layers:
            for section, settings in layer.items():
                merged.setdefault(section, {}).update(settings)
        return {
            "stage": stage,
            "model": self.model.model_dump(),
            "shares": dict(zip(KINDS, row.shares, strict=True)),
            "max_steps": row.max_steps,
            "accuracy": row.accuracy,
            **merged,
        }


_FEED_FROM_SCRATCH: Final[dict[str, Any]] = {
    # Without an oracle the model must not guess: every seventh dialogue has a stall instead of an answer.
    "drop_share": 0.15,
    # Small models say a guess while they wait for a late answer (docs/decisions/0005-guesses-are-held.md).
    "guesses": "hold",
    # Oracles of a server were 0.3 to 3 s old (median 2.2 s).
    "left_share": 0.25,
    "delay": {"max_s": 3.0},
    # Back-ends that generate slower than one token a frame, or whole sentences: common on a CPU, rare on a GPU.
    "slow_share": 0.3,
}
"""Augmentation of oracles for models trained from scratch, instead of the release's."""

_DATA_FROM_SCRATCH: Final[dict[str, Any]] = {
    # Less than 0.9, used before: substitution also prevents memorising, and each swap is a splice at the end of the
    # question, which may be audible and which does not occur with callers.
    "swap_share": 0.5,
    # The share that brought the right answer from 58 % to 84 % of held-out items (decision 0004).
    "substitute_share": 0.6,
    # Without it, the loss of all words on held-out dialogues stopped falling at 0.6 nats (docs/evaluation.md).
    "reframe_share": 0.6,
    # A fifth, as in the lessons of copying.
    "correct_share": 0.2,
    # Half of the examples continue in silence, so that the model learns to say an answer once.
    "wait_share": 0.5,
    "feed": _FEED_FROM_SCRATCH,
}
"""Augmentation of dialogues for models trained from scratch."""

_PRESETS: Final = (
    # Trains on a laptop's CPU: 5.7 M parameters with 1,500 pieces and codec2-neural. The temporal shape, the tied
    # oracle and the tied text head are those of a trial that learnt to copy within minutes. Steps and shares have not
    # been compared with others (docs/training.md, "Training stages").
    Preset(
        model=ModelConfig(
            preset="nano",
            dim=256,
            num_layers=4,
            num_heads=8,
            context=750,  # 60 s, longer than any dialogue of the demo
            depformer_dim=128,
            depformer_num_layers=1,
            depformer_num_heads=4,
            oracle="tied",
            cue=True,
            tie_text_head=True,
        ),
        plan=(
            #          stage        dialogues, speech, copying   ends after   learning rate, its highest
            StagePlan("speak", (0, 90, 10), 12_000, 3e-3, settings={"data": {"wait_share": 0.0}}),
            StagePlan("copy", (0, 20, 80), 12_000, 1e-3, accuracy=0.99, settings={"optim": {"final_share": 0.5}}),
            StagePlan("dialogues", (65, 25, 10), 15_000, 1.5e-3, settings={"dropout": {"own_audio_dialogue": 0.2}}),
        ),
        settings={
            "optim": {"weight_decay": 0.05, "warmup_steps": 50},
            # Steps of 4,000 frames learnt to speak a third as fast (docs/training.md, "Small batches").
            "data": {**_DATA_FROM_SCRATCH, "batch_frames": 1_024},
            "copying": {"max_guesses": 0, "batch_size": 16},
            "keep": {"evaluate_every": 500, "save_every": 500},
        },
    ),
    # Trains on one GPU from scratch: 307 M parameters with 8,000 pieces and Mimi's first 8 codebooks. Never trained to
    # convergence: a usual learning rate at this width, and nano's data settings.
    Preset(
        model=ModelConfig(
            preset="small",
            dim=1024,
            num_layers=12,
            num_heads=16,
            context=1500,  # two minutes
            depformer_dim=512,
            depformer_num_layers=3,
            depformer_num_heads=8,
            oracle="tied",
            cue=True,
        ),
        plan=(
            StagePlan("speak", (0, 85, 15), 4_000, 3e-4),
            StagePlan("copy", (0, 20, 80), 4_000, 3e-4, accuracy=0.99),
            StagePlan("dialogues", (70, 20, 10), 3_000, 3e-4, settings={"dropout": {"own_audio_dialogue": 0.3}}),
        ),
        settings={
            "optim": {"warmup_steps": 500},
            "data": {**_DATA_FROM_SCRATCH, "batch_frames": 16_000, "length_multiple": 8, "workers": 2},
            "copying": {"max_guesses": 0},
            "hardware": {"precision": "bf16-mixed"},
        },
        begins_with={"codec": "mimi"},
    ),
    # Kyutai's Moshi and KAME's front-end, initialised from their weights (moshi/models/loaders.py, `_lm_kwargs`).
    # KAME's release: 3e-5 for both transformers, its skips and shifts; answers wait for late oracles.
    Preset(
        model=ModelConfig(
            preset="moshi-7b",
            dim=4096,
            num_layers=32,
            num_heads=32,
            context=3000,
            depformer_dim=1024,
            depformer_num_layers=6,
            depformer_num_heads=16,
        ),
        plan=(
            StagePlan("speak", (0, 1, 0), 1_000, 3e-5),
            StagePlan("copy", (0, 0, 1), 1_000, 3e-5, accuracy=0.99),
            StagePlan("dialogues", (80, 20, 0), 1_000, 3e-5),
        ),
        settings={
            # The same batch on 1, 2, 4 and 8 GPUs: one micro-batch on each of eight.
            "optim": {"accumulation": 8},
            "data": {"batch_frames": 8_000, "length_multiple": 8, "workers": 2},
            "hardware": {"precision": "bf16-mixed", "activation_checkpointing": True},
        },
        begins_with={
            "init_from": "kyutai/moshiko-pytorch-bf16",
            "tokenizer": "hf://kyutai/moshiko-pytorch-bf16/tokenizer_spm_32k_3.model",
            "codec": "mimi",
        },
    ),
)

PRESETS: Final[dict[str, Preset]] = {each.model.preset: each for each in _PRESETS}
"""Presets by name."""
