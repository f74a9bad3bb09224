"""The front-end's shape, its loss, and what of it is trained."""

from typing import Literal, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class ModelConfig(Config):
    """Shape of a front-end. What it speaks with (vocabulary, codebooks) comes from the data, not from here.

    Names are those of moshi's `LMModel` where they mean the same. `data_schemas/presets.py` has full ones.
    """

    preset: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._-]*$", description="Name of the shape, told in the checkpoint and its card."
    )
    dim: int = Field(ge=16, description="Width of the temporal transformer; a multiple of twice its heads.")
    num_layers: int = Field(ge=1, description="Layers of the temporal transformer.")
    num_heads: int = Field(ge=1, description="Attention heads of the temporal transformer.")
    hidden_scale: float = Field(
        default=4.125,
        ge=1,
        le=16,
        description="Feed-forward width over width, before gating takes a third of it.",
    )
    context: int = Field(ge=16, description="Frames back that attention sees; 12.5 a second.")
    depformer_dim: int = Field(ge=8, description="Width of the depth transformer; a multiple of its heads.")
    depformer_num_layers: int = Field(ge=1, description="Layers of the depth transformer.")
    depformer_num_heads: int = Field(ge=1, description="Attention heads of the depth transformer.")
    max_period: int = Field(default=10_000, ge=100, description="Longest period of the rotary positions, frames.")
    oracle: Literal["table", "tied"] = Field(
        default="table",
        description="table: an oracle embedding of its own, started from the text's; tied: the text's through a learnt "
        "projection and shift, which small models learn sooner. A checkpoint has a table either way.",
    )
    tie_text_head: bool = Field(
        default=False, description="Whether text is predicted with the text embedding's own weights; for small models."
    )

    cue: bool = Field(
        default=False,
        description="Whether the model is given its cue at each frame: the oracle's first token that it has not said. "
        "Without it, it finds its place by the words it said, and loses it where they come twice.",
    )

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.dim % (2 * self.num_heads):
            raise ValueError(f"dim {self.dim} is no multiple of twice num_heads {self.num_heads}")
        if self.depformer_dim % self.depformer_num_heads:
            raise ValueError(
                f"depformer_dim {self.depformer_dim} is no multiple of depformer_num_heads {self.depformer_num_heads}"
            )
        return self


class LossConfig(Config):
    """Weights of the parts of the loss. The defaults are those of KAME's release; see kame_model/model/loss.py.

    Those of the codebooks are the codec's (`CodeLayout`).
    """

    text_weight: float = Field(default=1.0, ge=0, le=100, description="Weight of the text loss in the sum.")
    padding_weight: float = Field(
        default=0.5, ge=0, le=100, description="Weight of the mean over padding beside the mean over other text."
    )
    audio_weight: float = Field(
        default=1.0, ge=0, le=100, description="Weight of the audio loss in the sum; the paper says 1.5, its code 1."
    )
    answer_weight: float = Field(
        default=1.0, ge=0, le=100, description="Weight of a text token of the answer where other words' weigh 1."
    )


class InputDropoutConfig(Config):
    """What of its own past the temporal transformer is kept from in training, so that it leans on the oracle.

    What is dropped is replaced by the zero token in the temporal transformer's input alone: labels, and what the depth
    transformer is told, stay whole. All are 0 in the release.
    """

    text: float = Field(default=0.0, ge=0, le=1, description="Share of text tokens dropped, each on its own.")
    own_audio: float = Field(
        default=0.0, ge=0, le=1, description="Share of frames whose codes of the own voice are dropped, all together."
    )
    own_audio_dialogue: float = Field(
        default=0.0, ge=0, le=1, description="Share of dialogues in which all codes of the own voice are dropped."
    )


class LoraConfig(Config):
    """Low-rank adapters beside every linear layer; all else but the oracle embedding is frozen."""

    rank: int = Field(default=128, ge=1, le=1024, description="Rank of an adapter; moshi's default is 128.")
    scaling: float = Field(
        default=2.0,
        gt=0,
        le=100,
        description="Factor of an adapter's output (alpha over rank); moshi's default is 2.",
    )
    train_embeddings: bool = Field(
        default=False, description="Whether text and audio embeddings are trained beside the adapters."
    )


class SamplingConfig(Config):
    """How tokens are chosen in free running. The defaults are those of moshi's `LMGen`."""

    use_sampling: bool = Field(default=True, description="Whether tokens are drawn; else the likeliest is taken.")
    temp: float = Field(default=0.8, gt=0, le=5, description="Temperature of the codes.")
    temp_text: float = Field(default=0.7, gt=0, le=5, description="Temperature of the text.")
    top_k: int = Field(default=250, ge=1, le=100_000, description="Codes to choose among: so many likeliest.")
    top_k_text: int = Field(default=25, ge=1, le=100_000, description="Text tokens to choose among.")
