"""The four-stream model: stock moshi's `LMModel`, and an oracle that is added to its input.

One frame is one input position. The temporal transformer sees the sum of 2 + 2n embeddings: text, n codebooks of the
own voice, n of the other's, and the oracle. The oracle goes in as moshi's `sum_condition`, a [B, S, dim] tensor that
`LMModel.forward_text` adds to the sum of the others, so that nothing of moshi is changed.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from moshi.models.lm import LMModel
from torch import Tensor, nn

from kame_model.model.oracle_embedding import OracleEmbedding
from kame_model.model.stock import TiedTextHead, eager_on_cpu


class Logits(NamedTuple):
    """What a front-end predicts at each input position, unnormalised.

    `text` [B, S, text_card]: the text token of the next column. `audio` [B, n, S, card]: the codes of the own voice in
    the next column; None where the depth transformer was left out.
    """

    text: Tensor
    audio: Tensor | None


class FrontEnd(nn.Module):
    """A stock `LMModel` and the oracle embedding beside it.

    Args:
        lm: the model as moshi builds it; its `dep_q` codebooks are the own voice's.
        oracle: "table" or "tied", see `OracleEmbedding`.
        lm_kwargs: the keyword arguments that `lm` was built with; they become a checkpoint's `config.json`.
        preset: name of the shape, for `kame.json`.
        tie_text_head: whether the text head is the text embedding.
    """

    def __init__(
        self,
        lm: LMModel,
        oracle: Literal["table", "tied"],
        lm_kwargs: Mapping[str, Any],
        preset: str = "custom",
        tie_text_head: bool = False,
    ) -> None:
        super().__init__()
        self.lm = lm
        self.oracle = OracleEmbedding(lm.text_emb, oracle)
        self.lm_kwargs = dict(lm_kwargs)
        self.preset = preset
        self.tie_text_head = tie_text_head
        if tie_text_head:
            lm.text_linear = TiedTextHead(lm.text_emb)  # type: ignore[assignment]  # moshi only calls it

    @property
    def n_codebooks(self) -> int:
        """Codebooks of one voice."""
        return int(self.lm.dep_q)

    @property
    def text_card(self) -> int:
        """Size of the vocabulary; also the id that starts an oracle, and the text of a sequence's first column."""
        return int(self.lm.text_card)

    @property
    def card(self) -> int:
        """Entries of a codebook; also the id of a codebook in a sequence's first column."""
        return int(self.lm.card)

    def forward(
        self,
        columns: Tensor,
        oracle: Tensor | None = None,
        *,
        inputs: Tensor | None = None,
        with_audio: bool = True,
    ) -> Logits:
        """The training forward over whole sequences.

        Args:
            columns: [B, 1 + 2n, S + 1] delayed tokens; position s reads column s and predicts column s + 1.
            oracle: [B, S] ids; None: no oracle at any position, which is padding and not the absence of a condition.
            inputs: [B, 1 + 2n, S] what the temporal transformer reads in place of `columns[..., :-1]`, as
                `drop_inputs` makes it; the depth transformer goes on reading `columns`.
            with_audio: False leaves the depth transformer out, for copying without sound.
        """
        inputs = columns[..., :-1] if inputs is None else inputs
        with eager_on_cpu(columns.device):
            condition = self.condition(inputs[:, 0] if oracle is None else oracle, idle=oracle is None)
            hidden, text = self.lm.forward_text(inputs, condition)  # [B, S, dim], [B, 1, S, text_card]
            audio = self.lm.forward_depformer_training(columns[..., 1:], hidden) if with_audio else None
        return Logits(text[:, 0], audio)

    def condition(self, oracle: Tensor, idle: bool = False) -> Tensor:
        """The summed condition, [B, S, dim], of oracle ids [B, S]; with `idle`, of as many positions without oracle."""
        if idle:
            oracle = torch.full_like(oracle, self.lm.text_padding_token_id)
        condition: Tensor = self.oracle(oracle, self.lm.text_emb)
        return condition
