"""The four-stream model: stock moshi's `LMModel`, and an oracle that is added to its input.

One frame is one input position. The temporal transformer sees the sum of 2 + 2n embeddings: text, n codebooks of the
own voice, n of the other's, and the oracle. The oracle is passed as moshi's `sum_condition`, a [B, S, dim] tensor that
`LMModel.forward_text` adds to the sum of the others, so moshi is used unchanged.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NamedTuple

import torch
from moshi.models.lm import LMModel
from moshi.utils.compile import no_compile
from torch import Tensor, nn
from torch.nn import functional

from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import InputDropoutConfig, ModelConfig
from kame_model.frames.batch import copy_to_device
from kame_model.frames.cue import compute_cues
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.model.attention import choose_attention
from kame_model.model.oracle_embedding import CueEmbedding, OracleEmbedding

SOUND_WEIGHTS = ("lm.emb.", "lm.depformer", "lm.linears.")
"""Prefixes of the names of a front-end's weights that are used for audio only."""


class Logits(NamedTuple):
    """What a front-end predicts at each input position, unnormalised.

    `text` [B, S, text_card]: the text token of the next column. `audio` [B, n, S, card]: the codes of the own voice in
    the next column; None if the depth transformer was skipped.
    """

    text: Tensor
    audio: Tensor | None


class TiedTextHead(nn.Module):
    """Text head with the weights of the text embedding (weight tying); replaces `LMModel.text_linear`.

    The embedding is not registered as a submodule, so a state dict has it only as `text_emb`.
    """

    def __init__(self, text_emb: nn.Embedding) -> None:
        super().__init__()
        self._text_emb = [text_emb]  # in a list, so that it is not registered a second time

    @property
    def weight(self) -> Tensor:
        """`text_linear.weight` of stock moshi: [text_card, dim], all rows except that of the initial token."""
        return self._text_emb[0].weight[:-1]

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns the logits [B, S, text_card] of hidden states [B, S, dim]."""
        return functional.linear(hidden, self.weight)


class FrontEnd(nn.Module):
    """A stock `LMModel` with an oracle embedding.

    Args:
        lm: the model as moshi builds it; its `dep_q` codebooks are the own voice's.
        oracle: "table" or "tied", see `OracleEmbedding`.
        lm_kwargs: the keyword arguments that `lm` was built with; they become a checkpoint's `config.json`.
        layout: delays, sizes and loss weights of the codes; `make_lm_kwargs` has the same delays.
        preset: name of the shape, for `kame.json`.
        tie_text_head: whether the text head shares the weights of the text embedding; it then replaces
            `lm.text_linear`.
        cue: whether the input at each position includes the first token of the oracle that has not been said yet.
    """

    def __init__(
        self,
        lm: LMModel,
        oracle: Literal["table", "tied"],
        lm_kwargs: Mapping[str, Any],
        layout: CodeLayout,
        preset: str = "custom",
        tie_text_head: bool = False,
        cue: bool = False,
    ) -> None:
        super().__init__()
        self.lm = lm
        self.oracle = OracleEmbedding(lm.text_emb, oracle)
        self.cue = CueEmbedding(lm.text_emb) if cue else None
        self.lm_kwargs = dict(lm_kwargs)
        self.layout = layout
        self.preset = preset
        self.tie_text_head = tie_text_head
        if tie_text_head:
            lm.text_linear = TiedTextHead(lm.text_emb)  # type: ignore[assignment]  # moshi only calls it

    @property
    def n_codebooks(self) -> int:
        """Number of codebooks of one voice."""
        return int(self.lm.dep_q)

    @property
    def text_card(self) -> int:
        """Size of the vocabulary; also the id that starts an oracle, and the text of a sequence's first column."""
        return int(self.lm.text_card)

    @property
    def card(self) -> int:
        """Number of entries of a codebook; also the initial id of a codebook in the first column of a sequence."""
        return int(self.lm.card)

    def forward(
        self,
        columns: Tensor,
        oracle: Tensor | None = None,
        *,
        inputs: Tensor | None = None,
        with_audio: bool = True,
    ) -> Logits:
        """Runs the model over whole sequences, for training.

        Args:
            columns: [B, 1 + 2n, S + 1] delayed tokens; position s reads column s and predicts column s + 1.
            oracle: [B, S] ids; None: no oracle at any position, which is the same as padding everywhere.
            inputs: [B, 1 + 2n, S] input of the temporal transformer instead of `columns[..., :-1]`, from `drop_inputs`;
                the depth transformer and the cues still use `columns`.
            with_audio: False skips the depth transformer, for copying without audio.
        """
        inputs = columns[..., :-1] if inputs is None else inputs
        with (
            disable_compilation_on_cpu(columns.device),
            choose_attention(columns.device.type, self.lm_kwargs["context"]),
        ):
            cues = None if oracle is None else self._compute_cues(columns[:, 0, :-1], oracle)
            condition = self.compute_condition(
                torch.full_like(inputs[:, 0], PADDING_ID) if oracle is None else oracle, cues
            )
            hidden, text = self.lm.forward_text(inputs, condition)  # [B, S, dim], [B, 1, S, text_card]
            audio = self.lm.forward_depformer_training(columns[..., 1:], hidden) if with_audio else None
        return Logits(text[:, 0], audio)

    def compute_condition(self, oracle: Tensor, cues: Tensor | None = None) -> Tensor:
        """Computes moshi's `sum_condition`, [B, S, dim]: the embeddings of the oracle and, if it has one, of the cue.

        Args:
            oracle: [B, S] ids of the oracle.
            cues: [B, S] the tokens of the oracle to say next (kame_model/frames/cue.py); ignored if the front-end has
                no cue.
        """
        condition: Tensor = self.oracle(oracle, self.lm.text_emb)
        if self.cue is not None and cues is not None:
            condition = condition + self.cue(cues, self.lm.text_emb)
        return condition

    def _compute_cues(self, text: Tensor, oracle: Tensor) -> Tensor | None:
        """Computes the cues [B, S] of text and oracle inputs [B, S]; None if the front-end has no cue."""
        if self.cue is None:
            return None
        rows = zip(text.tolist(), oracle.tolist(), strict=True)
        return torch.tensor([compute_cues(*row, self.text_card) for row in rows], device=text.device)


def make_lm_kwargs(config: ModelConfig, text_card: int, layout: CodeLayout) -> dict[str, Any]:
    """Returns the keyword arguments of `LMModel`, with exactly the keys of Kyutai's `_lm_kwargs`.

    Args:
        text_card: size of the text vocabulary.
        layout: of the codes.
    """
    return {
        "dim": config.dim,
        "text_card": text_card,
        "existing_text_padding_id": PADDING_ID,
        "n_q": 2 * layout.n_codebooks,
        "dep_q": layout.n_codebooks,
        "card": layout.card,
        "num_heads": config.num_heads,
        "num_layers": config.num_layers,
        "hidden_scale": config.hidden_scale,
        "causal": True,
        "layer_scale": None,
        "context": config.context,
        "max_period": config.max_period,
        "gating": "silu",
        "norm": "rms_norm_f32",
        "positional_embedding": "rope",
        "depformer_dim": config.depformer_dim,
        "depformer_dim_feedforward": int(config.hidden_scale * config.depformer_dim),
        "depformer_num_heads": config.depformer_num_heads,
        "depformer_num_layers": config.depformer_num_layers,
        "depformer_layer_scale": None,
        "depformer_multi_linear": True,
        "depformer_context": layout.n_codebooks,
        "depformer_max_period": config.max_period,
        "depformer_gating": "silu",
        "depformer_pos_emb": "none",
        "depformer_weights_per_step": True,  # without it stock moshi cannot stream the depth transformer
        "delays": list(layout.of_rows),
    }


def build_front_end(
    config: ModelConfig,
    text_card: int,
    layout: CodeLayout,
    device: torch.device | str = "cpu",
) -> FrontEnd:
    """Builds a front-end with random float32 weights; seed torch's global generator first.

    Args:
        config: shape of the model.
        text_card: size of the text vocabulary.
        layout: of the codes.
    """
    kwargs = make_lm_kwargs(config, text_card, layout)
    lm = LMModel(device=device, dtype=torch.float32, **kwargs)
    return FrontEnd(lm, config.oracle, kwargs, layout, config.preset, config.tie_text_head, config.cue)


def drop_inputs(inputs: Tensor, config: InputDropoutConfig, generator: torch.Generator) -> Tensor:
    """Returns the temporal transformer's input with dropout: dropped ids become the zero token, which has no vector.

    It hides some of the model's own past in training, so that the model relies on the oracle.

    Args:
        inputs: [B, 1 + 2n, S] `columns[..., :-1]` of a batch; not changed.
        config: the shares; the first column is never dropped.
        generator: on the CPU, even if `inputs` is not; the shares do not change how many numbers are drawn.
    """
    n_dialogues, n_rows, n_positions = inputs.shape
    n_codebooks = (n_rows - 1) // 2
    text = torch.rand(n_dialogues, 1, n_positions, generator=generator) < config.text
    frames = torch.rand(n_dialogues, 1, n_positions, generator=generator) < config.own_audio
    dialogues = torch.rand(n_dialogues, 1, 1, generator=generator) < config.own_audio_dialogue
    own = (frames | dialogues).expand(-1, n_codebooks, -1)
    dropped = torch.cat([text, own, torch.zeros_like(own)], dim=1)
    dropped[..., 0] = False
    return inputs.masked_fill(copy_to_device(dropped, inputs.device), ZERO_ID)


def disable_compilation_on_cpu(device: torch.device) -> AbstractContextManager[None]:
    """Returns a context manager that disables moshi's use of `torch.compile` on CPU.

    moshi wraps its norms in `torch.compile` when it is imported, unless `NO_TORCH_COMPILE` is set in the environment;
    compiling takes longer than a short run on CPU. This switch of moshi applies at the call, so it does not depend on
    the order of imports.
    """
    return nullcontext() if device.type == "cuda" else no_compile()
