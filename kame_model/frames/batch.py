"""Training examples as model inputs and labels, and batches of them padded to one length."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from data_schemas.config.training import LENGTH_MULTIPLE
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.sequence import make_labels


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One sequence, or a chunk of one: K rows, S + 1 columns, S input positions.

    Attributes:
        columns: int32[K, S + 1], delayed; the input is all but the last, the target all but the first.
        oracle: int32[S], the id fed at each input position.
        text_labels: int32[S], `ZERO_ID` where there is no label.
        audio_labels: int32[n_codebooks, S], the same for the own voice.
        answer_mask: bool[S], where the text label is part of the answer's words.
        oracle_fed: bool[S], where an oracle is fed.
    """

    columns: NDArray[np.int32]
    oracle: NDArray[np.int32]
    text_labels: NDArray[np.int32]
    audio_labels: NDArray[np.int32]
    answer_mask: NDArray[np.bool_]
    oracle_fed: NDArray[np.bool_]

    @classmethod
    def from_columns(
        cls,
        columns: NDArray[np.int32],
        oracle: NDArray[np.int32],
        answer_mask: NDArray[np.bool_],
        text_card: int,
        card: int,
    ) -> Self:
        """Makes an example, whose labels are computed from its columns.

        Args:
            columns: int32[K, S + 1], from `make_columns`, or a chunk of it.
            oracle: int32[S], from `make_oracle_stream`.
            answer_mask: bool[S]; for a whole sequence, the mask of the T frames, then False for the tail.
            text_card: initial id of the text.
            card: initial id of the codes.
        """
        text_labels, audio_labels = make_labels(columns, text_card, card)
        return cls(columns, oracle, text_labels, audio_labels, answer_mask, oracle != PADDING_ID)

    @property
    def n_positions(self) -> int:
        """Number of input positions S."""
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
        """int64[B, K, S], the input columns."""
        return self.columns[..., :-1]

    def to(self, device: torch.device | str) -> Self:
        """Returns the batch on another device, see `copy_to_device`."""
        return type(self)(**{each.name: copy_to_device(getattr(self, each.name), device) for each in fields(self)})


def copy_to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Copies a tensor to another device; to a GPU from pinned memory and without waiting (non_blocking).

    A copy from unpinned memory synchronises with the GPU's stream first, so the GPU would be idle afterwards. PyTorch
    keeps the pinned memory until the copy is done.
    """
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


_FILL = {"columns": ZERO_ID, "oracle": PADDING_ID, "text_labels": ZERO_ID, "audio_labels": ZERO_ID}


def round_length(n_positions: int, multiple: int = LENGTH_MULTIPLE) -> int:
    """Returns the number of positions to which examples of at most `n_positions` are padded."""
    return -(-n_positions // multiple) * multiple


def collate(examples: Sequence[Example], multiple: int = LENGTH_MULTIPLE) -> Batch:
    """Combines examples of any lengths to one batch, padded to the length `round_length` of the longest.

    Attention is causal, so padding at the end has no effect.
    """
    longest = max(each.n_positions for each in examples)
    n_padded = round_length(longest, multiple) - longest
    return Batch(
        **{
            each.name: _pad([getattr(example, each.name) for example in examples], _FILL.get(each.name, 0), n_padded)
            for each in fields(Batch)
        }
    )


def _pad(arrays: Sequence[NDArray[np.generic]], fill: int, n_more: int) -> torch.Tensor:
    """Pads arrays in their last axis to the longest length plus `n_more`, and stacks them.

    Integers become int64, as embeddings require.
    """
    n_last = max(array.shape[-1] for array in arrays) + n_more
    dtype = np.bool_ if arrays[0].dtype == np.bool_ else np.int64
    stacked = np.full((len(arrays), *arrays[0].shape[:-1], n_last), fill, dtype)
    for row, array in zip(stacked, arrays, strict=True):
        row[..., : array.shape[-1]] = array
    return torch.from_numpy(stacked)
