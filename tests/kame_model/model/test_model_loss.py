"""The loss by hand, its weights, and the metrics apart."""

import math

import pytest
import torch
from torch.nn import functional

from data_schemas.config.model import LossConfig
from kame_model.frames.batch import Batch, collate
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from kame_model.model.front_end import Logits
from kame_model.model.loss import METRICS, compute_loss, compute_means
from tests.support.front_ends import (
    CARD,
    LAYOUT,
    N_CODEBOOKS,
    TEXT_CARD,
    audio_of,
    random_batch,
    random_example,
    tiny_front_end,
)


def random_logits(batch: Batch, seed: int = 0) -> Logits:
    draw = torch.Generator().manual_seed(seed)
    batch_size, n_positions = batch.text_labels.shape
    return Logits(
        torch.randn(batch_size, n_positions, TEXT_CARD, generator=draw, requires_grad=True),
        torch.randn(batch_size, N_CODEBOOKS, n_positions, CARD, generator=draw, requires_grad=True),
    )


def nats(logits: torch.Tensor, label: int) -> float:
    return float(-functional.log_softmax(logits.detach().double(), -1)[label])


def by_hand(logits: Logits, batch: Batch, weights: tuple[float, ...]) -> tuple[float, float]:
    """Text and audio as REFERENCE has them, one label at a time."""
    words, padding = list[float](), list[float]()
    for b, s in (batch.text_labels != ZERO_ID).nonzero().tolist():
        label = int(batch.text_labels[b, s])
        (padding if label == PADDING_ID else words).append(nats(logits.text[b, s], label))
    codes = [
        (weights[k], nats(audio_of(logits)[b, k, s], int(batch.audio_labels[b, k, s])))
        for b, k, s in (batch.audio_labels != ZERO_ID).nonzero().tolist()
    ]
    text = math.fsum(words) / len(words) + 0.5 * math.fsum(padding) / len(padding)
    return text, math.fsum(weight * each for weight, each in codes) / math.fsum(weight for weight, _ in codes)


@pytest.mark.parametrize("weights", [(100.0, 1.0, 1.0), (2.0, 0.0, 5.0)], ids=["Mimi's", "another codec's"])
def test_the_loss_is_that_of_the_release(weights: tuple[float, ...]) -> None:
    batch = random_batch(3)
    batch.text_labels[0, 5] = END_OF_PADDING_ID  # which counts as text
    logits = random_logits(batch)
    text, audio = by_hand(logits, batch, weights)
    weighted = {(1.0, 1.0): text + audio, (1.0, 0.0): text, (0.0, 1.0): audio, (1.0, 1.5): text + 1.5 * audio}
    for (text_weight, audio_weight), expected in weighted.items():  # the last as the paper has it
        config = LossConfig(text_weight=text_weight, audio_weight=audio_weight)
        assert compute_loss(logits, batch, config, weights).total.item() == pytest.approx(expected, rel=1e-5)
    assert LAYOUT.weights == (100.0, 1.0, 1.0)


def test_where_there_is_no_label_there_is_no_gradient() -> None:
    batch = random_batch(2)
    logits = random_logits(batch)
    total = compute_loss(logits, batch, LossConfig(), LAYOUT.weights).total
    text, audio = torch.autograd.grad(total, [logits.text, audio_of(logits)])
    assert (text[batch.text_labels == ZERO_ID] == 0).all()
    assert (audio[batch.audio_labels == ZERO_ID] == 0).all()
    assert (text[batch.text_labels != ZERO_ID].abs().sum(-1) > 0).all()
    assert (audio[batch.audio_labels != ZERO_ID].abs().sum(-1) > 0).all()


def test_answers_weigh_more_within_the_same_mean() -> None:
    batch = random_batch(2)
    logits = random_logits(batch)
    words = (batch.text_labels != PADDING_ID) & (batch.text_labels != ZERO_ID)
    losses = torch.tensor([nats(logits.text[b, s], int(batch.text_labels[b, s])) for b, s in words.nonzero().tolist()])
    weights = 1 + 3 * batch.answer_mask[words].double()
    wanted = (losses * weights).sum() / weights.sum()
    loss = compute_loss(logits, batch, LossConfig(answer_weight=4, padding_weight=0, audio_weight=0), LAYOUT.weights)
    assert loss.total.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_metrics_of_fed_frames_are_of_those_frames() -> None:
    batch = random_batch(2)
    logits = random_logits(batch)
    fed, apart = batch.oracle_fed, batch.text_labels.clone()
    apart[~fed] = ZERO_ID
    codes = batch.audio_labels.clone()
    codes[~fed[:, None].expand_as(codes)] = ZERO_ID
    of_fed = Batch(batch.columns, batch.oracle, apart, codes, batch.answer_mask, fed)
    figures = compute_means(compute_loss(logits, batch, LossConfig(), LAYOUT.weights).tallies)
    only = compute_means(compute_loss(logits, of_fed, LossConfig(), LAYOUT.weights).tallies)
    for name in ("text", "padding", "semantic", "acoustic"):
        assert figures[f"{name}_fed"] == pytest.approx(only[name], rel=1e-9)
        assert figures[name] != pytest.approx(only[name], rel=1e-3)


def test_tallies_add_up_over_micro_batches() -> None:
    examples = [random_example(12, seed) for seed in range(4)]
    whole = collate(examples)
    logits = random_logits(whole)
    halves = []
    for rows in (slice(0, 2), slice(2, 4)):
        half = Logits(logits.text[rows], audio_of(logits)[rows])
        halves.append(compute_loss(half, collate(examples[rows]), LossConfig(), LAYOUT.weights).tallies)
    together = compute_means(halves[0] + halves[1])
    assert together == pytest.approx(
        compute_means(compute_loss(logits, whole, LossConfig(), LAYOUT.weights).tallies), rel=1e-9
    )
    assert set(together) == set(METRICS)


def test_a_batch_without_audio_or_without_labels_is_no_nan() -> None:
    batch = random_batch(1)
    front_end = tiny_front_end()
    loss = compute_loss(
        front_end(batch.columns, batch.oracle, with_audio=False), batch, LossConfig(text_weight=0), LAYOUT.weights
    )
    assert loss.total.item() == 0
    assert "semantic" not in compute_means(loss.tallies)
    batch.text_labels[:], batch.audio_labels[:] = ZERO_ID, ZERO_ID
    nothing = compute_loss(front_end(batch.columns, batch.oracle), batch, LossConfig(), LAYOUT.weights)
    gradients = torch.autograd.grad(nothing.total, list(front_end.parameters()), allow_unused=True)
    assert nothing.total.item() == 0
    assert compute_means(nothing.tallies) == {}
    assert all((each == 0).all() for each in gradients if each is not None)


def test_half_precision_logits_are_summed_in_float32() -> None:
    batch = random_batch(2)
    logits = random_logits(batch)
    half = Logits(logits.text.bfloat16(), audio_of(logits).bfloat16())
    loss, exact = (compute_loss(each, batch, LossConfig(), LAYOUT.weights).total for each in (half, logits))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=1e-3)
