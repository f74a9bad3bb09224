"""Embedding of the oracle stream: a separate table, or the text embedding with a learnt projection."""

import math
from typing import Literal

import torch
from moshi.models.lm_utils import ScaledEmbedding
from torch import Tensor, nn
from torch.nn import functional

from kame_model.frames.ids import PADDING_ID, ZERO_ID

_SAME_TABLE = 0.02
"""Tolerance relative to a table's norm, for rounding to bf16: eight bits of mantissa lose 0.2%."""


class OracleEmbedding(nn.Module):
    """Embeds oracle ids 0 … text_card; id `text_card` starts an oracle, id 3 (padding) means no oracle.

    Modes:
        table: [text_card + 1, dim], initialised as a copy of the text embedding, as in KAME (arXiv 2510.02327). Every
            id has a trained vector, including that of "no oracle".
        tied: `projection @ text_emb[id] + shift`, and zero for id 3. The projection is initialised as a random
            rotation, so that a word of the oracle differs from the same word said. A model of 4 M parameters learns to
            copy with it within minutes on two cores, and does not with a table (docs/model.md).

    In both modes, `make_table` returns the table that a checkpoint stores as `oracle_emb.weight`. The zero token, -1,
    has no vector.
    """

    def __init__(self, text_emb: nn.Embedding, mode: Literal["table", "tied"]) -> None:
        super().__init__()
        self.mode = mode
        n_ids, dim = text_emb.weight.shape
        device, dtype = text_emb.weight.device, text_emb.weight.dtype
        if mode == "table":
            self.embedding = ScaledEmbedding(n_ids, dim, zero_idx=ZERO_ID, device=device, dtype=dtype)
            self.copy_text_embedding(text_emb)
        else:
            self.projection = nn.Linear(dim, dim, bias=False, device=device, dtype=dtype)
            self.shift = nn.Parameter(torch.empty(dim, device=device, dtype=dtype))
            self._init_tied()

    @torch.no_grad()
    def copy_text_embedding(self, text_emb: nn.Embedding) -> None:
        """Copies the text embedding to the table; does nothing in mode tied, which uses it anyway."""
        if self.mode == "table":
            self.embedding.weight.copy_(text_emb.weight)

    @torch.no_grad()
    def _init_tied(self) -> None:
        """Initialises the projection as a random rotation, and the shift with random numbers."""
        dim = len(self.shift)
        device = self.shift.device
        rotation = torch.empty(dim, dim, device=device, dtype=torch.float32)  # no QR in bf16
        self.projection.weight.copy_(nn.init.orthogonal_(rotation))
        self.shift.copy_(torch.randn(dim, device=device) / math.sqrt(dim))

    def forward(self, oracle: Tensor, text_emb: nn.Embedding) -> Tensor:
        """Embeds ids: [B, S] to [B, S, dim]."""
        if self.mode == "table":
            vectors: Tensor = self.embedding(oracle)
            return vectors
        heard = ((oracle != PADDING_ID) & (oracle != ZERO_ID))[..., None]
        vectors = self.projection(text_emb(oracle)) + self.shift
        return torch.where(heard, vectors, torch.zeros_like(vectors))

    @torch.no_grad()
    def make_table(self, text_emb: nn.Embedding) -> Tensor:
        """Returns the vectors of all ids as one table, [text_card + 1, dim], in any mode."""
        if self.mode == "table":
            return self.embedding.weight.detach().clone()
        table = functional.linear(text_emb.weight, self.projection.weight) + self.shift
        table[PADDING_ID] = 0
        return table

    @torch.no_grad()
    def set_table(self, table: Tensor, text_emb: nn.Embedding) -> None:
        """Sets the weights so that the embedding equals a table.

        Args:
            table: [text_card + 1, dim], as returned by `make_table`.
            text_emb: the text embedding of the same checkpoint. In mode tied, projection and shift are computed from
                both by least squares, which restores those that the table was made from.

        Raises:
            ValueError: if the mode is tied, and the table is not that of a tied embedding.
        """
        if self.mode == "table":
            self.embedding.weight.copy_(table)
            return
        heard = torch.arange(len(table)) != PADDING_ID
        text = functional.pad(
            text_emb.weight.double().cpu()[heard], (0, 1), value=1.0
        )  # the last column is the shift's
        wanted = table.double().cpu()
        found = torch.linalg.lstsq(text, wanted[heard], driver="gelsd").solution
        missed = (text @ found - wanted[heard]).norm() + wanted[PADDING_ID].norm()
        if missed > _SAME_TABLE * wanted.norm():
            raise ValueError(
                f"the table is not that of a tied embedding: it differs by {missed / wanted.norm():.0%} of its norm"
            )
        self.projection.weight.copy_(found[:-1].T)
        self.shift.copy_(found[-1])


class CueEmbedding(nn.Module):
    """Projection of the text embedding for the token to say next.

    It is initialised as zero, so that it does not change the output of weights that were trained without it.
    """

    def __init__(self, text_emb: nn.Embedding) -> None:
        super().__init__()
        weight = text_emb.weight
        dim = weight.shape[1]
        self.projection = nn.Linear(dim, dim, bias=False, device=weight.device, dtype=weight.dtype)
        nn.init.zeros_(self.projection.weight)

    def forward(self, cues: Tensor, text_emb: nn.Embedding) -> Tensor:
        """Embeds ids: [B, S] to [B, S, dim]; padding, when nothing is left to say, becomes the zero vector."""
        vectors: Tensor = self.projection(text_emb(cues))
        return torch.where((cues != PADDING_ID)[..., None], vectors, torch.zeros_like(vectors))
