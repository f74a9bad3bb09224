"""An example as the model sees it, and several of them padded to one length."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.sequence import make_labels


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One sequence, or a chunk of one: K rows, S + 1 columns, S input positions.

    Attributes:
        columns: int32[K, S + 1], delayed; the input is all but the last, the target all but the first.
        oracle: int32[S], the id fed at each input position.
        text_labels: int32[S], `ZERO_ID` where nothing is to be predicted.
        audio_labels: int32[n_codebooks, S], the same for the own voice.
        answer_mask: bool[S], where the text to be predicted is part of the answer's words.
        oracle_fed: bool[S], where an oracle is being fed.
    """

    columns: NDArray[np.int32]
    oracle: NDArray[np.int32]
    text_labels: NDArray[np.int32]
    audio_labels: NDArray[np.int32]
    answer_mask: NDArray[np.bool_]
    oracle_fed: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        columns: NDArray[np.int32],
        oracle: NDArray[np.int32],
        answer_mask: NDArray[np.bool_],
        text_card: int,
        card: int,
    ) -> Self:
        """An example with the labels that its columns come to.

        Args:
            columns: int32[K, S + 1], of `lay_sequence` or a chunk of it.
            oracle: int32[S], of `lay_oracle`.
            answer_mask: bool[S]; of a whole sequence, the mask of the T frames and False for the tail.
            text_card: initial id of the text.
            card: initial id of the codes.
        """
        text_labels, audio_labels = make_labels(columns, text_card, card)
        return cls(columns, oracle, text_labels, audio_labels, answer_mask, oracle != PADDING_ID)

    @property
    def n_positions(self) -> int:
        """Input positions S."""
        return len(self.oracle)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """B examples on one device, each padded at its end to S positions: inputs and labels with `ZERO_ID`, no oracle.

    Attributes:
        columns: int64[B, K, S + 1].
        oracle: int64[B, S].
        text_labels: int64[B, S].
        audio_labels: int64[B, n_codebooks, S].
        answer_mask: bool[B, S].
        oracle_fed: bool[B, S].
    """

    columns: torch.Tensor
    oracle: torch.Tensor
    text_labels: torch.Tensor
    audio_labels: torch.Tensor
    answer_mask: torch.Tensor
    oracle_fed: torch.Tensor

    @property
    def inputs(self) -> torch.Tensor:
        """int64[B, K, S], the columns that the model reads."""
        return self.columns[..., :-1]

    @property
    def targets(self) -> torch.Tensor:
        """int64[B, K, S], the column after each of them, for the depth transformer."""
        return self.columns[..., 1:]

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        return type(self)(**{each.name: getattr(self, each.name).to(device) for each in fields(self)})


_FILL = {"columns": ZERO_ID, "oracle": PADDING_ID, "text_labels": ZERO_ID, "audio_labels": ZERO_ID}


def collate(examples: Sequence[Example]) -> Batch:
    """Examples of any lengths as one batch. Attention is causal: padding at the end changes nothing before it."""
    return Batch(
        **{
            each.name: _pad([getattr(example, each.name) for example in examples], _FILL.get(each.name, 0))
            for each in fields(Batch)
        }
    )


def _pad(arrays: Sequence[NDArray[np.generic]], fill: int) -> torch.Tensor:
    """Arrays that differ in their last axis only, stacked; integers as int64, which embeddings take."""
    n_last = max(array.shape[-1] for array in arrays)
    dtype = np.bool_ if arrays[0].dtype == np.bool_ else np.int64
    stacked = np.full((len(arrays), *arrays[0].shape[:-1], n_last), fill, dtype)
    for row, array in zip(stacked, arrays, strict=True):
        row[..., : array.shape[-1]] = array
    return torch.from_numpy(stacked)
