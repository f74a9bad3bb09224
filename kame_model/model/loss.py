"""The training loss of KAME's release, in nats, and the metrics that are logged during training.

    text  = mean over text that is not padding + 0.5 x mean over padding, of one micro-batch
    audio = sum over codes of weight x nats / sum of their weights
    total = text + audio                                         (the paper, arXiv 2510.02327: text + 1.5 x audio)

Padding is id 3; the end of padding, id 0, counts as other text. A code's weight is that of its codebook, defined by
the codec: for Mimi 100 for the first and 1 for the others. These and 0.5 are also moshi-finetune's
(`text_padding_weight`, `first_codebook_weight_multiplier` of https://github.com/kyutai-labs/moshi-finetune); all
others are in `LossConfig`. In the metrics, semantic is the first codebook of a voice and acoustic the others, for any
codec.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from data_schemas.config.model import LossConfig
from kame_model.frames.batch import Batch
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.model.front_end import Logits

METRICS = (
    "text",
    "padding",
    "semantic",
    "acoustic",
    "answer",
    "text_fed",
    "padding_fed",
    "semantic_fed",
    "acoustic_fed",
    "text_right",
    "answer_right",
)
"""Names of the rows of `LossParts.tallies`. `text` is all text except padding; `answer` the text of the answer's words;
`_fed` only positions at which an oracle is fed; `_right` the accuracy of the most likely token."""


@dataclass(frozen=True, slots=True)
class LossParts:
    """The loss of one micro-batch.

    Attributes:
        total: scalar with gradient, to be minimised.
        tallies: [len(METRICS), 2] float64 without gradient: for each metric the sum in nats (for `_right`, the number
            of right tokens) and the count, to be summed over micro-batches and ranks before `compute_means`.
    """

    total: Tensor
    tallies: Tensor


def compute_means(tallies: Tensor) -> dict[str, float]:
    """Returns the mean of each metric from summed tallies, without metrics whose count is zero."""
    rows = dict(zip(METRICS, tallies.tolist(), strict=True))
    return {name: total / count for name, (total, count) in rows.items() if count}


def compute_loss(logits: Logits, batch: Batch, config: LossConfig, code_weights: Sequence[float]) -> LossParts:
    """Computes the loss of a micro-batch and its metrics. A part of the loss without any label is zero.

    Args:
        logits: output of `FrontEnd.forward` for the batch; without audio, the loss is that of the text alone.
        batch: `text_labels` [B, S], `audio_labels` [B, n, S] (-1: no loss), `answer_mask` and `oracle_fed` [B, S].
        code_weights: loss weight of each codebook (`CodeLayout.weights`).
    """
    text_nats, labels = _compute_nats(logits.text, batch.text_labels), batch.text_labels
    words = (labels != ZERO_ID) & (labels != PADDING_ID)
    padding = labels == PADDING_ID
    weights = words * (1 + (config.answer_weight - 1) * batch.answer_mask)
    text = _compute_weighted_mean(text_nats, weights) + config.padding_weight * _compute_weighted_mean(
        text_nats, padding
    )
    total = config.text_weight * text
    right = logits.text.detach().argmax(-1) == labels
    answer, fed = words & batch.answer_mask, batch.oracle_fed
    measured = {
        "text": (text_nats, words),
        "padding": (text_nats, padding),
        "answer": (text_nats, answer),
        "text_fed": (text_nats, words & fed),
        "padding_fed": (text_nats, padding & fed),
        "text_right": (right, words),
        "answer_right": (right, answer),
    }
    if logits.audio is not None:
        audio_nats, coded = _compute_nats(logits.audio, batch.audio_labels), batch.audio_labels != ZERO_ID
        semantic, acoustic = audio_nats[:, :1], audio_nats[:, 1:]
        scale = torch.tensor(code_weights, device=audio_nats.device)[:, None]
        total = total + config.audio_weight * _compute_weighted_mean(audio_nats, coded * scale)
        measured |= {
            "semantic": (semantic, coded[:, :1]),
            "acoustic": (acoustic, coded[:, 1:]),
            "semantic_fed": (semantic, coded[:, :1] & fed[:, None]),
            "acoustic_fed": (acoustic, coded[:, 1:] & fed[:, None]),
        }
    nothing = (torch.zeros(1, device=total.device), torch.zeros(1, device=total.device))
    tallies = torch.stack([_tally(*measured.get(name, nothing)) for name in METRICS])
    return LossParts(total, tallies)


def _compute_nats(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the cross-entropy of each label in nats, float32; zero for `ZERO_ID`. [*, card] and [*] to [*]."""
    flat = functional.cross_entropy(
        logits.float().flatten(0, -2), labels.flatten(), ignore_index=ZERO_ID, reduction="none"
    )
    return flat.view_as(labels)


def _compute_weighted_mean(nats: Tensor, weights: Tensor) -> Tensor:
    """Returns the weighted mean; zero with zero gradient if all weights are zero."""
    weights = weights.to(nats.dtype)
    total = weights.sum()
    return (nats * weights).sum() / torch.where(total > 0, total, torch.ones_like(total))


def _tally(values: Tensor, counted: Tensor) -> Tensor:
    """Returns the sum and the number of the values that are counted: float64 [2]."""
    counted = counted.double()
    return torch.stack([(values.detach().double() * counted).sum(), counted.sum()])
