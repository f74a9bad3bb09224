"""One step for all slots: each says what it would say alone, and nothing of who had it before."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from backends.codec.protocol import Codec
from backends.conformance import make_chirps
from data_schemas.config.model import SamplingConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.checkpoint.load import Checkpoint
from kame_model.frames.ids import PADDING_ID
from kame_model.model.streaming import FrontEndGen
from kame_model.serve.device.engine import FrameIn, FrameOut, FrontEndEngine
from tests.support.codecs import TINY_LAYOUT, open_mimi, tiny_mimi
from tests.support.serving import tiny_checkpoint

pytestmark = pytest.mark.full

N_SLOTS, N_FRAMES = 2, 70  # more frames than the model's attention (64) and the codec's (10) look back
LIKELIEST = SamplingConfig(use_sampling=False)


@pytest.fixture(scope="module")
def codec(checkpoint: Checkpoint) -> Codec:
    return checkpoint.load_codec()


@pytest.fixture(scope="module")
def engine(checkpoint: Checkpoint, codec: Codec) -> Iterator[FrontEndEngine]:
    with FrontEndEngine(checkpoint.front_end, codec, checkpoint.load_tokenizer(), N_SLOTS, LIKELIEST) as engine:
        yield engine


class Voice:
    """A caller of the engine: a sound and oracle ids of its own, a frame after the other."""

    def __init__(self, seed: int, n_frames: int = N_FRAMES) -> None:
        self._sound = 8 * make_chirps(seed, n_frames * FRAME_N_SAMPLES)
        self._oracle = [PADDING_ID, *np.random.default_rng(seed).integers(3, 300, n_frames)]
        self.said: list[FrameOut] = []

    @property
    def is_over(self) -> bool:
        return len(self.said) * FRAME_N_SAMPLES == len(self._sound)

    def next(self) -> FrameIn:
        return self.next_at(len(self.said))

    def next_at(self, at: int) -> FrameIn:
        return FrameIn(self._sound[at * FRAME_N_SAMPLES :][:FRAME_N_SAMPLES], int(self._oracle[at]))


def fresh(engine: FrontEndEngine) -> None:
    for slot in range(N_SLOTS):
        engine.reset(slot)


def step(engine: FrontEndEngine, voices: dict[int, Voice]) -> None:
    for slot, said in engine.step({slot: voice.next() for slot, voice in voices.items()}).items():
        voices[slot].said.append(said)


def alone(engine: FrontEndEngine, seed: int, slot: int = 0) -> Voice:
    fresh(engine)
    voice = Voice(seed)
    while not voice.is_over:
        step(engine, {slot: voice})
    return voice


def same(one: Sequence[FrameOut], other: Sequence[FrameOut]) -> bool:
    """To the last bit."""
    return len(one) == len(other) and all(
        np.array_equal(a.samples, b.samples) and a[1:] == b[1:] for a, b in zip(one, other, strict=True)
    )


def test_a_voice_says_the_same_whoever_comes_and_goes_beside_it(engine: FrontEndEngine) -> None:
    expected = {number: alone(engine, number, slot=number % N_SLOTS) for number in range(N_SLOTS + 1)}
    fresh(engine)
    random = np.random.default_rng(0)
    present: dict[int, Voice] = {}
    came = {slot: [number for number in expected if number % N_SLOTS == slot] for slot in range(N_SLOTS)}
    heard = {number: Voice(number) for number in expected}
    left_early = set()
    while present or any(came.values()):
        for slot in range(N_SLOTS):
            if slot not in present and came[slot] and random.random() < 0.2:
                present[slot] = heard[came[slot].pop(0)]
        step(engine, {slot: voice for slot, voice in present.items() if random.random() < 0.8})
        for slot, voice in list(present.items()):
            vanishes = random.random() < 0.01
            if voice.is_over or vanishes:
                engine.reset(slot)
                left_early |= {voice} if vanishes else set()
                del present[slot]
    for number, voice in heard.items():
        assert same(voice.said, expected[number].said[: len(voice.said)])
        assert voice.is_over or voice in left_early
    texts = ["".join(said.text for said in voice.said) for voice in expected.values()]
    assert len(set(texts)) == len(texts)  # so they could have been told apart


def test_a_slot_keeps_nothing_of_a_caller_who_was_as_loud_as_can_be(engine: FrontEndEngine) -> None:
    expected = alone(engine, 5)
    square = np.where(np.arange(FRAME_N_SAMPLES) % 7 < 3, 1, -1).astype(np.float32)
    for at in range(N_FRAMES):
        engine.step({0: FrameIn(square, at % 300)})
    engine.reset(0)
    voice = Voice(5)
    while not voice.is_over:
        step(engine, {0: voice})
    assert same(voice.said, expected.said)


def test_a_frame_heard_is_read_by_the_next_step_with_the_oracle_of_its_position(tmp_path: Path) -> None:
    """What the first step is given lies before the model's time; by hand, with the codes of the whole sound."""
    checkpoint = tiny_checkpoint(tmp_path)
    codec = checkpoint.load_codec()
    with FrontEndEngine(checkpoint.front_end, codec, checkpoint.load_tokenizer(), N_SLOTS, LIKELIEST) as engine:
        said = alone(engine, 7).said
    voice = Voice(7)
    heard = [voice.next_at(at) for at in range(N_FRAMES)]
    codes = codec.encode([np.concatenate([each.samples for each in heard[1:]])])[0].astype(np.int64)
    gen = FrontEndGen(checkpoint.front_end, LIKELIEST)
    own = []
    with gen.streaming(1):
        for at, frame_in in enumerate(heard):
            frame = gen.step(torch.from_numpy(codes[None, :, max(at - 1, 0)]), torch.tensor([frame_in.oracle]))
            assert at == 0 or int(frame.text[0]) == said[at].text_token
            own.append(frame.own[0].numpy())
    sound = codec.decode(np.stack(own[1:], axis=1).astype(np.int16))
    assert np.allclose(np.concatenate([each.samples for each in said[1:]]), sound, atol=1e-5)
    assert not said[0].samples.any()
    assert said[0].text == ""


def test_slots_that_rest_from_the_start_spoil_no_draw(checkpoint: Checkpoint, tmp_path: Path) -> None:
    other = tiny_checkpoint(tmp_path)
    drawn = SamplingConfig(use_sampling=True)
    with FrontEndEngine(other.front_end, other.load_codec(), other.load_tokenizer(), N_SLOTS, drawn) as engine:
        voice = alone(engine, 1, slot=1)
    assert all(np.isfinite(said.samples).all() for said in voice.said)


def test_measuring_leaves_nothing_behind(engine: FrontEndEngine) -> None:
    expected = alone(engine, 3)
    assert engine.measure(2) > 0
    voice = Voice(3)
    while not voice.is_over:
        step(engine, {1: voice})
    assert same(voice.said, expected.said)


def test_text_is_that_of_the_inner_monologue(engine: FrontEndEngine, checkpoint: Checkpoint) -> None:
    said = alone(engine, 4).said
    tokens = [each.text_token for each in said]
    known = [token for token in tokens if token != checkpoint.load_tokenizer().unknown_id]
    assert "".join(each.text for each in said).strip() == checkpoint.load_tokenizer().decode(known).strip()


def test_one_who_is_not_heard_writes_the_same_and_is_silent(engine: FrontEndEngine, tmp_path: Path) -> None:
    expected = [each.text for each in alone(engine, 5).said]
    same = tiny_checkpoint(tmp_path)
    with FrontEndEngine(
        same.front_end, same.load_codec(), same.load_tokenizer(), N_SLOTS, LIKELIEST, is_heard=False
    ) as unheard:
        said = alone(unheard, 5).said
    assert [each.text for each in said] == expected
    assert not any(each.samples.any() for each in said)


def test_a_codec_of_other_codes_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    tiny_mimi(tmp_path / "codec")
    two = open_mimi(tmp_path / "codec", n_codebooks=2)
    with pytest.raises(ConfigError, match=f"speaks 3 codebooks of {TINY_LAYOUT.card} entries"):
        FrontEndEngine(checkpoint.front_end, two, checkpoint.load_tokenizer(), N_SLOTS, LIKELIEST)
