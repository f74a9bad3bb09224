"""A dialogue as a sequence: delays, tail, labels, chunks and batches, by hand and against stock moshi."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from moshi.models.lm_utils import _delay_sequence
from numpy.typing import NDArray

from data_schemas.code_layout import CodeLayout
from kame_model.frames.batch import Example, collate
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, make_oracle_stream
from kame_model.frames.sequence import cut_chunks, make_columns, make_labels, select_events

TEXT_CARD, CARD = 1000, 64
LAYOUT = CodeLayout.make_mimi(2, CARD)


def tokens(*rows: list[int]) -> NDArray[np.int32]:
    return np.array(rows, np.int32)


def dialogue(
    n_frames: int, n_codebooks: int = 2, seed: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    draw = np.random.default_rng(seed)
    codes = draw.integers(0, CARD, (2, n_codebooks, n_frames)).astype(np.int32)
    return draw.integers(4, TEXT_CARD, n_frames).astype(np.int32), codes[0], codes[1]


def example(n_frames: int, events: list[OracleTokenEvent] | None = None) -> Example:
    columns = make_columns(*dialogue(n_frames), TEXT_CARD, LAYOUT)
    answer = np.arange(n_frames + 1) == 1
    return Example.from_columns(
        columns, make_oracle_stream(events or [], n_frames + 1, TEXT_CARD), answer, TEXT_CARD, CARD
    )


def test_missing_codes_stay_missing_and_are_no_labels() -> None:
    text, own, other = dialogue(4)
    columns = make_columns(text, np.full_like(own, ZERO_ID), other, TEXT_CARD, LAYOUT)
    assert columns[1, 1:5].tolist() == [ZERO_ID] * 4
    assert set(make_labels(columns, TEXT_CARD, CARD)[1].ravel().tolist()) == {ZERO_ID}


def test_parts_of_different_dialogues_are_refused() -> None:
    text, own, other = dialogue(4)
    with pytest.raises(ValueError, match="not of one dialogue"):
        make_columns(text[:3], own, other, TEXT_CARD, LAYOUT)
    with pytest.raises(ValueError, match="not of one dialogue"):
        make_columns(text, own, other[:1], TEXT_CARD, LAYOUT)


def test_text_leads_the_own_sound_and_what_is_heard_comes_at_once() -> None:
    led = CodeLayout.make_parametric([CARD, 8], text_lead=2, temp=0.4)
    columns = make_columns(tokens([5, 6, 3])[0], tokens([10, 11, 12], [1, 2, 3]), tokens([30, 31, 32], [4, 5, 6]),
                           TEXT_CARD, led)  # fmt: skip
    assert columns.tolist() == [
        [1000, 5, 6, 3, 3],
        [64, 64, 64, 10, 11],
        [64, 64, 64, 1, 2],
        [64, 30, 31, 32, 64],
        [64, 4, 5, 6, 64],
    ]
    assert make_labels(columns, TEXT_CARD, CARD)[1].tolist() == [[-1, -1, 10, 11], [-1, -1, 1, 2]]


@given(n_frames=st.integers(1, 12), n_codebooks=st.integers(1, 8), lead=st.integers(-1, 3), seed=st.integers(0, 99))
def test_all_but_the_tail_is_what_stock_moshi_delays(n_frames: int, n_codebooks: int, lead: int, seed: int) -> None:
    of_mimi = CodeLayout.make_mimi(n_codebooks, CARD)
    layout = of_mimi if lead < 0 else CodeLayout.make_parametric(of_mimi.sizes, lead, temp=1.0)
    text, own, other = dialogue(n_frames, n_codebooks, seed)
    initial = torch.tensor([TEXT_CARD] + [CARD] * 2 * n_codebooks)[None, :, None]
    codes = torch.from_numpy(np.concatenate([text[None], own, other])).long()[None]
    stock = torch.cat([initial, _delay_sequence(list(layout.of_rows), codes, initial)], dim=2)[0]
    assert make_columns(text, own, other, TEXT_CARD, layout)[:, :-1].tolist() == stock.tolist()


@given(n_columns=st.integers(1, 3000), longest=st.integers(1, 600))
def test_chunks_are_those_of_array_split(n_columns: int, longest: int) -> None:
    split = np.array_split(np.arange(n_columns), -(-n_columns // longest))
    found = cut_chunks(n_columns, longest)
    assert [list(range(*chunk)) for chunk in found] == [part.tolist() for part in split]
    assert max(chunk.stop - chunk.start for chunk in found) <= longest


@given(frames=st.lists(st.integers(0, 59), max_size=6).map(sorted), longest=st.integers(2, 70))
def test_a_chunks_oracle_is_the_wholes_less_tails_across_its_border(frames: list[int], longest: int) -> None:
    events: list[OracleTokenEvent] = [(frame, [10 + index] * 5) for index, frame in enumerate(frames)]
    whole = make_oracle_stream(events, 61, TEXT_CARD)
    for chunk in cut_chunks(62, longest):
        laid = make_oracle_stream(select_events(events, chunk), chunk.stop - chunk.start - 1, TEXT_CARD)
        expected = whole[chunk.start : chunk.stop - 1].copy()
        starts = np.flatnonzero(expected == TEXT_CARD)
        expected[: starts[0] if len(starts) else None] = PADDING_ID
        assert laid.tolist() == expected.tolist()


def test_an_example_has_the_labels_of_its_columns_and_knows_where_it_is_fed() -> None:
    one = example(4, [(1, [7])])
    assert one.n_positions == 5
    assert one.text_labels.tolist() == one.columns[0, 1:].tolist()
    assert one.oracle_fed.tolist() == [False, False, True, True, False]


def test_a_batch_is_padded_with_what_is_no_token_no_label_and_no_oracle() -> None:
    short, long = example(3, [(0, [7])]), example(6)
    batch = collate([short, long])
    assert batch.columns.shape == (2, 5, 33)
    assert batch.audio_labels.shape == (2, 2, 32)
    assert batch.columns[0, :, :5].tolist() == short.columns.tolist()
    assert batch.inputs.tolist() == batch.columns[..., :-1].tolist()
    assert set(batch.columns[0, :, 5:].flatten().tolist()) == {ZERO_ID}
    assert batch.oracle[0].tolist() == [3, TEXT_CARD, 7, *[3] * 29]
    assert batch.text_labels[0, 4:].tolist() == [ZERO_ID] * 28
    assert batch.audio_labels[0, :, 4:].flatten().tolist() == [ZERO_ID] * 56
    assert batch.answer_mask.tolist() == [[at == 1 for at in range(32)]] * 2
    assert batch.oracle_fed.sum().item() == 2
    assert (batch.columns.dtype, batch.oracle_fed.dtype) == (torch.int64, torch.bool)
