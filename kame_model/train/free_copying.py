"""Measures whether a front-end that runs freely says an oracle once and is then silent; text only."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from data_schemas import ids
from kame_model.data.copying import CopyTrial
from kame_model.frames.cue import Cue
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.model.front_end import FrontEnd, disable_compilation_on_cpu

N_TRIALS = 32
"""Maximum number of oracles at each validation: half a minute on one core with `nano`."""

TEMPERATURES = {"greedy": 0.0, "sampled": 0.3}
"""Sampling temperatures of the text; 0: always the most likely token."""


def measure_copying(front_end: FrontEnd, trials: Sequence[CopyTrial]) -> dict[str, float]:
    """Returns shares of the trials, each by its name and `greedy` or `sampled`.

    `once`: all that was said is the oracle, to the last token. `first`: it begins with the oracle, whatever follows.
    `more`: at least half as many tokens again as the oracle has were said. `token`: the probability that the next token
    is right if all before it were.

    Args:
        front_end: on one device; its mode is restored.
        trials: at least one; they run as one batch.
    """
    was_training = front_end.training
    front_end.eval()
    figures = {
        f"{name}_{how}": share
        for how, temperature in TEMPERATURES.items()
        for name, share in _compute_shares(generate_text(front_end, trials, temperature), trials).items()
    }
    front_end.train(was_training)
    return figures


@torch.no_grad()
def generate_text(front_end: FrontEnd, trials: Sequence[CopyTrial], temperature: float) -> NDArray[np.int64]:
    """Returns the text tokens that a free-running model generates for each trial, [trials, positions].

    The model reads its own text, and there is no audio.

    Args:
        front_end: in evaluation mode.
        trials: the oracles, run as one batch; shorter ones are padded.
        temperature: sampling temperature of the text, with the same seed in each call; 0: always the most likely token.
    """
    lm, n = front_end.lm, len(trials)
    n_positions = max(len(each.oracle) for each in trials)
    oracle = torch.full((n, n_positions), PADDING_ID)
    for row, trial in zip(oracle, trials, strict=True):
        row[: len(trial.oracle)] = torch.from_numpy(trial.oracle)
    draw = torch.Generator().manual_seed(ids.derive_seed("free copying"))
    column = torch.full((n, 1 + 2 * front_end.n_codebooks, 1), ZERO_ID)
    column[:, 0] = front_end.text_card
    cues = [Cue(front_end.text_card) for _ in trials]
    text = torch.empty(n, n_positions, dtype=torch.int64)
    with disable_compilation_on_cpu(lm.device), lm.transformer.streaming(n):
        for at in range(n_positions):
            fed = oracle[:, at : at + 1]
            for cue, each in zip(cues, fed[:, 0].tolist(), strict=True):
                cue.feed(each)
            cued = torch.tensor([[cue.token] for cue in cues], device=lm.device)
            condition = front_end.compute_condition(fed.to(lm.device), cued)
            logits = lm.forward_text(column.to(lm.device), condition)[1][:, 0, 0].float().cpu()
            text[:, at] = column[:, 0, 0] = _sample_ids(logits, temperature, draw)
            for cue, each in zip(cues, text[:, at].tolist(), strict=True):
                cue.say(each)
    return text.numpy()


def _sample_ids(logits: Tensor, temperature: float, draw: torch.Generator) -> Tensor:
    """Samples ids [B] from logits [B, card]; with temperature 0 the most likely ones."""
    if not temperature:
        return logits.argmax(-1)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=draw)[:, 0]


def _compute_shares(text: NDArray[np.int64], trials: Sequence[CopyTrial]) -> dict[str, float]:
    """Returns the shares of `measure_copying` for texts [trials, positions], by name."""
    n_once = n_first = n_more = n_right = n_tried = 0
    for row, trial in zip(text, trials, strict=True):
        said = [token for token in row[: len(trial.oracle)].tolist() if token > PADDING_ID]
        fed = trial.tokens
        n_same = next((at for at, pair in enumerate(zip(said, fed, strict=False)) if pair[0] != pair[1]), len(said))
        n_same = min(n_same, len(fed))
        n_once += said == fed
        n_first += n_same == len(fed)
        n_more += len(said) >= 1.5 * len(fed)
        n_right += n_same
        n_tried += min(n_same + 1, len(fed))
    n = len(trials)
    return {"once": n_once / n, "first": n_first / n, "more": n_more / n, "token": n_right / n_tried}
