"""The front-end's shape, loss, input dropout, adapters and sampling."""

from typing import Literal, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class ModelConfig(Config):
    """Shape of a front-end. Its vocabulary and codebooks are defined by the data.

    Fields have the names of moshi's `LMModel` where they mean the same. `data_schemas/presets.py` has full shapes.
    """

    preset: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._-]*$",
        description="Name of the shape, written to the checkpoint and its model card.",
    )
    dim: int = Field(ge=16, description="Width of the temporal transformer; a multiple of twice num_heads.")
    num_layers: int = Field(ge=1, description="Number of layers of the temporal transformer.")
    num_heads: int = Field(ge=1, description="Number of attention heads of the temporal transformer.")
    hidden_scale: float = Field(
        default=4.125,
        ge=1,
        le=16,
        description="Width of the feed-forward layer relative to dim, before gating removes a third of it.",
    )
    context: int = Field(ge=16, description="Attention window in frames; 12.5 frames are a second.")
    depformer_dim: int = Field(ge=8, description="Width of the depth transformer; a multiple of depformer_num_heads.")
    depformer_num_layers: int = Field(ge=1, description="Number of layers of the depth transformer.")
    depformer_num_heads: int = Field(ge=1, description="Number of attention heads of the depth transformer.")
    max_period: int = Field(
        default=10_000, ge=100, description="Longest period of the rotary position embedding (RoPE), in frames."
    )
    oracle: Literal["table", "tied"] = Field(
        default="table",
        description="table: a separate oracle embedding, initialised from the text embedding; tied: the text "
        "embedding with a learnt projection and shift, which small models learn sooner. A checkpoint stores a table "
        "in both cases.",
    )
    tie_text_head: bool = Field(
        default=False,
        description="Whether the text head shares the text embedding's weights (weight tying); for small models.",
    )

    cue: bool = Field(
        default=False,
        description="Whether the model is given a cue at each frame: the first token of the oracle that it has not "
        "said yet. Without it, the model finds its place by the words it has said, and loses it if they occur twice.",
    )

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        """Checks that the widths are divisible by the numbers of heads."""
        if self.dim % (2 * self.num_heads):
            raise ValueError(f"dim {self.dim} is not a multiple of twice num_heads {self.num_heads}")
        if self.depformer_dim % self.depformer_num_heads:
            raise ValueError(
                f"depformer_dim {self.depformer_dim} is not a multiple of depformer_num_heads "
                f"{self.depformer_num_heads}"
            )
        return self


class LossConfig(Config):
    """Weights of the parts of the loss. The defaults are those of KAME's release; see kame_model/model/loss.py.

    The weights of the codebooks are defined by the codec (`CodeLayout`).
    """

    text_weight: float = Field(default=1.0, ge=0, le=100, description="Weight of the text loss.")
    padding_weight: float = Field(
        default=0.5,
        ge=0,
        le=100,
        description="Weight of the mean loss over padding tokens, relative to the mean over other text tokens.",
    )
    audio_weight: float = Field(
        default=1.0, ge=0, le=100, description="Weight of the audio loss; 1.5 in the paper, 1 in its code."
    )
    answer_weight: float = Field(
        default=1.0, ge=0, le=100, description="Weight of a text token of the answer, relative to that of other words."
    )


class InputDropoutConfig(Config):
    """Dropout of the temporal transformer's own past tokens in training, so that it relies on the oracle.

    Dropped tokens are replaced by the zero token in the temporal transformer's input only; labels and the depth
    transformer's input do not change. All shares are 0 in the release.
    """

    text: float = Field(default=0.0, ge=0, le=1, description="Share of text tokens dropped, each independently.")
    own_audio: float = Field(
        default=0.0, ge=0, le=1, description="Share of frames at which all of the model's own audio codes are dropped."
    )
    own_audio_dialogue: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of dialogues in which all of the model's own audio codes are dropped.",
    )


class LoraConfig(Config):
    """Low-rank adapters (LoRA) on every linear layer; all other weights except the oracle embedding are frozen."""

    rank: int = Field(default=128, ge=1, le=1024, description="Rank of an adapter; moshi's default is 128.")
    scaling: float = Field(
        default=2.0,
        gt=0,
        le=100,
        description="Scaling factor of an adapter's output (alpha / rank); moshi's default is 2.",
    )
    train_embeddings: bool = Field(default=False, description="Whether text and audio embeddings are trained as well.")


class SamplingConfig(Config):
    """How tokens are sampled in inference: by temperature and top-k. The defaults are those of moshi's `LMGen`."""

    use_sampling: bool = Field(
        default=True,
        description="Whether tokens are sampled by temperature; else the most likely one is chosen (greedy).",
    )
    temp: float = Field(default=0.8, gt=0, le=5, description="Sampling temperature of the audio codes.")
    temp_text: float = Field(default=0.7, gt=0, le=5, description="Sampling temperature of the text tokens.")
    top_k: int = Field(default=250, ge=1, le=100_000, description="Number of most likely audio codes to sample from.")
    top_k_text: int = Field(
        default=25, ge=1, le=100_000, description="Number of most likely text tokens to sample from."
    )
