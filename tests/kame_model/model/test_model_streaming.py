"""One frame at a time comes to the same as the whole sequence at once."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from data_schemas.config.model import SamplingConfig
from kame_model.frames.cue import lay_cues
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import UNSAID, Frame, FrontEndGen
from tests.support.front_ends import CARD, N_CODEBOOKS, TEXT_CARD, audio_of, random_batch, tiny_front_end

pytestmark = pytest.mark.full

GREEDY = SamplingConfig(use_sampling=False)
FLOAT32, BFLOAT16 = 1e-5, 0.1
"""Differences of logits that rounding explains. Seen: 1.7e-6 in float32 and 0.027 in bfloat16."""


class Run(NamedTuple):
    """What came of streaming: logits [B, S, text_card] and [B, n, S, card], columns [B, K, S + 1], frames."""

    text: Tensor
    audio: Tensor
    columns: Tensor
    frames: list[Frame]


def heard_by(batch_size: int, n_positions: int) -> Tensor:
    """Random codes of the other, [B, n, S]: those of a frame before each call; the first is never read."""
    return torch.randint(0, CARD, (batch_size, N_CODEBOOKS, n_positions), generator=torch.Generator().manual_seed(1))


def kept(module: nn.Module, out: list[Tensor]) -> None:
    """From now on, the logits that a head gives for one frame are kept too."""
    module.register_forward_hook(lambda head, args, logits: out.append(logits[:, 0]))


def run_freely(front_end: FrontEnd, heard: Tensor, oracle: Tensor) -> Run:
    """Streams greedily and writes down, by hand and from moshi's layout, the columns that come of it."""
    batch_size, _, n_positions = heard.shape
    text: list[Tensor] = []
    audio: list[list[Tensor]] = [[] for _ in range(N_CODEBOOKS)]
    for module, out in zip([front_end.lm.text_linear, *front_end.lm.linears], [text, *audio], strict=True):
        kept(module, out)
    gen = FrontEndGen(front_end, GREEDY)
    with gen.streaming(batch_size):
        frames = [gen.step(heard[..., each], oracle[:, each]) for each in range(n_positions)]
    logits = torch.stack(text, 1), torch.stack([torch.stack(each, 1) for each in audio], 1)
    columns = torch.full((batch_size, 1 + 2 * N_CODEBOOKS, n_positions + 1), CARD)
    columns[:, 0, 0] = TEXT_CARD
    columns[:, 0, 1:] = logits[0].argmax(-1)
    columns[:, 1 : 1 + N_CODEBOOKS, 1:] = logits[1].argmax(-1)
    columns[:, 2 : 1 + N_CODEBOOKS, 1] = CARD  # acoustic codes come a column later
    columns[:, 1 + N_CODEBOOKS, 1:-1] = heard[:, 0, 1:]
    columns[:, 2 + N_CODEBOOKS :, 2:] = heard[:, 1:, 1:]
    return Run(*logits, columns, frames)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, FLOAT32), (torch.bfloat16, BFLOAT16)])
@pytest.mark.parametrize("mode", ["table", "tied"])
@pytest.mark.parametrize("fed", [True, False], ids=["oracle on", "oracle off"])
def test_a_streaming_step_is_the_training_forward_position_by_position(
    fed: bool, mode: str, dtype: torch.dtype, bound: float
) -> None:
    front_end = tiny_front_end(oracle=mode, tie_text_head=mode == "tied", dtype=dtype)
    oracle = random_batch().oracle if fed else torch.full((2, 21), PADDING_ID)
    run = run_freely(front_end, heard_by(*oracle.shape), oracle)
    with torch.no_grad():
        whole = front_end(run.columns, oracle if fed else None)
    audio = audio_of(whole)
    assert (whole.text - run.text).abs().max() < bound
    assert (audio[:, :2] - run.audio[:, :2]).abs().max() < bound
    # At the first position training has no acoustic code (they come a column later); streaming samples and drops one.
    assert (audio[:, 2:, 1:] - run.audio[:, 2:, 1:]).abs().max() < bound


def test_what_is_given_back_are_whole_frames_and_nothing_at_the_first_call() -> None:
    run = run_freely(tiny_front_end(), heard_by(2, 10), torch.full((2, 10), PADDING_ID))
    assert (run.frames[0].text == UNSAID).all()
    assert (run.frames[0].own == UNSAID).all()
    for frame, said in enumerate(run.frames[1:]):
        assert torch.equal(said.text, run.columns[:, 0, frame + 1])
        assert torch.equal(said.own[:, 0], run.columns[:, 1, frame + 1])
        assert torch.equal(said.own[:, 1:], run.columns[:, 2 : 1 + N_CODEBOOKS, frame + 2])


def test_an_oracle_changes_what_comes_after_it_and_nothing_before() -> None:
    heard, idle = heard_by(2, 21), torch.full((2, 21), PADDING_ID)
    fed = idle.clone()
    fed[0, 8] = TEXT_CARD
    without, with_oracle = (run_freely(tiny_front_end(), heard, each) for each in (idle, fed))
    assert torch.equal(without.text[:, :8], with_oracle.text[:, :8])
    assert (without.text[0, 8] != with_oracle.text[0, 8]).any()
    assert torch.equal(without.text[1], with_oracle.text[1])


def test_a_slot_that_was_reset_starts_anew_and_one_that_rests_stands_still() -> None:
    front_end, oracle = tiny_front_end(), torch.full((2,), PADDING_ID)
    heard = heard_by(1, 12).expand(2, -1, -1)
    gen = FrontEndGen(front_end, GREEDY)
    second = torch.tensor([False, True])
    said: list[Frame] = []
    with gen.streaming(2):
        said += [gen.step(heard[..., position], oracle) for position in range(4)]
        gen.reset(second)
        gen.rest(~second)  # the first slot rests while the second one, started anew, catches up
        said += [gen.step(heard[..., position], oracle) for position in range(4)]
        gen.rest(torch.tensor([False, False]))
        said += [gen.step(heard[..., position], oracle) for position in range(4, 8)]
    for first_time, second_time in zip(said[:4], said[4:8], strict=True):
        assert torch.equal(first_time.own[1], second_time.own[1])
        assert (second_time.text[0] == UNSAID).all()
    for frame in said[8:]:
        assert torch.equal(frame.own[0], frame.own[1])


def test_cues_are_those_of_the_training_forward_whoever_was_reset_or_rested() -> None:
    """The first slot says its oracle twice over, the second one rests for three calls and is reset at last."""
    front_end = tiny_front_end(cue=True)
    assert front_end.cue is not None
    seen: list[Tensor] = []
    front_end.cue.register_forward_pre_hook(lambda module, args: seen.append(args[0][:, -1]))
    oracle = [PADDING_ID, TEXT_CARD, 10, 11, 10, *[PADDING_ID] * 9]
    said = [PADDING_ID, 10, PADDING_ID, 11, 11, 10, 10, 11, *[PADDING_ID] * 6]
    heard, gen, places = heard_by(1, 1)[..., 0].expand(2, -1), FrontEndGen(front_end, GREEDY), [0, 0]
    expected = lay_cues([TEXT_CARD, *said[:-1]], oracle, TEXT_CARD)
    with gen.streaming(2):
        for call in range(12):
            rests = 4 <= call < 7
            gen.rest(torch.tensor([False, rests]))
            if call == 9:
                gen.reset(torch.tensor([False, True]))
                places[1] = 0
            impose = torch.full((2, 1 + N_CODEBOOKS), UNSAID)
            impose[:, 0] = torch.tensor([said[place] for place in places])
            gen.step(heard, torch.tensor([oracle[place] for place in places]), impose)
            assert int(seen[-1][0]) == expected[places[0]]
            assert rests or int(seen[-1][1]) == expected[places[1]]
            places = [places[0] + 1, places[1] + (not rests)]


def test_what_is_imposed_is_said() -> None:
    front_end, n_positions = tiny_front_end(), 8
    heard, oracle = heard_by(1, n_positions), torch.full((1,), PADDING_ID)
    impose = torch.full((1, 1 + N_CODEBOOKS), UNSAID)
    impose[0, 0], impose[0, 2] = 17, 5
    gen = FrontEndGen(front_end, GREEDY)
    with gen.streaming(1):
        said = [gen.step(heard[..., each], oracle, impose if each % 2 else None) for each in range(n_positions)]
    assert [int(frame.text) for frame in said[2::2]] == [17, 17, 17]
    assert [int(frame.own[0, 1]) for frame in said[1::2]] == [5, 5, 5, 5]
    assert {int(frame.text) for frame in said[1::2]} != {17}


def test_streaming_leaves_no_state_behind() -> None:
    front_end = tiny_front_end()
    batch = random_batch()
    with torch.no_grad():
        before = front_end(batch.columns, batch.oracle)
        run_freely(front_end, heard_by(2, 6), batch.oracle[:, :6])
        after = front_end(batch.columns, batch.oracle)
    assert torch.equal(before.text, after.text)
    assert torch.equal(audio_of(before), audio_of(after))
