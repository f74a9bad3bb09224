"""Sizes of front-ends: of each the shape, how it is trained, and what it begins with. A new one is an entry here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from data_schemas.config.model import ModelConfig
from data_schemas.config.training import KINDS, Kind, SharesConfig


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A row of a preset's plan: one stage of its training.

    Attributes:
        name: by which it is called, and its folder.
        shares: of its steps: weights of dialogues, of speech rows, of copying random words without sound. What is not
            there (`SharesConfig`) is left out.
        max_steps: its end.
        learning_rate: its highest.
        accuracy: its end where most steps copy: the share of tokens that are foreseen, lesson by lesson.
        settings: what else is other than in the preset's settings.
    """

    name: str
    shares: tuple[float, float, float]
    max_steps: int
    learning_rate: float
    accuracy: float | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def main(self) -> Kind:
        """What most steps are of."""
        return SharesConfig(**dict(zip(KINDS, self.shares, strict=True))).main


_RELEASE: Final = StagePlan("dialogues", (1, 0, 0), 1_000, 3e-5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A size of front-end; `model.preset` is its name.

    `plan` has the stages in their order, each going on with the weights of the one before. `settings` hold what differs
    from `TrainConfig`'s defaults, which are KAME's release, in all stages. `begins_with` holds fields of
    `FrontEndConfig` that are taken where nothing else is said; where weights are among them the size speaks no other
    codec.
    """

    model: ModelConfig
    plan: tuple[StagePlan, ...] = (_RELEASE,)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    begins_with: Mapping[str, str] = field(default_factory=dict)

    def recipe(self, stage: str) -> dict[str, Any]:
        """Settings of a run at a stage of the plan, lacking only its data and its folder."""
        row = next(each for each in self.plan if each.name == stage)
        optim = {"learning_rate": row.learning_rate, **self.settings.get("optim", {}), **row.settings.get("optim", {})}
        return {
            "stage": stage,
            "model": self.model.model_dump(),
            "shares": dict(zip(KINDS, row.shares, strict=True)),
            "max_steps": row.max_steps,
            "accuracy": row.accuracy,
            **self.settings,
            **row.settings,
            "optim": optim,
        }


_AS_SERVED: Final[dict[str, Any]] = {
    # Nobody who has no oracle is to guess: a stall in every seventh dialogue, as often as before an answer was.
    "drop_share": 0.15,
    # Served oracles were 0.3 to 3 s old, 2.2 s in the median; few guesses before the question's end are right.
    "left_share": 0.25,
    "delay": {"max_s": 3.0},
    # Back-ends that write slower than they are fed, or whole sentences: common on a CPU, rare on a GPU.
    "slow_share": 0.3,
}
"""What befalls the oracles of models trained from scratch, in the place of the release's."""

_BEFALLS: Final[dict[str, Any]] = {
    # Less than the 0.9 of before: spoken answers are not learnt by heart either, and each swap is a splice right at the
    # question's end, which may be heard and which no caller makes.
    "swap_share": 0.5,
    # The share that brought the right answer from 58 % to 84 % of held-out items (decision 0004).
    "substitute_share": 0.6,
    # A fifth, as in the lessons of copying.
    "correct_share": 0.2,
    # Half end as recordings do, half go on in silence, so that an answer is said once.
    "wait_share": 0.5,
    "feed": _AS_SERVED,
}
"""What befalls dialogues of models trained from scratch."""

_PRESETS: Final = (
    # Trains on a laptop's CPU: 7.6 M parameters with 1,500 pieces and 6 codebooks of 512. The temporal shape, the tied
    # oracle and the tied text head are those of a trial that learnt to copy within minutes. Learning rates and the
    # share of dropped sound: those of the trial on two cores in docs/training.md.
    Preset(
        model=ModelConfig(
            preset="nano",
            dim=256,
            num_layers=4,
            num_heads=8,
            context=750,  # 60 s, longer than a dialogue of the demo
            depformer_dim=128,
            depformer_num_layers=1,
            depformer_num_heads=4,
            oracle="tied",
            cue=True,
            tie_text_head=True,
        ),
        plan=(
            #          stage        dialogues, speech, copying   ends after   learning rate, its highest
            StagePlan("speak", (0, 85, 15), 4_000, 1e-3),
            StagePlan("copy", (0, 20, 80), 4_000, 1e-3, accuracy=0.99, settings={"optim": {"final_share": 0.5}}),
            StagePlan("dialogues", (70, 20, 10), 3_000, 6e-4, settings={"dropout": {"own_audio_dialogue": 0.5}}),
        ),
        settings={
            "optim": {"weight_decay": 0.05},
            "data": {**_BEFALLS, "batch_frames": 2_000},
            "keep": {"evaluate_every": 200, "save_every": 200},
        },
    ),
    # Trains on one GPU from scratch: 306 M parameters with 8,000 pieces and Mimi's first 8 codebooks. Never trained to
    # the end: a learning rate usual at this width, and nano's data.
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
            "data": {**_BEFALLS, "batch_frames": 16_000, "workers": 2},
            "hardware": {"precision": "bf16-mixed"},
        },
        begins_with={"codec": "mimi"},
    ),
    # Kyutai's Moshi and KAME's front-end, to be started from their weights (moshi/models/loaders.py, `_lm_kwargs`).
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
            # The same step on 1, 2, 4 and 8 GPUs: what one micro-batch on each of eight was.
            "optim": {"accumulation": 8},
            "data": {"batch_frames": 8_000, "workers": 2},
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
"""By the name that is typed."""
