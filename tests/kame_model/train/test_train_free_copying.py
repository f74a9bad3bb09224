"""How often an oracle is said once by a speaker that runs freely."""

import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from data_schemas.config.copying import CopyConfig
from kame_model.data.copying import CopyTrial, WordPieces, draw_trial
from kame_model.frames.ids import PADDING_ID
from kame_model.train.free_copying import generate_text, measure_copying
from tests.support.front_ends import LAYOUT, N_CODEBOOKS, TEXT_CARD, tiny_front_end

PIECES = WordPieces(range(4, 30), range(30, TEXT_CARD), TEXT_CARD, LAYOUT)
COURSE = CopyConfig(max_delay_frames=6, max_silence_frames=20, max_gap_frames=1)


def trials(n: int) -> list[CopyTrial]:
    draw = random.Random(0)
    return [draw_trial(PIECES, COURSE, draw) for _ in range(n)]


class Speaker:
    """Says its cue at once; and then, where it repeats, its last words without end."""

    n_codebooks, text_card, training = N_CODEBOOKS, TEXT_CARD, True

    def __init__(self, repeats: bool = False, leaves_out: int = -1) -> None:
        self._repeats, self._leaves_out = repeats, leaves_out
        self._last = torch.empty(0)
        self.lm: Any = SimpleNamespace(device=torch.device("cpu"), forward_text=self._forward)
        self.lm.transformer = SimpleNamespace(streaming=lambda n: nullcontext())

    def eval(self) -> None:
        self._last = torch.empty(0)

    def train(self, mode: bool) -> None:
        assert mode, "the mode in which it was"

    def compute_condition(self, oracle: Tensor, cues: Tensor) -> Tensor:
        said = cues[:, 0].clone()
        said[said == self._leaves_out] = PADDING_ID
        if self._repeats and len(self._last):
            said = torch.where(said == PADDING_ID, self._last, said)
        self._last = said
        return said

    def _forward(self, column: Tensor, said: Tensor) -> tuple[None, Tensor]:
        return None, 50 * torch.nn.functional.one_hot(said, TEXT_CARD)[:, None, None].float()


def test_a_speaker_of_its_cues_says_each_oracle_once() -> None:
    figures = measure_copying(Speaker(), trials(8))  # type: ignore[arg-type]
    assert figures == {
        f"{name}_{how}": float(name != "more")
        for name in ("once", "first", "more", "token")
        for how in ("greedy", "sampled")
    }


def test_what_is_said_again_is_told() -> None:
    figures = measure_copying(Speaker(repeats=True), trials(8))  # type: ignore[arg-type]
    assert (figures["once_greedy"], figures["first_greedy"], figures["more_greedy"]) == (0.0, 1.0, 1.0)


def test_a_token_that_is_never_said_ends_what_is_right() -> None:
    tried = trials(30)
    figures = measure_copying(Speaker(leaves_out=7), tried)  # type: ignore[arg-type]
    lacking = [7 in each.tokens for each in tried]
    assert 0 < sum(lacking) < 30
    assert figures["once_greedy"] == pytest.approx(1 - sum(lacking) / 30)
    n_right = sum([*each.tokens, 7].index(7) for each in tried)
    assert figures["token_greedy"] == pytest.approx(n_right / (n_right + sum(lacking)))


def test_a_real_one_says_what_its_training_forward_foresees() -> None:
    front_end, tried = tiny_front_end(cue=True, oracle="tied"), trials(2)
    with torch.no_grad():
        assert front_end.cue is not None
        front_end.cue.projection.weight.copy_(torch.eye(32))  # its cues are heard
    said = torch.from_numpy(generate_text(front_end, tried, 0.0))
    n = min(len(each.oracle) for each in tried)
    columns = torch.full((2, 1 + 2 * N_CODEBOOKS, n + 1), -1)
    columns[:, 0, 0], columns[:, 0, 1:] = TEXT_CARD, said[:, :n]
    oracle = torch.stack([torch.from_numpy(each.oracle[:n]).long() for each in tried])
    with torch.no_grad():
        foreseen = front_end(columns, oracle, with_audio=False).text.argmax(-1)
    assert torch.equal(foreseen, said[:, :n])
