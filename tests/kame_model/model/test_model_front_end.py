"""The training forward: what reaches what, and what stock moshi makes of the same tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from moshi.models import loaders
from moshi.models.lm import LMModel
from moshi.utils.compile import no_compile

from data_schemas.code_layout import CodeLayout
from data_schemas.config.model import InputDropoutConfig, ModelConfig
from data_schemas.presets import PRESETS
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.model.front_end import build_front_end, drop_inputs, make_lm_kwargs
from tests.support.front_ends import CARD, N_CODEBOOKS, TEXT_CARD, audio_of, random_batch, stock_logits, tiny_front_end


def test_shapes_are_those_of_the_contract() -> None:
    batch = random_batch(batch_size=3)
    logits = tiny_front_end()(batch.columns, batch.oracle)
    assert logits.text.shape == (3, 32, TEXT_CARD)
    assert audio_of(logits).shape == (3, N_CODEBOOKS, 32, CARD)
    assert tiny_front_end()(batch.columns, batch.oracle, with_audio=False).audio is None


@pytest.mark.parametrize("mode", ["table", "tied"])
def test_the_zero_token_as_oracle_is_stock_moshi_without_condition(mode: str) -> None:
    front_end, batch = tiny_front_end(oracle=mode), random_batch()
    stock = LMModel(dtype=torch.float32, **front_end.lm_kwargs).eval()
    stock.load_state_dict(front_end.lm.state_dict(), strict=True)
    with torch.no_grad():
        ours = front_end(batch.columns, torch.full_like(batch.oracle, ZERO_ID))
    theirs = stock_logits(stock, batch)
    assert torch.equal(ours.text, theirs.text)
    assert torch.equal(audio_of(ours), audio_of(theirs))


def test_no_oracle_is_the_padding_vector_everywhere_not_nothing() -> None:
    front_end, batch = tiny_front_end(), random_batch()
    with torch.no_grad():
        silent = front_end(batch.columns)
        nothing = front_end(batch.columns, torch.full_like(batch.oracle, ZERO_ID))
    padding = front_end.oracle.embedding.weight[PADDING_ID].expand(*batch.oracle.shape, -1)
    assert torch.equal(silent.text, stock_logits(front_end.lm, batch, padding).text)
    assert not torch.allclose(silent.text, nothing.text, atol=1e-3)


def test_a_tied_oracle_says_nothing_where_there_is_none() -> None:
    front_end, batch = tiny_front_end(oracle="tied"), random_batch()
    with torch.no_grad():
        silent, nothing = front_end(batch.columns), front_end(batch.columns, torch.full_like(batch.oracle, ZERO_ID))
    assert torch.equal(silent.text, nothing.text)


@pytest.mark.parametrize("mode", ["table", "tied"])
def test_the_oracle_reaches_its_own_position_and_later_ones_only(mode: str) -> None:
    front_end, batch = tiny_front_end(oracle=mode), random_batch()
    other = batch.oracle.clone()
    other[:, 9] = (other[:, 9] + 5) % TEXT_CARD
    with torch.no_grad():
        one, two = front_end(batch.columns, batch.oracle), front_end(batch.columns, other)
    assert torch.equal(one.text[:, :9], two.text[:, :9])
    assert torch.equal(audio_of(one)[:, :, :9], audio_of(two)[:, :, :9])
    assert (one.text[:, 9] != two.text[:, 9]).any()


def test_a_tied_text_head_is_the_text_embedding_and_learns_with_it() -> None:
    front_end, batch = tiny_front_end(tie_text_head=True), random_batch()
    assert "lm.text_linear.weight" not in front_end.state_dict()
    said = front_end(batch.columns, with_audio=False).text.sum()
    (gradient,) = torch.autograd.grad(said, [front_end.lm.text_emb.weight])
    never_read = sorted(set(range(TEXT_CARD)) - set(batch.columns[:, 0].flatten().tolist()))
    assert gradient[never_read].abs().sum(-1).min() > 0


@pytest.mark.parametrize("config", [PRESETS["nano"].model, PRESETS["small"].model], ids=lambda config: config.preset)
def test_presets_are_what_is_said_of_them(config: ModelConfig) -> None:
    text_card, card = {"nano": (2000, 512), "small": (8000, 2048)}[config.preset]
    front_end = build_front_end(config, text_card, CodeLayout.make_mimi(8, card), device="meta")
    n_parameters = sum(parameter.numel() for parameter in front_end.parameters())
    least, most = {"nano": (5e6, 25e6), "small": (2e8, 5e8)}[config.preset]
    assert least < n_parameters < most


def test_moshi_7b_has_kyutais_own_keyword_arguments() -> None:
    assert make_lm_kwargs(PRESETS["moshi-7b"].model, 32_000, CodeLayout.make_mimi(8, 2048)) == loaders._lm_kwargs


@given(seed=st.integers(0, 1000), text=st.floats(0, 1), own=st.floats(0, 1), dialogue=st.floats(0, 1))
def test_dropout_takes_only_what_it_may(seed: int, text: float, own: float, dialogue: float) -> None:
    inputs = random_batch().inputs
    config = InputDropoutConfig(text=text, own_audio=own, own_audio_dialogue=dialogue)
    dropped = drop_inputs(inputs, config, torch.Generator().manual_seed(seed))
    changed = dropped != inputs
    assert (dropped[changed] == ZERO_ID).all()
    assert not changed[..., 0].any()
    assert not changed[:, 1 + N_CODEBOOKS :].any()
    again = drop_inputs(inputs, config, torch.Generator().manual_seed(seed))
    assert torch.equal(dropped, again)


def test_dropout_shares_are_shares() -> None:
    inputs = torch.ones(200, 1 + 2 * N_CODEBOOKS, 101, dtype=torch.long)
    config = InputDropoutConfig(text=0.2, own_audio=0.1, own_audio_dialogue=0.5)
    gone = drop_inputs(inputs, config, torch.Generator().manual_seed(0))[..., 1:] == ZERO_ID
    assert gone[:, 0].double().mean() == pytest.approx(0.2, abs=0.01)
    own = gone[:, 1 : 1 + N_CODEBOOKS]
    assert torch.equal(own[:, 0], own[:, -1])
    assert own.all(-1).double().mean() == pytest.approx(0.5, abs=0.1)
    assert own.double().mean() == pytest.approx(0.55, abs=0.1)
    nothing = drop_inputs(inputs, InputDropoutConfig(), torch.Generator())
    assert torch.equal(nothing, inputs)


def test_dropped_input_leaves_the_depth_transformer_its_codes() -> None:
    front_end, batch = tiny_front_end(), random_batch()
    dropped = batch.inputs.clone()
    dropped[:, 1 : 1 + N_CODEBOOKS, 1:] = ZERO_ID
    with torch.no_grad():
        ours = front_end(batch.columns, batch.oracle, inputs=dropped)
        with no_compile():
            hidden, _ = front_end.lm.forward_text(dropped, front_end.compute_condition(batch.oracle))
            audio = front_end.lm.forward_depformer_training(batch.columns[..., 1:], hidden)
    assert torch.equal(audio_of(ours), audio)
